//! The probability that a cycle misses its deadline, with bounds that hold
//! their confidence when misses come in bursts.
//!
//! # Definition
//! Each due instant is a cycle. A wake-up later than the limit is a miss. A period that was
//! skipped is a miss as [`definition`] says: always where the limit is not above the interval,
//! else if the thread ran later than the limit after the instant at which that period was due.
//! misses = late wake-ups + skipped periods that miss, cycles = wake-ups + skipped periods, and
//! the probability is misses/cycles in the long run.
//!
//! # Bounds
//! Were cycles independent, Clopper and Pearson's interval would do
//! ([`crate::binomial`]). They aren't: one stall of the machine is a burst of
//! misses on every CPU. Bursts with weights `W` that arrive at random make the
//! number of misses `K` a compound Poisson variable with variance `D·K`, where
//! the index of dispersion is `D = E[W²]/E[W]`; such a sum is close to `D` times
//! a Poisson variable with `K/D` events (Fay and Feuer, *Confidence intervals
//! for directly standardized rates*, Statistics in Medicine 16, 1997). So the
//! bounds are Clopper-Pearson's for `K/D` misses in `N/D` cycles. For the upper
//! bound one more burst, as heavy as the heaviest, is put in as Fay and Feuer
//! do; with unit weights that gives Clopper-Pearson exactly.
//!
//! For the upper bound `D` is the largest of:
//! 1. the dispersion of the bursts that the intervals estimator separates;
//! 2. the dispersion of misses per block of time, for blocks from a few cycles
//!    to 1/20 of the run: this sees bursts of bursts;
//! 3. with fewer than 30 bursts, 1/θ, where θ is a lower limit of the extremal
//!    index at levels below the deadline: with no miss at all this is all that
//!    is known of bursts;
//! 4. when there were more misses than peaks are kept, the dispersion of misses per row of the
//!    timeline, or where that is not known that of the kept ones scaled up to all, that of
//!    the seconds with a miss, and that of one burst of all of which it is not known when they were.
//!
//! With fewer than 30 bursts, the burst that is put in weighs at least limit/interval: a stall
//! that breaks a deadline of many intervals makes many misses at once, and one that breaks it
//! by as much again is to be expected. So the evidence of a run without a miss is the number of
//! stretches as long as the deadline, however short the interval; a twentieth of the run at most.
//!
//! Where stalls differ much in length, or are few, that of `miss/heavy.rs` holds if it is higher; the
//! dispersion stated is then the one that leads to it.
//!
//! The lower bound takes the part of the misses that shows most, so that more misses never
//! lower it: `miss/lower.rs`.
//!
//! # What it can't know
//! Without a miss, the size of the bursts is that of the highest samples that
//! were seen, or that above. Should misses, when they come, come in larger bursts than these,
//! the bound holds for episodes ([`MissBound::episodes`]), not for cycles: a stall that comes
//! twice in a run's length is absent from one run in seven.
//! The same goes for a run with a handful of bursts whose sizes differ wildly.
//! And a machine that changes between good and bad states less often than
//! twenty times in a run shows too few of them: run longer, or look at
//! [`mod@crate::stationarity`]. A bound holds for a run whose length was fixed
//! beforehand; who looks again and again and stops at the first PASS, passes
//! too often.

mod bursts;
pub mod definition;
mod episodes;
mod heavy;
mod lower;
mod stalls;
mod time;
mod unseen;

use crate::binomial;
use crate::evidence::RunPart;
use crate::extremal::{ExtremalIndex, extremal_index};
use crate::peaks::Peaks;
use crate::special::beta_quantile;
use bursts::{Bursts, dispersion_of, for_few, per_block, run_of, separate};
pub use episodes::{Episodes, most_per_hour};
use heavy::Carried;
use lower::Blocks;
use serde::{Deserialize, Serialize};
use stalls::Stall;
pub use time::{TimeNeeded, TimeUnknown};

/// Bursts from which on the misses themselves say enough about their bursts.
const ENOUGH_BURSTS: usize = 30;
/// Fewest blocks whose dispersion is looked at.
const MIN_BLOCKS: f64 = 20.0;
/// The lower bound looks at fewer too, for machines that change slowly.
const FEWEST_BLOCKS: f64 = 7.0;

