//! One probe thread: set up, warmed up, started.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use punctual_rt::clock;
use punctual_rt::memory::Disturbances;
use punctual_rt::periodic::{Fixed, Intervals, Primes, Schedule};
use punctual_rt::ring::Producer;
use punctual_rt::sched::Policy;
use punctual_rt::sys::time::clock_now;
use punctual_rt::thread::{Builder, Handle, SpawnError, StartLine};

use super::cycle::{self, Bounds, Ended, Halt, Sample};
use super::gaps::{self, Polling};
use super::kinds::{self, Kind, WithSource};
use super::nanosleep::Nanosleep;
use super::rseq;
use super::source::WaitSource;
use punctual_record::Interval;

/// Cycles of the warm-up: all code and data are used once
/// before time counts.
pub const WARM_UP_CYCLES: u64 = 16;
/// Interval of the warm-up in ns, unless the run's own is shorter.
const WARM_UP_NS: u64 = 1_000_000;
/// How long before the start a thread is awake: a CPU that was idle for longer than an interval
/// wakes more slowly, which would delay the first wake-up of a run with a short interval.
const AWAKE_NS: u64 = 200_000;
/// Time for the steps between that and the loop: a wait source and a few readings.
const SET_UP_NS: u64 = 20_000;
/// The loop's frames are small; the rest is for setup and unwinding.
const STACK_BYTES: usize = 256 << 10;

/// What a probe thread does.
#[derive(Debug, Clone)]
pub struct ProbeRequest {
    /// Position among the threads of the run; also added to the seed.
    pub index: usize,
    /// The CPU that it is pinned to.
    pub cpu: usize,
    /// How it waits.
    pub kind: Kind,
    /// Its interval.
    pub interval: Interval,
    /// How it is scheduled.
    pub policy: Policy,
    /// When it ends.
    pub bounds: Bounds,
    /// Polls the clock instead of being woken.
    pub polling: Option<Polling>,
}

/// How long before the start the threads must be started for their warm-up.
#[must_use]
pub fn run_up_ns() -> u64 {
    (WARM_UP_CYCLES + 8) * WARM_UP_NS + 20_000_000
}

/// What a probe thread reports before it is started.
#[derive(Debug)]
pub struct Ready {
    /// Position among the threads.
    pub index: usize,
    /// Thread id.
    pub tid: i32,
    /// What the kernel refused, in the order of the steps.
    pub refused: Vec<(&'static str, io::Error)>,
}

/// What a probe thread reports at its end.
#[derive(Debug)]
pub struct Outcome {
    /// Why it ended.
    pub ended: Ended,
    /// Faults and preemptions inside the loop.
    pub disturbances: Option<Disturbances>,
    /// Processor time of the loop, in ns.
    pub cpu_ns: u64,
}

/// A running probe thread. Dropping it ends the measurement of all that share its start line.
pub struct Probe {
    /// Present until its outcome is taken.
    handle: Option<Handle<Option<Outcome>>>,
    line: Arc<StartLine>,
    halt: Arc<Halt>,
    over: Arc<AtomicBool>,
}

impl Probe {
    /// Starts the thread; it sets itself up, reports to `ready`, and waits at the start line.
    ///
    /// # Errors
    /// No stack or no thread is available.
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

    /// Whether the thread has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Takes the outcome of a thread that has ended; one that still waits for a distant
    /// instant is detached and has none.
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
    /// A thread that waits at the line would wait, and be waited for, for ever.
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
    // However late this thread got a CPU, the warm-up ends where measuring starts.
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
    // A runtime that is used up before the start would be missing after it.
    if !matches!(request.policy, Policy::Deadline { .. }) {
        stay_awake_until(start_ns.saturating_sub(SET_UP_NS));
    }
    let main = Loop {
        // If it is late for the start line, because it had no CPU, those periods are missed.
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

/// Waits for an instant; stays awake at the end of the wait.
fn stay_awake_until(at_ns: u64) {
    // Fails only where a signal handler ran.
    while clock::sleep_until(at_ns.saturating_sub(AWAKE_NS)).is_err() {}
    while clock::now_ns() < at_ns {
        std::hint::spin_loop();
    }
}

/// The loop's parameters except its wait source.
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

/// Runs a loop, and reads this thread's counters before and after it.
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
    // What it finds is before the start, and counts as such.
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

    /// Two threads at one line, which have reported that they are ready.
    fn lined_up(line: &Arc<StartLine>, halt: &Arc<Halt>) -> Vec<Probe> {
        let cpu = affinity::get(0).expect("the CPUs of this thread")[0];
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
    fn a_thread_stays_awake_only_shortly() {
        for ahead_ns in [0, AWAKE_NS / 2, 5_000_000] {
            let cpu_ns = || clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
            let (at_ns, before_ns) = (clock::now_ns() + ahead_ns, cpu_ns());
            stay_awake_until(at_ns);
            assert!(clock::now_ns() >= at_ns);
            // It polls no longer than it should.
            assert!(cpu_ns() - before_ns < AWAKE_NS + 2_000_000);
        }
        // An instant in the past, and the clock's first.
        stay_awake_until(1);
        stay_awake_until(0);
    }

    #[test]
    fn threads_at_the_line_end_with_the_owner_of_the_line() {
        let (line, halt) = (Arc::default(), Arc::new(Halt::at(u64::MAX)));
        let probes = lined_up(&line, &halt);
        let over: Vec<_> = probes.iter().map(|probe| Arc::clone(&probe.over)).collect();
        drop(probes);
        assert!(over.iter().all(|over| over.load(Ordering::Acquire)));
        assert!(!halt.called());
    }

    #[test]
    fn running_threads_are_ended_without_waiting_for_them() {
        let (line, halt) = (Arc::<StartLine>::default(), Arc::new(Halt::at(u64::MAX)));
        let probes = lined_up(&line, &halt);
        line.go(clock::now_ns() + run_up_ns());
        let over: Vec<_> = probes.iter().map(|probe| Arc::clone(&probe.over)).collect();
        drop(probes);
        assert!(halt.called());
        while !over.iter().all(|over| over.load(Ordering::Acquire)) {
            std::thread::yield_now();
        }
    }
}
