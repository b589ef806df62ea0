//! Finding a program, and whether a library can be loaded into it.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Refusal;
use super::elf::{self, Image};
use super::error::Fault;

/// A program's file.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
}

/// The file that the loader gets to see, and the loader.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) path: PathBuf,
    pub(super) loader: PathBuf,
}

/// So much of a file is read: headers and the interpreter's name come early.
const BEGINNING: u64 = 1 << 20;
/// The kernel follows so many interpreters of scripts.
const SCRIPTS: usize = 4;

impl Program {
    /// Looks for a program as a shell does.
    ///
    /// # Errors
    /// When there is none, with status 127, or it can't be run, with 126.
    pub fn find(name: &OsStr) -> Result<Self, Refusal> {
        let mut found = None;
        if name.as_bytes().contains(&b'/') {
            found = Some(PathBuf::from(name));
        } else if !name.is_empty() {
            let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
            let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
            found = places.find(|place| place.is_file() && executable(place));
        }
        let name = name.to_string_lossy().into_owned();
        let Some(path) = found else {
            return Err(Refusal::NotInPath { name });
        };
        match fs::metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(Refusal::Forbidden { name })
            }
            Err(_) => Err(Refusal::Missing { name }),
            Ok(data) if !data.is_file() => Err(Refusal::NoFile { name }),
            Ok(_) if !executable(&path) => Err(Refusal::NotExecutable { name }),
            Ok(_) => Ok(Self { path }),
        }
    }

    /// Its file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a library can be loaded into it, and by which loader; else why not.
    pub(super) fn examine(&self) -> Result<Loaded, Refusal> {
        let mut path = self.path.clone();
        for _ in 0..=SCRIPTS {
            match examined(&path) {
                Ok(Found::Interpreter(interpreter)) => path = interpreter,
                Ok(Found::Loader(loader)) => {
                    return Ok(Loaded {
                        // A program looks for its libraries from where it really is.
                        path: path.canonicalize().unwrap_or(path),
                        loader,
                    });
                }
                Err(fault) => return Err(Refusal::Closed { path, fault }),
            }
        }
        Err(Refusal::Closed {
            path: self.path.clone(),
            fault: Fault::Scripts,
        })
    }
}

/// By what a file is run.
enum Found {
    Interpreter(PathBuf),
    Loader(PathBuf),
}

fn examined(path: &Path) -> Result<Found, Fault> {
    unprivileged(path)?;
    match elf::image(&beginning(path).map_err(Fault::Unreadable)?) {
        Image::Script(interpreter) => Ok(Found::Interpreter(PathBuf::from(interpreter))),
        Image::Dynamic(loader) if loader.contains("musl") => Err(Fault::Musl),
        Image::Dynamic(loader) => Ok(Found::Loader(PathBuf::from(loader))),
        Image::Static => Err(Fault::Static),
        Image::Foreign => Err(Fault::Foreign),
        Image::Unknown => Err(Fault::Unknown),
    }
}

fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(BEGINNING).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn executable(path: &Path) -> bool {
    CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| {
        // SAFETY: the path is a C string.
        unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
    })
}

/// A program with more rights than its caller is loaded without the caller's libraries.
fn unprivileged(path: &Path) -> Result<(), Fault> {
    let data = fs::metadata(path).map_err(|_| Fault::NoInterpreter)?;
    if data.mode() & libc::S_ISUID != 0 {
        return Err(Fault::SetUser);
    }
    if data.mode() & libc::S_ISGID != 0 {
        return Err(Fault::SetGroup);
    }
    if has_capabilities(path) {
        return Err(Fault::Capabilities);
    }
    Ok(())
}

fn has_capabilities(path: &Path) -> bool {
    CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| {
        // SAFETY: both names are C strings; a size of 0 asks for the size alone.
        let size = unsafe {
            libc::getxattr(
                path.as_ptr(),
                c"security.capability".as_ptr(),
                std::ptr::null_mut(),
                0,
            )
        };
        size > 0
    })
}
