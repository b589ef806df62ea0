//! One probe thread: set up, warmed up, let go.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use punctual_rt::clock;
use punctual_rt::memory::Disturbances;
use punctual_rt::periodic::{Fixed, Intervals, Primes, Schedule};
use punctual_rt::ring::Producer;
use punctual_rt::sched::Policy;
use punctual_rt::sys::time::clock_now;
use punctual_rt::thread::{Builder, Handle, SpawnError};

use super::cycle::{self, Bounds, Ended, Halt, Sample};
use super::gaps::{self, Polling};
use super::kinds::{self, Kind, WithSource};
use super::nanosleep::Nanosleep;
use super::rseq;
use super::source::WaitSource;
use punctual_record::Interval;

/// Cycles of the warm-up: the whole code and all its data are passed through
/// before time counts.
pub const WARM_UP_CYCLES: u64 = 16;
/// Interval of the warm-up in ns, unless the run's own is shorter.
const WARM_UP_NS: u64 = 1_000_000;
/// So long before the start a thread is awake: a CPU that has rested for longer than an interval
/// wakes more slowly, and the first wake-up of a run with a short interval would be late by it.
const AWAKE_NS: u64 = 200_000;
/// Time for what comes between that and the loop: a wait source and a few readings.
const SET_UP_NS: u64 = 20_000;
/// The loop's frames are small; the rest is for setting up and unwinding.
const STACK_BYTES: usize = 256 << 10;

/// What a probe thread is to do.
#[derive(Debug, Clone)]
pub struct ProbeRequest {
    /// Position among the threads of the run; also added to the seed.
    pub index: usize,
    /// The CPU to be pinned to.
    pub cpu: usize,
    /// How it waits.
    pub kind: Kind,
    /// How long.
    pub interval: Interval,
    /// How it is scheduled.
    pub policy: Policy,
    /// How far it goes.
    pub bounds: Bounds,
    /// Polls the clock instead of being woken.
    pub polling: Option<Polling>,
}

/// The instant at which all threads start measuring together.
#[derive(Debug, Default)]
pub struct StartLine(AtomicU64);

impl StartLine {
    /// Lets every thread go: the measurement starts at `start_ns`, which should
    /// lie [`StartLine::run_up_ns`] ahead.
    pub fn go(&self, start_ns: u64) {
        self.0.store(start_ns, Ordering::Release);
    }

    /// Calls it off for all who wait there; whether nobody was let go before.
    fn call_off(&self) -> bool {
        let (never, off) = (0, u64::MAX);
        let was = self
            .0
            .compare_exchange(never, off, Ordering::AcqRel, Ordering::Acquire);
        matches!(was, Ok(_) | Err(u64::MAX))
    }

    /// How long before the start the threads must be let go for their warm-up.
    #[must_use]
    pub fn run_up_ns() -> u64 {
        (WARM_UP_CYCLES + 8) * WARM_UP_NS + 20_000_000
    }

    /// Waits at ordinary pace: nothing is measured yet.
    fn wait(&self) -> Option<u64> {
        loop {
            match self.0.load(Ordering::Acquire) {
                0 => std::thread::sleep(Duration::from_millis(1)),
                u64::MAX => return None,
                start_ns => return Some(start_ns),
            }
        }
    }
}

/// What a probe thread says of itself before it is let go.
#[derive(Debug)]
pub struct Ready {
    /// Position among the threads.
    pub index: usize,
    /// Thread id.
    pub tid: i32,
    /// What the kernel refused, in the order of the steps.
    pub refused: Vec<(&'static str, io::Error)>,
}

/// What a probe thread says at its end.
#[derive(Debug)]
pub struct Outcome {
    /// Why it ended.
    pub ended: Ended,
    /// Faults and preemptions inside the loop.
    pub disturbances: Option<Disturbances>,
    /// Processor time of the loop, in ns.
    pub cpu_ns: u64,
}

/// A probe thread that runs. Dropped, it ends the measurement of all that share its line.
pub struct Probe {
    /// Until its outcome is taken.
    handle: Option<Handle<Option<Outcome>>>,
    line: Arc<StartLine>,
    halt: Arc<Halt>,
    over: Arc<AtomicBool>,
}

impl Probe {
    /// Starts the thread; it sets itself up, tells `ready`, and waits at the line.
    ///
    /// # Errors
    /// No stack or no thread.
    pub fn start(
        request: ProbeRequest,
        ring: Producer<Sample>,
        line: &Arc<StartLine>,
        halt: &Arc<Halt>,
        ready: mpsc::Sender<Ready>,
    ) -> Result<Self, SpawnError> {
        let over = Arc::new(AtomicBool::new(false));
        let (its_line, its_halt, its_over) =
            (Arc::clone(line), Arc::clone(halt), Arc::clone(&over));
        let handle = Builder::new()
            .name(&format!("probe/{}", request.cpu))
            .stack_size(STACK_BYTES)
            .cpus(&[request.cpu])
            .policy(request.policy)
            .spawn(move |setup| {
                rseq::leave();
                let refused = setup
                    .refused
                    .into_iter()
                    .map(|refusal| (refusal.step, refusal.error));
                let told = Ready {
                    index: request.index,
                    tid: setup.tid,
                    refused: refused.collect(),
                };
                let listening = ready.send(told).is_ok();
                drop(ready);
                let start_ns = if listening { its_line.wait() } else { None };
                let outcome = start_ns.map(|start_ns| measure(&request, start_ns, ring, &its_halt));
                its_over.store(true, Ordering::Release);
                outcome
            })?;
        Ok(Self {
            handle: Some(handle),
            line: Arc::clone(line),
            halt: Arc::clone(halt),
            over,
        })
    }

