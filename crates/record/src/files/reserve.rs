//! Space that is kept for a file that is written again and again.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::retry_on_intr;

use super::{Folder, Unfinished, hold_space, is_full};

/// Kept at least, where there is room.
const LEAST: u64 = 1 << 20;
/// A smaller reserve is not worth the attempt.
const SMALLEST: u64 = 4 << 10;

/// The next version of a file: it has its space before it is needed, and what else is written
/// can't take it. With each save the two files exchange their names. Neither is kept open, so
/// that the file system can be unmounted or made read-only.
#[derive(Debug)]
pub struct Reserve {
    name: OsString,
    next: Option<(Unfinished, Inode)>,
    /// The file that has the name, if it was written here.
    current: Option<Inode>,
}

impl Reserve {
    /// Keeps space for the next version of a file that has `length` bytes now.
    ///
    /// # Errors
    /// The system's, where not even an empty file can be made.
    pub fn begin(folder: &Folder, name: &OsStr, length: u64) -> io::Result<Self> {
        let (file, unfinished) = folder.begin(name)?;
        fill(&file, length);
        Ok(Self {
            name: name.to_owned(),
            next: Some((unfinished, Inode::of(&file)?)),
            current: None,
        })
    }

    /// Saves the next version, whole or not at all.
    ///
    /// # Errors
    /// The system's. What stood before still stands then.
    pub fn save(&mut self, folder: &Folder, bytes: &[u8]) -> io::Result<()> {
        let _held = hold_space();
        let length = bytes.len() as u64;
        let (mut file, unfinished) = self.next(folder)?;
        let inode = Inode::of(&file)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| file.set_len(length))
            .and_then(|()| file.sync_all());
        if let Err(error) = written {
            let _ = file.set_len(0);
            fill(&file, length);
            self.next = Some((unfinished, inode));
            return Err(error);
        }
        drop(file);
        let before = self.current.take();
        if folder.exchange(&unfinished, &self.name).is_err() {
            // There was none, or the file system can't exchange names.
            folder
                .rename(&unfinished.0, &self.name)
                .inspect_err(|_| drop(folder.remove(&unfinished.0)))?;
        } else if let Some(before) = before {
            self.next = Some((unfinished, before));
        } else {
            // It was not written here.
            folder.abandon(unfinished);
        }
        self.current = Some(inode);
        // Where there is no room for the next one now, there may be later.
        if let Ok((file, unfinished)) = self.next(folder) {
            fill(&file, length);
            self.next = Inode::of(&file).ok().map(|inode| (unfinished, inode));
        }
        folder.sync()
    }

    /// The file that was made ready, or a new one where that is no more.
    fn next(&mut self, folder: &Folder) -> io::Result<(File, Unfinished)> {
        if let Some((unfinished, inode)) = self.next.take() {
            match folder.open_again(&unfinished) {
                Ok(file) if Inode::of(&file)? == inode => return Ok((file, unfinished)),
                _ => folder.abandon(unfinished),
            }
        }
        folder.begin(&self.name)
    }

    /// Gives the space back.
    pub fn release(&mut self, folder: &Folder) {
        if let Some((unfinished, _)) = self.next.take() {
            folder.abandon(unfinished);
        }
    }
}

/// Which file it is, whatever its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Inode {
    device: u64,
    number: u64,
}

impl Inode {
    fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|found| Self {
            device: found.dev(),
            number: found.ino(),
        })
    }
}

/// Keeps as much as there is room for, for what will be longer than `length`.
fn fill(file: &File, length: u64) {
    let mut wanted = length.saturating_mul(2).clamp(LEAST, i64::MAX as u64);
    while wanted >= SMALLEST {
        // The length of the file stays as it is.
        let kept = retry_on_intr(|| fallocate(file, FallocateFlags::KEEP_SIZE, 0, wanted));
        match kept {
            Err(error) if is_full(&error.into()) => wanted /= 2,
            // Where the file system can't, there is only the space as it comes.
            _ => return,
        }
    }
}
