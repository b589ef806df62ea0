//! The library that `punctual run` loads into a program, so that its threads run on prefaulted,
//! guarded stacks and its memory is locked; the program needs no change.
//!
//! It interposes the C library's `pthread_create` and related functions. In *pool* mode a new
//! thread gets a stack of [`punctual_rt::stack`]. In *wrap* mode it keeps its own stack, whose
//! upper part is prefaulted before the thread runs any code of the program.
//!
//! Difficulties, and how they are handled:
//! - glibc reports no guard for a stack from `pthread_attr_setstack`, and Rust's runtime then refuses
//!   to start a thread: `pthread_getattr_np` returns the real guard size.
//! - A detached thread still uses its stack when it ends. So it stays joinable for the C library; this
//!   library remembers that it is detached, and joins it later.
//! - Cancellation and `pthread_exit` unwind through these functions: none has anything to drop while
//!   the program's code or a cancellation point of the C library runs.
//! - The forking thread uses the map of threads during a fork: its lock is held across the fork.
//!
//! Nothing here allocates with malloc, because a program's malloc may start threads.

#![expect(unsafe_code, reason = "replaces the C library's functions for threads")]

mod exec;
mod interpose;
mod lock;
mod options;
mod real;
mod report;
mod setup;
mod step;
mod threads;

/// Sets up the library when it is loaded, before `main`. If a constructor of another library
/// starts a thread before that, the interposed call does it.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    step::serve_if_asked();
    setup::set_up();
}

/// Reports what was done when the program ends, if requested.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

extern "C" fn at_end() {
    let asked = options::in_force().report;
    if asked != 0 && (asked == std::process::id() || report::any()) {
        report::summary();
    }
}
