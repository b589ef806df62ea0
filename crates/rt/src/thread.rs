//! A thread that does everything in the right order: stack, name, CPUs, policy,
//! then your code.
//!
//! The thread is made on a prefaulted, guarded stack and sets itself up before it
//! runs a line of yours; what the kernel refused is told to the parent step by
//! step, so nothing degrades silently.

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use crate::advice::{Attempt, advice};
use crate::sched::Policy;
use crate::stack::{Stack, StackError};
use crate::sys::{check_returned, task, time};
use crate::{affinity, sched};

/// What a new thread is to be.
#[derive(Debug, Clone)]
pub struct Builder {
    name: String,
    stack_size: usize,
    policy: Policy,
    cpus: Vec<usize>,
    block_signals: bool,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// A thread at SCHED_OTHER on any CPU with a stack of 256 KB.
    /// For setting up: it allocates.
    #[must_use]
    pub fn new() -> Self {
        Self {
            name: String::new(),
            stack_size: 256 << 10,
            policy: Policy::Other,
            cpus: Vec::new(),
            block_signals: true,
        }
    }

    /// Names it; the kernel keeps 15 bytes. For setting up: it allocates.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Bytes of stack, at most 2 MB, rounded up to a class of [`crate::stack`].
    /// Real-time safe.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Bytes of stack that were asked for. Real-time safe.
    #[must_use]
    pub fn stack_bytes(&self) -> usize {
        self.stack_size
    }

    /// Its scheduling policy. Real-time safe.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The CPUs it may use; an empty list leaves its creator's. For setting up: it allocates.
    #[must_use]
    pub fn cpus(mut self, cpus: &[usize]) -> Self {
        self.cpus = cpus.to_vec();
        self
    }

    /// Whether all signals are blocked in it, which is the default: handlers then
    /// run in threads that have no deadline. Real-time safe.
    #[must_use]
    pub fn block_signals(mut self, block: bool) -> Self {
        self.block_signals = block;
        self
    }

    /// Starts the thread. `body` gets what was refused while it set itself up: an
    /// empty list means that everything asked for is in force. Not real-time safe.
    ///
    /// # Errors
    /// The stack's, or pthread_create's EAGAIN at a limit of threads.
    pub fn spawn<R: Send + 'static>(
        self,
        body: impl FnOnce(Setup) -> R + Send + 'static,
    ) -> Result<Handle<R>, SpawnError> {
        self.launch(None, body)
    }

    /// Starts the thread, waits until it has set itself up, and gives it up if anything was
    /// refused: `body` runs with everything asked for in force, or not at all. Not real-time
    /// safe.
    ///
    /// # Errors
    /// As [`Builder::spawn`], and [`SpawnError::Refused`].
    pub fn start<R: Send + 'static>(
        self,
        body: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Handle<R>, SpawnError> {
        let (tell, told) = sync_channel(1);
        let handle = self.launch(Some(tell), |_| body())?;
        match told.recv() {
            Ok(refused) if refused.is_empty() => Ok(handle),
            // The handle's drop joins the thread, which is about to end.
            Ok(refused) => Err(SpawnError::Refused(refused)),
            Err(_) => Err(SpawnError::Thread(io::Error::other("it ended at once"))),
        }
    }

    fn launch<R: Send + 'static>(
        self,
        all_or_nothing: Option<SyncSender<Vec<Refusal>>>,
        body: impl FnOnce(Setup) -> R + Send + 'static,
    ) -> Result<Handle<R>, SpawnError> {
        let stack = Stack::new(self.stack_size).map_err(SpawnError::Stack)?;
        let result = Arc::new(Mutex::new(None));
        let told = Arc::clone(&result);
        let main: Main = Box::new(move || {
            let mut setup = self.apply();
            if let Some(tell) = all_or_nothing {
                let goes_on = setup.refused.is_empty();
                if tell.send(std::mem::take(&mut setup.refused)).is_err() || !goes_on {
                    return;
                }
            }
            // The panic must not cross the C library's frames.
            let outcome = catch_unwind(AssertUnwindSafe(|| body(setup)));
            if let Ok(mut told) = told.lock() {
                *told = Some(outcome);
            }
        });
        let argument = Box::into_raw(Box::new(main));
        // SAFETY: `enter` takes back the box that the argument points to, and the handle
        // keeps the stack until it has joined.
        let thread = unsafe { create_on(&stack, enter, argument.cast()) }.map_err(|error| {
            // SAFETY: no thread was made, so the box is still ours.
            drop(unsafe { Box::from_raw(argument) });
            SpawnError::Thread(error)
        })?;
        Ok(Handle {
            thread: Some(thread),
            stack: Some(stack),
            result,
        })
    }

    /// Makes the calling thread what the builder says (its stack excepted), e.g. the primary
    /// thread, and tells what was refused. Not for a real-time thread on duty.
    #[must_use]
    pub fn apply(&self) -> Setup {
        let mut refused = Vec::new();
        let mut note = |step, attempt, outcome: io::Result<()>| {
            if let Err(error) = outcome {
                refused.push(Refusal {
                    step,
                    error,
                    attempt,
                });
            }
        };
        if self.block_signals {
            note("signals", Attempt::Thread, time::block_all_signals());
        }
        if !self.name.is_empty() {
            note(
                "name",
                Attempt::Thread,
                task::name_current_thread(&self.name),
            );
        }
        if !self.cpus.is_empty() {
            note(
                "affinity",
                Attempt::Affinity,
                affinity::set_current(&self.cpus),
            );
        }
        // Last: from here on the thread competes at its own priority. A thread that is to be
        // an ordinary one doesn't inherit its creator's priority, and keeps its nice value.
        if self.policy != Policy::Other || sched::is_real_time(0).unwrap_or(true) {
            let outcome = sched::set_current(self.policy);
            note("policy", Attempt::Policy(self.policy), outcome);
        }
        Setup {
            tid: task::current_tid(),
            refused,
        }
    }
}

