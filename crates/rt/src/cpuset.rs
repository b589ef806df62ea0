//! Processor sets: CPUs reserved for one program.
//!
//! With the cpuset controller of cgroup v2, a set is an isolated *partition*: the scheduler
//! places no other task there. The kernel accepts the request in any case and reports in a state
//! file whether the partition is valid. Another group may invalidate it later, so call
//! [`Cpuset::state`] again when it matters. With cgroup v1, a set is exclusive (`cpu_exclusive`)
//! and without load balancing. That excludes only *sibling* groups: tasks of the root group may
//! still run on its CPUs.
//!
//! A set is a named directory, and needs no other journal: creating one changes nothing else
//! except a list of controllers, which is harmless. [`Cpuset::remove`] moves the set's tasks to
//! the parent and removes the set. It is idempotent, and works for a set that another process
//! left behind.
//!
//! Nothing here is for a real-time thread: all of it reads and writes files.

use std::ffi::CStr;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cpulist::{CpuListError, joined, numbers};

/// The cgroup version that has the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// A hierarchy of its own.
    One,
    /// The unified hierarchy.
    Two,
}

/// Why a processor set can't be created or used.
#[derive(Debug)]
#[non_exhaustive]
pub enum CpusetError {
    /// The kernel has no cpuset controller, or none is mounted (ENOTSUP).
    Absent,
    /// The kernel can't provide the isolation, with the kernel's reason (EBUSY).
    NotIsolated(String),
    /// The name is not valid for a directory, or no CPU is named (EINVAL).
    InvalidArgument,
    /// This CPU doesn't exist (EINVAL).
    NoSuchCpu(usize),
    /// The file, and the kernel's error for it.
    System(PathBuf, io::Error),
}

impl CpusetError {
    /// Out of memory (ENOMEM). Not real-time safe.
    #[must_use]
    pub fn no_memory() -> Self {
        let error = io::Error::from_raw_os_error(libc::ENOMEM);
        Self::System(PathBuf::new(), error)
    }

    /// The number that the C functions put into `errno`. Real-time safe.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::Absent => libc::ENOTSUP,
            Self::NotIsolated(_) => libc::EBUSY,
            Self::InvalidArgument | Self::NoSuchCpu(_) => libc::EINVAL,
            // Reading a file allocates room for its text.
            Self::System(_, error) if error.kind() == io::ErrorKind::OutOfMemory => libc::ENOMEM,
            Self::System(_, error) => error.raw_os_error().unwrap_or(libc::EIO),
        }
    }
}

impl CpusetError {
    /// What it means, and how to fix it. Real-time safe.
    #[must_use]
    pub fn advice(&self) -> &'static CStr {
        match self {
            Self::Absent => c"no cpuset controller is mounted: mount cgroup v2, or the cpuset controller of v1",
            Self::NotIsolated(_) => {
                c"the kernel does not isolate the set: another set has one of its CPUs, or some are \
                  offline; call with a buffer to get the kernel's reason"
            }
            Self::InvalidArgument => c"a set needs a name without slashes, and at least one CPU",
            Self::NoSuchCpu(_) => c"a CPU of the set is offline or does not exist",
            Self::System(..) if self.errno() == libc::ENOMEM => c"no memory for the set",
            Self::System(_, error) => match error.raw_os_error() {
                Some(libc::ENAMETOOLONG) => c"name of the set: expected at most 255 bytes",
                Some(libc::EEXIST) => c"the name is taken by another set: choose another, or remove that set",
                Some(libc::ENOENT) => c"no such set: create it first",
                Some(libc::ESRCH) => c"no such process: it has ended, or the ID is wrong",
                Some(libc::EBUSY) => c"the set has child sets, or tasks that refuse to move: remove those first",
                Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
                    c"processor sets need root, and a writable cgroup file system"
                }
                _ => c"the kernel refused a file of the set",
            },
        }
    }
}

impl fmt::Display for CpusetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => write!(
                f,
                "no cpuset controller is mounted: mount cgroup v2, or the cpuset controller of v1"
            ),
            Self::NotIsolated(reason) => {
                write!(f, "the kernel does not isolate the processor set: {reason}")
            }
            Self::NoSuchCpu(cpu) => write!(f, "CPU {cpu} is offline or does not exist"),
            Self::InvalidArgument => write!(
                f,
                "a processor set needs a name without slashes, and at least one CPU"
            ),
            Self::System(..) if self.errno() == libc::ENOMEM => {
                write!(f, "no memory for the processor set")
            }
            Self::System(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for CpusetError {}

type Result<T> = std::result::Result<T, CpusetError>;

/// The hierarchy in which sets are created.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpusets {
    root: PathBuf,
    version: Version,
    /// `cpus` rather than `cpuset.cpus`: mounted with `noprefix`.
    prefix: &'static str,
}

