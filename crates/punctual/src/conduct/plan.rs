//! What a run is to be, checked and complete: nothing in it is left to guess.

use std::path::PathBuf;

use punctual_rt::sched::Policy;
use punctual_stats::requirement::Requirement;

use crate::probe::kinds::Kind;
use punctual_load::{LoadClass, LoadSpec};
use punctual_record::{Gaps, Interval, Method, Placement};

/// A run that can be begun.
#[derive(Debug, Clone)]
pub struct Plan {
    /// `qualify` or `measure`.
    pub verb: String,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// The wait source.
    pub kind: Kind,
    /// Looks for gaps, and so; `threads` in it is still empty. Absent for wake-ups.
    pub gaps: Option<Gaps>,
    /// The interval; that of the rests where gaps are looked for.
    pub interval: Interval,
    /// The CPU of each probe thread, in their order.
    pub cpus: Vec<usize>,
    /// Where everything else runs, and why these CPUs are probed.
    pub placement: Placement,
    /// Policy of the probe threads.
    pub policy: Policy,
    /// Length of the measurement in ns.
    pub duration_ns: Option<u64>,
    /// Cycles of each thread.
    pub loops: Option<u64>,
    /// The first latency above, in ns, ends the run.
    pub break_ns: Option<u64>,
    /// The load.
    pub load: LoadSpec,
    /// Its scheduling class.
    pub load_class: LoadClass,
    /// CPU time in ns that a command as load must use in each second; 0 for no check.
    pub load_least_cpu_ns: u64,
    /// What must hold.
    pub requirements: Vec<Requirement>,
    /// Level of confidence, in (0, 1).
    pub confidence: f64,
    /// Leave the machine as it is.
    pub as_deployed: bool,
    /// Lock memory.
    pub lock_memory: bool,
    /// Conditions not in force are stated and don't make the run invalid.
    pub best_effort: bool,
    /// Measure also where a condition is known beforehand not to be in force.
    pub measure_unmet: bool,
    /// Write every sample.
    pub samples: bool,
    /// Explain late wake-ups, where the kernel allows it.
    pub explain: bool,
    /// Those later than this, in ns; absent for the deadline.
    pub explain_above_ns: Option<u64>,
    /// How late a thread is when what runs in its place is interrupted and its stack taken.
    pub stack_above_ns: Option<u64>,
    /// Measure the same again with the kernel's own tracer.
    pub cross_check: bool,
    /// The run directory; absent for the default name.
    pub output: Option<PathBuf>,
}

impl Plan {
    /// What is measured, as the record names it.
    #[must_use]
    pub fn source(&self) -> &'static str {
        match &self.gaps {
            Some(gaps) => gaps.subject.name(),
            None => self.kind.name,
        }
    }

    /// Whether threads of ours poll the clock.
    #[must_use]
    pub fn polls(&self) -> bool {
        let method = self.gaps.as_ref().map(|gaps| gaps.method);
        method == Some(Method::Polling)
    }

    /// The deadline that late wake-ups are counted by, in ns.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.requirements.first().map(Requirement::limit_ns)
    }
}
