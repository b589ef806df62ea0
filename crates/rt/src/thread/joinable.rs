//! A thread on a stack of this library: waiting for its end, or detaching it.
//!
//! `pthread_detach` would leave nobody who knows when the stack is free, since a thread can't free
//! the stack that it runs on. A detached thread stays joinable for the C library. It is kept in a
//! list, and [`reap`] joins those that have ended and takes their stacks back.

use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{Builder, Gate, Name, SpawnError};
use crate::stack::Stack;
use crate::sys::task;

/// A thread that was not joined yet, with its stack.
#[derive(Debug)]
pub struct Joinable {
    thread: libc::pthread_t,
    tid: libc::pid_t,
    stack: Stack,
    /// The process that the thread belongs to: after a fork the child has a copy of this.
    process: u32,
    /// The next one of the list of detached threads.
    next: *mut Self,
    start: Start,
}

// SAFETY: pthread_t is valid in the whole process, `next` is null or owned by this, and the start
// is the thread's, which gets it in any case.
unsafe impl Send for Joinable {}

/// The function of a thread of C, through which `pthread_exit` and `pthread_cancel` unwind.
pub type Main = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// What a thread of C finds at its start. It is freed with the rest after the join: the thread
/// calls no `free`, which would give it a heap of its own, by system calls, before its first line.
#[derive(Debug, Default)]
pub struct Start {
    gate: Gate,
    name: Name,
    main: Option<Main>,
    argument: *mut c_void,
}

impl Start {
    /// Of a thread that calls `main(argument)` by this name. Real-time safe.
    #[must_use]
    pub fn new(name: Name, main: Main, argument: *mut c_void) -> Self {
        Self {
            gate: Gate::new(),
            name,
            main: Some(main),
            argument,
        }
    }

    /// Waits until the calling thread is set up, and names it; what it is to call then, unless it was
    /// given up. Real-time safe; at most two system calls.
    pub fn pass(&self) -> Option<(Main, *mut c_void)> {
        self.gate.pass()?;
        // The kernel cuts long names, and has no other answer.
        let _ = self.name.give_caller();
        Some((self.main?, self.argument))
    }
}

/// Detached threads: pushed one by one, taken all at once, so no lock is held across a fork.
static DETACHED: AtomicPtr<Joinable> = AtomicPtr::new(null_mut());

impl Joinable {
    /// For a thread of [`super::Builder::create_on`], with the stack that it runs on.
    ///
    /// # Safety
    /// Nobody else joins or detaches the thread, now or later.
    #[must_use]
    pub unsafe fn new(thread: libc::pthread_t, tid: libc::pid_t, stack: Stack) -> Self {
        Self {
            thread,
            tid,
            stack,
            process: std::process::id(),
            next: null_mut(),
            start: Start::default(),
        }
    }

    /// For [`Joinable::launch`]. Not real-time safe: it allocates.
    #[must_use]
    pub fn unstarted(stack: Stack, start: Start) -> Box<Self> {
        Box::new(Self {
            thread: 0,
            tid: 0,
            stack,
            process: std::process::id(),
            next: null_mut(),
            start,
        })
    }

    /// Starts the thread on the stack that this has, as the builder says or not at all: it calls
    /// `entry` with a pointer to the [`Start`]. What is returned is a box again after the join, or
    /// to be detached. Not real-time safe.
    ///
    /// # Safety
    /// This is [`Joinable::unstarted`]. `entry` may be called with a pointer to the start on another
    /// thread, and does first what [`Start::pass`] does. Nobody else joins or detaches the thread.
    ///
    /// # Errors
    /// Those of [`Builder::create_on`].
    pub unsafe fn launch(
        self: Box<Self>,
        builder: &Builder,
        entry: extern "C" fn(*mut c_void) -> *mut c_void,
    ) -> Result<NonNull<Self>, SpawnError> {
        // The thread looks at its start while this thread writes the rest: no reference to all of it.
        let this = Box::into_raw(self);
        // SAFETY: just made of a box, and nothing writes to the stack's fields.
        let stack = unsafe { &(*this).stack };
        // SAFETY: as for the stack.
        let gate = unsafe { &raw const (*this).start.gate };
        // SAFETY: as for the stack.
        let start = unsafe { &raw mut (*this).start };
        // SAFETY: what the caller promises of the entry; gate and stack live until the join.
        let created = unsafe { builder.create_on(stack, gate, true, entry, start.cast()) };
        match created {
            Ok((thread, tid)) => {
                // SAFETY: ours alone, like the number below: the thread looks at the start.
                unsafe { (*this).thread = thread };
                // SAFETY: as for the thread.
                unsafe { (*this).tid = tid };
                // No box before the join: that would be said to be this thread's alone.
                // SAFETY: from the box above.
                Ok(unsafe { NonNull::new_unchecked(this) })
            }
            Err(error) => {
                // SAFETY: from the box above; there is no thread, or it was joined.
                drop(unsafe { Box::from_raw(this) });
                Err(error)
            }
        }
    }

    /// The thread as POSIX functions know it. Real-time safe.
    #[must_use]
    pub fn thread(&self) -> libc::pthread_t {
        self.thread
    }

