//! Moves interrupts away from the CPUs of a real-time program, and restores them.
//!
//! The old affinity of each interrupt is written to a journal, and synced to disk, before
//! anything changes, so that [`Interrupts::restore`] works after a crash or a `kill -9`. Nothing
//! is restored automatically: a rollback in the middle of operation does harm. Restoring is
//! idempotent, and reports what it couldn't restore.
//!
//! The kernel manages some interrupts itself (for example those of NVMe queues) and doesn't let
//! programs steer them. They are skipped and listed, which is no error. Use
//! `isolcpus=managed_irq` for those.
//!
//! Nothing here is for a real-time thread: all of it reads and writes files.

mod plan;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::fmt::Write as _;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::affinity::MAX_CPUS;
use crate::cpulist::joined;

pub use plan::{Change, Plan};

/// The interrupts of a machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interrupts {
    folder: PathBuf,
}

/// An interrupt that was left unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its number; `None` is the default affinity for new interrupts.
    pub irq: Option<u32>,
    /// The reason.
    pub reason: Cow<'static, str>,
}

/// The result of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Interrupts whose affinity was changed.
    pub changed: Vec<u32>,
    /// Those that could not be changed.
    pub skipped: Vec<Skipped>,
}

/// The first line of a journal.
const HEAD: &str = "punctual irq journal 1";
/// The name of the default affinity in a journal.
const DEFAULT: &str = "default";

impl Default for Interrupts {
    fn default() -> Self {
        Self::of_this_machine()
    }
}