/// A late wake-up with the skipped periods that miss with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MissEvent {
    /// The instant that was requested, in ns of the run's clock.
    pub at_ns: u64,
    /// When the thread ran, in ns of the run's clock.
    pub until_ns: u64,
    /// Its misses, above 0.
    pub weight: f64,
    /// How far beyond the limit it was, in intervals of its thread; where these aren't known, as
    /// many as its misses.
    pub beyond: f64,
}

/// The misses of all threads by rows of time: none is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissRows {
    /// Width of a row in ns.
    pub width_ns: u64,
    /// Misses of each row, from the start of the run.
    pub misses: Vec<u64>,
    /// When the first row starts, on the run's clock, if that is known.
    pub start_ns: Option<u64>,
    /// How much earlier or later than its row a miss may have been.
    pub slack_ns: u64,
}

/// What is known about misses of one limit.
#[derive(Clone, Debug)]
pub struct MissEvidence<'a> {
    /// Later than this (ns) is a miss.
    pub limit_ns: u64,
    /// The shortest interval of a thread in ns, where there is one.
    pub interval_ns: Option<u64>,
    /// Samples, skipped periods, and wake-ups that went unseen, of all threads.
    pub cycles: u64,
    /// Samples alone.
    pub samples: u64,
    /// Samples later than the limit, counted exactly.
    pub late: u64,
    /// Skipped periods that miss the limit.
    pub missed: u64,
    /// Cycles of which it is not known whether they missed it.
    pub unseen: u64,
    /// The misses that the peaks hold, in order of time.
    pub events: Vec<MissEvent>,
    /// Whether these are all.
    pub events_complete: bool,
    /// Where only a few of the highest latencies were kept of each CPU, too few to say how they come: the rows of the
    /// run's time, whatever misses they count.
    pub few_kept: Option<usize>,
    /// The misses by rows of time, where they were counted for this limit.
    pub rows: Option<MissRows>,
    /// Of the skipped periods those that belong to no wake-up, and of which only their number was kept.
    pub unplaced: u64,
    /// The highest samples of all threads.
    pub peaks: &'a Peaks,
    /// Duration of the run in ns.
    pub duration_ns: u64,
    /// The runs that this is the sum of: no burst extends from one into the next.
    pub parts: Vec<RunPart>,
    /// Whole seconds of the run.
    pub seconds: u64,
    /// Seconds with a miss, when they were counted for this limit.
    pub seconds_with_miss: Option<u64>,
}

/// The probability of a miss, bounded.
///
/// Both bounds are one-sided: each is wrong in at most `1 - confidence` of all
/// runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissBound {
    /// Later than this (ns) is a miss.
    pub limit_ns: u64,
    /// One-sided confidence of each bound, within (0, 1).
    pub confidence: f64,
    /// Samples and skipped periods of all threads.
    pub cycles: u64,
    /// Late samples, and skipped periods that miss.
    pub misses: u64,
    /// Late samples alone.
    pub late: u64,
    /// Skipped periods that miss, alone.
    pub missed: u64,
    /// misses/cycles; 0 without cycles.
    pub observed_probability: f64,
    /// Upper bound if cycles were independent. As `upper` it holds even if all that went unseen missed.
    pub independent_upper: f64,
    /// Lower bound if cycles were independent.
    pub independent_lower: f64,
    /// Cycles divided by the dispersion: how many independent cycles would
    /// tell as much.
    pub effective_cycles: f64,
    /// Index of dispersion that the bounds rest on, at least 1.
    pub dispersion: f64,
    /// Weight of the burst that the upper bound adds, at least 1.
    pub burst_weight: f64,
    /// The extremal index at levels up to the limit; `None` with too few
    /// samples.
    pub extremal_index: Option<ExtremalIndex>,
    /// Bursts that the misses fall into; `None` when there were more misses
    /// than peaks are kept.
    pub bursts: Option<u64>,
    /// Most misses in one burst; `None` as for `bursts`.
    pub largest_burst: Option<u64>,
    /// Misses by episodes; `None` as for `bursts`, if they are not known by rows of time either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub episodes: Option<Episodes>,
    /// What is known of the lengths of stalls, where these decide the upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<StallLengths>,
    /// Upper bound on the probability of a miss.
    pub upper: f64,
    /// Lower bound on the probability of a miss.
    pub lower: f64,
    /// Whole seconds of the run.
    pub seconds: u64,
    /// Seconds with a miss, when they were counted for this limit.
    pub seconds_with_miss: Option<u64>,
    /// Duration of the run in ns.
    pub duration_ns: u64,
}

