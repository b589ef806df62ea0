//! A directory that is held open.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs::{self, File, Metadata};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use punctual_rt::sys::file as sys;

/// A directory that is held open: what is renamed or linked in its place is not it.
#[derive(Debug)]
pub struct Folder {
    held: OwnedFd,
    path: PathBuf,
}

/// A file under a name that is not its own yet.
#[derive(Debug)]
pub struct Unfinished(pub(super) OsString);

/// Why root must not write into a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It belongs to this other user.
    Owner(u32),
    /// Every user may rename and remove files in it.
    WritableByAll,
    /// It is reached by a link of this other user.
    LinkOf(u32),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(user) => write!(f, "it belongs to user {user}"),
            Self::WritableByAll => f.write_str("every user may change what is in it"),
            Self::LinkOf(user) => write!(f, "it is a link of user {user}"),
        }
    }
}

impl Folder {
    /// Opens one by its path; an empty path is the working directory.
    ///
    /// # Errors
    /// The system's.
    pub fn open(path: &Path) -> io::Result<Self> {
        let place = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let held = File::options()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(place)?;
        Ok(Self {
            held: held.into(),
            path: path.to_owned(),
        })
    }

    /// Opens one by its path, and makes it and its parents where they lack.
    ///
    /// # Errors
    /// The system's.
    pub fn make_all(path: &Path) -> io::Result<Self> {
        fs::create_dir_all(path)?;
        Self::open(path)
    }

    /// Makes a directory in this one, empty and ours.
    ///
    /// # Errors
    /// The system's; `AlreadyExists` where something has the name, a link too.
    pub fn make(&self, name: &OsStr) -> io::Result<Self> {
        sys::make_directory_at(self.held.as_fd(), &component(name)?, 0o777)?;
        let made = self.enter(name)?;
        // Between the two calls somebody may have put another in its place.
        if made.metadata()?.uid() == sys::effective_user() && made.is_empty()? {
            return Ok(made);
        }
        let what = "somebody has put another directory in its place";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
    }

