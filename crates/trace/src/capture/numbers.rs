//! The kernel's thread numbers if we are in a PID namespace of our own: a container.
//!
//! The thread that we and `/proc` call 17 is 48,213 in the kernel's events. No process outside can be
//! asked, so a BPF program goes through the tasks that are visible from here.

use std::collections::HashMap;

use super::unavailable::Unavailable;

/// The kernel's number for the initial PID namespace (`PROC_PID_INIT_INO`).
const FIRST: u64 = 0xEFFF_FFFC;
/// Threads that are kept.
const MOST: usize = 1 << 17;

/// The numbers of the threads that are visible from here; in the initial namespace they are the
/// kernel's, and nothing is looked up.
#[derive(Debug, Clone, Default)]
pub struct Numbers {
    /// Absent in the initial namespace.
    known: Option<IdMaps>,
}

/// Our number and the kernel's of each thread, in both directions.
#[derive(Debug, Clone, Default)]
struct IdMaps {
    kernels: HashMap<u32, u32>,
    here: HashMap<u32, u32>,
}

impl Numbers {
    /// The current numbers.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn read() -> Result<Self, Unavailable> {
        if in_first_namespace() {
            return Ok(Self::default());
        }
        let mut numbers = Self {
            known: Some(IdMaps::default()),
        };
        numbers.learn(read()?);
        Ok(numbers)
    }

    /// The numbers that `/proc` has: not ours if a container sees its host's.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn of_proc() -> Result<Self, Unavailable> {
        let own = std::fs::read_link("/proc/self");
        let own = own.ok().and_then(|link| link.to_str()?.parse::<u32>().ok());
        match own {
            Some(number) if number != std::process::id() => Ok(Self::default()),
            _ => Self::read(),
        }
    }

    /// Adds a thread that has started since, if it isn't known; a thread that has ended stays known.
    pub fn add_thread(&mut self, kernels: u32) {
        let strange = |known: &IdMaps| !known.here.contains_key(&kernels);
        if self.known.as_ref().is_some_and(strange) {
            self.refresh();
        }
    }

    /// Adds all threads that have started since.
    pub fn refresh(&mut self) {
        if self.known.is_some()
            && let Ok(lines) = read()
        {
            self.learn(lines);
        }
    }

    fn learn(&mut self, lines: Vec<(u32, u32)>) {
        let Some(known) = &mut self.known else {
            return;
        };
        if known.here.len() > MOST {
            *known = IdMaps::default();
        }
        for (here, kernels) in lines {
            known.kernels.insert(here, kernels);
            known.here.insert(kernels, here);
        }
    }

    /// The number that `/proc` has for a thread; `None` if it is outside our namespace, or
    /// was never met.
    #[must_use]
    pub fn in_proc(&self, kernels: u32) -> Option<u32> {
        match &self.known {
            None => Some(kernels),
            // Our number may now belong to another thread.
            Some(known) => known
                .here
                .get(&kernels)
                .copied()
                .filter(|here| known.kernels.get(here) == Some(&kernels)),
        }
    }

    /// The kernel's number of a thread. A thread that isn't found has ended: it gets a number that no
    /// thread has, so it has no events.
    #[must_use]
    pub fn kernels(&self, here: u32) -> u32 {
        match &self.known {
            None => here,
            Some(known) => known.kernels.get(&here).copied().unwrap_or(0),
        }
    }

    /// The number that a thread has here; the kernel's if it has none here because it is outside.
    #[must_use]
    pub fn visible_number(&self, kernels: u32) -> u32 {
        let known = self.known.as_ref();
        let here = known.and_then(|known| known.here.get(&kernels));
        here.copied().unwrap_or(kernels)
    }
}

/// Without /proc, the kernel itself is asked.
fn in_first_namespace() -> bool {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata("/proc/self/ns/pid").is_ok_and(|it| it.ino() == FIRST)
}

#[cfg(not(feature = "kernel"))]
fn read() -> Result<Vec<(u32, u32)>, Unavailable> {
    Ok(Vec::new())
}

#[cfg(feature = "kernel")]
fn read() -> Result<Vec<(u32, u32)>, Unavailable> {
    use std::io::Read as _;

    use aya::programs::{Iter, Program};
    use aya::{Btf, EbpfLoader};

    use super::kernel::{incomplete, refused};
    use super::unavailable;
    use punctual_record::TracingStep;

    /// The compiled program.
    static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/numbers.bpf.o"));
    unavailable::check()?;
    let btf = Btf::from_sys_fs().map_err(|error| refused(TracingStep::ReadTypes, &error))?;
    let mut programs = EbpfLoader::new()
        .btf(Some(&btf))
        .load(OBJECT)
        .map_err(|error| refused(TracingStep::ThreadIds, &error))?;
    let name = "each_task";
    let program = programs.program_mut(name).ok_or_else(|| incomplete(name))?;
    let mut file = <&mut Program>::try_into(program)
        .and_then(|program: &mut Iter| {
            program.load("task", &btf)?;
            let link = program.attach()?;
            program.take_link(link)
        })
        .map_err(|error| refused(TracingStep::ThreadIds, &error))?
        .into_file()
        .map_err(|error| refused(TracingStep::ThreadIds, &error))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)
        .map_err(|error| refused(TracingStep::ThreadIds, &error))?;
    let word = |bytes: &[u8]| {
        bytes
            .iter()
            .rev()
            .fold(0, |sum, it| sum << 8 | u32::from(*it))
    };
    let lines = bytes.chunks_exact(8);
    Ok(lines
        .map(|line| (word(&line[..4]), word(&line[4..])))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_first_namespace_numbers_are_the_kernels() {
        let numbers = Numbers::default();
        assert_eq!((numbers.kernels(17), numbers.visible_number(17)), (17, 17));
    }

    #[test]
    fn in_another_namespace_numbers_are_looked_up_and_never_mixed_up() {
        let mut numbers = Numbers {
            known: Some(IdMaps::default()),
        };
        numbers.learn(vec![(1, 4801), (17, 48_213)]);
        assert_eq!((numbers.kernels(17), numbers.kernels(18)), (48_213, 0));
        assert_eq!(
            (numbers.visible_number(48_213), numbers.visible_number(17)),
            (17, 17)
        );
        numbers.learn(vec![(17, 50_000)]);
        assert_eq!(numbers.kernels(17), 50_000, "a later thread of that number");
        assert_eq!(
            numbers.visible_number(48_213),
            17,
            "a thread that ended is still known"
        );
    }
}
