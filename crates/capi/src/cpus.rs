//! Conversion of C arrays of CPUs.

use std::ffi::c_uint;

use punctual_rt::affinity::MAX_CPUS;
use punctual_rt::cpulist::from_mask;

/// Why an array is not a valid set of CPUs.
pub(crate) enum NotCpus {
    /// This CPU is above the last possible one.
    TooLarge(usize),
    NoMemory,
}

/// The CPUs of an array of any length, ascending and without duplicates; NULL has none.
///
/// # Safety
/// `cpus` is NULL or has `count` elements.
pub(crate) unsafe fn numbers(cpus: *const c_uint, count: usize) -> Result<Vec<usize>, NotCpus> {
    let mut mask = [0_u64; MAX_CPUS / 64];
    if !cpus.is_null() {
        // SAFETY: not NULL, so by contract it has `count` elements.
        for &cpu in unsafe { std::slice::from_raw_parts(cpus, count) } {
            let cpu = cpu as usize;
            let word = mask.get_mut(cpu / 64).ok_or(NotCpus::TooLarge(cpu))?;
            *word |= 1 << (cpu % 64);
        }
    }
    from_mask(&mask).map_err(|_| NotCpus::NoMemory)
}
