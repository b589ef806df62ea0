//! The plan of a run, checked and complete.

use std::path::PathBuf;

use punctual_rt::sched::Policy;

use crate::conduct::plan::{Claim, TracingPlan};
use crate::probe::kinds::Kind;
use punctual_load::{LoadClass, LoadSpec};
use punctual_record::tuning::Change;
use punctual_record::{Gaps, Interval, Method, Placement, Request};

/// A run that can start: a part for each of its steps.
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
    /// The requirements.
    pub claim: Claim,
    /// The conditions.
    pub conditions: ConditionsPlan,
    /// What is explained.
    pub tracing: TracingPlan,
    /// The settings that are changed for the run.
    pub tune: Option<TunePlan>,
    /// Check the machine before the probes are started.
    pub check: bool,
    /// Write every sample.
    pub samples: bool,
    /// Measure a second time with the kernel's own tracer.
    pub cross_check: bool,
    /// The run directory; absent for the default name.
    pub output: Option<PathBuf>,
}

/// Settings that are changed for the run, and restored after it.
#[derive(Debug, Clone)]
pub struct TunePlan {
    /// The changes, in their order.
    pub changes: Vec<Change>,
    /// The user named the knobs: each of them must be changed.
    pub is_named: bool,
    /// The directory of the journal.
    pub state: PathBuf,
}

/// The probe threads: what each waits for, where, and until when.
#[derive(Debug, Clone)]
pub struct ProbePlan {
    /// The wait source.
    pub kind: Kind,
    /// How gaps are found; `threads` in it is still empty. Absent for wake-ups.
    pub gaps: Option<Gaps>,
    /// The interval; for gaps, that of the pauses.
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

/// The load during the measurement.
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

/// The conditions that must be in force during the measurement.
#[derive(Debug, Clone, Copy)]
pub struct ConditionsPlan {
    /// Leave the machine as it is.
    pub as_deployed: bool,
    /// Lock memory.
    pub lock_memory: bool,
    /// Conditions that are not in force are stated and do not make the run invalid.
    pub best_effort: bool,
    /// Measure even if a condition is known not to be in force.
    pub measure_unmet: bool,
}

impl RunPlan {
    /// The request, as the record keeps it.
    #[must_use]
    pub fn request(&self) -> Request {
        Request {
            source: self.probes.source().into(),
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

    /// Whether our own threads poll the clock.
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

    /// The length in ns that follows from the number of cycles.
    #[must_use]
    pub fn length_by_loops_ns(&self) -> Option<u64> {
        self.loops
            .and_then(|loops| loops.checked_mul(self.interval.nominal_ns()))
    }
}
