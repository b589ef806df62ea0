//! Restartable sequences, which a probe thread does not use.
//!
//! Since 2.35 the GNU C library registers every thread for them, and the kernel then does
//! work for the thread each time it returns after it was scheduled: some 170
//! instructions between the wake-up and the program's first one, for a service that a probe
//! never uses.

/// Unregisters the calling thread. If it is not registered, or its area can't be
/// found, nothing changes: the C library then asks the kernel for the current CPU, as before 2.35.
pub fn leave() {
    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    gnu::leave();
}

#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
#[expect(unsafe_code, reason = "a thread gives up the C library's registration")]
mod gnu {
    use std::arch::{asm, global_asm};

    // Older C libraries don't have it: then its address is 0.
    global_asm!(".weak __rseq_offset");

    /// The C library's own size of the kernel's `struct rseq`, and its signature on x86.
    const SIZE: libc::c_long = 32;
    const SIGNATURE: libc::c_long = 0x5305_3053;
    const UNREGISTER: libc::c_long = 1;

    /// Where the C library keeps it for the calling thread.
    fn area() -> Option<usize> {
        let offset: *const isize;
        // SAFETY: reads one entry of the GOT, which the linker filled.
        unsafe {
            asm!(
                "mov {}, qword ptr [rip + __rseq_offset@GOTPCREL]",
                out(reg) offset,
                options(nostack, preserves_flags, readonly, pure),
            );
        }
        if offset.is_null() {
            return None;
        }
        let thread: usize;
        // SAFETY: by the ABI, the first word at fs is the thread pointer's own address.
        unsafe {
            asm!(
                "mov {}, qword ptr fs:[0]",
                out(reg) thread,
                options(nostack, preserves_flags, readonly, pure),
            );
        }
        // SAFETY: the C library's constant lives as long as the process.
        Some(thread.wrapping_add_signed(unsafe { *offset }))
    }

    fn ask(area: usize, flags: libc::c_long) -> libc::c_long {
        // SAFETY: the area belongs to the C library's thread, has this size and lives as long as
        // the thread. On unregistering, the kernel compares it with the registered one, and
        // writes to that one only.
        unsafe { libc::syscall(libc::SYS_rseq, area, SIZE, flags, SIGNATURE) }
    }

    pub fn leave() {
        if let Some(area) = area() {
            // If it was registered differently, everything stays as it was.
            let _ = ask(area, UNREGISTER);
        }
    }

    #[cfg(test)]
    mod tests {
        use std::{io, thread};

        use super::*;

        #[test]
        fn a_thread_is_registered_until_it_leaves() {
            const REGISTER: libc::c_long = 0;
            let asked = thread::spawn(|| {
                let area = area()?;
                let registered = |answer: libc::c_long| {
                    answer == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EBUSY)
                };
                let before = registered(ask(area, REGISTER));
                leave();
                // Now it can be registered again, and then is as it was.
                Some((before, registered(ask(area, REGISTER))))
            });
            let asked = asked.join().expect("no crash");
            // This C library or kernel may not support it.
            if let Some((before, again)) = asked {
                assert!(!(before && again), "it had not left");
            }
        }
    }
}
