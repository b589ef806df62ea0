//! Starts a thread with the correct order of steps: stack, name, CPUs, policy, then your code.
//!
//! The thread runs on a prefaulted, guarded stack, and its creator sets it up before it runs any
//! of your code. What the kernel refused is reported step by step, so nothing degrades silently.
//! The thread needs no processor time before it has its priority, so no thread of lower priority
//! can delay its start.
#![allow(
    unsafe_code,
    reason = "what passes through pthread_create, and the join"
)]

mod joinable;
mod launch;
mod name;
mod start_line;

use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

pub use joinable::{Joinable, Main, Start, reap};
pub use launch::{Gate, explicit_sched};
pub use name::Name;
pub use start_line::StartLine;

use crate::advice::{Attempt, advice};
use crate::sched::Policy;
use crate::stack::StackError;
use crate::sys::{task, time};
use crate::{affinity, sched};

/// The settings of a new thread.
#[derive(Debug, Clone)]
pub struct Builder {
    name: Name,
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
    /// A thread with SCHED_OTHER on any CPU with a stack of 256 KB, or larger where the program's
    /// thread-local storage leaves less than 192 KB of that. For setting up: it allocates.
    #[must_use]
    pub fn new() -> Self {
        Self {
            name: Name::default(),
            stack_size: 0,
            policy: Policy::Other,
            cpus: Vec::new(),
            block_signals: true,
        }
    }

    /// Sets the name; the kernel keeps 15 bytes. Real-time safe.
    #[must_use]
    pub fn name(self, name: &str) -> Self {
        self.name_bytes(name.as_bytes())
    }

    /// Like [`Builder::name`], with a name that needn't be UTF-8. Real-time safe.
    #[must_use]
    pub fn name_bytes(mut self, name: &[u8]) -> Self {
        self.name = Name::new(name);
        self
    }

    /// The name that was set. Real-time safe.
    #[must_use]
    pub fn thread_name(&self) -> Name {
        self.name
    }

    /// Sets the stack size in bytes, at most 2 MB, rounded up to a class of [`crate::stack`]; 0
    /// is the default of [`Builder::new`]. It includes the thread-local storage of the program.
    /// Real-time safe.
    #[must_use]
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// Sets the scheduling policy. Real-time safe.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets the CPUs that the thread may use; an empty list keeps its creator's. For setting up:
    /// it allocates.
    #[must_use]
    pub fn cpus(self, cpus: &[usize]) -> Self {
        self.cpus_vec(cpus.to_vec())
    }

    /// Like [`Builder::cpus`], without allocating. Not real-time safe: it frees the previous
    /// list.
    #[must_use]
    pub fn cpus_vec(mut self, cpus: Vec<usize>) -> Self {
        self.cpus = cpus;
        self
    }

    /// Sets whether signals are blocked in the thread, which is the default: handlers then run in
    /// threads that have no deadline. Signals that an instruction causes (SIGSEGV, SIGBUS,
    /// SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT) are never blocked: the kernel would end the
    /// program. Real-time safe.
    #[must_use]
    pub fn block_signals(mut self, block: bool) -> Self {
        self.block_signals = block;
        self
    }

