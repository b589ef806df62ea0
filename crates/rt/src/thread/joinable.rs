//! A thread on a stack of this library: joining it, or detaching it.
//!
//! After `pthread_detach` nothing would know when the stack becomes free, since a thread can't
//! free the stack that it runs on. So a detached thread stays joinable for the C library. It is
//! kept in a list, and [`reap`] joins those that have ended and frees their stacks.
#![expect(
    unsafe_code,
    reason = "one owner of each join, and the list of detached threads"
)]

use std::ffi::c_void;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use super::{Builder, Gate, Name, SpawnError};
use crate::stack::Stack;
use crate::sys::task;

/// A thread that is not yet joined, with its stack.
#[derive(Debug)]
pub struct Joinable {
    thread: libc::pthread_t,
    tid: libc::pid_t,
    stack: Stack,
    /// The process of the thread: after a fork the child has a copy of this.
    process: u32,
    /// The next in the list of detached threads.
    next: *mut Self,
    start: Start,
}

// SAFETY: pthread_t is valid in the whole process, `next` is null or owned by this, and the start
// is only used by the thread, whichever thread holds this.
unsafe impl Send for Joinable {}

/// The main function of a C thread, through which `pthread_exit` and `pthread_cancel` unwind.
pub type Main = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// The start parameters of a C thread. They are freed with the rest after the join, not by the
/// thread: a `free` there would create a malloc arena for it, by system calls, before its first
/// line.
#[derive(Debug, Default)]
pub struct Start {
    gate: Gate,
    name: Name,
    main: Option<Main>,
    argument: *mut c_void,
}

impl Start {
    /// The start of a thread that calls `main(argument)` and has this name. Real-time safe.
    #[must_use]
    pub fn new(name: Name, main: Main, argument: *mut c_void) -> Self {
        Self {
            gate: Gate::new(),
            name,
            main: Some(main),
            argument,
        }
    }

    /// Waits until the calling thread is set up, and names it. Returns what it must call next, or
    /// `None` if it was given up. Real-time safe; at most two system calls.
    pub fn wait(&self) -> Option<(Main, *mut c_void)> {
        self.gate.wait()?;
        // The kernel cuts long names; naming has no other error.
        let _ = self.name.give_caller();
        Some((self.main?, self.argument))
    }
}

/// Detached threads: pushed one by one, removed all at once, so no lock is held across a fork.
static DETACHED: AtomicPtr<Joinable> = AtomicPtr::new(null_mut());

impl Joinable {
    /// Wraps a thread of [`super::Builder::create_on`] with the stack that it runs on.
    ///
    /// # Safety
    /// Nothing else joins or detaches the thread, now or later.
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

    /// Starts the thread on the stack of this, with all settings of the builder or not at all. It
    /// calls `entry` with a pointer to the [`Start`]. The result becomes a box again after the
    /// join, or to be detached. Not real-time safe.
    ///
    /// # Safety
    /// `self` is from [`Joinable::unstarted`]. `entry` may be called with a pointer to the start
    /// on another thread, and first calls [`Start::wait`]. Nothing else joins or detaches the
    /// thread.
    ///
    /// # Errors
    /// Those of [`Builder::create_on`].
    pub unsafe fn launch(
        self: Box<Self>,
        builder: &Builder,
        entry: extern "C" fn(*mut c_void) -> *mut c_void,
    ) -> Result<NonNull<Self>, SpawnError> {
        // The thread reads its start while this thread writes the rest, so no reference to all of
        // it exists.
        let this = Box::into_raw(self);
        // SAFETY: just made from a box, and nothing writes to the field of the stack.
        let stack = unsafe { &(*this).stack };
        // SAFETY: made from a live box; the place of the start, which only the thread uses.
        let gate = unsafe { &raw const (*this).start.gate };
        // SAFETY: made from a live box; a reference to the gate alone, which is shared by design.
        let start = unsafe { &raw mut (*this).start };
        // SAFETY: by contract `entry` may be called so; gate and stack live until the join.
        let created = unsafe { builder.create_on(stack, gate, true, entry, start.cast()) };
        match created {
            Ok((thread, tid)) => {
                // SAFETY: only this thread uses this field and the next: the new thread only uses
                // the start.
                unsafe { (*this).thread = thread };
                // SAFETY: only this thread uses this field: the new thread only uses the start.
                unsafe { (*this).tid = tid };
                // Not a box before the join: a box asserts exclusive access.
                // SAFETY: made from the box above, so not null.
                Ok(unsafe { NonNull::new_unchecked(this) })
            }
            Err(error) => {
                // SAFETY: made from the box above; no thread exists, or it was joined.
                drop(unsafe { Box::from_raw(this) });
                Err(error)
            }
        }
    }

