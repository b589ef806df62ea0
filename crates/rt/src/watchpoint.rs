//! Hardware watchpoints: find the code that writes to an address.
//!
//! A [`Watchpoint`] watches 1, 2, 4 or 8 aligned bytes with the processor's debug registers, at
//! no cost to any other access. Each write by a thread of this process raises SIGTRAP in that
//! thread, right after the instruction that wrote. The handler that [`watch`] installs records
//! thread, place and time, and the program continues. Use it to find the code that corrupts a
//! stack: watch the corrupted word, and read [`Watchpoint::hits`].
//!
//! A processor has few of them: four on x86-64. Writes that the kernel makes for a thread (`read`
//! into the variable) are not seen.
//!
//! It covers the threads that exist when it is set, and those that they start afterwards; a write
//! of a thread that starts at that moment may count twice.
#![expect(
    unsafe_code,
    reason = "the handler of a signal that a breakpoint raises"
)]

use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use crate::sys::perf::{self, Breakpoint};

/// Which accesses are hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Writes.
    Write,
    /// Reads and writes.
    ReadWrite,
}

/// One access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// The id of the thread.
    pub tid: libc::pid_t,
    /// Its instruction pointer when the access was done: the instruction after it.
    pub instruction: usize,
    /// Its stack pointer then.
    pub stack: usize,
    /// When, in ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
}

/// Why a watchpoint could not be set.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchError {
    /// No slot of the processor is free; this or another process uses them (ENOSPC).
    NoSlot,
    /// The address isn't aligned to the length, or the length isn't 1, 2, 4 or 8 (EINVAL).
    Misaligned,
    /// The processor or the kernel doesn't support watchpoints, or not with signals, which need
    /// Linux 5.13 (ENOTSUP).
    NoHardware,
    /// Not permitted (EACCES, EPERM): see `kernel.perf_event_paranoid`.
    Forbidden(io::Error),
    /// Any other error.
    System(io::Error),
}

impl WatchError {
    /// The number that the C functions put into `errno`. Real-time safe.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NoSlot => libc::ENOSPC,
            Self::Misaligned => libc::EINVAL,
            Self::NoHardware => libc::ENOTSUP,
            Self::Forbidden(error) | Self::System(error) => {
                error.raw_os_error().unwrap_or(libc::EIO)
            }
        }
    }

    /// What it means, and how to fix it. Real-time safe.
    #[must_use]
    pub fn advice(&self) -> &'static CStr {
        match self {
            Self::NoSlot => {
                c"the watchpoints of the processor are used up (x86-64 has four): clear one, or \
                  end the debugger"
            }
            Self::Misaligned => {
                c"watchpoint: expected 1, 2, 4 or 8 bytes at an address that is a multiple of the length"
            }
            Self::NoHardware => {
                c"no hardware watchpoints with signals here: Linux 5.13 and debug registers have \
                  them, some virtual machines don't"
            }
            Self::Forbidden(_) => {
                c"watchpoints are not permitted: check kernel.perf_event_paranoid and seccomp"
            }
            Self::System(_) => c"the kernel refused the watchpoint, or memory is short",
        }
    }

    /// For an error of the kernel: address and length were already checked.
    fn of(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSPC) => Self::NoSlot,
            Some(
                libc::EINVAL
                | libc::ENOENT
                | libc::ENODEV
                | libc::EOPNOTSUPP
                | libc::ENOSYS
                | libc::E2BIG,
            ) => Self::NoHardware,
            Some(libc::EACCES | libc::EPERM) => Self::Forbidden(error),
            _ => Self::System(error),
        }
    }
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSlot => write!(
                f,
                "the processor's watchpoints are used up: x86-64 has four; drop one, or end the \
                 debugger"
            ),
            Self::Misaligned => write!(
                f,
                "watchpoint: expected 1, 2, 4 or 8 bytes at an address that is a multiple of the length"
            ),
            Self::NoHardware => write!(
                f,
                "no hardware watchpoints with signals here: Linux 5.13 and a processor with debug \
                 registers have them, some virtual machines don't"
            ),
            Self::Forbidden(_) => write!(
                f,
                "watchpoints are not permitted: check kernel.perf_event_paranoid and at seccomp \
                 (containers)"
            ),
            Self::System(error) => write!(f, "could not set the watchpoint: {error}"),
        }
    }
}

impl std::error::Error for WatchError {}

/// The largest number of watchpoints of a process; no processor has more.
const SLOTS: usize = 16;
/// The number of hits kept per watchpoint: the first ones. Further hits are only counted.
pub const KEPT: usize = 64;