impl Interrupts {
    /// The interrupts in `/proc/irq`. For setting up: it allocates.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self::at("/proc/irq")
    }

    /// The interrupts in another folder of the same structure. For setting up: it allocates.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The numbers of all interrupts that have an affinity, ascending. Not for a real-time
    /// thread: it reads files.
    ///
    /// # Errors
    /// When the folder can't be read.
    pub fn numbers(&self) -> io::Result<Vec<u32>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let number = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            if let Some(number) = number
                && self.file(Some(number)).exists()
            {
                numbers.push(number);
            }
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The CPUs that may serve an interrupt, as the kernel formats lists: `0-3,5`. Not for a
    /// real-time thread: it reads files.
    ///
    /// # Errors
    /// ENOENT when the interrupt doesn't exist.
    pub fn affinity(&self, irq: u32) -> io::Result<String> {
        self.read(Some(irq))
    }

    /// Restricts the given interrupts to the CPUs `onto`. An empty `irqs` means all existing
    /// interrupts and the default for new ones. An interrupt moves when it next occurs. Not for a
    /// real-time thread: it writes files.
    ///
    /// A `journal` that exists keeps its values: those from before the first change. If nothing
    /// is changed, no new journal is left behind.
    ///
    /// # Errors
    /// EINVAL when no CPU is named or one doesn't exist; the error of writing the journal. Then
    /// everything, the journal included, is as it was before the call.
    pub fn steer(&self, irqs: &[u32], onto: &[usize], journal: &Path) -> io::Result<Outcome> {
        if onto.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let wanted = self.requested(irqs)?;
        let (list, mask) = (joined(onto).map_err(|_| no_memory())?, mask(onto)?);
        let mut kept = read_journal(journal)?;
        let earlier = kept.clone();
        let mut outcome = Outcome::default();
        let mut todo = Vec::new();
        let room = todo.try_reserve_exact(wanted.len());
        room.map_err(|_| no_memory())?;
        let room = outcome.skipped.try_reserve_exact(wanted.len());
        room.map_err(|_| no_memory())?;
        let room = outcome.changed.try_reserve_exact(wanted.len());
        room.map_err(|_| no_memory())?;
        for irq in wanted {
            match self.read(irq) {
                Ok(before) => {
                    kept.entry(irq).or_insert_with(|| before.clone());
                    todo.push((irq, before));
                }
                Err(error) => outcome.skipped.push(Skipped {
                    irq,
                    reason: reason(&error),
                }),
            }
        }
        write_journal(journal, &kept)?;
        let mut changed = Vec::new();
        let room = changed.try_reserve_exact(todo.len());
        room.map_err(|_| no_memory())?;
        for (irq, before) in todo {
            let value = if irq.is_some() { &list } else { &mask };
            match self.change(irq, value, &mut outcome) {
                Ok(true) => changed.push((irq, before)),
                Ok(false) => {}
                Err(error) => {
                    self.undo(&changed, &earlier, journal);
                    return Err(error);
                }
            }
        }
        if changed.is_empty() && earlier.is_empty() {
            // Nothing needs restoring.
            let _ = fs::remove_file(journal);
        }
        Ok(outcome)
    }

    /// The requested interrupts; an empty list means the default and all that exist.
    fn requested(&self, irqs: &[u32]) -> io::Result<Vec<Option<u32>>> {
        let mut wanted = Vec::new();
        let all = match irqs.is_empty() {
            true => self.numbers()?,
            false => Vec::new(),
        };
        wanted
            .try_reserve_exact(1 + irqs.len() + all.len())
            .map_err(|_| no_memory())?;
        if irqs.is_empty() {
            wanted.push(None);
        }
        wanted.extend(irqs.iter().copied().chain(all).map(Some));
        Ok(wanted)
    }

    /// Reverts the changes of a call that failed. What can't be reverted stays in the journal.
    fn undo(&self, changed: &[(Option<u32>, String)], earlier: &Journal, journal: &Path) {
        let mut outcome = Outcome::default();
        let back = changed
            .iter()
            .filter(|(irq, before)| matches!(self.change(*irq, before, &mut outcome), Ok(true)))
            .count();
        if back < changed.len() {
            return;
        }
        let _ = match earlier.is_empty() {
            true => fs::remove_file(journal),
            false => write_journal(journal, earlier),
        };
    }

    /// Restores the affinities in the journal, and removes the journal when all are restored.
    /// Interrupts that no longer exist are listed and dropped. Without a journal it does nothing.
    /// Not for a real-time thread: it writes files.
    ///
    /// # Errors
    /// When the journal can't be read, isn't one, or can't be removed.
    pub fn restore(&self, journal: &Path) -> io::Result<Outcome> {
        let mut outcome = Outcome::default();
        let mut left = false;
        for (irq, before) in read_journal(journal)? {
            match self.read(irq) {
                Ok(now) if now == before => {}
                Ok(_) => {
                    let skipped = outcome.skipped.len();
                    if let Err(error) = self.change(irq, &before, &mut outcome) {
                        outcome.skipped.push(Skipped {
                            irq,
                            reason: reason(&error),
                        });
                    }
                    left |= outcome.skipped.len() > skipped;
                }
                Err(error) => outcome.skipped.push(Skipped {
                    irq,
                    reason: reason(&error),
                }),
            }
        }
        if !left {
            match fs::remove_file(journal) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(outcome)
    }

    fn file(&self, irq: Option<u32>) -> PathBuf {
        match irq {
            Some(irq) => self.folder.join(irq.to_string()).join("smp_affinity_list"),
            None => self.folder.join("default_smp_affinity"),
        }
    }

    fn read(&self, irq: Option<u32>) -> io::Result<String> {
        Ok(fs::read_to_string(self.file(irq))?.trim().to_owned())
    }

    /// Returns whether it was changed; if not, it was added to the skipped ones.
    fn change(&self, irq: Option<u32>, value: &str, outcome: &mut Outcome) -> io::Result<bool> {
        // One write, and never to a new file: the kernel parses each write as a whole.
        let written = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.file(irq))
            .and_then(|mut file| file.write_all(value.as_bytes()));
        match written {
            Ok(()) => outcome.changed.extend(irq),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOVERFLOW)) => {
                // The kernel uses both errors for a CPU that doesn't exist.
                return Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            Err(error) => {
                outcome.skipped.push(Skipped {
                    irq,
                    reason: reason(&error),
                });
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What an error of [`Interrupts::steer`] or [`Interrupts::restore`] means, and how to fix it.
/// Real-time safe.
#[must_use]
pub fn advice(error: &io::Error) -> &'static CStr {
    match error.raw_os_error() {
        None => c"the journal is not a file that this library wrote: give another path",
        Some(libc::EINVAL) => c"no CPU is given, or one that is offline or does not exist",
        Some(libc::ENOMEM) => c"no memory for the list of interrupts",
        Some(libc::ENOENT | libc::ENOTDIR) => {
            c"the folder of the journal does not exist, or /proc is not mounted"
        }
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            c"no permission for the journal: run as root, or give a path that is writable"
        }
        _ => c"the journal could not be read or written",
    }
}

const MANAGED: &str =
    "the kernel manages its affinity (or it belongs to one CPU), and refuses to change it";

