//! Code of the user's own.

use std::io;
use std::path::Path;

/// A function that a task calls in its jobs.
pub trait Call: Send {
    /// Calls it.
    ///
    /// # Errors
    /// Why the task can't go on.
    fn call(&mut self) -> io::Result<()>;
}

/// Finds functions of shared objects.
pub trait Calls {
    /// The function, to be called by a thread with this policy on these CPUs.
    ///
    /// # Errors
    /// There is no such object or function; it can't be called.
    fn find(&mut self, path: &Path, function: &str) -> io::Result<Box<dyn Call>>;
}
