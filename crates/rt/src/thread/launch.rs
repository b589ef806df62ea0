//! Starts a thread that is completely set up before it runs any code of the program.
//!
//! The creator sets the CPUs and the policy of the new thread, while the thread waits. A thread
//! that set itself up would begin with the creator's policy or as an ordinary thread, and would
//! never run on a CPU where a real-time thread of lower priority than its own spins. Signals are
//! blocked in the creator during pthread_create, so that no handler runs on a thread that should
//! block them.

#![expect(unsafe_code, reason = "pthread_create on a stack of ours")]

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

/// The default stack size available to a thread.
const DEFAULT_ROOM: usize = 192 << 10;

const SHUT: u32 = 0;
const OPEN: u32 = 1;
const GIVEN_UP: u32 = 2;

/// Where a new thread waits until its creator has set it up, and receives the result of the
/// setup.
#[derive(Debug)]
pub struct Gate {
    word: AtomicU32,
    /// Owned by the creator while the word is SHUT, then by the thread.
    setup: UnsafeCell<Setup>,
}

// SAFETY: the word decides whether the creator or the thread owns the setup.
unsafe impl Sync for Gate {}

impl Gate {
    /// A closed gate. Real-time safe.
    #[must_use]
    pub fn new() -> Self {
        Self {
            word: AtomicU32::new(SHUT),
            setup: UnsafeCell::new(Setup::default()),
        }
    }

    /// Waits until the creator has set up the calling thread; `None` when the thread was given up
    /// and must end. Called once, first in the thread. Real-time safe; at most one system call
    /// unless `PUNCTUAL_STACK_DEBUG=noaccess` is enabled.
    pub fn wait(&self) -> Option<Setup> {
        loop {
            match self.word.load(Ordering::Acquire) {
                SHUT => futex::wait(&self.word, SHUT),
                OPEN => {
                    // So that an overflow of the thread's stack is reported on another stack.
                    stack::watching::watch();
                    // SAFETY: the creator opened the gate, and doesn't access it any more.
                    return Some(std::mem::take(unsafe { &mut *self.setup.get() }));
                }
                _ => return None,
            }
        }
    }

    /// # Safety
    /// `gate` is shut; a thread waits or will wait for it, and keeps it until it has passed.
    unsafe fn open(gate: *const Self, setup: Option<Setup>) {
        // SAFETY: the thread has not passed yet, so the gate exists.
        let gate = unsafe { &*gate };
        let address = gate.word.as_ptr() as usize;
        let word = if setup.is_some() { OPEN } else { GIVEN_UP };
        if let Some(setup) = setup {
            // SAFETY: the gate is shut, so the creator owns the setup.
            unsafe { *gate.setup.get() = setup };
        }
        gate.word.store(word, Ordering::Release);
        // From here on the thread may have passed, and the memory may be reused.
        futex::wake_at(address, 1);
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// Allocates a stack of the builder's size; by default 256 KB, plus what the program's
    /// thread-local storage needs. Real-time safe while one is free.
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

    /// Starts a thread on `stack`, which is marked live (call [`Stack::mark_idle`] after the
    /// join), and sets it up according to the builder. Refused steps are returned, and the thread
    /// runs in any case unless `all_or_nothing`. It calls `entry(argument)`, which must first
    /// call [`Gate::wait`] and then [`super::Name::give_caller`]. Not real-time safe.
    ///
    /// The creator doesn't wait for the thread, which may have a lower priority.
    ///
    /// # Safety
    /// `entry` may be called with `argument` on another thread; `gate` lives until that thread
    /// has passed it, and the stack until the thread has been joined.
    ///
    /// # Errors
    /// [`SpawnError::Thread`]: EAGAIN at a limit of threads, EBUSY when a thread already runs on
    /// the stack, EINVAL when the thread-local storage leaves too little of it;
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
        // SAFETY: by contract `entry` may be called with `argument`, and the stack lives until
        // the join.
        let created = unsafe { create(stack, entry, argument) };
        if let Some(kept) = kept {
            time::set_signal_mask(&kept);
        }
        let thread = created.map_err(|error| {
            stack.mark_idle();
            SpawnError::Thread(error)
        })?;
        // SAFETY: just created, and nothing joins it before this returns.
        let tid = unsafe { task::tid_of(thread) };
        let refused = self.place(tid);
        if refused.is_empty() || !all_or_nothing {
            // SAFETY: by contract the thread waits at the gate and keeps it.
            unsafe { Gate::open(gate, Some(Setup { tid, refused })) };
            return Ok((thread, tid));
        }
        // It ends with its creator's priority and CPUs, so no thread of lower priority than the
        // creator's delays the end.
        if let (Ok(mask), Ok(policy)) = (task::affinity(0), task::scheduling(0)) {
            let _ = task::set_affinity(tid, &mask);
            let _ = task::set_scheduling(tid, &policy);
        }
        // SAFETY: the thread still waits at the gate, which is shut.
        unsafe { Gate::open(gate, None) };
        // SAFETY: created above, about to end, and joined only here.
        let _ = unsafe { task::join(thread) };
        stack.mark_idle();
        Err(SpawnError::Refused(refused))
    }

    /// Sets the policy and the CPUs of the thread `tid`, and returns what was refused. The thread
    /// waits meanwhile, so the order hardly matters. But SCHED_DEADLINE needs the CPUs first, and
    /// a waiting thread is cheaper to move than a running one.
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

/// Makes a thread an ordinary one whatever it inherited, except for its nice value.
fn make_ordinary(tid: libc::pid_t) -> io::Result<()> {
    let now = task::scheduling(tid)?;
    if now.policy == libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    task::make_other(tid)
}

/// Creates a thread on a stack, with its creator's policy and CPUs.
///
/// # Safety
/// `entry` may be called with `argument` on another thread; the stack lives until the join.
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
    // SAFETY: by contract the stack is mapped and outlives the thread.
    let set =
        check_returned(unsafe { libc::pthread_attr_setstack(&mut attributes, base, stack.len()) });
    let mut thread: libc::pthread_t = 0;
    let created = set.and_then(|()| {
        // SAFETY: by contract `entry` may be called with `argument` on another thread.
        check_returned(unsafe { libc::pthread_create(&mut thread, &attributes, entry, argument) })
    });
    // SAFETY: initialised above, destroyed once.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
    created.map(|()| thread)
}

/// Sets policy and priority in attributes for `pthread_create`, and PTHREAD_EXPLICIT_SCHED,
/// without which they have no effect. No system call.
///
/// # Safety
/// `attributes` points to initialised attributes.
///
/// # Errors
/// ENOTSUP for SCHED_DEADLINE, which POSIX attributes don't support; EINVAL for a priority out of
/// range.
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
    // SAFETY: by contract `attributes` is initialised.
    check_returned(unsafe {
        libc::pthread_attr_setinheritsched(attributes, libc::PTHREAD_EXPLICIT_SCHED)
    })?;
    // SAFETY: by contract `attributes` is initialised.
    check_returned(unsafe { libc::pthread_attr_setschedpolicy(attributes, number) })?;
    // SAFETY: all-zero bytes are a valid value of this plain C struct.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = policy.priority() as c_int;
    // SAFETY: by contract `attributes` is initialised; the parameters are a live local.
    check_returned(unsafe { libc::pthread_attr_setschedparam(attributes, &parameters) })
}
