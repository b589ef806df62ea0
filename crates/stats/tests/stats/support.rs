//! Seeded streams of latencies with a known miss probability.

use punctual_stats::evidence::{Skipped, ThreadEvidence};
use punctual_stats::miss::definition::misses_of;
use punctual_stats::miss::{MissEvent, MissEvidence, MissRows};
use punctual_stats::{Histogram, Peak, Peaks};

/// Period of every simulated thread, in ns.
pub const PERIOD: u64 = 1_000_000;
/// Width of a row of a run's timeline, in ns.
const ROW: u64 = 100_000_000;

/// What a thread on CPU 0 measured with a period of 1 ms, none of it late.
pub fn thread<'a>(histogram: &'a Histogram, peaks: &'a Peaks) -> ThreadEvidence<'a> {
    ThreadEvidence {
        cpu: Some(0),
        histogram,
        rounded_up: None,
        late: 0,
        interval_ns: Some(PERIOD),
        missed: 0,
        missed_late: 0,
        lost: 0,
        unseen: 0,
        unseen_most_ns: None,
        may_be_empty: false,
        skipped: Skipped::Alone,
        peaks,
    }
}

/// A small seeded generator (xorshift64*), unrelated to the library's own.
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            rng.next();
        }
        rng
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 12) as f64 + 0.5) / (1u64 << 52) as f64
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

/// A simulated run and the truth about it.
pub struct Run {
    pub peaks: Peaks,
    pub histogram: Option<Histogram>,
    pub limit_ns: u64,
    pub samples: u64,
    pub late: u64,
    pub missed: u64,
    pub skipped: u64,
    rows: Vec<u64>,
    pub duration_ns: u64,
    pub seconds_with_miss: u64,
    pub truth: f64,
    last_second: u64,
}

impl Run {
    pub fn new(limit_ns: u64, truth: f64) -> Self {
        Run {
            peaks: Peaks::new(),
            histogram: None,
            limit_ns,
            samples: 0,
            late: 0,
            missed: 0,
            skipped: 0,
            rows: Vec::new(),
            duration_ns: 0,
            seconds_with_miss: 0,
            truth,
            last_second: u64::MAX,
        }
    }

    pub fn push(&mut self, cycle: u64, latency: u64) {
        self.wake(cycle * PERIOD, latency, 0);
    }

    /// A wake-up requested at `asked`, and the number of periods skipped because it was late.
    pub fn wake(&mut self, asked: u64, latency: u64, skipped: u64) {
        let peak = Peak::new(asked / PERIOD, asked, latency).with_skipped(skipped);
        self.peaks.offer(peak);
        if let Some(histogram) = &mut self.histogram {
            histogram.record(latency);
        }
        self.samples += 1;
        self.skipped += skipped;
        let misses = misses_of(latency, skipped, Some(PERIOD), self.limit_ns);
        let late = u64::from(latency > self.limit_ns);
        self.late += late;
        self.missed += misses - late;
        let row = (asked / ROW) as usize;
        if self.rows.len() <= row {
            self.rows.resize(row + 1, 0);
        }
        self.rows[row] += misses;
        if misses > 0 && self.last_second != asked / 1_000_000_000 {
            self.last_second = asked / 1_000_000_000;
            self.seconds_with_miss += 1;
        }
        self.duration_ns = self.duration_ns.max(asked + PERIOD);
    }

    pub fn evidence(&self) -> MissEvidence<'_> {
        let mut events: Vec<MissEvent> = self
            .peaks
            .samples()
            .iter()
            .map(|peak| MissEvent {
                at_ns: peak.asked_ns,
                until_ns: peak.asked_ns.saturating_add(peak.latency_ns),
                beyond: peak.latency_ns.saturating_sub(self.limit_ns) as f64 / PERIOD as f64,
                weight: misses_of(peak.latency_ns, peak.skipped, Some(PERIOD), self.limit_ns)
                    as f64,
            })
            .filter(|event| event.weight > 0.0)
            .collect();
        events.sort_by_key(|event| event.at_ns);
        let known: f64 = events.iter().map(|event| event.weight).sum();
        MissEvidence {
            limit_ns: self.limit_ns,
            interval_ns: Some(PERIOD),
            cycles: self.samples + self.skipped,
            samples: self.samples,
            parts: Vec::new(),
            late: self.late,
            missed: self.missed,
            unseen: 0,
            few_kept: None,
            events_complete: known >= (self.late + self.missed) as f64,
            events,
            rows: Some(MissRows {
                width_ns: ROW,
                misses: self.rows.clone(),
                start_ns: Some(0),
                slack_ns: 0,
            }),
            unplaced: 0,
            peaks: &self.peaks,
            duration_ns: self.duration_ns,
            seconds: self.duration_ns / 1_000_000_000,
            seconds_with_miss: Some(self.seconds_with_miss),
        }
    }
}

const FLOOR: f64 = 3_000.0;
const MEAN: f64 = 5_000.0;

