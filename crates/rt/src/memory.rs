//! Memory that takes no page fault in a real-time section.

use std::io;

use crate::sys::task;

/// Locks all memory of the process, present and future. Not real-time safe: it faults in all
/// mappings. Later mappings are populated on creation, so a default 8 MB thread stack costs 8 MB
/// and milliseconds: set stack sizes first.
///
/// # Errors
/// EPERM without CAP_IPC_LOCK under a limit of 0, ENOMEM above RLIMIT_MEMLOCK.
pub fn lock_all() -> io::Result<()> {
    task::lock_all_memory(libc::MCL_CURRENT | libc::MCL_FUTURE)
}

/// Locks the memory that the process has now, but not later mappings: with a limit of locked
/// memory the next large allocation would fail otherwise. Not real-time safe.
///
/// # Errors
/// As [`lock_all`].
pub fn lock_present() -> io::Result<()> {
    task::lock_all_memory(libc::MCL_CURRENT)
}

/// Undoes [`lock_all`]. Not real-time safe.
///
/// # Errors
/// None in practice.
pub fn unlock_all() -> io::Result<()> {
    task::unlock_all_memory()
}

/// Page faults and involuntary context switches of a thread since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disturbances {
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
    /// Involuntary context switches.
    pub preemptions: u64,
}

impl Disturbances {
    /// The disturbances of the calling thread so far. Real-time safe; one system call.
    ///
    /// # Errors
    /// None in practice.
    pub fn of_this_thread() -> io::Result<Self> {
        let usage = task::thread_usage()?;
        let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
        Ok(Self {
            minor_faults: count(usage.ru_minflt),
            major_faults: count(usage.ru_majflt),
            preemptions: count(usage.ru_nivcsw),
        })
    }

    /// The difference from an earlier reading. Real-time safe.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            minor_faults: self.minor_faults.saturating_sub(earlier.minor_faults),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
            preemptions: self.preemptions.saturating_sub(earlier.preemptions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_counted() {
        let before = Disturbances::of_this_thread().unwrap();
        let fresh = vec![0u8; 4 << 20];
        // A large zeroed vector is a fresh mapping; reading each page faults it in.
        let sum: u64 = fresh
            .iter()
            .step_by(4096)
            .map(|&byte| u64::from(byte))
            .sum();
        assert_eq!(std::hint::black_box(sum), 0);
        let after = Disturbances::of_this_thread().unwrap();
        assert!(after.since(&before).minor_faults > 0);
    }
}
