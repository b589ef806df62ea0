//! What two runs differ in, in words.

use punctual_record::conditions::{Aspect, Difference, Value};
use punctual_record::cpus::cpu_list;
use punctual_record::{MergeError, Method, RunSource};

use super::named::source;
use super::requirement::{length_limit, requirement};

/// `load (none / standard load v1)`.
#[must_use]
pub fn difference(difference: &Difference) -> String {
    format!(
        "{} ({} / {})",
        aspect(difference.aspect),
        value(&difference.first),
        value(&difference.second)
    )
}

/// Several of them in a line.
#[must_use]
pub fn differences(all: &[Difference]) -> String {
    let each: Vec<String> = all.iter().map(difference).collect();
    each.join("; ")
}

/// What a condition is called.
#[must_use]
pub fn aspect(aspect: Aspect) -> &'static str {
    match aspect {
        Aspect::Source => "source",
        Aspect::Interval => "interval",
        Aspect::Policy => "policy",
        Aspect::Priority => "priority",
        Aspect::Load => "load",
        Aspect::LoadClass => "load class",
        Aspect::Requirement => "requirement",
        Aspect::Deployment => "deployment",
        Aspect::Tuned => "changed settings",
        Aspect::Resolution => "resolution",
        Aspect::Tool => "tool",
        Aspect::Gaps => "gaps",
        Aspect::NotInForce => "conditions not in force",
        Aspect::Tracing => "tracing",
        Aspect::Host => "host",
        Aspect::Kernel => "kernel",
        Aspect::KernelBuild => "kernel build",
        Aspect::Preemption => "preemption",
        Aspect::Processor => "processor",
        Aspect::Hypervisor => "hypervisor",
        Aspect::Cpus => "CPUs",
        Aspect::CommandLine => "kernel command line",
        Aspect::IsolatedCpus => "isolated CPUs",
        Aspect::NohzFull => "nohz_full",
        Aspect::Smt => "SMT",
        Aspect::ClockSource => "clock source",
        Aspect::Governor => "governor",
        Aspect::Version => "version",
    }
}

/// The value of a condition.
#[must_use]
pub fn value(value: &Value) -> String {
    match value {
        Value::Absent => "none".to_owned(),
        Value::Text { text } => text.clone(),
        Value::Watch { of } => source(&RunSource::Watch { of: of.clone() }),
        Value::Hypervisor { hypervisor } => super::named::hypervisor(hypervisor),
        Value::Number { number } => number.to_string(),
        Value::Time { ns } => format!("{ns} ns"),
        Value::Switch { on: true } => "on".to_owned(),
        Value::Switch { on: false } => "off".to_owned(),
        Value::Cpus { cpus } => cpu_list(cpus),
        Value::Names { names } => names.join(", "),
        Value::Interval { nominal_ns, primes } => {
            let us = *nominal_ns as f64 / 1000.0;
            match primes {
                true => format!("primes near {us} µs"),
                false => format!("{us} µs"),
            }
        }
        Value::Requirements { wake_ups, marks } => {
            let marks = marks.iter().map(|it| length_limit(&it.name, it.limit_ns));
            let all: Vec<String> = wake_ups.iter().map(requirement).chain(marks).collect();
            match all.is_empty() {
                true => "none".to_owned(),
                false => all.join(", "),
            }
        }
        Value::Deployment { as_deployed: true } => "as deployed".to_owned(),
        Value::Deployment { as_deployed: false } => "tuned for the run".to_owned(),
        Value::Gaps {
            method,
            above_ns,
            runtime_ns,
            period_ns,
            with_kernel,
        } => {
            let by = match method {
                Method::Polling => "polling",
                Method::Hwlat => "the kernel's hwlat tracer",
            };
            let kernel = if *with_kernel {
                ", including those of the kernel"
            } else {
                ""
            };
            format!(
                "above {above_ns} ns{kernel}, by {by} for {} of each {} µs",
                runtime_ns / 1000,
                period_ns / 1000
            )
        }
    }
}

/// Why runs were not merged, and what to do.
#[must_use]
pub fn merge_error(error: &MergeError) -> String {
    match error {
        MergeError::Different {
            run,
            differences: found,
        } => format!(
            "run {} differs from the first in {}; --force merges them nevertheless",
            run + 1,
            differences(found)
        ),
        other => other.to_string(),
    }
}
