//! A dataset in a few lines, and the sentences that its page shares with them.

use crate::style::{Style, Tone};
use crate::words::{self, clean};
use punctual_record::fleet::{Answers, Overview};

/// So many machines are named in the summary.
const MOST_NAMED: usize = 10;

/// `1,200 runs of 40 machines on 3 kernels, from 2026-11-01 to 2026-11-27`
pub(super) fn headline(overview: &Overview) -> String {
    let day = |at: &Option<String>| -> String {
        let at = at.as_deref().unwrap_or_default();
        clean(at).chars().take(10).collect()
    };
    let when = match (day(&overview.first), day(&overview.last)) {
        (first, _) if first.is_empty() => String::new(),
        (first, last) if first == last => format!(", on {first}"),
        (first, last) => format!(", from {first} to {last}"),
    };
    let runs = words::plural(overview.runs, "run", "runs");
    let machines = words::plural(overview.machines, "machine", "machines");
    let kernels = words::plural(overview.kernels, "kernel", "kernels");
    format!("{runs} of {machines} on {kernels}{when}")
}

/// `1,180 PASS, 20 FAIL. 3 runs are INVALID and not counted.`
pub(super) fn verdicts(overview: &Overview) -> String {
    let judged = overview.passed + overview.failed + overview.inconclusive;
    let kinds = [
        (overview.passed, "PASS"),
        (overview.failed, "FAIL"),
        (overview.inconclusive, "INCONCLUSIVE"),
        (
            overview.runs.saturating_sub(judged),
            "without a requirement",
        ),
    ];
    let words: Vec<String> = kinds
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{} {word}", words::count(*count)))
        .collect();
    let counted = match words.is_empty() {
        true => "No runs with figures".to_owned(),
        false => words.join(", "),
    };
    let invalid = match overview.invalid {
        0 => String::new(),
        1 => " 1 run is INVALID and not counted.".to_owned(),
        many => format!(" {} runs are INVALID and not counted.", words::count(many)),
    };
    format!("{counted}.{invalid}")
}

/// Which machines are worse than their peers, in a sentence.
pub(super) fn standing_out(answers: &Answers) -> String {
    let mut names: Vec<&str> = answers.outliers.iter().map(|row| &*row.machine).collect();
    names.sort_unstable();
    names.dedup();
    if names.is_empty() {
        return "No machine misses a limit more often than its peers, beyond chance.".to_owned();
    }
    let shown: Vec<String> = names
        .iter()
        .take(MOST_NAMED)
        .map(|name| clean(name))
        .collect();
    let more = match names.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        more => format!(" and {} more", words::count(more as u64)),
    };
    let (who, misses) = match names.len() {
        1 => ("its", "misses"),
        _ => ("their", "miss"),
    };
    format!(
        "{}{more} {misses} a limit more often than {who} peers, beyond chance.",
        shown.join(", ")
    )
}

/// Who stole the time on a machine: `irq/45-eth0 (62 %), timer (20 %)`; empty if no run was traced.
pub(super) fn bill(answers: &Answers, machine: &str) -> String {
    let of = answers.bills.iter().filter(|row| row.machine == machine);
    let parts: Vec<String> = of
        .map(|row| format!("{} ({})", clean(&row.cause), words::share(row.share)))
        .collect();
    parts.join(", ")
}

/// The summary: what there is, which machines stand out, what changed, who stole the time.
#[must_use]
pub fn summary(answers: &Answers, style: &Style) -> String {
    let mut lines = vec![
        style.paint(Tone::Bold, &format!("{}.", headline(&answers.overview))),
        verdicts(&answers.overview),
        standing_out(answers),
    ];
    for row in answers.outliers.iter().take(MOST_NAMED) {
        let bill = match bill(answers, &row.machine) {
            bill if bill.is_empty() => bill,
            bill => format!("; who stole the time: {bill}"),
        };
        lines.push(format!(
            "  {}, {}: {} beyond {}, peers {}{bill}",
            clean(&row.machine),
            clean(&row.kernel),
            words::share(row.share),
            words::duration(row.limit_ns),
            words::share(row.peers_share),
        ));
    }
    let changed: Vec<_> = answers
        .changes
        .iter()
        .filter(|row| row.change != "not shown")
        .collect();
    if !changed.is_empty() {
        lines.push("Kernels that differ from the one before:".to_owned());
    }
    for row in changed.iter().take(MOST_NAMED) {
        lines.push(format!(
            "  {} to {} on {}: {}, {} to {} beyond {}",
            clean(&row.before),
            clean(&row.kernel),
            clean(&row.setting.hardware),
            clean(&row.change),
            words::share(row.before_share),
            words::share(row.share),
            words::duration(row.limit_ns),
        ));
    }
    let causes: Vec<String> = answers
        .causes
        .iter()
        .take(5)
        .map(|row| format!("{} ({})", clean(&row.cause), words::share(row.share)))
        .collect();
    if !causes.is_empty() {
        lines.push(format!("Who stole the time: {}", causes.join(", ")));
    }
    if let Some(row) = answers.worst.first() {
        lines.push(format!(
            "The worst wake-up: {} on {}: {}",
            words::duration(row.maximum_ns),
            clean(&row.machine),
            clean(&row.record)
        ));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}