/// One processor set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpuset {
    folder: PathBuf,
    sets: Cpusets,
}

impl Cpusets {
    /// The cpuset hierarchy of this machine. Not for a real-time thread: it reads files.
    ///
    /// # Errors
    /// [`CpusetError::Absent`].
    pub fn of_this_machine() -> Result<Self> {
        let mounts = match read(Path::new("/proc/self/mounts")) {
            Err(error) if error.errno() == libc::ENOMEM => return Err(error),
            mounts => mounts.unwrap_or_default(),
        };
        let (mut one, mut two) = (None, None);
        for line in mounts.lines() {
            let mut words = line.split(' ').skip(1);
            let (Some(place), Some(kind), Some(options)) =
                (words.next(), words.next(), words.next())
            else {
                continue;
            };
            match kind {
                "cgroup2" => two = Some(place),
                "cgroup" if options.split(',').any(|option| option == "cpuset") => {
                    one = Some(place);
                }
                "cpuset" => one = Some(place),
                _ => {}
            }
        }
        let has = |place: &&str| {
            fs::read_to_string(Path::new(place).join("cgroup.controllers"))
                .is_ok_and(|list| list.split_whitespace().any(|name| name == "cpuset"))
        };
        if let Some(place) = two.filter(has) {
            return Ok(Self::at(place, Version::Two));
        }
        one.map(|place| Self::at(place, Version::One))
            .ok_or(CpusetError::Absent)
    }

    /// The hierarchy that is mounted at `root`. Not for a real-time thread: it reads files.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>, version: Version) -> Self {
        let root = root.into();
        let bare = version == Version::One && root.join("cpus").exists();
        Self {
            prefix: if bare { "" } else { "cpuset." },
            root,
            version,
        }
    }

    /// The cgroup version that has the controller. Real-time safe.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// Finds an existing set by name; any process may have created it. Not for a real-time
    /// thread: it reads files.
    ///
    /// # Errors
    /// [`CpusetError::InvalidArgument`]; ENOENT when no such set exists.
    pub fn find(&self, name: &str) -> Result<Cpuset> {
        let set = self.named(name)?;
        match fs::metadata(&set.folder) {
            Ok(_) => Ok(set),
            Err(error) => Err(CpusetError::System(set.folder, error)),
        }
    }

    /// Creates a set with this name and these CPUs. If it can't be isolated, it is removed again.
    /// Not for a real-time thread: it writes files.
    ///
    /// # Errors
    /// [`CpusetError::NotIsolated`] with the kernel's reason, [`CpusetError::InvalidArgument`], or the kernel's
    /// error for a file: EEXIST when the name is taken, EACCES without permission.
    pub fn create(&self, name: &str, cpus: &[usize]) -> Result<Cpuset> {
        let set = self.named(name)?;
        if cpus.is_empty() {
            return Err(CpusetError::InvalidArgument);
        }
        // The kernel has several errors for a CPU that doesn't exist: EINVAL, ERANGE, EOVERFLOW.
        // The root's own list lacks the CPUs of other partitions.
        let there = read(Path::new("/sys/devices/system/cpu/online"));
        let there = match there.ok().map(|list| numbers(&list).map_err(|no| no.error)) {
            Some(Err(CpuListError::NoMemory)) => return Err(CpusetError::no_memory()),
            Some(Ok(there)) => there,
            _ => Vec::new(),
        };
        if !there.is_empty()
            && let Some(&cpu) = cpus.iter().find(|cpu| !there.contains(cpu))
        {
            return Err(CpusetError::NoSuchCpu(cpu));
        }
        if self.version == Version::Two {
            // Already enabled on most machines; the other controllers stay unchanged.
            write(&self.root.join("cgroup.subtree_control"), "+cpuset")?;
        }
        fs::create_dir(&set.folder)
            .map_err(|error| CpusetError::System(set.folder.clone(), error))?;
        let isolated = set.isolate(cpus);
        if isolated.is_err() {
            let _ = set.remove();
        }
        isolated.map(|()| set)
    }

    fn named(&self, name: &str) -> Result<Cpuset> {
        // Refused before a path is allocated for it; the kernel would refuse it too.
        if name.len() > 255 {
            let error = io::Error::from_raw_os_error(libc::ENAMETOOLONG);
            return Err(CpusetError::System(self.root.clone(), error));
        }
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\n', '\0']) {
            return Err(CpusetError::InvalidArgument);
        }
        Ok(Cpuset {
            folder: self.root.join(name),
            sets: self.clone(),
        })
    }
}

