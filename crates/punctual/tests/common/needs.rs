//! What a test needs of the machine. A test is skipped for what the machine lacks, and for nothing
//! else: each check looks at the machine before anything is measured, and none asks the tool.
#![allow(
    dead_code,
    unused_macros,
    unused_imports,
    reason = "each test binary uses a part of it"
)]

use std::fmt::{self, Display};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

/// What this machine lacks. How a run ended, what it took or what it found has no place here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Absent {
    /// The tests don't run as root.
    Root,
    /// A program, a compiler or a library, with its package if that has another name.
    Program(String),
    /// A capability, or what a container or a security module withholds.
    Right(String),
    /// A feature of the kernel, or an architecture.
    Kernel(String),
    /// CPUs, memory, a device.
    Hardware(String),
    /// The test disturbs the whole machine, and is only run if this variable is set.
    Consent(&'static str),
}

impl Absent {
    pub fn program(name: impl Display) -> Self {
        Self::Program(name.to_string())
    }

    pub fn right(name: impl Display) -> Self {
        Self::Right(name.to_string())
    }

    pub fn kernel(feature: impl Display) -> Self {
        Self::Kernel(feature.to_string())
    }

    pub fn hardware(what: impl Display) -> Self {
        Self::Hardware(what.to_string())
    }

    pub fn cpus(count: usize) -> Self {
        Self::hardware(format!("{count} CPUs"))
    }

    /// What a program or the kernel refused to set up for a test, before it began.
    ///
    /// # Panics
    /// If that is neither a missing right nor a missing feature: then something is broken.
    #[track_caller]
    pub fn refused(what: &str, said: impl Display) -> Self {
        let said = said.to_string();
        let has = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let all = format!("{what}: {said}");
        if has(&[
            "Operation not permitted",
            "Permission denied",
            "Read-only file system",
        ]) {
            Self::Right(all)
        } else if has(&[
            "not supported",
            "not implemented",
            "Unknown device type",
            "unknown filesystem type",
            "wrong fs type",
            "No such device",
        ]) {
            Self::Kernel(all)
        } else {
            panic!("{all}")
        }
    }

    /// Prints the line by which `make test` knows a skipped test.
    #[allow(clippy::print_stderr, reason = "a skipped test says so")]
    pub fn report(&self) {
        eprintln!("SKIPPED: {self}");
    }
}

impl Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, what) = match self {
            Self::Root => return f.write_str("root"),
            Self::Program(what) => ("program", what.as_str()),
            Self::Right(what) => ("right", what.as_str()),
            Self::Kernel(what) => ("kernel", what.as_str()),
            Self::Hardware(what) => ("hardware", what.as_str()),
            Self::Consent(what) => ("consent", *what),
        };
        // One line, whatever a program printed.
        let words: Vec<&str> = what.split_whitespace().collect();
        write!(f, "{kind}: {}", words.join(" "))
    }
}

impl From<Absent> for String {
    fn from(absent: Absent) -> Self {
        absent.to_string()
    }
}

/// Ends a test that can't run here, with an [`Absent`].
macro_rules! skip {
    ($absent:expr) => {{
        $absent.report();
        return;
    }};
}
pub(crate) use skip;

/// What was found, or the end of the test: takes a result whose error is an [`Absent`].
macro_rules! need {
    ($found:expr) => {
        match $found {
            Ok(found) => found,
            Err(absent) => {
                absent.report();
                return;
            }
        }
    };
}
pub(crate) use need;

/// Whether the tests run as root.
pub fn is_root() -> bool {
    // Its owner is the effective user.
    fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0)
}

pub fn root() -> Result<(), Absent> {
    is_root().then_some(()).ok_or(Absent::Root)
}

/// Whether a program can be started.
pub fn has(program: &str) -> bool {
    find(program).is_some()
}

fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|directory| directory.join(program));
    places.find(|file| file.is_file())
}

pub fn program(name: &str) -> Result<PathBuf, Absent> {
    find(name).ok_or_else(|| Absent::program(name))
}

/// A file of the kernel, of a device or of a control group.
pub fn kernel_file(path: &str) -> Result<(), Absent> {
    let there = fs::metadata(path).map(drop);
    there.map_err(|error| Absent::kernel(format!("{path}: {error}")))
}