struct Entry {
    /// 0 while it is being written.
    tid: AtomicU64,
    instruction: AtomicUsize,
    stack: AtomicUsize,
    time_ns: AtomicU64,
}

struct Slot {
    used: AtomicBool,
    count: AtomicUsize,
    entries: [Entry; KEPT],
}

static HITS: [Slot; SLOTS] = [const {
    Slot {
        used: AtomicBool::new(false),
        count: AtomicUsize::new(0),
        entries: [const {
            Entry {
                tid: AtomicU64::new(0),
                instruction: AtomicUsize::new(0),
                stack: AtomicUsize::new(0),
                time_ns: AtomicU64::new(0),
            }
        }; KEPT],
    }
}; SLOTS];

/// The value that the signals of a slot carry: its address. Another copy of this library in the
/// process, for example in a plugin, has slots of its own.
fn mark(slot: usize) -> u64 {
    (&raw const HITS[slot]) as u64
}

/// The slot of a signal with this mark, if it is one of ours.
fn slot_of(mark: u64) -> Option<usize> {
    let offset = (mark as usize).wrapping_sub(HITS.as_ptr() as usize);
    let slot = offset / size_of::<Slot>();
    (slot < SLOTS && offset.is_multiple_of(size_of::<Slot>())).then_some(slot)
}

/// `TRAP_PERF`.
const TRAP_PERF: i32 = 6;

/// A watchpoint, until it is dropped.
#[derive(Debug)]
pub struct Watchpoint {
    slot: usize,
    /// One event for each thread that existed.
    threads: Vec<OwnedFd>,
}

/// Watches the `length` bytes at `address` in all threads of the process.
///
/// The first call installs a handler for SIGTRAP; it passes other signals on to the previous
/// handler. Not real-time safe.
///
/// # Errors
/// See [`WatchError`].
pub fn watch(address: usize, length: usize, access: Access) -> Result<Watchpoint, WatchError> {
    if !matches!(length, 1 | 2 | 4 | 8) || !address.is_multiple_of(length) {
        return Err(WatchError::Misaligned);
    }
    let free = |slot: &Slot| !slot.used.swap(true, Ordering::AcqRel);
    let slot = HITS.iter().position(free).ok_or(WatchError::NoSlot)?;
    let attached = install_handler()
        .map_err(WatchError::System)
        .and_then(|()| attach(slot, address, length, access));
    match attached {
        Ok(threads) => Ok(Watchpoint { slot, threads }),
        Err(error) => {
            release(slot);
            Err(error)
        }
    }
}

/// Sets it for every existing thread. New threads inherit it from their creators, so the list is
/// read again until it contains no new thread.
fn attach(
    slot: usize,
    address: usize,
    length: usize,
    access: Access,
) -> Result<Vec<OwnedFd>, WatchError> {
    let breakpoint = Breakpoint {
        address,
        length,
        reads: access == Access::ReadWrite,
        signal: true,
        data: mark(slot),
    };
    let mut seen = Vec::new();
    let mut threads = Vec::new();
    loop {
        let known = seen.len();
        for tid in tasks().map_err(WatchError::System)? {
            if seen.contains(&tid) {
                continue;
            }
            seen.push(tid);
            match perf::set_breakpoint(tid, &breakpoint) {
                Ok(descriptor) => threads.push(descriptor),
                // The thread has ended in the meantime.
                Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                // On a thread that inherited the first, a second one would waste a slot.
                Err(error) if known > 0 && error.raw_os_error() == Some(libc::ENOSPC) => {}
                Err(error) => return Err(WatchError::of(error)),
            }
        }
        if seen.len() == known {
            return Ok(threads);
        }
    }
}

/// The threads of this process.
fn tasks() -> io::Result<Vec<libc::pid_t>> {
    let mut tasks = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task")? {
        if let Some(tid) = entry?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        {
            tasks.push(tid);
        }
    }
    Ok(tasks)
}

fn release(slot: usize) {
    for entry in &HITS[slot].entries {
        entry.tid.store(0, Ordering::Relaxed);
    }
    HITS[slot].count.store(0, Ordering::Relaxed);
    HITS[slot].used.store(false, Ordering::Release);
}

impl Watchpoint {
    /// Hits so far. A real-time thread may call it: it is one load.
    #[must_use]
    pub fn count(&self) -> usize {
        HITS[self.slot].count.load(Ordering::Acquire)
    }

