//! A directory of the host as a root file system, or as a part of one.

use std::fs;
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::super::room::Room;
use super::error::RootfsError;
use super::tree::{Node, Tree};

/// Reads a file up to its earlier length: it may have grown, or been replaced.
fn read_at_most(path: &Path, length: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    super::regular(path)?.take(length).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Adds the content of a directory, below `under`, without mounts, devices, pipes and sockets.
///
/// # Errors
/// One line: something cannot be read, or there is no room.
pub fn read(
    directory: &Path,
    under: &str,
    tree: &mut Tree,
    room: &mut Room,
) -> Result<(), RootfsError> {
    let wrong = |path: &Path, error: RootfsError| {
        let path = path.strip_prefix(directory).unwrap_or(path);
        error.of(path.display().to_string())
    };
    let failed = |path: &Path, error: io::Error| wrong(path, RootfsError::Read(error));
    let top = fs::metadata(directory).map_err(|error| failed(directory, error))?;
    let mut todo: Vec<(PathBuf, String)> = vec![(directory.to_owned(), under.to_owned())];
    while let Some((folder, name)) = todo.pop() {
        let entries = fs::read_dir(&folder).map_err(|error| failed(&folder, error))?;
        for entry in entries {
            let path = entry.map_err(|error| failed(&folder, error))?.path();
            let data = fs::symlink_metadata(&path).map_err(|error| failed(&path, error))?;
            let Some(file) = path.file_name().and_then(|file| file.to_str()) else {
                return Err(wrong(&path, RootfsError::Name));
            };
            let inside = format!("{name}/{file}");
            let mode = data.permissions().mode();
            let node = if data.is_dir() {
                if data.dev() == top.dev() {
                    todo.push((path.clone(), inside.clone()));
                }
                Node::Folder
            } else if data.is_symlink() {
                let target = fs::read_link(&path).map_err(|error| failed(&path, error))?;
                let target = target.into_os_string().into_string();
                Node::Link(target.map_err(|_| wrong(&path, RootfsError::Target))?)
            } else if data.is_file() {
                room.clone()
                    .reserve(data.len())
                    .map_err(|error| wrong(&path, error.into()))?;
                let bytes = read_at_most(&path, data.len());
                Node::File(bytes.map_err(|error| failed(&path, error))?)
            } else {
                continue;
            };
            tree.add(&inside, mode, node, room)
                .map_err(|error| wrong(&path, error))?;
        }
    }
    Ok(())
}
