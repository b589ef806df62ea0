//! The plan of a measurement of the path to another machine, checked and complete.

use std::path::PathBuf;

use punctual_network::wire::proof::Token;
use punctual_rt::sched::Policy;

use crate::conduct::plan::Claim;
use crate::conduct::run::{ConditionsPlan, LoadPlan};
use punctual_record::path::Transport;
use punctual_record::{Interval, Placement, Request, RunSource};

/// A measurement that can start.
#[derive(Debug, Clone)]
pub struct PathPlan {
    /// `qualify` or `measure`.
    pub verb: String,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// The other machine, as it was named: `HOST` or `HOST:PORT`.
    pub host: String,
    /// What both sides know.
    pub token: Token,
    /// Over what.
    pub transport: Transport,
    /// The lengths of messages.
    pub sizes: Vec<u32>,
    /// Messages at each instant.
    pub burst: u32,
    /// Messages are passed to the kernel so long before their instant, which is their launch time;
    /// absent where the thread sends them at the instant.
    pub lead_ns: Option<u64>,
    /// The interval between instants.
    pub interval: Interval,
    /// Without a reply for so long, a message is lost.
    pub timeout_ns: u64,
    /// Messages later than this are late, and are explained.
    pub late_ns: Option<u64>,
    /// The kernel's time stamps are used.
    pub stamps: bool,
    /// The kernel's events are recorded, if the kernel allows it.
    pub explain: bool,
    /// The CPU of the thread that sends, and of that which receives.
    pub cpus: [usize; 2],
    /// Their policy.
    pub policy: Policy,
    /// Where everything else runs.
    pub placement: Placement,
    /// Length of the measurement in ns.
    pub duration_ns: Option<u64>,
    /// The first latency above, in ns, ends the measurement.
    pub break_ns: Option<u64>,
    /// The load on this machine.
    pub load: LoadPlan,
    /// The requirements.
    pub claim: Claim,
    /// The conditions.
    pub conditions: ConditionsPlan,
    /// The run directory; absent for the default name.
    pub output: Option<PathBuf>,
}

impl PathPlan {
    /// The CPUs of its threads, each once.
    #[must_use]
    pub fn probed_cpus(&self) -> Vec<usize> {
        let mut cpus = self.cpus.to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }

    /// The request, as the record keeps it.
    #[must_use]
    pub fn request(&self) -> Request {
        Request {
            source: RunSource::Path {
                over: self.transport,
                to: self.host.clone(),
            },
            interval: self.interval.clone(),
            cpus: self.probed_cpus(),
            policy: self.policy.name().to_owned(),
            priority: self.policy.priority(),
            duration_ns: self.duration_ns,
            loops: None,
            break_ns: self.break_ns,
            load: self.load.spec.label(),
            load_class: self.load.class.to_string(),
            requirements: self.claim.requirements.clone(),
            confidence: self.claim.confidence,
            as_deployed: self.conditions.as_deployed,
            best_effort: self.conditions.best_effort,
        }
    }
}
