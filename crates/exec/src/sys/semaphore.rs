//! A POSIX semaphore of this process.

use std::cell::UnsafeCell;
use std::io;

use super::check;

/// A semaphore.
pub struct Semaphore(Box<UnsafeCell<libc::sem_t>>);

// SAFETY: a semaphore is made to be used by several threads, and the box keeps its place.
unsafe impl Sync for Semaphore {}
// SAFETY: what moves is the pointer; the object that it leads to keeps its place.
unsafe impl Send for Semaphore {}

impl Semaphore {
    /// Creates a semaphore that is 0.
    ///
    /// # Errors
    /// ENOSYS where there is none.
    pub fn new() -> io::Result<Self> {
        // SAFETY: all-zero bytes are a valid value of this C struct, until it is initialised.
        let raw = Box::new(UnsafeCell::new(unsafe { std::mem::zeroed() }));
        // SAFETY: the semaphore lies in its final place and is initialised once.
        check(unsafe { libc::sem_init(raw.get(), 0, 0) })?;
        Ok(Self(raw))
    }

    /// Adds one. Real-time safe; a system call if a thread waits.
    ///
    /// # Errors
    /// EOVERFLOW at its highest value.
    #[inline]
    pub fn post(&self) -> io::Result<()> {
        // SAFETY: initialised by `new`, and lives as long as `self`.
        check(unsafe { libc::sem_post(self.0.get()) }).map(drop)
    }

    /// Waits until it is above 0, and takes one. Real-time safe; a system call if it must wait.
    ///
    /// # Errors
    /// EINTR when a signal handler ran.
    #[inline]
    pub fn wait(&self) -> io::Result<()> {
        // SAFETY: initialised by `new`, and lives as long as `self`.
        check(unsafe { libc::sem_wait(self.0.get()) }).map(drop)
    }
}