impl Cpuset {
    /// Its directory. Real-time safe.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{}{name}", self.sets.prefix))
    }

    fn isolate(&self, cpus: &[usize]) -> Result<()> {
        let list = joined(cpus).map_err(|_| CpusetError::no_memory())?;
        // All CPUs exist, as checked above, so EINVAL means that another set has one of them.
        let taken = |error| match error {
            CpusetError::System(_, told) if told.raw_os_error() == Some(libc::EINVAL) => {
                CpusetError::NotIsolated("another set has one of these CPUs".to_owned())
            }
            other => other,
        };
        write(&self.file("cpus"), &list).map_err(taken)?;
        match self.sets.version {
            Version::Two => {
                write(&self.file("cpus.partition"), "isolated")?;
                self.state()
            }
            Version::One => {
                // Without memory nodes no task can be moved into the set.
                let parent = self.sets.root.join(format!("{}mems", self.sets.prefix));
                write(&self.file("mems"), &read(&parent)?)?;
                write(&self.file("cpu_exclusive"), "1").map_err(taken)?;
                write(&self.file("sched_load_balance"), "0")?;
                self.state()
            }
        }
    }

    /// Checks whether the set is isolated now. Not for a real-time thread: it reads files.
    ///
    /// # Errors
    /// [`CpusetError::NotIsolated`] with the kernel's reason.
    pub fn state(&self) -> Result<()> {
        match self.sets.version {
            Version::Two => {
                let state = read(&self.file("cpus.partition"))?;
                if state == "isolated" {
                    return Ok(());
                }
                let reason = state
                    .split_once('(')
                    .map_or(&*state, |(_, reason)| reason.trim_end_matches(')'));
                Err(CpusetError::NotIsolated(reason.to_owned()))
            }
            Version::One => {
                if read(&self.file("cpu_exclusive"))? != "1" {
                    return Err(CpusetError::NotIsolated(
                        "it is no longer exclusive".to_owned(),
                    ));
                }
                let effective = read(&self.file("effective_cpus"))?;
                if effective.is_empty() || effective != read(&self.file("cpus"))? {
                    return Err(CpusetError::NotIsolated(format!(
                        "only its CPUs {effective} are left: the others are offline or taken"
                    )));
                }
                Ok(())
            }
        }
    }

    /// The CPUs of the set's tasks, as the kernel formats lists. Not for a real-time thread: it
    /// reads files.
    ///
    /// # Errors
    /// When the set no longer exists.
    pub fn cpus(&self) -> Result<String> {
        read(&self.file(match self.sets.version {
            Version::One => "effective_cpus",
            Version::Two => "cpus.effective",
        }))
    }

    /// Moves a whole process (0: the caller's) into the set. Not for a real-time thread: it
    /// writes files.
    ///
    /// # Errors
    /// ESRCH for a dead process, EACCES without permission.
    pub fn move_process(&self, process: libc::pid_t) -> Result<()> {
        write(&self.folder.join("cgroup.procs"), &process.to_string())
    }

    /// Moves the set's tasks to the root of the hierarchy and removes the set; does nothing when
    /// the set no longer exists. Not for a real-time thread: it writes files.
    ///
    /// # Errors
    /// EBUSY when tasks can't be moved away, or the set has child sets.
    pub fn remove(&self) -> Result<()> {
        let tasks = self.folder.join("cgroup.procs");
        // Tasks that start during the move are moved in the next round.
        for _ in 0..100 {
            match fs::remove_dir(&self.folder) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(error) => return Err(CpusetError::System(self.folder.clone(), error)),
            }
            for process in read(&tasks)?.lines() {
                match write(&self.sets.root.join("cgroup.procs"), process) {
                    // The task has ended in the meantime.
                    Err(CpusetError::System(_, error))
                        if error.raw_os_error() == Some(libc::ESRCH) => {}
                    other => other?,
                }
            }
        }
        let busy = io::Error::from_raw_os_error(libc::EBUSY);
        Err(CpusetError::System(self.folder.clone(), busy))
    }
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path)
        .map(|mut text| {
            text.truncate(text.trim_end().len());
            text
        })
        .map_err(|error| CpusetError::System(path.to_owned(), error))
}

/// Writes to an existing file with one write(): the kernel parses each write as a whole.
fn write(path: &Path, value: &str) -> Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|error| CpusetError::System(path.to_owned(), error))
}
