//! What a dataset keeps of one run.

use std::collections::BTreeMap;
use std::fmt;

use punctual_record::event::State;
use punctual_record::explanation::Cause;

use punctual_record::time::{parse_rfc3339, rfc3339};
use punctual_record::{Hypervisor, Judgement, Run, RunSource};
use punctual_stats::histogram::{DecodeError, SparseHistogram};
use punctual_stats::requirement::Requirement;
use punctual_stats::verdict::{Outcome, Seen};
use sha2::{Digest, Sha256};

use super::buckets;
use super::ids::Id;

/// One run, with its machine and its totals.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// The first half of SHA-256 of host, time and instant at which it began: no two runs share it, and
    /// a run has the same in every dataset. Its key joins the tables.
    pub id: Id,
    /// The host's name.
    pub machine: String,
    /// When it began, RFC 3339 in UTC.
    pub started: String,
    /// The day of that: `2026-11-27`.
    pub day: String,
    /// The verb: `qualify`, `measure`.
    pub verb: String,
    /// punctual's version.
    pub tool: String,
    /// `uname -r`.
    pub kernel: String,
    /// `uname -v`.
    pub kernel_build: String,
    /// `rt`, `full`, `lazy`, `voluntary`, `none` or `unknown`.
    pub preemption: String,
    /// `uname -m`.
    pub architecture: String,
    /// The kernel's command line.
    pub command_line: String,
    /// The distribution, if it says.
    pub distribution: Option<String>,
    /// The processor's model.
    pub processor: String,
    /// Its microcode, if it is known.
    pub microcode: Option<String>,
    /// CPUs that are online.
    pub cpus: i32,
    /// Vendor and product or the board's model; the processor's where the firmware says nothing.
    pub hardware: String,
    /// Version and date of the BIOS, if there is one.
    pub bios: Option<String>,
    /// The hypervisor, if the machine is a virtual one.
    pub hypervisor: Option<String>,
    /// What was measured: `nanosleep`, ...
    pub source: String,
    /// The interval between two wake-ups of a thread.
    pub interval_ns: i64,
    /// Threads that were measured.
    pub threads: i32,
    /// `fifo`, `rr` or `other`.
    pub policy: String,
    /// Real-time priority.
    pub priority: i32,
    /// The load's label.
    pub load: String,
    /// How long it measured.
    pub measured_ns: i64,
    /// The verdict, if there was a requirement.
    pub verdict: Option<String>,
    /// How many reasons there are why it is not valid.
    pub reasons: i32,
    /// Wake-ups that were measured.
    pub samples: i64,
    /// Periods that were skipped.
    pub skipped: i64,
    /// The earliest wake-up; absent without samples.
    pub minimum_ns: Option<i64>,
    /// The latest one.
    pub maximum_ns: Option<i64>,
    /// The mean latency.
    pub mean_ns: Option<f64>,
    /// Where its record was: its bills, its page.
    pub record: String,
}

/// One requirement of a run, with exact counts.
#[derive(Debug, Clone, PartialEq)]
pub struct RequirementRow {
    /// Which of the run's, from 0.
    pub number: i32,
    /// `miss-probability`, `max` or `percentile`.
    pub kind: &'static str,
    /// Later than this is a miss.
    pub limit_ns: i64,
    /// The allowed probability of a miss.
    pub allowed: f64,
    /// The verdict on it.
    pub verdict: &'static str,
    /// Samples and skipped periods.
    pub cycles: i64,
    /// Late samples, and skipped periods that miss.
    pub misses: i64,
    /// Late samples alone.
    pub late: i64,
    /// Skipped periods that miss.
    pub skipped: i64,
    /// How many misses come together, on average: the index of dispersion, at least 1. Bounds divide
    /// both counts by it.
    pub dispersion: f64,
    /// The run's own upper bound of the probability of a miss.
    pub upper: f64,
}

/// A bucket of a run's histogram, all threads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistogramRow {
    /// Which: see [`buckets`].
    pub bucket: i32,
    /// Its samples.
    pub count: i64,
}

/// Who stole time from late wake-ups of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CauseRow {
    /// What it is: `interrupt`, `preempt-off`, ...
    pub kind: String,
    /// It with its name.
    pub cause: String,
    /// Bills in which it stands.
    pub bills: i64,
    /// Its time in those of late wake-ups.
    pub tail_ns: i64,
    /// The most in one.
    pub worst_ns: i64,
}

