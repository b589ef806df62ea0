//! Tests that put real-time threads on the first CPU take turns: the kernel bounds what all of them
//! use together.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One at a time: the runtime that one test's threads have is not available for another's, and a
/// thread that uses all of it delays every other test.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
