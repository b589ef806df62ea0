//! Under which conditions a run was made, one by one, so that two runs can be held
//! against each other.

use punctual_stats::format::duration;
use serde::Serialize;

use super::cpus::cpu_list;
use super::gaps::{Gaps, Method, Subject};
use super::run::{Interval, Run};

/// What a condition is to two runs side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// How it was measured: where it differs, the figures don't compare like with like.
    Method,
    /// What was measured: a difference may be the very thing that is looked at.
    Subject,
    /// Good to know.
    Detail,
}

/// A condition in which two runs differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// e.g. `kernel`.
    pub name: &'static str,
    /// Of the first run.
    pub first: String,
    /// Of the second run.
    pub second: String,
    /// What it is to the two runs.
    pub role: Role,
}

/// `None`: not known of this run, so it can't differ.
type Value = Option<String>;

fn known(run: &Run, fact: &str, value: impl FnOnce() -> String) -> Value {
    run.knows(fact).then(value)
}

fn stated(text: &str) -> Value {
    (!text.is_empty() && text != "unknown").then(|| text.to_owned())
}

fn interval(interval: &Interval) -> String {
    let us = interval.nominal_ns() as f64 / 1000.0;
    match interval {
        Interval::Fixed { .. } => format!("{us} µs"),
        Interval::Primes { .. } => format!("primes around {us} µs"),
    }
}

fn gaps(gaps: &Gaps) -> String {
    let how = match gaps.method {
        Method::Polling => "polling",
        Method::Hwlat => "the kernel's hwlat tracer",
    };
    let sifted = match (gaps.subject, gaps.sifted) {
        (Subject::Hardware, false) => ", those of the kernel among them",
        _ => "",
    };
    format!(
        "of more than {} ns{sifted}, by {how}, {} of {} µs",
        gaps.above_ns,
        gaps.runtime_ns / 1000,
        gaps.period_ns / 1000
    )
}

/// A limit on how long a part of a program takes: `step() at most 500 µs`.
#[must_use]
pub fn required(name: &str, limit_ns: u64) -> String {
    format!("{name} at most {}", duration(limit_ns))
}

fn method(run: &Run) -> Vec<(&'static str, Value)> {
    let request = &run.request;
    let deployed = || {
        if request.as_deployed {
            "as deployed"
        } else {
            "tuned for the run"
        }
    };
    let requirements = || {
        let marks = run.watch.iter().flat_map(|watch| &watch.marks);
        let limits = marks.filter_map(|mark| Some(required(&mark.name, mark.limit_ns?)));
        let wake_ups = request.requirements.iter().map(ToString::to_string);
        let list: Vec<_> = wake_ups.chain(limits).collect();
        if list.is_empty() {
            "none".to_owned()
        } else {
            list.join(", ")
        }
    };
    let ours = run.imported.is_none();
    vec![
        ("source", stated(&request.source)),
        (
            "interval",
            known(run, "interval", || interval(&request.interval)),
        ),
        ("policy", stated(&request.policy)),
        (
            "priority",
            known(run, "priority", || request.priority.to_string()),
        ),
        ("load", stated(&request.load)),
        ("load class", stated(&request.load_class)),
        ("requirement", ours.then(requirements)),
        ("deployment", ours.then(|| deployed().to_owned())),
        ("resolution", Some(format!("{} ns", run.resolution_ns()))),
        ("tool", stated(&run.tool.name)),
        ("gaps", run.gaps.as_ref().map(gaps)),
    ]
}

fn subject(run: &Run) -> Vec<(&'static str, Value)> {
    let system = &run.system;
    vec![
        ("host", stated(&system.hostname)),
        ("kernel", stated(&system.kernel.release)),
        ("kernel build", stated(&system.kernel.version)),
        ("preemption", stated(&system.kernel.preemption)),
        ("processor", stated(&system.processor.model)),
        ("hypervisor", {
            let named = system.virtualisation.hypervisor.clone();
            run.imported
                .is_none()
                .then(|| named.unwrap_or_else(|| "none".to_owned()))
        }),
    ]
}

fn detail(run: &Run) -> Vec<(&'static str, Value)> {
    let system = &run.system;
    let ours = run.imported.is_none();
    let governors = || {
        let names: Vec<_> = system
            .power
            .governors
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        names.join(", ")
    };
    vec![
        ("CPUs", known(run, "cpus", || cpu_list(&run.request.cpus))),
        (
            "command line of the kernel",
            stated(&system.kernel.command_line),
        ),
        (
            "isolated CPUs",
            ours.then(|| cpu_list(&system.processor.isolated)),
        ),
        (
            "nohz_full",
            ours.then(|| cpu_list(&system.processor.nohz_full)),
        ),
        (
            "SMT",
            system
                .processor
                .smt_active
                .map(|on| if on { "on" } else { "off" }.to_owned()),
        ),
        ("clock source", stated(&system.clock.source)),
        ("governor", stated(&governors())),
        ("version", ours.then(|| run.tool.version.clone())),
    ]
}

/// Where two runs differ. What isn't known of one of them is no difference.
#[must_use]
pub fn differences(first: &Run, second: &Run) -> Vec<Difference> {
    let mut found = Vec::new();
    let roles = [
        (Role::Method, method as fn(&Run) -> _),
        (Role::Subject, subject),
        (Role::Detail, detail),
    ];
    for (role, of) in roles {
        for ((name, first), (_, second)) in of(first).into_iter().zip(of(second)) {
            if let (Some(first), Some(second)) = (first, second)
                && first != second
            {
                found.push(Difference {
                    name,
                    first,
                    second,
                    role,
                });
            }
        }
    }
    found
}
