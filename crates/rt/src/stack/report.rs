//! Lines of text without malloc, for reports from wherever an error is found.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::sys::cancel;
use crate::sys::map::{errno, set_errno};

/// The thread that reports just now; 0: none.
static REPORTS: AtomicI32 = AtomicI32::new(0);
/// Nobody read what was written for a while: what is left of this report isn't waited for.
static STUCK: AtomicBool = AtomicBool::new(false);
/// How long another thread's report is waited for, and a reader of this one, in milliseconds.
const PATIENCE: c_int = 1000;

/// A report of one thread: until it is dropped, the lines of others wait, and a reader that has
/// gone away ends nothing. Async-signal-safe.
pub(super) struct Turn {
    /// The calling thread, where others wait for this turn.
    taken: Option<libc::pid_t>,
    /// The signals that were blocked before, and whether SIGPIPE was pending.
    before: Option<(libc::sigset_t, bool)>,
    _held: cancel::Hold,
}

impl Turn {
    /// Waits a second at most while another thread reports, so that lines don't mix.
    pub(super) fn take() -> Self {
        let held = cancel::hold();
        let kept = errno();
        // SAFETY: gettid has no precondition.
        let thread = unsafe { libc::gettid() };
        let taken = wait_for_turn(thread).then_some(thread);
        if taken.is_some() {
            STUCK.store(false, Ordering::Relaxed);
        }
        let before = block_sigpipe();
        set_errno(kept);
        Self {
            taken,
            before,
            _held: held,
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let kept = errno();
        if let Some((before, was_pending)) = &self.before {
            let pipe = only_sigpipe();
            let now = libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            if !was_pending {
                // SAFETY: a filled set; nobody asks for the information.
                unsafe { libc::sigtimedwait(&pipe, null_mut(), &now) };
            }
            // SAFETY: the set that pthread_sigmask filled.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, null_mut()) };
        }
        if self.taken.is_some() {
            REPORTS.store(0, Ordering::Release);
        }
        set_errno(kept);
    }
}

/// In the child of a fork: whoever reported isn't here.
pub(super) fn after_fork() {
    REPORTS.store(0, Ordering::Relaxed);
}

/// Whether others wait for the calling thread now; not where it reports already, and was
/// interrupted.
fn wait_for_turn(thread: libc::pid_t) -> bool {
    let pause = libc::timespec {
        tv_sec: 0,
        tv_nsec: 1_000_000,
    };
    for _ in 0..PATIENCE {
        match REPORTS.compare_exchange(0, thread, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(other) if other == thread => return false,
            // SAFETY: the struct is live.
            Err(_) => unsafe { libc::nanosleep(&pause, null_mut()) },
        };
    }
    false
}

fn only_sigpipe() -> libc::sigset_t {
    let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: sigemptyset fills the set.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: filled by the call above.
    unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGPIPE) };
    // SAFETY: as above.
    unsafe { set.assume_init() }
}

/// Blocks SIGPIPE for the calling thread: a report whose reader has gone must not end a program,
/// or end it by another signal than it would have.
fn block_sigpipe() -> Option<(libc::sigset_t, bool)> {
    let (mut before, mut pending) = (MaybeUninit::zeroed(), MaybeUninit::zeroed());
    // SAFETY: sigpending fills the set.
    if unsafe { libc::sigpending(pending.as_mut_ptr()) } != 0 {
        return None;
    }
    let pipe = only_sigpipe();
    // SAFETY: a filled set, and room for another.
    if unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &pipe, before.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: filled by sigpending.
    let was_pending = unsafe { libc::sigismember(pending.as_ptr(), libc::SIGPIPE) } == 1;
    // SAFETY: filled by pthread_sigmask.
    Some((unsafe { before.assume_init() }, was_pending))
}

/// Whether a descriptor that doesn't block takes more, after a wait.
fn takes_more(fd: c_int) -> bool {
    if STUCK.load(Ordering::Relaxed) {
        return false;
    }
    let mut polled = libc::pollfd {
        fd,
        events: libc::POLLOUT,
        revents: 0,
    };
    // SAFETY: one live struct.
    let ready = unsafe { libc::poll(&mut polled, 1, PATIENCE) };
    let interrupted = ready < 0 && errno() == libc::EINTR;
    STUCK.store(ready <= 0 && !interrupted, Ordering::Relaxed);
    ready > 0 || interrupted
}

/// A line being put together; one that is too long is written in several pieces.
pub(super) struct Line {
    fd: c_int,
    text: [u8; 256],
    len: usize,
}

impl Line {
    pub(super) fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// As they are, but for what would end the line or move a terminal's cursor.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.byte(if byte.is_ascii_control() { b'?' } else { byte });
        }
    }

    fn byte(&mut self, byte: u8) {
        if self.len == self.text.len() {
            self.write();
        }
        self.text[self.len] = byte;
        self.len += 1;
    }

    pub(super) fn number(&mut self, mut number: usize) {
        let mut digits = [0_u8; 20];
        let mut start = digits.len();
        loop {
            start -= 1;
            digits[start] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.text(std::str::from_utf8(&digits[start..]).unwrap_or("?"));
    }

    pub(super) fn address(&mut self, address: usize) {
        self.text("0x");
        let digits = (usize::BITS - address.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let value = (address >> (digit * 4)) & 0xf;
            self.text(&"0123456789abcdef"[value..=value]);
        }
    }

    fn write(&mut self) {
        let mut rest = &self.text[..self.len];
        while !rest.is_empty() {
            // SAFETY: `rest` is that many initialised bytes.
            let written = unsafe { libc::write(self.fd, rest.as_ptr().cast(), rest.len()) };
            match usize::try_from(written) {
                Ok(written) if written > 0 => rest = &rest[written..],
                _ if errno() == libc::EINTR => {}
                _ if errno() == libc::EAGAIN && takes_more(self.fd) => {}
                _ => break,
            }
        }
        self.len = 0;
    }
}

/// Writes one line to a descriptor; async-signal-safe.
pub(super) fn line(fd: c_int, fill: impl FnOnce(&mut Line)) {
    let mut line = Line {
        fd,
        text: [0; 256],
        len: 0,
    };
    fill(&mut line);
    line.byte(b'\n');
    line.write();
}

#[cfg(test)]
#[cfg(not(miri))]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek};
    use std::os::fd::{AsRawFd, FromRawFd};

    fn text(fill: impl FnOnce(&mut Line)) -> String {
        let mut file = tempfile();
        line(file.as_raw_fd(), fill);
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text.pop(), Some('\n'));
        text
    }

    fn tempfile() -> File {
        // SAFETY: the name is a C string.
        let made = unsafe { libc::memfd_create(c"lines".as_ptr(), 0) };
        assert!(made >= 0);
        // SAFETY: the descriptor is new and nobody else's.
        unsafe { File::from_raw_fd(made) }
    }

    #[test]
    fn numbers_and_addresses() {
        assert_eq!(text(|line| line.number(0)), "0");
        assert_eq!(text(|line| line.number(usize::MAX)), usize::MAX.to_string());
        assert_eq!(text(|line| line.address(0)), "0x0");
        assert_eq!(
            text(|line| line.address(0x7f00_1234_5000)),
            "0x7f0012345000"
        );
    }

    #[test]
    fn a_long_line_is_written_whole_and_moves_no_cursor() {
        let long = "x".repeat(999);
        assert_eq!(text(|line| line.text(&long)), long);
        assert_eq!(
            text(|line| line.bytes(b"a\x1b[2Jb\n\xc3\xa4")),
            "a?[2Jb?\u{e4}"
        );
    }
}
