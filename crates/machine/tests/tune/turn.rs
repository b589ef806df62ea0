//! Tests that change settings of this machine take turns, also those of other programs and
//! checkouts: each would find the other's values.

use std::fs::File;

/// Waits for the turn, which ends where the file is dropped. A setting's own file is locked: it is
/// the same for every program, and nothing is left behind.
#[must_use]
pub fn turn() -> Option<File> {
    let file = File::open("/proc/sys/vm/stat_interval").ok()?;
    file.lock().ok()?;
    Some(file)
}
