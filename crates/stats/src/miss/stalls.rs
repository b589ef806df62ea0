//! Stalls: misses with one cause, on one CPU or on several.

use super::MissEvent;
use super::bursts::{dispersion_of, for_few, per_block, run_of};
use crate::evidence::RunPart;

/// Misses with one cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stall {
    /// When the first of them was due, in ns.
    pub(super) at_ns: f64,
    /// When the last late wake-up came, in ns.
    pub(super) until_ns: f64,
    pub(super) misses: f64,
    /// In which of the runs that were merged.
    pub(super) run: usize,
    /// How far beyond the limit it lasted, in cycles: on several CPUs as many times as long.
    pub(super) beyond: f64,
}

/// The stalls of events in order of time: those that overlap are one, as when a host stops all CPUs.
pub(super) fn stalls(events: &[MissEvent], parts: &[RunPart]) -> Vec<Stall> {
    joined(
        events.iter().map(|event| Stall {
            at_ns: event.at_ns as f64,
            until_ns: event.until_ns as f64,
            misses: event.weight,
            run: run_of(parts, event.at_ns),
            beyond: event.beyond,
        }),
        0.0,
        f64::INFINITY,
    )
}

/// Those of a run that begin less than `gap_ns` after the end of the one before, and less than `most_ns` after the
/// first of them, as one.
pub(super) fn joined(stalls: impl Iterator<Item = Stall>, gap_ns: f64, most_ns: f64) -> Vec<Stall> {
    let mut all: Vec<Stall> = Vec::new();
    for stall in stalls {
        match all.last_mut() {
            Some(last)
                if stall.run == last.run
                    && stall.at_ns - last.until_ns < gap_ns
                    && stall.at_ns - last.at_ns < most_ns =>
            {
                last.until_ns = last.until_ns.max(stall.until_ns);
                last.misses += stall.misses;
                last.beyond += stall.beyond;
            }
            _ => all.push(stall),
        }
    }
    all
}

/// Index of dispersion of weights at instants: the largest over lengths of blocks up to `1/fewest` of
/// the run. It grows with the length where events come in groups, or a rate changes slowly; the
/// longest lengths are therefore carried on to unlimited length.
pub(super) fn carried_dispersion(
    weights: &[(f64, f64)],
    duration_ns: f64,
    shortest_ns: f64,
    fewest: f64,
) -> f64 {
    let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
    if total <= 0.0 {
        return 1.0;
    }
    let longest_ns = duration_ns / fewest;
    let mut dispersion: f64 = 1.0;
    // That of twice the length, among the longest.
    let mut of_twice: Option<f64> = None;
    let mut length_ns = longest_ns;
    while length_ns >= shortest_ns.max(1.0) {
        let here = dispersion_of(&per_block(weights, length_ns), duration_ns / length_ns);
        dispersion = dispersion.max(here);
        if let Some(twice) = of_twice {
            dispersion = dispersion.max(2.0 * twice - here);
        }
        length_ns /= 2.0;
        of_twice = (length_ns >= longest_ns / 4.5).then_some(here);
    }
    for_few(dispersion, total)
}
