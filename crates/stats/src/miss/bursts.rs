//! How misses hang together in time.

use crate::extremal;

/// Late wake-ups below which chance neighbours are told from bursts.
const FEW_EVENTS: usize = 10;
/// A miss or several at one instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) at_ns: u64,
    pub(super) weight: f64,
}

/// How misses hang together.
pub(super) struct Bursts {
    pub(super) count: usize,
    pub(super) largest: f64,
    pub(super) dispersion: f64,
}

/// Index of dispersion of the weights per block of `length` ns.
pub(super) fn dispersion_at(events: &[Event], total: f64, blocks: f64, length: f64) -> f64 {
    let mut squares = 0.0;
    let mut current = (u64::MAX, 0.0);
    for event in events {
        let block = (event.at_ns as f64 / length) as u64;
        if block != current.0 {
            squares += current.1 * current.1;
            current = (block, 0.0);
        }
        current.1 += event.weight;
    }
    squares += current.1 * current.1;
    (squares - total * total / blocks) / (total * (1.0 - 1.0 / blocks))
}

/// Bursts by the intervals estimator.
pub(super) fn separate(events: &[Event], spacing: f64, duration_ns: u64) -> Bursts {
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
        let starts = i == 0 || gaps[i - 1] >= separator;
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
