//! A file that a user names: a regular one, or a device, a FIFO or an open descriptor.

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

/// Writes a file whole or not at all. A link that has the name is replaced, not followed;
/// `/dev/stdout`, `/dev/fd/N` and the like are what this process was started with; to a device
/// or a FIFO of ours is written as it stands, and a FIFO must have its reader.
///
/// # Errors
/// The system's, or why this is no place to write to.
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
        // Whatever can't be looked at: making the file tells why.
        _ => folder.replace(name, bytes),
    }
}

/// Opens what is no regular file.
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
            return Err(refused(
                "neither a file, nor a character device, nor a FIFO",
            ));
        }
        Ok(())
    };
    usable(seen)?;
    let file = folder.open_special(name).map_err(|error| {
        if error.raw_os_error() == Some(libc::ENXIO) && seen.file_type().is_fifo() {
            return io::Error::new(
                io::ErrorKind::NotConnected,
                "a FIFO that nobody reads: start its reader first",
            );
        }
        error
    })?;
    // Another may have come in its place.
    usable(&file.metadata()?)?;
    wait_again(&file)?;
    Ok(file)
}

/// The descriptor that a path stands for.
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
