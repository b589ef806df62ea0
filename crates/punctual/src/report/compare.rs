//! Two runs held against each other.
//!
//! The statistics are [`punctual_stats::compare`]'s; here stand the conditions in
//! which the runs differ, and whether the comparison is fair at all.

mod text;

use punctual_stats::compare::{Comparand, Comparison as Statistics, Resampling};
use punctual_stats::histogram::{Histogram, MIN_SAMPLES_BEYOND};
use punctual_stats::verdict::Outcome;

use crate::record::conditions::{Difference, Role, differences};
use crate::record::{Evidence, Run, State, invalid_reasons};

pub use text::{TextStyle, compare_text};

/// Percentiles that are shown as far as a side has samples beyond them.
const PERCENTILES: [f64; 7] = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999];

/// One of the two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// The program that measured.
    pub tool: String,
    /// When it was begun; empty where that isn't known.
    pub started: String,
    /// Host name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Time measured; absent where it isn't known.
    pub measured_ns: Option<u64>,
    /// Probe threads.
    pub threads: usize,
    /// Samples that are compared.
    pub samples: u64,
    /// Samples whose latency isn't known.
    pub lost: u64,
    /// Periods that passed while a thread was late; absent where that isn't known.
    pub missed: Option<u64>,
    /// Exact minimum.
    pub min_ns: Option<u64>,
    /// Exact mean.
    pub mean_ns: Option<f64>,
    /// Exact maximum, to the resolution of the tool.
    pub max_ns: Option<u64>,
    /// The run's own verdict.
    pub verdict: Option<Outcome>,
}

/// Percentiles of both runs; absent where a run has too few samples beyond.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PercentilePair {
    /// 0 to 100.
    pub percentile: f64,
    /// Of the first run.
    pub first_ns: Option<u64>,
    /// Of the second run.
    pub second_ns: Option<u64>,
}

/// Samples of both runs in one band of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// The lowest latency in the band.
    pub from_ns: u64,
    /// The lowest latency above the band.
    pub to_ns: u64,
    /// Samples of the first run.
    pub first: u64,
    /// Samples of the second run.
    pub second: u64,
}

/// Two runs held against each other.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The first run.
    pub first: Side,
    /// The second run.
    pub second: Side,
    /// Percentiles side by side.
    pub percentiles: Vec<PercentilePair>,
    /// Histograms side by side, all threads together.
    pub bands: Vec<Band>,
    /// Test, effect and intervals.
    pub statistics: Statistics,
    /// Latencies of both were rounded down to multiples of this, the coarser
    /// resolution of the two.
    pub resolution_ns: u64,
    /// Conditions in which the runs differ.
    pub differences: Vec<Difference>,
    /// Why the comparison is not fair, or says less than it seems to.
    pub warnings: Vec<String>,
}

/// Compares two runs; intervals hold at the lower of the two confidences.
///
/// # Errors
/// A sentence, where a histogram can't be decoded; runs that were read have none such.
pub fn compare(first: &Run, second: &Run) -> Result<Comparison, String> {
    let resolution_ns = first.resolution_ns().max(second.resolution_ns());
    let totals = [total(first, resolution_ns)?, total(second, resolution_ns)?];
    let [one, two] = &totals;
    let blocks = [
        blocks(first, resolution_ns)?,
        blocks(second, resolution_ns)?,
    ];
    let confidence = first.request.confidence.min(second.request.confidence);
    let statistics = punctual_stats::compare::compare(
        Comparand {
            total: one,
            blocks: &blocks[0],
        },
        Comparand {
            total: two,
            blocks: &blocks[1],
        },
        confidence,
    );
    let differences = differences(first, second);
    let warnings = warnings(first, second, &differences, &statistics);
    Ok(Comparison {
        first: side(first),
        second: side(second),
        percentiles: percentiles(one, two, resolution_ns),
        bands: bands(one, two),
        statistics,
        resolution_ns,
        differences,
        warnings,
    })
}

/// All threads together, in steps of the resolution.
fn total(run: &Run, resolution_ns: u64) -> Result<Histogram, String> {
    let evidence = Evidence::of(run).map_err(|e| e.to_string())?;
    let total = Histogram::merged(evidence.histograms());
    Ok(in_steps(total, run, resolution_ns))
}

/// The stretches of a run's time, in steps of the resolution; none where it keeps none.
fn blocks(run: &Run, resolution_ns: u64) -> Result<Vec<Histogram>, String> {
    let Some(blocks) = &run.blocks else {
        return Ok(Vec::new());
    };
    let histograms = blocks.histograms().map_err(|e| e.to_string())?;
    let coarse = |block| in_steps(block, run, resolution_ns);
    Ok(histograms.into_iter().map(coarse).collect())
}

fn in_steps(total: Histogram, run: &Run, resolution_ns: u64) -> Histogram {
    if resolution_ns <= run.resolution_ns() {
        return total;
    }
    let mut coarse = Histogram::new();
    let max = total.max().unwrap_or(0);
    for bucket in total.buckets() {
        let value = bucket.high_ns.min(max);
        coarse.record_n(value - value % resolution_ns, bucket.count);
    }
    coarse
}

