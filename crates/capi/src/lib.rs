//! libpunctual: the C face of `punctual-rt`.
//!
//! Conventions: 0, a count or a pointer on success, -1 or NULL with `errno` else; sizes in
//! bytes; structs that may grow carry their size. A panic would be a bug of the library; it
//! ends the process at the boundary (`extern "C"` aborts) rather than unwinding into C.
//!
//! The comments of the functions are those of `include/punctual.h`, so they are written for
//! its readers.

mod advice;
mod clock;
mod cpus;
mod cpuset;
mod errno;
mod inspect;
mod irq;
mod memory;
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

/// Makes the library ready when it is loaded: before there are threads, and before a fork
/// could meet it half done. Where a linker leaves this out, the first call does it.
///
/// In a program that is linked to the static library before the constructors that name no
/// priority, those of C++'s objects among them: what such an object frees when it is destroyed is
/// no leak, and the report at exit comes last, for it was registered first.
#[used]
#[unsafe(link_section = ".init_array.00200")]
static AT_LOAD: extern "C" fn() = at_load;

extern "C" fn at_load() {
    punctual_rt::stack::init();
    advice::set_up();
}
