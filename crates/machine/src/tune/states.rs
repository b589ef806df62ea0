//! Which directories have journals. Two that change one setting would each take the other's value for
//! the original.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Journal;
use super::journal::lock_within;

/// A line for each directory: the mount namespace in which its settings are, by the number of its
/// inode, and its path. It is empty after a boot, as the settings are what they were.
const FOLDER: &str = "/run/punctual";
/// The largest list that is read, in bytes.
const LIMIT: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// The list, locked until it is dropped.
pub(super) struct States {
    _locked: File,
    /// The other directories that have a journal.
    pub others: Vec<PathBuf>,
}

impl States {
    /// Enters a directory.
    ///
    /// # Errors
    /// The list can't be read or written: without the right to, or where /run is for reading only.
    pub fn enter(folder: &Path) -> io::Result<Self> {
        let own = std::fs::canonicalize(folder)?;
        let namespace = std::fs::metadata("/proc/self/ns/mnt")?.ino();
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o755).create(FOLDER)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(Path::new(FOLDER).join("states"))?;
        lock_within(&file, PATIENCE).map_err(io::Error::other)?;
        let mut text = String::new();
        (&file).take(LIMIT).read_to_string(&mut text)?;
        let known = text.lines().filter_map(|line| {
            let (namespace, path) = line.split_once(' ')?;
            Some((namespace.parse::<u64>().ok()?, PathBuf::from(path)))
        });
        // Of another namespace its path means nothing here.
        let mut known: Vec<(u64, PathBuf)> = known
            .filter(|(of, path)| *of != namespace || *path != own && Journal::is_in(path))
            .collect();
        let others = known.iter().filter(|(of, _)| *of == namespace);
        let others = others.map(|(_, path)| path.clone()).collect();
        known.push((namespace, own));
        let lines = known.iter().filter_map(|(of, path)| {
            let path = path.to_str().filter(|path| !path.contains('\n'))?;
            Some(format!("{of} {path}\n"))
        });
        let lines: String = lines.collect();
        if lines != text {
            file.seek(SeekFrom::Start(0))?;
            file.write_all(lines.as_bytes())?;
            file.set_len(lines.len() as u64)?;
        }
        Ok(Self {
            _locked: file,
            others,
        })
    }
}