    /// Starts the thread. `body` gets the list of settings that were refused; if it is empty, all
    /// requested settings are in force. Not real-time safe: it allocates.
    ///
    /// # Errors
    /// The error of the stack, or pthread_create's EAGAIN at a limit of threads.
    pub fn spawn<R: Send + 'static>(
        self,
        body: impl FnOnce(Setup) -> R + Send + 'static,
    ) -> Result<Handle<R>, SpawnError> {
        self.launch(false, body)
    }

    /// Starts the thread, or gives it up if any setting was refused: `body` runs with all
    /// requested settings in force, or not at all. The creator doesn't wait until it runs. Not
    /// real-time safe: it allocates.
    ///
    /// # Errors
    /// Those of [`Builder::spawn`], and [`SpawnError::Refused`].
    pub fn start<R: Send + 'static>(
        self,
        body: impl FnOnce() -> R + Send + 'static,
    ) -> Result<Handle<R>, SpawnError> {
        self.launch(true, |_| body())
    }

    fn launch<R: Send + 'static>(
        self,
        all_or_nothing: bool,
        body: impl FnOnce(Setup) -> R + Send + 'static,
    ) -> Result<Handle<R>, SpawnError> {
        reap();
        let stack = self.stack().map_err(SpawnError::Stack)?;
        let result = Arc::new(Mutex::new(None));
        let told = Arc::clone(&result);
        let name = self.name;
        let main: Body = Box::new(move |mut setup| {
            if let Err(error) = name.give_caller() {
                setup.refused.push(Refusal {
                    step: "name",
                    error,
                    attempt: Attempt::Thread,
                });
            }
            // A panic must not unwind into the C library's frames.
            let outcome = catch_unwind(AssertUnwindSafe(|| body(setup)));
            *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
        });
        let start = Box::into_raw(Box::new(Launch {
            gate: Gate::new(),
            main,
        }));
        // SAFETY: just allocated, and `enter` keeps it until it has passed the gate.
        let gate = unsafe { &raw const (*start).gate };
        // SAFETY: `enter` takes over the start, which nothing else uses from now on, and the
        // handle keeps the stack until it has joined.
        let created = unsafe { self.create_on(&stack, gate, all_or_nothing, enter, start.cast()) };
        match created {
            Ok((thread, tid)) => {
                // SAFETY: just created, and only the handle joins it.
                let joinable = unsafe { Joinable::new(thread, tid, stack) };
                Ok(Handle {
                    joinable: Some(Box::new(joinable)),
                    result,
                })
            }
            Err(error) => {
                if !matches!(error, SpawnError::Refused(_)) {
                    // SAFETY: no thread was created, so this function still owns the start.
                    drop(unsafe { Box::from_raw(start) });
                }
                Err(error)
            }
        }
    }

    /// Applies the settings (except the stack) to the calling thread, e.g. the primary thread,
    /// and returns what was refused. Not for a real-time thread in its real-time section.
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
            let blocked = time::block_asynchronous_signals().map(drop);
            note("signals", Attempt::Thread, blocked);
        }
        note("name", Attempt::Thread, self.name.give_caller());
        let place = || match self.cpus.is_empty() {
            true => Ok(()),
            false => affinity::set_current(&self.cpus),
        };
        // An ordinary thread that stays one keeps its nice value.
        let rise = || match self.policy {
            Policy::Other if !sched::is_real_time(0).unwrap_or(true) => Ok(()),
            Policy::Other => task::make_other(0),
            policy => sched::set_current(policy),
        };
        let policy = Attempt::Policy(self.policy);
        // On its new CPUs the thread competes with its own priority, so that is set first; a
        // thread that lowers its priority does so last.
        match self.policy {
            Policy::Fifo(_) | Policy::RoundRobin(_) => {
                let risen = rise();
                note("affinity", Attempt::Affinity, place());
                note("policy", policy, risen);
            }
            Policy::Other => {
                note("affinity", Attempt::Affinity, place());
                note("policy", policy, rise());
            }
            Policy::Deadline { .. } => {
                // The kernel needs the CPUs first; until then the thread has the highest
                // priority.
                let before = task::scheduling(0);
                let lifted = !self.cpus.is_empty() && sched::set_current(HIGHEST).is_ok();
                note("affinity", Attempt::Affinity, place());
                let risen = rise();
                if let (true, true, Ok(before)) = (lifted, risen.is_err(), before) {
                    let _ = task::set_scheduling(0, &before);
                }
                note("policy", policy, risen);
            }
        }
        Setup {
            tid: task::current_tid(),
            refused,
        }
    }
}

const HIGHEST: Policy = Policy::Fifo(99);

/// The result of setting up a thread.
#[derive(Debug, Default)]
pub struct Setup {
    /// Its thread id.
    pub tid: i32,
    /// What the kernel refused.
    pub refused: Vec<Refusal>,
}

/// One setting that the kernel refused.
#[derive(Debug)]
pub struct Refusal {
    /// `signals`, `name`, `affinity` or `policy`.
    pub step: &'static str,
    /// The kernel's error.
    pub error: io::Error,
    /// The attempted operation.
    pub attempt: Attempt,
}

impl Refusal {
    /// The kernel's errno; EINVAL if the kernel was not reached. Real-time safe.
    #[must_use]
    pub fn errno(&self) -> c_int {
        self.error.raw_os_error().unwrap_or(libc::EINVAL)
    }

    /// What the error means, and how to fix it. Real-time safe, except for EPERM under
    /// SCHED_DEADLINE, where it queries the kernel.
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
    /// The stack could not be allocated.
    Stack(StackError),
    /// The thread could not be created.
    Thread(io::Error),
    /// A setting was refused; the list is never empty.
    Refused(Vec<Refusal>),
}

