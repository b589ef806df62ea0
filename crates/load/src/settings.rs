//! How loads are to run.

use std::path::PathBuf;
use std::thread;

use crate::class::LoadClass;
use crate::look::LEAST_CPU_NS;
use crate::sys;

/// How loads are to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSettings {
    /// Their scheduling class.
    pub class: LoadClass,
    /// The CPUs that they run on; `None` is all that are allowed, whatever
    /// the caller's own affinity is.
    pub cpus: Option<Vec<usize>>,
    /// How many CPUs `cpus: None` means; loads are scaled to it.
    pub allowed_cpus: usize,
    /// Where files are made, in a directory that is removed afterwards;
    /// `None` is the directory for temporary files.
    pub scratch_dir: Option<PathBuf>,
    /// The program that knows the verb [`worker::VERB`](crate::worker::VERB);
    /// `None` is the running one.
    pub program: Option<PathBuf>,
    /// Moves each task's begin by up to 10 ms and makes random choices others.
    /// 0 does neither: that is the standard load.
    pub seed: u64,
    /// CPU time that a command must use in each second to count as working; with 0 it is
    /// not looked at.
    pub least_cpu_ns: u64,
}

impl Default for LoadSettings {
    fn default() -> Self {
        LoadSettings {
            class: LoadClass::default(),
            cpus: None,
            allowed_cpus: allowed_cpus(),
            scratch_dir: None,
            program: None,
            seed: 0,
            least_cpu_ns: LEAST_CPU_NS,
        }
    }
}

/// How many CPUs this process may have, whatever its affinity is now.
pub fn allowed_cpus() -> usize {
    // Affinity belongs to a thread: a new one tries, and takes it away again.
    let widened = || sys::set_affinity(None).and_then(|()| sys::affinity());
    let widened = thread::Builder::new()
        .spawn(widened)
        .ok()
        .and_then(|thread| thread.join().ok());
    // Where no thread can be had, what follows will say so.
    let cpus = widened.unwrap_or_else(sys::affinity);
    cpus.map_or(1, |cpus| cpus.len().max(1))
}
