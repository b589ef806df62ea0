//! All that is said about a run, from one call.

use crate::evidence::RunEvidence;
use crate::extremal::{ExtremalIndex, extremal_index};
use crate::histogram::{Histogram, LadderRung};
use crate::miss::MissBound;
use crate::requirement::Requirement;
use crate::stationarity::{Stationarity, stationarity};
use crate::tail::{TailEstimate, TailRefusal, extrapolate};
use crate::verdict::{Verdict, judge};
use serde::{Deserialize, Serialize};

/// What is asked of an analysis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// Confidence within (0, 1): one-sided for the bounds on misses, two-sided
    /// for the interval of the tail.
    pub confidence: f64,
    /// The requirements to judge by.
    pub requirements: Vec<Requirement>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            confidence: 0.95,
            requirements: Vec::new(),
        }
    }
}

/// The figures of one thread, or of all together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencySummary {
    /// The CPU; `None` for all threads together.
    pub cpu: Option<u32>,
    /// Samples.
    pub samples: u64,
    /// Periods that were skipped because the thread was late.
    pub missed: u64,
    /// Samples later than the deadline of the run.
    pub late: u64,
    /// Samples that were lost.
    pub lost: u64,
    /// Exact minimum in ns, `None` without samples.
    pub min_ns: Option<u64>,
    /// Exact mean in ns, `None` without samples.
    pub mean_ns: Option<f64>,
    /// Exact maximum in ns, `None` without samples.
    pub max_ns: Option<u64>,
    /// Standard deviation in ns, to three digits; `None` without samples.
    pub standard_deviation_ns: Option<f64>,
    /// Percentiles as far as the sample supports them.
    pub percentiles: Vec<LadderRung>,
}

impl LatencySummary {
    fn new(cpu: Option<u32>, histogram: &Histogram, missed: u64, late: u64, lost: u64) -> Self {
        LatencySummary {
            cpu,
            samples: histogram.count(),
            missed,
            late,
            lost,
            min_ns: histogram.min(),
            mean_ns: histogram.mean(),
            max_ns: histogram.max(),
            standard_deviation_ns: histogram.standard_deviation(),
            percentiles: histogram.percentile_ladder(),
        }
    }
}

/// The extrapolated tail, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Tail {
    /// Extrapolated.
    Estimate(TailEstimate),
    /// Refused, with the reason.
    Refused(TailRefusal),
}

impl Tail {
    /// As a result.
    pub fn as_result(&self) -> Result<&TailEstimate, &TailRefusal> {
        match self {
            Tail::Estimate(estimate) => Ok(estimate),
            Tail::Refused(refusal) => Err(refusal),
        }
    }
}

impl From<Result<TailEstimate, TailRefusal>> for Tail {
    fn from(result: Result<TailEstimate, TailRefusal>) -> Self {
        match result {
            Ok(estimate) => Tail::Estimate(estimate),
            Err(refusal) => Tail::Refused(refusal),
        }
    }
}

/// All that is said about a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Analysis {
    /// Duration of the measurement in ns.
    pub duration_ns: u64,
    /// All threads together: histograms merged, never percentiles averaged.
    pub total: LatencySummary,
    /// Each thread.
    pub threads: Vec<LatencySummary>,
    /// The bound on misses of the run's deadline; `None` without one.
    pub miss: Option<MissBound>,
    /// How far the highest samples come in bursts; `None` with too few.
    pub extremal_index: Option<ExtremalIndex>,
    /// First half against second; `None` when they were not kept apart.
    pub stationarity: Option<Stationarity>,
    /// The level exceeded once in 10⁹ cycles.
    pub tail: Tail,
    /// The verdict.
    pub verdict: Verdict,
}

/// Says all there is to say about a run. The same record always gives the same
/// analysis.
pub fn analyse(evidence: &RunEvidence<'_>, settings: &Settings) -> Analysis {
    let peaks = evidence.peaks();
    let merged = Histogram::merged(evidence.threads.iter().map(|thread| thread.histogram));
    let counts = (evidence.samples(), evidence.cycles());
    let index = extremal_index(&peaks, counts, evidence.duration_ns, u64::MAX);
    let miss = evidence.deadline_ns.map(|deadline| {
        let (_, late) = evidence.late(deadline);
        let (_, missed) = evidence.missed_late(deadline);
        evidence
            .misses(deadline, late, Some(missed), &peaks)
            .bound(settings.confidence)
    });
    let stationarity = evidence.halves.as_ref().map(|halves| {
        let theta = index.as_ref().map_or(1.0, |index| index.theta_lower);
        let dispersion = miss.as_ref().map_or(1.0, |miss| miss.dispersion);
        stationarity(halves, theta, dispersion)
    });
    let steady = stationarity
        .as_ref()
        .is_none_or(|stationarity| !stationarity.statement.changed());
    let tail = extrapolate(
        &peaks,
        evidence.cycles(),
        evidence.duration_ns,
        steady,
        settings.confidence,
    );
    let late = |of: u64| {
        if evidence.deadline_ns.is_some() {
            of
        } else {
            0
        }
    };
    Analysis {
        duration_ns: evidence.duration_ns,
        total: LatencySummary::new(
            None,
            &merged,
            evidence.missed(),
            evidence.threads.iter().map(|t| late(t.late)).sum(),
            evidence.lost(),
        ),
        threads: evidence
            .threads
            .iter()
            .map(|t| LatencySummary::new(t.cpu, t.histogram, t.missed, late(t.late), t.lost))
            .collect(),
        miss,
        extremal_index: index,
        stationarity,
        tail: tail.into(),
        verdict: judge(&settings.requirements, evidence, settings.confidence),
    }
}