impl std::fmt::Display for SpawnError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stack(error) => write!(f, "no stack for the thread: {error}"),
            Self::Thread(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EAGAIN);
                let advice = advice(Attempt::Thread, errno).to_string_lossy();
                write!(f, "could not start the thread: {error} ({advice})")
            }
            Self::Refused(refused) => {
                write!(f, "the thread could not be set up as requested")?;
                refused
                    .iter()
                    .try_for_each(|refusal| write!(f, "; {refusal}"))
            }
        }
    }
}

impl std::error::Error for SpawnError {}

type Outcome<R> = Arc<Mutex<Option<std::thread::Result<R>>>>;

/// A running thread. Dropping it waits for the thread's end, because the thread runs on a stack
/// that the handle owns.
pub struct Handle<R> {
    /// `None` after the thread was joined or detached.
    joinable: Option<Box<Joinable>>,
    result: Outcome<R>,
}

impl<R> Handle<R> {
    /// Waits for the thread and returns what it returned, or its panic. Not
    /// real-time safe.
    ///
    /// # Errors
    /// The payload of the thread's panic.
    pub fn join(mut self) -> std::thread::Result<R> {
        self.wait();
        self.outcome()
    }

    /// Like [`Handle::join`] if the thread has ended, without waiting. Not real-time safe: it
    /// frees memory.
    ///
    /// # Errors
    /// The handle, if the thread has not ended.
    pub fn try_join(self) -> Result<std::thread::Result<R>, Self> {
        // SAFETY: `join_by` drops the joinable after an `Ok`.
        self.join_by(|joinable| unsafe { joinable.try_join() })
    }

    /// Like [`Handle::join`], but waits until an instant of CLOCK_MONOTONIC at most, in ns. Not
    /// real-time safe: it waits.
    ///
    /// # Errors
    /// The handle, if the thread has not ended by then.
    pub fn join_until(self, at_ns: u64) -> Result<std::thread::Result<R>, Self> {
        // SAFETY: `join_by` drops the joinable after an `Ok`.
        self.join_by(|joinable| unsafe { joinable.join_until(at_ns) })
    }

    fn join_by(
        mut self,
        join: impl FnOnce(&Joinable) -> io::Result<*mut c_void>,
    ) -> Result<std::thread::Result<R>, Self> {
        if let Some(joinable) = &self.joinable
            && join(joinable).is_err()
        {
            return Err(self);
        }
        self.joinable = None;
        Ok(self.outcome())
    }

    fn outcome(&self) -> std::thread::Result<R> {
        let outcome = self.result.lock().ok().and_then(|mut told| told.take());
        outcome.unwrap_or_else(|| Err(Box::new("the thread ended without a result")))
    }

    /// Lets the thread run without a handle. Its stack is freed when another thread is started
    /// after its end, or by [`reap`]. Real-time safe except for freeing the result.
    pub fn detach(mut self) {
        if let Some(joinable) = self.joinable.take() {
            joinable.detach();
        }
    }

    #[cfg(test)]
    fn stack(&self) -> &crate::stack::Stack {
        self.joinable.as_ref().expect("not joined").stack()
    }

    fn wait(&mut self) {
        if let Some(joinable) = self.joinable.take() {
            // SAFETY: the joinable was taken out of the handle, so it isn't joined again.
            let joined = unsafe { joinable.join() };
            if joined.is_err() {
                // The thread drops its own handle, and still runs on the stack.
                joinable.detach();
            }
        }
    }
}

impl<R> Drop for Handle<R> {
    fn drop(&mut self) {
        self.wait();
    }
}

type Body = Box<dyn FnOnce(Setup) + Send>;

/// The data that a new Rust thread gets from its creator.
struct Launch {
    gate: Gate,
    main: Body,
}