/// How facts are called: sentences are made elsewhere.
#[derive(Debug, Clone, Copy)]
pub struct Naming {
    /// A cause.
    pub cause: fn(&Cause) -> String,
    /// What was measured.
    pub source: fn(&RunSource) -> String,
    /// A hypervisor.
    pub hypervisor: fn(&Hypervisor) -> String,
}

/// All rows of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct Rows {
    /// Of `runs`.
    pub run: RunRow,
    /// Of `requirements`.
    pub requirements: Vec<RequirementRow>,
    /// Of `histograms`, in ascending order.
    pub histogram: Vec<HistogramRow>,
    /// Of `causes`.
    pub causes: Vec<CauseRow>,
    /// Whether the run is not valid: its figures mean nothing and are kept apart.
    pub is_invalid: bool,
}

/// Why a run is not one of a dataset's; the text follows its path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unfit {
    /// It was not finished.
    Unfinished,
    /// Its record doesn't say when it began, so that it can't be told from others.
    NoBeginning,
    /// It was made in the laboratory.
    Laboratory,
    /// It is a sum of runs.
    Merged,
    /// Another tool measured it.
    Imported,
    /// It is of another kind: a task set, a path, gaps, an experiment.
    OtherKind {
        /// Which.
        what: &'static str,
    },
    /// Its histograms can't be decoded.
    Damaged(DecodeError),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unfinished => f.write_str("the run was not finished: only finished ones count"),
            Self::NoBeginning => f.write_str("the record doesn't say when the run began"),
            Self::Laboratory => {
                f.write_str("made in the laboratory: its figures are those of no machine")
            }
            Self::Merged => f.write_str("a sum of runs: ingest the runs themselves"),
            Self::Imported => {
                f.write_str("figures of another tool: they don't say which run it was")
            }
            Self::OtherKind { what } => write!(f, "{what}: a fleet's dataset has wake-ups alone"),
            Self::Damaged(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Unfit {}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn small(value: usize) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// Why a run is not one of a dataset's, as far as its record shows at once.
fn unfit(run: &Run) -> Option<Unfit> {
    let kinds = [
        (run.tasks.is_some(), "a task set"),
        (run.path.is_some(), "the path to another machine"),
        (run.gaps.is_some(), "gaps"),
        (
            run.experiment.is_some(),
            "an experiment that switches settings",
        ),
    ];
    if run.state == State::Unfinished {
        Some(Unfit::Unfinished)
    } else if run.laboratory.is_some() {
        Some(Unfit::Laboratory)
    } else if run.merged.is_some() {
        Some(Unfit::Merged)
    } else if run.imported.is_some() {
        Some(Unfit::Imported)
    } else {
        let of_kind = kinds.into_iter().find(|(is, _)| *is);
        of_kind.map(|(_, what)| Unfit::OtherKind { what })
    }
}

impl Rows {
    /// What is kept of a run whose record is at `record`.
    ///
    /// # Errors
    /// The run is not one of a dataset's.
    pub fn of(run: &Run, record: &str, naming: &Naming) -> Result<Self, Unfit> {
        if let Some(why) = unfit(run) {
            return Err(why);
        }
        let start_ns = run.start_ns.ok_or(Unfit::NoBeginning)?;
        // It becomes a part of a path.
        let started = parse_rfc3339(&run.started).map(rfc3339);
        let started = started.ok_or(Unfit::NoBeginning)?;
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        let (mut samples, mut sum, mut extremes) = (0_u64, 0_u128, None::<(u64, u64)>);
        for thread in &run.threads {
            let histogram = SparseHistogram::try_from(&thread.latency).map_err(Unfit::Damaged)?;
            for (low_ns, count) in histogram.lows() {
                let entry = counts.entry(buckets::bucket_of(low_ns)).or_default();
                *entry = entry.saturating_add(count);
            }
            samples = samples.saturating_add(histogram.count());
            sum = sum.saturating_add(histogram.sum());
            if histogram.count() > 0 {
                let (least, most) = (thread.latency.min_ns, thread.latency.max_ns);
                let (low, high) = extremes.unwrap_or((least, most));
                extremes = Some((low.min(least), high.max(most)));
            }
        }
        let judgement = Judgement::from_run(run);
        let outcome = judgement.as_ref().map(|it| it.verdict.outcome);
        let reasons = judgement.as_ref().map_or(0, |it| it.reasons.len());
        let system = &run.system;
        let hardware = system.hardware.as_ref();
        let model = hardware.map_or("", |it| &it.model);
        let row = RunRow {
            id: identity(&system.hostname, &run.started, start_ns),
            machine: system.hostname.clone(),
            day: started.chars().take(10).collect(),
            started,
            verb: run.verb.clone(),
            tool: run.tool.version.clone(),
            kernel: system.kernel.release.clone(),
            kernel_build: system.kernel.version.clone(),
            preemption: system.kernel.preemption.clone(),
            architecture: system.kernel.machine.clone(),
            command_line: system.kernel.command_line.clone(),
            distribution: system.distribution.clone(),
            processor: system.processor.model.clone(),
            microcode: system.processor.microcode.clone(),
            cpus: small(system.processor.online.len()),
            hardware: match model {
                "" => system.processor.model.clone(),
                model => model.to_owned(),
            },
            bios: hardware.and_then(|it| it.bios.clone()),
            hypervisor: system
                .virtualisation
                .hypervisor
                .as_ref()
                .map(naming.hypervisor),
            source: (naming.source)(&run.request.source),
            interval_ns: signed(run.request.interval.nominal_ns()),
            threads: small(run.threads.len()),
            policy: run.request.policy.clone(),
            priority: i32::try_from(run.request.priority).unwrap_or(i32::MAX),
            load: run.request.load.clone(),
            measured_ns: signed(run.measured_ns),
            verdict: outcome.map(|it| it.word().to_owned()),
            reasons: small(reasons),
            samples: signed(samples),
            skipped: signed(
                run.threads
                    .iter()
                    .map(|it| it.missed)
                    .fold(0, u64::saturating_add),
            ),
            minimum_ns: extremes.map(|it| signed(it.0)),
            maximum_ns: extremes.map(|it| signed(it.1)),
            mean_ns: (samples > 0).then(|| sum as f64 / samples as f64),
            record: record.to_owned(),
        };
        Ok(Self {
            is_invalid: outcome == Some(Outcome::Invalid),
            requirements: requirements(run),
            histogram: counts
                .into_iter()
                .map(|(bucket, count)| HistogramRow {
                    bucket: i32::try_from(bucket).unwrap_or(i32::MAX),
                    count: signed(count),
                })
                .collect(),
            causes: causes(run, naming),
            run: row,
        })
    }
}

fn identity(machine: &str, started: &str, start_ns: u64) -> Id {
    let mut digest = Sha256::new();
    // With their lengths: no two triples are one text.
    for part in [machine, started] {
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.update(start_ns.to_le_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&digest.finalize()[..16]);
    Id::new(id)
}

fn requirements(run: &Run) -> Vec<RequirementRow> {
    let results = run.verdict.iter().flat_map(|verdict| &verdict.requirements);
    let of_wake_ups = results
        .enumerate()
        .filter(|(_, it)| matches!(it.seen, Seen::WakeUps { .. }));
    of_wake_ups
        .map(|(number, it)| RequirementRow {
            number: small(number),
            kind: kind_of(&it.requirement),
            limit_ns: signed(it.requirement.limit_ns()),
            allowed: it.requirement.allowed(),
            verdict: it.outcome.word(),
            cycles: signed(it.bound.cycles),
            misses: signed(it.bound.misses),
            late: signed(it.bound.late),
            skipped: signed(it.bound.missed),
            dispersion: it.bound.dispersion.max(1.0),
            upper: it.bound.upper,
        })
        .collect()
}

fn kind_of(requirement: &Requirement) -> &'static str {
    match requirement {
        Requirement::MissProbability { .. } => "miss-probability",
        Requirement::Episodes { .. } => "episodes",
        Requirement::Max { .. } => "max",
        Requirement::Percentile { .. } => "percentile",
    }
}

fn causes(run: &Run, naming: &Naming) -> Vec<CauseRow> {
    let ranking = run.explanation.iter().flat_map(|it| &it.ranking);
    ranking
        .map(|ranked| CauseRow {
            kind: kind(&ranked.cause),
            cause: (naming.cause)(&ranked.cause),
            bills: signed(ranked.count),
            tail_ns: signed(ranked.tail_ns),
            worst_ns: signed(ranked.worst_ns),
        })
        .collect()
}

/// The word for a cause's kind, as records have it.
fn kind(cause: &Cause) -> String {
    let value = serde_json::to_value(cause).unwrap_or_default();
    value["kind"].as_str().unwrap_or_default().to_owned()
}