    /// The thread's POSIX handle. Real-time safe.
    #[must_use]
    pub fn thread(&self) -> libc::pthread_t {
        self.thread
    }

    /// The thread's id in the kernel. Real-time safe.
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
    /// idle, and is freed by a drop. Not real-time safe: it waits.
    ///
    /// # Safety
    /// After an `Ok` of any join, `self` is only dropped.
    ///
    /// # Errors
    /// EDEADLK: the thread is the caller; ESRCH: it runs in the process that forked this one.
    pub unsafe fn join(&self) -> io::Result<*mut c_void> {
        self.belongs_here()?;
        // SAFETY: created joinable, and by contract no join has succeeded before.
        self.ended(unsafe { task::join(self.thread) })
    }

    /// Like [`Joinable::join`], without waiting. One system call when the thread has ended.
    ///
    /// # Safety
    /// That of [`Joinable::join`].
    ///
    /// # Errors
    /// EBUSY: the thread has not ended; ESRCH: it runs in the process that forked this one.
    pub unsafe fn try_join(&self) -> io::Result<*mut c_void> {
        self.belongs_here()?;
        // SAFETY: created joinable, and by contract no join has succeeded before.
        self.ended(unsafe { task::try_join(self.thread) })
    }

    /// Like [`Joinable::join`], but waits until an instant of CLOCK_MONOTONIC at most, in ns.
    ///
    /// # Safety
    /// That of [`Joinable::join`].
    ///
    /// # Errors
    /// ETIMEDOUT: the thread has not ended; EDEADLK: it is the caller; ESRCH: it runs in the
    /// process that forked this one.
    pub unsafe fn join_until(&self, at_ns: u64) -> io::Result<*mut c_void> {
        self.belongs_here()?;
        // SAFETY: created joinable, and by contract no join has succeeded before.
        self.ended(unsafe { task::join_until(self.thread, at_ns) })
    }

    /// ESRCH in a child of a fork: the thread belongs to the parent, and the C library would wait
    /// for its end for ever.
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

    /// Detaches the thread: [`reap`] frees its stack after its end. Real-time safe: a
    /// compare-and-swap, repeated while other threads detach.
    pub fn detach(self: Box<Self>) {
        let this = Box::into_raw(self);
        let mut first = DETACHED.load(Ordering::Relaxed);
        loop {
            // SAFETY: the box is owned by this call until the exchange succeeds.
            unsafe { (*this).next = first };
            match DETACHED.compare_exchange_weak(first, this, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(now) => first = now,
            }
        }
    }
}

/// Frees the stacks of detached threads that have ended, and returns how many.
/// [`super::Builder::start`] and [`super::Builder::spawn`] call it first, so there are never more
/// stacks than the largest number of threads at a time. Not real-time safe: it walks over all
/// detached threads.
pub fn reap() -> usize {
    let mut next = DETACHED.swap(null_mut(), Ordering::Acquire);
    let mut reaped = 0;
    while !next.is_null() {
        // SAFETY: `detach` pushed this box, and the exchange above made this thread the list's
        // only owner.
        let joinable = unsafe { Box::from_raw(next) };
        next = joinable.next;
        if joinable.belongs_here().is_err() {
            // In a forked child the C library has dropped the thread, so its state is unknown.
            std::mem::forget(joinable);
            continue;
        }
        // SAFETY: `detach` consumed the only owner, and after an `Ok` the box is only dropped.
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
    fn the_stack_of_a_detached_thread_is_freed_after_its_end_and_not_before() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let handle = Builder::new().start(move || told.recv().is_err()).unwrap();
        let base = handle.stack().base().as_ptr() as usize;
        handle.detach();
        reap();
        assert!(locate(base).unwrap().in_use);
        drop(tell);
        // A thread of another test may get the stack at once, so the counts are not compared.
        let limit = clock::now_ns() + 20_000_000_000;
        while locate(base).is_some_and(|place| place.in_use) {
            assert!(clock::now_ns() < limit, "the stack did not come back");
            reap();
            std::thread::yield_now();
        }
    }

    #[test]
    fn try_join_joins_an_ended_thread_but_not_a_running_one() {
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
