//! How loads run.

use std::path::PathBuf;
use std::thread;

use crate::class::LoadClass;
use crate::look::LEAST_CPU_NS;
use crate::sys;

/// How loads run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadSettings {
    /// Their scheduling class.
    pub class: LoadClass,
    /// The CPUs that they run on; `None`: all allowed CPUs, whatever the caller's own affinity.
    pub cpus: Option<Vec<usize>>,
    /// The number of CPUs of `cpus: None`; loads are scaled to it.
    pub allowed_cpus: usize,
    /// Where files are made, in a directory that is removed afterwards;
    /// `None` is the directory for temporary files.
    pub scratch_dir: Option<PathBuf>,
    /// The program that knows the verb [`worker::VERB`](crate::worker::VERB);
    /// `None` is the running one.
    pub program: Option<PathBuf>,
    /// Delays each task's start by up to 10 ms and changes random choices. 0, as in the standard load,
    /// does neither.
    pub seed: u64,
    /// CPU time that a command must use per second to count as working; 0: not checked.
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

/// How many CPUs this process may use, whatever its affinity is now.
pub fn allowed_cpus() -> usize {
    // Affinity belongs to a thread: a temporary thread tries all CPUs.
    let widened = || sys::set_affinity(None).and_then(|()| sys::affinity());
    let widened = thread::Builder::new()
        .spawn(widened)
        .ok()
        .and_then(|thread| thread.join().ok());
    // If no thread can be started, the next step fails with the reason.
    let cpus = widened.unwrap_or_else(sys::affinity);
    cpus.map_or(1, |cpus| cpus.len().max(1))
}
