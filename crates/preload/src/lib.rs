//! What `punctual run` has loaded into a program, so that its threads stand on prefaulted,
//! guarded stacks and its memory is locked; the program is not changed.
//!
//! It stands before the C library's `pthread_create` and its relatives. In *pool* mode a new
//! thread gets a stack of [`punctual_rt::stack`], in *wrap* mode it keeps its own and makes
//! the upper part of it present before it runs a line of the program.
//!
//! The traps on the way, and what is done about each:
//! - glibc says that a stack handed to it has no guard, and Rust's runtime then refuses to
//!   start a thread: `pthread_getattr_np` is answered with the guard that is there.
//! - A detached thread still stands on its stack when it ends. So each is made joinable for
//!   the C library, this library remembers that it is detached, and joins it later.
//! - Cancellation and `pthread_exit` unwind through these functions: none has anything to
//!   drop while the program's code or a cancellation point of the C library runs.
//! - The map of threads is used during a fork by the thread that forks: it is locked across it.
//!
//! Nothing here allocates with malloc, for a program's malloc may start threads.

mod interpose;
mod lock;
mod real;
mod report;
mod setup;
mod threads;
mod wishes;

/// Makes everything ready when the library is loaded, before `main`. A constructor of another
/// library may start a thread before that; then its call does it.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    setup::set_up();
}

/// Tells what was done when the program ends, if that was asked for.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_END: extern "C" fn() = at_end;

extern "C" fn at_end() {
    let asked = wishes::in_force().report;
    if asked != 0 && (asked == std::process::id() || report::any()) {
        report::summary();
    }
}
