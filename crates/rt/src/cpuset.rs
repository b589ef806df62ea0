//! Processor sets: CPUs that are a program's alone.
//!
//! On a machine with the cpuset controller of control groups version 2, a set is a *partition*
//! that is isolated: the scheduler takes no task there by itself. The kernel accepts the
//! request in any case, and tells in the state that is read back whether it is so; another
//! group may also invalidate it later, so [`Cpuset::state`] can be asked again. Where
//! version 1 is what there is, a set is exclusive (`cpu_exclusive`) and without balancing,
//! which says that no *sibling* has these CPUs: tasks of the root group may still run there.
//!
//! A set is a directory with a name, and that is its journal: nothing that was there before is
//! changed but one list of controllers, which is harmless. [`Cpuset::remove`] moves its tasks
//! to the parent and removes it, idempotently, also for a process that finds a set which
//! another one left behind.
//!
//! Nothing here is for a real-time thread: all of it reads and writes files.

use std::ffi::CStr;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::cpulist::{CpuListError, joined, numbers};

/// Which version of control groups has the controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// Its own hierarchy.
    One,
    /// The unified hierarchy.
    Two,
}

/// Why there is no processor set.
#[derive(Debug)]
#[non_exhaustive]
pub enum CpusetError {
    /// The kernel has no cpuset controller, or none is mounted (ENOTSUP).
    Absent,
    /// The kernel doesn't keep the promise, with its own reason (EBUSY).
    Invalid(String),
    /// The name isn't one for a directory, or no CPU is named (EINVAL).
    Wrong,
    /// This CPU is not there (EINVAL).
    NoSuchCpu(usize),
    /// A file and what the kernel said to it.
    System(PathBuf, io::Error),
}

impl CpusetError {
    /// There is no memory for it (ENOMEM). Not real-time safe.
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
            Self::Invalid(_) => libc::EBUSY,
            Self::Wrong | Self::NoSuchCpu(_) => libc::EINVAL,
            // Of reading a file, which makes room for its text.
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
            Self::Absent => c"no cpuset controller is mounted, in version 1 or 2",
            Self::Invalid(_) => {
                c"the kernel doesn't isolate the set: another one has a CPU of it, or only some \
                  are left; the call with a buffer tells the kernel's reason"
            }
            Self::Wrong => c"a set wants a name without slashes and at least one CPU",
            Self::NoSuchCpu(_) => c"a CPU of the set is offline, or is not there",
            Self::System(..) if self.errno() == libc::ENOMEM => c"no memory for the set",
            Self::System(_, error) => match error.raw_os_error() {
                Some(libc::ENAMETOOLONG) => c"the name of a set has at most 255 bytes",
                Some(libc::EEXIST) => c"the name is taken by another set",
                Some(libc::ENOENT) => c"there is no such set",
                Some(libc::ESRCH) => c"there is no such process",
                Some(libc::EBUSY) => c"the set has tasks that can't be moved, or sets within",
                Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
                    c"processor sets are root's, and their file system must be writable"
                }
                _ => c"the kernel refused a file of the set",
            },
        }
    }
}

impl fmt::Display for CpusetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => write!(f, "no cpuset controller is mounted, in version 1 or 2"),
            Self::Invalid(reason) => {
                write!(f, "the kernel doesn't isolate the processor set: {reason}")
            }
            Self::NoSuchCpu(cpu) => write!(f, "CPU {cpu} is offline, or is not there"),
            Self::Wrong => write!(
                f,
                "a processor set wants a name without slashes and at least one CPU"
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

/// Where sets are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpusets {
    root: PathBuf,
    version: Version,
    /// `cpus` rather than `cpuset.cpus`: mounted with `noprefix`.
    prefix: &'static str,
}

/// One set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cpuset {
    folder: PathBuf,
    sets: Cpusets,
}

impl Cpusets {
    /// Those of this machine. Not for a real-time thread: it reads files.
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

    /// Those of the hierarchy that is mounted at `root`.
    /// Not for a real-time thread: it reads files.
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

    /// Which version has the controller. Real-time safe.
    #[must_use]
    pub fn version(&self) -> Version {
        self.version
    }

    /// A set of this name that exists, made by any process.
    /// Not for a real-time thread: it reads files.
    ///
    /// # Errors
    /// [`CpusetError::Wrong`]; ENOENT when there is none.
    pub fn find(&self, name: &str) -> Result<Cpuset> {
        let set = self.named(name)?;
        match fs::metadata(&set.folder) {
            Ok(_) => Ok(set),
            Err(error) => Err(CpusetError::System(set.folder, error)),
        }
    }

