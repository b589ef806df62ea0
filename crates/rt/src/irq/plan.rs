//! A dry run: what steering and restoring would change.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::{Interrupts, MANAGED, Skipped, mask, no_memory, read_journal, reason};
use crate::cpulist::{joined, numbers};

/// An interrupt whose affinity would change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its number; `None` is the default affinity for new interrupts.
    pub irq: Option<u32>,
    /// The current CPUs as the kernel formats them: a list, or a mask for the default.
    pub now: String,
    /// The new CPUs.
    pub then: String,
}

/// What a call would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Interrupts whose affinity would change.
    pub changes: Vec<Change>,
    /// Those that can't be changed, as far as that is known in advance: from Linux 6.11 on the
    /// file modes show which interrupts the kernel manages, earlier only a write does.
    pub skipped: Vec<Skipped>,
}

impl Interrupts {
    /// What [`Interrupts::restore`] would put back. Not for a real-time thread: it reads files.
    ///
    /// # Errors
    /// When the journal can't be read or isn't one.
    pub fn preview(&self, journal: &Path) -> io::Result<Plan> {
        let mut plan = Plan::default();
        for (irq, before) in read_journal(journal)? {
            self.plan(&mut plan, irq, |now| {
                (now != before).then_some(before.clone())
            });
        }
        Ok(plan)
    }

    /// What [`Interrupts::steer`] would change. An interrupt that has these CPUs already isn't
    /// listed, although steering writes them again. Not for a real-time thread: it reads files.
    ///
    /// # Errors
    /// EINVAL when no CPU is named or one doesn't exist; ENOMEM.
    pub fn preview_steer(&self, irqs: &[u32], onto: &[usize]) -> io::Result<Plan> {
        if onto.is_empty() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let (list, mask) = (joined(onto).map_err(|_| no_memory())?, mask(onto)?);
        let wanted = self.requested(irqs)?;
        exist(onto)?;
        let mut plan = Plan::default();
        let room = plan.changes.try_reserve_exact(wanted.len());
        room.map_err(|_| no_memory())?;
        let room = plan.skipped.try_reserve_exact(wanted.len());
        room.map_err(|_| no_memory())?;
        for irq in wanted {
            self.plan(&mut plan, irq, |now| match irq {
                Some(_) => (numbers(now).ok() != numbers(&list).ok()).then(|| list.clone()),
                None => (digits(now) != digits(&mask)).then(|| mask.clone()),
            });
        }
        Ok(plan)
    }

    /// Adds one interrupt; `then` returns the new value for the current one, if it differs.
    fn plan(&self, plan: &mut Plan, irq: Option<u32>, then: impl Fn(&str) -> Option<String>) {
        let now = match self.read(irq) {
            Ok(now) => now,
            Err(error) => return plan.skip(irq, reason(&error)),
        };
        // The owner's write bit shows whether the kernel permits changes, also to a user who may
        // not write.
        let mode = fs::metadata(self.file(irq)).map_or(0, |file| file.permissions().mode());
        if mode & 0o200 == 0 {
            return plan.skip(irq, MANAGED.into());
        }
        if let Some(then) = then(&now) {
            plan.changes.push(Change { irq, now, then });
        }
    }
}

impl Plan {
    fn skip(&mut self, irq: Option<u32>, reason: std::borrow::Cow<'static, str>) {
        self.skipped.push(Skipped { irq, reason });
    }
}

/// EINVAL as the kernel returns it for a list: a CPU number out of range, or no CPU that is
/// online.
fn exist(cpus: &[usize]) -> io::Result<()> {
    let read = |name: &str| {
        let text = fs::read_to_string(Path::new("/sys/devices/system/cpu").join(name)).ok()?;
        numbers(&text).ok()
    };
    let none = |known: Option<Vec<usize>>| {
        known.is_some_and(|known| !cpus.iter().any(|cpu| known.contains(cpu)))
    };
    let beyond = |known: Option<Vec<usize>>| {
        known.is_some_and(|known| !cpus.iter().all(|cpu| known.contains(cpu)))
    };
    if none(read("online")) || beyond(read("possible")) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    Ok(())
}

/// The significant digits of a mask: no commas, no leading zeros.
fn digits(mask: &str) -> String {
    let all = mask.replace(',', "");
    all.trim_start_matches('0').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_zeros_make_no_difference_between_masks() {
        assert_eq!(digits("00000000,0000000F"), digits("f"));
        assert_ne!(digits("1,00000000"), digits("1"));
        assert_eq!(digits("0"), "");
    }
}
