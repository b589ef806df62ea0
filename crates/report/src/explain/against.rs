//! Two runs by cause: what is gone, what is new, what costs more or less. Runs of unequal
//! length are compared by the time that a cause cost in a minute.

use std::collections::BTreeMap;

use super::name;
use crate::style::{Style, Tone, wrap};
use crate::words;
use punctual_record::Run;
use punctual_record::explanation::{Cause, Ranked};

/// How a cause differs between two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It stands in the first alone.
    Gone,
    /// It stands in the second alone.
    New,
    /// It cost at least twice as much in the second.
    More,
    /// It cost at most half as much in the second.
    Less,
    /// It cost about the same.
    Same,
}

/// One cause in two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Who or what.
    pub cause: Cause,
    /// How it differs.
    pub change: Change,
    /// Its time in a minute of the first run, in ns.
    pub first_per_minute: f64,
    /// Its time in a minute of the second run, in ns.
    pub second_per_minute: f64,
    /// The most in one wake-up, of the first and the second run.
    pub worst_ns: (u64, u64),
}

/// Two runs by cause, the greatest differences first. Empty where one was not explained.
#[must_use]
pub fn against(first: &Run, second: &Run) -> Vec<Difference> {
    let (Some(a), Some(b)) = (&first.explanation, &second.explanation) else {
        return Vec::new();
    };
    if !is_comparable(first, second) {
        return Vec::new();
    }
    let mut causes: BTreeMap<&Cause, (Option<&Ranked>, Option<&Ranked>)> = BTreeMap::new();
    for ranked in &a.ranking {
        causes.entry(&ranked.cause).or_default().0 = Some(ranked);
    }
    for ranked in &b.ranking {
        causes.entry(&ranked.cause).or_default().1 = Some(ranked);
    }
    let per_minute = |ranked: Option<&Ranked>, run: &Run| {
        let minutes = run.measured_ns.max(1) as f64 / 60e9;
        ranked.map_or(0.0, |ranked| ranked.total_ns as f64 / minutes)
    };
    let mut differences: Vec<Difference> = causes
        .into_iter()
        .map(|(cause, (one, two))| {
            let rates = (per_minute(one, first), per_minute(two, second));
            Difference {
                cause: cause.clone(),
                change: change(one.is_some(), two.is_some(), rates),
                first_per_minute: rates.0,
                second_per_minute: rates.1,
                worst_ns: (
                    one.map_or(0, |ranked| ranked.worst_ns),
                    two.map_or(0, |ranked| ranked.worst_ns),
                ),
            }
        })
        .collect();
    let by = |d: &Difference| (d.first_per_minute - d.second_per_minute).abs();
    differences.sort_by(|a, b| by(b).total_cmp(&by(a)).then(a.cause.cmp(&b.cause)));
    differences
}

/// Whether the costs of causes are those of the whole runs, or of parts that are as long. Without a limit only the
/// worst wake-ups of a run are explained, as many however long it is.
fn is_comparable(first: &Run, second: &Run) -> bool {
    let has_limit = |run: &Run| {
        run.explanation
            .as_ref()
            .is_some_and(|it| it.above_ns.is_some())
    };
    let (one, other) = (
        first.measured_ns.max(1) as f64,
        second.measured_ns.max(1) as f64,
    );
    has_limit(first) && has_limit(second) || (one / other).max(other / one) < 1.1
}

fn change(in_first: bool, in_second: bool, (first, second): (f64, f64)) -> Change {
    match (in_first, in_second) {
        (true, false) => Change::Gone,
        (false, true) => Change::New,
        _ if second >= 2.0 * first => Change::More,
        _ if first >= 2.0 * second => Change::Less,
        _ => Change::Same,
    }
}

/// The difference as text, the sentence that matters first.
#[must_use]
pub fn against_text(first: &Run, second: &Run, style: &Style) -> Vec<String> {
    const MOST: usize = 16;
    let differences = against(first, second);
    let are_explained = [first, second].iter().all(|run| run.explanation.is_some());
    if are_explained && !is_comparable(first, second) {
        let text = "Causes are not compared: one run is longer, and of each only the worst wake-ups are explained. \
                    Runs of the same length, or explained above the same latency, can be.";
        return wrap(text, style.columns());
    }
    if differences.is_empty() {
        return Vec::new();
    }
    let mut out = vec![style.paint(Tone::Bold, "Who stole the time, by cause")];
    for line in wrap(&sentence(&differences), style.columns().saturating_sub(2)) {
        out.push(format!("  {}", style.paint(Tone::Plain, &line)));
    }
    let limits = [first, second].map(|run| run.explanation.as_ref().and_then(|e| e.above_ns));
    if limits[0] != limits[1] {
        let text = "The runs were explained above different limits, so their totals differ for \
                    that reason too.";
        for line in wrap(text, style.columns().saturating_sub(2)) {
            out.push(format!("  {}", style.paint(Tone::Unsure, &line)));
        }
    }
    let head = format!(
        " {:>9} {:>9} {:>9} {:>9}       {}",
        "first", "second", "worst 1st", "worst 2nd", "cause; µs a minute"
    );
    out.push(style.paint(Tone::Dim, &head));
    for difference in differences.iter().take(MOST) {
        let (word, tone) = match difference.change {
            Change::Gone => ("GONE", Tone::Good),
            Change::New => ("NEW", Tone::Bad),
            Change::More => ("more", Tone::Plain),
            Change::Less => ("less", Tone::Plain),
            Change::Same => ("", Tone::Plain),
        };
        let head = format!(
            " {:>9} {:>9} {:>9} {:>9}  {word:<4} ",
            words::micros(difference.first_per_minute),
            words::micros(difference.second_per_minute),
            words::micros(difference.worst_ns.0 as f64),
            words::micros(difference.worst_ns.1 as f64),
        );
        let text = name(&difference.cause);
        let room = style.columns().saturating_sub(head.chars().count());
        for (index, part) in wrap(&text, room).iter().enumerate() {
            let head = if index == 0 {
                head.clone()
            } else {
                " ".repeat(head.chars().count())
            };
            out.push(format!("{head}{}", style.paint(tone, part)));
        }
    }
    if differences.len() > MOST {
        let rest = (differences.len() - MOST) as u64;
        let text = format!(
            "  and {}",
            words::plural(rest, "other cause", "other causes")
        );
        out.push(style.paint(Tone::Dim, &text));
    }
    out
}

/// `gone: softirq NET_RX; new: kdamond.0 could not be preempted.` Trifles are not named.
fn sentence(differences: &[Difference]) -> String {
    const NAMED: usize = 4;
    let total = |of: fn(&Difference) -> f64| differences.iter().map(of).sum::<f64>();
    let floor = (
        total(|d| d.first_per_minute) / 20.0,
        total(|d| d.second_per_minute) / 20.0,
    );
    let said: Vec<String> = differences
        .iter()
        .filter(|d| !d.cause.is_path() && !d.cause.is_residue())
        .filter(|d| d.first_per_minute > floor.0 || d.second_per_minute > floor.1)
        .filter_map(|d| {
            let name = name(&d.cause);
            match d.change {
                Change::Gone => Some(format!("gone: {name}")),
                Change::New => Some(format!("new: {name}")),
                Change::More => Some(format!("costs more: {name}")),
                Change::Less => Some(format!("costs less: {name}")),
                Change::Same => None,
            }
        })
        .take(NAMED)
        .collect();
    if said.is_empty() {
        "The same causes cost about the same in both.".to_owned()
    } else {
        format!("{}.", said.join("; "))
    }
}
