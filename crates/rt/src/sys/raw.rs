//! The system call of a periodic loop, without the C library.
//!
//! In the C library `clock_nanosleep` is a cancellation point: each call needs some 60
//! instructions of preparation, as many as the rest of a loop. There is one implementation per
//! architecture; on others the C library's `syscall` makes the call, which is no cancellation
//! point either.

/// Sleeps until an absolute time on a clock; returns the kernel's result, an errno or 0.
#[inline]
pub(super) fn clock_nanosleep_until(clock: libc::clockid_t, at: &libc::timespec) -> libc::c_int {
    arch::clock_nanosleep_until(clock, at)
}

#[cfg(all(target_arch = "x86_64", target_pointer_width = "64"))]
mod arch {
    use std::arch::asm;

    #[inline(always)]
    pub(super) fn clock_nanosleep_until(
        clock: libc::clockid_t,
        at: &libc::timespec,
    ) -> libc::c_int {
        let result: libc::c_long;
        // SAFETY: clock_nanosleep reads the timespec, which outlives the call, and writes no
        // remainder to a null pointer. The kernel preserves all registers except rax, rcx and
        // r11, and the stack; the flags are declared clobbered.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") libc::SYS_clock_nanosleep => result,
                in("rdi") libc::c_long::from(clock),
                in("rsi") libc::c_long::from(libc::TIMER_ABSTIME),
                in("rdx") at,
                in("r10") 0usize,
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack, readonly),
            );
        }
        -(result as libc::c_int)
    }
}

#[cfg(all(target_arch = "aarch64", target_pointer_width = "64"))]
mod arch {
    use std::arch::asm;

    #[inline(always)]
    pub(super) fn clock_nanosleep_until(
        clock: libc::clockid_t,
        at: &libc::timespec,
    ) -> libc::c_int {
        let result: libc::c_long;
        // SAFETY: clock_nanosleep reads the timespec, which outlives the call, and writes no
        // remainder to a null pointer. The kernel preserves all registers except x0, and the
        // stack; SVE state that it may discard isn't preserved over function calls either.
        unsafe {
            asm!(
                "svc 0",
                in("x8") libc::SYS_clock_nanosleep,
                inlateout("x0") libc::c_long::from(clock) => result,
                in("x1") libc::c_long::from(libc::TIMER_ABSTIME),
                in("x2") at,
                in("x3") 0usize,
                options(nostack, readonly),
            );
        }
        -(result as libc::c_int)
    }
}

#[cfg(not(any(
    all(target_arch = "x86_64", target_pointer_width = "64"),
    all(target_arch = "aarch64", target_pointer_width = "64")
)))]
mod arch {
    #[inline]
    pub(super) fn clock_nanosleep_until(
        clock: libc::clockid_t,
        at: &libc::timespec,
    ) -> libc::c_int {
        // SAFETY: `at` outlives the call; a null remainder is allowed for absolute sleeps.
        let result = unsafe {
            libc::syscall(
                libc::SYS_clock_nanosleep,
                clock,
                libc::TIMER_ABSTIME,
                std::ptr::from_ref(at),
                std::ptr::null_mut::<libc::timespec>(),
            )
        };
        match result {
            0 => 0,
            _ => std::io::Error::last_os_error().raw_os_error().unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_raw_call_and_the_c_library_return_the_same() {
        for (clock, nanoseconds) in [
            (libc::CLOCK_MONOTONIC, 1),
            (libc::CLOCK_MONOTONIC, -1),
            (libc::CLOCK_MONOTONIC, 1_000_000_000),
            (libc::CLOCK_REALTIME, 0),
            (9999, 1),
        ] {
            let at = libc::timespec {
                tv_sec: 0,
                tv_nsec: nanoseconds,
            };
            // SAFETY: `at` outlives the call; a null remainder is allowed.
            let expected = unsafe {
                libc::clock_nanosleep(clock, libc::TIMER_ABSTIME, &at, std::ptr::null_mut())
            };
            assert_eq!(clock_nanosleep_until(clock, &at), expected);
        }
    }
}
