//! Errors of stacks.

use std::error::Error;
use std::ffi::CStr;
use std::fmt;

use crate::sys::map::Errno;

/// Why a stack was not allocated, freed or inspected.
///
/// Nothing was changed when one of these is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackError {
    /// The size in bytes is not one of the classes, or is above the largest.
    NoSuchClass(usize),
    /// The address is not one that the allocator returned: unaligned, foreign or null.
    NotAStack(usize),
    /// The stack at this address has another size than the named one.
    WrongClass {
        /// The size in bytes that the stack has.
        is: usize,
        /// The size in bytes that the caller named.
        named: usize,
    },
    /// The stack at this address is already free.
    NotInUse(usize),
    /// The caller runs on this stack, or a live thread does.
    InUse(usize),
    /// The kernel has no memory, address space or mappings left.
    NoMemory(Errno),
    /// The limit of locked memory (`RLIMIT_MEMLOCK`) doesn't allow it.
    LockLimit,
    /// There is no such thread in this process.
    NoSuchThread(libc::pid_t),
    /// The bounds of the thread's stack are unknown while it runs.
    Running(libc::pid_t),
    /// The range is not mapped, or not completely.
    NotMapped(usize),
    /// These bounds are invalid for a stack: misaligned, or too small.
    WrongBounds,
    /// `PUNCTUAL_STACK_DEBUG=guards` is not enabled, so writes to free stacks are not detected.
    GuardsDisabled,
    /// A system call failed that must not fail here.
    System(Errno),
}

impl StackError {
    /// The number that the C functions put into `errno` for this error.
    pub fn errno(self) -> Errno {
        match self {
            Self::NoSuchClass(_)
            | Self::NotAStack(_)
            | Self::WrongClass { .. }
            | Self::NotInUse(_)
            | Self::WrongBounds => libc::EINVAL,
            Self::InUse(_) => libc::EBUSY,
            Self::NoMemory(_) | Self::NotMapped(_) => libc::ENOMEM,
            Self::LockLimit | Self::Running(_) => libc::EAGAIN,
            Self::NoSuchThread(_) => libc::ESRCH,
            Self::GuardsDisabled => libc::ENOTSUP,
            Self::System(errno) => errno,
        }
    }

    /// What it means, and how to fix it. Real-time safe.
    #[must_use]
    pub fn advice(self) -> &'static CStr {
        match self {
            Self::NoSuchClass(_) => {
                c"stack size: expected a power of two from 32 KB to 2 MB; punctual_stack_class() rounds up"
            }
            Self::NotAStack(_) => c"not a stack of punctual_stack_alloc(), or not a whole page",
            Self::WrongClass { .. } => c"the stack has a different size: give the size with which it was allocated",
            Self::NotInUse(_) => c"the stack is already free",
            Self::InUse(_) => c"the stack is in use by a running thread: join it first",
            Self::NoMemory(_) => {
                c"no memory for a stack: check free memory, the memory cgroup, RLIMIT_AS and \
                  vm.max_map_count; punctual_stack_trim() returns the free stacks of other sizes \
                  to the kernel"
            }
            Self::LockLimit => {
                c"no stack: the limit of locked memory is reached (ulimit -l, RLIMIT_MEMLOCK)"
            }
            Self::NoSuchThread(_) => c"no such thread in this process: it has ended, or the ID is wrong",
            Self::Running(_) => {
                c"the thread is running: its stack can be found only while it is blocked"
            }
            Self::NotMapped(_) => c"not all of the range is mapped",
            Self::WrongBounds => {
                c"stack bounds: expected addresses that are aligned to words, at least a page apart"
            }
            Self::GuardsDisabled => {
                c"writes to free stacks are not detected: run the program with PUNCTUAL_STACK_DEBUG=guards"
            }
            Self::System(_) => c"the kernel refused the address of the stack: check that /proc is mounted",
        }
    }

    /// The error for a failed mapping call.
    pub(crate) fn of_mapping(errno: Errno) -> Self {
        match errno {
            libc::EAGAIN => Self::LockLimit,
            other => Self::NoMemory(other),
        }
    }
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NoSuchClass(size) => write!(
                f,
                "stack size {size}: expected a power of two from 32 KB to 2 MB"
            ),
            Self::NotAStack(place) => write!(f, "{place:#x} is not a stack of this allocator"),
            Self::WrongClass { is, named } => {
                write!(f, "the stack has {is} bytes, not {named}")
            }
            Self::NotInUse(place) => write!(f, "the stack at {place:#x} is already free"),
            Self::InUse(place) => {
                write!(
                    f,
                    "the stack at {place:#x} is in use by a running thread: join it first"
                )
            }
            Self::NoMemory(errno) => write!(
                f,
                "no memory for a stack (errno {errno}): check free memory, the memory cgroup, \
                 RLIMIT_AS and vm.max_map_count (a guarded stack needs two mappings)"
            ),
            Self::LockLimit => write!(
                f,
                "the limit of locked memory is reached: raise RLIMIT_MEMLOCK (ulimit -l) or \
                 grant CAP_IPC_LOCK"
            ),
            Self::NoSuchThread(tid) => write!(f, "no thread {tid} in this process"),
            Self::Running(tid) => {
                write!(
                    f,
                    "thread {tid} is running: its stack can be found only while it is blocked"
                )
            }
            Self::NotMapped(place) => write!(f, "not all of the range at {place:#x} is mapped"),
            Self::WrongBounds => write!(
                f,
                "stack bounds: expected addresses that are aligned to words, at least a page apart"
            ),
            Self::GuardsDisabled => write!(
                f,
                "writes to free stacks are not detected: run the program with \
                 PUNCTUAL_STACK_DEBUG=guards"
            ),
            Self::System(errno) => write!(f, "a system call failed (errno {errno})"),
        }
    }
}

impl Error for StackError {}
