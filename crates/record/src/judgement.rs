//! The verdict on a record, with all that a sentence about it names.

use punctual_stats::analysis::{Analysis, Settings, analyse};
use punctual_stats::evidence::RunEvidence;
use punctual_stats::gaps::judge_gaps;
use punctual_stats::histogram::DecodeError;
use punctual_stats::lengths::judge_lengths;
use punctual_stats::requirement::Requirement;
use punctual_stats::tasks::{TaskEvidence, judge_tasks};
use punctual_stats::verdict::{Verdict, judge};
use serde::{Deserialize, Serialize};

use super::condition::Demand;
use super::conditions::{Difference, Value};
use super::evidence::Evidence;
use super::field::Field;
use super::invalid::{InvalidReason, all_reasons, invalid_reasons, not_in_force};
use super::is_zero;
use super::run::Run;
use super::taskset::{TaskFault, TaskRun};
use super::watch::{KilledProgram, Watch, WatchedMark};

/// A verdict with what its sentence names beside it. All of it follows from a record; it stands
/// where there is a verdict without its record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Judgement {
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Why the run is not valid: all reasons, those in the evidence itself last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<InvalidReason>,
    /// The name of the load; absent where there was none, or nothing is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// Demands that a best effort went without.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub without: Vec<Demand>,
    /// In virtual time the same run ends the same.
    #[serde(default)]
    pub repeats: bool,
    /// Its cycles are messages to another machine, not wake-ups.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub messages: bool,
    /// Wake-ups of a watch that went unseen: each may have been late.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unseen: u64,
    /// Watched programs that a signal ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub killed: Vec<KilledProgram>,
    /// The names of threads that fail alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<ThreadName>,
}

/// What a thread of a run is called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadName {
    /// Its place among the threads, from 0.
    pub thread: usize,
    /// `CPU 1`, or the name of a watched one.
    pub name: String,
}

impl Judgement {
    /// The judgement on a run that has a verdict.
    #[must_use]
    pub fn from_run(run: &Run) -> Option<Self> {
        run.verdict
            .as_ref()
            .map(|verdict| Self::with_verdict(run, verdict.clone()))
    }

    /// The judgement on a run with this verdict.
    #[must_use]
    pub fn with_verdict(run: &Run, verdict: Verdict) -> Self {
        let reasons = all_reasons(run, &verdict.invalid);
        let label = run.request.load.as_str();
        let loaded = !matches!(label, "none" | "no load") && run.knows(Field::Load);
        let without = not_in_force(run).filter(|_| run.request.best_effort);
        let alone = verdict
            .requirements
            .iter()
            .filter_map(|it| it.alone.as_ref());
        let alone = alone.map(|it| ThreadName {
            thread: it.thread,
            name: run.thread_label(it.thread),
        });
        Self {
            alone: alone.collect(),
            verdict,
            reasons,
            load: loaded.then(|| label.to_owned()),
            without: without.cloned().collect(),
            repeats: run.repeats(),
            messages: run.path.is_some(),
            unseen: run.watch.as_ref().map_or(0, Watch::unseen),
            killed: run.watch.as_ref().map_or_else(Vec::new, Watch::killed),
        }
    }
}

/// Analyses a record again, as a merge or an import needs.
///
/// # Errors
/// As [`Evidence::decode`].
pub fn analyse_record(run: &Run) -> Result<Analysis, DecodeError> {
    let evidence = Evidence::decode(run)?;
    let settings = Settings {
        confidence: run.request.confidence,
        requirements: run.request.requirements.clone(),
    };
    let view = evidence.view(run);
    let mut analysis = analyse(&view, &settings);
    if is_recounted(run) {
        // As many as may be: not all of them surely missed.
        let uncounted = RunEvidence {
            deadline_ns: None,
            rows: None,
            ..view.clone()
        };
        analysis.verdict = judge(&settings.requirements, &uncounted, settings.confidence);
        // It states one number of misses, and here there is the least and the most.
        analysis.miss = None;
    }
    if let Some(gaps) = &run.gaps {
        // The number of gaps is no number of trials.
        analysis.miss = None;
        analysis.verdict = judge_gaps(
            &settings.requirements,
            &view,
            gaps.time(),
            settings.confidence,
        );
    }
    let marks = run.watch.iter().flat_map(|watch| &watch.marks);
    let lengths: Vec<_> = marks.filter_map(WatchedMark::evidence).collect();
    let reasons = invalid_reasons(run);
    let valid = reasons.is_empty();
    // A program may run for hours and never sleep: then its marks say all that was asked.
    let by_lengths_alone = settings.requirements.is_empty()
        && valid
        && view.samples() == 0
        && lengths.iter().any(|length| length.count > 0);
    analysis.verdict = if by_lengths_alone {
        judge_lengths(&lengths, settings.confidence)
    } else {
        analysis.verdict.with_lengths(&lengths)
    };
    if let Some(tasks) = &run.tasks {
        analysis.verdict = judge_set(run, tasks)?;
    }
    // The set was executed as it should be, and of a task that did not end the last jobs are not known.
    let still_busy = |reason: &InvalidReason| {
        let InvalidReason::TaskFailed { fault, .. } = reason else {
            return false;
        };
        *fault == TaskFault::StillBusy {}
    };
    if !reasons.iter().all(still_busy) {
        analysis.verdict = analysis.verdict.invalidated();
    } else if !valid {
        analysis.verdict = analysis.verdict.invalidated_unless_failed();
    }
    Ok(analysis)
}

/// Whether misses were counted anew because runs that were merged had other deadlines.
fn is_recounted(run: &Run) -> bool {
    let deadline_ns = |value: &Value| match value {
        Value::Requirements { wake_ups, .. } => wake_ups.first().map(Requirement::limit_ns),
        _ => None,
    };
    let other = |it: &Difference| deadline_ns(&it.first) != deadline_ns(&it.second);
    let merged = run.merged.as_ref();
    merged.is_some_and(|it| it.differences.iter().any(other))
}

/// The verdict on a set of tasks: on the response times of each, and on the limits of its chains.
fn judge_set(run: &Run, tasks: &TaskRun) -> Result<Verdict, DecodeError> {
    let evidence = tasks
        .tasks
        .iter()
        .map(|task| Evidence::of_times(&task.jobs));
    let evidence: Vec<Evidence> = evidence.collect::<Result<_, _>>()?;
    let each = tasks.set.tasks.iter().zip(&tasks.tasks).zip(&evidence);
    let each = each
        .enumerate()
        .map(|(index, ((task, figures), evidence))| {
            let deadline_ns = task.deadline_ns;
            let period_ns = tasks.set.period_ns(index);
            // Before its first arrival there is nothing to see of it.
            let offset_ns = tasks.set.first_arrival_ns(index);
            TaskEvidence {
                name: &task.name,
                jobs: evidence.times(
                    &figures.jobs,
                    &figures.timeline,
                    Some(deadline_ns),
                    period_ns,
                    run.measured_ns.saturating_sub(offset_ns),
                ),
                requirement: Requirement::MissProbability {
                    deadline_ns,
                    allowed: tasks.allowed,
                },
            }
        });
    let each: Vec<TaskEvidence<'_>> = each.collect();
    let names = tasks.limits();
    let limited = tasks.limited(&names);
    Ok(judge_tasks(&each, &limited, run.request.confidence))
}
