//! The two threads of a measurement: one sends, one receives.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use punctual_network::sender::{Ended, Line, Outcome, Receiver, Sender, Shared, Writers};
use punctual_rt::clock;
use punctual_rt::memory::Disturbances;
use punctual_rt::periodic::{Fixed, Primes, Schedule};
use punctual_rt::sched::Policy;
use punctual_rt::sys::time::clock_now;
use punctual_rt::thread::{Builder, Handle};

use super::plan::PathPlan;
use crate::conduct::error::ConductError;
use crate::probe::thread::Ready;
use punctual_record::Interval;

/// Instants of the warm-up: ways through the kernel are used once before time counts.
const WARM_UP: u64 = 16;
/// The warm-up takes this long at most.
const WARM_UP_NS: u64 = 200_000_000;
/// How long before the warm-up the threads are let go.
const RUN_UP_NS: u64 = 30_000_000;
/// How long threads may take to be ready.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long a thread may take to end after it was asked.
const END_WITHIN: Duration = Duration::from_secs(2);
/// A stack of each thread.
const STACK_BYTES: usize = 256 << 10;

/// Both threads.
pub struct Threads {
    /// What they share with the others.
    pub shared: Arc<Shared>,
    /// The CPU of each and what it reported: the sender's, the receiver's.
    pub ready: Vec<(usize, Ready)>,
    /// The beginning of the warm-up; 0 while it is not known.
    line: Arc<AtomicU64>,
    over: [Arc<AtomicBool>; 2],
    handles: Vec<Option<Handle<Outcome>>>,
}

/// Starts both threads, which wait for their start.
///
/// # Errors
/// A thread cannot be started, or was not ready in time.
pub fn start(plan: &PathPlan, line: &Line, writers: Writers) -> Result<Threads, ConductError> {
    let shared = Shared::new();
    let mut sender = Sender::new(line.clone(), Arc::clone(&shared), writers.sent);
    let mut receiver = Receiver::new(line.clone(), Arc::clone(&shared), writers.received);
    let start = Arc::new(AtomicU64::new(0));
    let over = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (tell, told) = mpsc::channel();
    let mut handles = Vec::new();
    let interval = plan.interval.clone();
    let begin = Arc::clone(&start);
    let send = move || match wait(&begin) {
        Some(from_ns) => match interval {
            Interval::Fixed { interval_ns } => {
                sender.run(Schedule::new(from_ns, Fixed(interval_ns)))
            }
            Interval::Primes {
                interval_ns, seed, ..
            } => sender.run(Schedule::new(from_ns, Primes::new(interval_ns, seed))),
        },
        None => Ended::Completed,
    };
    let receive = move || receiver.run();
    let works: [Box<dyn FnOnce() -> Ended + Send>; 2] = [Box::new(send), Box::new(receive)];
    for (index, work) in works.into_iter().enumerate() {
        let cpu = plan.cpus[index];
        let (tell, its_over) = (tell.clone(), Arc::clone(&over[index]));
        let handle = builder(index, cpu, plan.policy).spawn(move |setup| {
            let refused = setup.refused.into_iter();
            let ready = Ready {
                index,
                tid: setup.tid,
                refused: refused.map(|it| (it.step, it.error)).collect(),
            };
            let _ = tell.send(ready);
            let outcome = observed(work);
            its_over.store(true, Ordering::Release);
            outcome
        });
        let handle = handle.map_err(|source| ConductError::Probe { cpu, source })?;
        handles.push(Some(handle));
    }
    let mut threads = Threads {
        shared,
        ready: Vec::new(),
        line: start,
        over,
        handles,
    };
    for count in 0..2 {
        let ready = told
            .recv_timeout(READY_WITHIN)
            .map_err(|_| ConductError::NotReady { ready: count })?;
        threads.ready.push((plan.cpus[ready.index], ready));
    }
    threads.ready.sort_by_key(|(_, ready)| ready.index);
    Ok(threads)
}

