//! The loop that polls the clock: an interruption longer than a threshold is a gap.
//!
//! It polls for a part of each period and sleeps for the rest. It wakes up some time before it should
//! poll, so that the usual latency of a wake-up is over by then: what keeps it from polling at that
//! instant has the CPU, and is a gap. While it polls there is no allocation, no lock, no page fault and
//! no system call; tests count each of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_rt::clock;
use punctual_rt::ring::Producer;
use punctual_rt::sys::time::sleep_until;

use super::cycle::{Ended, Halt, Sample, wait_again};
use super::source::WaitSource;

/// What a polling thread does.
#[derive(Debug, Clone)]
pub struct Polling {
    /// Two readings further apart than this, in ns, are a gap.
    pub above_ns: u64,
    /// How long it polls in each period, in ns.
    pub runtime_ns: u64,
    /// The period, in ns; equal to `runtime_ns` if it never rests.
    pub period_ns: u64,
    /// Where it reports its progress.
    pub account: Arc<Account>,
    /// What polls in its place.
    pub feed: Option<Arc<dyn GapFeed>>,
}

/// Another source of gaps: the kernel, with interrupts disabled.
pub trait GapFeed: std::fmt::Debug + Send + Sync {
    /// Calls `each` for the gaps of a CPU since the last call, with their start and
    /// length, in ns.
    fn take(&self, cpu: usize, each: &mut dyn FnMut(u64, u64));
}

/// The progress of a polling thread: written at the end of each period, read by others.
#[derive(Debug, Default)]
pub struct Account {
    polled_ns: AtomicU64,
    gap_ns: AtomicU64,
    polls: AtomicU64,
    last_ns: AtomicU64,
}

/// A reading of an [`Account`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Time between readings that were not gaps.
    pub polled_ns: u64,
    /// Time in gaps.
    pub gap_ns: u64,
    /// Readings of the clock.
    pub polls: u64,
    /// The instant of the last reading; 0 before the first period's end.
    pub last_ns: u64,
}

impl Account {
    fn add(&self, polled_ns: u64, gap_ns: u64, polls: u64, last_ns: u64) {
        // Only one thread writes.
        self.polled_ns.fetch_add(polled_ns, Ordering::Relaxed);
        self.gap_ns.fetch_add(gap_ns, Ordering::Relaxed);
        self.polls.fetch_add(polls, Ordering::Relaxed);
        self.last_ns.store(last_ns, Ordering::Release);
    }

    /// The values that were written last. While the thread runs, they may be from two periods.
    #[must_use]
    pub fn progress(&self) -> Progress {
        let last_ns = self.last_ns.load(Ordering::Acquire);
        Progress {
            polled_ns: self.polled_ns.load(Ordering::Relaxed),
            gap_ns: self.gap_ns.load(Ordering::Relaxed),
            polls: self.polls.load(Ordering::Relaxed),
            last_ns,
        }
    }
}

/// How long before it should poll it wakes up at most, in ns: longer than the deepest idle states
/// take to leave. A tenth of its rest at most: where it rests shortly, no such state pays, and it must
/// not come near what the kernel leaves to real-time threads.
const AHEAD_NS: u64 = 1_000_000;

