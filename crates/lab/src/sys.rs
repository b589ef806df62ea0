//! The laboratory's own system calls: for the guest's first process, its I/O ports, and the lifetime of
//! QEMU on the host.

#![expect(
    unsafe_code,
    reason = "system calls of a guest's first process, its I/O ports, and the lifetime of QEMU"
)]

pub mod outlet;

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use rustix::mount::MountFlags;
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::system::RebootCommand;

fn outcome(result: libc::c_long) -> io::Result<()> {
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Mounts a file system without a device.
pub fn mount(kind: &str, target: &str, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    let flags = MountFlags::empty();
    Ok(rustix::mount::mount(
        kind,
        target,
        kind,
        flags,
        options.as_c_str(),
    )?)
}

/// Bind-mounts a file or a directory, with the mounts below it.
pub fn bind(from: &str, target: &str) -> io::Result<()> {
    Ok(rustix::mount::mount_bind_recursive(from, target)?)
}

/// Makes a command's process start in another root directory, in a directory of it. Both paths are
/// constants without a zero byte.
pub fn change_root(command: &mut Command, root: &str, directory: &str) {
    let path = |text: &str| CString::new(text).unwrap_or_default();
    let (root, directory) = (path(root), path(directory));
    let enter = move || {
        rustix::process::chroot(root.as_c_str())?;
        Ok(rustix::process::chdir(directory.as_c_str())?)
    };
    // SAFETY: the closure makes two system calls with strings that it owns, and allocates
    // nothing, as between fork and exec it must not.
    unsafe { command.pre_exec(enter) };
}

/// Brings the loopback interface up.
pub fn loopback_up() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all zeros is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request names an interface and its flags, as SIOCSIFFLAGS wants it, and
    // outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request) };
    outcome(result.into())
}

/// Loads a module of the kernel.
pub fn load_module(file: &File) -> io::Result<()> {
    Ok(rustix::system::finit_module(file, c"", 0)?)
}

/// Schedules the calling thread below everything else.
pub fn become_idle_class() -> io::Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: a policy and a live parameter.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &none) };
    outcome(result.into())
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With a status.
    Status(i32),
    /// By a signal.
    Signal(i32),
}

/// Waits for any child, also one that was left behind by its parent.
pub fn wait_any() -> io::Result<(u32, Ended)> {
    let options = WaitOptions::empty();
    let ended = rustix::io::retry_on_intr(|| rustix::process::wait(options))?;
    // Without NOHANG the result is a child or an error.
    let (child, status) = ended.ok_or(io::ErrorKind::NotFound)?;
    let ended = match status.terminating_signal() {
        Some(signal) => Ended::Signal(signal),
        None => Ended::Status(status.exit_status().unwrap_or(0)),
    };
    Ok((child.as_raw_nonzero().get().unsigned_abs(), ended))
}

/// Interrupts a process, as Ctrl-C does it.
pub fn interrupt(process: u32) -> io::Result<()> {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let process = process.ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::kill_process(process, Signal::INT)?)
}

/// Makes the kernel kill a command's process when the thread that starts it ends.
pub fn kill_with_parent(command: &mut Command) {
    let parent = rustix::process::getpid();
    // A process group of its own: Ctrl-C reaches only this program, which ends it.
    command.process_group(0);
    let leashed = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have died before the request.
        if rustix::process::getppid() != Some(parent) {
            // SAFETY: ends the process that has nothing yet, by the system call alone.
            unsafe { libc::_exit(1) };
        }
        Ok(())
    };
    // SAFETY: the closure makes three system calls at most, and allocates nothing, as between
    // fork and exec it must not.
    unsafe { command.pre_exec(leashed) };
}

/// Powers the guest off.
pub fn power_off() -> ! {
    rustix::fs::sync();
    // It returns only where it is refused.
    let _ = rustix::system::reboot(RebootCommand::PowerOff);
    loop {
        std::thread::park();
    }
}

/// Passes virtual time at little cost for the host: a block of instructions that do nothing costs the
/// emulator almost only their count.
#[cfg(target_arch = "x86_64")]
pub fn pass_time() {
    // SAFETY: nops touch no memory and no register.
    unsafe {
        std::arch::asm!(
            ".rept 480",
            "nop",
            ".endr",
            options(nomem, nostack, preserves_flags)
        );
    }
}

/// Passes time.
#[cfg(not(target_arch = "x86_64"))]
pub fn pass_time() {
    std::hint::spin_loop();
}

/// Waits a little, on the host.
pub fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}
