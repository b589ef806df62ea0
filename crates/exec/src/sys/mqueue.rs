//! A POSIX message queue that only this process can open.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use super::check;

/// Messages that may wait: what the kernel allows without privilege (`fs.mqueue.msg_max`).
pub const DEPTH: u32 = 10;

/// A message queue; its messages are empty but for one byte.
#[derive(Debug)]
pub struct MessageQueue(OwnedFd);

static MADE: AtomicU32 = AtomicU32::new(0);

impl MessageQueue {
    /// Creates a queue of [`DEPTH`] messages; it has no name when this returns.
    ///
    /// # Errors
    /// EMFILE at the limit of memory for queues (`ulimit -q`), ENOSYS where the kernel has none.
    pub fn new() -> io::Result<Self> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("/punctual-{}-{number}", std::process::id());
        let name = CString::new(name).map_err(io::Error::other)?;
        // SAFETY: an all-zero mq_attr is a valid value of this plain C struct.
        let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
        attributes.mq_maxmsg = libc::c_long::from(DEPTH as i32);
        attributes.mq_msgsize = 1;
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the name is a C string and the attributes are a live local.
        let queue = check(unsafe {
            libc::mq_open(name.as_ptr(), flags, 0o600 as libc::mode_t, &attributes)
        })?;
        // SAFETY: just opened, and nothing else owns it. On Linux a queue is a file descriptor.
        let queue = unsafe { OwnedFd::from_raw_fd(queue) };
        // SAFETY: the name is a C string.
        check(unsafe { libc::mq_unlink(name.as_ptr()) })?;
        Ok(Self(queue))
    }

    /// Sends a message; waits if the queue is full. Real-time safe; one system call.
    ///
    /// # Errors
    /// EINTR when a signal handler ran.
    #[inline]
    pub fn send(&self) -> io::Result<()> {
        // SAFETY: the kernel reads the one byte of a constant.
        check(unsafe { libc::mq_send(self.0.as_raw_fd(), c"".as_ptr(), 1, 0) }).map(drop)
    }

    /// Waits for a message, and takes it. Real-time safe; one system call.
    ///
    /// # Errors
    /// EINTR when a signal handler ran.
    #[inline]
    pub fn receive(&self) -> io::Result<()> {
        let mut byte: libc::c_char = 0;
        // SAFETY: the buffer has the size of a message of this queue.
        let got =
            unsafe { libc::mq_receive(self.0.as_raw_fd(), &raw mut byte, 1, std::ptr::null_mut()) };
        match got {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}
