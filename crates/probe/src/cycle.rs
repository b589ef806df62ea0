//! The probe's loop: wait, read the clock, push. Nothing else.
//!
//! In this loop there is no allocation, no lock, no page fault, and no system call
//! except the wait; tests count each of them.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use punctual_rt::clock::mark_wake_up;
use punctual_rt::periodic::{Intervals, Schedule};
use punctual_rt::ring::Producer;

use super::source::WaitSource;

/// One wake-up, as it is stored in the ring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// The requested instant.
    pub requested_ns: u64,
    /// How long after it the thread ran again; negative if it ran before.
    pub late_ns: i64,
    /// Periods that have passed since the requested one.
    pub missed: u64,
}

/// `late_ns` of what never came.
const NEVER: i64 = i64::MAX;

impl Sample {
    /// A message whose reply never came: a cycle that misses, without a latency.
    #[must_use]
    pub fn lost(requested_ns: u64, missed: u64) -> Self {
        Self {
            requested_ns,
            late_ns: NEVER,
            missed,
        }
    }

    /// Whether it is one of these.
    #[inline]
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.late_ns == NEVER
    }

    /// The latency: 0 if the wake-up was early.
    #[inline]
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.late_ns.max(0) as u64
    }

    /// The instant at which the thread ran again; the requested one of what never came.
    #[inline]
    #[must_use]
    pub fn woke_ns(&self) -> u64 {
        if self.is_lost() {
            return self.requested_ns;
        }
        self.requested_ns.wrapping_add_signed(self.late_ns)
    }
}

/// What ends a loop; shared by all probe threads of a run.
#[derive(Debug)]
pub struct Halt {
    /// No wake-up is requested for this instant or later.
    end_ns: AtomicU64,
}

impl Halt {
    /// Ends at an instant; `u64::MAX` for never.
    #[must_use]
    pub fn at(end_ns: u64) -> Self {
        Self {
            end_ns: AtomicU64::new(end_ns),
        }
    }

    /// Ends every loop after its current wait. Real-time safe.
    #[inline]
    pub fn now(&self) {
        self.end_ns.store(0, Ordering::Relaxed);
    }

    /// Sets the instant again, unless [`Halt::now`] was called before.
    pub fn set(&self, end_ns: u64) {
        let _ = self
            .end_ns
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |current| {
                (current != 0).then_some(end_ns)
            });
    }

    /// Whether an instant is the end or later. Real-time safe.
    #[inline]
    #[must_use]
    pub fn is_reached(&self, now_ns: u64) -> bool {
        now_ns >= self.end_ns.load(Ordering::Relaxed)
    }

    /// Whether [`Halt::now`] was called.
    #[must_use]
    pub fn called(&self) -> bool {
        self.end_ns.load(Ordering::Relaxed) == 0
    }
}

/// When a loop ends by itself.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Samples to take; `u64::MAX` for no limit.
    pub cycles: u64,
    /// The first latency above this ends all loops of the run; `u64::MAX` for none.
    pub break_ns: u64,
}

/// How a loop ended.
#[derive(Debug)]
pub enum Ended {
    /// The requested instant or number of cycles was reached, or [`Halt::now`] was called.
    Completed,
    /// A latency was above `break_ns`.
    Broke,
    /// The wait source failed.
    Failed(io::Error),
}

