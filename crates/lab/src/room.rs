//! How much may be copied into a guest: its files are in its memory, twice while it boots.

use std::error::Error;
use std::fmt;
use std::path::Path;

use super::error::LabError;

/// The largest archive that the firmware loads in every guest.
const MOST_MIB: u64 = 1024;
/// Files of a guest.
const MOST_FILES: u64 = 200_000;
/// What the kernel takes for itself: 70 MiB (6.12, one CPU), and some for later kernels.
const KERNEL_MIB: u64 = 100;
/// What an entry costs beside its bytes.
const ENTRY: u64 = 512;

/// Why there is no room for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomError {
    /// There are too many files.
    Files,
    /// There is too little memory.
    Bytes {
        /// The file's length.
        bytes: u64,
        /// The guest's memory.
        memory_mib: u64,
        /// The room for files in such a guest.
        whole_mib: u64,
    },
}

impl fmt::Display for RoomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files => write!(f, "more than {MOST_FILES} files"),
            Self::Bytes {
                bytes,
                memory_mib,
                whole_mib,
            } => write!(
                f,
                "no room for {bytes} bytes: a guest with {memory_mib} MiB of memory has room for \
                 {whole_mib} MiB of files; bring fewer files, or set --mem higher (at most \
                 {MOST_MIB} MiB of files)"
            ),
        }
    }
}

impl Error for RoomError {}

/// The room that is left for files in a guest.
#[derive(Debug, Clone)]
pub struct Room {
    whole_mib: u64,
    memory_mib: u64,
    left: u64,
    files: u64,
}

impl Room {
    /// The room in a guest with this memory, for this program as well.
    ///
    /// The kernel limits the files of its first root file system to half of the memory that is
    /// free while it unpacks them, and the archive is not (`shmem_default_max_blocks`): a third of
    /// what the kernel leaves.
    #[must_use]
    pub fn for_memory(memory_mib: u64) -> Self {
        let whole_mib = (memory_mib.saturating_sub(KERNEL_MIB) / 3).min(MOST_MIB);
        Self {
            whole_mib,
            memory_mib,
            left: whole_mib << 20,
            files: MOST_FILES,
        }
    }

    /// Takes room for a file of so many bytes.
    ///
    /// # Errors
    /// There is not enough left.
    pub fn reserve(&mut self, bytes: u64) -> Result<(), RoomError> {
        let Some(files) = self.files.checked_sub(1) else {
            return Err(RoomError::Files);
        };
        let left = self.left.checked_sub(bytes.saturating_add(ENTRY));
        let Some(left) = left else {
            return Err(RoomError::Bytes {
                bytes,
                memory_mib: self.memory_mib,
                whole_mib: self.whole_mib,
            });
        };
        (self.files, self.left) = (files, left);
        Ok(())
    }

    /// The same, with the file's name.
    ///
    /// # Errors
    /// There is not enough left.
    pub fn reserve_for(&mut self, path: &Path, bytes: u64) -> Result<(), LabError> {
        self.reserve(bytes).map_err(|source| LabError::Room {
            path: path.to_owned(),
            source,
        })
    }

    /// Bytes that are left.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.left
    }
}
