//! The conditions of a run one by one, so that two runs can be compared: values, no sentences.

use std::collections::BTreeMap;

use crate::{Hypervisor, RunSource};
use punctual_stats::requirement::Requirement;
use serde::{Deserialize, Serialize};

use super::field::Field;
use super::gaps::{Gaps, Method, Subject};
use super::invalid::not_in_force;
use super::run::{Interval, Run};
use super::tuning::Tuned;

/// What a difference in a condition means for a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// How it was measured: where it differs, the figures don't compare like with like.
    Method,
    /// What was measured: the comparison may be made for this very difference.
    Subject,
    /// Good to know.
    Detail,
}

/// A condition by which runs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Aspect {
    /// The wait source.
    Source,
    /// The interval.
    Interval,
    /// The scheduling policy of the probes.
    Policy,
    /// Their priority.
    Priority,
    /// The load.
    Load,
    /// The scheduling class of the load.
    LoadClass,
    /// What was required.
    Requirement,
    /// Whether the machine was measured as deployed.
    Deployment,
    /// The settings that were changed for the run.
    Tuned,
    /// The step that latencies were rounded down to.
    Resolution,
    /// The program that measured.
    Tool,
    /// How gaps were found.
    Gaps,
    /// What was requested and not in force, with `--best-effort`.
    NotInForce,
    /// Whether the kernel was traced, which takes time of each wake-up.
    Tracing,
    /// The host name.
    Host,
    /// The kernel's release.
    Kernel,
    /// The kernel's build.
    KernelBuild,
    /// The kernel's preemption model.
    Preemption,
    /// The processor.
    Processor,
    /// The hypervisor.
    Hypervisor,
    /// The CPUs of the probes.
    Cpus,
    /// The kernel's command line.
    CommandLine,
    /// Isolated CPUs.
    IsolatedCpus,
    /// `nohz_full` CPUs.
    NohzFull,
    /// Simultaneous multithreading.
    Smt,
    /// The clock source.
    ClockSource,
    /// The frequency governors.
    Governor,
    /// The version of the program that measured.
    Version,
}

impl Aspect {
    /// Every aspect.
    pub const ALL: [Self; 28] = [
        Self::Source,
        Self::Interval,
        Self::Policy,
        Self::Priority,
        Self::Load,
        Self::LoadClass,
        Self::Requirement,
        Self::Deployment,
        Self::Tuned,
        Self::Resolution,
        Self::Tool,
        Self::Gaps,
        Self::NotInForce,
        Self::Tracing,
        Self::Host,
        Self::Kernel,
        Self::KernelBuild,
        Self::Preemption,
        Self::Processor,
        Self::Hypervisor,
        Self::Cpus,
        Self::CommandLine,
        Self::IsolatedCpus,
        Self::NohzFull,
        Self::Smt,
        Self::ClockSource,
        Self::Governor,
        Self::Version,
    ];

    /// What a difference in it means.
    #[must_use]
    pub fn role(self) -> Role {
        match self {
            Self::Source
            | Self::Interval
            | Self::Policy
            | Self::Priority
            | Self::Load
            | Self::LoadClass
            | Self::Requirement
            | Self::Deployment
            | Self::Resolution
            | Self::Tool
            | Self::Gaps
            | Self::NotInForce
            | Self::Tracing => Role::Method,
            Self::Tuned
            | Self::Host
            | Self::Kernel
            | Self::KernelBuild
            | Self::Preemption
            | Self::Processor
            | Self::Hypervisor => Role::Subject,
            Self::Cpus
            | Self::CommandLine
            | Self::IsolatedCpus
            | Self::NohzFull
            | Self::Smt
            | Self::ClockSource
            | Self::Governor
            | Self::Version => Role::Detail,
        }
    }
}

/// A limit on how long a part of a program takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MarkLimit {
    /// The mark's name.
    pub name: String,
    /// The limit.
    pub limit_ns: u64,
}