    /// Whether the thread has come to its end.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Takes the outcome of a thread that is over; one that still waits for a far
    /// instant is left to itself and has none.
    #[must_use]
    pub fn finish(mut self) -> Option<Outcome> {
        let handle = self.handle.take()?;
        if self.is_over() {
            handle.join().ok().flatten()
        } else {
            handle.detach();
            None
        }
    }
}

impl Drop for Probe {
    /// Nobody will let a thread go that waits at the line: it would be waited for for ever.
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        if self.line.call_off() {
            drop(handle);
        } else {
            self.halt.now();
            handle.detach();
        }
    }
}

fn measure(request: &ProbeRequest, start_ns: u64, ring: Producer<Sample>, halt: &Halt) -> Outcome {
    if let Some(polling) = &request.polling {
        return poll(request, polling, start_ns, ring, halt);
    }
    match &request.interval {
        Interval::Fixed { interval_ns } => with_intervals(
            request,
            start_ns,
            ring,
            halt,
            *interval_ns,
            Fixed(*interval_ns),
        ),
        Interval::Primes {
            interval_ns, seed, ..
        } => {
            let seed = seed.wrapping_add(request.index as u64);
            with_intervals(
                request,
                start_ns,
                ring,
                halt,
                0,
                Primes::new(*interval_ns, seed),
            )
        }
    }
}

fn with_intervals<I: Intervals + Clone>(
    request: &ProbeRequest,
    start_ns: u64,
    mut ring: Producer<Sample>,
    halt: &Halt,
    period_ns: u64,
    intervals: I,
) -> Outcome {
    let warm_up_ns = request.interval.nominal_ns().min(WARM_UP_NS);
    // However late this thread got a processor, the warm-up ends where measuring starts.
    let start = Halt::at(start_ns);
    // The periodic timers of a warm-up must be armed with the warm-up's period.
    let warm_period_ns = if period_ns == 0 { 0 } else { warm_up_ns };
    let warm = Loop {
        schedule: Schedule::new(clock::now_ns() + warm_up_ns, Fixed(warm_up_ns)),
        ring: &mut ring,
        halt: &start,
        bounds: Bounds {
            cycles: WARM_UP_CYCLES,
            break_ns: u64::MAX,
        },
    };
    let warmed = kinds::open(request.kind, warm_period_ns, warm);
    if let Err(error)
    | Ok(Outcome {
        ended: Ended::Failed(error),
        ..
    }) = warmed
    {
        return Outcome {
            ended: Ended::Failed(error),
            disturbances: None,
            cpu_ns: 0,
        };
    }
    // A runtime that is spent before the start would be lacking after it.
    if !matches!(request.policy, Policy::Deadline { .. }) {
        stay_awake_until(start_ns.saturating_sub(SET_UP_NS));
    }
    let main = Loop {
        // Late for the start line, because it had no processor: those periods are missed.
        schedule: Schedule::new(start_ns, intervals),
        ring: &mut ring,
        halt,
        bounds: request.bounds,
    };
    kinds::open(request.kind, period_ns, main).unwrap_or_else(|error| Outcome {
        ended: Ended::Failed(error),
        disturbances: None,
        cpu_ns: 0,
    })
}

/// Waits for an instant; the end of the wait is spent awake.
fn stay_awake_until(at_ns: u64) {
    // Fails only where a signal handler ran.
    while clock::sleep_until(at_ns.saturating_sub(AWAKE_NS)).is_err() {}
    while clock::now_ns() < at_ns {
        std::hint::spin_loop();
    }
}

/// The loop with everything but its wait source.
struct Loop<'a, I> {
    schedule: Schedule<I>,
    ring: &'a mut Producer<Sample>,
    halt: &'a Halt,
    bounds: Bounds,
}

