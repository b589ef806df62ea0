//! Tells ThreadSanitizer, where a program runs under it, what happens before what.
//!
//! It sees what its own compiler compiled and what the C library is asked for, such as memcpy
//! into a slot of a ring. That the slot passes from one thread to the other by an atomic of ours
//! it can't see, and would report a race, and another one for everything behind the record.

use std::ffi::c_void;

/// What happened before is visible to the thread that calls [`acquire`] for this address later. Real-time
/// safe; without ThreadSanitizer one load.
#[inline]
pub fn release(address: usize) {
    if let Some(release) = runtime::release() {
        tell(release, address);
    }
}

/// What happened before a [`release`] of this address has happened before what comes. Real-time
/// safe; without ThreadSanitizer one load.
#[inline]
pub fn acquire(address: usize) {
    if let Some(acquire) = runtime::acquire() {
        tell(acquire, address);
    }
}

/// Whether the program runs under the sanitizer. Real-time safe; one load.
#[inline]
#[must_use]
pub fn watches() -> bool {
    runtime::release().is_some()
}

/// Cold: without the sanitizer a caller should keep its values in registers.
#[cold]
fn tell(annotation: unsafe extern "C" fn(*mut c_void), address: usize) {
    // SAFETY: the sanitizer takes any address as a name.
    unsafe { annotation(address as *mut c_void) };
}

type Annotation = Option<unsafe extern "C" fn(*mut c_void)>;

#[cfg(all(target_pointer_width = "64", not(miri)))]
mod runtime {
    use super::Annotation;

    // Weak: null in a program without the sanitizer, which Rust can't say of a function.
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
