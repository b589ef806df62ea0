//! One run per side: whether these two runs differ by more than their own bursts explain.

use super::randomise::{self, Moments};
use super::{
    Basis, Comparison, Conclusion, Confounded, MIN_SAMPLES, QuantileTest, Unit, Untested,
    cliffs_delta, directions, known_quantiles, log_quantile,
};
use crate::histogram::Histogram;

/// Fewest units on a side.
const MIN_UNITS: usize = 8;
/// Blocks are joined to about so many units, so that a burst seldom lies in two of them.
const AIM: usize = 10;

/// One side of a comparison of two runs.
#[derive(Clone, Copy, Debug)]
pub struct Comparand<'a> {
    /// All samples.
    pub total: &'a Histogram,
    /// The samples of equal stretches of time, in their order, when kept; empty otherwise.
    pub blocks: &'a [Histogram],
    /// The length of a block.
    pub block_ns: u64,
    /// Samples at or above this are known to be there, and no more.
    pub limit_ns: Option<u64>,
}

/// Compares two runs at `confidence`.
#[must_use]
pub fn pair(first: Comparand<'_>, second: Comparand<'_>, confidence: f64) -> Comparison {
    let samples = (first.total.count(), second.total.count());
    let mut result = Comparison {
        runs: (1, 1),
        samples,
        delta: 0.0,
        quantiles: Vec::new(),
        basis: None,
        order: None,
        confidence,
        conclusion: Conclusion::TooFewSamples,
    };
    if samples.0.min(samples.1) < MIN_SAMPLES {
        return result;
    }
    result.delta = cliffs_delta(first.total, second.total);
    let limits = [first, second].map(|side| (side.total, side.limit_ns));
    let known = known_quantiles(limits.into_iter());
    result.quantiles = known
        .iter()
        .map(|quantile| QuantileTest {
            quantile: *quantile,
            first_ns: first.total.quantile(*quantile).unwrap_or(0),
            second_ns: second.total.quantile(*quantile).unwrap_or(0),
            ratio: None,
            ratio_interval: None,
            p: None,
        })
        .collect();
    let untested = |why| Conclusion::Untested { why };
    if known.is_empty() {
        result.conclusion = untested(Untested::NoQuantile);
        return result;
    }
    let (units, length_ns) = match units(first, second) {
        Ok(units) => units,
        Err(why) => {
            result.conclusion = untested(why);
            return result;
        }
    };
    let tested = in_units(&units, &known);
    if tested.is_empty() {
        result.conclusion = untested(Untested::NoQuantile);
        return result;
    }
    test(&mut result, &units, &tested);
    result.basis = Some(Basis {
        unit: Unit::Block { length_ns },
        units: (units[0].len(), units[1].len()),
        smallest_p: randomise::smallest_of_sides(units[0].len(), units[1].len()),
    });
    result.conclusion = match directions(&result.quantiles, confidence) {
        (false, false) => Conclusion::NoDifferenceSeen,
        _ => Conclusion::Differ {
            because: Confounded::SingleRuns,
        },
    };
    result
}

/// Blocks joined to units of one length on both sides.
fn units(
    first: Comparand<'_>,
    second: Comparand<'_>,
) -> Result<([Vec<Histogram>; 2], u64), Untested> {
    let sides = [first, second];
    if sides.iter().any(|side| side.blocks.is_empty()) {
        return Err(Untested::NoBlocks);
    }
    let aim = |side: &Comparand<'_>| {
        let join = (side.blocks.len() / AIM).max(1);
        side.block_ns.saturating_mul(join as u64)
    };
    // The shorter run says how long a unit is, but for the longer one's blocks.
    let shorter = sides.iter().map(aim).min().unwrap_or(0);
    let widest = sides.iter().map(|side| side.block_ns).max().unwrap_or(0);
    let length_ns = shorter.max(widest).max(1);
    let joined = sides.map(|side| {
        let join = (length_ns as f64 / side.block_ns.max(1) as f64).round() as usize;
        let whole = side.blocks.chunks_exact(join.max(1));
        whole.map(Histogram::merged).collect::<Vec<_>>()
    });
    if joined.iter().any(|units| units.len() < MIN_UNITS) {
        return Err(Untested::TooShort);
    }
    Ok((joined, length_ns))
}

/// Places of the quantiles that single units have too.
fn in_units(units: &[Vec<Histogram>; 2], known: &[f64]) -> Vec<usize> {
    let least = units.iter().flatten().map(Histogram::count).min();
    let beyond = |quantile: f64| least.unwrap_or(0) as f64 * (1.0 - quantile);
    let enough = |at: &usize| beyond(known[*at]) >= 2.0 - 1e-9;
    (0..known.len()).filter(enough).collect()
}

fn test(result: &mut Comparison, units: &[Vec<Histogram>; 2], tested: &[usize]) {
    let quantiles: Vec<f64> = tested
        .iter()
        .map(|at| result.quantiles[*at].quantile)
        .collect();
    let [first, second] = [0, 1].map(|side: usize| -> Vec<Vec<f64>> {
        let of = |unit: &Histogram| quantiles.iter().map(|q| log_quantile(unit, *q)).collect();
        units[side].iter().map(of).collect()
    });
    let found = randomise::sides(&first, &second);
    for (measure, at) in tested.iter().enumerate() {
        let of = |side: &[Vec<f64>]| {
            let values: Vec<f64> = side.iter().map(|unit| unit[measure]).collect();
            Moments::of(values.into_iter())
        };
        let (a, b) = (of(&first), of(&second));
        result.quantiles[*at].fill(a, b, found.p[measure], result.confidence);
    }
}

impl QuantileTest {
    /// Puts what two sides of units gave.
    pub(super) fn fill(&mut self, first: Moments, second: Moments, p: f64, confidence: f64) {
        let (ratio, interval) = randomise::welch(first, second, confidence);
        self.ratio = Some(ratio);
        self.ratio_interval = Some(interval);
        self.p = Some(p);
    }
}
