//! What a run is to be, checked and complete: nothing in it is left to guess.

use std::path::PathBuf;

use punctual_rt::sched::Policy;

use crate::conduct::plan::{Claim, TracingPlan};
use crate::probe::kinds::Kind;
use punctual_load::{LoadClass, LoadSpec};
use punctual_record::{Gaps, Interval, Method, Placement, Request};

/// A run that can be begun: the part of each of its steps.
#[derive(Debug, Clone)]
pub struct RunPlan {
    /// `qualify` or `measure`.
    pub verb: String,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// The probe threads.
    pub probes: ProbePlan,
    /// Where everything else runs, and why these CPUs are probed; as the record keeps it.
    pub placement: Placement,
    /// Length of the measurement in ns.
    pub duration_ns: Option<u64>,
    /// The load.
    pub load: LoadPlan,
    /// What must hold.
    pub claim: Claim,
    /// What must be in force.
    pub conditions: ConditionsPlan,
    /// What is explained.
    pub tracing: TracingPlan,
    /// Write every sample.
    pub samples: bool,
    /// Measure the same again with the kernel's own tracer.
    pub cross_check: bool,
    /// The run directory; absent for the default name.
    pub output: Option<PathBuf>,
}

/// The probe threads: what each waits for, where, and until when.
#[derive(Debug, Clone)]
pub struct ProbePlan {
    /// The wait source.
    pub kind: Kind,
    /// Looks for gaps, and so; `threads` in it is still empty. Absent for wake-ups.
    pub gaps: Option<Gaps>,
    /// The interval; that of the rests where gaps are looked for.
    pub interval: Interval,
    /// The CPU of each probe thread, in their order.
    pub cpus: Vec<usize>,
    /// Policy of the probe threads.
    pub policy: Policy,
    /// Cycles of each thread.
    pub loops: Option<u64>,
    /// The first latency above, in ns, ends the run.
    pub break_ns: Option<u64>,
}

/// What keeps the machine busy meanwhile.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// The load.
    pub spec: LoadSpec,
    /// Its scheduling class.
    pub class: LoadClass,
    /// The CPUs that it may run on.
    pub cpus: Vec<usize>,
    /// CPU time in ns that a command as load must use in each second; 0 for no check.
    pub least_cpu_ns: u64,
}

/// What must be in force while something is measured.
#[derive(Debug, Clone, Copy)]
pub struct ConditionsPlan {
    /// Leave the machine as it is.
    pub as_deployed: bool,
    /// Lock memory.
    pub lock_memory: bool,
    /// Conditions not in force are stated and don't make the run invalid.
    pub best_effort: bool,
    /// Measure also where a condition is known beforehand not to be in force.
    pub measure_unmet: bool,
}

impl RunPlan {
    /// What is asked for, as the record keeps it.
    #[must_use]
    pub fn request(&self) -> Request {
        Request {
            source: self.probes.source().to_owned(),
            interval: self.probes.interval.clone(),
            cpus: self.probes.cpus.clone(),
            policy: self.probes.policy.name().to_owned(),
            priority: self.probes.policy.priority(),
            duration_ns: self.duration_ns,
            loops: self.probes.loops,
            break_ns: self.probes.break_ns,
            load: self.load.spec.label(),
            load_class: self.load.class.to_string(),
            requirements: self.claim.requirements.clone(),
            confidence: self.claim.confidence,
            as_deployed: self.conditions.as_deployed,
            best_effort: self.conditions.best_effort,
        }
    }
}

impl ProbePlan {
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

    /// Whether the kernel finds the gaps by itself.
    #[must_use]
    pub fn is_by_kernel(&self) -> bool {
        let method = self.gaps.as_ref().map(|gaps| gaps.method);
        method == Some(Method::Hwlat)
    }

    /// What each thread is to do in ns by its number of cycles alone.
    #[must_use]
    pub fn length_by_loops_ns(&self) -> Option<u64> {
        self.loops
            .and_then(|loops| loops.checked_mul(self.interval.nominal_ns()))
    }
}
