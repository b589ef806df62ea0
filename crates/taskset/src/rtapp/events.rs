//! Threads and their events, as they are written.

use std::ops::RangeInclusive;

use punctual_record::taskset::TaskPolicy;

use super::json::{Kind, Member, Value};
use crate::fault::Fault;

/// The longest time of an event, an hour in µs.
const LONGEST_US: i64 = 3_600_000_000;

/// One thread, or several instances of it.
#[derive(Debug)]
pub(super) struct Thread {
    pub line: usize,
    pub name: String,
    pub instances: usize,
    pub policy: TaskPolicy,
    pub cpus: Vec<usize>,
    pub delay_ns: u64,
    /// How often its phases repeat; absent for ever.
    pub loops: Option<u64>,
    pub phases: Vec<PhaseEvents>,
}

/// A phase of a thread.
#[derive(Debug)]
pub(super) struct PhaseEvents {
    pub loops: u64,
    pub events: Vec<Event>,
}

/// Something that a thread does.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Event {
    pub line: usize,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    Run(u64),
    Memory(u64),
    Sleep(u64),
    Timer(u64),
    Lock(String),
    Unlock(String),
    /// By this name, or the thread's own.
    Suspend(Option<String>),
    Resume(String),
    Yield,
}

pub(super) fn object<'a>(value: &'a Value, what: &str) -> Result<&'a [Member], Fault> {
    match &value.kind {
        Kind::Object(members) => Ok(members),
        _ => Err(Fault::new(
            value.line,
            format!("{what}: expected an object"),
        )),
    }
}

pub(super) fn integer(value: &Value, what: &str, range: RangeInclusive<i64>) -> Result<i64, Fault> {
    let number = match &value.kind {
        Kind::Number(text) => text.parse().ok(),
        _ => None,
    };
    number
        .filter(|number| range.contains(number))
        .ok_or_else(|| {
            let why = format!(
                "{what}: expected a whole number from {} to {}",
                range.start(),
                range.end()
            );
            Fault::new(value.line, why)
        })
}

fn text(value: &Value, what: &str) -> Result<String, Fault> {
    match &value.kind {
        Kind::Text(text) => Ok(text.clone()),
        _ => Err(Fault::new(
            value.line,
            format!("{what}: expected a name in quotes"),
        )),
    }
}

/// All threads; `policy` is the default, and where it is written.
pub(super) fn threads(value: &Value, policy: (usize, &str)) -> Result<Vec<Thread>, Fault> {
    let members = object(value, "tasks")?;
    let threads = members.iter().map(|member| thread(member, policy));
    threads
        .filter(|thread| !matches!(thread, Ok(thread) if thread.instances == 0))
        .collect()
}

/// What a thread says beside its events.
#[derive(Default)]
struct Properties {
    policy: Option<(usize, String)>,
    priority: Option<(usize, i64)>,
    runtime_us: Option<(usize, i64)>,
    period_us: Option<i64>,
    deadline_us: Option<i64>,
}

fn thread(member: &Member, default: (usize, &str)) -> Result<Thread, Fault> {
    let name = &member.name;
    let mut of = Properties::default();
    let mut thread = Thread {
        line: member.line,
        name: name.clone(),
        instances: 1,
        policy: TaskPolicy::Other { nice: 0 },
        cpus: Vec::new(),
        delay_ns: 0,
        loops: None,
        phases: Vec::new(),
    };
    let mut own = PhaseEvents {
        loops: 1,
        events: Vec::new(),
    };
    for Member {
        line,
        name: key,
        value,
    } in object(&member.value, name)?
    {
        let what = format!("{name}: {key}");
        let number = |range| integer(value, &what, range);
        match key.as_str() {
            "instance" => thread.instances = number(0..=256)? as usize,
            "delay" => thread.delay_ns = number(0..=LONGEST_US)? as u64 * 1_000,
            "loop" => thread.loops = u64::try_from(number(-1..=1_000_000_000)?).ok(),
            "policy" => of.policy = Some((*line, text(value, &what)?)),
            "priority" => of.priority = Some((*line, number(-20..=99)?)),
            "cpus" => thread.cpus = cpus(value, &what)?,
            "dl-runtime" => of.runtime_us = Some((*line, number(1..=LONGEST_US)?)),
            "dl-period" | "period" => of.period_us = Some(number(1..=LONGEST_US)?),
            "dl-deadline" | "deadline" => of.deadline_us = Some(number(1..=LONGEST_US)?),
            "phases" => {
                for phase in object(value, &what)? {
                    thread.phases.push(phase_of(phase, name)?);
                }
            }
            _ => own.events.push(event(name, *line, key, value)?),
        }
    }
    if !own.events.is_empty() {
        if !thread.phases.is_empty() {
            let why = format!("{name}: expected phases or events, not both");
            return Err(Fault::new(member.line, why));
        }
        thread.phases.push(own);
    }
    if thread.loops == Some(0) {
        let why = format!("{name}: loop 0: expected at least 1, or -1");
        return Err(Fault::new(member.line, why));
    }
    thread.policy = policy(&of, default, name)?;
    Ok(thread)
}