/// The latency whose exceedance has probability `p` in the base distribution.
pub fn level(p: f64) -> u64 {
    (FLOOR - MEAN * p.ln()) as u64
}

fn base(rng: &mut Rng) -> f64 {
    FLOOR + rng.exponential(MEAN)
}

/// True exceedance probability of an integer latency above `limit`.
fn beyond(limit: u64) -> f64 {
    (-((limit + 1) as f64 - FLOOR) / MEAN).exp()
}

/// Independent cycles.
pub fn independent(rng: &mut Rng, cycles: u64, p: f64) -> Run {
    let limit = level(p);
    let mut run = Run::new(limit, beyond(limit));
    for cycle in 0..cycles {
        run.push(cycle, base(rng) as u64);
    }
    run
}

/// Moving maxima over `width` cycles: extremal index 1/width at every level.
pub fn moving_maxima(rng: &mut Rng, cycles: u64, p: f64, width: usize) -> Run {
    let limit = level(1.0 - (1.0 - p).powf(1.0 / width as f64));
    let truth = 1.0 - (1.0 - beyond(limit)).powi(width as i32);
    let mut run = Run::new(limit, truth);
    let mut window: Vec<f64> = (0..width).map(|_| base(rng)).collect();
    for cycle in 0..cycles {
        window[cycle as usize % width] = base(rng);
        run.push(cycle, window.iter().copied().fold(0.0, f64::max) as u64);
    }
    run
}

/// A machine that is sometimes (for 30 cycles on average, a tenth of the time) in a bad state, in
/// which latencies are three times as long.
pub fn markov(rng: &mut Rng, cycles: u64, p: f64) -> Run {
    let (stay, factor) = (30.0, 3.0);
    let share = 0.1;
    // p = share * exp(-(limit-FLOOR)/(3 MEAN)) + (1-share) * exp(-(limit-FLOOR)/MEAN)
    let probability =
        |x: f64| share * (-x / (factor * MEAN)).exp() + (1.0 - share) * (-x / MEAN).exp();
    let (mut low, mut high) = (0.0, 1e7);
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if probability(middle) > p {
            low = middle;
        } else {
            high = middle;
        }
    }
    let limit = (FLOOR + low) as u64;
    let mut run = Run::new(limit, probability((limit + 1) as f64 - FLOOR));
    let mut bad = rng.unit() < share;
    for cycle in 0..cycles {
        let leave = if bad {
            1.0 / stay
        } else {
            share / (1.0 - share) / stay
        };
        if rng.unit() < leave {
            bad = !bad;
        }
        let mean = if bad { factor * MEAN } else { MEAN };
        run.push(cycle, (FLOOR + rng.exponential(mean)) as u64);
    }
    run
}

/// The probability grows ninefold over the run; the truth is its mean.
pub fn drifting(rng: &mut Rng, cycles: u64, p: f64) -> Run {
    let limit = 1_000_000;
    let mut run = Run::new(limit, p);
    for cycle in 0..cycles {
        let now = p * (0.2 + 1.6 * (cycle as f64 + 0.5) / cycles as f64);
        let late = rng.unit() < now;
        run.push(cycle, base(rng) as u64 + u64::from(late) * (limit + 1));
    }
    run
}

/// One cycle in fifty takes a slow path, ten times as long.
pub fn bimodal(rng: &mut Rng, cycles: u64, p: f64) -> Run {
    let share = 0.02;
    let limit = (FLOOR - 10.0 * MEAN * (p / share).ln()) as u64;
    let x = (limit + 1) as f64 - FLOOR;
    let truth = share * (-x / (10.0 * MEAN)).exp() + (1.0 - share) * (-x / MEAN).exp();
    let mut run = Run::new(limit, truth);
    for cycle in 0..cycles {
        let mean = if rng.unit() < share {
            10.0 * MEAN
        } else {
            MEAN
        };
        run.push(cycle, (FLOOR + rng.exponential(mean)) as u64);
    }
    run
}

/// The host preempts the machine for an exponentially distributed time of `stall` periods on
/// average: one late wake-up, and missed periods after it. On all of `threads` CPUs at once.
pub fn stalls(rng: &mut Rng, cycles: u64, p: f64, stall: f64, threads: usize) -> Run {
    let missed_each = 1.0 / ((1.0 / stall).exp_m1());
    let weight = 1.0 + missed_each;
    // p = q w / (1 + q m), per sample probability q of a stall.
    let q = p / (weight - p * missed_each);
    let limit = PERIOD / 10;
    let mut run = Run::new(limit, p);
    let mut cycle = 0;
    let per_thread = cycles / threads as u64;
    while cycle < per_thread {
        let stalled = (rng.unit() < q).then(|| rng.exponential(stall));
        let passed = stalled.map_or(0, |periods| periods as u64);
        for _ in 0..threads {
            let ordinary = base(rng) as u64;
            // A stall always causes a late wake-up: it ends at least `limit` after the period.
            let late = stalled.map(|periods| (periods * PERIOD as f64) as u64);
            let latency = late.map_or(ordinary, |late| late.max(limit + 1));
            run.wake(cycle * PERIOD, latency, passed);
        }
        cycle += 1 + passed;
    }
    run.duration_ns = cycle * PERIOD;
    run
}