impl<I: Intervals + Clone> WithSource for Loop<'_, I> {
    type Output = Outcome;

    fn with<S: WaitSource>(self, source: S) -> Outcome {
        observed(|| cycle::run(source, &self.schedule, self.ring, self.halt, self.bounds))
    }
}

/// Runs a loop, and reads before and after it what happened to this thread.
fn observed(looping: impl FnOnce() -> Ended) -> Outcome {
    let before = Disturbances::of_this_thread();
    let cpu_before_ns = clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
    let ended = looping();
    let cpu_ns = clock_now(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(cpu_before_ns);
    let after = Disturbances::of_this_thread();
    let disturbances = before
        .ok()
        .zip(after.ok())
        .map(|(before, after)| after.since(&before));
    Outcome {
        ended,
        disturbances,
        cpu_ns,
    }
}

/// Polls for a millisecond to warm up, and then from the start on.
fn poll(
    request: &ProbeRequest,
    polling: &Polling,
    start_ns: u64,
    mut ring: Producer<Sample>,
    halt: &Halt,
) -> Outcome {
    if let Some(feed) = &polling.feed {
        let cpu = request.cpu;
        return observed(|| gaps::follow(feed.as_ref(), cpu, polling, start_ns, &mut ring, halt));
    }
    let now_ns = clock::now_ns();
    let warm_up = Polling {
        account: Arc::default(),
        ..polling.clone()
    };
    // What it finds lies before the start, and is counted as that.
    let end = Halt::at(now_ns.saturating_add(WARM_UP_NS).min(start_ns));
    observed(|| {
        gaps::run(
            Nanosleep::default(),
            &warm_up,
            now_ns,
            &mut ring,
            &end,
            u64::MAX,
        )
    });
    let break_ns = request.bounds.break_ns;
    observed(|| {
        gaps::run(
            Nanosleep::default(),
            polling,
            start_ns,
            &mut ring,
            halt,
            break_ns,
        )
    })
}

#[cfg(test)]
mod tests {
    use punctual_rt::affinity;
    use punctual_rt::ring::ring;

    use super::*;

    /// Two threads at one line, told to be ready.
    fn lined_up(line: &Arc<StartLine>, halt: &Arc<Halt>) -> Vec<Probe> {
        let cpu = affinity::of(0).expect("the CPUs of this thread")[0];
        let (tell, told) = mpsc::channel();
        let start = |index| {
            let request = ProbeRequest {
                index,
                cpu,
                kind: Kind::named("nanosleep").expect("a wait source"),
                interval: Interval::Fixed {
                    interval_ns: 1_000_000,
                },
                policy: Policy::Other,
                bounds: Bounds {
                    cycles: u64::MAX,
                    break_ns: u64::MAX,
                },
                polling: None,
            };
            let (producer, _) = ring(16);
            Probe::start(request, producer, line, halt, tell.clone()).expect("a thread")
        };
        let probes: Vec<Probe> = (0..2).map(start).collect();
        for _ in &probes {
            told.recv().expect("it is ready");
        }
        probes
    }

    #[test]
    fn a_thread_waits_awake_for_a_moment_only() {
        for ahead_ns in [0, AWAKE_NS / 2, 5_000_000] {
            let cpu_ns = || clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
            let (at_ns, before_ns) = (clock::now_ns() + ahead_ns, cpu_ns());
            stay_awake_until(at_ns);
            assert!(clock::now_ns() >= at_ns);
            // It doesn't poll for longer than it says.
            assert!(cpu_ns() - before_ns < AWAKE_NS + 2_000_000);
        }
        // An instant that has passed, and none.
        stay_awake_until(1);
        stay_awake_until(0);
    }

    #[test]
    fn threads_at_the_line_end_with_who_would_have_let_them_go() {
        let (line, halt) = (Arc::default(), Arc::new(Halt::at(u64::MAX)));
        let probes = lined_up(&line, &halt);
        let over: Vec<_> = probes.iter().map(|probe| Arc::clone(&probe.over)).collect();
        drop(probes);
        assert!(over.iter().all(|over| over.load(Ordering::Acquire)));
        assert!(!halt.called());
    }

    #[test]
    fn threads_under_way_are_told_to_end_and_not_waited_for() {
        let (line, halt) = (Arc::<StartLine>::default(), Arc::new(Halt::at(u64::MAX)));
        let probes = lined_up(&line, &halt);
        line.go(clock::now_ns() + StartLine::run_up_ns());
        let over: Vec<_> = probes.iter().map(|probe| Arc::clone(&probe.over)).collect();
        drop(probes);
        assert!(halt.called());
        while !over.iter().all(|over| over.load(Ordering::Acquire)) {
            std::thread::yield_now();
        }
    }
}