/// The lengths of stalls.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallLengths {
    /// How many stalls are known.
    pub stalls: u64,
    /// The share of all misses that the three longest hold, 0..=1.
    pub longest_share: f64,
    /// Whether the tail of their lengths is heavy: a few hold most misses, and the next may be many
    /// times as long.
    pub heavy: bool,
}

impl StallLengths {
    fn new(stalls: &[Stall], misses: f64, heavy: bool) -> Self {
        let mut each: Vec<f64> = stalls.iter().map(|stall| stall.misses).collect();
        each.sort_unstable_by(|a, b| b.total_cmp(a));
        let longest: f64 = each.iter().take(3).sum();
        StallLengths {
            stalls: stalls.len() as u64,
            longest_share: (longest / misses).min(1.0),
            heavy,
        }
    }

    /// Whether there are too few for their lengths to be known.
    #[must_use]
    pub fn are_few(&self) -> bool {
        self.stalls < heavy::ENOUGH as u64
    }
}

impl MissEvidence<'_> {
    /// Late samples and skipped periods.
    pub fn misses(&self) -> u64 {
        self.late.saturating_add(self.missed)
    }

    /// Mean time between two cycles of all threads, in ns.
    pub fn cycle_spacing_ns(&self) -> f64 {
        self.duration_ns as f64 / self.cycles as f64
    }

    /// Bounds the probability of a miss at one-sided `confidence` (within 0..1). The upper bounds hold even if
    /// all cycles that went unseen missed.
    pub fn bound(&self, confidence: f64) -> MissBound {
        let misses = self.misses();
        let (k, n) = (misses as f64, self.cycles as f64);
        let theta = extremal_index(
            self.peaks,
            (self.samples, self.cycles),
            self.duration_ns,
            self.limit_ns,
        );
        let (bursts, mut dispersion, mut burst_weight) = self.clustering(theta.as_ref());
        let most = k + self.unseen as f64;
        let independent_upper = binomial::upper(most, n, confidence);
        let independent_lower = binomial::lower(k, n, confidence);
        let complete = self.events_complete;
        let mut lower = self.lower(confidence);
        if !complete && self.rows.is_none() {
            lower = lower.max(self.lower_at(dispersion, confidence));
        }
        let mut upper =
            burst_aware_upper(k, n, dispersion, burst_weight, confidence).max(independent_upper);
        let mut of_all = dispersion;
        if self.unseen > 0 {
            let (_, dispersion, weight) = self.all_missed().clustering(theta.as_ref());
            upper = upper.max(burst_aware_upper(most, n, dispersion, weight, confidence));
            of_all = of_all.max(dispersion);
        }
        let stalls = stalls::stalls(&self.events, &self.parts);
        let heavy = self.heavy(&stalls, of_all, confidence);
        let heavy = heavy.filter(|heavy| heavy.upper > upper);
        if let Some(heavy) = heavy {
            upper = heavy.upper;
            dispersion = dispersion_for(most, n, burst_weight, confidence, upper).max(dispersion);
            burst_weight = burst_weight.max(dispersion);
        }
        MissBound {
            limit_ns: self.limit_ns,
            confidence,
            cycles: self.cycles,
            misses,
            late: self.late,
            missed: self.missed,
            observed_probability: if self.cycles > 0 { k / n } else { 0.0 },
            independent_upper,
            independent_lower,
            effective_cycles: n / dispersion,
            dispersion,
            burst_weight,
            extremal_index: theta,
            bursts: complete.then_some(bursts.count as u64),
            largest_burst: complete.then_some(bursts.largest.round() as u64),
            episodes: self.episodes(&stalls, confidence),
            stalls: heavy.map(|heavy| StallLengths::new(&stalls, k, heavy.is_heavy)),
            upper,
            lower: lower.min(independent_lower),
            seconds: self.seconds,
            seconds_with_miss: self.seconds_with_miss,
            duration_ns: self.duration_ns,
        }
    }

    /// The bursts, the dispersion, and the weight of the burst that the upper bound adds.
    fn clustering(&self, theta: Option<&ExtremalIndex>) -> (Bursts, f64, f64) {
        let spacing_ns = self.cycle_spacing_ns();
        let bursts = separate(&self.events, spacing_ns, self.duration_ns, &self.parts);
        let mut dispersion = if self.misses() > 0 {
            self.dispersion(&bursts)
        } else {
            1.0
        };
        let mut burst_weight = dispersion.max(bursts.largest);
        if bursts.count < ENOUGH_BURSTS {
            let weight = theta.map_or_else(|| self.per_row(), |index| 1.0 / index.theta_lower);
            dispersion = dispersion.max(weight);
            burst_weight = burst_weight.max(weight).max(self.unseen_weight());
        }
        (bursts, dispersion, burst_weight)
    }

    /// How many cycles may be of one stall, where too few of many latencies are kept to say how they come: all of
    /// a row of time.
    fn per_row(&self) -> f64 {
        // Without rows a run is taken for as many.
        const LEAST_ROWS: usize = 20;
        self.few_kept.map_or(1.0, |rows| {
            (self.cycles as f64 / rows.max(LEAST_ROWS) as f64).max(1.0)
        })
    }

    fn episodes(&self, stalls: &[Stall], confidence: f64) -> Option<Episodes> {
        let (limit_ns, duration_ns) = (self.limit_ns, self.duration_ns);
        let unseen = self.unseen_bursts();
        if self.events_complete {
            let of = Episodes::new(stalls, &unseen, limit_ns, duration_ns, confidence);
            return Some(of);
        }
        let rows = self.rows.as_ref()?;
        let kept = (stalls, self.peaks.threshold());
        Some(Episodes::of_rows(
            rows,
            kept,
            &unseen,
            limit_ns,
            duration_ns,
            confidence,
        ))
    }

    /// The upper bound that the lengths of stalls lead to.
    fn heavy(&self, stalls: &[Stall], dispersion: f64, confidence: f64) -> Option<Carried> {
        if self.cycles == 0 || self.duration_ns == 0 {
            return None;
        }
        let held: f64 = stalls.iter().map(|stall| stall.misses).sum();
        let mut stalls = stalls.to_vec();
        if (1..heavy::ENOUGH).contains(&stalls.len()) {
            stalls.extend(self.below(heavy::FILLED - stalls.len(), &stalls));
            stalls.sort_by(|a, b| a.at_ns.total_cmp(&b.at_ns));
        }
        let known = heavy::Known {
            stalls: &stalls,
            others: (self.misses().saturating_add(self.unseen) as f64 - held).max(0.0),
            dispersion,
            cycles: self.cycles as f64,
            duration_ns: self.duration_ns as f64,
            confidence,
        };
        known.carried()
    }

    /// So many of the highest latencies that kept the limit, where intervals and all of them are known.
    /// None if all kept it by far, compared with how far the stalls lasted beyond it: they say nothing of
    /// these.
    fn below(&self, count: usize, stalls: &[Stall]) -> Vec<Stall> {
        let Some(interval_ns) = self.interval_ns.filter(|interval_ns| *interval_ns > 0) else {
            return Vec::new();
        };
        let kept = self.peaks.samples().iter();
        let mut below: Vec<_> = kept
            .filter(|peak| peak.latency_ns <= self.limit_ns)
            .collect();
        below.sort_unstable_by_key(|peak| std::cmp::Reverse(peak.latency_ns));
        if below.len() < count {
            return Vec::new();
        }
        let each = below[..count].iter().map(|peak| Stall {
            at_ns: peak.asked_ns as f64,
            until_ns: peak.asked_ns.saturating_add(peak.latency_ns) as f64,
            misses: 0.0,
            run: run_of(&self.parts, peak.asked_ns),
            beyond: -((self.limit_ns - peak.latency_ns) as f64) / interval_ns as f64,
        });
        let below: Vec<Stall> = each.collect();
        let gap = -below[0].beyond;
        let mean = stalls.iter().map(|stall| stall.beyond).sum::<f64>() / stalls.len() as f64;
        let range = below[0].beyond - below[count - 1].beyond;
        if gap > (3.0 * range).max(mean / 2.0) {
            return Vec::new();
        }
        below
    }

    /// Weight of a stall that breaks the limit by as much again.
    fn unseen_weight(&self) -> f64 {
        let interval_ns = self.interval_ns.filter(|interval_ns| *interval_ns > 0);
        // Nor do blocks of more than a twentieth of the run say anything of bursts.
        let most = self.cycles as f64 / MIN_BLOCKS;
        interval_ns.map_or(1.0, |interval_ns| {
            (self.limit_ns as f64 / interval_ns as f64)
                .min(most)
                .max(1.0)
        })
    }

    /// Index of dispersion of the misses, of which there are some.
    fn dispersion(&self, bursts: &Bursts) -> f64 {
        let k = self.misses() as f64;
        let known: f64 = self.events.iter().map(|event| event.weight).sum();
        let mut dispersion = bursts.dispersion.max(self.block_dispersion());
        // Few bursts know little of how they differ: at least as much as
        // geometric sizes do, and more the fewer there are.
        let geometric = 2.0 * known / (bursts.count.max(1) as f64) - 1.0;
        dispersion = dispersion.max(geometric);
        dispersion = for_few(dispersion, known);
        if self.events_complete {
            return dispersion;
        }
        if let Some(by_rows) = self.row_dispersion() {
            return by_rows.min(k).max(1.0);
        }
        let share = (known / k).clamp(f64::MIN_POSITIVE, 1.0);
        dispersion = 1.0 + (dispersion - 1.0) / share;
        // They may all have been one burst.
        let unplaced = (k - known).clamp(0.0, self.unplaced as f64);
        dispersion = dispersion.max(unplaced * unplaced / k);
        dispersion.max(self.seconds_dispersion()).min(k).max(1.0)
    }

    /// The lower bound: that of the least favourable length of a block.
    fn lower(&self, confidence: f64) -> f64 {
        let misses = self.misses() as f64;
        if misses <= 0.0 {
            return 0.0;
        }
        let whole = |rows: &MissRows| Blocks::new(rows.weights(1), rows.misses.len() as f64);
        let weights = self.weights();
        let mut structures: Vec<Blocks> = Vec::new();
        if self.events_complete || self.rows.is_none() {
            // What is known of some misses is a lower bound for all.
            structures.extend(self.block_lengths().map(|length| {
                let blocks = self.duration_ns as f64 / length;
                Blocks::new(per_block(&weights, length), blocks)
            }));
        } else if let Some(rows) = &self.rows {
            structures.extend(rows.foldings(FEWEST_BLOCKS).map(|fold| {
                let blocks = (rows.misses.len() / fold) as f64;
                Blocks::new(rows.weights(fold), blocks)
            }));
            if structures.is_empty() {
                structures.push(whole(rows));
            }
        }
        if structures.is_empty() {
            let all: f64 = self.events.iter().map(|event| event.weight).sum();
            structures.push(Blocks::new(vec![all], 1.0));
        }
        let of = |blocks: &Blocks| blocks.lower(misses, self.cycles as f64, confidence);
        structures.iter().map(of).fold(1.0, f64::min)
    }

    /// Lower bound where only the highest of many misses are known: that of all of them, at the
    /// dispersion that the known ones have.
    fn lower_at(&self, dispersion: f64, confidence: f64) -> f64 {
        let (misses, cycles) = (self.misses() as f64, self.cycles as f64);
        binomial::lower(misses / dispersion, cycles / dispersion, confidence)
    }

    /// The misses that are known, at their instants.
    fn weights(&self) -> Vec<(f64, f64)> {
        let each = self.events.iter();
        each.map(|event| (event.at_ns as f64, event.weight))
            .collect()
    }

    /// Lengths of blocks: a longer run adds longer ones.
    fn block_lengths(&self) -> impl Iterator<Item = f64> {
        const SHORTEST_NS: f64 = 1e9 / 256.0;
        let duration = self.duration_ns as f64;
        let longest = duration / FEWEST_BLOCKS;
        std::iter::successors(Some(SHORTEST_NS), |length| Some(length * 2.0))
            .take_while(move |length| *length <= longest)
    }

    /// Largest index of dispersion of misses per block, over block lengths
    /// from four cycles to a twentieth of the run.
    fn block_dispersion(&self) -> f64 {
        let total: f64 = self.events.iter().map(|event| event.weight).sum();
        let duration = self.duration_ns as f64;
        let mut length = 4.0 * self.cycle_spacing_ns();
        let mut worst: f64 = 1.0;
        if total <= 0.0 || length.is_nan() || length <= 0.0 {
            return worst;
        }
        let longest = duration / MIN_BLOCKS;
        let weights = self.weights();
        while length <= longest {
            let weights = per_block(&weights, length);
            worst = worst.max(dispersion_of(&weights, duration / length));
            if length == longest {
                break;
            }
            length = (length * 4.0).min(longest);
        }
        worst
    }

    /// Largest index of dispersion of misses per row, and per several rows.
    fn row_dispersion(&self) -> Option<f64> {
        let rows = self.rows.as_ref()?;
        let of = |fold: usize| {
            let blocks = (rows.misses.len() / fold) as f64;
            dispersion_of(&rows.weights(fold), blocks)
        };
        rows.foldings(MIN_BLOCKS).map(of).reduce(f64::max)
    }

    /// Index of dispersion that the share of seconds with a miss hints at, for
    /// bursts of geometric size.
    fn seconds_dispersion(&self) -> f64 {
        let Some(with_miss) = self.seconds_with_miss else {
            return 1.0;
        };
        let (all, with) = (self.seconds as f64, with_miss as f64);
        if with <= 0.0 || all - with < 20.0 {
            return 1.0;
        }
        let bursts = -all * (1.0 - with / all).ln();
        (2.0 * self.misses() as f64 / bursts - 1.0).max(1.0)
    }
}

