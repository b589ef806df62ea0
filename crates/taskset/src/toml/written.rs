//! A task set as it is written. The schema of the format is made of these types.

use std::fmt;

use punctual_record::taskset::{Means, Timer};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use super::values::{Bytes, Length, Time, Whole, time};

/// A task set.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenSet {
    /// What it is called; without it, the file's name.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub name: Option<Spanned<String>>,
    /// How long it runs.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub duration: Option<Length>,
    /// The tasks.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<WrittenTask>"))]
    pub task: Vec<Spanned<WrittenTask>>,
    /// The locks that tasks share.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<WrittenLock>"))]
    pub lock: Vec<Spanned<WrittenLock>>,
    /// The chains, from an input to an output.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<WrittenChain>"))]
    pub chain: Vec<Spanned<WrittenChain>>,
}

/// A task. Times are text with a unit, such as `500us`.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenTask {
    /// No other task has this name.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub name: Spanned<String>,
    /// Without it: `fifo` with a priority, `deadline` with a runtime, otherwise `other`.
    pub policy: Option<WrittenPolicy>,
    /// 1 to 99.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u8>"))]
    pub priority: Option<Spanned<Whole>>,
    /// -20 to 19, with policy `other`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<i8>"))]
    pub nice: Option<Spanned<Whole>>,
    /// Of the reservation, with policy `deadline`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub runtime: Option<Time>,
    /// Of the reservation; without it that of the task, at most the reservation's period.
    #[serde(rename = "dl-deadline")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub dl_deadline: Option<Time>,
    /// Of the reservation; without it that of the task.
    #[serde(rename = "dl-period")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub dl_period: Option<Time>,
    /// The CPU to which it is bound.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub cpu: Option<Spanned<Whole>>,
    /// The CPUs on which it may run, such as `0-1`; without it and `cpu`, all.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub cpus: Option<Spanned<String>>,
    /// The distance of two arrivals.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub period: Option<Spanned<Time>>,
    /// The first arrival, after the start.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub offset: Option<Spanned<Time>>,
    /// The timer that wakes it.
    pub timer: Option<Timer>,
    /// The task whose ended job releases a job of this one, instead of a timer.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub after: Option<Spanned<String>>,
    /// Only each such job of that task.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u32>"))]
    pub every: Option<Spanned<Whole>>,
    /// By what that task wakes it.
    pub by: Option<Means>,
    /// A job must end this long after its arrival; without it, at the next one.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub deadline: Option<Time>,
    /// Each job is released up to this long after its arrival.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub jitter: Option<Time>,
    /// The longest execution time of a job, for the analysis.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub wcet: Option<Spanned<Time>>,
    /// What each job does.
    #[cfg_attr(feature = "schema", schemars(with = "Option<WorkSchema>"))]
    pub work: Option<Spanned<WrittenWork>>,
    /// Instead of `work`: what the jobs do at first, then, and again.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<WrittenPhase>"))]
    pub phase: Vec<Spanned<WrittenPhase>>,
}

/// A scheduling policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum WrittenPolicy {
    Fifo,
    Rr,
    Deadline,
    Other,
}

/// What the jobs do for a while.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenPhase {
    /// For how many jobs; without it 1.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub jobs: Option<Spanned<Whole>>,
    /// The period meanwhile.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub period: Option<Spanned<Time>>,
    /// What each job does.
    #[cfg_attr(feature = "schema", schemars(with = "WorkSchema"))]
    pub work: Spanned<WrittenWork>,
}

/// The work of a job: a time, or steps.
#[derive(Debug)]
pub(super) enum WrittenWork {
    Time(u64),
    Steps(Vec<Spanned<WrittenStep>>),
}

impl<'de> Deserialize<'de> for WrittenWork {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl<'de> Visitor<'de> for Reads {
            type Value = WrittenWork;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"200us\", or a list such as [{run = \"200us\"}]")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<WrittenWork, E> {
                time(text).map(WrittenWork::Time)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut steps: A) -> Result<WrittenWork, A::Error> {
                let mut all = Vec::new();
                while let Some(step) = steps.next_element()? {
                    all.push(step);
                }
                Ok(WrittenWork::Steps(all))
            }
        }
        deserializer.deserialize_any(Reads)
    }
}

/// As [`WrittenWork`], for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "the schema is made of it")]
pub(super) enum WorkSchema {
    /// Execute for this long.
    Time(String),
    /// In this order.
    Steps(Vec<WrittenStep>),
}

/// A step of work: one of these.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenStep {
    /// Execute for this long.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub run: Option<Time>,
    /// Hold this lock during `work`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub lock: Option<Spanned<String>>,
    /// With `lock`: the work meanwhile.
    #[cfg_attr(feature = "schema", schemars(with = "Option<WorkSchema>"))]
    pub work: Option<Spanned<WrittenWork>>,
    /// Wait for this long.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub sleep: Option<Time>,
    /// Read and write each cache line of this much memory, such as `64KiB`.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub memory: Option<Bytes>,
    /// Make this number of system calls.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub calls: Option<Spanned<Whole>>,
    /// Execute this number of instructions.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub instructions: Option<Spanned<Whole>>,
    /// Yield the CPU: `true`.
    #[serde(rename = "yield")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<bool>"))]
    pub yields: Option<Spanned<bool>>,
    /// Call `function` of this shared object; its path is relative to the file's directory.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub library: Option<Spanned<String>>,
    /// With `library`: `int NAME(void *)`.
    pub function: Option<String>,
    /// Run this program, with its arguments, and wait for its end.
    #[cfg_attr(feature = "schema", schemars(with = "Option<Vec<String>>"))]
    pub command: Option<Spanned<Vec<String>>>,
}

/// A lock.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenLock {
    /// No other lock has this name.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub name: Spanned<String>,
    /// What its holder inherits.
    #[serde(default)]
    pub protocol: WrittenProtocol,
    /// With protocol `protect`: the priority of every holder.
    #[cfg_attr(feature = "schema", schemars(with = "Option<u8>"))]
    pub ceiling: Option<Spanned<Whole>>,
}

/// How a lock limits priority inversion.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum WrittenProtocol {
    /// `PTHREAD_PRIO_INHERIT`.
    #[default]
    Inherit,
    /// `PTHREAD_PRIO_PROTECT`.
    Protect,
    /// `PTHREAD_PRIO_NONE`.
    Plain,
}

/// Tasks from an input to an output.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenChain {
    /// No other chain has this name.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub name: Spanned<String>,
    /// The tasks, at least two, in order.
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub tasks: Vec<Spanned<String>>,
    /// From an input to the first output that reflects it, at most.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub reaction: Option<Time>,
    /// From the arrival of the job that read an input to the last output made of it, at most.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    pub age: Option<Time>,
}

/// The schema of the format, with its name.
#[cfg(feature = "schema")]
pub(crate) fn schema() -> (String, serde_json::Value) {
    punctual_record::schema::described::<WrittenSet>(
        "taskset",
        1,
        "punctual task set",
        "The file that `punctual exec` reads, in TOML. Times are text with a unit: \"500us\", \
         \"1.5ms\"; a number without one is in us.",
    )
}
