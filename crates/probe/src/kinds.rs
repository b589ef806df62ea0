//! Every wait source by its name.

use std::io;

use super::condvar::CondvarWait;
use super::futex::FutexWait;
use super::nanosleep::Nanosleep;
use super::nanosleep_relative::NanosleepRelative;
use super::source::WaitSource;
use super::timer_signal::TimerSignal;
use super::timerfd::TimerFdWait;

/// A kind of wait source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kind {
    /// The name in flags and records.
    pub name: &'static str,
    /// One line for the help.
    pub summary: &'static str,
    opener: Opener,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opener {
    Nanosleep,
    NanosleepRelative,
    TimerFd,
    TimerSignal,
    Condvar,
    Futex,
}

/// Every wait source, the default first.
pub const KINDS: [Kind; 6] = [
    Kind {
        name: "nanosleep",
        summary: "clock_nanosleep until an absolute time",
        opener: Opener::Nanosleep,
    },
    Kind {
        name: "nanosleep-relative",
        summary: "clock_nanosleep for a length of time",
        opener: Opener::NanosleepRelative,
    },
    Kind {
        name: "timerfd",
        summary: "read of a timerfd",
        opener: Opener::TimerFd,
    },
    Kind {
        name: "timer-signal",
        summary: "POSIX timer and sigwaitinfo",
        opener: Opener::TimerSignal,
    },
    Kind {
        name: "condvar",
        summary: "timed wait on a condition variable with a priority-inheriting mutex",
        opener: Opener::Condvar,
    },
    Kind {
        name: "futex",
        summary: "timed wait on a futex",
        opener: Opener::Futex,
    },
];

impl Kind {
    /// The wait source with that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.name == name)
    }
}

/// What to do with a wait source once its type is known: the probe's loop
/// is compiled for each source, so that no call in it is indirect.
pub trait WithSource {
    /// The result.
    type Output;
    /// Does it.
    fn with<S: WaitSource>(self, source: S) -> Self::Output;
}

/// Opens a wait source in the calling thread and passes it on. `period_ns` is the
/// length of every interval if they are all the same, and 0 if they differ:
/// a periodic timer saves the call that arms it again.
///
/// # Errors
/// The kernel's errno, e.g. EMFILE.
pub fn open<W: WithSource>(kind: Kind, period_ns: u64, then: W) -> io::Result<W::Output> {
    Ok(match kind.opener {
        Opener::Nanosleep => then.with(Nanosleep::default()),
        Opener::NanosleepRelative => then.with(NanosleepRelative),
        Opener::TimerFd => then.with(TimerFdWait::new(period_ns)?),
        Opener::TimerSignal => then.with(TimerSignal::new(period_ns)?),
        Opener::Condvar => {
            let condvar = CondvarWait::new()?;
            then.with(condvar.lock()?)
        }
        Opener::Futex => then.with(FutexWait::default()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_found_by_its_name_and_waits() {
        struct Check;
        impl WithSource for Check {
            type Output = (u64, u64);
            fn with<S: WaitSource>(self, mut source: S) -> Self::Output {
                let mut woke = (0, 0);
                let start = source.now_ns();
                for cycle in 1..=3 {
                    let due = start + cycle * 1_000_000;
                    while source.wait_until(due).is_err() {}
                    woke = (due, source.now_ns());
                }
                woke
            }
        }
        for kind in KINDS {
            assert_eq!(Kind::named(kind.name), Some(kind));
            for period in [0, 1_000_000] {
                let (due, now) = open(kind, period, Check).unwrap();
                assert!(now >= due, "{}: woke before its time", kind.name);
            }
        }
        assert_eq!(Kind::named("sleep"), None);
    }
}
