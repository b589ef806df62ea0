//! Reads parts of a kernel's file, and checks them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::fault::{Damage, Unfit};
use super::image::{self, Elf, Part};
use super::{Error, LONGEST_IMAGE, cache};

/// Refuses an image that ends before the parts that its headers name.
pub(super) fn whole(path: &Path, parts: &[Part], length: u64) -> Result<(), Error> {
    match parts.iter().find(|part| part.end() > length) {
        None => Ok(()),
        Some(part) => {
            let part = part.clone();
            Err(Error::damaged(path, Damage::PartEnd { part, length }))
        }
    }
}

/// Whether QEMU can boot the image directly.
pub(super) fn enters_guests(path: &Path, file: &mut File, elf: &Elf) -> Result<bool, Error> {
    /// Debian's kernels have 500 bytes of notes.
    const LONGEST: u64 = 1 << 16;
    for &(offset, length) in elf.notes.iter().take(16) {
        let notes = read_part(path, file, offset, length.min(LONGEST))?;
        if image::has_entry_for_guests(&notes) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The release that an image contains.
pub(super) fn banner(path: &Path, file: &mut File) -> Result<String, Error> {
    const PART: u64 = 4 << 20;
    /// The banner may cross the border of two parts.
    const OVERLAP: u64 = 256;
    let mut at = 0;
    while at < LONGEST_IMAGE {
        let part = read_part(path, file, at, PART + OVERLAP)?;
        if let Some(release) = image::stated_release(&part) {
            return Ok(release);
        }
        if (part.len() as u64) < PART {
            break;
        }
        at += PART;
    }
    Err(Error::unfit(path, Unfit::NoRelease))
}

/// A file and its length in bytes.
pub(super) fn open(path: &Path) -> Result<(File, u64), Error> {
    let unreadable = |error| Error::unreadable(path, error);
    // Opening a pipe would wait for a writer.
    let data = std::fs::metadata(path).map_err(unreadable)?;
    if !data.is_file() {
        let directory = data.is_dir();
        return Err(Error::unfit(path, Unfit::NotAFile { directory }));
    }
    Ok((File::open(path).map_err(unreadable)?, data.len()))
}

pub(super) fn read_part(
    path: &Path,
    file: &mut File,
    at: u64,
    length: u64,
) -> Result<Vec<u8>, Error> {
    seek(path, file, at)?;
    let mut bytes = Vec::new();
    file.take(length)
        .read_to_end(&mut bytes)
        .map_err(|error| Error::unreadable(path, error))?;
    Ok(bytes)
}

pub(super) fn seek(path: &Path, file: &mut File, at: u64) -> Result<(), Error> {
    let damaged = || Error::damaged(path, Damage::BeyondEnd);
    let at = i64::try_from(at).map_err(|_| damaged())?;
    match file.seek(SeekFrom::Start(at.unsigned_abs())) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Err(damaged()),
        Err(error) => Err(Error::unreadable(path, error)),
    }
}

pub(super) fn hash(path: &Path, length: u64) -> Result<String, Error> {
    let sum = cache::hash_of(path, length).map_err(|error| Error::unreadable(path, error))?;
    Ok(sum.sha256)
}