/// Bursts of bursts: storms at random times, each with a number of short bursts within a second,
/// each of a few late cycles.
pub fn storms(rng: &mut Rng, cycles: u64, p: f64) -> Run {
    let limit = 1_000_000;
    let (bursts, length) = (4.0, 3.0);
    let rate = p / (bursts * length);
    let mut run = Run::new(limit, p);
    let mut late = vec![false; cycles as usize];
    // A storm before the start may extend into the run.
    let mut storm = -5000.0;
    let mut expected = 0.0;
    let _ = &mut expected;
    loop {
        storm += rng.exponential(1.0 / rate);
        if storm >= cycles as f64 {
            break;
        }
        let count = (1.0 + rng.exponential(1.0) / (1.0f64 / (1.0 - 1.0 / bursts)).ln()) as u64;
        for _ in 0..count {
            let start = storm + rng.unit() * 1000.0;
            let size = (1.0 + rng.exponential(1.0) / (1.0f64 / (1.0 - 1.0 / length)).ln()) as u64;
            for i in 0..size {
                let at = start as i64 + 2 * i as i64;
                if (0..cycles as i64).contains(&at) {
                    late[at as usize] = true;
                }
            }
        }
    }
    for (cycle, late) in late.iter().enumerate() {
        run.push(
            cycle as u64,
            base(rng) as u64 + u64::from(*late) * (limit + 1),
        );
    }
    run
}

/// A kind of stall in [`stalled`].
#[derive(Clone, Copy)]
pub struct Stall {
    /// The mean number per run; they start at random times.
    pub expected: f64,
    /// The minimum length, in ns.
    pub least: f64,
    /// The mean of the exponentially distributed length above the minimum.
    pub more: f64,
}

/// A machine that stops at random instants, with no stall during another; the truth is computed
/// directly from the definition of a miss, over all phases of a stall.
pub fn stalled(rng: &mut Rng, cycles: u64, limit: u64, kinds: &[Stall]) -> Run {
    let duration = (cycles * PERIOD) as f64;
    let expected: f64 = kinds.iter().map(|kind| kind.expected).sum();
    let mean = |of: &dyn Fn(&Stall) -> f64| {
        kinds
            .iter()
            .map(|kind| kind.expected * of(kind))
            .sum::<f64>()
            / expected
    };
    // Stalls per ns of running time, so that about `expected` occur in the run.
    let length = mean(&|kind| kind.least + kind.more);
    let rate = expected / (duration - expected * length);
    let truth =
        rate * mean(&|kind| misses_of_one(kind, limit)) / (1.0 + rate * length) * PERIOD as f64;
    let mut stalls: Vec<(f64, f64)> = Vec::new();
    let mut at = rng.exponential(1.0 / rate);
    while at < duration {
        let mut choice = rng.unit() * expected;
        let chosen = kinds.iter().find(|kind| {
            choice -= kind.expected;
            choice <= 0.0
        });
        let kind = chosen.unwrap_or(&kinds[0]);
        let end = at + kind.least + rng.exponential(kind.more);
        stalls.push((at, end));
        at = end + rng.exponential(1.0 / rate);
    }
    let mut run = Run::new(limit, truth);
    let mut stall = stalls.into_iter().peekable();
    let mut cycle = 0;
    while cycle < cycles {
        let asked = cycle * PERIOD;
        while stall.peek().is_some_and(|(_, end)| *end <= asked as f64) {
            stall.next();
        }
        let ordinary = 3_000 + rng.exponential(2_000.0).min(20_000.0) as u64;
        let latency = match stall.peek() {
            Some((begin, end)) if *begin <= asked as f64 => (*end - asked as f64) as u64,
            _ => ordinary,
        };
        let skipped = (latency / PERIOD).min(cycles - cycle - 1);
        run.wake(asked, latency, skipped);
        cycle += 1 + skipped;
    }
    run.duration_ns = cycles * PERIOD;
    run
}

/// The mean number of misses of one stall over all phases: integrated over the lengths.
fn misses_of_one(kind: &Stall, limit: u64) -> f64 {
    let (period, limit) = (PERIOD as f64, limit as f64);
    let of = |length: f64| {
        let late = (length - limit).max(0.0) / period;
        if limit > period {
            // Instants due more than the limit before the end of the stall.
            return late;
        }
        // The first wake-up is late with that probability, and all skipped periods are misses.
        late.min(1.0) + (length / period - 1.0).max(0.0)
    };
    const STEPS: usize = 2_000;
    (0..STEPS)
        .map(|step| {
            let unit = (step as f64 + 0.5) / STEPS as f64;
            of(kind.least - kind.more * unit.ln())
        })
        .sum::<f64>()
        / STEPS as f64
}
