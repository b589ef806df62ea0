//! A thread that does everything in the right order: stack, name, CPUs, policy,
//! then your code.
//!
//! The thread is made on a prefaulted, guarded stack and sets itself up before it
//! runs a line of yours; what the kernel refused is told to the parent step by
//! step, so nothing degrades silently.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

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

    /// Names it; the kernel keeps 15 bytes.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// Bytes of stack, at most 2 MB, rounded up to a class of [`crate::stack`].
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Its scheduling policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The CPUs it may use; an empty list leaves its creator's.
    #[must_use]
    pub fn cpus(mut self, cpus: &[usize]) -> Self {
        self.cpus = cpus.to_vec();
        self
    }

    /// Whether all signals are blocked in it, which is the default: handlers then
    /// run in threads that have no deadline.
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
        let stack = Stack::new(self.stack_size).map_err(SpawnError::Stack)?;
        let result = Arc::new(Mutex::new(None));
        let told = Arc::clone(&result);
        let main = Box::new(move || {
            // The panic must not cross the C library's frames.
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let setup = self.set_up();
                body(setup)
            }));
            if let Ok(mut told) = told.lock() {
                *told = Some(outcome);
            }
        });
        let thread = create_on(&stack, main).map_err(SpawnError::Thread)?;
        Ok(Handle {
            thread: Some(thread),
            stack: Some(stack),
            result,
        })
    }

    fn set_up(&self) -> Setup {
        let mut refused = Vec::new();
        let mut note = |step: &'static str, outcome: io::Result<()>| {
            if let Err(error) = outcome {
                refused.push(Refusal { step, error });
            }
        };
        if self.block_signals {
            note("signals", time::block_all_signals());
        }
        if !self.name.is_empty() {
            note("name", task::name_current_thread(&self.name));
        }
        if !self.cpus.is_empty() {
            note("affinity", affinity::set_current(&self.cpus));
        }
        // Last: from here on the thread competes at its own priority.
        if self.policy != Policy::Other {
            note("policy", sched::set_current(self.policy));
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
}

/// Why a thread could not be started.
#[derive(Debug)]
pub enum SpawnError {
    /// No stack.
    Stack(StackError),
    /// No thread.
    Thread(io::Error),
}

impl std::fmt::Display for SpawnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stack(error) => write!(f, "can't make a stack for the thread: {error}"),
            Self::Thread(error) => write!(f, "can't start the thread: {error}"),
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

    /// Lets the thread run on by itself; its stack is given up to it for good.
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
        }
    }
}

impl<R> Drop for Handle<R> {
    fn drop(&mut self) {
        self.wait();
    }
}

type Main = Box<dyn FnOnce() + Send>;

extern "C" fn enter(argument: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `create_on` made this pointer from a box and handed it to us alone.
    let main = unsafe { Box::from_raw(argument.cast::<Main>()) };
    main();
    std::ptr::null_mut()
}

fn create_on(stack: &Stack, main: Main) -> io::Result<libc::pthread_t> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the memory is live and writable.
    check_returned(unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) })?;
    // SAFETY: pthread_attr_init has succeeded.
    let mut attributes = unsafe { attributes.assume_init() };
    let base = stack.base().as_ptr().cast();
    // SAFETY: the stack is mapped, unused, and outlives the thread: the handle
    // joins before it frees it.
    let set =
        check_returned(unsafe { libc::pthread_attr_setstack(&mut attributes, base, stack.len()) });
    let created = set.and_then(|()| {
        let argument = Box::into_raw(Box::new(main)).cast();
        let mut thread: libc::pthread_t = 0;
        // SAFETY: `enter` takes back the box that `argument` points to.
        let created = check_returned(unsafe {
            libc::pthread_create(&mut thread, &attributes, enter, argument)
        });
        if created.is_err() {
            // SAFETY: no thread was made, so the box is still ours.
            drop(unsafe { Box::from_raw(argument.cast::<Main>()) });
        }
        created.map(|()| thread)
    });
    // SAFETY: initialised above, destroyed once.
    unsafe { libc::pthread_attr_destroy(&mut attributes) };
    created
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
