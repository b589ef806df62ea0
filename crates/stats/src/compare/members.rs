//! CPUs of one run: measured at the same time, so their blocks of the same time are paired.
//! A stall of the whole machine is in all of them and cancels out.

use serde::{Deserialize, Serialize};

use super::randomise::{self, Moments};
use super::{Basis, QUANTILES, QuantileTest, Unit, Untested, ratio_interval};
use crate::histogram::Histogram;

/// Fewest units.
const MIN_UNITS: usize = 8;
/// Neighbouring blocks are joined down to so many at the least, while they resemble each other.
const LEAST_JOINED: usize = 16;
/// Correlation of neighbours above which they are joined.
const ALIKE: f64 = 0.2;

/// The figures of one member in one block of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(from = "[u64; 4]", into = "[u64; 4]")]
pub struct BlockFigures {
    /// Samples.
    pub count: u64,
    /// p50, p99 and p99.9 in ns: of few samples, the highest of them.
    pub quantiles_ns: [u64; 3],
}

impl BlockFigures {
    /// The figures of a histogram.
    #[must_use]
    pub fn of(histogram: &Histogram) -> Self {
        Self {
            count: histogram.count(),
            quantiles_ns: QUANTILES.map(|quantile| histogram.quantile(quantile).unwrap_or(0)),
        }
    }
}

impl From<[u64; 4]> for BlockFigures {
    fn from([count, a, b, c]: [u64; 4]) -> Self {
        Self {
            count,
            quantiles_ns: [a, b, c],
        }
    }
}

impl From<BlockFigures> for [u64; 4] {
    fn from(figures: BlockFigures) -> Self {
        let [a, b, c] = figures.quantiles_ns;
        [figures.count, a, b, c]
    }
}

/// One member beside the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Member {
    /// Its quantiles: `first_ns` is that of the others, `second_ns` its own, both as the
    /// geometric mean over the blocks.
    pub quantiles: Vec<QuantileTest>,
    /// Whether it was slower than the others by more than chance and a trifle; absent where
    /// nothing is stated. `None` too where one quantile is above and another below, and where
    /// the difference is that of the odd ones among the others.
    pub slower: Option<bool>,
}

/// The members of one run compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Members {
    /// One for each, in their order.
    pub members: Vec<Member>,
    /// What was exchanged; absent where nothing was tested.
    pub basis: Option<Basis>,
    /// Why nothing was tested.
    pub untested: Option<Untested>,
    /// The requested confidence.
    pub confidence: f64,
}

/// Compares members by their blocks of the same time: `blocks[member][block]`, of `block_ns`
/// each. Two members or more.
#[must_use]
pub fn members(blocks: &[Vec<BlockFigures>], block_ns: u64, confidence: f64) -> Members {
    let mut result = Members {
        members: Vec::new(),
        basis: None,
        untested: None,
        confidence,
    };
    let length = blocks.iter().map(Vec::len).min().unwrap_or(0);
    if length == 0 || blocks.len() < 2 {
        result.untested = Some(Untested::NoBlocks);
        return result;
    }
    // A block in which a member has no sample is nobody's.
    let whole: Vec<usize> = (0..length)
        .filter(|at| blocks.iter().all(|member| member[*at].count > 0))
        .collect();
    let least = |member: &Vec<BlockFigures>| whole.iter().map(|at| member[*at].count).min();
    let least = blocks.iter().filter_map(least).min().unwrap_or(0);
    let measures: Vec<usize> = (0..QUANTILES.len())
        .filter(|measure| least as f64 * (1.0 - QUANTILES[*measure]) >= 2.0 - 1e-9)
        .collect();
    if measures.is_empty() || whole.len() < MIN_UNITS {
        result.untested = Some(if whole.len() < MIN_UNITS {
            Untested::TooShort
        } else {
            Untested::NoQuantile
        });
        return result;
    }
    let log = |at: &usize| -> Vec<Vec<f64>> {
        let of = |member: &Vec<BlockFigures>| {
            let value = |measure: &usize| member[*at].quantiles_ns[*measure].max(1) as f64;
            measures.iter().map(|measure| value(measure).ln()).collect()
        };
        blocks.iter().map(of).collect()
    };
    let mut units: Vec<Vec<Vec<f64>>> = whole.iter().map(log).collect();
    let mut joined = 1_u64;
    while units.len() >= 2 * LEAST_JOINED && resemblance(&units) > ALIKE {
        units = units.chunks_exact(2).map(mean_of).collect();
        joined *= 2;
    }
    let tested = randomise::within(&units);
    let p = |member: usize, measure: usize| Some(tested.p[member * measures.len() + measure]);
    result.members = (0..blocks.len())
        .map(|member| described(&units, member, &measures, p, confidence))
        .collect();
    keep_odd_ones(&mut result.members, units.clone(), &measures, confidence);
    result.basis = Some(Basis {
        unit: Unit::Block {
            length_ns: block_ns.saturating_mul(joined),
        },
        units: (units.len(), units.len()),
        smallest_p: tested.smallest,
    });
    result
}