/// Polls from `start_ns` on, until the end or the first gap above `break_ns`. Each gap goes
/// into the ring when it is found: its start and its length.
#[inline(never)]
pub fn run<S: WaitSource>(
    mut source: S,
    polling: &Polling,
    start_ns: u64,
    ring: &mut Producer<Sample>,
    halt: &Halt,
    break_ns: u64,
) -> Ended {
    let rest_ns = polling.period_ns.saturating_sub(polling.runtime_ns);
    let rests = rest_ns > 0;
    let period_ns = polling.period_ns.max(1);
    let mut begin_ns = start_ns;
    let mut ahead_ns = 0;
    let mut last_ns = None;
    loop {
        if rests || last_ns.is_none() {
            let due_ns = begin_ns - ahead_ns;
            let mut waited = source.wait_until(due_ns);
            if waited.is_err() {
                waited = wait_again(&mut source, due_ns, waited);
                if let Err(error) = waited {
                    return Ended::Failed(error);
                }
            }
            let now_ns = source.now_ns();
            last_ns = Some(match last_ns {
                Some(last_ns) => now_ns.min(begin_ns.max(last_ns)),
                // The first time it may have been told too late to be ahead.
                None => now_ns,
            });
        }
        let until_ns = begin_ns.saturating_add(polling.runtime_ns);
        let first_ns = last_ns.unwrap_or(begin_ns);
        let (mut at_ns, mut gap_ns, mut polls) = (first_ns, 0, 0);
        let mut broke = false;
        while at_ns < until_ns && !halt.is_reached(at_ns) && !broke {
            let now_ns = source.now_ns();
            let step_ns = now_ns.saturating_sub(at_ns);
            polls += 1;
            if step_ns > polling.above_ns {
                gap_ns += step_ns;
                ring.push(Sample {
                    requested_ns: at_ns,
                    late_ns: i64::try_from(step_ns).unwrap_or(i64::MAX),
                    missed: 0,
                });
                broke = step_ns > break_ns;
            }
            at_ns = now_ns;
        }
        let account = &polling.account;
        account.add(at_ns - first_ns - gap_ns, gap_ns, polls, at_ns);
        if broke {
            halt.now();
            return Ended::Broke;
        }
        if halt.is_reached(at_ns) {
            return Ended::Completed;
        }
        // The next period on the grid; periods that have passed already are skipped.
        let passed = at_ns.saturating_sub(begin_ns) / period_ns;
        begin_ns = begin_ns.saturating_add(passed.max(1).saturating_mul(period_ns));
        ahead_ns = AHEAD_NS.min(rest_ns / 10);
        last_ns = Some(at_ns);
    }
}

/// How often a feed is read.
const FEED_EVERY_NS: u64 = 50_000_000;

/// Takes gaps from a feed, from `start_ns` on. The watched time is taken to be the
/// requested share: no feed reports more.
pub fn follow(
    feed: &dyn GapFeed,
    cpu: usize,
    polling: &Polling,
    start_ns: u64,
    ring: &mut Producer<Sample>,
    halt: &Halt,
) -> Ended {
    let mut before_ns = start_ns;
    loop {
        let now_ns = clock::now_ns();
        let reached = halt.is_reached(now_ns);
        let mut gap_ns = 0_u64;
        feed.take(cpu, &mut |requested_ns, length_ns| {
            if requested_ns >= start_ns {
                gap_ns = gap_ns.saturating_add(length_ns);
            }
            ring.push(Sample {
                requested_ns,
                late_ns: i64::try_from(length_ns).unwrap_or(i64::MAX),
                missed: 0,
            });
        });
        if now_ns > before_ns {
            let span_ns = u128::from(now_ns - before_ns);
            let share = u128::from(polling.runtime_ns) * span_ns;
            let watched_ns = (share / u128::from(polling.period_ns.max(1))) as u64;
            let polled_ns = watched_ns.saturating_sub(gap_ns);
            polling.account.add(polled_ns, gap_ns, 1, now_ns);
            before_ns = now_ns;
        }
        if reached {
            return Ended::Completed;
        }
        if let Err(error) = sleep_until(now_ns + FEED_EVERY_NS)
            && error.raw_os_error() != Some(libc::EINTR)
        {
            return Ended::Failed(error);
        }
    }
}

