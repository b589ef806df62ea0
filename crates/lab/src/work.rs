//! A temporary folder for the files of a running guest.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use super::error::LabError;

/// A folder that is removed with its content when it is dropped.
#[derive(Debug)]
pub struct WorkFolder {
    path: PathBuf,
}

impl WorkFolder {
    /// Makes a folder.
    ///
    /// # Errors
    /// The system's error.
    pub fn make() -> Result<Self, LabError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let parent = std::env::temp_dir();
        for _ in 0..1000 {
            let count = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("punctual-lab-{}-{count}", std::process::id()));
            let mut builder = fs::DirBuilder::new();
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            match builder.create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(LabError::file(path, error)),
            }
        }
        Err(LabError::file(
            parent,
            std::io::ErrorKind::AlreadyExists.into(),
        ))
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file into it.
    ///
    /// # Errors
    /// The system's error, usually that there is no space.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, LabError> {
        let path = self.path.join(name);
        fs::write(&path, bytes).map_err(|error| LabError::file(&path, error))?;
        Ok(path)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
