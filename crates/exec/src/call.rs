//! Code of the user's own.

use std::io;
use std::path::Path;

use punctual_rt::memory::Disturbances;

/// A function that a task calls in its jobs.
pub trait Call: Send {
    /// The thread that will call it has its policy and its CPUs by now.
    ///
    /// # Errors
    /// Why it can't be called by this thread.
    fn prepare(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Calls it.
    ///
    /// # Errors
    /// Why the task can't go on.
    fn call(&mut self) -> io::Result<()>;

    /// The thread of another process that executes it, if one does.
    fn thread(&self) -> Option<u32> {
        None
    }

    /// What it has taken so far, where it runs on a thread of its own. It may allocate: not for jobs.
    fn used(&self) -> Used {
        Used::default()
    }
}

/// What a thread has taken so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// Processor time in ns.
    pub cpu_ns: u64,
    /// Page faults and preemptions.
    pub disturbances: Disturbances,
}

impl Used {
    /// This, and that of another thread.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let (own, its) = (self.disturbances, other.disturbances);
        Self {
            cpu_ns: self.cpu_ns.saturating_add(other.cpu_ns),
            disturbances: Disturbances {
                minor_faults: own.minor_faults.saturating_add(its.minor_faults),
                major_faults: own.major_faults.saturating_add(its.major_faults),
                preemptions: own.preemptions.saturating_add(its.preemptions),
            },
        }
    }

    /// What was taken since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            cpu_ns: self.cpu_ns.saturating_sub(earlier.cpu_ns),
            disturbances: self.disturbances.since(&earlier.disturbances),
        }
    }
}

/// Finds functions of shared objects.
pub trait Calls {
    /// The function, to be called by a thread with this policy on these CPUs.
    ///
    /// # Errors
    /// There is no such object or function; it can't be called.
    fn find(&mut self, path: &Path, function: &str) -> io::Result<Box<dyn Call>>;
}