fn phase_of(member: &Member, thread: &str) -> Result<PhaseEvents, Fault> {
    let mut phase = PhaseEvents {
        loops: 1,
        events: Vec::new(),
    };
    for Member {
        line,
        name: key,
        value,
    } in object(&member.value, &member.name)?
    {
        match key.as_str() {
            "loop" => {
                let what = format!("{thread}: {}: loop", member.name);
                phase.loops = integer(value, &what, 1..=1_000_000_000)? as u64;
            }
            "cpus" | "policy" | "priority" | "dl-runtime" | "dl-period" | "dl-deadline" => {
                let why = format!(
                    "{thread}: '{key}' of a phase can't be mapped: expected it of the whole thread"
                );
                return Err(Fault::new(*line, why));
            }
            _ => phase.events.push(event(thread, *line, key, value)?),
        }
    }
    Ok(phase)
}

fn cpus(value: &Value, what: &str) -> Result<Vec<usize>, Fault> {
    let Kind::Array(all) = &value.kind else {
        return Err(Fault::new(
            value.line,
            format!("{what}: expected a list such as [0, 1]"),
        ));
    };
    let mut cpus = Vec::new();
    for cpu in all {
        cpus.push(integer(cpu, what, 0..=1_023)? as usize);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn policy(of: &Properties, default: (usize, &str), name: &str) -> Result<TaskPolicy, Fault> {
    let (line, policy) = match &of.policy {
        Some((line, policy)) => (*line, policy.as_str()),
        None => default,
    };
    let reserved = policy == "SCHED_DEADLINE";
    if let Some((line, _)) = of.runtime_us.filter(|_| !reserved) {
        let why = format!("{name}: dl-runtime with {policy}: expected it with SCHED_DEADLINE");
        return Err(Fault::new(line, why));
    }
    match policy {
        "SCHED_FIFO" | "SCHED_RR" => {
            let (line, number) = of.priority.unwrap_or((line, 10));
            let priority = u8::try_from(number)
                .ok()
                .filter(|it| *it >= 1)
                .ok_or_else(|| {
                    Fault::new(line, format!("{name}: priority {number}: expected 1 to 99"))
                })?;
            Ok(match policy {
                "SCHED_RR" => TaskPolicy::Rr { priority },
                _ => TaskPolicy::Fifo { priority },
            })
        }
        "SCHED_OTHER" => {
            let (line, number) = of.priority.unwrap_or((line, 0));
            let nice = i8::try_from(number)
                .ok()
                .filter(|it| *it <= 19)
                .ok_or_else(|| {
                    Fault::new(line, format!("{name}: nice {number}: expected -20 to 19"))
                })?;
            Ok(TaskPolicy::Other { nice })
        }
        "SCHED_DEADLINE" => {
            let Some((_, runtime)) = of.runtime_us else {
                let why = format!("{name}: SCHED_DEADLINE: expected dl-runtime");
                return Err(Fault::new(line, why));
            };
            let period = of.period_us.unwrap_or(runtime);
            let ns = |us: i64| us as u64 * 1_000;
            Ok(TaskPolicy::Deadline {
                runtime_ns: ns(runtime),
                deadline_ns: ns(of.deadline_us.unwrap_or(period)),
                period_ns: ns(period),
            })
        }
        other => {
            let why = format!(
                "{name}: policy '{other}': expected SCHED_FIFO, SCHED_RR, SCHED_DEADLINE or \
                 SCHED_OTHER"
            );
            Err(Fault::new(line, why))
        }
    }
}

/// An event, by how its keyword begins: `run0` is a run.
fn event(thread: &str, line: usize, key: &str, value: &Value) -> Result<Event, Fault> {
    let what = format!("{thread}: {key}");
    let us = || integer(value, &what, 0..=LONGEST_US).map(|us| us as u64 * 1_000);
    let begins = |word: &str| key.starts_with(word);
    let what = if begins("runtime") || begins("run") {
        What::Run(us()?)
    } else if begins("sleep") {
        What::Sleep(us()?)
    } else if begins("mem") && !begins("memrun") {
        What::Memory(integer(value, &what, 1..=1 << 40)? as u64)
    } else if begins("timer") {
        What::Timer(timer(value, &what)?)
    } else if begins("lock") && key != "lock_order" {
        What::Lock(text(value, &what)?)
    } else if begins("unlock") {
        What::Unlock(text(value, &what)?)
    } else if begins("suspend") {
        What::Suspend(match &value.kind {
            Kind::Absent => None,
            _ => Some(text(value, &what)?),
        })
    } else if begins("resume") {
        What::Resume(text(value, &what)?)
    } else if begins("yield") {
        What::Yield
    } else {
        let why = format!(
            "{thread}: keyword '{key}' can't be mapped: expected run, runtime, mem, sleep, timer, \
             lock, unlock, suspend, resume or yield"
        );
        return Err(Fault::new(line, why));
    };
    Ok(Event { line, what })
}

fn timer(value: &Value, what: &str) -> Result<u64, Fault> {
    let mut period_ns = None;
    for Member { line, name, value } in object(value, what)? {
        match name.as_str() {
            "period" => {
                let us = integer(value, &format!("{what}: period"), 1..=LONGEST_US)?;
                period_ns = Some(us as u64 * 1_000);
            }
            // By whom it is shared, and from where it counts after a period that was missed.
            "ref" | "mode" => {}
            other => {
                let why = format!("{what}: '{other}': expected ref, period and mode");
                return Err(Fault::new(*line, why));
            }
        }
    }
    period_ns.ok_or_else(|| Fault::new(value.line, format!("{what}: expected a period")))
}
