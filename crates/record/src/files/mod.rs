//! The one way in which files are written.
//!
//! A file is made under a name that nobody can have prepared (O_EXCL, so that no link is
//! followed), in a directory that is held open (so that another one in its place is not written
//! to), brought to the disk, and renamed: it is whole, or it is not there. What stands under
//! the name before, be it a link to another file, is replaced and never written to.

mod folder;
mod reserve;

pub use folder::{Fault, Folder, Unfinished};
pub use reserve::Reserve;

use std::fs::File;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::OFlags;

/// Held by a test that gives space back and takes it again, and by one that fills a disk.
static SPACE: Mutex<()> = Mutex::new(());

/// Keeps the other writers of this process from the space that is just being given back.
pub fn hold_space() -> MutexGuard<'static, ()> {
    SPACE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has reads and writes of a file wait again.
///
/// # Errors
/// The system's.
pub fn wait_again(file: &File) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(file)?;
    Ok(rustix::fs::fcntl_setfl(file, flags - OFlags::NONBLOCK)?)
}

/// Whether there was no room: the disk, a quota, or a limit on the length of files.
#[must_use]
pub fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
    )
}
