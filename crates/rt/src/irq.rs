//! Interrupts away from the CPUs of a real-time program, and back again.
//!
//! What an interrupt's affinity was is written to a journal, and to disk, before anything is
//! changed, so that [`Interrupts::restore`] puts it back also after a crash or a `kill -9`.
//! Nothing is restored by itself: a rollback in the midst of service does harm. Restoring is
//! idempotent, and tells what it couldn't do.
//!
//! Managed interrupts (those of NVMe queues, for one) belong to the kernel and can't be
//! steered: they are skipped and listed, which is no error. `isolcpus=managed_irq` keeps
//! those away.
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

/// An interrupt that was left as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Its number; `None` is the default for interrupts to come.
    pub irq: Option<u32>,
    /// Why.
    pub reason: Cow<'static, str>,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Interrupts whose affinity was changed.
    pub changed: Vec<u32>,
    /// Those that could not be changed.
    pub skipped: Vec<Skipped>,
}

/// The first line of a journal.
const HEAD: &str = "punctual irq journal 1";
/// How the default is called in it.
const DEFAULT: &str = "default";

impl Default for Interrupts {
    fn default() -> Self {
        Self::of_this_machine()
    }
}

impl Interrupts {
    /// Those in `/proc/irq`. For setting up: it allocates.
    #[must_use]
    pub fn of_this_machine() -> Self {
        Self::at("/proc/irq")
    }

    /// Those in another folder that is made up in the same way. For setting up: it allocates.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self {
            folder: folder.into(),
        }
    }

    /// The numbers of all that have an affinity, ascending.
    /// Not for a real-time thread: it reads files.
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

    /// The CPUs that may serve an interrupt, as the kernel writes lists: `0-3,5`.
    /// Not for a real-time thread: it reads files.
    ///
    /// # Errors
    /// ENOENT when there is no such interrupt.
    pub fn affinity(&self, irq: u32) -> io::Result<String> {
        self.read(Some(irq))
    }

    /// Lets the CPUs `onto` alone serve the interrupts, or all there are and all that come,
    /// where none are named. An interrupt takes its new place when it next occurs.
    /// Not for a real-time thread: it writes files.
    ///
    /// A `journal` that exists keeps the values that it has: those from before the first
    /// change. Where nothing is changed, none is left behind that wasn't there before.
    ///
    /// # Errors
    /// EINVAL when no CPU is named or one doesn't exist; what prevents the journal from being
    /// written. Then all is as it was before, the journal too.
    pub fn steer(&self, irqs: &[u32], onto: &[usize], journal: &Path) -> io::Result<Outcome> {
        if onto.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let wanted = self.wanted(irqs)?;
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
            // Nothing is to be put back.
            let _ = fs::remove_file(journal);
        }
        Ok(outcome)
    }

    /// Those that are meant: where none are named, the default and all that there are.
    fn wanted(&self, irqs: &[u32]) -> io::Result<Vec<Option<u32>>> {
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

    /// Takes back what a call has changed before it failed. What can't be taken back stays in
    /// the journal.
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

    /// Puts back what the journal holds, and removes it when everything is back. Interrupts
    /// that exist no more are listed, and forgotten. Without a journal nothing is done.
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

    /// Whether it was changed; if not, it is among those skipped.
    fn change(&self, irq: Option<u32>, value: &str, outcome: &mut Outcome) -> io::Result<bool> {
        // One write, and never a file that isn't there: the kernel takes each as a whole.
        let written = fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.file(irq))
            .and_then(|mut file| file.write_all(value.as_bytes()));
        match written {
            Ok(()) => outcome.changed.extend(irq),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOVERFLOW)) => {
                // The kernel has both numbers for a CPU that isn't there.
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
        None => c"the file that was named as the journal is no journal of interrupts",
        Some(libc::EINVAL) => c"no CPU is named, or one that is offline or not there",
        Some(libc::ENOMEM) => c"no memory for the list of interrupts",
        Some(libc::ENOENT | libc::ENOTDIR) => {
            c"the folder of the journal doesn't exist, or /proc isn't mounted"
        }
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => {
            c"the journal can't be written there, or read"
        }
        _ => c"the journal could not be read or written",
    }
}

const MANAGED: &str = "the kernel manages it (or it belongs to one CPU) and lets nobody steer it";

fn reason(error: &io::Error) -> Cow<'static, str> {
    match error.raw_os_error() {
        // EIO before Linux 6.
        Some(libc::EPERM | libc::EIO) => MANAGED.into(),
        Some(libc::EACCES) => "not permitted: steering interrupts is root's".into(),
        Some(libc::ENOENT) => "it is there no more".into(),
        Some(libc::ENOSPC) => "no interrupt vector is left on these CPUs".into(),
        _ => error.to_string().into(),
    }
}

fn no_memory() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOMEM)
}

/// CPUs as the kernel writes masks: 32 bits at a time in hexadecimal, the highest first.
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

/// No journal is longer: room for 3,000 interrupts with the longest list of CPUs.
const LONGEST: u64 = 64 << 20;

fn read_journal(path: &Path) -> io::Result<Journal> {
    // A FIFO would be waited for; without that it is empty, and no journal.
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

/// Whole or not at all, and on disk when this returns.
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

/// A file beside another that nobody can have prepared: no link is followed.
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
    fn masks_are_written_as_the_kernel_does() {
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
    fn journals_are_read_or_refused_as_a_whole() {
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