fn status(field: &str) -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_default().trim().to_owned()
}

/// So many CPUs that this process may use.
pub fn cpus(count: usize) -> Result<(), Absent> {
    let mask = status("Cpus_allowed");
    let digits = mask.chars().filter_map(|digit| digit.to_digit(16));
    let allowed: u32 = digits.map(u32::count_ones).sum();
    let enough = allowed as usize >= count;
    enough.then_some(()).ok_or_else(|| Absent::cpus(count))
}

/// Capabilities of this process, by their numbers and names in `linux/capability.h`.
fn capabilities(wanted: &[(u32, &str)]) -> Result<(), Absent> {
    let held = u64::from_str_radix(&status("CapEff"), 16).unwrap_or(0);
    match wanted.iter().find(|(number, _)| held >> number & 1 == 0) {
        Some((_, name)) => Err(Absent::right(name)),
        None => Ok(()),
    }
}

/// Real-time priorities and locked memory.
pub fn real_time() -> Result<(), Absent> {
    capabilities(&[(23, "CAP_SYS_NICE"), (14, "CAP_IPC_LOCK")])
}

/// Why a program says that it is not permitted something: this process isn't, either.
///
/// # Panics
/// If this process has the rights: then the program is wrong.
#[track_caller]
pub fn not_permitted(said: &str) -> Absent {
    match real_time() {
        Err(absent) => absent,
        Ok(()) => panic!("not permitted, with every right: {said}"),
    }
}

/// What a run usually requests: priority, memory, idle states.
pub fn rights() -> Result<(), Absent> {
    real_time()?;
    const DEVICE: &str = "/dev/cpu_dma_latency";
    let opened = fs::OpenOptions::new().write(true).open(DEVICE);
    let opened = opened.map(drop);
    opened.map_err(|error| Absent::right(format!("{DEVICE}: {error}")))
}

/// What tracing the kernel takes.
pub fn tracing() -> Result<(), Absent> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Err(Absent::kernel("BPF programs for this architecture"));
    }
    kernel_file("/sys/kernel/btf/vmlinux")?;
    let one = |number, name| capabilities(&[(number, name)]);
    one(21, "CAP_SYS_ADMIN").or_else(|_| one(39, "CAP_BPF").and_then(|()| one(38, "CAP_PERFMON")))
}

/// Runs a command that must work before a test can begin.
fn tried(what: &str, words: &[&str]) -> Result<(), Absent> {
    program(words[0])?;
    let mut command = Command::new(words[0]);
    let output = command.args(&words[1..]).env("LC_ALL", "C").output();
    let output = output.map_err(|error| Absent::refused(what, error))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(Absent::refused(
            what,
            String::from_utf8_lossy(&output.stderr),
        )),
    }
}

/// Namespaces, by the flags of unshare(1).
pub fn namespaces(flags: &[&str]) -> Result<(), Absent> {
    // With a limit of none the kernel's error is "No space left on device".
    for name in ["user", "pid", "mnt"] {
        let file = format!("/proc/sys/user/max_{name}_namespaces");
        if fs::read_to_string(&file).is_ok_and(|most| most.trim() == "0") {
            return Err(Absent::right(format!("{file} above 0")));
        }
    }
    tried("namespaces", &[&["unshare"], flags, &["true"]].concat())
}

/// A file system in memory, mounted in a namespace.
pub fn mounts() -> Result<(), Absent> {
    root()?;
    program("mount")?;
    let words = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/tmp"];
    tried("a mounted file system", &words)
}

/// A changeable copy of this machine's files.
pub fn overlays() -> Result<(), Absent> {
    mounts()?;
    let script = "mount -t tmpfs none /tmp && cd /tmp && mkdir upper work copy && \
        mount -t overlay overlay -o lowerdir=/,upperdir=upper,workdir=work copy";
    tried("overlayfs", &["unshare", "-m", "sh", "-c", script])
}

/// A C compiler.
pub fn compiler() -> Result<(), Absent> {
    program("cc").map(drop)
}

/// A test that disturbs the whole machine runs only if a variable is set.
pub fn consent(variable: &str, disturbance: &'static str) -> Result<(), Absent> {
    let given = std::env::var_os(variable).is_some();
    given.then_some(()).ok_or(Absent::Consent(disturbance))
}