/// The value of a condition in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Value {
    /// Nothing of that kind: no hypervisor.
    Absent,
    /// A name, or text of the machine, the kernel or the user.
    Text {
        /// The text.
        text: String,
    },
    /// A watch.
    Watch {
        /// Of what; absent for the whole system.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        of: Option<String>,
    },
    /// A hypervisor without a known name.
    Hypervisor {
        /// Which.
        hypervisor: Hypervisor,
    },
    /// A number.
    Number {
        /// Which.
        number: u64,
    },
    /// A length of time.
    Time {
        /// The length.
        ns: u64,
    },
    /// On or off.
    Switch {
        /// Whether it is on.
        on: bool,
    },
    /// CPUs.
    Cpus {
        /// Their numbers.
        cpus: Vec<usize>,
    },
    /// Several names.
    Names {
        /// The names.
        names: Vec<String>,
    },
    /// The interval between two wake-ups.
    Interval {
        /// The nominal length.
        nominal_ns: u64,
        /// Whether each interval is drawn from a table of primes.
        primes: bool,
    },
    /// Requirements.
    Requirements {
        /// On wake-ups or gaps.
        wake_ups: Vec<Requirement>,
        /// On parts of a program.
        marks: Vec<MarkLimit>,
    },
    /// Whether the machine was changed for the run.
    Deployment {
        /// True: it was measured as deployed.
        as_deployed: bool,
    },
    /// How gaps were found.
    Gaps {
        /// By what.
        method: Method,
        /// Longer than this is a gap.
        above_ns: u64,
        /// How long the clock was polled in each period.
        runtime_ns: u64,
        /// The period.
        period_ns: u64,
        /// Whether gaps of the kernel count as gaps of the hardware: they could not be
        /// recognised.
        with_kernel: bool,
    },
}

/// A condition in which two runs differ.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Which condition.
    pub aspect: Aspect,
    /// What the difference means.
    pub role: Role,
    /// Its value in the first run.
    pub first: Value,
    /// Its value in the second run.
    pub second: Value,
}

/// The value of a condition in a run; `None` where the record doesn't state it.
#[must_use]
pub fn value(run: &Run, aspect: Aspect) -> Option<Value> {
    let (request, system) = (&run.request, &run.system);
    let ours = run.imported.is_none();
    match aspect {
        Aspect::Source => match &request.source {
            RunSource::Name(name) => text(name),
            RunSource::Watch { of } => Some(Value::Watch { of: of.clone() }),
            RunSource::Tasks { of } => text(of),
            RunSource::Path { over, to } => text(&format!("{} {to}", over.name())),
        },
        Aspect::Interval => run
            .knows(Field::Interval)
            .then(|| interval(&request.interval)),
        Aspect::Policy => text(&request.policy),
        Aspect::Priority => run.knows(Field::Priority).then(|| Value::Number {
            number: request.priority.into(),
        }),
        Aspect::Load => text(&request.load),
        Aspect::LoadClass => text(&request.load_class),
        Aspect::Requirement => ours.then(|| requirements(run)),
        Aspect::Deployment => ours.then_some(Value::Deployment {
            as_deployed: request.as_deployed,
        }),
        Aspect::Tuned => ours.then(|| tuned(run)),
        Aspect::Resolution => Some(Value::Time {
            ns: run.resolution_ns(),
        }),
        Aspect::Tool => text(&run.tool.name),
        Aspect::Gaps => run.gaps.as_ref().map(gaps),
        Aspect::NotInForce => ours.then(|| lacking(run)),
        Aspect::Tracing => {
            let on = run.own_cost.tracer.is_some();
            // Older sums don't say.
            let is_stated = ours && (on || run.merged.is_none());
            is_stated.then_some(Value::Switch { on })
        }
        Aspect::Host => text(&system.hostname),
        Aspect::Kernel => text(&system.kernel.release),
        Aspect::KernelBuild => text(&system.kernel.version),
        Aspect::Preemption => text(&system.kernel.preemption),
        Aspect::Processor => text(&system.processor.model),
        Aspect::Hypervisor => ours.then(|| match system.virtualisation.hypervisor.clone() {
            None => Value::Absent,
            Some(Hypervisor::Name(text)) => Value::Text { text },
            Some(hypervisor) => Value::Hypervisor { hypervisor },
        }),
        Aspect::Cpus => run.knows(Field::Cpus).then(|| cpus(&request.cpus)),
        Aspect::CommandLine => text(&system.kernel.command_line),
        Aspect::IsolatedCpus => ours.then(|| cpus(&system.processor.isolated)),
        Aspect::NohzFull => ours.then(|| cpus(&system.processor.nohz_full)),
        Aspect::Smt => system.processor.smt_active.map(|on| Value::Switch { on }),
        Aspect::ClockSource => text(&system.clock.source),
        Aspect::Governor => {
            let governors = system.power.governors.iter();
            let names: Vec<String> = governors.map(|(name, _)| name.clone()).collect();
            (!names.is_empty()).then_some(Value::Names { names })
        }
        Aspect::Version => ours.then(|| Value::Text {
            text: run.tool.version.clone(),
        }),
    }
}

