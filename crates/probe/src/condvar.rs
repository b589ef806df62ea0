//! A timed wait on a condition variable with a priority-inheriting mutex: what
//! the monitors of real-time Java virtual machines use.

use std::io;

use punctual_rt::sync::{Condvar, PiGuard, PiMutex};

use super::source::WaitSource;

/// The mutex and the condition variable; no other thread uses them.
pub struct CondvarWait {
    mutex: PiMutex<()>,
    condvar: Condvar,
}

impl CondvarWait {
    /// Creates both.
    ///
    /// # Errors
    /// ENOTSUP if the kernel has no priority inheritance.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            mutex: PiMutex::new(())?,
            condvar: Condvar::new(),
        })
    }

    /// Locks the mutex: the wait releases it and takes it again, as in a monitor.
    ///
    /// # Errors
    /// None in practice.
    pub fn lock(&self) -> io::Result<LockedCondvar<'_>> {
        Ok(LockedCondvar {
            guard: self.mutex.lock()?,
            condvar: &self.condvar,
        })
    }
}

/// A condition variable whose mutex the probe thread holds.
pub struct LockedCondvar<'a> {
    guard: PiGuard<'a, ()>,
    condvar: &'a Condvar,
}

impl WaitSource for LockedCondvar<'_> {
    #[inline]
    fn wait_until(&mut self, due_ns: u64) -> io::Result<()> {
        while self.condvar.wait_until(&mut self.guard, due_ns)? {}
        Ok(())
    }
}
