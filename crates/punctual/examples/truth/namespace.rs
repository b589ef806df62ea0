//! A PID namespace of our own, as in a container: the thread that we and `/proc` call 17 has
//! another number in the kernel's events.

use std::io;
use std::process::ExitCode;

/// Continues in one, as the child of this process, which ends when the child does. `None` in the
/// child, which is the first process of the namespace.
pub fn enter() -> Result<Option<ExitCode>, String> {
    let failed = |doing: &str| format!("{doing}: {}", io::Error::last_os_error());
    // SAFETY: unshare takes no pointer, and this process has only one thread yet.
    if unsafe { libc::unshare(libc::CLONE_NEWPID | libc::CLONE_NEWNS) } != 0 {
        return Err(failed("a PID namespace"));
    }
    // SAFETY: this process has only one thread yet, so the child may call any function.
    match unsafe { libc::fork() } {
        -1 => Err(failed("a process")),
        0 => {
            // SAFETY: prctl takes integers here.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            mount_proc().map(|()| None)
        }
        child => {
            let mut status = 0;
            // SAFETY: waitpid writes to `status`, which outlives the call.
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
    // SAFETY: mount only reads the C string literals.
    let done = unsafe { libc::mount(none, root, std::ptr::null(), private, std::ptr::null()) };
    // SAFETY: mount only reads the C string literals.
    let mounted = unsafe { libc::mount(proc, place, proc, 0, std::ptr::null()) };
    if done == 0 && mounted == 0 {
        return Ok(());
    }
    Err(format!("/proc of it: {}", io::Error::last_os_error()))
}
