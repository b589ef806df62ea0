//! The plan of a watch, checked and complete.

use crate::conduct::plan::{Claim, TracingPlan};
use punctual_machine::survey::group::Group;
use punctual_machine::survey::process::Process;
use punctual_record::RunSource;
use punctual_record::{Interval, Request};
use punctual_trace::watch::marks::Mark;
use punctual_trace::watch::marks::preset::Preset;

/// A watch that can start.
#[derive(Debug, Clone)]
pub struct WatchPlan {
    /// The command line as it was given.
    pub command: Vec<String>,
    /// What is watched; absent for every real-time thread of the machine.
    pub target: Option<Target>,
    /// What is measured of it.
    pub scope: Scope,
    /// Length of the watch in ns; absent: until it is interrupted, or the program ends.
    pub duration_ns: Option<u64>,
    /// End at the first latency above this, in ns.
    pub break_ns: Option<u64>,
    /// The requirements.
    pub claim: Claim,
    /// The program's runtime, if its pauses are measured: its marks are the first of `marks`.
    pub runtime: Option<&'static Preset>,
    /// Places in the program.
    pub marks: Vec<Mark>,
    /// The limit of each, in ns, in their order.
    pub limits: Vec<Option<u64>>,
    /// Which late wake-ups are explained.
    pub tracing: TracingPlan,
}

/// What is measured of threads, in addition to their wake-ups.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// Also the program's threads without real-time priority.
    pub every: bool,
    /// Also where the threads are while they are off the CPU.
    pub off_cpu: bool,
    /// Also how long they wait for a CPU; for the whole system, every thread.
    pub run_queue: bool,
}

impl WatchPlan {
    /// The request, as the record keeps it.
    #[must_use]
    pub fn request(&self, cpus: &[usize]) -> Request {
        Request {
            source: RunSource::Watch {
                of: self.target.as_ref().map(|target| target.name().to_owned()),
            },
            // Each thread has its own: the watch requests none of these.
            interval: Interval::Fixed { interval_ns: 0 },
            cpus: cpus.to_vec(),
            policy: "other".to_owned(),
            priority: 0,
            duration_ns: self.duration_ns,
            loops: None,
            break_ns: self.break_ns,
            load: "none".to_owned(),
            load_class: "other".to_owned(),
            requirements: self.claim.requirements.clone(),
            confidence: self.claim.confidence,
            as_deployed: true,
            best_effort: false,
        }
    }
}

/// The threads that are watched.
#[derive(Debug, Clone)]
pub enum Target {
    /// One program.
    Program {
        /// Which.
        process: Process,
        /// Also its children, and their children.
        children: bool,
    },
    /// Every program of a name, including those that start later.
    Named(String),
    /// Every program in a control group.
    Group {
        /// As the user gave it.
        wanted: String,
        /// Which.
        group: Group,
    },
}

impl Target {
    /// A short name.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Program { process, .. } => &process.name,
            Self::Named(name) => name,
            Self::Group { wanted, .. } => wanted,
        }
    }

    /// The program with which it starts, if there is exactly one.
    #[must_use]
    pub fn program(&self) -> Option<&Process> {
        match self {
            Self::Program { process, .. } => Some(process),
            Self::Named(_) | Self::Group { .. } => None,
        }
    }
}