    /// The first hits, at most [`KEPT`]. Not real-time safe: it allocates.
    #[must_use]
    pub fn hits(&self) -> Vec<Hit> {
        (0..KEPT).map_while(|index| self.hit(index)).collect()
    }

    /// The hit with this index, from 0; `None` if there are fewer, or it wasn't kept. Real-time
    /// safe.
    #[must_use]
    pub fn hit(&self, index: usize) -> Option<Hit> {
        let entry = HITS[self.slot].entries.get(index)?;
        let tid = entry.tid.load(Ordering::Acquire);
        if tid == 0 {
            return None;
        }
        Some(Hit {
            tid: tid as libc::pid_t,
            instruction: entry.instruction.load(Ordering::Relaxed),
            stack: entry.stack.load(Ordering::Relaxed),
            time_ns: entry.time_ns.load(Ordering::Relaxed),
        })
    }
}

impl Drop for Watchpoint {
    fn drop(&mut self) {
        // Before the slot is reused: after this the kernel delivers no signal of it.
        self.threads.clear();
        release(self.slot);
    }
}

/// The previous action for SIGTRAP, for signals that aren't ours.
static BEFORE: Mutex<Option<()>> = Mutex::new(None);
static BEFORE_HANDLER: AtomicUsize = AtomicUsize::new(libc::SIG_DFL);
static BEFORE_TELLS: AtomicBool = AtomicBool::new(false);

fn install_handler() -> io::Result<()> {
    let mut installed = BEFORE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    if installed.is_some() {
        return Ok(());
    }
    // SAFETY: all-zero is a value of this plain C struct.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = on_trap as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: all-zero bytes are a valid value of this plain C struct.
    let mut before: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: both structs are live; the handler calls only async-signal-safe functions.
    super::sys::check(unsafe { libc::sigaction(libc::SIGTRAP, &action, &mut before) })?;
    BEFORE_TELLS.store(before.sa_flags & libc::SA_SIGINFO != 0, Ordering::Relaxed);
    BEFORE_HANDLER.store(before.sa_sigaction, Ordering::Release);
    *installed = Some(());
    Ok(())
}

/// The beginning of the kernel's `siginfo_t` for SIGTRAP of a perf event.
#[repr(C)]
struct TrapInfo {
    signal: i32,
    errno: i32,
    code: i32,
    _pad: i32,
    _address: usize,
    data: u64,
}

extern "C" fn on_trap(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes a whole siginfo_t, which begins like this struct.
    let told = unsafe { info.cast::<TrapInfo>().read() };
    let ours = slot_of(told.data).filter(|_| told.code == TRAP_PERF);
    let Some(slot) = ours else {
        pass_on(signal, info, context);
        return;
    };
    let number = HITS[slot].count.fetch_add(1, Ordering::AcqRel);
    let Some(entry) = HITS[slot].entries.get(number) else {
        return;
    };
    let (instruction, stack) = place(context);
    entry.instruction.store(instruction, Ordering::Relaxed);
    entry.stack.store(stack, Ordering::Relaxed);
    entry
        .time_ns
        .store(crate::clock::now_ns(), Ordering::Relaxed);
    let tid = crate::sys::task::current_tid();
    entry.tid.store(tid as u64, Ordering::Release);
}

/// Instruction and stack pointer of the interrupted code.
fn place(context: *mut libc::c_void) -> (usize, usize) {
    // SAFETY: the kernel passes the context as a ucontext_t.
    let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
    #[cfg(target_arch = "x86_64")]
    return (
        machine.gregs[libc::REG_RIP as usize] as usize,
        machine.gregs[libc::REG_RSP as usize] as usize,
    );
    #[cfg(target_arch = "aarch64")]
    return (machine.pc as usize, machine.sp as usize);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return {
        let _ = machine;
        (0, 0)
    };
}

fn pass_on(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    type Telling = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
    type Plain = extern "C" fn(libc::c_int);
    match BEFORE_HANDLER.load(Ordering::Acquire) {
        libc::SIG_IGN => {}
        libc::SIG_DFL => {
            // SAFETY: async-signal-safe; the signal ends the process when the handler returns.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
            // SAFETY: raise is async-signal-safe and takes no pointer.
            unsafe { libc::raise(signal) };
        }
        handler if BEFORE_TELLS.load(Ordering::Relaxed) => {
            // SAFETY: a handler that was installed with SA_SIGINFO has this type.
            let handler: Telling = unsafe { std::mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: a handler that was installed without SA_SIGINFO has this type.
            let handler: Plain = unsafe { std::mem::transmute(handler) };
            handler(signal);
        }
    }
}