extern "C" fn enter(start: *mut c_void) -> *mut c_void {
    // SAFETY: `launch` made this pointer from a box and passed it only to this thread.
    let start = unsafe { Box::from_raw(start.cast::<Launch>()) };
    if let Some(setup) = start.gate.wait() {
        (start.main)(setup);
    }
    std::ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_its_name_its_cpu_and_returns_its_result() {
        let cpu = affinity::get(0).unwrap()[0];
        let handle = Builder::new()
            .name("a-name-too-long-for-it")
            .cpus(&[cpu])
            .spawn(|setup| {
                assert!(setup.refused.is_empty(), "{:?}", setup.refused);
                assert_eq!(setup.tid, task::current_tid());
                let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap();
                (name, affinity::get(0).unwrap())
            })
            .unwrap();
        let (name, cpus) = handle.join().unwrap();
        assert_eq!(name.trim(), "a-name-too-long");
        assert_eq!(cpus, [cpu]);
    }

    #[test]
    fn settings_that_the_kernel_refuses_are_reported() {
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
    fn start_fails_if_a_setting_is_refused() {
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

    /// The rest of a test isn't tried without CAP_SYS_NICE, and for no other reason.
    #[allow(clippy::print_stderr, reason = "says what was not tried")]
    fn not_permitted(error: &str) {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let mut lines = status.lines();
        let held = lines.find_map(|line| line.strip_prefix("CapEff:"));
        let held = u64::from_str_radix(held.unwrap().trim(), 16).unwrap();
        assert_eq!(held >> 23 & 1, 0, "{error}");
        eprintln!("SKIPPED: right: CAP_SYS_NICE");
    }

    #[test]
    fn a_real_time_thread_can_start_an_ordinary_one() {
        let creator = Builder::new().policy(Policy::Fifo(3)).start(|| {
            let made = Builder::new().start(|| sched::get(0)).unwrap();
            (sched::get(0).unwrap(), made.join().unwrap().unwrap())
        });
        match creator {
            Ok(creator) => assert_eq!(
                creator.join().unwrap(),
                (Some(Policy::Fifo(3)), Some(Policy::Other))
            ),
            Err(error) => not_permitted(&error.to_string()),
        }
    }

    #[test]
    fn a_thread_has_the_requested_settings_and_not_its_creators() {
        let idle = task::SchedAttr {
            size: size_of::<task::SchedAttr>() as u32,
            policy: libc::SCHED_IDLE as u32,
            ..task::SchedAttr::default()
        };
        let creator = std::thread::spawn(move || {
            task::set_nice(3).unwrap();
            task::set_scheduling(0, &idle).unwrap();
            let made = Builder::new().start(|| task::scheduling(0).unwrap());
            made.unwrap().join().unwrap()
        });
        let made = creator.join().unwrap();
        assert_eq!((made.policy, made.nice), (libc::SCHED_OTHER as u32, 3));
    }

    #[test]
    fn the_nice_value_survives_a_real_time_policy() {
        let real_time = task::SchedAttr {
            size: size_of::<task::SchedAttr>() as u32,
            policy: libc::SCHED_FIFO as u32,
            priority: 1,
            ..task::SchedAttr::default()
        };
        let creator = std::thread::spawn(move || {
            task::set_nice(5).unwrap();
            task::set_scheduling(0, &real_time)?;
            let made = Builder::new().start(|| task::scheduling(0).unwrap());
            Ok::<_, io::Error>(made.unwrap().join().unwrap())
        });
        match creator.join().unwrap() {
            Ok(made) => assert_eq!((made.policy, made.nice), (libc::SCHED_OTHER as u32, 5)),
            Err(error) => not_permitted(&error.to_string()),
        }
    }

    #[test]
    fn the_stack_of_a_running_thread_can_not_be_freed() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let handle = Builder::new().start(move || told.recv().is_err()).unwrap();
        let stack = handle.stack();
        let (base, class) = (stack.base().as_ptr() as usize, stack.len());
        let class = crate::stack::Class::exact(class).unwrap();
        // SAFETY: a wrong free, which must be refused and change nothing.
        let freed = unsafe { crate::stack::free(base, class) };
        assert_eq!(freed, Err(StackError::InUse(base)));
        drop(tell);
        assert!(handle.join().unwrap());
        assert!(!crate::stack::locate(base).unwrap().in_use);
    }

    #[test]
    fn join_returns_the_panic_of_the_thread() {
        let handle = Builder::new()
            .spawn(|_| std::panic::resume_unwind(Box::new("as expected")))
            .unwrap();
        let payload = handle.join().unwrap_err();
        assert_eq!(*payload.downcast_ref::<&str>().unwrap(), "as expected");
    }

    #[test]
    fn a_stack_size_above_the_largest_class_is_refused() {
        assert!(matches!(
            Builder::new().stack_size(3 << 20).spawn(|_| ()),
            Err(SpawnError::Stack(_))
        ));
    }
}
