//! Starting a thread that is what it is to be before it runs a line.
//!
//! The creator gives the new thread its CPUs and its policy, and the thread waits meanwhile: a
//! thread that set itself up would begin at the creator's policy or as an ordinary one, and on a
//! CPU where a real-time thread of lower priority spins it would never come to it. Signals are
//! blocked in the creator for as long as the C library takes, so that no handler runs on a
//! thread that was not to take it.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Builder, Refusal, Setup, SpawnError};
use crate::advice::Attempt;
use crate::affinity;
use crate::sched::{self, Policy};
use crate::stack::{self, Class, Stack, StackError};
use crate::sys::{check_returned, elf, futex, task, time};

/// Bytes of stack that a thread has for itself where no size was asked for.
const DEFAULT_ROOM: usize = 192 << 10;

const SHUT: u32 = 0;
const OPEN: u32 = 1;
const GIVEN_UP: u32 = 2;

/// Where a new thread waits until its creator has set it up, and gets what became of that.
#[derive(Debug)]
pub struct Gate {
    word: AtomicU32,
    /// The creator's until the word is not SHUT any more, then the thread's.
    setup: UnsafeCell<Setup>,
}

// SAFETY: the setup is the creator's or the thread's, as the word says.
unsafe impl Sync for Gate {}

impl Gate {
    /// A shut one. Real-time safe.
    #[must_use]
    pub fn new() -> Self {
        Self {
            word: AtomicU32::new(SHUT),
            setup: UnsafeCell::new(Setup::default()),
        }
    }

    /// Waits until the creator has set the calling thread up; `None` when it was given up: then
    /// the thread ends. First thing in the thread, and called once. Real-time safe; at most one
    /// system call where `PUNCTUAL_STACK_DEBUG=noaccess` isn't in force.
    pub fn pass(&self) -> Option<Setup> {
        loop {
            match self.word.load(Ordering::Acquire) {
                SHUT => futex::wait(&self.word, SHUT),
                OPEN => {
                    // An overflow of the thread's own stack is explained on another one.
                    stack::watching::watch();
                    // SAFETY: the creator opened the gate, and looks at it no more.
                    return Some(std::mem::take(unsafe { &mut *self.setup.get() }));
                }
                _ => return None,
            }
        }
    }

