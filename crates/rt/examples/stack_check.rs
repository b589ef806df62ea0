//! How much of its stack does a thread have in memory? Checks the primary thread, a thread on a
//! default stack, and one on a stack of the library.
//!
//! `cargo run -p punctual-rt --example stack_check`
#![allow(unsafe_code, reason = "an example calls the C library")]
#![allow(clippy::print_stdout, reason = "an example prints its result")]

use std::error::Error;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::thread;

use punctual_rt::stack::{self, Stack, StackError};

fn look(name: &str) {
    let line = stack::bounds().and_then(|bounds| {
        let seen = match stack::residency(bounds) {
            Ok(found) => format!(
                "{} pages, {} resident, {} not",
                found.pages,
                found.resident,
                found.pages - found.resident
            ),
            Err(StackError::NotMapped(_)) => "not mapped to its limit".to_owned(),
            Err(error) => return Err(error),
        };
        let (low, high) = (bounds.low, bounds.high);
        Ok(format!(
            "{low:#x} to {high:#x}, {} KB: {seen}",
            bounds.len() >> 10
        ))
    });
    match line {
        Ok(line) => println!("{name:24} {line}"),
        Err(error) => println!("{name:24} {error}"),
    }
}

extern "C" fn look_from_ours(_: *mut c_void) -> *mut c_void {
    look("stack of the library");
    null_mut()
}

/// Runs a thread on a stack with pthread calls.
fn run_on(stack: &Stack) {
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: the attribute is filled by this call.
    unsafe { libc::pthread_attr_init(attr.as_mut_ptr()) };
    let base = stack.base().as_ptr().cast();
    // SAFETY: the attribute is initialised, and the stack outlives the thread.
    unsafe { libc::pthread_attr_setstack(attr.as_mut_ptr(), base, stack.len()) };
    let mut made = 0;
    // SAFETY: the attribute is initialised, and the body ignores its argument.
    let failed =
        unsafe { libc::pthread_create(&mut made, attr.as_ptr(), look_from_ours, null_mut()) };
    if failed == 0 {
        // SAFETY: the thread was created above and is joined once.
        unsafe { libc::pthread_join(made, null_mut()) };
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    look("primary");
    stack::prefault(0)?;
    look("primary, prefaulted");
    let other = thread::spawn(|| look("default stack"));
    other.join().map_err(|_| "the thread panicked")?;
    run_on(&Stack::new(200 << 10)?);
    Ok(())
}