    /// The thread's number in the kernel. Real-time safe.
    #[must_use]
    pub fn tid(&self) -> libc::pid_t {
        self.tid
    }

    /// The stack that the thread runs on. Real-time safe.
    #[must_use]
    pub fn stack(&self) -> &Stack {
        &self.stack
    }

    /// Waits for the end of the thread, and returns what its function returned. Then the stack is
    /// idle and free with a drop. Not real-time safe: it waits.
    ///
    /// # Safety
    /// After an `Ok` of any join nothing but a drop is done with this.
    ///
    /// # Errors
    /// EDEADLK: the thread is the caller; ESRCH: it runs in the process that forked this one.
    pub unsafe fn join(&self) -> io::Result<*mut c_void> {
        self.belongs_here()?;
        // SAFETY: made joinable here, and no join has succeeded: the promise above.
        self.ended(unsafe { task::join(self.thread) })
    }

    /// As [`Joinable::join`], and doesn't wait. One system call where the thread has ended.
    ///
    /// # Safety
    /// As [`Joinable::join`].
    ///
    /// # Errors
    /// EBUSY: the thread has not ended; ESRCH: it runs in the process that forked this one.
    pub unsafe fn try_join(&self) -> io::Result<*mut c_void> {
        self.belongs_here()?;
        // SAFETY: made joinable here, and no join has succeeded: the promise above.
        self.ended(unsafe { task::try_join(self.thread) })
    }

    /// As [`Joinable::join`], and waits until an instant of CLOCK_MONOTONIC at most, in ns.
    ///
    /// # Safety
    /// As [`Joinable::join`].
    ///
    /// # Errors
    /// ETIMEDOUT: the thread has not ended; EDEADLK: it is the caller; ESRCH: it runs in the process that forked this one.
    pub unsafe fn join_until(&self, at_ns: u64) -> io::Result<*mut c_void> {
        self.belongs_here()?;
        // SAFETY: made joinable here, and no join has succeeded: the promise above.
        self.ended(unsafe { task::join_until(self.thread, at_ns) })
    }

    /// ESRCH in a child of a fork: the thread is the parent's, and the C library would wait for
    /// ever for its end.
    fn belongs_here(&self) -> io::Result<()> {
        match self.process == std::process::id() {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }

    fn ended(&self, joined: io::Result<*mut c_void>) -> io::Result<*mut c_void> {
        if joined.is_ok() {
            self.stack.mark_idle();
        }
        joined
    }

    /// Nobody waits for the thread any more: [`reap`] takes its stack back after its end.
    /// Real-time safe: a compare-and-swap, repeated while other threads detach.
    pub fn detach(self: Box<Self>) {
        let this = Box::into_raw(self);
        let mut first = DETACHED.load(Ordering::Relaxed);
        loop {
            // SAFETY: this is ours until the exchange succeeds.
            unsafe { (*this).next = first };
            match DETACHED.compare_exchange_weak(first, this, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }
}

/// Takes back the stacks of detached threads that have ended, and returns how many.
/// [`super::Builder::start`] and [`super::Builder::spawn`] do it first, so that at any time there
/// are at most as many stacks as there were threads at once. Not real-time safe: it walks over
/// all detached threads.
pub fn reap() -> usize {
    let mut next = DETACHED.swap(null_mut(), Ordering::Acquire);
    let mut reaped = 0;
    while !next.is_null() {
        // SAFETY: `detach` pushed this box, and the exchange above made the list ours alone.
        let joinable = unsafe { Box::from_raw(next) };
        next = joinable.next;
        if joinable.belongs_here().is_err() {
            // Here the C library has forgotten it, so nothing is known of it.
            std::mem::forget(joinable);
            continue;
        }
        // SAFETY: `detach` takes the only owner of it, and after an `Ok` it is dropped.
        match unsafe { joinable.try_join() } {
            Ok(_) => reaped += 1,
            Err(_) => joinable.detach(),
        }
    }
    reaped
}

#[cfg(all(test, not(miri)))]
mod tests {
    use crate::clock;
    use crate::stack::locate;
    use crate::thread::{Builder, reap};

    #[test]
    fn the_stack_of_a_detached_thread_comes_back_after_its_end_and_not_before() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let handle = Builder::new().start(move || told.recv().is_err()).unwrap();
        let base = handle.stack().base().as_ptr() as usize;
        handle.detach();
        reap();
        assert!(locate(base).unwrap().in_use);
        drop(tell);
        // Another test's thread may get the stack at once, so the counts are not compared.
        let limit = clock::now_ns() + 20_000_000_000;
        while locate(base).is_some_and(|place| place.in_use) {
            assert!(clock::now_ns() < limit, "the stack did not come back");
            reap();
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_runs_is_not_joined_and_one_that_has_ended_is() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let handle = Builder::new()
            .start(move || u32::from(told.recv().is_err()))
            .unwrap();
        let handle = handle.try_join().unwrap_err();
        let at = clock::now_ns() + 2_000_000;
        let handle = handle.join_until(at).unwrap_err();
        assert!(clock::now_ns() >= at);
        drop(tell);
        let far = clock::now_ns() + 20_000_000_000;
        let joined = handle.join_until(far).ok().expect("it has ended");
        assert_eq!(joined.unwrap(), 1);
    }
}