/// Runs the loop. The ring's `refused` counts samples that found it full.
///
/// It works on its own schedule: local state stays in registers
/// across the wait.
#[inline(never)]
pub fn run<S: WaitSource, I: Intervals + Clone>(
    mut source: S,
    schedule: &Schedule<I>,
    ring: &mut Producer<Sample>,
    halt: &Halt,
    bounds: Bounds,
) -> Ended {
    let mut schedule = schedule.clone();
    let end_ns = &halt.end_ns;
    // A signed comparison, because a wake-up may be early.
    let break_ns = i64::try_from(bounds.break_ns).unwrap_or(i64::MAX);
    // Up to this latency a wake-up is only a figure: one comparison decides that.
    let passed_ns = i64::try_from(schedule.shortest_ns()).unwrap_or(i64::MAX);
    let in_time_ns = break_ns.min(passed_ns - 1);
    let mut left = bounds.cycles;
    if left == 0 {
        return Ended::Completed;
    }
    loop {
        let requested_ns = schedule.advance();
        if requested_ns >= end_ns.load(Ordering::Relaxed) {
            return Ended::Completed;
        }
        let mut waited = source.wait_until(requested_ns);
        if waited.is_err() {
            waited = wait_again(&mut source, requested_ns, waited);
            if let Err(error) = waited {
                return Ended::Failed(error);
            }
        }
        let woke_ns = source.now_ns();
        mark_wake_up();
        let late_ns = woke_ns.wrapping_sub(requested_ns) as i64;
        if late_ns <= in_time_ns {
            ring.push(Sample {
                requested_ns,
                late_ns,
                missed: 0,
            });
        } else {
            let missed;
            (schedule, missed) = skip_missed(schedule, woke_ns);
            ring.push(Sample {
                requested_ns,
                late_ns,
                missed,
            });
            if late_ns > break_ns {
                halt.now();
                return Ended::Broke;
            }
        }
        left -= 1;
        if left == 0 {
            return Ended::Completed;
        }
    }
}

/// A function of its own, so that its code is not in the path of a punctual cycle.
#[cold]
#[inline(never)]
fn skip_missed<I: Intervals>(mut schedule: Schedule<I>, woke_ns: u64) -> (Schedule<I>, u64) {
    let missed = schedule.skip_until(woke_ns);
    (schedule, missed)
}

/// A signal handler ran: the same instant is still due.
#[cold]
pub(crate) fn wait_again<S: WaitSource>(
    source: &mut S,
    requested_ns: u64,
    mut waited: io::Result<()>,
) -> io::Result<()> {
    while let Err(error) = &waited {
        if error.raw_os_error() != Some(libc::EINTR) {
            break;
        }
        waited = source.wait_until(requested_ns);
    }
    waited
}

#[cfg(test)]
mod tests {
    use punctual_rt::periodic::{Fixed, Primes};
    use punctual_rt::ring::ring;

    use super::super::scripted::Scripted;
    use super::*;

    const FREE: Bounds = Bounds {
        cycles: u64::MAX,
        break_ns: u64::MAX,
    };

    /// A source whose every wait is first interrupted, and then 5 ns early.
    struct Interrupted {
        signals: u32,
        now_ns: u64,
    }

    impl WaitSource for Interrupted {
        fn wait_until(&mut self, due_ns: u64) -> io::Result<()> {
            self.signals += 1;
            if !self.signals.is_multiple_of(3) {
                return Err(io::Error::from_raw_os_error(libc::EINTR));
            }
            self.now_ns = due_ns - 5;
            Ok(())
        }

        fn now_ns(&self) -> u64 {
            self.now_ns
        }
    }

    #[test]
    fn a_wait_that_a_signal_ended_goes_on_and_an_early_wake_up_breaks_nothing() {
        let source = Interrupted {
            signals: 0,
            now_ns: 0,
        };
        let (mut producer, mut consumer) = ring(8);
        let bounds = Bounds {
            cycles: 4,
            break_ns: 0,
        };
        let schedule = Schedule::new(0, Fixed(100));
        let ended = run(
            source,
            &schedule,
            &mut producer,
            &Halt::at(u64::MAX),
            bounds,
        );
        assert!(matches!(ended, Ended::Completed));
        let mut asked = Vec::new();
        consumer.drain(|sample| asked.push((sample.requested_ns, sample.woke_ns())));
        assert_eq!(asked, [(100, 95), (200, 195), (300, 295), (400, 395)]);
    }

    fn run_script(latencies: &[i64], halt: &Halt, bounds: Bounds) -> (Vec<Sample>, Ended) {
        let source = Scripted::new(latencies.iter().copied());
        let schedule = Schedule::new(0, Fixed(1_000_000));
        let (mut producer, mut consumer) = ring(1 << 12);
        let ended = run(source, &schedule, &mut producer, halt, bounds);
        let mut samples = Vec::new();
        consumer.drain(|sample| samples.push(sample));
        (samples, ended)
    }

