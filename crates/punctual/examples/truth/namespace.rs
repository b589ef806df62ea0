//! A PID namespace of our own, as a container has it: what we and `/proc` call 17 has another number
//! in the kernel's events.

use std::io;
use std::process::ExitCode;

/// Goes on in one, as the child of this process, which ends when it does: nothing in the child,
/// whose first process this is.
pub fn enter() -> Result<Option<ExitCode>, String> {
    let failed = |doing: &str| format!("{doing}: {}", io::Error::last_os_error());
    // SAFETY: it takes no pointer, and this process has one thread yet.
    if unsafe { libc::unshare(libc::CLONE_NEWPID | libc::CLONE_NEWNS) } != 0 {
        return Err(failed("a PID namespace"));
    }
    // SAFETY: this process has one thread yet, so that the child is whole.
    match unsafe { libc::fork() } {
        -1 => Err(failed("a process")),
        0 => {
            // SAFETY: it asks for a signal when the parent is gone.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            mount_proc().map(|()| None)
        }
        child => {
            let mut status = 0;
            // SAFETY: it writes one word that is there.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            let code = if libc::WIFEXITED(status) {
                libc::WEXITSTATUS(status)
            } else {
                1
            };
            Ok(Some(ExitCode::from(u8::try_from(code).unwrap_or(1))))
        }
    }
}

fn mount_proc() -> Result<(), String> {
    let (none, proc) = (c"none".as_ptr(), c"proc".as_ptr());
    let (root, place) = (c"/".as_ptr(), c"/proc".as_ptr());
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: the words are literals, and nothing else is read.
    let done = unsafe { libc::mount(none, root, std::ptr::null(), private, std::ptr::null()) };
    // SAFETY: the words are literals, and nothing else is read.
    let mounted = unsafe { libc::mount(proc, place, proc, 0, std::ptr::null()) };
    if done == 0 && mounted == 0 {
        return Ok(());
    }
    Err(format!("/proc of it: {}", io::Error::last_os_error()))
}