/// What became of a new thread's wishes.
#[derive(Debug)]
pub struct Setup {
    /// Its thread id.
    pub tid: i32,
    /// What the kernel refused.
    pub refused: Vec<Refusal>,
}

/// One step that the kernel refused.
#[derive(Debug)]
pub struct Refusal {
    /// `signals`, `name`, `affinity` or `policy`.
    pub step: &'static str,
    /// The kernel's answer.
    pub error: io::Error,
    /// What was tried.
    pub attempt: Attempt,
}

impl Refusal {
    /// The number of the kernel's answer, EINVAL where it never got to the kernel.
    /// Real-time safe.
    #[must_use]
    pub fn errno(&self) -> c_int {
        self.error.raw_os_error().unwrap_or(libc::EINVAL)
    }

    /// What the answer means, and what to mend.
    /// Real-time safe, but for EPERM under DEADLINE, where it asks the kernel.
    #[must_use]
    pub fn advice(&self) -> &'static CStr {
        advice(self.attempt, self.errno())
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let advice = self.advice().to_string_lossy();
        write!(f, "{}: {} ({advice})", self.step, self.error)
    }
}

/// Why a thread could not be started.
#[derive(Debug)]
pub enum SpawnError {
    /// No stack.
    Stack(StackError),
    /// No thread.
    Thread(io::Error),
    /// Something it was to be was refused; never an empty list.
    Refused(Vec<Refusal>),
}

impl std::fmt::Display for SpawnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stack(error) => write!(f, "can't make a stack for the thread: {error}"),
            Self::Thread(error) => write!(f, "can't start the thread: {error}"),
            Self::Refused(refused) => {
                write!(f, "the thread can't be what it is to be")?;
                refused
                    .iter()
                    .try_for_each(|refusal| write!(f, "; {refusal}"))
            }
        }
    }
}

impl std::error::Error for SpawnError {}

type Outcome<R> = Arc<Mutex<Option<std::thread::Result<R>>>>;

/// A running thread. Dropping it waits for the thread's end, for the thread
/// stands on a stack that the handle owns.
pub struct Handle<R> {
    thread: Option<libc::pthread_t>,
    stack: Option<Stack>,
    result: Outcome<R>,
}

// SAFETY: pthread_t is a process-wide handle, joined once by whoever owns this.
unsafe impl<R: Send> Send for Handle<R> {}

impl<R> Handle<R> {
    /// Waits for the thread and returns what it returned, or its panic. Not
    /// real-time safe.
    ///
    /// # Errors
    /// The payload of the thread's panic.
    pub fn join(mut self) -> std::thread::Result<R> {
        self.wait();
        let outcome = self.result.lock().ok().and_then(|mut told| told.take());
        outcome.unwrap_or_else(|| Err(Box::new("the thread ended without a result")))
    }

    /// Lets the thread run on by itself; its stack is given up to it for good. For setting up.
    pub fn leave(mut self) {
        if let Some(thread) = self.thread.take() {
            // SAFETY: joinable, ours, and given up here once.
            unsafe { libc::pthread_detach(thread) };
        }
        // Never freed: the thread stands on it.
        std::mem::forget(self.stack.take());
    }

    fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            // SAFETY: joinable, ours, joined once: `take` sees to that.
            let _ = unsafe { task::join(thread) };
            if let Some(stack) = &self.stack {
                stack.mark_idle();
            }
        }
    }
}

impl<R> Drop for Handle<R> {
    fn drop(&mut self) {
        self.wait();
    }
}

type Main = Box<dyn FnOnce() + Send>;

extern "C" fn enter(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `launch` made this pointer from a box and handed it to us alone.
    let main = unsafe { Box::from_raw(argument.cast::<Main>()) };
    main();
    std::ptr::null_mut()
}