    fn latencies(samples: &[Sample]) -> Vec<u64> {
        samples
            .iter()
            .map(|sample| sample.woke_ns() - sample.requested_ns)
            .collect()
    }

    #[test]
    fn known_wake_ups_are_sampled_exactly() {
        let (samples, ended) = run_script(&[5, 7, 0, 999_999], &Halt::at(u64::MAX), FREE);
        assert_eq!(latencies(&samples), [5, 7, 0, 999_999]);
        assert!(samples.iter().all(|sample| sample.missed == 0));
        assert!(matches!(ended, Ended::Failed(_)), "the script had ended");
    }

    #[test]
    fn one_stall_of_a_second_is_one_sample_and_its_missed_periods() {
        let (samples, _) = run_script(&[10, 1_000_000_000, 10], &Halt::at(u64::MAX), FREE);
        assert_eq!(latencies(&samples), [10, 1_000_000_000, 10]);
        assert_eq!(
            samples
                .iter()
                .map(|sample| sample.missed)
                .collect::<Vec<_>>(),
            [0, 1000, 0]
        );
        // The phase is kept: the next wake-up is due on the grid.
        assert_eq!(samples[2].requested_ns, 1_003_000_000);
    }

    #[test]
    fn a_period_is_missed_from_the_instant_on_at_which_it_is_due() {
        // Only the shortest length is compared first: each length must be distinguished from it.
        let schedule = Schedule::new(0, Primes::new(1_000_000, 7));
        for (add_ns, missed) in [(-1, 0), (0, 1), (1, 1)] {
            let mut ahead = schedule.clone();
            for cycle in 0..100 {
                let due_ns = ahead.advance();
                let length_ns = ahead.clone().advance() - due_ns;
                let late_ns = length_ns as i64 + add_ns;
                let script = std::iter::repeat_n(0, cycle).chain([late_ns]);
                let (mut producer, mut consumer) = ring(1 << 7);
                let halt = Halt::at(u64::MAX);
                run(Scripted::new(script), &schedule, &mut producer, &halt, FREE);
                let mut samples = Vec::new();
                consumer.drain(|sample| samples.push(sample));
                let expected = Sample {
                    requested_ns: due_ns,
                    late_ns,
                    missed,
                };
                assert_eq!(samples.last(), Some(&expected));
            }
        }
    }

    #[test]
    fn a_break_value_beyond_the_interval_is_obeyed() {
        let bounds = Bounds {
            break_ns: 2_500_000,
            ..FREE
        };
        let halt = Halt::at(u64::MAX);
        let (samples, ended) = run_script(&[1_000_000, 2_500_000, 2_500_001, 5], &halt, bounds);
        assert_eq!(latencies(&samples), [1_000_000, 2_500_000, 2_500_001]);
        assert!(matches!(ended, Ended::Broke));
    }

    #[test]
    fn loops_are_counted_exactly() {
        let bounds = Bounds { cycles: 3, ..FREE };
        let (samples, ended) = run_script(&[1; 10], &Halt::at(u64::MAX), bounds);
        assert_eq!(samples.len(), 3);
        assert!(matches!(ended, Ended::Completed));
    }

    #[test]
    fn no_wake_up_is_requested_at_or_after_the_end() {
        let (samples, ended) = run_script(&[1; 10], &Halt::at(4_000_000), FREE);
        assert_eq!(samples.last().unwrap().requested_ns, 3_000_000);
        assert!(matches!(ended, Ended::Completed));
    }

    #[test]
    fn the_first_latency_above_the_break_value_ends_every_loop() {
        let halt = Halt::at(u64::MAX);
        let bounds = Bounds {
            break_ns: 100,
            ..FREE
        };
        let (samples, ended) = run_script(&[5, 100, 101, 5], &halt, bounds);
        assert_eq!(latencies(&samples), [5, 100, 101]);
        assert!(matches!(ended, Ended::Broke));
        assert!(halt.called());
        halt.set(u64::MAX);
        assert!(halt.called(), "an end that was called is not taken back");
    }
}
