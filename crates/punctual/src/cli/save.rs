//! Writes a file that a user names: a regular file, a device, a FIFO or an open descriptor.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use punctual_record::RecordError;
use punctual_record::files::{Folder, wait_again};
use punctual_rt::sys::file::{effective_user, inherited};

/// Writes a file of any name: see [`write`].
///
/// # Errors
/// [`RecordError::Save`] with the path.
pub fn save_whole(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    write(path, bytes).map_err(|source| RecordError::Save {
        path: path.to_owned(),
        source,
    })
}

/// Writes a file completely or not at all. A symbolic link is replaced, not followed.
/// `/dev/stdout`, `/dev/fd/N` and the like are the descriptors of this process. A device or a FIFO
/// of this user is written to directly; a FIFO must have a reader.
///
/// # Errors
/// The system's error, or why nothing can be written there.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(number) = descriptor(path) {
        return File::from(inherited(number)?).write_all(bytes);
    }
    let Some(name) = path.file_name() else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    let folder = Folder::open(path.parent().unwrap_or(Path::new("")))?;
    match folder.metadata_of(name) {
        Ok(found) if found.is_dir() => Err(io::ErrorKind::IsADirectory.into()),
        Ok(found) if !found.is_file() && !found.is_symlink() => {
            special(&folder, name, &found)?.write_all(bytes)
        }
        // If it cannot be read, making the file gives the error.
        _ => folder.replace(name, bytes),
    }
}

/// Opens a file that is not regular.
fn special(folder: &Folder, name: &OsStr, seen: &Metadata) -> io::Result<File> {
    let refused = |what: &str| io::Error::new(io::ErrorKind::PermissionDenied, what);
    let usable = |found: &Metadata| {
        let kind = found.file_type();
        let owner = found.uid();
        if kind.is_fifo() && owner != 0 && owner != effective_user() {
            let what = format!("a FIFO of user {owner}, who may read or block what is written");
            return Err(refused(&what));
        }
        if !kind.is_fifo() && !kind.is_char_device() {
            return Err(refused("expected a file, a character device or a FIFO"));
        }
        Ok(())
    };
    usable(seen)?;
    let file = folder.open_special(name).map_err(|error| {
        if error.raw_os_error() == Some(libc::ENXIO) && seen.file_type().is_fifo() {
            return io::Error::new(
                io::ErrorKind::NotConnected,
                "a FIFO without a reader: start its reader first",
            );
        }
        error
    })?;
    // Another file may have replaced it.
    usable(&file.metadata()?)?;
    wait_again(&file)?;
    Ok(file)
}

/// The descriptor that a path names.
fn descriptor(path: &Path) -> Option<i32> {
    match path.to_str()? {
        "/dev/stdout" => Some(1),
        "/dev/stderr" => Some(2),
        path => ["/dev/fd/", "/proc/self/fd/", "/proc/thread-self/fd/"]
            .iter()
            .find_map(|folder| path.strip_prefix(folder))?
            .parse()
            .ok(),
    }
}
