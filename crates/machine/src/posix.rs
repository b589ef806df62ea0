//! POSIX's options for real time: what the C library claims, beside what was tried. The claims
//! are constants of the library, not of the kernel or of one's rights.
#![expect(
    unsafe_code,
    reason = "sysconf, and a try of locked memory, a timer and a message queue"
)]

use std::ffi::{c_int, c_void};
use std::io;

use punctual_record::finding::{ReadResult, Seen, Source};
use punctual_rt::sys::task::{SchedAttr, set_scheduling};

use crate::outcome::line_of;

/// A question to the C library or the kernel.
pub(crate) struct Question {
    /// Under which a snapshot keeps the answer.
    pub(crate) name: &'static str,
    pub(crate) ask: fn() -> io::Result<String>,
}

/// Before the name of a system call that is tried.
const TRIED: &str = "tried: ";

/// Answers that snapshots keep; the others are versions of POSIX and errors.
const WORKS: &str = "works";
const FAILED: &str = "failed";
const NOT_CLAIMED: &str = "not claimed";

impl Question {
    /// Where the answer is from.
    pub(crate) fn source(&self) -> Source {
        match self.name.strip_prefix(TRIED) {
            Some(call) => Source::Tried(call.to_owned()),
            None => self.name.into(),
        }
    }
}

/// An answer as evidence.
pub(crate) fn evidence(answer: &str) -> ReadResult {
    match answer {
        WORKS => ReadResult::Seen(Seen::Works),
        FAILED => ReadResult::Seen(Seen::Failed),
        NOT_CLAIMED => ReadResult::Seen(Seen::NotClaimed),
        other => ReadResult::Value(line_of(other)),
    }
}

macro_rules! claims {
    ($($name:literal $constant:ident,)*) => {
        &[
            Question { name: "tried: SCHED_FIFO", ask: || tried(fifo) },
            Question { name: "tried: mlock", ask: || tried(lock) },
            Question { name: "tried: timer_create", ask: || tried(timer) },
            Question { name: "tried: mq_open", ask: || tried(queue) },
            $(Question { name: concat!("sysconf(_SC_", $name, ")"), ask: || claim(libc::$constant) },)*
        ]
    };
}

pub(crate) const QUESTIONS: &[Question] = claims! {
    "PRIORITY_SCHEDULING" _SC_PRIORITY_SCHEDULING,
    "REALTIME_SIGNALS" _SC_REALTIME_SIGNALS,
    "TIMERS" _SC_TIMERS,
    "MONOTONIC_CLOCK" _SC_MONOTONIC_CLOCK,
    "MEMLOCK" _SC_MEMLOCK,
    "MEMLOCK_RANGE" _SC_MEMLOCK_RANGE,
    "MESSAGE_PASSING" _SC_MESSAGE_PASSING,
    "SEMAPHORES" _SC_SEMAPHORES,
    "SHARED_MEMORY_OBJECTS" _SC_SHARED_MEMORY_OBJECTS,
    "ASYNCHRONOUS_IO" _SC_ASYNCHRONOUS_IO,
    "PRIORITIZED_IO" _SC_PRIORITIZED_IO,
    "THREAD_PRIORITY_SCHEDULING" _SC_THREAD_PRIORITY_SCHEDULING,
    "THREAD_PRIO_INHERIT" _SC_THREAD_PRIO_INHERIT,
    "THREAD_PRIO_PROTECT" _SC_THREAD_PRIO_PROTECT,
    "THREAD_ROBUST_PRIO_INHERIT" _SC_THREAD_ROBUST_PRIO_INHERIT,
    "SPORADIC_SERVER" _SC_SPORADIC_SERVER,
    "TYPED_MEMORY_OBJECTS" _SC_TYPED_MEMORY_OBJECTS,
};

/// The version of POSIX whose option the library claims to have.
fn claim(name: c_int) -> io::Result<String> {
    // SAFETY: takes a number and returns one.
    let version = unsafe { libc::sysconf(name) };
    Ok(if version > 0 {
        version.to_string()
    } else {
        NOT_CLAIMED.to_owned()
    })
}

/// In a thread of its own: nothing of the caller's changes.
fn tried(it: fn() -> io::Result<()>) -> io::Result<String> {
    let done = std::thread::spawn(it).join();
    Ok(match done {
        Ok(Ok(())) => WORKS.to_owned(),
        Ok(Err(error)) => crate::root::plain(&error),
        Err(_) => FAILED.to_owned(),
    })
}

fn fifo() -> io::Result<()> {
    let attr = SchedAttr {
        policy: libc::SCHED_FIFO as u32,
        priority: 1,
        ..SchedAttr::default()
    };
    set_scheduling(0, &attr)
}

fn check(result: c_int) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn lock() -> io::Result<()> {
    let byte = Box::new(0u8);
    let at: *const c_void = std::ptr::from_ref(byte.as_ref()).cast();
    // SAFETY: the page of a live byte; the lock on it is given back below.
    check(unsafe { libc::mlock(at, 1) })?;
    // SAFETY: the same page, still live.
    check(unsafe { libc::munlock(at, 1) })
}

fn timer() -> io::Result<()> {
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: all zeros is a valid sigevent.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_NONE;
    // SAFETY: both are live during the call; a timer that notifies nobody is made.
    check(unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) })?;
    // SAFETY: the timer made above, deleted once.
    check(unsafe { libc::timer_delete(timer) })
}

fn queue() -> io::Result<()> {
    let name = std::ffi::CString::new(format!("/punctual-check-{}", std::process::id()))?;
    // SAFETY: a live C string; without attributes the kernel takes its defaults.
    let queue = unsafe {
        libc::mq_open(
            name.as_ptr(),
            libc::O_CREAT | libc::O_EXCL | libc::O_RDWR,
            0o600 as libc::c_uint,
            std::ptr::null_mut::<libc::mq_attr>(),
        )
    };
    if queue < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the queue opened above, closed once.
    check(unsafe { libc::mq_close(queue) })?;
    // SAFETY: a live C string.
    check(unsafe { libc::mq_unlink(name.as_ptr()) })
}
