//! Findings on a terminal.

use std::fmt::Write as _;

use punctual_record::cpu_list;
use punctual_record::finding::{
    Check, Difference, Finding, FindingFix, FindingId, ReadResult, StateKind,
};

use super::evidence::{seen, source_words};
use super::{command, group_title, sentence, state_word, text, undo};
use crate::style::{Style, Tone, wrap};

/// What was found: the bad and the unknown, with what fixes them; in a verbose style all.
#[must_use]
pub fn summary(check: &Check, style: &Style) -> String {
    let mut out = String::new();
    let counts: Vec<String> = StateKind::ALL
        .iter()
        .map(|kind| format!("{} {}", check.count(*kind), state_word(*kind)))
        .collect();
    let head = format!(
        "{} ({}): {}",
        check.hostname,
        check.kernel,
        counts.join(", ")
    );
    push_toned(&mut out, Tone::Bold, "", &head, style);
    let cpus = if check.cpus.is_empty() {
        "CPUs for real-time work: none named (-a) and none isolated".to_owned()
    } else {
        format!("CPUs for real-time work: {}", cpu_list(&check.cpus))
    };
    push_wrapped(&mut out, "", &cpus, style);
    for kind in StateKind::ALL {
        let shown = style.verbose || matches!(kind, StateKind::Bad | StateKind::Unknown);
        if shown {
            section(&mut out, check, kind, style);
        }
    }
    if !style.verbose {
        out.push_str("\n-v prints all findings; --explain NAME explains one.\n");
    }
    out
}

fn tone(kind: StateKind) -> Tone {
    match kind {
        StateKind::Bad => Tone::Bad,
        StateKind::Unknown => Tone::Unsure,
        StateKind::Information => Tone::Plain,
        StateKind::Ok => Tone::Good,
        StateKind::NotApplicable => Tone::Dim,
    }
}

fn section(out: &mut String, check: &Check, kind: StateKind, style: &Style) {
    let of_kind = |finding: &&Finding| finding.state.kind() == kind;
    let mut findings: Vec<&Finding> = check.findings.iter().filter(of_kind).collect();
    // What costs most first; the others are looked up by their name.
    if kind == StateKind::Bad {
        findings.sort_by_key(|finding| finding.id.bearing());
    }
    if findings.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{}", style.paint(tone(kind), state_word(kind)));
    for finding in findings {
        let line = format!("{}: {}", text(finding.id).title, sentence(finding));
        push_wrapped(out, &format!("  {:<24}", finding.id.name()), &line, style);
        if kind == StateKind::Bad {
            for fix in &finding.fixes {
                let indent = format!("  {:<24}", "");
                push_wrapped(
                    out,
                    &indent,
                    &format!("fix: {}", command(finding, fix)),
                    style,
                );
            }
            if let Some(knob) = knob(check, finding) {
                let line = format!("all of it: {knob}");
                push_wrapped(out, &format!("  {:<24}", ""), &line, style);
            }
        }
    }
}

/// The command that turns a finding's knob, and that `punctual tune restore` undoes.
fn knob(check: &Check, finding: &Finding) -> Option<String> {
    use FindingFix::{Affinity, Boot, Scheduling, Write};
    let is_boot = |fix: &FindingFix| matches!(fix, Boot { .. });
    let is_now =
        |fix: &FindingFix| matches!(fix, Write { .. } | Scheduling { .. } | Affinity { .. });
    let how = match &finding.fixes[..] {
        fixes if fixes.iter().any(is_now) => "",
        fixes if fixes.iter().any(is_boot) => "--boot ",
        _ => return None,
    };
    let cpus = match &check.cpus[..] {
        // One must be left for everything else.
        _ if check.every_cpu => return None,
        [] => String::new(),
        cpus => format!("-a {} ", cpu_list(cpus)),
    };
    let priority = match check.priority {
        0 | Check::PRIORITY => String::new(),
        priority => format!("-p {priority} "),
    };
    let id = finding.id;
    Some(format!(
        "sudo punctual tune apply {how}{cpus}{priority}{id}"
    ))
}

/// Adds a text after `first`, wrapped; the further lines are indented as far.
fn push_wrapped(out: &mut String, first: &str, text: &str, style: &Style) {
    push_toned(out, Tone::Plain, first, text, style);
}

/// Adds a text of this tone after `first`, wrapped; the further lines are indented as far.
pub(crate) fn push_toned(out: &mut String, tone: Tone, first: &str, text: &str, style: &Style) {
    let indent = first.chars().count();
    let lines = wrap(text, style.columns().saturating_sub(indent));
    for (at, line) in lines.iter().enumerate() {
        let before = if at == 0 {
            first.to_owned()
        } else {
            " ".repeat(indent)
        };
        let _ = writeln!(out, "{}{}", before, style.paint(tone, line));
    }
}

/// One finding in full: what it is about, what was read, and what to do.
#[must_use]
pub fn explain(check: &Check, id: FindingId, style: &Style) -> String {
    let words = text(id);
    let mut out = String::new();
    let title = format!(
        "{} ({}): {}",
        words.title,
        id.name(),
        group_title(id.group())
    );
    let _ = writeln!(out, "{}", style.paint(Tone::Bold, &title));
    push_wrapped(&mut out, "  why     ", words.why, style);
    if let Some(finding) = check.finding(id) {
        let state = format!(
            "{}: {}",
            state_word(finding.state.kind()),
            sentence(finding)
        );
        push_wrapped(&mut out, "  here    ", &state, style);
        for reading in &finding.readings {
            let value = result_words(Some(&reading.result));
            push_wrapped(
                &mut out,
                "  read    ",
                &format!("{}: {value}", source_words(&reading.source)),
                style,
            );
        }
        for fix in &finding.fixes {
            let line = format!("{} ({})", command(finding, fix), undo(fix));
            push_wrapped(&mut out, "  fix     ", &line, style);
        }
    }
    if !words.by_hand.is_empty() {
        push_wrapped(&mut out, "  by hand ", words.by_hand, style);
    }
    push_wrapped(&mut out, "  source  ", words.source, style);
    out
}

/// The settings of two machines that differ, a block for each.
#[must_use]
pub fn differences(differences: &[Difference], style: &Style) -> String {
    if differences.is_empty() {
        return "No setting that a finding reads differs.\n".to_owned();
    }
    let mut out = String::new();
    for difference in differences {
        let source = source_words(&difference.source);
        let title = format!("{}: {source}", difference.id.name());
        let _ = writeln!(out, "{}", style.paint(Tone::Bold, &title));
        for (name, result) in [
            ("  first   ", &difference.first),
            ("  second  ", &difference.second),
        ] {
            push_wrapped(&mut out, name, &result_words(result.as_ref()), style);
        }
    }
    out
}

fn result_words(result: Option<&ReadResult>) -> String {
    match result {
        Some(ReadResult::Value(value)) if value.is_empty() => "(empty)".to_owned(),
        Some(ReadResult::Value(value)) => value.clone(),
        Some(ReadResult::Seen(it)) => seen(it),
        Some(ReadResult::Absent) => "(absent)".to_owned(),
        Some(ReadResult::Error(error)) => error.clone(),
        None => "(not read)".to_owned(),
    }
}
