//! Requests to the processor's caches.

/// Asks for the cache line of an address, to be written to soon: a store that misses the caches
/// waits until other processors gave the line up, and so do all stores after it. A hint: it
/// faults nowhere, for any address, and changes no memory. Real-time safe: one instruction, which
/// waits for nothing.
#[inline(always)]
pub fn prepare_write<T>(address: *const T) {
    arch::prepare_write(address.cast());
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod arch {
    /// Processors without PREFETCHW take it for a NOP. The intrinsic would become PREFETCHT0,
    /// since the architecture's first version lacks it: that one asks for a shared line.
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
