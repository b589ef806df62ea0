//! The survey: what a machine is, and how it is set, before a run.
//!
//! Everything is read through a [`Root`], so that recorded trees of other machines
//! can be read as well. Readers are total: what can't be read or parsed
//! is in [`SystemState::unread`] with the reason.
//!
//! ```no_run
//! use punctual_machine::Root;
//! use punctual_machine::survey::cpus::{Place, default_probed};
//! use punctual_machine::survey::{SurveyRequest, survey, topology};
//!
//! let root = Root::live();
//! let choice = default_probed(&topology(&root), &Place::read(&root));
//! let state = survey(&root, &SurveyRequest { probed_cpus: choice.probed, priority: 80 });
//! assert!(!state.kernel.release.is_empty());
//! ```

use punctual_record::system::SystemState;

use crate::root::{Reader, Root};

pub mod cgroup;
pub mod cpus;
pub mod group;
pub mod group_limits;
pub mod memory;
pub mod process;
pub mod stolen;
pub mod thread;
pub mod thread_owner;

mod clock;
mod hardware;
mod kernel;
mod limits;
mod ordinary;
mod power;
mod processor;
mod scheduler;
mod tasks;
mod virtualisation;

pub use clock::source as clock_source;
pub use limits::{allowed, user_namespace};
pub use memory::memory_available;
pub use ordinary::{OrdinaryTimes, ordinary_times};
pub use power::governor;
pub use processor::{online, topology};
pub use thread::{Policy, ReadBackError, ThreadScheduling, read_back, tracer};

/// What a survey needs to know about the coming run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SurveyRequest {
    /// The CPUs that will be probed.
    pub probed_cpus: Vec<usize>,
    /// The real-time priority of the probes; 0 under ordinary scheduling.
    pub priority: u32,
}

/// Reads the machine. It takes milliseconds, changes nothing and never fails: what
/// could not be read is in [`SystemState::unread`].
#[must_use]
pub fn survey(root: &Root, request: &SurveyRequest) -> SystemState {
    let mut reader = Reader::new(root);
    let reader = &mut reader;
    let kernel = kernel::read(reader);
    let cgroups = cgroup::read(reader);
    let mut state = SystemState {
        hostname: reader.text("/proc/sys/kernel/hostname").unwrap_or_default(),
        boot_id: reader.optional("/proc/sys/kernel/random/boot_id"),
        distribution: distribution(reader),
        processor: processor::read(reader, &request.probed_cpus),
        hardware: hardware::read(reader),
        clock: clock::read(reader, &request.probed_cpus),
        power: power::read(reader, &request.probed_cpus),
        virtualisation: virtualisation::read(reader, &kernel, &cgroups),
        scheduler: scheduler::read(reader, request, &cgroups),
        limits: limits::read(reader, &cgroups),
        memory: memory::read(reader),
        kernel,
        unread: Vec::new(),
    };
    state.unread = std::mem::replace(reader, Reader::new(root)).into_unread();
    state
}

/// The distribution's pretty name.
fn distribution(reader: &mut Reader<'_>) -> Option<String> {
    let text = reader
        .optional("/etc/os-release")
        .or_else(|| reader.optional("/usr/lib/os-release"))?;
    let value = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("PRETTY_NAME="))?;
    let name = value.trim_matches(['"', '\'']).trim();
    (!name.is_empty()).then(|| name.to_owned())
}
