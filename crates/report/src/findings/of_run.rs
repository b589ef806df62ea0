//! The bad findings of the machine in the report of a run.

use punctual_record::finding::{BadFinding, Finding, RunFindings};
use punctual_record::remedy::BillsAsk;
use punctual_record::{Run, cpu_list};
use punctual_stats::verdict::Outcome;

use super::{command, sentence, text};
use crate::style::{Style, Tone};
use crate::words;

/// The priority that `check` takes without `-p`.
const PRIORITY: u32 = 80;
/// The name and the title of a finding have this many columns.
const NAME: usize = 24;

/// The command that finds them all again.
fn again(findings: &RunFindings) -> String {
    let mut command = "punctual check".to_owned();
    if !findings.cpus.is_empty() {
        command += &format!(" -a {}", cpu_list(&findings.cpus));
    }
    if findings.priority != PRIORITY {
        command += &format!(" -p {}", findings.priority);
    }
    command
}

/// How many there are, and for which CPUs.
fn counts(findings: &RunFindings) -> String {
    let mut text = match findings.bad.len() as u64 {
        0 => "no finding is bad".to_owned(),
        bad => format!("{} bad", words::plural(bad, "finding is", "findings are")),
    };
    if findings.unknown > 0 {
        text += &format!(", {} unknown", words::count(findings.unknown));
    }
    if !findings.cpus.is_empty() {
        text += &format!(" for CPU {}", cpu_list(&findings.cpus));
    }
    text
}

/// The bad findings that can explain late wake-ups, the most important first.
fn that_matter<'r>(run: &Run, findings: &'r RunFindings) -> Vec<&'r BadFinding> {
    let asked = BillsAsk::of(run, None).map_or_else(Vec::new, |ask| ask.knobs());
    findings.that_matter(&asked)
}

/// Whether there are late wake-ups to explain, or a condition that was not in force.
fn has_trouble(run: &Run) -> bool {
    let outcome = run.verdict.as_ref().map(|verdict| verdict.outcome);
    outcome.is_some_and(|outcome| outcome != Outcome::Pass)
}

/// The section of a summary.
pub(crate) struct Section {
    /// How many findings are bad.
    pub head: Vec<String>,
    /// Some of them; a run that passed has none to explain.
    pub named: Vec<String>,
    /// The command that lists them.
    pub all: Vec<String>,
}

/// The section of a summary with at most so many findings; nothing where the machine was not
/// checked.
#[must_use]
pub(crate) fn section(run: &Run, style: &Style, most: usize) -> Option<Section> {
    let findings = run.findings.as_ref()?;
    let head = format!("The machine before the run: {}", counts(findings));
    let head = words::shortened(&head, style.columns());
    let room = style.columns().saturating_sub(NAME + 4);
    let line = |finding: &BadFinding| {
        let (said, _) = in_words(&finding.finding());
        let said = words::shortened(&said, room);
        let line = format!("  {:<NAME$}  {said}", finding.id.name());
        style.paint(Tone::Plain, &line)
    };
    let most = if has_trouble(run) { most } else { 0 };
    let named = that_matter(run, findings).into_iter().take(most);
    let named = named.map(line).collect();
    let mut all = Vec::new();
    if !findings.bad.is_empty() || findings.unknown > 0 {
        let line = format!("  all of them: {}", again(findings));
        all.push(style.paint(Tone::Dim, &line));
    }
    Some(Section {
        head: vec![style.paint(Tone::Bold, &head)],
        named,
        all,
    })
}

/// What stands above the table of a page.
#[must_use]
pub(crate) fn caption(findings: &RunFindings) -> String {
    let mut text = format!(
        "{}; read in {} before the probes were started. `{}` reads them again",
        counts(findings),
        words::duration(findings.took_ns),
        again(findings)
    );
    if findings.left_out > 0 {
        text += &format!(
            "; {} not recorded",
            words::plural(findings.left_out, "more fix was", "more fixes were")
        );
    }
    text
}

/// The bad findings, those first that can explain late wake-ups.
#[must_use]
pub(crate) fn in_order(run: &Run, findings: &RunFindings) -> Vec<Finding> {
    let mut all = that_matter(run, findings);
    for finding in &findings.bad {
        if !all.iter().any(|known| known.id == finding.id) {
            all.push(finding);
        }
    }
    all.into_iter().map(BadFinding::finding).collect()
}

/// What was found, and each fix as a command.
#[must_use]
pub(crate) fn in_words(finding: &Finding) -> (String, Vec<String>) {
    let said = format!("{}: {}", text(finding.id).title, sentence(finding));
    let fixes = finding.fixes.iter();
    (said, fixes.map(|fix| command(finding, fix)).collect())
}
