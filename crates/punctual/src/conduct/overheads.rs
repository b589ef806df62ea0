//! What the kernel takes for each job, as measured on one CPU of this machine.
//!
//! A loop of real-time priority reads the clock; what takes the CPU from it is a gap. The timers of
//! threads below it leave gaps by the interrupts alone. A thread above it that sleeps again and again
//! leaves gaps by the interrupt, the wake-up, the switches and the way back to sleep. The tick leaves
//! one in each of its periods, at the same phase. Of each kind, 95 % of the gaps are no longer than what
//! is stated: what came between once is left out, and what comes now and then is counted.

use std::error::Error;
use std::fmt;
use std::sync::{Arc, OnceLock};

use punctual_record::taskset::analysis::{OverheadsMeasured, SetOverheads, TickOverhead};
use punctual_rt::clock::{self, now_ns};
use punctual_rt::sched::Policy;
use punctual_rt::thread::{Builder, Handle, SpawnError};

/// Threads below, each with one timer; wake-ups of the thread above; ticks.
const TIMERS: u64 = 40;
const WAKE_UPS: u64 = 200;
const TICKS: u64 = 30;

/// Between two events, and before the first.
const DISTANCE_NS: u64 = 250_000;
const LEAD_NS: u64 = 50_000_000;

/// An event's gap begins at most this long after it is due.
const LATE_NS: u64 = 50_000;

/// No interrupt takes less; misses of caches do.
const LEAST_NS: u64 = 400;

/// Gaps that are kept, at most.
const MOST_GAPS: usize = 100_000;

/// Priorities: of threads below the loop, of the loop, of the thread above.
const PRIORITIES: [u32; 3] = [60, 61, 62];

/// Why nothing was measured.
#[derive(Debug)]
pub enum OverheadsError {
    /// A thread can't be started as requested.
    Thread(SpawnError),
    /// A thread ended by a panic.
    Ended,
    /// An interrupt alone takes too long, or longer than with a wake-up: others share this CPU.
    Unsteady {
        /// What an interrupt took.
        interrupt_ns: u64,
        /// What it took with a wake-up.
        whole_ns: u64,
    },
    /// Fewer than half of the events left a gap.
    TooFew {
        /// What they are.
        events: &'static str,
        /// How many left one.
        seen: usize,
    },
}

impl fmt::Display for OverheadsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(error) => write!(f, "a thread can't be started: {error}"),
            Self::Ended => f.write_str("a thread ended early"),
            Self::Unsteady {
                interrupt_ns,
                whole_ns,
            } => write!(
                f,
                "a timer interrupt took {interrupt_ns} ns, with a wake-up {whole_ns} ns: another \
                 system shares this CPU"
            ),
            Self::TooFew { events, seen } => write!(f, "only {seen} {events} were seen"),
        }
    }
}

impl Error for OverheadsError {}

/// Something that took the CPU from the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    from_ns: u64,
    length_ns: u64,
}

/// How often a measurement that others disturbed is made again: a burst of the host's ends.
const ATTEMPTS: u32 = 4;

/// Measures on one CPU, in about half a second; up to four times as long where others share it.
///
/// # Errors
/// Most often, real-time priorities aren't permitted.
pub fn measure(cpu: usize) -> Result<SetOverheads, OverheadsError> {
    undisturbed(|| measure_once(cpu))
}

/// The first measurement that nothing disturbed, or the last one's error.
fn undisturbed<T>(
    mut measure: impl FnMut() -> Result<T, OverheadsError>,
) -> Result<T, OverheadsError> {
    let is_disturbed = |error: &OverheadsError| {
        matches!(
            error,
            OverheadsError::Unsteady { .. } | OverheadsError::TooFew { .. }
        )
    };
    for _ in 1..ATTEMPTS {
        match measure() {
            Err(error) if is_disturbed(&error) => {}
            measured => return measured,
        }
    }
    measure()
}

