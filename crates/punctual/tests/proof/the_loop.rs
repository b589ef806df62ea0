//! Proofs about the measuring loop from inside: it allocates nothing, with any
//! wait source, and no sequence of events makes it panic or lose a period.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use punctual_rt::clock;
use punctual_rt::periodic::{Fixed, Intervals, Primes, Schedule};
use punctual_rt::ring::{Producer, ring};
use punctual_tool::probe::cycle::{self, Bounds, Ended, Halt, Sample};
use punctual_tool::probe::gaps::{self, Polling};
use punctual_tool::probe::kinds::{self, KINDS, WithSource};
use punctual_tool::probe::nanosleep::Nanosleep;
use punctual_tool::probe::scripted::Scripted;
use punctual_tool::probe::source::WaitSource;

thread_local! {
    /// Calls of the allocator by this thread. Neither lazy nor with a destructor, so that
    /// counting allocates nothing.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    CALLS.with(|calls| calls.set(calls.get() + 1));
}

/// The system's allocator, with a counter.
struct Counting;

// SAFETY: every call is forwarded unchanged; counting accesses no allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees a layout of non-zero size, which `System` requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count();
        // SAFETY: the pointer came from `System` with this layout, because `alloc` forwards to it.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller guarantees a layout of non-zero size, which `System` requires.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the pointer came from `System` with this layout; the caller guarantees a valid
        // new size.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn calls() -> u64 {
    CALLS.with(Cell::get)
}

const CYCLES: u64 = 200;
const INTERVAL_NS: u64 = 500_000;

/// Runs the loop, and counts the allocator's calls from its first to its last
/// instruction.
struct Count<I> {
    schedule: Schedule<I>,
    ring: Producer<Sample>,
    halt: Halt,
}

impl<I: Intervals + Clone> WithSource for Count<I> {
    type Output = u64;

    fn with<S: WaitSource>(mut self, source: S) -> u64 {
        let bounds = Bounds {
            cycles: CYCLES,
            break_ns: u64::MAX,
        };
        let before = calls();
        let ended = cycle::run(source, &self.schedule, &mut self.ring, &self.halt, bounds);
        let after = calls();
        assert!(matches!(ended, Ended::Completed), "{ended:?}");
        after - before
    }
}

#[test]
fn the_counter_counts_allocations() {
    let before = calls();
    drop(std::hint::black_box(Box::new(5_u64)));
    assert_eq!(calls() - before, 2);
}

#[test]
fn the_loop_allocates_nothing_whatever_it_waits_on() {
    for kind in KINDS {
        for period_ns in [INTERVAL_NS, 0] {
            let worker = std::thread::spawn(move || {
                let (producer, mut consumer) = ring(CYCLES as usize);
                let start_ns = clock::now_ns() + 1_000_000;
                let halt = Halt::at(u64::MAX);
                let counted = if period_ns == 0 {
                    let schedule = Schedule::new(start_ns, Primes::new(INTERVAL_NS, 1));
                    let count = Count {
                        schedule,
                        ring: producer,
                        halt,
                    };
                    kinds::open(kind, 0, count)
                } else {
                    let schedule = Schedule::new(start_ns, Fixed(period_ns));
                    let count = Count {
                        schedule,
                        ring: producer,
                        halt,
                    };
                    kinds::open(kind, period_ns, count)
                };
                (counted.expect("a wait source"), consumer.drain(drop))
            });
            let (counted, taken) = worker.join().expect("the worker");
            assert_eq!(counted, 0, "{} with period {period_ns}", kind.name);
            assert_eq!(taken as u64, CYCLES);
        }
    }
}

#[test]
fn polling_allocates_nothing_whether_it_rests_or_not() {
    for runtime_ns in [1_000_000, 5_000_000] {
        let worker = std::thread::spawn(move || {
            let (mut producer, mut consumer) = ring(1 << 16);
            let start_ns = clock::now_ns() + 1_000_000;
            let halt = Halt::at(start_ns + 50_000_000);
            let polling = Polling {
                above_ns: 1,
                runtime_ns,
                period_ns: 5_000_000,
                account: Arc::default(),
                feed: None,
            };
            let source = Nanosleep::default();
            let before = calls();
            let ended = gaps::run(source, &polling, start_ns, &mut producer, &halt, u64::MAX);
            let after = calls();
            assert!(matches!(ended, Ended::Completed), "{ended:?}");
            let progress = polling.account.progress();
            assert_eq!(
                consumer.drain(drop) as u64 + consumer.refused(),
                progress.polls,
                "every step is longer than 1 ns"
            );
            after - before
        });
        assert_eq!(worker.join().expect("the worker"), 0);
    }
}

