//! Network namespaces that end with the test: a thread lives in each, and what it starts does too.
#![expect(unsafe_code, reason = "unshare, and ioctl of a TAP device")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own. The namespace ends with it, however the test ends.
pub struct Namespace {
    jobs: Sender<Job>,
}

impl Namespace {
    pub fn new() -> io::Result<Self> {
        let (jobs, to_do) = channel::<Job>();
        let (tell, told) = channel();
        thread::spawn(move || {
            // SAFETY: it changes the namespace of this thread alone, and takes no pointer.
            let result = unsafe { libc::unshare(libc::CLONE_NEWNET) };
            let entered = match result {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            };
            let is_in = entered.is_ok();
            let _ = tell.send(entered);
            if is_in {
                to_do.iter().for_each(|job| job());
            }
        });
        told.recv().map_err(io::Error::other)??;
        Ok(Self { jobs })
    }

    /// Runs something in the namespace. Threads and programs that it starts live there too.
    pub fn run<R: Send + 'static>(&self, job: impl FnOnce() -> R + Send + 'static) -> R {
        let (tell, told) = channel();
        let job = Box::new(move || {
            let _ = tell.send(job());
        });
        self.jobs.send(job).unwrap();
        told.recv().unwrap()
    }

    /// Runs commands, one a line; each must succeed.
    pub fn shell(&self, commands: &str) {
        for line in commands.lines().map(str::trim).filter(|it| !it.is_empty()) {
            let line = line.to_owned();
            let done = self.run({
                let line = line.clone();
                move || {
                    let mut shell = Command::new("sh");
                    shell.args(["-ec", &line]).stdin(Stdio::null()).output()
                }
            });
            let done = done.unwrap();
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{line}: {said}");
        }
    }

    /// A TAP device of this name; with `napi` its packets are received by NAPI.
    pub fn tap(&self, name: &str, napi: bool) -> io::Result<File> {
        let name = name.to_owned();
        self.run(move || tap(&name, napi))
    }
}

fn tap(name: &str, napi: bool) -> io::Result<File> {
    const TUNSETIFF: libc::c_ulong = 0x4004_54ca;
    const TAP_WITHOUT_HEADER: u16 = 0x1002;
    const NAPI: u16 = 0x10;
    let flags = TAP_WITHOUT_HEADER | if napi { NAPI } else { 0 };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/net/tun")?;
    // `struct ifreq`: a name of 16 bytes, then flags.
    let mut request = [0u8; 40];
    request[..name.len()].copy_from_slice(name.as_bytes());
    request[16..18].copy_from_slice(&flags.to_ne_bytes());
    // SAFETY: `request` has the 40 bytes of `struct ifreq`, and lives during the call.
    let result = unsafe { libc::ioctl(file.as_raw_fd(), TUNSETIFF as _, request.as_mut_ptr()) };
    match result {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Another descriptor of what a number of this process leads to, if it is open.
pub fn duplicate(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: a number that is not open is refused with EBADF.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}
