//! The CPUs that a thread may use.

use std::io;

use crate::cpulist;
use crate::sys::task::{self, CPU_MASK_WORDS, CpuMask};

/// The number of CPUs that a mask has room for.
pub const MAX_CPUS: usize = CPU_MASK_WORDS * 64;

fn mask_of(cpus: &[usize]) -> io::Result<CpuMask> {
    let mut mask = [0; CPU_MASK_WORDS];
    for &cpu in cpus {
        let word = mask.get_mut(cpu / 64).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("CPU {cpu} is above the last possible one, {}", MAX_CPUS - 1),
            )
        })?;
        *word |= 1 << (cpu % 64);
    }
    Ok(mask)
}

/// Sets the CPUs of the calling thread. One system call; meant for setting up.
///
/// # Errors
/// EINVAL when the thread may use none of them (offline, outside the cpuset).
pub fn set_current(cpus: &[usize]) -> io::Result<()> {
    set(0, cpus)
}

/// Sets the CPUs of a thread (0: the caller). One system call; meant for setting up.
///
/// # Errors
/// EINVAL when the thread may use none of them, ESRCH for a dead thread, EPERM for another user's
/// thread, EBUSY for a SCHED_DEADLINE thread that would have too little bandwidth left.
pub fn set(tid: i32, cpus: &[usize]) -> io::Result<()> {
    task::set_affinity(tid, &mask_of(cpus)?)
}

/// Returns the CPUs of a thread (0: the caller), in ascending order.
/// Not for a real-time thread: it allocates.
///
/// # Errors
/// ESRCH for a dead thread, ENOMEM.
pub fn get(tid: i32) -> io::Result<Vec<usize>> {
    let mask = task::affinity(tid)?;
    cpulist::from_mask(&mask).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))
}

/// How many CPUs a thread (0: the caller) may use. Real-time safe; one system call.
///
/// # Errors
/// ESRCH for a dead thread.
pub fn count(tid: i32) -> io::Result<usize> {
    let mask = task::affinity(tid)?;
    Ok(mask.iter().map(|word| word.count_ones() as usize).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_affinity_that_was_set_is_read_back() {
        std::thread::spawn(|| {
            let allowed = get(0).unwrap();
            let last = *allowed.last().unwrap();
            set_current(&[last]).unwrap();
            assert_eq!(get(0).unwrap(), [last]);
            assert_eq!(task::current_cpu(), last);
            set_current(&allowed).unwrap();
            assert_eq!(get(0).unwrap(), allowed);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn cpus_that_do_not_exist_are_refused() {
        assert!(set_current(&[]).is_err());
        assert!(set_current(&[MAX_CPUS - 1]).is_err());
        assert!(set_current(&[usize::MAX]).is_err());
    }
}
