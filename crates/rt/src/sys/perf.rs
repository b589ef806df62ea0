//! Hardware breakpoints, counters of a CPU and probes in programs, by `perf_event_open`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::check;

/// The kernel's `struct perf_event_attr`, in the version with `sig_data` (128 bytes).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    address: u64,
    length: u64,
    branch_sample_type: u64,
    user_registers: u64,
    user_stack: u32,
    clock: i32,
    interrupt_registers: u64,
    aux_watermark: u32,
    max_stack: u16,
    reserved: u16,
    aux_sample_size: u32,
    reserved_too: u32,
    signal_data: u64,
}

const PERF_TYPE_BREAKPOINT: u32 = 5;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const INHERIT_THREAD: u64 = 1 << 35;
const REMOVE_ON_EXEC: u64 = 1 << 36;
const SIGTRAP: u64 = 1 << 37;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// The parameters of a breakpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breakpoint {
    /// The first watched byte, aligned to `length`.
    pub address: usize,
    /// 1, 2, 4 or 8 bytes.
    pub length: usize,
    /// Whether reads count too, and not only writes.
    pub reads: bool,
    /// Whether each hit immediately sends SIGTRAP to the thread that hit; otherwise hits are
    /// counted.
    pub signal: bool,
    /// The value that the signal carries, besides the address.
    pub data: u64,
}

/// Sets a breakpoint for one thread of this process (0: the caller) and for threads that it
/// starts later. Accesses that the kernel makes on the thread's behalf aren't seen.
///
/// Not real-time safe: it allocates in the kernel and may interrupt other CPUs.
///
/// # Errors
/// ENOSPC when the slots are used up, EINVAL for a length or an alignment that the hardware
/// doesn't support or a kernel without signals (before 5.13), ENOENT, ENODEV or EOPNOTSUPP
/// without such hardware, ESRCH for a dead thread, EACCES or EPERM when `perf_event_paranoid` or
/// a security policy forbids it.
pub fn set_breakpoint(tid: libc::pid_t, breakpoint: &Breakpoint) -> io::Result<OwnedFd> {
    const HW_BREAKPOINT_R: u32 = 1;
    const HW_BREAKPOINT_W: u32 = 2;
    let mut flags = EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR;
    if breakpoint.signal {
        // The kernel supports signals only for threads of one process.
        flags |= SIGTRAP | REMOVE_ON_EXEC | INHERIT | INHERIT_THREAD;
    }
    let attributes = Attributes {
        kind: PERF_TYPE_BREAKPOINT,
        size: size_of::<Attributes>() as u32,
        period: 1,
        flags,
        breakpoint_type: HW_BREAKPOINT_W | if breakpoint.reads { HW_BREAKPOINT_R } else { 0 },
        address: breakpoint.address as u64,
        length: breakpoint.length as u64,
        signal_data: breakpoint.data,
        ..Attributes::default()
    };
    open(&attributes, tid, -1)
}

/// Opens a counter of a CPU, whichever thread runs there. `kind` is the kernel's type number of
/// the counters (`/sys/bus/event_source/devices/*/type`), `config` selects one of them. [`hits`]
/// reads it.
///
/// Not real-time safe: it allocates in the kernel.
///
/// # Errors
/// ENOENT, EINVAL or ENODEV where the CPU has no such counter, EACCES or EPERM when
/// `perf_event_paranoid` or a security policy forbids it.
pub fn count_on_cpu(kind: u32, config: u64, cpu: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        ..Attributes::default()
    };
    open(&attributes, -1, cpu as libc::c_int)
}

/// Opens a counter of the calling thread and of all that it starts from then on, on whichever CPU;
/// `kind` and `config` as for [`count_on_cpu`]. What started tasks count is added when they end.
/// [`hits`] reads it.
///
/// Not real-time safe: it allocates in the kernel.
///
/// # Errors
/// As [`count_on_cpu`].
pub fn count_with_children(kind: u32, config: u64) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config,
        flags: INHERIT | EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    open(&attributes, 0, -1)
}

/// A location in a program's file that the kernel reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe<'a> {
    /// The file.
    pub path: &'a CStr,
    /// Offset of the instruction in the file.
    pub offset: u64,
    /// Whether to report the return of the function instead, for each entry at that place.
    pub returns: bool,
    /// Offset in the file of a 16-bit counter that the kernel keeps above 0 meanwhile; 0 for
    /// none.
    pub semaphore: u32,
}

/// Sets a probe in the program of the thread `tid`: it fires for all threads of the program, as
/// long as `tid` lives. `kind` is the kernel's type number of probes
/// (`/sys/bus/event_source/devices/uprobe/type`). If no instruction begins at the place, the
/// program's code is corrupted.
///
/// Not real-time safe: it allocates in the kernel and stops the program for a moment.
///
/// # Errors
/// ENOENT when the file no longer exists, EINVAL when it can't be probed there, ESRCH for a dead
/// thread,
/// EACCES or EPERM without CAP_PERFMON or CAP_SYS_ADMIN.
pub fn set_probe(tid: libc::pid_t, kind: u32, probe: &Probe<'_>) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        kind,
        size: size_of::<Attributes>() as u32,
        config: u64::from(probe.semaphore) << 32 | u64::from(probe.returns),
        address: probe.path.as_ptr() as u64,
        length: probe.offset,
        ..Attributes::default()
    };
    open(&attributes, tid, -1)
}

fn open(attributes: &Attributes, tid: libc::pid_t, cpu: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the kernel reads `size` bytes of a live struct of that size, and a path, which
    // `Probe` borrows, up to its zero. A user-space breakpoint changes only the thread's debug
    // registers, a counter changes nothing, and a probe changes code of another program, for
    // which the caller is responsible.
    let descriptor = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attributes),
            tid,
            cpu,
            -1 as libc::c_int,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    let descriptor = check(descriptor as libc::c_int)?;
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}

/// The number of hits of a breakpoint that sends no signals, or the value of a counter. One
/// system call.
///
/// # Errors
/// None in practice.
pub fn hits(breakpoint: &OwnedFd) -> io::Result<u64> {
    let mut count = 0_u64;
    // SAFETY: the kernel writes at most 8 bytes into a live integer.
    let read = unsafe {
        libc::read(
            breakpoint.as_raw_fd(),
            std::ptr::from_mut(&mut count).cast(),
            size_of::<u64>(),
        )
    };
    check(read as libc::c_int)?;
    Ok(count)
}