fn side(run: &Run) -> Side {
    let threads = &run.threads;
    let used = || threads.iter().filter(|thread| thread.latency.count > 0);
    let samples: u64 = threads.iter().map(|thread| thread.latency.count).sum();
    let sum: u128 = threads.iter().map(|thread| thread.latency.sum_ns).sum();
    Side {
        tool: run.tool.name.clone(),
        started: run.started.clone(),
        host: run.system.hostname.clone(),
        kernel: run.system.kernel.release.clone(),
        measured_ns: run.knows("measured-time").then_some(run.measured_ns),
        threads: threads.len(),
        samples,
        lost: threads.iter().map(|thread| thread.lost).sum(),
        missed: run
            .knows("missed")
            .then(|| threads.iter().map(|thread| thread.missed).sum()),
        min_ns: used().map(|thread| thread.latency.min_ns).min(),
        mean_ns: (samples > 0).then(|| sum as f64 / samples as f64),
        max_ns: used().map(|thread| thread.latency.max_ns).max(),
        verdict: run.verdict.as_ref().map(|verdict| verdict.outcome),
    }
}

fn percentiles(first: &Histogram, second: &Histogram, resolution_ns: u64) -> Vec<PercentilePair> {
    let at = |histogram: &Histogram, percentile: f64| {
        let beyond = histogram.count() as f64 * (1.0 - percentile / 100.0);
        let enough = beyond + 1e-6 >= MIN_SAMPLES_BEYOND as f64;
        let value = histogram.quantile(percentile / 100.0).filter(|_| enough)?;
        // The end of a bucket is no latency that a coarser tool can have seen.
        Some(value - value % resolution_ns)
    };
    let pair = |percentile| PercentilePair {
        percentile,
        first_ns: at(first, percentile),
        second_ns: at(second, percentile),
    };
    PERCENTILES
        .into_iter()
        .map(pair)
        .filter(|pair| pair.first_ns.is_some() || pair.second_ns.is_some())
        .collect()
}

/// The bands in use: 1, 1.5, 2, 3, 5 and 7 of each decade.
fn bands(first: &Histogram, second: &Histogram) -> Vec<Band> {
    const STEPS: [u64; 6] = [10, 15, 20, 30, 50, 70];
    let lowest = [first.min(), second.min()].into_iter().flatten().min();
    let highest = [first.max(), second.max()].into_iter().flatten().max();
    let (Some(lowest), Some(highest)) = (lowest, highest) else {
        return Vec::new();
    };
    let mut edges = vec![0];
    let mut decade = 1_u64;
    while let Some(next) = decade.checked_mul(10) {
        edges.extend(STEPS.iter().filter_map(|step| decade.checked_mul(*step)));
        decade = next;
    }
    edges.push(u64::MAX);
    edges
        .windows(2)
        .filter(|edge| edge[1] > lowest && edge[0] <= highest)
        .map(|edge| Band {
            from_ns: edge[0],
            to_ns: edge[1],
            first: within(first, edge[0], edge[1]),
            second: within(second, edge[0], edge[1]),
        })
        .collect()
}

/// Samples from `from` to below `to`. A bucket that straddles an edge counts above.
fn within(histogram: &Histogram, from: u64, to: u64) -> u64 {
    let below = |edge: u64| {
        edge.checked_sub(1)
            .map_or(0, |last| histogram.count_at_or_below(last))
    };
    let to = if to == u64::MAX {
        histogram.count()
    } else {
        below(to)
    };
    to.saturating_sub(below(from))
}

fn warnings(
    first: &Run,
    second: &Run,
    differences: &[Difference],
    statistics: &Statistics,
) -> Vec<String> {
    let mut warnings = Vec::new();
    let methods: Vec<_> = differences
        .iter()
        .filter(|d| d.role == Role::Method)
        .map(|d| d.name)
        .collect();
    if !methods.is_empty() {
        warnings.push(format!(
            "not measured alike ({}): a difference may come from that",
            methods.join(", ")
        ));
    }
    for (name, run) in [("first", first), ("second", second)] {
        let reasons = invalid_reasons(run);
        let lost: u64 = run.threads.iter().map(|thread| thread.lost).sum();
        if let Some(reason) = reasons.first() {
            let more = match reasons.len() {
                1 => String::new(),
                count => format!(" (and {} more)", count - 1),
            };
            warnings.push(format!("the {name} run is not valid: {reason}{more}"));
        } else if lost > 0 {
            warnings.push(format!(
                "the {name} run is not valid: it lost {lost} samples"
            ));
        }
        if run.state == State::Unfinished {
            warnings.push(format!("the {name} run is unfinished"));
        }
        if !run.knows("load") {
            warnings.push(format!("the load of the {name} run is not known"));
        }
    }
    let measured = |run: &Run| run.knows("measured-time").then_some(run.measured_ns);
    if let Some((a, b)) = measured(first).zip(measured(second))
        && a.max(b) > a.min(b).saturating_mul(2)
    {
        warnings.push(
            "one run is more than twice as long: its maximum has had more chances".to_owned(),
        );
    }
    if statistics.resampling == Resampling::Independent
        && statistics
            .quantiles
            .iter()
            .any(|quantile| quantile.quantile > 0.9)
    {
        warnings.push(
            "the intervals take samples as independent; latency comes in bursts, so they are \
             too narrow: repeat both runs before you trust a small difference"
                .to_owned(),
        );
    }
    warnings
}