/// The samples that a loop over scripted latencies stored, and the number refused.
fn script(
    latencies_ns: &[i64],
    interval_ns: u64,
    capacity: usize,
    break_ns: u64,
) -> (Vec<Sample>, u64, Ended) {
    let source = Scripted::new(latencies_ns.iter().copied());
    let schedule = Schedule::new(0, Fixed(interval_ns));
    let (mut producer, mut consumer) = ring(capacity);
    let bounds = Bounds {
        cycles: u64::MAX,
        break_ns,
    };
    let halt = Halt::at(u64::MAX);
    let before = calls();
    let ended = cycle::run(source, &schedule, &mut producer, &halt, bounds);
    let after = calls();
    // The script itself notes the requested instants, and grows a vector now and then.
    assert!(after - before < 32, "{} allocations", after - before);
    let mut samples = Vec::new();
    consumer.drain(|sample| samples.push(sample));
    (samples, consumer.refused(), ended)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Every period is requested or counted as missed, exactly once; nothing panics.
    #[test]
    fn no_sequence_of_events_loses_a_period(
        latencies_ns in prop::collection::vec(
            prop_oneof![0..200_000_i64, -1_000..0_i64, 0..3_000_000_000_i64], 1..200,
        ),
        interval_ns in 50_000..5_000_000_u64,
    ) {
        let (samples, refused, _) = script(&latencies_ns, interval_ns, 256, u64::MAX);
        prop_assert_eq!(refused, 0);
        prop_assert_eq!(samples.len(), latencies_ns.len());
        let mut due_ns = interval_ns;
        for (sample, latency_ns) in samples.iter().zip(&latencies_ns) {
            prop_assert_eq!(sample.requested_ns, due_ns);
            prop_assert_eq!(sample.woke_ns(), due_ns.saturating_add_signed(*latency_ns));
            prop_assert_eq!(sample.missed, (*latency_ns).max(0) as u64 / interval_ns);
            due_ns += (1 + sample.missed) * interval_ns;
        }
    }

    /// A full ring refuses samples, and counts them.
    #[test]
    fn a_full_ring_ends_nothing(count in 0..500_usize) {
        let (samples, refused, _) = script(&vec![10; count], 1_000, 64, u64::MAX);
        prop_assert_eq!(samples.len() + refused as usize, count);
        prop_assert_eq!(samples.len(), count.min(64));
    }

    /// The first latency above it ends the loop, and none after it is measured.
    #[test]
    fn the_break_value_is_exact(latencies_ns in prop::collection::vec(0..1_000_i64, 1..50), limit in 0..1_000_u64) {
        let (samples, _, ended) = script(&latencies_ns, 10_000, 64, limit);
        let first = latencies_ns.iter().position(|ns| *ns as u64 > limit);
        prop_assert_eq!(samples.len(), first.map_or(latencies_ns.len(), |at| at + 1));
        prop_assert_eq!(matches!(ended, Ended::Broke), first.is_some());
    }
}

#[test]
fn a_stall_of_an_hour_at_a_microsecond_is_counted_to_the_last_period() {
    let hour = Duration::from_secs(3600).as_nanos() as i64;
    let (samples, _, _) = script(&[0, hour, 5], 1_000_000, 8, u64::MAX);
    assert_eq!(samples[1].missed, 3_600_000);
    assert_eq!(samples[2].requested_ns, 2_000_000 + hour as u64 + 1_000_000);
}

/// A wait source that is interrupted and fails.
struct Failing(Vec<i32>);

impl WaitSource for Failing {
    fn wait_until(&mut self, _due_ns: u64) -> std::io::Result<()> {
        match self.0.pop() {
            Some(0) => Ok(()),
            Some(number) => Err(std::io::Error::from_raw_os_error(number)),
            None => Err(std::io::Error::other("over")),
        }
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

#[test]
fn an_interrupted_wait_is_repeated_and_a_failed_one_ends_the_loop() {
    let (eintr, einval) = (libc::EINTR, libc::EINVAL);
    let source = Failing(vec![einval, 0, eintr, 0, eintr, eintr]);
    let (mut producer, mut consumer) = ring(8);
    let schedule = Schedule::new(0, Fixed(10));
    let bounds = Bounds {
        cycles: 10,
        break_ns: u64::MAX,
    };
    let halt = Halt::at(u64::MAX);
    let ended = cycle::run(source, &schedule, &mut producer, &halt, bounds);
    let mut asked = Vec::new();
    consumer.drain(|sample| asked.push(sample.requested_ns));
    assert_eq!(asked, [10, 20], "interruptions are no samples");
    let Ended::Failed(error) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!(error.raw_os_error(), Some(einval));
}
