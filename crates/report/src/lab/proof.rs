//! Which boot parameter helped? An experiment of a lab, in words, as a table and as a section of
//! its page.

use punctual_record::lab::{Lab, LabCell, LabProof, ProofConclusion, ProofRow};
use punctual_stats::experiment::{EXACT_NAMED_FROM, LEAST_PAIRS};
use punctual_stats::verdict::Outcome;

use super::super::experiment::{Judged, decimal, effects, fact, fact_lines, forest, html_effects};
use super::super::html::parts::Html;
use super::super::html::sections::figure;
use super::super::statements::Fact;
use super::super::style::{Style, Tone, cut, wrap};
use super::super::words::{self, plural};
use super::{WHAT_IT_SHOWS, bill, names, paragraph, short};

/// The verdict that an experiment ends with.
#[must_use]
pub fn proof_outcome(proof: &LabProof) -> Outcome {
    match proof.has_too_few_pairs() {
        true => Outcome::Inconclusive,
        false => Outcome::Pass,
    }
}

/// The result in one sentence.
#[must_use]
pub fn proof_sentence(proof: &LabProof) -> String {
    let concluded = concluded(proof);
    match proof.has_too_few_pairs() {
        true => format!(
            "INCONCLUSIVE: {} of at least {LEAST_PAIRS} seeds have a valid result with and without \
             each parameter. So far: {concluded}",
            fewest(proof)
        ),
        false => concluded,
    }
}

/// The seeds that each parameter has which a kernel knows.
fn fewest(proof: &LabProof) -> usize {
    let known = proof.rows.iter().filter(|row| !row.is_unknown);
    known.map(|row| row.pairs.len()).min().unwrap_or(0)
}

/// Which parameters did what, and where.
fn concluded(proof: &LabProof) -> String {
    let conclusions = [
        (ProofConclusion::Helps, "helps"),
        (ProofConclusion::Harms, "harms"),
        (
            ProofConclusion::Mixed,
            "helps in one measure and harms in another",
        ),
        (ProofConclusion::Unknown, "is unknown"),
    ];
    let mut parts = Vec::new();
    for (at, parameter) in proof.parameters.iter().enumerate() {
        let of_it = || proof.rows.iter().filter(move |row| row.parameter == at);
        for (conclusion, words) in conclusions {
            let found: Vec<&ProofRow> = of_it()
                .filter(|row| row.conclusion() == conclusion && !proof.is_control(row))
                .collect();
            if found.is_empty() {
                continue;
            }
            let everywhere = found.len() == of_it().count();
            let places = found.iter().map(|row| match conclusion {
                ProofConclusion::Unknown => format!("to kernel {}", short(&row.kernel)),
                _ => place(proof, row),
            });
            let mut places: Vec<String> = places.collect();
            places.dedup();
            let places = match everywhere && conclusion != ProofConclusion::Unknown {
                true => String::new(),
                false => format!(" ({})", places.join("; ")),
            };
            parts.push(format!("{} {words}{places}", parameter.word));
        }
    }
    match parts.is_empty() {
        true => "No parameter has shown an effect.".to_owned(),
        false => format!("{}.", parts.join("; ")),
    }
}

/// A kernel and a load, as far as the experiment has several.
fn place(proof: &LabProof, row: &ProofRow) -> String {
    let several = |name: fn(&ProofRow) -> &str| {
        let first = proof.rows.first().map(name);
        proof.rows.iter().any(|row| Some(name(row)) != first)
    };
    match (several(|row| &row.kernel), several(|row| &row.load)) {
        (true, true) => format!("{}, {}", short(&row.kernel), row.load),
        (true, false) => short(&row.kernel),
        _ => row.load.clone(),
    }
}

fn conclusion(proof: &LabProof, row: &ProofRow) -> &'static str {
    match row.conclusion() {
        // What it changes, any word changes: it is no verdict.
        ProofConclusion::TooFewPairs => "too few seeds",
        ProofConclusion::NoDifference => "no difference at all",
        _ if proof.is_control(row) => "what any word changes",
        ProofConclusion::Helps => "helps",
        ProofConclusion::Harms => "harms",
        ProofConclusion::Mixed => "mixed",
        ProofConclusion::NoEffectShown => "no effect shown",
        ProofConclusion::Unknown => "unknown to this kernel",
    }
}

fn tone(proof: &LabProof, row: &ProofRow) -> Tone {
    match row.conclusion() {
        ProofConclusion::TooFewPairs | ProofConclusion::Unknown => Tone::Unsure,
        _ if proof.is_control(row) => Tone::Plain,
        ProofConclusion::Helps => Tone::Good,
        ProofConclusion::Harms => Tone::Bad,
        ProofConclusion::Mixed => Tone::Unsure,
        ProofConclusion::NoEffectShown | ProofConclusion::NoDifference => Tone::Plain,
    }
}

