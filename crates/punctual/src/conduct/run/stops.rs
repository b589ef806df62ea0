//! A thread that detects when the process was stopped.
//!
//! It waits for a timer once per round, so the kernel counts one voluntary context switch for each.
//! A stop (SIGSTOP, a freezer, a debugger) wakes it and makes it sleep again without a system call of
//! its own, which counts another. A machine that halts, a host that takes the CPU, or a thread of
//! higher priority adds no switch: those remain late wake-ups.
//!
//! Under PREEMPT_RT a thread that waits for a lock within the kernel counts such a switch, too
//! (`rtlock_slowlock`), and the timer's lock is often held as it wakes up. There it waits by epoll_wait(2),
//! which a stop ends with EINTR although the thread blocks all signals (signal(7)). A freezer of control
//! groups version 1 isn't seen there.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use punctual_rt::clock;
use punctual_rt::sys::task::thread_usage;
use punctual_rt::sys::time::{TimerFd, block_asynchronous_signals};
use rustix::event::epoll;
use rustix::io::Errno;

use super::pace::Pace;
use crate::conduct::error::ConductError;
use crate::conduct::housekeeper::Housekeeper;
use crate::conduct::signals::Signals;
use crate::probe::stops::{LOOK_NS, StopEvidence, StopWindow};
use punctual_machine::survey;
use punctual_record::StopCause;
use punctual_record::proc_stat::Stat;

/// The handler of SIGCONT runs in another thread, a moment later.
const CONTINUED_WITHIN: u32 = 10;

/// What the thread reports.
#[derive(Debug)]
struct Told {
    settled_ns: AtomicU64,
    windows: Mutex<Vec<StopWindow>>,
}

/// The running thread.
pub struct StopDetector {
    told: Arc<Told>,
    thread: Housekeeper,
}

impl StopDetector {
    /// Starts it.
    ///
    /// # Errors
    /// The thread cannot be started.
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
        let is_real_time =
            fs::read_to_string("/sys/kernel/realtime").is_ok_and(|word| word.trim() == "1");
        let interruptible = is_real_time.then(|| Interruptible::new(&timer)).transpose();
        let interruptible = interruptible.map_err(ConductError::Collector)?;
        let mut detector = Detector {
            told: Arc::clone(&told),
            timer,
            interruptible,
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

    /// Checks for the last time: no sample needs to wait after that.
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

/// The thread's own counters.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Before the counts were read.
    at_ns: u64,
    switches: i64,
    /// Major page faults: after one, a switch proves nothing.
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

/// How it waited.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    /// How often.
    times: i64,
    /// Whether it was woken by something that no thread sent it.
    interrupted: bool,
}

/// Waits for the timer in a way that a stop interrupts.
struct Interruptible(OwnedFd);

impl Interruptible {
    fn new(timer: &TimerFd) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&epoll, timer, data, epoll::EventFlags::IN)?;
        Ok(Self(epoll))
    }

    /// Waits until the timer has expired; whether anything else ended the wait.
    fn is_interrupted(&self) -> bool {
        let mut interrupted = false;
        let mut events = [MaybeUninit::uninit()];
        while let Err(Errno::INTR) = epoll::wait(&self.0, &mut events, None) {
            interrupted = true;
        }
        interrupted
    }
}

/// The thread's own.
struct Detector {
    told: Arc<Told>,
    timer: TimerFd,
    /// What it waits by where switches prove nothing.
    interruptible: Option<Interruptible>,
    pace: Arc<Pace>,
    continued: Arc<AtomicBool>,
    seen: Option<Seen>,
    /// SIGCONT came before the last round, and ended no stop.
    stale: bool,
}

impl Detector {
    fn round(&mut self, last: bool) {
        if self.seen.is_none() {
            // A signal for this thread must not look like a stop.
            let _ = block_asynchronous_signals();
            self.seen = Seen::now().ok();
        }
        let waited = if last { Waited::default() } else { self.wait() };
        let (Some(before), Ok(now)) = (self.seen, Seen::now()) else {
            // Stops cannot be detected here: nothing waits for this thread.
            self.told.settled_ns.store(u64::MAX, Ordering::Release);
            thread::sleep(Duration::from_nanos(LOOK_NS));
            return;
        };
        self.seen = Some(now);
        let (stopped, is_certain) = match self.interruptible {
            Some(_) => (waited.interrupted, true),
            None => (now.switches - before.switches > waited.times, false),
        };
        if !stopped && self.stale {
            self.continued.store(false, Ordering::Release);
        }
        let continued = self.continued.load(Ordering::Acquire);
        self.stale = continued && !stopped;
        if stopped && (is_certain || continued || now.faults == before.faults) {
            let to_ns = clock::now_ns();
            let cause = self.cause();
            lock(&self.told.windows).push(StopWindow {
                from_ns: before.at_ns,
                to_ns,
                cause,
            });
            // The report itself may have caused switches and faults.
            self.seen = Seen::now().ok().map(|counts| Seen {
                at_ns: now.at_ns,
                ..counts
            });
        }
        let settled_ns = if last { u64::MAX } else { now.at_ns };
        self.told.settled_ns.store(settled_ns, Ordering::Release);
    }

    /// Waits for the next round.
    fn wait(&self) -> Waited {
        let due_ns = self.pace.after(LOOK_NS);
        if self.timer.arm(due_ns, 0).is_err() {
            thread::sleep(Duration::from_nanos(LOOK_NS));
            return Waited {
                times: i64::MAX,
                interrupted: false,
            };
        }
        let interrupted = self
            .interruptible
            .as_ref()
            .is_some_and(Interruptible::is_interrupted);
        let mut times = 1;
        while let Err(error) = self.timer.wait() {
            if error.raw_os_error() != Some(libc::EINTR) {
                break;
            }
            times += 1;
        }
        Waited { times, interrupted }
    }

    fn cause(&self) -> StopCause {
        let traced = survey::tracer(std::process::id().cast_signed()).is_some();
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
