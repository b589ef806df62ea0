//! Recorded trees of machines, extracted for a test.
#![allow(dead_code, reason = "each file of tests uses what it needs")]

use std::fs;
use std::path::Path;

use punctual_machine::Root;
use tempfile::TempDir;

/// A recorded machine, removed when dropped.
pub struct Machine {
    /// Its tree.
    pub root: Root,
    directory: TempDir,
}

impl Machine {
    /// A machine where nothing can be read.
    pub fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            root: Root::recorded(directory.path()),
            directory,
        }
    }

    /// The machine in `crates/machine/tests/data/NAME.tree`: each line `=== /path` begins
    /// a file, lines `=== /path -> target` are symbolic links.
    pub fn recorded(name: &str) -> Self {
        let machine = Self::empty();
        let path = format!(
            "{}/../machine/tests/data/{name}.tree",
            env!("CARGO_MANIFEST_DIR")
        );
        let text = fs::read_to_string(&path).unwrap();
        for part in text.split("=== ").skip(1) {
            let (head, body) = part.split_once('\n').unwrap();
            match head.split_once(" -> ") {
                Some((link, target)) => machine.link(link, target),
                None => machine.write(head, body),
            }
        }
        machine
    }

    /// Writes a file.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        let place = self.place(path);
        fs::write(place, content).unwrap();
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) {
        fs::remove_file(self.root.path(path)).unwrap();
    }

    /// Creates a symbolic link.
    pub fn link(&self, path: &str, target: &str) {
        std::os::unix::fs::symlink(target, self.place(path)).unwrap();
    }

    /// The real location of a path; creates the directories above it.
    pub fn place(&self, path: &str) -> std::path::PathBuf {
        let place = self.root.path(path);
        assert!(place.starts_with(self.directory.path()));
        fs::create_dir_all(place.parent().unwrap_or(Path::new("/"))).unwrap();
        place
    }
}