/// The dispersion at which the upper bound is `upper`, if a burst of as much is put in.
fn dispersion_for(k: f64, n: f64, weight: f64, confidence: f64, upper: f64) -> f64 {
    const STEPS: usize = 40;
    let (mut low, mut high) = (1.0, n.max(1.0));
    for _ in 0..STEPS {
        let middle = (low * high).sqrt();
        if burst_aware_upper(k, n, middle, weight.max(middle), confidence) < upper {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Upper bound for `k` misses in `n` cycles with an index of dispersion, and
/// one more burst of the given weight put in.
fn burst_aware_upper(k: f64, n: f64, dispersion: f64, weight: f64, confidence: f64) -> f64 {
    if n.is_nan() || n <= 0.0 {
        return 1.0;
    }
    let mean = k + weight;
    let variance = dispersion * k + weight * weight;
    let scale = variance / mean;
    let shape = mean / scale;
    let rest = n / scale - shape + 1.0;
    if rest <= 0.0 {
        return 1.0;
    }
    beta_quantile(confidence, shape, rest)
}

impl MissRows {
    /// How many rows may be taken as one block, so that `fewest` remain.
    fn foldings(&self, fewest: f64) -> impl Iterator<Item = usize> {
        let longest = self.misses.len() / fewest as usize;
        std::iter::successors(Some(1), |fold| Some(fold * 2)).take_while(move |f| *f <= longest)
    }

    /// The misses of each block of `fold` rows.
    fn weights(&self, fold: usize) -> Vec<f64> {
        let sum = |rows: &[u64]| rows.iter().map(|misses| *misses as f64).sum();
        self.misses.chunks(fold.max(1)).map(sum).collect()
    }
}
