//! The laboratory's kernels: found, fetched, unpacked, kept; and all that can be wrong with them.

#![allow(
    clippy::print_stderr,
    reason = "a packing whose tool is missing is SKIPPED, and said so"
)]

#[path = "../../../punctual/tests/common/needs.rs"]
mod needs;

mod cache;
mod damage;
mod images;
mod made;
mod names;
mod packages;
mod real;

use std::fs;
use std::path::{Path, PathBuf};

use punctual_lab::kernel::{self, Cache, Error, Kernel, Progress};
use punctual_record::laboratory::Architecture;

/// A directory with files to be found, and a cache.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self { directory }
    }

    fn cache(&self) -> Cache {
        Cache::at(self.directory.path().join("cache"))
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, bytes).expect("a file");
        path
    }

    fn find(&self, path: &Path) -> Result<Kernel, Error> {
        self.find_telling(path).0
    }

    fn find_for(&self, path: &Path, architecture: Architecture) -> Result<Kernel, Error> {
        let path = path.to_str().expect("text");
        kernel::find(path, architecture, &self.cache(), &mut |_| {})
    }

    /// And what was told.
    fn find_telling(&self, path: &Path) -> (Result<Kernel, Error>, Vec<String>) {
        let mut told = Vec::new();
        let mut tell = |step: &Progress| told.push(step.to_string());
        let found = kernel::find(
            path.to_str().expect("text"),
            Architecture::Amd64,
            &self.cache(),
            &mut tell,
        );
        (found, told)
    }

    /// Nothing was left behind by what failed.
    fn assert_nothing_kept(&self) {
        let files = made::files_below(self.cache().directory());
        let files: Vec<_> = files.iter().filter(|name| *name != ".lock").collect();
        assert!(files.is_empty(), "{files:?}");
    }
}

/// What an error says: one line.
fn line(found: Result<Kernel, Error>) -> String {
    let text = found.expect_err("no kernel").to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}