    /// Opens a directory of this one, and no link to one.
    ///
    /// # Errors
    /// The system's.
    pub fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        Ok(Self {
            held: sys::open_at(self.held.as_fd(), &component(name)?, flags, 0)?,
            path: self.path.join(name),
        })
    }

    /// Opens a directory of this one, and makes it where it lacks.
    ///
    /// # Errors
    /// The system's.
    pub fn enter_or_make(&self, name: &OsStr) -> io::Result<Self> {
        match self.make(name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.enter(name),
            made => made,
        }
    }

    /// Where it was when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What is known of the directory.
    ///
    /// # Errors
    /// The system's.
    pub fn metadata(&self) -> io::Result<Metadata> {
        File::from(self.held.try_clone()?).metadata()
    }

    /// What is known of an entry; of a link, not of what it leads to.
    ///
    /// # Errors
    /// The system's.
    pub fn metadata_of(&self, name: &OsStr) -> io::Result<Metadata> {
        let flags = libc::O_PATH | libc::O_NOFOLLOW;
        File::from(sys::open_at(
            self.held.as_fd(),
            &component(name)?,
            flags,
            0,
        )?)
        .metadata()
    }

    /// Why root must not write into it, if so: other users could take files away and put theirs
    /// in place. An ordinary user may do as they like.
    ///
    /// # Errors
    /// The system's.
    pub fn fault(&self) -> io::Result<Option<Fault>> {
        let found = self.metadata()?;
        let open_to_all = found.mode() & 0o1002 == 0o002;
        Ok(match sys::effective_user() {
            0 if found.uid() != 0 => Some(Fault::Owner(found.uid())),
            0 if open_to_all => Some(Fault::WritableByAll),
            _ => None,
        })
    }

    /// Why root must not follow a link of it, which belongs to that user.
    #[must_use]
    pub fn fault_of_link(&self, owner: u32) -> Option<Fault> {
        (sys::effective_user() == 0 && owner != 0).then_some(Fault::LinkOf(owner))
    }

    /// Whether it holds nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn is_empty(&self) -> io::Result<bool> {
        sys::is_empty(self.held.as_fd())
    }

    /// Whether it was removed since it was opened.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.metadata().is_ok_and(|found| found.nlink() == 0)
    }

    /// Makes a file that was not there, as `name`, for writing and reading.
    ///
    /// # Errors
    /// The system's; `AlreadyExists` where something has the name, a link too.
    pub fn create(&self, name: &OsStr) -> io::Result<File> {
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW;
        let held = self.held.as_fd();
        Ok(sys::open_at(held, &component(name)?, flags, 0o666)?.into())
    }

    /// Opens a file that was begun once more, for writing from its beginning.
    pub(super) fn open_again(&self, unfinished: &Unfinished) -> io::Result<File> {
        self.open_special(&unfinished.0)
    }

    /// Opens an entry as it stands, whatever it is, without waiting for anybody.
    pub(super) fn open_special(&self, name: &OsStr) -> io::Result<File> {
        let flags = libc::O_WRONLY | libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        Ok(sys::open_at(self.held.as_fd(), &component(name)?, flags, 0)?.into())
    }

    /// Begins a file that will be `name` once it is finished.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(&self, name: &OsStr) -> io::Result<(File, Unfinished)> {
        component(name)?;
        // As many as somebody would have to guess.
        const MOST: u32 = 100;
        let mut attempt = 0;
        loop {
            let unfinished = temporary(name);
            match self.create(&unfinished) {
                Ok(file) => return Ok((file, Unfinished(unfinished))),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < MOST => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Brings a file that was begun to the disk, and gives it its name.
    ///
    /// # Errors
    /// The system's; the file is removed then.
    pub fn finish(&self, file: &File, unfinished: Unfinished, name: &OsStr) -> io::Result<()> {
        // A rename may reach the disk before the data does; then a power cut would leave an
        // empty file under the good name.
        let done = file
            .sync_all()
            .and_then(|()| self.rename(&unfinished.0, name));
        if done.is_err() {
            self.abandon(unfinished);
        }
        done.and_then(|()| self.sync())
    }

    /// Removes a file that was begun.
    pub fn abandon(&self, unfinished: Unfinished) {
        let _ = self.remove(&unfinished.0);
    }

    /// Writes a file whole or not at all, in place of what has the name.
    ///
    /// # Errors
    /// The system's. What stood before still stands then, and nothing else is left behind.
    pub fn replace(&self, name: &OsStr, bytes: &[u8]) -> io::Result<()> {
        let (mut file, unfinished) = self.begin(name)?;
        if let Err(error) = file.write_all(bytes) {
            self.abandon(unfinished);
            return Err(error);
        }
        self.finish(&file, unfinished, name)
    }

    /// Gives an entry another name, in place of what has it.
    ///
    /// # Errors
    /// The system's.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        sys::rename_at(self.held.as_fd(), &component(from)?, &component(to)?)
    }

    /// Exchanges the names of two entries.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn exchange(&self, unfinished: &Unfinished, name: &OsStr) -> io::Result<()> {
        let (one, other) = (component(&unfinished.0)?, component(name)?);
        sys::exchange_at(self.held.as_fd(), &one, &other)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        sys::remove_at(self.held.as_fd(), &component(name)?, 0)
    }

    /// Removes a directory that holds nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_empty(&self, name: &OsStr) -> io::Result<()> {
        sys::remove_at(self.held.as_fd(), &component(name)?, libc::AT_REMOVEDIR)
    }

    /// Brings the names to the disk.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        match File::from(self.held.try_clone()?).sync_all() {
            // Some file systems have nothing to do for directories, and say so.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOTSUP)) => {
                Ok(())
            }
            done => done,
        }
    }
}

/// A name of one component.
fn component(name: &OsStr) -> io::Result<CString> {
    let wrong = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
        return Err(wrong("expected a name of one component"));
    }
    CString::new(bytes).map_err(|_| wrong("a name with a zero byte"))
}

/// A name that nobody has prepared anything under.
fn temporary(name: &OsStr) -> OsString {
    // With what comes before and behind it, a name has at most 255 bytes.
    const MOST: usize = 200;
    let random = RandomState::new().build_hasher().finish();
    let bytes = name.as_bytes();
    let mut made = b".".to_vec();
    made.extend_from_slice(&bytes[..bytes.len().min(MOST)]);
    made.extend(format!(".{random:016x}.tmp").bytes());
    OsString::from_vec(made)
}