/// The rows of each kernel and load, with the name of both.
fn groups(proof: &LabProof) -> Vec<(String, Vec<Judged<'_>>)> {
    let mut groups: Vec<((&str, &str), Vec<Judged<'_>>)> = Vec::new();
    for row in &proof.rows {
        let of = (&*row.kernel, &*row.load);
        if groups.last().is_none_or(|(last, _)| *last != of) {
            groups.push((of, Vec::new()));
        }
        let word = proof.parameters.get(row.parameter);
        let judged = Judged {
            name: word.map_or_else(String::new, |it| match it.is_control {
                true => "control".to_owned(),
                false => it.word.clone(),
            }),
            conclusion: conclusion(proof, row),
            tone: tone(proof, row),
            effects: row
                .result
                .effects
                .iter()
                .map(|effect| {
                    (
                        effect,
                        !proof.is_control(row) && proof.is_named(row, effect),
                    )
                })
                .collect(),
        };
        if let Some((_, rows)) = groups.last_mut() {
            rows.push(judged);
        }
    }
    groups
        .into_iter()
        .map(|((kernel, load), judged)| (format!("{}, {load}", short(kernel)), judged))
        .collect()
}

/// Where most of the worst wake-ups' time went, without each parameter and with it.
fn functions(lab: &Lab, proof: &LabProof) -> Vec<String> {
    let top = |row: &ProofRow, name: &str| {
        let of = |cell: &&LabCell| {
            let variant = cell.variant.as_ref();
            cell.load == row.load
                && variant.is_some_and(|it| it.machine == row.kernel && it.name == name)
        };
        let cells = lab.cells.iter().filter(of);
        let worst = cells.max_by_key(|cell| cell.figures.map(|figures| figures.max_ns))?;
        bill::top(worst)
    };
    let line = |row: &ProofRow| {
        let word = &proof.parameters.get(row.parameter)?.word;
        let (off, on) = (top(row, LabProof::OFF)?, top(row, word)?);
        Some(format!(
            "{}, {}, {word}: {off} and {on}",
            short(&row.kernel),
            row.load
        ))
    };
    proof.rows.iter().filter_map(line).collect()
}

/// How it was made, and what the figures mean.
fn facts(proof: &LabProof) -> Vec<Fact> {
    let fact = |name: &str, text: String| (name.to_owned(), text);
    let percent = |share: f64| decimal(100.0 * share);
    let mut facts = vec![fact(
        "Design",
        format!(
            "{} of guests: the same kernel, load and seed, without the parameter and with it. A seed \
             starts the measurement and the load at another phase",
            plural(proof.seeds, "pair", "pairs")
        ),
    )];
    if let Some(control) = proof.parameters.iter().find(|it| it.is_control) {
        facts.push(fact(
            "Control",
            format!(
                "the word {}, which the kernel ignores. It moves all that follows by some \
                 instructions, as any word does; a change is named only if it is larger than the \
                 interval of the control",
                control.word
            ),
        ));
    }
    if let Some(ns) = proof.deadline_ns {
        facts.push(fact(
            "Excess",
            format!(
                "the time by which latencies of a run exceed {}, the limit of the command, added up",
                words::duration(ns)
            ),
        ));
    }
    facts.push(fact(
        "Interval",
        format!(
            "{} %, over phases of load and measurement. No host is in it: the same command gives the \
             same figures, digit for digit",
            percent(proof.confidence)
        ),
    ));
    facts.push(fact(
        "Confidence",
        format!(
            "{} %: if parameters only moved what follows, one would be named in at most {} % of such \
             experiments; changes below {} % are not named",
            percent(proof.confidence),
            percent(1.0 - proof.confidence),
            percent(EXACT_NAMED_FROM - 1.0)
        ),
    ));
    facts
}

/// The experiment as lines of a terminal.
pub(super) fn proof(lab: &Lab, proof: &LabProof, style: &Style) -> String {
    let mut lines = Vec::new();
    let tone = match proof_outcome(proof) {
        Outcome::Pass => Tone::Plain,
        _ => Tone::Unsure,
    };
    for line in wrap(&proof_sentence(proof), style.columns()) {
        lines.push(style.paint(tone, &line));
    }
    lines.push(String::new());
    let off = |cell: &&LabCell| {
        cell.variant
            .as_ref()
            .is_some_and(|it| it.name == LabProof::OFF)
    };
    for kernel in names(&lab.cells, |cell| &cell.kernel) {
        let mut cells = lab.cells.iter().filter(off);
        let laboratory = cells.find_map(|cell| {
            let laboratory = cell.laboratory.as_ref()?;
            (cell.kernel == kernel).then_some(laboratory)
        });
        if let Some(found) = laboratory {
            let text = super::booted(found);
            let name = style.paint(Tone::Bold, &short(&found.kernel));
            lines.push(format!("{name}: {}", style.paint(Tone::Plain, text.trim())));
        }
    }
    for (name, judged) in groups(proof) {
        lines.push(String::new());
        lines.push(style.paint(Tone::Bold, &name));
        lines.extend(effects(&judged, style));
    }
    lines.push(String::new());
    let functions = functions(lab, proof);
    if !functions.is_empty() {
        lines.push("Most of the worst wake-up's time was in, off and on".to_owned());
        lines.extend(functions.iter().map(|line| format!("  {line}")));
        lines.push(String::new());
    }
    for (name, text) in facts(proof) {
        lines.extend(fact_lines(style, &name, &text));
    }
    if let Some(place) = &style.report {
        lines.push(fact(style, "Report", place));
    }
    lines.push(String::new());
    paragraph(&mut lines, WHAT_IT_SHOWS, style);
    let lines = lines
        .iter()
        .map(|line| cut(line, style.table_columns()) + "\n");
    lines.collect()
}

/// The section of the page.
pub(super) fn section(html: &mut Html, proof: &LabProof) {
    html.heading("proof", "Which boot parameter helped?");
    html.text("p", "", &proof_sentence(proof));
    for (at, (name, judged)) in groups(proof).iter().enumerate() {
        let caption = format!(
            "{name}: the change by each parameter with its interval. What is beyond chance and \
             beyond the control has a colour."
        );
        let id = format!("forest-{at}");
        figure(html, &id, &caption, |form, id| {
            forest(judged, "knob", form, id)
        });
        html_effects(html, name, "knob", judged);
    }
    html.facts("How it was made", &facts(proof));
}