/// The knobs that were turned, each with its settings or, of several, their number and values.
fn tuned(run: &Run) -> Value {
    let mut knobs: BTreeMap<&str, Vec<&Tuned>> = BTreeMap::new();
    for tuned in &run.tuned {
        knobs.entry(tuned.knob.name()).or_default().push(tuned);
    }
    let name = |(knob, all): (&str, Vec<&Tuned>)| {
        let what = match &all[..] {
            [one] => one.setting.to_string(),
            several => format!("{} settings", several.len()),
        };
        let mut values: Vec<&str> = all.iter().map(|it| it.value.as_str()).collect();
        values.sort_unstable();
        values.dedup();
        format!("{knob} ({what} = {})", values.join(" or "))
    };
    if knobs.is_empty() {
        return Value::Absent;
    }
    Value::Names {
        names: knobs.into_iter().map(name).collect(),
    }
}

/// The conditions that a best effort went without; without one the run is INVALID.
fn lacking(run: &Run) -> Value {
    let mut names: Vec<String> = not_in_force(run)
        .filter(|_| run.request.best_effort)
        .map(|demand| demand.condition.name().to_owned())
        .collect();
    names.sort_unstable();
    names.dedup();
    match names.is_empty() {
        true => Value::Absent,
        false => Value::Names { names },
    }
}

fn text(text: &str) -> Option<Value> {
    (!text.is_empty() && text != "unknown").then(|| Value::Text {
        text: text.to_owned(),
    })
}

/// In order and each once, so that equal sets are equal values.
fn cpus(cpus: &[usize]) -> Value {
    let mut cpus = cpus.to_vec();
    cpus.sort_unstable();
    cpus.dedup();
    Value::Cpus { cpus }
}

fn interval(interval: &Interval) -> Value {
    Value::Interval {
        nominal_ns: interval.nominal_ns(),
        primes: matches!(interval, Interval::Primes { .. }),
    }
}

fn requirements(run: &Run) -> Value {
    let marks = run.watch.iter().flat_map(|watch| &watch.marks);
    let limited = marks.filter_map(|mark| {
        Some(MarkLimit {
            name: mark.name.clone(),
            limit_ns: mark.limit_ns?,
        })
    });
    Value::Requirements {
        wake_ups: run.request.requirements.clone(),
        marks: limited.collect(),
    }
}

fn gaps(gaps: &Gaps) -> Value {
    Value::Gaps {
        method: gaps.method,
        above_ns: gaps.above_ns,
        runtime_ns: gaps.runtime_ns,
        period_ns: gaps.period_ns,
        with_kernel: gaps.subject == Subject::Hardware && !gaps.sifted,
    }
}

/// Where two runs differ. What one of them doesn't state is no difference.
#[must_use]
pub fn differences(first: &Run, second: &Run) -> Vec<Difference> {
    let difference = |aspect: Aspect| {
        let (first, second) = (value(first, aspect)?, value(second, aspect)?);
        (first != second).then(|| Difference {
            aspect,
            role: aspect.role(),
            first,
            second,
        })
    };
    Aspect::ALL.into_iter().filter_map(difference).collect()
}
