//! How misses hang together in time.

use super::MissEvent;
use crate::evidence::RunPart;
use crate::extremal;

/// Late wake-ups below which chance neighbours are told from bursts.
const FEW_EVENTS: usize = 10;
/// Strength of the correction for few bursts: with this many, what the
/// dispersion has above 1 is doubled.
const FEW_BURSTS: f64 = 3.0;

/// How misses hang together.
pub(super) struct Bursts {
    pub(super) count: usize,
    pub(super) largest: f64,
    pub(super) dispersion: f64,
}

/// The sums of weights, each at its instant in ns and in their order, in the blocks of `length` ns
/// that hold any.
pub(super) fn per_block(at: &[(f64, f64)], length: f64) -> Vec<f64> {
    let mut weights: Vec<f64> = Vec::new();
    let mut current = None;
    for (at_ns, added) in at {
        let block = Some((at_ns / length) as u64);
        match weights.last_mut() {
            Some(weight) if block == current => *weight += added,
            _ => weights.push(*added),
        }
        current = block;
    }
    weights
}

/// Few bursts say little about how they differ: the dispersion of misses to reckon with.
pub(super) fn for_few(dispersion: f64, misses: f64) -> f64 {
    let bursts = (misses / dispersion).max(1.0);
    1.0 + (dispersion - 1.0) * (1.0 + FEW_BURSTS / bursts)
}

/// Index of dispersion of the weights of so many blocks; those without any may be left out.
pub(super) fn dispersion_of(weights: &[f64], blocks: f64) -> f64 {
    let add = |(sum, squares): (f64, f64), weight: &f64| (sum + weight, squares + weight * weight);
    let (sum, squares) = weights.iter().fold((0.0, 0.0), add);
    index_of_dispersion(sum, squares, blocks)
}

/// The same, of the sum of the weights and of their squares.
pub(super) fn index_of_dispersion(sum: f64, squares: f64, blocks: f64) -> f64 {
    (squares - sum * sum / blocks) / (sum * (1.0 - 1.0 / blocks))
}

/// In which of the runs an instant is.
pub(super) fn run_of(parts: &[RunPart], at_ns: u64) -> usize {
    parts.partition_point(|part| part.start_ns <= at_ns)
}

/// Bursts by the intervals estimator, each within a run.
pub(super) fn separate(
    events: &[MissEvent],
    spacing: f64,
    duration_ns: u64,
    parts: &[RunPart],
) -> Bursts {
    let times: Vec<u64> = events.iter().map(|event| event.at_ns).collect();
    let gaps = extremal::ring_gaps(&times, spacing, duration_ns);
    let theta = extremal::intervals_estimator(&gaps).unwrap_or(1.0);
    let mut separator = extremal::separating_gap(&gaps, theta);
    if gaps.len() < FEW_EVENTS {
        // So few events fall near each other by chance, and the estimator takes
        // that for a burst: ask for a tenth of their mean gap at most.
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        separator = separator.min(mean / 10.0);
    }
    let mut weights: Vec<f64> = Vec::new();
    for (i, event) in events.iter().enumerate() {
        let run = |i: usize| run_of(parts, times[i]);
        let starts = i == 0 || gaps[i - 1] >= separator || run(i - 1) != run(i);
        match weights.last_mut() {
            Some(weight) if !starts => *weight += event.weight,
            _ => weights.push(event.weight),
        }
    }
    let sum: f64 = weights.iter().sum();
    let squares: f64 = weights.iter().map(|weight| weight * weight).sum();
    Bursts {
        count: weights.len(),
        largest: weights.iter().copied().fold(0.0, f64::max),
        dispersion: if sum > 0.0 { squares / sum } else { 1.0 },
    }
}