    /// Makes a set of this name with these CPUs for itself. Where it can't be isolated, it is
    /// removed again. Not for a real-time thread: it writes files.
    ///
    /// # Errors
    /// [`CpusetError::Invalid`] with the kernel's reason, [`CpusetError::Wrong`], or what the
    /// kernel said to a file: EEXIST when the name is taken, EACCES without the right.
    pub fn create(&self, name: &str, cpus: &[usize]) -> Result<Cpuset> {
        let set = self.named(name)?;
        if cpus.is_empty() {
            return Err(CpusetError::Wrong);
        }
        // The kernel has several numbers for it: EINVAL, ERANGE, EOVERFLOW. The root's own list lacks
        // the CPUs that other partitions have, or had.
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
            // Already so on most machines; the other controllers stay as they are.
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
        // A longer one would be refused by the kernel, once the path was made of it.
        if name.len() > 255 {
            let error = io::Error::from_raw_os_error(libc::ENAMETOOLONG);
            return Err(CpusetError::System(self.root.clone(), error));
        }
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\n', '\0']) {
            return Err(CpusetError::Wrong);
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
        // All of them are there, as was seen: what is left of EINVAL is that.
        let taken = |error| match error {
            CpusetError::System(_, told) if told.raw_os_error() == Some(libc::EINVAL) => {
                CpusetError::Invalid("another set has one of these CPUs".to_owned())
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
                // Without memory nodes no task can be moved in.
                let parent = self.sets.root.join(format!("{}mems", self.sets.prefix));
                write(&self.file("mems"), &read(&parent)?)?;
                write(&self.file("cpu_exclusive"), "1").map_err(taken)?;
                write(&self.file("sched_load_balance"), "0")?;
                self.state()
            }
        }
    }

    /// Whether the promise holds now. Not for a real-time thread: it reads files.
    ///
    /// # Errors
    /// [`CpusetError::Invalid`] with the kernel's reason.
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
                Err(CpusetError::Invalid(reason.to_owned()))
            }
            Version::One => {
                if read(&self.file("cpu_exclusive"))? != "1" {
                    return Err(CpusetError::Invalid(
                        "it isn't exclusive any more".to_owned(),
                    ));
                }
                let effective = read(&self.file("effective_cpus"))?;
                if effective.is_empty() || effective != read(&self.file("cpus"))? {
                    return Err(CpusetError::Invalid(format!(
                        "of its CPUs it has {effective} only: the others are offline or taken"
                    )));
                }
                Ok(())
            }
        }
    }

    /// The CPUs that its tasks have, as the kernel writes lists.
    /// Not for a real-time thread: it reads files.
    ///
    /// # Errors
    /// When it is gone.
    pub fn cpus(&self) -> Result<String> {
        read(&self.file(match self.sets.version {
            Version::One => "effective_cpus",
            Version::Two => "cpus.effective",
        }))
    }

    /// Moves a whole process into it (0: the caller's).
    /// Not for a real-time thread: it writes files.
    ///
    /// # Errors
    /// ESRCH for a dead process, EACCES without the right.
    pub fn take(&self, process: libc::pid_t) -> Result<()> {
        write(&self.folder.join("cgroup.procs"), &process.to_string())
    }

    /// Moves its tasks to the root of the hierarchy and removes it; nothing is done when it is
    /// gone already. Not for a real-time thread: it writes files.
    ///
    /// # Errors
    /// EBUSY when tasks can't be moved away, or it has sets within.
    pub fn remove(&self) -> Result<()> {
        let tasks = self.folder.join("cgroup.procs");
        // What is started while we move is moved in the next round.
        for _ in 0..100 {
            match fs::remove_dir(&self.folder) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {}
                Err(error) => return Err(CpusetError::System(self.folder.clone(), error)),
            }
            for process in read(&tasks)?.lines() {
                match write(&self.sets.root.join("cgroup.procs"), process) {
                    // It has ended meanwhile.
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

/// One write to a file that is there: the kernel takes each as a whole.
fn write(path: &Path, value: &str) -> Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file| file.write_all(value.as_bytes()))
        .map_err(|error| CpusetError::System(path.to_owned(), error))
}
