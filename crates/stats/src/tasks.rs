//! The verdict on a set of tasks: each must meet its own deadline.
//!
//! Each task is judged by its own jobs, at the confidence that was asked for. All pass where each
//! does: that needs no correction. One that fails by chance would fail all, so of n tasks a FAIL is
//! shown with the n-th part of the doubt.

use crate::evidence::RunEvidence;
use crate::lengths::{LengthEvidence, LengthResult};
use crate::requirement::Requirement;
use crate::verdict::{
    InvalidEvidence, RequirementResult, Verdict, decided, invalid_evidence, judge_one, strictly,
};
use serde::{Deserialize, Serialize};

/// What a task measured: its response times.
#[derive(Clone, Debug)]
pub struct TaskEvidence<'a> {
    /// What it is called.
    pub name: &'a str,
    /// Its jobs: a single thread, whose latencies are from the arrival of a job to its end.
    pub jobs: RunEvidence<'a>,
    /// What is required of them.
    pub requirement: Requirement,
}

/// The verdict on a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskResult {
    /// What it is called.
    pub name: String,
    /// What was required, and the verdict on it.
    #[serde(flatten)]
    pub result: RequirementResult,
}

/// The verdict on a set: on its tasks, and on what may take no longer than a limit.
#[must_use]
pub fn judge_tasks(
    tasks: &[TaskEvidence<'_>],
    lengths: &[LengthEvidence<'_>],
    confidence: f64,
) -> Verdict {
    let results = tasks.iter().map(|task| TaskResult {
        name: task.name.to_owned(),
        result: judge_task(task, confidence, tasks.len()),
    });
    let results: Vec<TaskResult> = results.collect();
    let invalid = tasks.iter().map(|task| invalid_evidence(&task.jobs));
    let mut invalid: Vec<InvalidEvidence> = invalid.flatten().collect();
    // A task without a job leaves its own verdict open, and no other's.
    let is_empty = |it: &InvalidEvidence| *it == InvalidEvidence::NoWakeUp;
    let empty = invalid.iter().filter(|it| is_empty(it)).count();
    invalid.retain(|it| !is_empty(it));
    if empty == tasks.len() {
        invalid.push(InvalidEvidence::NoWakeUp);
    }
    let lengths = lengths.iter().map(LengthResult::of).collect();
    decided(Vec::new(), lengths, results, confidence).unless(invalid)
}

fn judge_task(task: &TaskEvidence<'_>, confidence: f64, tasks: usize) -> RequirementResult {
    let judged = |confidence| {
        let peaks = task.jobs.peaks();
        judge_one(task.requirement, &task.jobs, &peaks, confidence)
    };
    strictly(judged, confidence, tasks)
}
