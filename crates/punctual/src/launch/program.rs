//! Finds a program, and whether a library can be preloaded into it.

use std::ffi::{CString, OsStr, OsString};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::elf::{self, Image};
use super::{CANNOT_RUN, NOT_FOUND, Refusal};

/// A program's file.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
}

/// The file that the loader opens, and the loader.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) path: PathBuf,
    pub(super) loader: PathBuf,
}

/// The number of bytes that are read of a file: headers and the interpreter's name are near its start.
const BEGINNING: u64 = 1 << 20;
/// The kernel follows at most this many interpreters of scripts.
const SCRIPTS: usize = 4;

impl Program {
    /// Searches for a program as a shell does.
    ///
    /// # Errors
    /// If there is none, with status 127; if it can't be run, with 126.
    pub fn find(name: &OsStr) -> Result<Self, Refusal> {
        let mut found = None;
        if name.as_bytes().contains(&b'/') {
            found = Some(PathBuf::from(name));
        } else if !name.is_empty() {
            let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
            let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
            found = places.find(|place| place.is_file() && executable(place));
        }
        let shown = name.to_string_lossy();
        let Some(path) = found else {
            return Err(Refusal::new(
                NOT_FOUND,
                format!("{shown}: there is no such program in PATH"),
            ));
        };
        match fs::metadata(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => Err(
                Refusal::new(CANNOT_RUN, format!("{shown}: permission denied")),
            ),
            Err(_) => Err(Refusal::new(
                NOT_FOUND,
                format!("{shown}: there is no such program"),
            )),
            Ok(data) if !data.is_file() => Err(Refusal::new(
                CANNOT_RUN,
                format!("{shown}: not a program but a directory or a special file"),
            )),
            Ok(_) if !executable(&path) => Err(Refusal::new(
                CANNOT_RUN,
                format!("{shown}: the file is not executable (chmod +x)"),
            )),
            Ok(_) => Ok(Self { path }),
        }
    }

    /// The program's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a library can be preloaded into it, and by which loader; otherwise why not.
    pub(super) fn examine(&self) -> Result<Loaded, String> {
        let mut path = self.path.clone();
        for _ in 0..=SCRIPTS {
            unprivileged(&path)?;
            match elf::image(&beginning(&path)?) {
                Image::Script(interpreter) => path = PathBuf::from(interpreter),
                Image::Dynamic(loader) => {
                    if loader.contains("musl") {
                        return Err(format!(
                            "{} is linked against the C library musl, and stacks and locks are \
                             made for glibc's programs; --stack none schedules and places it",
                            path.display()
                        ));
                    }
                    return Ok(Loaded {
                        // A program searches for its libraries from its real location.
                        path: path.canonicalize().unwrap_or(path),
                        loader: PathBuf::from(loader),
                    });
                }
                Image::Static => {
                    return Err(format!(
                        "{} is linked statically, so nothing can be loaded into it to give its \
                         threads stacks or lock its memory; --stack none (without --lock) \
                         schedules and places it",
                        path.display()
                    ));
                }
                Image::Foreign => {
                    return Err(format!(
                        "{} is for another processor or word size than this punctual, so its \
                         library can't be loaded into it",
                        path.display()
                    ));
                }
                Image::Unknown => {
                    return Err(format!(
                        "{} is neither an ELF program nor a script that names its interpreter (#!)",
                        path.display()
                    ));
                }
            }
        }
        Err(format!(
            "{} is a script whose interpreters are scripts",
            self.path.display()
        ))
    }
}

fn beginning(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(BEGINNING).read_to_end(&mut bytes))
        .map_err(|error| {
            format!(
                "{} can't be read, so it can't be told whether a library can be loaded into it: {}",
                path.display(),
                super::plain(&error)
            )
        })?;
    Ok(bytes)
}

fn executable(path: &Path) -> bool {
    CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| {
        // SAFETY: `path` is a C string that outlives the call.
        unsafe { libc::access(path.as_ptr(), libc::X_OK) == 0 }
    })
}

/// The loader ignores preloaded libraries for a program with more privileges than its caller.
fn unprivileged(path: &Path) -> Result<(), String> {
    let data = fs::metadata(path).map_err(|_| {
        format!(
            "its interpreter {} isn't there or can't be looked at",
            path.display()
        )
    })?;
    let bits = data.mode() & (libc::S_ISUID | libc::S_ISGID);
    if bits != 0 {
        let kind = if bits & libc::S_ISUID != 0 {
            "set-uid"
        } else {
            "set-gid"
        };
        return Err(format!(
            "{} is {kind}: the loader takes no foreign library into a program that runs with \
             its owner's rights",
            path.display()
        ));
    }
    if has_capabilities(path) {
        return Err(format!(
            "{} has file capabilities (getcap): the loader takes no foreign library into it",
            path.display()
        ));
    }
    Ok(())
}

fn has_capabilities(path: &Path) -> bool {
    CString::new(path.as_os_str().as_bytes()).is_ok_and(|path| {
        // SAFETY: both names are C strings that outlive the call; with a size of 0 nothing is written.
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