fn measure_once(cpu: usize) -> Result<SetOverheads, OverheadsError> {
    let period_ns = tick_period_ns();
    // All threads exist before the first instant is chosen: making them may take long.
    let chosen: Arc<OnceLock<Plan>> = Arc::default();
    let mut below = Vec::new();
    for number in 0..TIMERS {
        below.push(start(cpu, 0, &chosen, move |plan| {
            clock::sleep_until(plan.timers + number * DISTANCE_NS).is_ok()
        })?);
    }
    let above = start(cpu, 2, &chosen, |plan| {
        let mut instants = (0..WAKE_UPS).map(|number| plan.wake_ups + number * DISTANCE_NS);
        instants.all(|at| clock::sleep_until(at).is_ok())
    })?;
    let gaps = start(cpu, 1, &chosen, |plan| gaps(&plan))?;
    let plan = *chosen.get_or_init(|| Plan::from(now_ns() + LEAD_NS, period_ns));
    let gaps = gaps.join().map_err(|_| OverheadsError::Ended)?;
    above.join().map_err(|_| OverheadsError::Ended)?;
    for thread in below {
        thread.join().map_err(|_| OverheadsError::Ended)?;
    }
    figures(cpu, &gaps, &plan)
}

fn start<R: Send + 'static>(
    cpu: usize,
    level: usize,
    chosen: &Arc<OnceLock<Plan>>,
    body: impl FnOnce(Plan) -> R + Send + 'static,
) -> Result<Handle<R>, OverheadsError> {
    let mine = Arc::clone(chosen);
    let started = Builder::new()
        .name("overheads")
        .cpus(&[cpu])
        .policy(Policy::Fifo(PRIORITIES[level]))
        .start(move || body(*mine.wait()));
    started.map_err(|error| {
        // Those that exist end at once.
        let _ = chosen.set(Plan::default());
        OverheadsError::Thread(error)
    })
}

/// When what happens.
#[derive(Debug, Clone, Copy, Default)]
struct Plan {
    /// The first timer, the first wake-up, and the beginning and end of the time with ticks alone.
    timers: u64,
    wake_ups: u64,
    alone: u64,
    end: u64,
    period_ns: Option<u64>,
}

impl Plan {
    fn from(begin: u64, period_ns: Option<u64>) -> Self {
        let wake_ups = begin + TIMERS * DISTANCE_NS;
        let alone = wake_ups + WAKE_UPS * DISTANCE_NS;
        Plan {
            timers: begin,
            wake_ups,
            alone,
            end: alone + TICKS * period_ns.unwrap_or(0),
            period_ns,
        }
    }
}

/// Reads the clock from a moment before the first timer to the end, and keeps what came between two
/// readings.
fn gaps(plan: &Plan) -> Vec<Gap> {
    let mut gaps = Vec::with_capacity(MOST_GAPS);
    // A reading of the clock that took several times as long as most.
    let least_ns = (6 * clock::read_cost_ns()).max(LEAST_NS);
    let _ = clock::sleep_until(plan.timers.saturating_sub(DISTANCE_NS));
    let mut last = now_ns();
    while last < plan.end && gaps.len() < MOST_GAPS {
        let now = now_ns();
        if now - last > least_ns {
            gaps.push(Gap {
                from_ns: last,
                length_ns: now - last,
            });
        }
        last = now;
    }
    gaps
}

/// `1 / CONFIG_HZ`: the resolution of the clock that the tick advances.
pub(crate) fn tick_period_ns() -> Option<u64> {
    let resolution = rustix::time::clock_getres(rustix::time::ClockId::MonotonicCoarse);
    let ns = u64::try_from(resolution.tv_nsec).ok()?;
    (resolution.tv_sec == 0 && (1_000_000..=10_000_000).contains(&ns)).then_some(ns)
}

