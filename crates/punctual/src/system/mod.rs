//! Reads the machine: what it is, whether the requested conditions are in force,
//! and what changes during a run.
//!
//! Everything is read through a [`Root`], so that recorded trees of other machines
//! can be read as well. Readers are total: what can't be read or parsed
//! is in [`SystemState::unread`] with the reason. Nothing here prints, and
//! only [`dma_latency::DmaLatency`] changes anything.
//!
//! ```no_run
//! use punctual_tool::system::cpus::{Place, default_probed};
//! use punctual_tool::system::{self, Root, SurveyRequest};
//!
//! let root = Root::live();
//! let choice = default_probed(&system::topology(&root), &Place::read(&root));
//! let state = system::survey(&root, &SurveyRequest { probed_cpus: choice.probed, priority: 80 });
//! assert!(!state.kernel.release.is_empty());
//! ```

pub mod cpus;
pub mod demands;
pub mod dma_latency;
pub mod group_limits;
pub mod memory;
pub mod monitor;
pub mod stolen;
pub mod thread;
pub mod thread_owner;

mod cgroup;
mod clock;
pub mod group;
mod kernel;
pub(crate) mod limits;
mod power;
pub mod process;
mod processor;
mod scheduler;
mod survey;
mod tasks;
mod virtualisation;

pub use dma_latency::DmaLatency;
pub use limits::{allowed, executable};
pub use memory::memory_available;
pub use processor::{online, topology};
pub use punctual_machine::root;
pub use punctual_record::system::SystemState;
pub use root::{READ_LIMIT, Reader, Root};
pub use survey::{SurveyRequest, survey};
pub use thread::{Policy, ReadBackError, ThreadScheduling, read_back, tracer};
