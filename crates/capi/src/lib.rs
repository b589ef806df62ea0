//! libpunctual: the C interface of `punctual-rt`.
//!
//! Conventions: 0, a count or a pointer on success, else -1 or NULL with `errno`; sizes in bytes;
//! structs that may grow contain their size. A panic would be a bug of the library; it ends the
//! process at the boundary (`extern "C"` aborts) rather than unwinding into C.
//!
//! The comments of the functions become those of `include/punctual.h`, so they are written for
//! its readers.
#![expect(unsafe_code, reason = "a C API: pointers come from the caller")]

mod advice;
mod channel;
mod clock;
mod cpus;
mod cpuset;
mod errno;
mod inspect;
mod irq;
mod memory;
mod message;
mod original;
mod reserve;
mod ring;
mod sched;
mod stack;
mod sync;
mod thread;
mod version;
mod versioned;
mod watchpoint;

/// Sets up the library when it is loaded: before threads exist, and before a fork could interrupt
/// the setup. If a linker omits this, the first call does it.
///
/// In a statically linked program it runs before constructors without a priority, such as those
/// of C++ objects. So what an object frees in its destructor is no leak: the report at exit was
/// registered first, and runs last.
#[used]
#[unsafe(link_section = ".init_array.00200")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    punctual_rt::stack::init();
    advice::set_up();
}
