//! Prefetches for the processor's caches.

/// Prefetches the cache line of an address for writing: a store that misses the caches waits
/// until other processors release the line, and so do all later stores. Only a hint: it never
/// faults, for any address, and changes no memory. Real-time safe: one instruction, which waits
/// for nothing.
#[inline(always)]
pub fn prepare_write<T>(address: *const T) {
    arch::prepare_write(address.cast());
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod arch {
    /// Processors without PREFETCHW execute it as a NOP. Inline assembly, because the intrinsic
    /// compiles to PREFETCHT0, which requests a shared line, for the architecture's baseline.
    #[inline(always)]
    pub(super) fn prepare_write(address: *const u8) {
        // SAFETY: the instruction raises no exception, and writes to no register or memory.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]",
                in(reg) address,
                options(nostack, preserves_flags, readonly),
            );
        }
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
mod arch {
    #[inline(always)]
    pub(super) fn prepare_write(address: *const u8) {
        // SAFETY: the instruction raises no exception, and writes to no register or memory.
        unsafe {
            std::arch::asm!(
                "prfm pstl1keep, [{}]",
                in(reg) address,
                options(nostack, preserves_flags, readonly),
            );
        }
    }
}

#[cfg(not(any(
    all(target_arch = "x86_64", not(miri)),
    all(target_arch = "aarch64", not(miri))
)))]
mod arch {
    pub(super) fn prepare_write(_: *const u8) {}
}
