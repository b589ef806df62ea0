//! Restartable sequences, which a probe thread does without.
//!
//! From 2.35 on the GNU C library registers every thread for them, and the kernel then does
//! work for the thread each time that it comes back from having been scheduled: some 170
//! instructions between wake-up and the first of the program, for a service that a probe
//! never uses.

/// Takes the calling thread's registration back. Where there is none, or none that can be
/// found, nothing changes: the C library asks the kernel for its processor then, as before 2.35.
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

    /// Where the C library has it for the calling thread.
    fn area() -> Option<usize> {
        let offset: *const isize;
        // SAFETY: reads one entry of the table of addresses that the linker made.
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
        // SAFETY: the first word behind fs is its own address, by the ABI of threads.
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
        // the thread. To leave, the kernel compares it with the one that was registered, and
        // writes to no other.
        unsafe { libc::syscall(libc::SYS_rseq, area, SIZE, flags, SIGNATURE) }
    }

    pub fn leave() {
        if let Some(area) = area() {
            // Where it was not registered so, all stays as it was.
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
                // Now it can be registered anew, which then is as it was.
                Some((before, registered(ask(area, REGISTER))))
            });
            let asked = asked.join().expect("no crash");
            // This C library or kernel may have none.
            if let Some((before, again)) = asked {
                assert!(!(before && again), "it had not left");
            }
        }
    }
}