/// The usual time from one reading to the next, in ns: the median of some thousands, on
/// the calling thread.
#[must_use]
pub fn step_ns() -> u64 {
    const STEPS: usize = 1 << 13;
    let mut steps = vec![0; STEPS];
    let mut at_ns = clock::now_ns();
    for step in &mut steps {
        let now_ns = clock::now_ns();
        *step = now_ns - at_ns;
        at_ns = now_ns;
    }
    let (_, median, _) = steps.select_nth_unstable(STEPS / 2);
    (*median).max(1)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::io;

    use punctual_rt::ring::ring;

    use super::*;

    /// A clock that advances by 10 ns at each reading, and jumps where it was told to.
    struct Clock<'a> {
        now_ns: Cell<u64>,
        /// The number of the reading, from 1 on, and how much longer it takes.
        jumps: &'a [(u64, u64)],
        readings: Cell<u64>,
        slept: Vec<u64>,
        late_ns: u64,
    }

    impl<'a> Clock<'a> {
        fn new(jumps: &'a [(u64, u64)]) -> Self {
            Self {
                now_ns: Cell::new(0),
                jumps,
                readings: Cell::new(0),
                slept: Vec::new(),
                late_ns: 0,
            }
        }
    }

    impl WaitSource for &mut Clock<'_> {
        fn wait_until(&mut self, due_ns: u64) -> io::Result<()> {
            self.slept.push(due_ns);
            let now_ns = self.now_ns.get().max(due_ns + self.late_ns);
            self.now_ns.set(now_ns);
            Ok(())
        }

        fn now_ns(&self) -> u64 {
            let reading = self.readings.get() + 1;
            self.readings.set(reading);
            let jump = self.jumps.iter().find(|(at, _)| *at == reading);
            let now_ns = self.now_ns.get() + 10 + jump.map_or(0, |(_, ns)| *ns);
            self.now_ns.set(now_ns);
            now_ns
        }
    }

    fn polling(runtime_ns: u64, period_ns: u64) -> Polling {
        Polling {
            above_ns: 100,
            runtime_ns,
            period_ns,
            account: Arc::default(),
            feed: None,
        }
    }

    fn gaps_of(
        clock: &mut Clock<'_>,
        polling: &Polling,
        end_ns: u64,
        break_ns: u64,
    ) -> (Vec<(u64, u64)>, Ended) {
        let (mut producer, mut consumer) = ring(64);
        let halt = Halt::at(end_ns);
        let ended = run(clock, polling, 1_000, &mut producer, &halt, break_ns);
        let mut gaps = Vec::new();
        consumer.drain(|sample| gaps.push((sample.requested_ns, sample.latency_ns())));
        (gaps, ended)
    }

    #[test]
    fn known_gaps_are_found_to_the_nanosecond() {
        // The first reading is at 1,010; the third would be at 1,030.
        let mut clock = Clock::new(&[(3, 90), (4, 91), (10, 5_000), (11, 90)]);
        let polling = polling(100_000, 100_000);
        let (gaps, ended) = gaps_of(&mut clock, &polling, 50_000, u64::MAX);
        assert!(matches!(ended, Ended::Completed));
        // 100 ns are the limit, so not above it.
        assert_eq!(gaps, [(1_120, 101), (1_271, 5_010)]);
        let progress = polling.account.progress();
        assert_eq!(progress.gap_ns, 101 + 5_010);
        assert_eq!(
            progress.polled_ns + progress.gap_ns,
            progress.last_ns - 1_010
        );
        assert_eq!(progress.polls + 1, clock.readings.get());
        assert!((50_000..50_010).contains(&progress.last_ns), "{progress:?}");
    }

    #[test]
    fn a_thread_that_rests_reports_the_share_it_polled() {
        let mut clock = Clock::new(&[]);
        clock.late_ns = 7;
        let polling = polling(800, 1_800);
        let (gaps, _) = gaps_of(&mut clock, &polling, 19_000, u64::MAX);
        assert_eq!(gaps, []);
        // A tenth of its rest ahead.
        let ahead = (1..=10).map(|n| 1_000 + n * 1_800 - 100);
        let slept: Vec<u64> = [1_000].into_iter().chain(ahead).collect();
        assert_eq!(clock.slept, slept);
        let progress = polling.account.progress();
        // Woken 7 ns late, it reads the clock 10 ns later, and ends at the first reading
        // at or after 800; the last time the run ends when it should begin.
        assert_eq!(progress.polled_ns, 790 + 9 * 890 + 90);
        let span_ns = progress.last_ns - 1_000;
        assert!(progress.polled_ns + progress.gap_ns < span_ns);
    }

    #[test]
    fn what_keeps_it_from_polling_when_it_should_is_a_gap() {
        // From the first rest on each wake-up is late: the thread is ahead by 100 ns.
        let cases = [
            (90, vec![], 700 + 800),
            (180, vec![], 610 + 800),
            (181, vec![(2_800, 101)], 610 + 801),
        ];
        for (late_ns, gaps, watched_ns) in cases {
            let mut clock = Clock::new(&[]);
            clock.late_ns = late_ns;
            let polling = polling(800, 1_800);
            assert_eq!(gaps_of(&mut clock, &polling, 3_700, u64::MAX).0, gaps);
            let progress = polling.account.progress();
            assert_eq!(progress.polled_ns + progress.gap_ns, watched_ns);
        }
        // It may last for periods; what passed in a gap before is not counted twice.
        let mut clock = Clock::new(&[]);
        clock.late_ns = 3_500;
        let polling = polling(800, 1_800);
        let (gaps, _) = gaps_of(&mut clock, &polling, 9_000, u64::MAX);
        assert_eq!(gaps, [(4_600, 3_420), (8_200, 3_420)]);
    }

    #[test]
    fn a_gap_across_the_end_of_a_period_is_one_gap_and_the_grid_is_kept() {
        let mut clock = Clock::new(&[(5, 2_345)]);
        let polling = polling(800, 1_000);
        let (gaps, _) = gaps_of(&mut clock, &polling, 6_000, u64::MAX);
        assert_eq!(gaps, [(1_040, 2_355)]);
        assert_eq!(clock.slept, [1_000, 2_980, 3_980, 4_980, 5_980]);
        let mut full = Clock::new(&[(5, 2_345)]);
        let polling = self::polling(1_000, 1_000);
        let (gaps, _) = gaps_of(&mut full, &polling, 6_000, u64::MAX);
        assert_eq!(gaps, [(1_040, 2_355)]);
        assert_eq!(full.slept, [1_000], "it never rests");
        let progress = polling.account.progress();
        assert_eq!(
            progress.polled_ns + progress.gap_ns,
            progress.last_ns - 1_010,
            "nothing between two periods is lost"
        );
    }

    #[test]
    fn the_first_gap_above_the_break_value_ends_every_loop() {
        let mut clock = Clock::new(&[(5, 500), (9, 1_000), (12, 1_000)]);
        let polling = polling(10_000, 10_000);
        let (gaps, ended) = gaps_of(&mut clock, &polling, u64::MAX, 900);
        assert!(matches!(ended, Ended::Broke));
        assert_eq!(gaps.len(), 2);
        assert_eq!(gaps[1].1, 1_010);
    }

    #[test]
    fn a_full_ring_loses_gaps_but_not_their_time() {
        let jumps: Vec<(u64, u64)> = (2..102).map(|reading| (reading, 1_000)).collect();
        let mut clock = Clock::new(&jumps);
        let polling = polling(1_000_000, 1_000_000);
        let (mut producer, mut consumer) = ring(16);
        let halt = Halt::at(150_000);
        let ended = run(&mut clock, &polling, 1_000, &mut producer, &halt, u64::MAX);
        assert!(matches!(ended, Ended::Completed));
        assert_eq!(consumer.drain(drop) as u64 + consumer.refused(), 100);
        assert_eq!(polling.account.progress().gap_ns, 100 * 1_010);
    }
}
