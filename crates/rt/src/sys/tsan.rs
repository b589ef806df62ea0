//! Reports happens-before relations to ThreadSanitizer, if the program runs under it.
//!
//! It sees code of its own compiler and calls of the C library, such as memcpy into a slot of a
//! ring. It can't see that an atomic of ours passes the slot from one thread to the other. It
//! would report a race on the record, and on everything that is reached through it.

use std::ffi::c_void;

/// What happened before is visible to the thread that later calls [`acquire`] for this address.
/// Real-time safe; without ThreadSanitizer one load.
#[inline]
pub fn release(address: usize) {
    if let Some(release) = runtime::release() {
        annotate(release, address);
    }
}

/// What happened before a [`release`] of this address is visible to the caller. Real-time safe;
/// without ThreadSanitizer one load.
#[inline]
pub fn acquire(address: usize) {
    if let Some(acquire) = runtime::acquire() {
        annotate(acquire, address);
    }
}

/// Whether the program runs under the sanitizer. Real-time safe; one load.
#[inline]
#[must_use]
pub fn watches() -> bool {
    runtime::release().is_some()
}

/// Cold, so that callers without the sanitizer keep their values in registers.
#[cold]
fn annotate(annotation: unsafe extern "C" fn(*mut c_void), address: usize) {
    // SAFETY: the sanitizer uses the address only as an identifier.
    unsafe { annotation(address as *mut c_void) };
}

type Annotation = Option<unsafe extern "C" fn(*mut c_void)>;

#[cfg(all(target_pointer_width = "64", not(miri)))]
mod runtime {
    use super::Annotation;

    // Weak symbols: null in a program without the sanitizer. Rust can't declare a weak function.
    std::arch::global_asm!(
        ".weak __tsan_acquire",
        ".weak __tsan_release",
        ".pushsection .data.rel.ro.punctual_tsan,\"aw\"",
        ".balign 8",
        ".globl punctual_tsan_acquire",
        ".hidden punctual_tsan_acquire",
        "punctual_tsan_acquire: .8byte __tsan_acquire",
        ".globl punctual_tsan_release",
        ".hidden punctual_tsan_release",
        "punctual_tsan_release: .8byte __tsan_release",
        ".popsection",
    );

    unsafe extern "C" {
        static punctual_tsan_acquire: Annotation;
        static punctual_tsan_release: Annotation;
    }

    #[inline]
    pub(super) fn acquire() -> Annotation {
        // SAFETY: defined above, and filled by the linker with null or the function.
        unsafe { punctual_tsan_acquire }
    }

    #[inline]
    pub(super) fn release() -> Annotation {
        // SAFETY: defined above, and filled by the linker with null or the function.
        unsafe { punctual_tsan_release }
    }
}

#[cfg(not(all(target_pointer_width = "64", not(miri))))]
mod runtime {
    use super::Annotation;

    pub(super) fn acquire() -> Annotation {
        None
    }

    pub(super) fn release() -> Annotation {
        None
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_happens_without_the_sanitizer() {
        assert!(super::runtime::acquire().is_none());
        assert!(super::runtime::release().is_none());
        assert!(!super::watches());
        super::release(1);
        super::acquire(1);
    }
}