fn figures(cpu: usize, gaps: &[Gap], plan: &Plan) -> Result<SetOverheads, OverheadsError> {
    let events = |from: u64, count: u64| -> Vec<u64> {
        let at = (0..count).map(|number| from + number * DISTANCE_NS);
        // Several events within one gap, and what keeps the CPU for as long, are none of the kernel's.
        let lengths = at.filter_map(|at| gap_at(gaps, at));
        lengths.filter(|length| *length < DISTANCE_NS).collect()
    };
    let enough = |lengths: Vec<u64>, of: u64, what: &'static str| {
        let seen = lengths.len();
        match 2 * seen as u64 >= of {
            true => Ok((usual_most(lengths), seen as u32)),
            false => Err(OverheadsError::TooFew { events: what, seen }),
        }
    };
    let (interrupt, interrupts) = enough(events(plan.timers, TIMERS), TIMERS, "timers")?;
    let (whole, wake_ups) = enough(events(plan.wake_ups, WAKE_UPS), WAKE_UPS, "wake-ups")?;
    if interrupt > DISTANCE_NS / 2 || whole < interrupt {
        return Err(OverheadsError::Unsteady {
            interrupt_ns: interrupt,
            whole_ns: whole,
        });
    }
    // Without a tick while one thread runs (nohz_full), there are few gaps at one phase.
    let ticks = plan
        .period_ns
        .map_or_else(Vec::new, |period_ns| ticks(gaps, plan.alone, period_ns));
    let count = ticks.len() as u32;
    let tick = plan.period_ns.filter(|_| 2 * u64::from(count) >= TICKS);
    Ok(SetOverheads {
        measured: Some(OverheadsMeasured {
            cpu,
            interrupts,
            wake_ups,
            ticks: count,
        }),
        release_interrupt_ns: interrupt,
        wake_and_sleep_ns: whole - interrupt,
        tick: tick.map(|period_ns| TickOverhead {
            period_ns,
            execution_ns: usual_most(ticks),
        }),
        ..SetOverheads::default()
    })
}

/// The gap of an event that is due at this instant: it ends later, and begins soon.
fn gap_at(gaps: &[Gap], at: u64) -> Option<u64> {
    let next = gaps.partition_point(|gap| gap.from_ns + gap.length_ns <= at);
    let gap = gaps.get(next)?;
    (gap.from_ns <= at + LATE_NS).then_some(gap.length_ns)
}

/// The gaps of the phase at which most are.
fn ticks(gaps: &[Gap], from_ns: u64, period_ns: u64) -> Vec<u64> {
    const WIDTH_NS: u64 = 30_000;
    let phase = |gap: &Gap| gap.from_ns % period_ns;
    let alone: Vec<&Gap> = gaps.iter().filter(|gap| gap.from_ns >= from_ns).collect();
    let is_near = |gap: &Gap, center: u64| {
        let apart = phase(gap).abs_diff(center);
        apart.min(period_ns - apart) <= WIDTH_NS
    };
    // In how many periods one is there: noise comes in few of them, or at many phases.
    let periods = |center: u64| {
        let near = alone.iter().filter(|gap| is_near(gap, center));
        let mut numbers: Vec<u64> = near
            .map(|gap| (gap.from_ns + period_ns / 2 - center) / period_ns)
            .collect();
        numbers.dedup();
        numbers.len()
    };
    let best = alone
        .iter()
        .map(|gap| phase(gap))
        .max_by_key(|at| periods(*at));
    let Some(center) = best else {
        return Vec::new();
    };
    let near = alone.iter().filter(|gap| is_near(gap, center));
    near.map(|gap| gap.length_ns).collect()
}

