//! Clocks and timers.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use super::{check, check_returned, raw, vdso};

/// Nanoseconds in a second.
pub const NS_PER_S: u64 = 1_000_000_000;

/// Splits nanoseconds into a `timespec`.
#[inline]
#[must_use]
pub fn timespec(ns: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (ns / NS_PER_S) as libc::time_t,
        tv_nsec: (ns % NS_PER_S) as libc::c_long,
    }
}

#[inline]
fn nanoseconds(time: &libc::timespec) -> u64 {
    (time.tv_sec as u64)
        .wrapping_mul(NS_PER_S)
        .wrapping_add(time.tv_nsec as u64)
}

/// Reads a clock, in ns. Real-time safe: the vDSO answers for the monotonic and
/// real-time clocks where the clock source allows it.
///
/// # Panics
/// Never for the clocks that every kernel since 2.6.39 has; an unknown clock reads 0.
#[inline]
#[must_use]
pub fn clock_now(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a live, writable timespec, the only pointer passed.
    unsafe { libc::clock_gettime(clock, &mut time) };
    nanoseconds(&time)
}

/// Reads CLOCK_MONOTONIC, in ns. Real-time safe. It has no error path, because no error is
/// possible and a loop reads the clock in every cycle.
#[inline]
#[must_use]
pub fn monotonic_now() -> u64 {
    nanoseconds(&vdso::monotonic())
}

/// Resolution of a clock, in ns.
///
/// # Errors
/// The kernel's errno: EINVAL for an unknown clock.
pub fn clock_resolution(clock: libc::clockid_t) -> io::Result<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a live, writable timespec, the only pointer passed.
    check(unsafe { libc::clock_getres(clock, &mut time) })?;
    Ok(nanoseconds(&time))
}

/// Sleeps until an instant of CLOCK_MONOTONIC. Real-time safe; one system call.
///
/// # Errors
/// EINTR when a signal handler ran.
#[inline]
pub fn sleep_until(at_ns: u64) -> io::Result<()> {
    check_returned(raw::clock_nanosleep_until(
        libc::CLOCK_MONOTONIC,
        &timespec(at_ns),
    ))
}

/// Sleeps until successive instants of CLOCK_MONOTONIC, and reads that clock: for a loop. It
/// divides only when the second changes, and looks up the clock function in advance.
#[derive(Debug, Clone)]
pub struct Sleeper {
    clock: vdso::Reader,
    at: libc::timespec,
    /// The instant at which the second of `at` begins.
    second_ns: u64,
}

impl Default for Sleeper {
    fn default() -> Self {
        Self {
            clock: vdso::Reader::found(),
            at: timespec(0),
            second_ns: 0,
        }
    }
}

impl Sleeper {
    /// Sleeps until an instant. Real-time safe; one system call.
    ///
    /// # Errors
    /// EINTR when a signal handler ran.
    #[inline]
    pub fn sleep_until(&mut self, at_ns: u64) -> io::Result<()> {
        let within_ns = at_ns.wrapping_sub(self.second_ns);
        if within_ns < NS_PER_S {
            self.at.tv_nsec = within_ns as libc::c_long;
        } else {
            self.change_second(at_ns);
        }
        check_returned(raw::clock_nanosleep_until(libc::CLOCK_MONOTONIC, &self.at))
    }

    /// Reads CLOCK_MONOTONIC, in ns, as [`monotonic_now`] does. Real-time safe.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        nanoseconds(&self.clock.monotonic())
    }

    #[cold]
    fn change_second(&mut self, at_ns: u64) {
        self.at = timespec(at_ns);
        self.second_ns = at_ns - at_ns % NS_PER_S;
    }
}

/// Sleeps for a length of time on CLOCK_MONOTONIC. Real-time safe; one system call.
///
/// # Errors
/// EINTR when a signal handler ran.
#[inline]
pub fn sleep_for(length_ns: u64) -> io::Result<()> {
    let length = timespec(length_ns);
    // SAFETY: `length` outlives the call; no remainder is requested.
    check_returned(unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &length, std::ptr::null_mut())
    })
}

/// A timer on CLOCK_MONOTONIC that is read as a file.
#[derive(Debug)]
pub struct TimerFd(OwnedFd);

impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl TimerFd {
    /// Creates a disarmed timer. Not real-time safe (allocates in the kernel).
    ///
    /// # Errors
    /// EMFILE or ENFILE when no descriptors are left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) })?;
        // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Arms the timer at an absolute instant, and then every `period_ns` (0: once).
    /// Real-time safe; one system call.
    ///
    /// # Errors
    /// EINVAL for a malformed time; does not occur for values below 2^63.
    #[inline]
    pub fn arm(&self, at_ns: u64, period_ns: u64) -> io::Result<()> {
        let setting = libc::itimerspec {
            it_interval: timespec(period_ns),
            it_value: timespec(at_ns),
        };
        // SAFETY: `setting` outlives the call; the old setting is not requested.
        check(unsafe {
            libc::timerfd_settime(
                self.0.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &setting,
                std::ptr::null_mut(),
            )
        })
        .map(drop)
    }

    /// Waits for the timer and returns how often it has expired since the last
    /// reading. Real-time safe; one system call.
    ///
    /// # Errors
    /// EINTR when a signal handler ran.
    #[inline]
    pub fn wait(&self) -> io::Result<u64> {
        let mut expirations = 0u64;
        // SAFETY: the buffer is eight writable bytes, the size that read(2) on a timerfd needs.
        let got = unsafe {
            libc::read(
                self.0.as_raw_fd(),
                (&raw mut expirations).cast(),
                size_of::<u64>(),
            )
        };
        if got == size_of::<u64>() as isize {
            Ok(expirations)
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// A POSIX timer on CLOCK_MONOTONIC that sends a signal to the thread that created it.
#[derive(Debug)]
pub struct SignalTimer {
    timer: libc::timer_t,
    signal: libc::c_int,
}

// The handle may move to the thread that waits; the target thread is fixed at creation.
// SAFETY: timer_t is an opaque process-wide handle, valid in any thread.
unsafe impl Send for SignalTimer {}

impl SignalTimer {
    /// Creates a disarmed timer whose `signal` goes to the calling thread, and
    /// blocks that signal there, so that it can be waited for. Not real-time safe.
    ///
    /// # Errors
    /// EAGAIN when the limit of pending signals is reached.
    pub fn for_this_thread(signal: libc::c_int) -> io::Result<Self> {
        block_signals(&[signal])?;
        // SAFETY: an all-zero sigevent is a valid value of this plain C struct.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        event.sigev_notify_thread_id = super::task::current_tid();
        let mut timer: libc::timer_t = std::ptr::null_mut();
        // SAFETY: both pointers are to live locals of the right types.
        check(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) })?;
        Ok(Self { timer, signal })
    }

    /// Arms the timer at an absolute instant, and then every `period_ns` (0: once).
    /// Real-time safe; one system call.
    ///
    /// # Errors
    /// EINVAL for a malformed time; does not occur for values below 2^63.
    #[inline]
    pub fn arm(&self, at_ns: u64, period_ns: u64) -> io::Result<()> {
        let setting = libc::itimerspec {
            it_interval: timespec(period_ns),
            it_value: timespec(at_ns),
        };
        // SAFETY: the timer exists until the drop; `setting` outlives the call.
        check(unsafe {
            libc::timer_settime(
                self.timer,
                libc::TIMER_ABSTIME,
                &setting,
                std::ptr::null_mut(),
            )
        })
        .map(drop)
    }

    /// Waits for the signal and returns how many expirations it stands for.
    /// Real-time safe; one system call.
    ///
    /// # Errors
    /// EINTR when a handler of another signal ran.
    #[inline]
    pub fn wait(&self) -> io::Result<u64> {
        // SAFETY: an all-zero sigset_t is a valid value of this plain C struct.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: `set` is live and writable, and the signal number is valid: the timer was
        // created with it.
        unsafe { libc::sigaddset(&mut set, self.signal) };
        // SAFETY: an all-zero siginfo_t is a valid value of this plain C struct.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are to live locals.
        check(unsafe { libc::sigwaitinfo(&set, &mut info) })?;
        // The overrun count is in the place of si_uid of other signals
        // (siginfo's _timer: tid, overrun), so no further call is needed.
        // SAFETY: plain integers at a fixed place of a struct that the kernel has filled.
        let overrun = unsafe { info.si_uid() };
        Ok(u64::from(overrun) + 1)
    }
}

impl Drop for SignalTimer {
    fn drop(&mut self) {
        // SAFETY: `new` created the timer, and it is deleted once.
        unsafe { libc::timer_delete(self.timer) };
    }
}

/// Blocks signals in the calling thread. Real-time safe; one system call.
///
/// # Errors
/// EINVAL for an invalid signal number.
pub fn block_signals(signals: &[libc::c_int]) -> io::Result<()> {
    // SAFETY: an all-zero sigset_t is a valid value of this plain C struct.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    for &signal in signals {
        // SAFETY: `set` is live and writable; an invalid number gives EINVAL.
        check(unsafe { libc::sigaddset(&mut set, signal) })?;
    }
    // SAFETY: `set` outlives the call; the old mask is not requested.
    check_returned(unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) })
}

/// Signals that an instruction of the thread causes, or abort(). If they are blocked, the kernel
/// ends the program instead of calling the handler, and a watchpoint's SIGTRAP comes late or
/// never.
pub const SYNCHRONOUS: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

/// Blocks every signal except the [`SYNCHRONOUS`] ones in the calling thread, and returns the
/// previous mask. Real-time safe; one system call.
///
/// # Errors
/// None in practice.
pub fn block_asynchronous_signals() -> io::Result<libc::sigset_t> {
    // SAFETY: an all-zero sigset_t is a valid value of this plain C struct.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: `set` is live and writable.
    unsafe { libc::sigfillset(&mut set) };
    for signal in SYNCHRONOUS {
        // SAFETY: `set` is live and writable, and the signals exist.
        unsafe { libc::sigdelset(&mut set, signal) };
    }
    // SAFETY: an all-zero sigset_t is a valid value of this plain C struct.
    let mut before: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: both sets outlive the call.
    check_returned(unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, &mut before) })?;
    Ok(before)
}

/// Restores a previous signal mask of the calling thread. Real-time safe; one system call.
pub fn set_signal_mask(mask: &libc::sigset_t) {
    // SAFETY: the mask is live; a mask that the kernel returned gives no error.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}
