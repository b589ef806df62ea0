//! What a watch is to be, checked and complete.

use crate::conduct::plan::{Claim, TracingPlan};
use crate::system::group::Group;
use crate::system::process::Process;
use punctual_record::{Interval, Request};
use punctual_trace::watch::marks::Mark;

/// A watch that can be begun.
#[derive(Debug, Clone)]
pub struct WatchPlan {
    /// The command line as it was given.
    pub command: Vec<String>,
    /// What is watched; absent for every real-time thread of the machine.
    pub target: Option<Target>,
    /// What of it.
    pub scope: Scope,
    /// Length of the watch in ns; absent: until it is interrupted, or the program ends.
    pub duration_ns: Option<u64>,
    /// End at the first latency above this, in ns.
    pub break_ns: Option<u64>,
    /// What must hold.
    pub claim: Claim,
    /// Places of the program that its threads pass.
    pub marks: Vec<Mark>,
    /// How long each of them may at most take, in ns, in their order.
    pub limits: Vec<Option<u64>>,
    /// What is explained, of the program's.
    pub tracing: TracingPlan,
}

/// What is watched of threads, beside their wake-ups.
#[derive(Debug, Clone, Copy)]
pub struct Scope {
    /// The program's threads of ordinary priority too.
    pub every: bool,
    /// Also where the threads are while they are off the CPU.
    pub off_cpu: bool,
    /// Also how long they wait for a CPU; of a whole system every thread.
    pub run_queue: bool,
}

impl WatchPlan {
    /// What is asked for, as the record keeps it.
    #[must_use]
    pub fn request(&self, cpus: &[usize]) -> Request {
        Request {
            source: match &self.target {
                Some(target) => format!("watch of {}", target.name()),
                None => "watch of the system".to_owned(),
            },
            // Each thread has its own: none of these is asked of any.
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

/// ThreadOwner threads are watched.
#[derive(Debug, Clone)]
pub enum Target {
    /// One program's.
    Program {
        /// Which.
        process: Process,
        /// Its children's too, and theirs.
        children: bool,
    },
    /// Every program's of a name, those too that come later.
    Named(String),
    /// Every program's in a control group.
    Group {
        /// As it was asked for.
        wanted: String,
        /// Which.
        group: Group,
    },
}

impl Target {
    /// In a few words.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Program { process, .. } => &process.name,
            Self::Named(name) => name,
            Self::Group { wanted, .. } => wanted,
        }
    }

    /// The one program that it begins with, where there is one.
    #[must_use]
    pub fn program(&self) -> Option<&Process> {
        match self {
            Self::Program { process, .. } => Some(process),
            Self::Named(_) | Self::Group { .. } => None,
        }
    }
}