/// No less than 95 % of them.
fn usual_most(mut lengths: Vec<u64>) -> u64 {
    let rank = (lengths.len() * 19).div_ceil(20);
    match rank.checked_sub(1) {
        None => 0,
        Some(at) => *lengths.select_nth_unstable(at).1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gaps as a machine without noise has them.
    fn made() -> (Vec<Gap>, Plan) {
        let period = 4_000_000;
        let plan = Plan::from(1_000_000_000, Some(period));
        let mut gaps = Vec::new();
        for number in 0..TIMERS {
            gaps.push((plan.timers + number * DISTANCE_NS + 300, 1_500));
        }
        for number in 0..WAKE_UPS {
            gaps.push((plan.wake_ups + number * DISTANCE_NS + 300, 5_000));
        }
        for number in 0..TICKS {
            gaps.push((plan.alone + 700_000 + number * period, 2_000));
            // Noise at a phase of its own each time.
            gaps.push((plan.alone + 100_000 + number * (period + 90_001), 90_000));
        }
        gaps.sort_unstable();
        let gap = |(from_ns, length_ns)| Gap { from_ns, length_ns };
        (gaps.into_iter().map(gap).collect(), plan)
    }

    #[test]
    fn each_kind_of_gap_is_told_apart() {
        let (gaps, plan) = made();
        let of = figures(3, &gaps, &plan).expect("enough");
        assert_eq!(
            (of.release_interrupt_ns, of.wake_and_sleep_ns),
            (1_500, 3_500)
        );
        let tick = TickOverhead {
            period_ns: 4_000_000,
            execution_ns: 2_000,
        };
        assert_eq!(of.tick, Some(tick));
        let measured = of.measured.expect("measured");
        assert_eq!((measured.cpu, measured.interrupts), (3, TIMERS as u32));
        assert_eq!(
            (measured.wake_ups, measured.ticks),
            (WAKE_UPS as u32, TICKS as u32)
        );
    }

    #[test]
    fn what_comes_now_and_then_counts_and_what_came_once_does_not() {
        let (gaps, plan) = made();
        let interrupt_ns = |longer: usize, length_ns: u64| {
            let mut gaps = gaps.clone();
            let interrupts = gaps.iter_mut().filter(|gap| gap.length_ns == 1_500);
            interrupts
                .take(longer)
                .for_each(|gap| gap.length_ns = length_ns);
            figures(0, &gaps, &plan)
                .expect("enough")
                .release_interrupt_ns
        };
        assert_eq!(interrupt_ns(2, 4_000), 1_500);
        assert_eq!(interrupt_ns(3, 4_000), 4_000);
        // So long a gap is the host's.
        assert_eq!(interrupt_ns(3, DISTANCE_NS), 1_500);
    }

    #[test]
    fn a_disturbed_measurement_is_made_again_and_no_other() {
        let unsteady = || OverheadsError::Unsteady {
            interrupt_ns: 2,
            whole_ns: 1,
        };
        let attempts = |errors: Vec<OverheadsError>| {
            let mut errors = errors.into_iter();
            let mut made = 0;
            let ended = undisturbed(|| {
                made += 1;
                errors.next().map_or(Ok(made), Err)
            });
            (ended.is_ok(), made)
        };
        let few = OverheadsError::TooFew {
            events: "timers",
            seen: 1,
        };
        assert_eq!(attempts(vec![]), (true, 1));
        assert_eq!(attempts(vec![unsteady(), few]), (true, 3));
        assert_eq!(attempts(vec![OverheadsError::Ended]), (false, 1));
        let always = (0..9).map(|_| unsteady()).collect();
        assert_eq!(attempts(always), (false, ATTEMPTS));
    }

    #[test]
    fn a_cpu_without_a_tick_has_none_and_one_without_wake_ups_is_refused() {
        let (gaps, plan) = made();
        let without = |length_ns: u64| -> Vec<Gap> {
            let others = gaps.iter().filter(|gap| gap.length_ns != length_ns);
            others.copied().collect()
        };
        let tick = |gaps: &[Gap], plan: &Plan| figures(0, gaps, plan).expect("enough").tick;
        assert_eq!(tick(&without(2_000), &plan), None);
        let period_ns = None;
        assert_eq!(tick(&gaps, &Plan { period_ns, ..plan }), None);
        assert!(matches!(
            figures(0, &without(5_000), &plan),
            Err(OverheadsError::TooFew { seen: 0, .. })
        ));
        // Slices of another machine, and wake-ups that cost less than their interrupt.
        for (from, to) in [(1_500, 200_000), (5_000, 1_000)] {
            let mut shared = gaps.clone();
            for gap in shared.iter_mut().filter(|gap| gap.length_ns == from) {
                gap.length_ns = to;
            }
            let refused = figures(0, &shared, &plan);
            assert!(matches!(refused, Err(OverheadsError::Unsteady { .. })));
        }
    }
}