fn builder(index: usize, cpu: usize, policy: Policy) -> Builder {
    Builder::new()
        .name(["send", "receive"][index])
        .stack_size(STACK_BYTES)
        .cpus(&[cpu])
        .policy(policy)
}

/// Runs the loop between two readings of what disturbs it.
fn observed(work: impl FnOnce() -> Ended) -> Outcome {
    let before = Disturbances::of_this_thread();
    let began_ns = clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
    let ended = work();
    let cpu_ns = clock_now(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(began_ns);
    let after: io::Result<Disturbances> = Disturbances::of_this_thread();
    Outcome {
        ended,
        disturbances: after.and_then(|now| Ok(now.since(&before?))).ok(),
        cpu_ns,
    }
}

/// Waits without real-time precision: nothing is sent yet.
fn wait(line: &AtomicU64) -> Option<u64> {
    loop {
        match line.load(Ordering::Acquire) {
            0 => std::thread::sleep(Duration::from_millis(1)),
            u64::MAX => return None,
            from_ns => return Some(from_ns),
        }
    }
}

impl Threads {
    /// When a measurement that is let go now may start, and its warm-up.
    pub fn next_start_ns(interval: &Interval) -> (u64, u64) {
        let each_ns = interval.nominal_ns().max(1);
        let warm_up_ns = (WARM_UP_NS / each_ns).min(WARM_UP) * each_ns;
        let from_ns = clock::now_ns().saturating_add(RUN_UP_NS);
        (from_ns.saturating_add(warm_up_ns), from_ns)
    }

    /// Starts the warm-up at an instant; messages from `start_ns` on count. Nothing is started, and the
    /// answer is no, if that instant has passed: whoever calls this has waited for a CPU meanwhile.
    pub fn go(&self, from_ns: u64, start_ns: u64, end_ns: Option<u64>) -> bool {
        self.shared.count_from(start_ns);
        if let Some(end_ns) = end_ns {
            self.shared.end_at(end_ns);
        }
        let is_in_time = clock::now_ns() < from_ns;
        if is_in_time {
            self.line.store(from_ns, Ordering::Release);
        }
        is_in_time
    }

    /// Whether the warm-up was started.
    pub fn was_let_go(&self) -> bool {
        !matches!(self.line.load(Ordering::Acquire), 0 | u64::MAX)
    }

    /// When the last message is to be sent at the latest; never, without a length.
    pub fn planned_end_ns(&self) -> u64 {
        self.shared.planned_end_ns()
    }

    /// Whether the sender has ended.
    pub fn has_sent_all(&self) -> bool {
        self.over[0].load(Ordering::Acquire)
    }

    /// Whether the receiver has ended: before it was asked, because the connection is gone.
    pub fn has_received_all(&self) -> bool {
        self.over[1].load(Ordering::Acquire)
    }

    /// [`Threads::end`], without waiting until the thread that receives looks by itself.
    pub fn end_on(&mut self, line: &Line) -> Vec<Option<Outcome>> {
        self.call_off();
        line.wake_receiver();
        self.end()
    }

    /// Ends both, and waits a while for each; returns their outcomes.
    pub fn end(&mut self) -> Vec<Option<Outcome>> {
        self.call_off();
        let patience = Instant::now() + END_WITHIN;
        let are_over = || self.over.iter().all(|over| over.load(Ordering::Acquire));
        while !are_over() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let until_ns = clock::now_ns() + 100_000_000;
        let handles = self.handles.drain(..);
        handles
            .map(|handle| match handle?.join_until(until_ns) {
                Ok(outcome) => outcome.ok(),
                Err(handle) => {
                    handle.detach();
                    None
                }
            })
            .collect()
    }

    fn call_off(&self) {
        let _ = self
            .line
            .compare_exchange(0, u64::MAX, Ordering::AcqRel, Ordering::Acquire);
        self.shared.end();
        self.shared.halt();
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if !self.handles.is_empty() {
            let _ = self.end();
        }
    }
}
