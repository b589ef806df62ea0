//! Who stole the time, in a few lines: the causes that cost most, and what to do about them.

use super::fix::undo_of;
use super::name;
use super::text::{counts, known_fixes, not_seen, ranked};
use crate::style::{Style, Tone, wrap, wrap_commands};
use crate::words;
use punctual_record::Run;
use punctual_record::explanation::{Explanation, Ranked};

/// How much is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// Causes.
    pub causes: usize,
    /// What to do about them, each with its command.
    pub fixes: usize,
}

/// Of all causes together.
pub(crate) fn parts_ns(explanation: &Explanation) -> u64 {
    let parts = explanation.ranking.iter().map(|it| explanation.part_ns(it));
    parts.fold(0, u64::saturating_add)
}

/// The causes by their part, what nobody could name among them.
fn by_part(explanation: &Explanation) -> Vec<&Ranked> {
    let mut causes = ranked(explanation, usize::MAX);
    causes.retain(|ranked| explanation.part_ns(ranked) > 0);
    causes.sort_by_key(|ranked| std::cmp::Reverse(explanation.part_ns(ranked)));
    causes
}

/// Causes that a brief summary names, at most.
const MOST_NEEDED: usize = 12;

/// How many causes together have four fifths of the time, or as many of them as a summary names.
#[must_use]
pub fn needed(explanation: &Explanation) -> usize {
    let whole = parts_ns(explanation);
    let mut sum = 0_u64;
    let too_little = |ranked: &&Ranked| {
        let is_short = sum < whole - whole / 5;
        sum = sum.saturating_add(explanation.part_ns(ranked));
        is_short
    };
    let causes = by_part(explanation).into_iter();
    causes.take(MOST_NEEDED).take_while(too_little).count()
}

/// A part of the whole as percent: `12.3 %`, `< 0.1 %`.
pub(crate) fn part_of(part: u64, whole: u64) -> String {
    match 100.0 * part as f64 / whole.max(1) as f64 {
        percent if part > 0 && percent < 0.05 => "< 0.1 %".to_owned(),
        _ if part == 0 => "0".to_owned(),
        percent => format!("{percent:.1} %"),
    }
}

/// The section of a brief summary; empty where this run was not traced, or nothing was to be
/// explained and `extent` is nothing.
#[must_use]
pub fn brief(run: &Run, style: &Style, extent: Extent) -> Vec<String> {
    let Some(explanation) = run.explanation.as_ref().filter(|_| extent.causes > 0) else {
        return Vec::new();
    };
    let mut out = vec![style.paint(Tone::Bold, "Who stole the time")];
    let mut paragraph = |tone: Tone, text: &str, most: usize| {
        for line in wrap(text, style.columns() - 2).iter().take(most) {
            out.push(format!("  {}", style.paint(tone, line)));
        }
    };
    paragraph(Tone::Plain, &counts(run, explanation), 3);
    if extent.fixes > 1 {
        let missing = not_seen(run, explanation);
        if let Some(first) = missing.first() {
            paragraph(Tone::Unsure, &format!("not seen: {first}"), 2);
        }
    }
    causes(explanation, style, extent.causes, &mut out);
    fixes(run, explanation, style, extent.fixes, &mut out);
    out
}

fn causes(explanation: &Explanation, style: &Style, most: usize, out: &mut Vec<String>) {
    let all = by_part(explanation);
    if all.is_empty() {
        return;
    }
    let whole = parts_ns(explanation);
    let head = format!("  {:>8}  {:>9}  cause", "share", "worst");
    out.push(style.paint(Tone::Dim, &head));
    let room = style.columns().saturating_sub(23);
    for ranked in all.iter().take(most) {
        let tone = if ranked.cause.is_residue() {
            Tone::Void
        } else {
            Tone::Plain
        };
        let figures = format!(
            "  {:>8}  {:>9}  ",
            part_of(explanation.part_ns(ranked), whole),
            words::duration(ranked.worst_ns)
        );
        let cause = words::shortened(&name(&ranked.cause), room);
        out.push(format!(
            "{}{}",
            style.paint(Tone::Plain, &figures),
            style.paint(tone, &cause)
        ));
    }
    let rest: u64 = all
        .iter()
        .skip(most)
        .map(|it| explanation.part_ns(it))
        .sum();
    if let Some(more) = all.len().checked_sub(most).filter(|more| *more > 0) {
        let more = words::plural(more as u64, "other cause", "other causes");
        let text = format!("  {:>8}  {:>9}  {more}", part_of(rest, whole), "");
        out.push(style.paint(Tone::Dim, &text));
    }
}

/// What to do about the causes, those that cost most first.
fn fixes(run: &Run, explanation: &Explanation, style: &Style, most: usize, out: &mut Vec<String>) {
    let known = known_fixes(run, explanation);
    let order = by_part(explanation);
    let fixes = order.iter().filter_map(|ranked| {
        let (cause, fix) = known.iter().find(|(cause, _)| **cause == ranked.cause)?;
        Some((name(cause), fix))
    });
    for (index, (cause, fix)) in fixes.take(most).enumerate() {
        if index == 0 {
            out.push(style.paint(Tone::Bold, "What to do"));
        }
        for (index, line) in wrap_commands(&format!("{cause}: {fix}"), style.columns() - 4)
            .iter()
            .enumerate()
        {
            let head = if index == 0 { "  - " } else { "    " };
            out.push(format!("{head}{}", style.paint(Tone::Plain, line)));
        }
    }
    if let Some(undo) = undo_of(known.iter().take(most).map(|(_, fix)| fix.as_str())) {
        for line in wrap_commands(&format!("undo: {undo}"), style.columns().saturating_sub(2)) {
            out.push(format!("  {}", style.paint(Tone::Dim, &line)));
        }
    }
}
