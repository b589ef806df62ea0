//! What can go wrong with a stack.

use std::error::Error;
use std::fmt;

use crate::sys::map::Errno;

/// Why a stack was not given, not taken back or not looked at.
///
/// Nothing was changed when one of these is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StackError {
    /// The size in bytes is not one of the classes, or is above the largest.
    NoSuchClass(usize),
    /// The address is not one that the allocator gave out: unaligned, foreign or null.
    NotAStack(usize),
    /// The stack at this address has another size than the one that was named.
    WrongClass {
        /// The size in bytes that the stack has.
        is: usize,
        /// The size in bytes that the caller named.
        named: usize,
    },
    /// The stack at this address is free already.
    NotInUse(usize),
    /// The caller stands on this stack, or a live thread does.
    InUse(usize),
    /// The kernel has no memory, no address space or no mapping left.
    NoMemory(Errno),
    /// The limit of locked memory (`RLIMIT_MEMLOCK`) doesn't allow it.
    LockLimit,
    /// There is no such thread in this process.
    NoSuchThread(libc::pid_t),
    /// Where the thread's stack lies can't be told just now: it is running.
    Running(libc::pid_t),
    /// The range is not mapped, or not a whole one.
    NotMapped(usize),
    /// A system call that must not fail here did.
    System(Errno),
}

impl StackError {
    /// The number that the C functions put into `errno` for this error.
    pub fn errno(self) -> Errno {
        match self {
            Self::NoSuchClass(_)
            | Self::NotAStack(_)
            | Self::WrongClass { .. }
            | Self::NotInUse(_) => libc::EINVAL,
            Self::InUse(_) => libc::EBUSY,
            Self::NoMemory(_) | Self::NotMapped(_) => libc::ENOMEM,
            Self::LockLimit | Self::Running(_) => libc::EAGAIN,
            Self::NoSuchThread(_) => libc::ESRCH,
            Self::System(errno) => errno,
        }
    }

    /// What a failed mapping call means here.
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
                "no stacks of {size} bytes: the sizes are the powers of two from 32 KB to 2 MB"
            ),
            Self::NotAStack(place) => write!(f, "{place:#x} is not a stack of this allocator"),
            Self::WrongClass { is, named } => {
                write!(f, "the stack has {is} bytes, not {named}")
            }
            Self::NotInUse(place) => write!(f, "the stack at {place:#x} is free already"),
            Self::InUse(place) => {
                write!(
                    f,
                    "the stack at {place:#x} is the one in use by a running thread"
                )
            }
            Self::NoMemory(errno) => write!(
                f,
                "no memory for a stack (errno {errno}): look at free memory, RLIMIT_AS and \
                 vm.max_map_count (a guarded stack takes two mappings)"
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
                    "thread {tid} is running: its stack can't be told from outside"
                )
            }
            Self::NotMapped(place) => write!(f, "not all of the range at {place:#x} is mapped"),
            Self::System(errno) => write!(f, "a system call failed (errno {errno})"),
        }
    }
}

impl Error for StackError {}