    /// # Safety
    /// `gate` is shut, a thread waits or will wait behind it, and keeps it until it has passed.
    unsafe fn open(gate: *const Self, setup: Option<Setup>) {
        // SAFETY: the thread has not passed yet, so the gate is there.
        let gate = unsafe { &*gate };
        let address = gate.word.as_ptr() as usize;
        let word = if setup.is_some() { OPEN } else { GIVEN_UP };
        if let Some(setup) = setup {
            // SAFETY: the gate is shut: the setup is the creator's.
            unsafe { *gate.setup.get() = setup };
        }
        gate.word.store(word, Ordering::Release);
        // From here on the thread may have passed, and the memory may be another's.
        futex::wake_at(address, 1);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// A stack as large as the builder says; where it says nothing, 256 KB, or as much more as
    /// the program's thread-local storage takes. Real-time safe while one is free.
    ///
    /// # Errors
    /// Those of [`Stack::new`].
    pub fn stack(&self) -> Result<Stack, StackError> {
        let size = match self.stack_size {
            0 => Class::fitting(DEFAULT_ROOM.saturating_add(elf::thread_local_bytes()))
                .map_or(usize::MAX, Class::size),
            size => size,
        };
        Stack::new(size)
    }

    /// Starts a thread on `stack`, which is marked live (after the join comes
    /// [`Stack::mark_idle`]), and sets it up as the builder says: what was refused is told, and
    /// the thread runs all the same unless `all_or_nothing`. It calls `entry(argument)`, whose
    /// first line is [`Gate::pass`] and whose second [`super::Name::give_caller`]. Not real-time
    /// safe.
    ///
    /// The creator doesn't wait for the thread: it may be of lower priority.
    ///
    /// # Safety
    /// `entry` may be called with `argument` on another thread; `gate` lives until that thread
    /// has passed it, and the stack until it has been joined.
    ///
    /// # Errors
    /// [`SpawnError::Thread`]: EAGAIN at a limit of threads, EBUSY when a thread runs on the stack
    /// already, EINVAL when the thread-local storage leaves too little of it;
    /// [`SpawnError::Refused`] with `all_or_nothing`.
    pub unsafe fn create_on(
        &self,
        stack: &Stack,
        gate: *const Gate,
        all_or_nothing: bool,
        entry: extern "C" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> Result<(libc::pthread_t, libc::pid_t), SpawnError> {
        if !stack.mark_live() {
            let busy = io::Error::from_raw_os_error(libc::EBUSY);
            return Err(SpawnError::Thread(busy));
        }
        let kept = if self.block_signals {
            time::block_asynchronous_signals().ok()
        } else {
            None
        };
        // SAFETY: the caller's promise about entry, argument and stack.
        let created = unsafe { create(stack, entry, argument) };
        if let Some(kept) = kept {
            time::set_signal_mask(&kept);
        }
        let thread = created.map_err(|error| {
            stack.mark_idle();
            SpawnError::Thread(error)
        })?;
        // SAFETY: just made, and nobody joins it before this returns.
        let tid = unsafe { task::tid_of(thread) };
        let refused = self.place(tid);
        if refused.is_empty() || !all_or_nothing {
            // SAFETY: the caller's promise: the thread waits there.
            unsafe { Gate::open(gate, Some(Setup { tid, refused })) };
            return Ok((thread, tid));
        }
        // It ends as what it came: at its creator's priority and on its creator's CPUs, where
        // nobody of lower priority than the creator's keeps it from that.
        if let (Ok(mask), Ok(policy)) = (task::affinity(0), task::scheduling(0)) {
            let _ = task::set_affinity(tid, &mask);
            let _ = task::set_scheduling(tid, &policy);
        }
        // SAFETY: as above.
        unsafe { Gate::open(gate, None) };
        // SAFETY: made above, about to end, and joined here alone.
        let _ = unsafe { task::join(thread) };
        stack.mark_idle();
        Err(SpawnError::Refused(refused))
    }

    /// Gives the thread `tid` its policy and its CPUs, and tells what was refused. The thread
    /// needs none of them meanwhile, so the order is not the matter: but SCHED_DEADLINE wants its
    /// CPUs first, and a thread that has come to wait is moved more cheaply than one that runs.
    fn place(&self, tid: libc::pid_t) -> Vec<Refusal> {
        let policy = || match self.policy {
            Policy::Other => make_ordinary(tid).err(),
            policy => sched::set(tid, policy).err(),
        };
        let cpus = || match self.cpus.is_empty() {
            true => None,
            false => affinity::set(tid, &self.cpus).err(),
        };
        let (no_cpus, no_policy) = match self.policy {
            Policy::Deadline { .. } => {
                let no_cpus = cpus();
                (no_cpus, policy())
            }
            _ => {
                let no_policy = policy();
                (cpus(), no_policy)
            }
        };
        let mut refused = Vec::new();
        refused.extend(no_cpus.map(|error| Refusal {
            step: "affinity",
            error,
            attempt: Attempt::Affinity,
        }));
        refused.extend(no_policy.map(|error| Refusal {
            step: "policy",
            error,
            attempt: Attempt::Policy(self.policy),
        }));
        refused
    }
}

/// Makes a thread an ordinary one, whatever it has from its creator, but for its nice value.
fn make_ordinary(tid: libc::pid_t) -> io::Result<()> {
    let now = task::scheduling(tid)?;
    if now.policy == libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    task::make_other(tid)
}

/// Makes a thread on a stack, at its creator's policy and on its CPUs.
///
/// # Safety
/// `entry` may be called with `argument` on another thread; the stack is kept until the join.
unsafe fn create(
    stack: &Stack,
    entry: extern "C" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> io::Result<libc::pthread_t> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the memory is live and writable.
    check_returned(unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) })?;
    // SAFETY: pthread_attr_init has succeeded.
    let mut attributes = unsafe { attributes.assume_init() };
    let base = stack.base().as_ptr().cast();
    // SAFETY: the stack is mapped and outlives the thread: the caller's promise.
    let set =
        check_returned(unsafe { libc::pthread_attr_setstack(&mut attributes, base, stack.len()) });
    let mut thread: libc::pthread_t = 0;
    let created = set.and_then(|()| {
        // SAFETY: the caller's promise about entry and argument.
        check_returned(unsafe { libc::pthread_create(&mut thread, &attributes, entry, argument) })
    });
    // SAFETY: initialised above, destroyed once.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
    created.map(|()| thread)
}

/// Puts policy and priority into attributes for `pthread_create`, and
/// PTHREAD_EXPLICIT_SCHED, without which they count for nothing. No system call.
///
/// # Safety
/// `attributes` points to initialised ones.
///
/// # Errors
/// ENOTSUP for SCHED_DEADLINE, which POSIX attributes don't know; EINVAL for a priority out
/// of range.
pub unsafe fn explicit_sched(
    attributes: *mut libc::pthread_attr_t,
    policy: Policy,
) -> io::Result<()> {
    let number = match policy {
        Policy::Other => libc::SCHED_OTHER,
        Policy::Fifo(_) => libc::SCHED_FIFO,
        Policy::RoundRobin(_) => libc::SCHED_RR,
        Policy::Deadline { .. } => return Err(io::Error::from_raw_os_error(libc::ENOTSUP)),
    };
    // SAFETY: the caller's promise.
    check_returned(unsafe {
        libc::pthread_attr_setinheritsched(attributes, libc::PTHREAD_EXPLICIT_SCHED)
    })?;
    // SAFETY: the caller's promise.
    check_returned(unsafe { libc::pthread_attr_setschedpolicy(attributes, number) })?;
    // SAFETY: all-zero bytes are a value of this plain C struct.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = policy.priority() as c_int;
    // SAFETY: the caller's promise; the parameters are a live local.
    check_returned(unsafe { libc::pthread_attr_setschedparam(attributes, &parameters) })
}