fn mean_of(two: &[Vec<Vec<f64>>]) -> Vec<Vec<f64>> {
    let mean = |a: &Vec<f64>, b: &Vec<f64>| -> Vec<f64> {
        a.iter().zip(b).map(|(a, b)| (a + b) / 2.0).collect()
    };
    two[0]
        .iter()
        .zip(&two[1])
        .map(|(a, b)| mean(a, b))
        .collect()
}

/// A member's value, and the median of the others': one that is slow makes not all of the
/// others fast.
fn own_and_others(unit: &[Vec<f64>], member: usize, measure: usize) -> (f64, f64) {
    let values = unit.iter().map(|of| of[measure]);
    (
        unit[member][measure],
        randomise::median_of_others(values, member),
    )
}

/// The highest correlation of neighbouring blocks, of any member's distance from the others.
fn resemblance(units: &[Vec<Vec<f64>>]) -> f64 {
    let members = units[0].len();
    let measures = units[0][0].len();
    let of = |member: usize, measure: usize| {
        let differences: Vec<f64> = units
            .iter()
            .map(|unit| {
                let (own, others) = own_and_others(unit, member, measure);
                own - others
            })
            .collect();
        let mean = differences.iter().sum::<f64>() / differences.len() as f64;
        let product = |(a, b): (&f64, &f64)| (a - mean) * (b - mean);
        let next = differences.iter().zip(&differences[1..]);
        let own = differences.iter().zip(&differences);
        let spread: f64 = own.map(product).sum();
        if spread > 0.0 {
            next.map(product).sum::<f64>() / spread
        } else {
            0.0
        }
    };
    (0..members)
        .flat_map(|member| (0..measures).map(move |measure| (member, measure)))
        .map(|(member, measure)| of(member, measure))
        .fold(0.0, f64::max)
}

fn described(
    units: &[Vec<Vec<f64>>],
    member: usize,
    measures: &[usize],
    p: impl Fn(usize, usize) -> Option<f64>,
    confidence: f64,
) -> Member {
    let quantiles: Vec<QuantileTest> = measures
        .iter()
        .enumerate()
        .map(|(at, measure)| {
            let split = |unit: &Vec<Vec<f64>>| own_and_others(unit, member, at);
            let both: Vec<(f64, f64)> = units.iter().map(split).collect();
            let own = Moments::of(both.iter().map(|two| two.0));
            let others = Moments::of(both.iter().map(|two| two.1));
            let difference = Moments::of(both.iter().map(|two| two.0 - two.1));
            QuantileTest {
                quantile: QUANTILES[*measure],
                first_ns: others.mean.exp().round() as u64,
                second_ns: own.mean.exp().round() as u64,
                ratio: Some(difference.mean.exp()),
                ratio_interval: Some(ratio_interval(
                    difference.mean,
                    difference.error2,
                    difference.count - 1.0,
                    confidence,
                )),
                p: p(member, at),
            }
        })
        .collect();
    let slower = match super::directions(&quantiles, confidence) {
        (false, true) => Some(true),
        (true, false) => Some(false),
        _ => None,
    };
    Member { quantiles, slower }
}

/// Takes back what is stated of members because of others that stand out: beside a slow one, all
/// others would be fast. The one that stands out most is left out, and the rest is looked at
/// again, until none of them differs. This only takes statements back, so chance alone makes
/// no more of them than before. Of two that differ, each is the other's odd one.
fn keep_odd_ones(
    members: &mut [Member],
    mut units: Vec<Vec<Vec<f64>>>,
    measures: &[usize],
    confidence: f64,
) {
    let mut rest: Vec<usize> = (0..members.len()).collect();
    if rest.len() <= 2 {
        return;
    }
    while rest.len() >= 2 {
        let strength = |at: usize| {
            let again = described(&units, at, measures, |_, _| None, confidence);
            let both = members[rest[at]].quantiles.iter().zip(&again.quantiles);
            let stands =
                |(all, rest): (&QuantileTest, &QuantileTest)| stands_out(all, rest, confidence);
            both.filter_map(stands).fold(0.0, f64::max)
        };
        let strengths = (0..rest.len()).map(|at| (strength(at), at));
        let most = strengths.max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, at)) = most.filter(|(strength, _)| *strength > 0.0) else {
            break;
        };
        rest.remove(at);
        for unit in &mut units {
            unit.remove(at);
        }
    }
    for at in rest {
        members[at].slower = None;
    }
}

/// How far a member stands out from the rest at a quantile, if that is stated beside all others
/// and holds beside the rest, in the same direction.
fn stands_out(all: &QuantileTest, rest: &QuantileTest, confidence: f64) -> Option<f64> {
    let (ratio, (low, high)) = (rest.ratio?, rest.ratio_interval?);
    let same = all.is_stated(confidence) && (all.ratio? > 1.0) == (ratio > 1.0);
    let beyond_chance = low > 1.0 || high < 1.0;
    (same && beyond_chance && super::is_large(ratio)).then(|| ratio.ln().abs())
}
