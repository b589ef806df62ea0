//! The timers by which a task waits for its next job.

use std::io;

use punctual_record::taskset::Timer;
use punctual_rt::clock;
use punctual_rt::sys::time::{SignalTimer, TimerFd};

/// A timer of the calling thread.
pub enum TaskTimer {
    /// `clock_nanosleep` until an instant.
    Absolute,
    /// `clock_nanosleep` for what is left.
    Relative,
    /// A timerfd, armed for each job.
    Fd(TimerFd),
    /// A POSIX timer, armed for each job.
    Signal(SignalTimer),
}

impl TaskTimer {
    /// Opens it for the calling thread.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(timer: Timer) -> io::Result<Self> {
        Ok(match timer {
            Timer::Absolute => Self::Absolute,
            Timer::Relative => Self::Relative,
            Timer::Timerfd => Self::Fd(TimerFd::new()?),
            Timer::Signal => Self::Signal(SignalTimer::for_this_thread(libc::SIGALRM)?),
        })
    }

    /// Waits until an instant, or until a signal handler ran and the wait is off. Real-time safe; one system call, two
    /// where the timer is armed.
    ///
    /// # Errors
    /// The kernel's, but EINTR.
    #[inline]
    pub fn wait_until(&mut self, at_ns: u64, is_off: impl Fn() -> bool) -> io::Result<()> {
        loop {
            let waited = match self {
                Self::Absolute => clock::sleep_until(at_ns),
                Self::Relative => clock::sleep_for(at_ns.saturating_sub(clock::now_ns())),
                Self::Fd(timer) => timer.arm(at_ns, 0).and_then(|()| timer.wait().map(drop)),
                Self::Signal(timer) => timer.arm(at_ns, 0).and_then(|()| timer.wait().map(drop)),
            };
            match waited {
                Err(error) if error.raw_os_error() == Some(libc::EINTR) => {
                    if is_off() {
                        return Ok(());
                    }
                }
                waited => return waited,
            }
        }
    }
}
