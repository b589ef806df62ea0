//! Several runs per side. The unit is the run, or a pair of runs that follow each other:
//! samples and blocks of one run share its hour.

use super::order::{self, Order, sequence};
use super::randomise::{self, Moments};
use super::{
    Basis, Comparison, Conclusion, Confounded, MIN_SAMPLES, QuantileTest, Unit, Untested,
    cliffs_delta, directions, known_quantiles, log_quantile, ratio_interval,
};
use crate::histogram::Histogram;

/// More runs than this are never recommended.
const MOST_NEEDED: usize = 1000;

/// One run of a side.
#[derive(Clone, Copy, Debug)]
pub struct RunComparand<'a> {
    /// All samples.
    pub total: &'a Histogram,
    /// When it was started, in ns of any clock that all runs share.
    pub started_ns: Option<u64>,
    /// Samples at or above this are known to be there, and no more.
    pub limit_ns: Option<u64>,
}

/// Compares two sides of runs at `confidence`. Neither side is empty.
#[must_use]
pub fn sides(
    first: &[RunComparand<'_>],
    second: &[RunComparand<'_>],
    confidence: f64,
) -> Comparison {
    let pooled = [first, second].map(|runs| Histogram::merged(runs.iter().map(|run| run.total)));
    let starts =
        [first, second].map(|runs| -> Vec<_> { runs.iter().map(|run| run.started_ns).collect() });
    let sequence = sequence([&starts[0], &starts[1]]);
    let order = order::order(sequence.as_deref());
    let mut result = Comparison {
        runs: (first.len(), second.len()),
        samples: (pooled[0].count(), pooled[1].count()),
        delta: 0.0,
        quantiles: Vec::new(),
        basis: None,
        order: Some(order),
        confidence,
        conclusion: Conclusion::TooFewSamples,
    };
    let all = || first.iter().chain(second);
    if all().any(|run| run.total.count() < MIN_SAMPLES) {
        return result;
    }
    result.delta = cliffs_delta(&pooled[0], &pooled[1]);
    let known = known_quantiles(all().map(|run| (run.total, run.limit_ns)));
    let values = [first, second].map(|runs| -> Vec<Vec<f64>> {
        let of = |run: &RunComparand<'_>| -> Vec<f64> {
            known.iter().map(|q| log_quantile(run.total, *q)).collect()
        };
        runs.iter().map(of).collect()
    });
    result.quantiles = described(&known, &values);
    if known.is_empty() {
        result.conclusion = Conclusion::Untested {
            why: Untested::NoQuantile,
        };
        return result;
    }
    let level = 1.0 - confidence;
    let reaches = |p: f64| p <= level + 1e-9;
    let by_pairs = order == Order::Pairs && reaches(randomise::smallest_of_pairs(first.len()));
    let drawn = if by_pairs {
        by_pairs_test(&mut result, sequence.as_deref().unwrap_or(&[]), &values)
    } else {
        by_runs_test(&mut result, &values)
    };
    result.basis = Some(drawn);
    result.conclusion = if first.len().min(second.len()) < 2 || !reaches(drawn.smallest_p) {
        Conclusion::TooFewRuns {
            needed: needed(level),
        }
    } else {
        concluded(&result, order, sequence.as_deref(), &values)
    };
    result
}

/// Runs on each side with which a difference can be shown at all.
fn needed(level: f64) -> usize {
    let reaches = |runs: &usize| randomise::smallest_of_sides(*runs, *runs) <= level + 1e-9;
    (2..MOST_NEEDED).find(reaches).unwrap_or(MOST_NEEDED)
}

fn column(side: &[Vec<f64>], measure: usize) -> Moments {
    let values: Vec<f64> = side.iter().map(|run| run[measure]).collect();
    Moments::of(values.into_iter())
}

fn described(known: &[f64], values: &[Vec<Vec<f64>>; 2]) -> Vec<QuantileTest> {
    let of = |(measure, quantile): (usize, &f64)| {
        let [first, second] = [0, 1].map(|side: usize| column(&values[side], measure));
        QuantileTest {
            quantile: *quantile,
            first_ns: first.mean.exp().round() as u64,
            second_ns: second.mean.exp().round() as u64,
            ratio: None,
            ratio_interval: None,
            p: None,
        }
    };
    known.iter().enumerate().map(of).collect()
}

fn by_runs_test(result: &mut Comparison, values: &[Vec<Vec<f64>>; 2]) -> Basis {
    let [first, second] = values;
    let runs = (first.len(), second.len());
    if runs.0.min(runs.1) >= 2 {
        let tested = randomise::sides(first, second);
        let confidence = result.confidence;
        for (measure, quantile) in result.quantiles.iter_mut().enumerate() {
            let moments = [first, second].map(|side| column(side, measure));
            quantile.fill(moments[0], moments[1], tested.p[measure], confidence);
        }
    }
    Basis {
        unit: Unit::Run,
        units: runs,
        smallest_p: randomise::smallest_of_sides(runs.0, runs.1),
    }
}

fn by_pairs_test(
    result: &mut Comparison,
    sequence: &[(u64, bool, usize)],
    values: &[Vec<Vec<f64>>; 2],
) -> Basis {
    let of = |run: &(u64, bool, usize)| &values[usize::from(run.1)][run.2];
    let differences: Vec<Vec<f64>> = sequence
        .chunks_exact(2)
        .map(|two| {
            let (first, second) = if two[0].1 {
                (of(&two[1]), of(&two[0]))
            } else {
                (of(&two[0]), of(&two[1]))
            };
            second.iter().zip(first).map(|(b, a)| b - a).collect()
        })
        .collect();
    let tested = randomise::pairs(&differences);
    let confidence = result.confidence;
    for (measure, quantile) in result.quantiles.iter_mut().enumerate() {
        let of = column(&differences, measure);
        quantile.ratio = Some(of.mean.exp());
        quantile.ratio_interval = Some(ratio_interval(
            of.mean,
            of.error2,
            of.count - 1.0,
            confidence,
        ));
        quantile.p = Some(tested.p[measure]);
    }
    Basis {
        unit: Unit::Pair,
        units: (differences.len(), differences.len()),
        smallest_p: tested.smallest,
    }
}

fn concluded(
    result: &Comparison,
    order: Order,
    sequence: Option<&[(u64, bool, usize)]>,
    values: &[Vec<Vec<f64>>; 2],
) -> Conclusion {
    let slower = directions(&result.quantiles, result.confidence);
    if slower == (false, false) {
        return Conclusion::NoDifferenceSeen;
    }
    let because = match order {
        Order::Unknown => Some(Confounded::OrderUnknown),
        Order::Apart => Some(Confounded::Order),
        Order::Pairs | Order::Mixed => {
            let sequence = sequence.unwrap_or(&[]);
            let explained = |(measure, quantile): (usize, &QuantileTest)| {
                quantile.is_stated(result.confidence)
                    && is_trend(sequence, values, measure, quantile.ratio)
            };
            let any = result.quantiles.iter().enumerate().any(explained);
            any.then_some(Confounded::Trend)
        }
    };
    match (because, slower) {
        (Some(because), _) => Conclusion::Differ { because },
        (None, (true, false)) => Conclusion::FirstSlower,
        (None, (false, true)) => Conclusion::SecondSlower,
        (None, _) => Conclusion::Mixed,
    }
}

/// Whether a straight trend over time makes half of the difference or more.
fn is_trend(
    sequence: &[(u64, bool, usize)],
    values: &[Vec<Vec<f64>>; 2],
    measure: usize,
    ratio: Option<f64>,
) -> bool {
    let point = |run: &(u64, bool, usize)| {
        let value = values[usize::from(run.1)][run.2][measure];
        (run.0, run.1, value)
    };
    let points: Vec<_> = sequence.iter().map(point).collect();
    let difference = ratio.map_or(0.0, f64::ln);
    let trend = order::trend(&points);
    trend.signum() == difference.signum() && trend.abs() >= 0.5 * difference.abs()
}
