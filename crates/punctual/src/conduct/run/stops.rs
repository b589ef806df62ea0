//! A thread that knows when the process was stopped.
//!
//! It waits for a timer, once in each of its rounds, and so the kernel counts one voluntary
//! switch for each. A stop (SIGSTOP, a freezer, a debugger) wakes it, has it sleep without a
//! call of its own, and counts another. A machine that stands still, a host that takes the
//! processor, or a thread that goes before it, count none: those remain late wake-ups.

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use punctual_rt::clock;
use punctual_rt::sys::task::thread_usage;
use punctual_rt::sys::time::{TimerFd, block_asynchronous_signals};

use super::pace::Pace;
use crate::conduct::error::ConductError;
use crate::conduct::housekeeper::Housekeeper;
use crate::conduct::signals::Signals;
use crate::probe::stops::{LOOK_NS, StopEvidence, StopWindow};
use crate::system;
use punctual_record::StopCause;
use punctual_record::proc_stat::Stat;

/// The handler of SIGCONT runs in another thread, a moment later.
const CONTINUED_WITHIN: u32 = 10;

/// What the thread tells.
#[derive(Debug)]
struct Told {
    settled_ns: AtomicU64,
    windows: Mutex<Vec<StopWindow>>,
}

/// The thread at work.
pub struct StopDetector {
    told: Arc<Told>,
    thread: Housekeeper,
}

impl StopDetector {
    /// Sets it to work.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn begin(
        signals: &Signals,
        housekeeping: Option<usize>,
        pace: &Arc<Pace>,
    ) -> Result<Self, ConductError> {
        let told = Arc::new(Told {
            settled_ns: AtomicU64::new(clock::now_ns()),
            windows: Mutex::default(),
        });
        let timer = TimerFd::new().map_err(ConductError::Collector)?;
        let mut detector = Detector {
            told: Arc::clone(&told),
            timer,
            pace: Arc::clone(pace),
            continued: signals.continued(),
            seen: None,
            stale: false,
        };
        let round = move |last| detector.round(last);
        let thread = Housekeeper::begin("stops", 256 << 10, housekeeping, round)
            .map_err(ConductError::Collector)?;
        Ok(Self { told, thread })
    }

    /// For the collector.
    #[must_use]
    pub fn evidence(&self) -> Box<dyn StopEvidence> {
        Box::new(Evidence(Arc::clone(&self.told)))
    }

    /// Looks for the last time: no sample needs to wait after that.
    pub fn end(&mut self) {
        self.thread.end();
    }
}

struct Evidence(Arc<Told>);

impl StopEvidence for Evidence {
    fn settled_ns(&self) -> u64 {
        self.0.settled_ns.load(Ordering::Acquire)
    }

    fn take(&mut self) -> Vec<StopWindow> {
        std::mem::take(&mut *lock(&self.0.windows))
    }

    fn is_stopped(&mut self, tid: i32) -> bool {
        let stat = fs::read_to_string(format!("/proc/self/task/{tid}/stat")).unwrap_or_default();
        let state = Stat::parse(&stat).and_then(|stat| stat.state());
        matches!(state, Some('t' | 'T'))
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread knows of itself.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Before the counts were read.
    at_ns: u64,
    switches: i64,
    /// Pages may have had to be fetched: then a switch says nothing.
    faults: i64,
}

impl Seen {
    fn now() -> io::Result<Self> {
        let at_ns = clock::now_ns();
        let usage = thread_usage()?;
        Ok(Self {
            at_ns,
            switches: usage.ru_nvcsw,
            faults: usage.ru_majflt + usage.ru_minflt,
        })
    }
}

/// The thread's own.
struct Detector {
    told: Arc<Told>,
    timer: TimerFd,
    pace: Arc<Pace>,
    continued: Arc<AtomicBool>,
    seen: Option<Seen>,
    /// SIGCONT came before the last round, and ended no stop.
    stale: bool,
}

impl Detector {
    fn round(&mut self, last: bool) {
        if self.seen.is_none() {
            // A signal of ours must not look like one that stops.
            let _ = block_asynchronous_signals();
            self.seen = Seen::now().ok();
        }
        let waits = if last { 0 } else { self.wait() };
        let (Some(before), Ok(now)) = (self.seen, Seen::now()) else {
            // Nothing is known of stops here: nothing waits for it.
            self.told.settled_ns.store(u64::MAX, Ordering::Release);
            thread::sleep(Duration::from_nanos(LOOK_NS));
            return;
        };
        self.seen = Some(now);
        let stopped = now.switches - before.switches > waits;
        if !stopped && self.stale {
            self.continued.store(false, Ordering::Release);
        }
        let continued = self.continued.load(Ordering::Acquire);
        self.stale = continued && !stopped;
        if stopped && (continued || now.faults == before.faults) {
            let to_ns = clock::now_ns();
            let cause = self.cause();
            lock(&self.told.windows).push(StopWindow {
                from_ns: before.at_ns,
                to_ns,
                cause,
            });
            // To tell it may have taken switches and faults.
            self.seen = Seen::now().ok().map(|counts| Seen {
                at_ns: now.at_ns,
                ..counts
            });
        }
        let settled_ns = if last { u64::MAX } else { now.at_ns };
        self.told.settled_ns.store(settled_ns, Ordering::Release);
    }

    /// Waits for the next look, and returns how often it had to.
    fn wait(&self) -> i64 {
        let due_ns = self.pace.after(LOOK_NS);
        if self.timer.arm(due_ns, 0).is_err() {
            thread::sleep(Duration::from_nanos(LOOK_NS));
            return i64::MAX;
        }
        let mut waits = 1;
        while let Err(error) = self.timer.wait() {
            if error.raw_os_error() != Some(libc::EINTR) {
                break;
            }
            waits += 1;
        }
        waits
    }

    fn cause(&self) -> StopCause {
        let traced = system::tracer(std::process::id().cast_signed()).is_some();
        for _ in 0..CONTINUED_WITHIN {
            if self.continued.swap(false, Ordering::AcqRel) {
                return StopCause::Signal;
            }
            if traced {
                return StopCause::Debugger;
            }
            thread::sleep(Duration::from_millis(1));
        }
        StopCause::Unknown
    }
}