fn reason(error: &io::Error) -> Cow<'static, str> {
    match error.raw_os_error() {
        // EIO before Linux 6.
        Some(libc::EPERM | libc::EIO) => MANAGED.into(),
        Some(libc::EACCES) => "not permitted: run as root".into(),
        Some(libc::ENOENT) => "it no longer exists".into(),
        Some(libc::ENOSPC) => "no interrupt vector is left on these CPUs".into(),
        _ => error.to_string().into(),
    }
}

fn no_memory() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}

/// Formats CPUs as the kernel's masks: groups of 32 bits in hexadecimal, the highest first.
fn mask(cpus: &[usize]) -> io::Result<String> {
    let last = cpus.iter().max().copied().unwrap_or(0);
    if last >= MAX_CPUS {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    let mut mask = [0_u32; MAX_CPUS / 32];
    for cpu in cpus {
        mask[cpu / 32] |= 1 << (cpu % 32);
    }
    // 8 digits and a comma each: 2,304 bytes at most.
    let mut text = String::new();
    for word in mask[..=last / 32].iter().rev() {
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a string doesn't fail.
        let _ = write!(text, "{comma}{word:08x}");
    }
    Ok(text)
}

type Journal = BTreeMap<Option<u32>, String>;

/// The limit of a journal: room for 3,000 interrupts with the longest list of CPUs.
const LONGEST: u64 = 64 << 20;

fn read_journal(path: &Path) -> io::Result<Journal> {
    // Opening a FIFO would block; with O_NONBLOCK it reads as empty, which is not a journal.
    let mut options = fs::OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Journal::new()),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut text)?;
    let text = String::from_utf8(text).ok();
    let text = text.filter(|text| text.len() as u64 <= LONGEST);
    text.and_then(|text| parse_journal(&text)).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is not a journal of interrupts", path.display()),
        )
    })
}

fn parse_journal(text: &str) -> Option<Journal> {
    let mut lines = text.lines();
    if lines.next()? != HEAD {
        return None;
    }
    let mut journal = Journal::new();
    for line in lines {
        let (name, value) = line.split_once(' ')?;
        let irq = match name {
            DEFAULT => None,
            number => Some(number.parse().ok()?),
        };
        let known = |byte: u8| byte.is_ascii_hexdigit() || matches!(byte, b',' | b'-');
        if value.is_empty() || !value.bytes().all(known) {
            return None;
        }
        journal.insert(irq, value.to_owned());
    }
    Some(journal)
}

/// Atomic: written as a whole or not at all, and on disk when this returns.
fn write_journal(path: &Path, journal: &Journal) -> io::Result<()> {
    let mut text = format!("{HEAD}\n");
    for (irq, value) in journal {
        let name = irq.map_or(DEFAULT.to_owned(), |irq| irq.to_string());
        text.push_str(&format!("{name} {value}\n"));
    }
    let (mut file, new) = begin(path)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&new);
        return Err(error);
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Creates a file next to `path` that no other user can have prepared: it follows no link.
fn begin(path: &Path) -> io::Result<(fs::File, PathBuf)> {
    for _ in 0..100 {
        let random = RandomState::new().build_hasher().finish();
        let mut new = path.as_os_str().to_owned();
        new.push(format!(".{random:016x}.new"));
        let new = PathBuf::from(new);
        match fs::File::create_new(&new) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok((made?, new)),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_the_format_of_the_kernel() {
        for (cpus, expected) in [
            (&[0][..], "00000001"),
            (&[1, 31], "80000002"),
            (&[0, 33], "00000002,00000001"),
        ] {
            assert_eq!(mask(cpus).unwrap(), expected);
        }
        assert!(mask(&[MAX_CPUS]).is_err());
    }

    #[test]
    fn a_journal_is_read_as_a_whole_or_refused() {
        let good = format!("{HEAD}\ndefault 3\n4 0-1\n17 0,2-3\n");
        let journal = parse_journal(&good).unwrap();
        assert_eq!(journal.len(), 3);
        assert_eq!(journal[&Some(17)], "0,2-3");
        for bad in [
            String::new(),
            "punctual irq journal 2\n".to_owned(),
            format!("{HEAD}\n4\n"),
            format!("{HEAD}\nx 0\n"),
            format!("{HEAD}\n4 ../../etc\n"),
        ] {
            assert!(parse_journal(&bad).is_none(), "{bad}");
        }
    }
}