/// Starts a thread on `stack`, which is marked live: after the join comes
/// [`Stack::mark_idle`]. The thread begins as an ordinary one on its creator's CPUs, whatever
/// its creator's priority; [`Builder::apply`] is for its first line. Not real-time safe.
///
/// # Safety
/// `entry` may be called with `argument` on another thread, and the stack is kept until the
/// thread has been joined.
///
/// # Errors
/// EAGAIN at a limit of threads, EBUSY when a thread runs on the stack already.
pub unsafe fn create_on(
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
    // The default is to inherit: a real-time creator would give its priority away. Said
    // in full, for glibc acts on what was set alone.
    // SAFETY: the attributes are initialised.
    let set = set.and_then(|()| unsafe { explicit_sched(&mut attributes, Policy::Other) });
    let created = set.and_then(|()| {
        if !stack.mark_live() {
            return Err(io::Error::from_raw_os_error(libc::EBUSY));
        }
        let mut thread: libc::pthread_t = 0;
        // SAFETY: the caller's promise.
        let created = check_returned(unsafe {
            libc::pthread_create(&mut thread, &attributes, entry, argument)
        });
        if created.is_err() {
            stack.mark_idle();
        }
        created.map(|()| thread)
    });
    // SAFETY: initialised above, destroyed once.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
    created
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_its_name_its_cpu_and_returns_its_result() {
        let cpu = affinity::of(0).unwrap()[0];
        let handle = Builder::new()
            .name("a-name-too-long-for-it")
            .cpus(&[cpu])
            .spawn(|setup| {
                assert!(setup.refused.is_empty(), "{:?}", setup.refused);
                assert_eq!(setup.tid, task::current_tid());
                let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
                (name, affinity::of(0).unwrap())
            })
            .unwrap();
        let (name, cpus) = handle.join().unwrap();
        assert_eq!(name.trim(), "a-name-too-long");
        assert_eq!(cpus, [cpu]);
    }

    #[test]
    fn what_the_kernel_refuses_is_told() {
        let handle = Builder::new()
            .cpus(&[affinity::MAX_CPUS - 1])
            .policy(Policy::Fifo(100))
            .spawn(|setup| {
                setup
                    .refused
                    .iter()
                    .map(|refusal| refusal.step)
                    .collect::<Vec<_>>()
            })
            .unwrap();
        assert_eq!(handle.join().unwrap(), ["affinity", "policy"]);
    }

    #[test]
    fn a_thread_that_can_not_be_what_it_is_to_be_does_not_start() {
        let started = Builder::new()
            .policy(Policy::Fifo(100))
            .start(|| unreachable!("the body runs"));
        let Err(SpawnError::Refused(refused)) = started else {
            panic!("not refused");
        };
        assert_eq!(refused[0].errno(), libc::EINVAL);
        assert!(refused[0].to_string().contains("between 1 and 99"));
        assert_eq!(Builder::new().start(|| 5).unwrap().join().unwrap(), 5);
    }

    #[test]
    fn an_ordinary_thread_of_a_real_time_one_is_ordinary() {
        let creator = Builder::new().policy(Policy::Fifo(3)).start(|| {
            let made = Builder::new().start(|| sched::of(0)).unwrap();
            (sched::of(0).unwrap(), made.join().unwrap().unwrap())
        });
        match creator {
            Ok(creator) => assert_eq!(
                creator.join().unwrap(),
                (Some(Policy::Fifo(3)), Some(Policy::Other))
            ),
            Err(error) => {
                #[allow(clippy::print_stderr, reason = "says what was not tried")]
                {
                    eprintln!("SKIPPED: {error}");
                }
            }
        }
    }

    #[test]
    fn the_stack_of_a_running_thread_can_not_be_freed() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let handle = Builder::new().start(move || told.recv().is_err()).unwrap();
        let stack = handle.stack.as_ref().unwrap();
        let (base, class) = (stack.base().as_ptr() as usize, stack.len());
        let class = crate::stack::Class::exact(class).unwrap();
        // SAFETY: a wrong free, which must change nothing.
        let freed = unsafe { crate::stack::free(base, class) };
        assert_eq!(freed, Err(StackError::InUse(base)));
        drop(tell);
        assert!(handle.join().unwrap());
        assert!(!crate::stack::locate(base).unwrap().in_use);
    }

    #[test]
    fn a_panic_is_handed_to_the_parent() {
        let handle = Builder::new()
            .spawn(|_| std::panic::resume_unwind(Box::new("as expected")))
            .unwrap();
        let payload = handle.join().unwrap_err();
        assert_eq!(*payload.downcast_ref::<&str>().unwrap(), "as expected");
    }

    #[test]
    fn a_stack_beyond_the_largest_class_is_refused() {
        assert!(matches!(
            Builder::new().stack_size(3 << 20).spawn(|_| ()),
            Err(SpawnError::Stack(_))
        ));
    }
}
