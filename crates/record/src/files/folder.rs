//! A directory that is held open.

use std::ffi::{CString, OsStr, OsString};
use std::fmt;
use std::fs::{self, File, Metadata};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::geteuid;

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
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            held: retry_on_intr(|| rustix::fs::open(place, flags, Mode::empty()))?,
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
        rustix::fs::mkdirat(&self.held, component(name)?, Mode::from_raw_mode(0o777))?;
        let made = self.enter(name)?;
        // Between the two calls somebody may have put another in its place.
        if made.metadata()?.uid() == geteuid().as_raw() && made.is_empty()? {
            return Ok(made);
        }
        let what = "another directory was put in its place";
        Err(io::Error::new(io::ErrorKind::PermissionDenied, what))
    }

    /// Opens a directory of this one, and no link to one.
    ///
    /// # Errors
    /// The system's.
    pub fn enter(&self, name: &OsStr) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        Ok(Self {
            held: self.open_at(name, flags, Mode::empty())?,
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
        let flags = OFlags::PATH | OFlags::NOFOLLOW;
        File::from(self.open_at(name, flags, Mode::empty())?).metadata()
    }

    /// Why root must not write into it, if so: other users could take files away and put theirs
    /// in place. An ordinary user may do as they like.
    ///
    /// # Errors
    /// The system's.
    pub fn fault(&self) -> io::Result<Option<Fault>> {
        let found = self.metadata()?;
        let open_to_all = found.mode() & 0o1002 == 0o002;
        Ok(match geteuid().as_raw() {
            0 if found.uid() != 0 => Some(Fault::Owner(found.uid())),
            0 if open_to_all => Some(Fault::WritableByAll),
            _ => None,
        })
    }

    /// Why root must not follow a link of it, which belongs to that user.
    #[must_use]
    pub fn fault_of_link(&self, owner: u32) -> Option<Fault> {
        (geteuid().as_raw() == 0 && owner != 0).then_some(Fault::LinkOf(owner))
    }

    /// Whether it holds nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn is_empty(&self) -> io::Result<bool> {
        for entry in Dir::read_from(&self.held)? {
            if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes it for as long as it is held open; false where somebody else has. Where the file system knows
    /// no locks, everybody has it.
    ///
    /// # Errors
    /// The system's.
    pub fn take(&self) -> io::Result<bool> {
        let lock = FlockOperation::NonBlockingLockExclusive;
        match retry_on_intr(|| rustix::fs::flock(&self.held, lock)) {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(Errno::BADF | Errno::INVAL | Errno::NOLCK | Errno::OPNOTSUPP | Errno::NOSYS) => {
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
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
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        Ok(self
            .open_at(name, flags, Mode::from_raw_mode(0o666))?
            .into())
    }

    /// Opens a file that was begun once more, for writing from its beginning.
    pub(super) fn open_again(&self, unfinished: &Unfinished) -> io::Result<File> {
        self.open_special(&unfinished.0)
    }

    /// Opens an entry as it stands for writing, whatever it is, without waiting for anybody:
    /// [`wait_again`](super::wait_again) has its writes wait.
    ///
    /// # Errors
    /// The system's; ENXIO for a FIFO that nobody reads.
    pub fn open_special(&self, name: &OsStr) -> io::Result<File> {
        let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        Ok(self.open_at(name, flags, Mode::empty())?.into())
    }

    fn open_at(&self, name: &OsStr, flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        let name = component(name)?;
        let flags = flags | OFlags::CLOEXEC;
        let opened = retry_on_intr(|| rustix::fs::openat(&self.held, name.as_c_str(), flags, mode));
        Ok(opened?)
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
    pub fn publish(&self, file: &File, unfinished: Unfinished, name: &OsStr) -> io::Result<()> {
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
        self.publish(&file, unfinished, name)
    }

    /// Gives an entry another name, in place of what has it.
    ///
    /// # Errors
    /// The system's.
    pub fn rename(&self, from: &OsStr, to: &OsStr) -> io::Result<()> {
        let (from, to) = (component(from)?, component(to)?);
        Ok(rustix::fs::renameat(&self.held, from, &self.held, to)?)
    }

    /// Exchanges the names of two entries.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn exchange(&self, unfinished: &Unfinished, name: &OsStr) -> io::Result<()> {
        let (one, other) = (component(&unfinished.0)?, component(name)?);
        let (held, flags) = (&self.held, RenameFlags::EXCHANGE);
        Ok(rustix::fs::renameat_with(held, one, held, other, flags)?)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    pub fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.held,
            component(name)?,
            AtFlags::empty(),
        )?)
    }

    /// Removes a directory that holds nothing.
    ///
    /// # Errors
    /// The system's.
    pub fn remove_empty(&self, name: &OsStr) -> io::Result<()> {
        let flags = AtFlags::REMOVEDIR;
        Ok(rustix::fs::unlinkat(&self.held, component(name)?, flags)?)
    }

    /// Brings the names to the disk.
    ///
    /// # Errors
    /// The system's.
    pub fn sync(&self) -> io::Result<()> {
        match retry_on_intr(|| rustix::fs::fsync(&self.held)) {
            // Some file systems have nothing to do for directories, and say so.
            Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
            done => Ok(done?),
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
