//! The library that is preloaded into programs: where it is, and whether it can be loaded.

#![expect(unsafe_code, reason = "a file in memory that a program can load")]

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Refusal;
use super::program::Loaded;

/// The library as built with this tool; empty if it wasn't.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

/// What the library is called where it is installed.
pub(super) const NAME: &str = "libpunctual_preload.so";

/// The root directory in a form that only glibc's loader opens: it makes a folder of `$LIB`. Another C library
/// (musl) can't use ours, and ends a program into which it is loaded; a file that it doesn't find it ignores.
const ROOT_OF_GLIBC: &str = "/$LIB/../../../../..";

/// The library, as a file that a dynamic loader can open.
#[derive(Debug)]
pub struct Library {
    path: PathBuf,
    /// A file in memory, which exists as long as a process has it open.
    memory: Option<File>,
}

impl Library {
    /// `PUNCTUAL_PRELOAD`, or else the file that is installed with this tool, or else the
    /// copy that is embedded in the tool.
    ///
    /// # Errors
    /// When there is none.
    pub fn find() -> Result<Self, Refusal> {
        if let Some(path) = std::env::var_os("PUNCTUAL_PRELOAD").filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            // A name without a folder would be searched for among the system's libraries.
            return match path.canonicalize() {
                Ok(path) => Ok(Self { path, memory: None }),
                Err(source) => Err(Refusal::LibraryNamed { path, source }),
            };
        }
        if let Some(path) = installed() {
            return Ok(Self { path, memory: None });
        }
        if EMBEDDED.is_empty() {
            return Err(Refusal::NoLibrary);
        }
        let file = in_memory(EMBEDDED).map_err(Refusal::LibraryInMemory)?;
        // By our process id rather than "self": children of the program that were started
        // with their descriptors closed find it too, for the program keeps it open.
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Ok(Self {
            path: PathBuf::from(path),
            memory: Some(file),
        })
    }

    /// The copy that is part of the tool; empty if there is none.
    pub fn embedded() -> &'static [u8] {
        EMBEDDED
    }

    /// The value of `LD_PRELOAD`: ours first, below this root, then the previous value.
    pub(super) fn beside_others(&self, root: &str) -> OsString {
        let mut value = OsString::from(root);
        value.push(&self.path);
        if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
            value.push(":");
            value.push(others);
        }
        value
    }

    /// Leaves the file in memory open for the program that we become.
    pub(super) fn keep(self) {
        if let Some(file) = self.memory {
            let _ = file.into_raw_fd();
        }
    }

    /// The path by which our own child opens the library. If our executable has file
    /// capabilities, the kernel denies the child our directory in `/proc`; the descriptor that it
    /// inherits is accessible all the same. The program itself has none of our capabilities,
    /// so its children can access its directory.
    pub fn own_path(&self) -> PathBuf {
        self.memory.as_ref().map_or_else(
            || self.path.clone(),
            |file| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        )
    }

    /// Has the program's own loader say whether it takes the library; nothing of the program
    /// is run. A loader that can't take it would go on without it. Returns the root below which the loader
    /// finds it.
    pub(super) fn try_with(&self, program: &Loaded) -> Result<&'static str, Refusal> {
        // glibc's own folder may be elsewhere.
        let of_glibc = self.try_below(ROOT_OF_GLIBC, program);
        of_glibc.or_else(|_| self.try_below("", program))
    }

    fn try_below(&self, root: &'static str, program: &Loaded) -> Result<&'static str, Refusal> {
        let mut path = OsString::from(root);
        path.push(self.own_path());
        let output = Command::new(&program.loader)
            .arg("--list")
            .arg(&program.path)
            .env("LD_PRELOAD", &path)
            .stdin(Stdio::null())
            .output()
            .map_err(|source| Refusal::Loader {
                loader: program.loader.clone(),
                program: program.path.clone(),
                source,
            })?;
        let listed = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        let path = path.to_string_lossy();
        if listed
            .lines()
            .any(|line| line.trim_start().starts_with(&*path))
            && !complaint.contains("cannot be preloaded")
        {
            return Ok(root);
        }
        let why = complaint.lines().next().unwrap_or("it gives no reason");
        Err(Refusal::Declined {
            program: program.path.clone(),
            why: why.to_owned(),
        })
    }
}

fn installed() -> Option<PathBuf> {
    let tool = std::env::current_exe().ok()?;
    let folder = tool.parent()?;
    [
        folder.join(NAME),
        folder.join("../lib/punctual").join(NAME),
        folder.join("../lib").join(NAME),
    ]
    .into_iter()
    .find_map(|path| path.canonicalize().ok())
}

/// A file without a name, which stays open across `exec` and is sealed against changes.
fn in_memory(bytes: &[u8]) -> std::io::Result<File> {
    let name = CString::new(NAME).unwrap_or_default();
    // SAFETY: `name` is a C string that outlives the call.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_ALLOW_SEALING) };
    if descriptor == -1 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(bytes)?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: F_ADD_SEALS takes a number and no pointer.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } == -1 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(file)
}
