//! Memory that is shared with the kernel, and system calls that no crate offers.
#![expect(
    unsafe_code,
    reason = "memory shared with the kernel, and the bpf call that no crate offers"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;

/// A BPF map, mapped into our memory: words that the kernel changes at any time.
#[derive(Debug)]
pub struct Shared {
    place: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and is accessed by atomic
// operations only.
unsafe impl Send for Shared {}
// SAFETY: every access through `&Shared` is an atomic operation.
unsafe impl Sync for Shared {}

impl Shared {
    /// Maps the values of an array map, with this many words in all.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn map(map: BorrowedFd<'_>, words: usize) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let fd = map.as_raw_fd();
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing that
        // exists; the kernel refuses one that is longer than the map.
        let place =
            unsafe { libc::mmap(null_mut(), words * 8, protection, libc::MAP_SHARED, fd, 0) };
        if place == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let place = NonNull::new(place.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { place, words })
    }

    /// The words.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is `words` long, page-aligned, initialised by the kernel, and
        // lives as long as `self`; the only other writer is the kernel, and
        // an atomic load never sees half of its write.
        unsafe { std::slice::from_raw_parts(self.place.as_ptr(), self.words) }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `map`, and no reference into it outlives `self`.
        unsafe { libc::munmap(self.place.as_ptr().cast(), self.words * 8) };
    }
}

/// The bpf system call's arguments for running a program once (uapi/linux/bpf.h).
#[repr(C)]
#[derive(Default)]
struct TestRun {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
    flags: u32,
    cpu: u32,
    batch_size: u32,
    pad: u32,
}

/// Runs a BPF program of the kind that classifies packets once, on an empty packet, and returns its
/// result.
///
/// # Errors
/// The kernel's error.
pub fn run_once(program: BorrowedFd<'_>) -> io::Result<u32> {
    const BPF_PROG_TEST_RUN: libc::c_int = 10;
    // The smallest packet that the kernel accepts.
    let packet = [0_u8; 64];
    let mut run = TestRun {
        prog_fd: program.as_raw_fd() as u32,
        data_size_in: packet.len() as u32,
        data_in: packet.as_ptr() as u64,
        repeat: 1,
        ..TestRun::default()
    };
    // SAFETY: `run` has the kernel's layout, its size is passed, and `packet` outlives
    // the call; the kernel writes only to `run`.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_PROG_TEST_RUN,
            &raw mut run,
            size_of::<TestRun>(),
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(run.retval)
}

/// What the kernel reads to attach a program to an event: that part of `union bpf_attr`.
#[repr(C)]
struct LinkAttributes {
    prog_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
    cookie: u64,
}

/// Runs a program at each event, with our cookie. It runs until the descriptor, which holds program
/// and event, is closed.
///
/// # Errors
/// The kernel's error.
pub fn link(program: BorrowedFd<'_>, event: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    const BPF_LINK_CREATE: libc::c_int = 28;
    const BPF_PERF_EVENT: u32 = 41;
    let link = LinkAttributes {
        prog_fd: program.as_raw_fd() as u32,
        target_fd: event.as_raw_fd() as u32,
        attach_type: BPF_PERF_EVENT,
        flags: 0,
        cookie,
    };
    // SAFETY: `link` has the kernel's layout, and its size is passed; the kernel only reads
    // it.
    let made = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            BPF_LINK_CREATE,
            &raw const link,
            size_of::<LinkAttributes>(),
        )
    };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(made as libc::c_int) })
}
