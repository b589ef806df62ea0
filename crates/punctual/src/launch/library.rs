//! The library that is loaded into programs: where it is, and whether it can be loaded.

use std::ffi::{CString, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Refusal;
use super::program::Loaded;

/// As it was built with this tool; empty where it wasn't.
static EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/preload.so"));

/// What the library is called where it is installed.
pub(super) const NAME: &str = "libpunctual_preload.so";

/// The library, as a file that a loader can open.
#[derive(Debug)]
pub struct Library {
    path: PathBuf,
    /// It lives in memory, as long as somebody has it open.
    memory: Option<File>,
}

impl Library {
    /// `PUNCTUAL_PRELOAD`, or else the file that is installed with this tool, or else the
    /// copy that the tool carries.
    ///
    /// # Errors
    /// When there is none.
    pub fn find() -> Result<Self, Refusal> {
        if let Some(path) = std::env::var_os("PUNCTUAL_PRELOAD").filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            // A name without a folder would be looked for among the system's libraries.
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

    /// What `LD_PRELOAD` has to say: ours first, then what was asked for already.
    pub(super) fn beside_others(&self) -> OsString {
        let mut value = self.path.clone().into_os_string();
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

    /// The path by which a child of ours opens the library. Where our own file has
    /// capabilities, the kernel closes our directory in `/proc` to it; the descriptor that it
    /// inherits is open to it all the same. The program itself has none of our capabilities,
    /// and its directory is open to its children.
    fn own_path(&self) -> PathBuf {
        self.memory.as_ref().map_or_else(
            || self.path.clone(),
            |file| PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd())),
        )
    }

    /// Has the program's own loader say whether it takes the library; nothing of the program
    /// is run. A loader that can't take it would go on without it.
    pub(super) fn try_with(&self, program: &Loaded) -> Result<(), Refusal> {
        let path = self.own_path();
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
            return Ok(());
        }
        let why = complaint.lines().next().unwrap_or("it doesn't say why");
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

/// A file without a name, that stays open through `exec` and can't be changed any more.
fn in_memory(bytes: &[u8]) -> std::io::Result<File> {
    let name = CString::new(NAME).unwrap_or_default();
    // SAFETY: the name is a C string.
    let descriptor = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_ALLOW_SEALING) };
    if descriptor == -1 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let mut file = unsafe { File::from_raw_fd(descriptor) };
    file.write_all(bytes)?;
    let seals = libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;
    // SAFETY: a command that takes a number.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } == -1 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(file)
}
