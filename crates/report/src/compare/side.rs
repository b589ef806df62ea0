//! One side of a comparison: a run, or several.

use punctual_record::Field;
use punctual_stats::verdict::Outcome;
use serde::Serialize;

use super::CompareError;
use crate::conditions;
use punctual_record::{Gaps, ImportedThread, Run, Watched, beginnings};

/// One of the two sides. What is not known of one of its runs is not known of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Side {
    /// Its runs.
    pub runs: usize,
    /// The programs that measured.
    pub tools: Vec<String>,
    /// When each was begun; empty where that isn't known.
    pub started: Vec<String>,
    /// Host names.
    pub hosts: Vec<String>,
    /// Kernel releases.
    pub kernels: Vec<String>,
    /// Time measured; absent where it isn't known.
    pub measured_ns: Option<u64>,
    /// Probe threads.
    pub threads: usize,
    /// Samples, also those whose latency was not kept.
    pub samples: u64,
    /// Samples whose latency isn't known.
    pub lost: u64,
    /// Skipped periods; absent where that isn't known.
    pub missed: Option<u64>,
    /// The part of the watched time that was in gaps; absent where wake-ups were measured.
    pub gap_share: Option<f64>,
    /// Exact minimum.
    pub min_ns: Option<u64>,
    /// Exact mean.
    pub mean_ns: Option<f64>,
    /// Exact maximum, to the resolution of the tool.
    pub max_ns: Option<u64>,
    /// The runs' own verdicts.
    pub verdicts: Vec<Outcome>,
}

/// Samples, their sum and their extremes.
#[derive(Default)]
struct Summary {
    samples: u64,
    sum_ns: f64,
    mean_known: bool,
    min_ns: Option<u64>,
    max_ns: Option<u64>,
}

impl Summary {
    fn of(run: &Run) -> Self {
        // Another tool's own summary holds for what its histogram lacks too.
        if let Some(imported) = run.imported.as_ref().filter(|of| !of.threads.is_empty()) {
            let used = || imported.threads.iter().filter(|thread| thread.count > 0);
            let sum = |of: &ImportedThread| of.mean_ns.map(|mean| mean * of.count as f64);
            let sums: Option<Vec<f64>> = used().map(sum).collect();
            return Self {
                samples: used().fold(0, |sum, of| sum.saturating_add(of.count)),
                mean_known: sums.is_some(),
                sum_ns: sums.unwrap_or_default().iter().sum(),
                min_ns: used().map(|of| of.min_ns).min(),
                max_ns: used().map(|of| of.max_ns).max(),
            };
        }
        let used = || run.threads.iter().filter(|thread| thread.latency.count > 0);
        let lost = run.threads.iter().any(|thread| thread.lost > 0);
        Self {
            samples: used().map(|thread| thread.latency.count).sum(),
            sum_ns: used().map(|thread| thread.latency.sum_ns as f64).sum(),
            mean_known: !(lost && run.imported.is_some()),
            min_ns: used().map(|thread| thread.latency.min_ns).min(),
            max_ns: used().map(|thread| thread.latency.max_ns).max(),
        }
    }
}

fn gap_share(runs: &[Run]) -> Option<f64> {
    let all: Option<Vec<&Gaps>> = runs.iter().map(|run| run.gaps.as_ref()).collect();
    let all = all?;
    let sum = |times: &mut dyn Iterator<Item = u64>| times.fold(0, u64::saturating_add);
    let watched = sum(&mut all.iter().map(|gaps| gaps.spans_ns().1));
    let threads = all.iter().flat_map(|gaps| &gaps.threads);
    let in_gaps = sum(&mut threads.map(Watched::counted_ns));
    (watched > 0).then(|| in_gaps as f64 / watched as f64)
}

pub(super) fn of(runs: &[Run]) -> Side {
    let summaries: Vec<Summary> = runs.iter().map(Summary::of).collect();
    let samples = summaries
        .iter()
        .fold(0_u64, |sum, of| sum.saturating_add(of.samples));
    let mean_known = samples > 0 && summaries.iter().all(|of| of.mean_known);
    let sum_ns: f64 = summaries.iter().map(|of| of.sum_ns).sum();
    let threads = || runs.iter().flat_map(|run| &run.threads);
    let known = |field: Field, value: u64| runs.iter().all(|run| run.knows(field)).then_some(value);
    let distinct = |of: &dyn Fn(&Run) -> String| {
        let mut all: Vec<String> = Vec::new();
        for text in runs.iter().map(of) {
            if !text.is_empty() && !all.contains(&text) {
                all.push(text);
            }
        }
        all
    };
    Side {
        runs: runs.len(),
        tools: distinct(&|run| run.tool.name.clone()),
        started: distinct(&conditions::begun),
        hosts: distinct(&|run| run.system.hostname.clone()),
        kernels: distinct(&|run| run.system.kernel.release.clone()),
        measured_ns: known(
            Field::MeasuredTime,
            runs.iter()
                .fold(0, |sum, run| sum.saturating_add(run.measured_ns)),
        ),
        threads: runs.iter().map(|run| run.threads.len()).max().unwrap_or(0),
        samples,
        lost: threads().fold(0, |sum, thread| sum.saturating_add(thread.lost)),
        missed: known(
            Field::Missed,
            threads().fold(0, |sum, thread| sum.saturating_add(thread.missed)),
        ),
        gap_share: gap_share(runs),
        min_ns: summaries.iter().filter_map(|of| of.min_ns).min(),
        mean_ns: mean_known.then(|| sum_ns / samples as f64),
        max_ns: summaries.iter().filter_map(|of| of.max_ns).max(),
        verdicts: runs
            .iter()
            .filter_map(|run| run.verdict.as_ref())
            .map(|verdict| verdict.outcome)
            .collect(),
    }
}

/// A run that stands twice would count as two pieces of evidence.
pub(super) fn each_once(first: &[Run], second: &[Run]) -> Result<(), CompareError> {
    let all: Vec<(String, &Run)> = [("A", first), ("B", second)]
        .into_iter()
        .flat_map(|(side, runs)| {
            let named = runs.iter().enumerate();
            named.map(move |(at, run)| (format!("{side}{}", at + 1), run))
        })
        .collect();
    for (at, (name, run)) in all.iter().enumerate() {
        if let Some((other, _)) = all[..at].iter().find(|(_, other)| is_same(run, other)) {
            return Err(CompareError::Twice {
                name: name.clone(),
                other: other.clone(),
            });
        }
    }
    Ok(())
}

fn is_same(run: &Run, other: &Run) -> bool {
    // Also as a part of a sum.
    let own: Vec<_> = beginnings(run).collect();
    if !own.is_empty() {
        return beginnings(other).any(|other| own.iter().any(|own| own.is(&other)));
    }
    run.started == other.started
        && run.threads == other.threads
        && run.threads.iter().any(|thread| thread.latency.count > 0)
}
