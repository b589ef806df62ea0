//! What a program may do: the one that runs `check`, unless another is named.

use punctual_record::cpu_list;
use punctual_record::finding::{Fault, FindingState, Item, ItemKind, Seen, Unknown};
use punctual_record::proc_status::{Capabilities, value};

use crate::look::{
    Look, Looked, bad, information, information_that, missing, ok, unknown, without,
};
use crate::mask::lacking;
use crate::posix;
use crate::survey::cgroup::cpuset_of;

/// The soft and the hard limit of a line of /proc/PID/limits; no number without a limit.
fn limit(look: &mut Look<'_>, name: &str) -> Result<(Option<u64>, Option<u64>), FindingState> {
    let path = format!("{}/limits", look.machine.process);
    let text = look.unshown(&path)?;
    let line = text.lines().find(|line| line.starts_with(name));
    let line = Look::parsed(&path, line)?;
    look.saw(path.clone(), line);
    let mut words = line[name.len()..].split_whitespace();
    let mut value = || match words.next() {
        Some("unlimited") => Some(None),
        Some(number) => number.parse().ok().map(Some),
        None => None,
    };
    let (soft, hard) = (value(), value());
    Ok((Look::parsed(&path, soft)?, Look::parsed(&path, hard)?))
}

/// The effective capabilities.
fn effective(look: &mut Look<'_>) -> Result<Capabilities, FindingState> {
    let path = format!("{}/status", look.machine.process);
    let text = look.unshown(&path)?;
    let held = Look::parsed(&path, Capabilities::effective(&text))?;
    look.saw(path, &format!("CapEff: {:016x}", held.0));
    Ok(held)
}

pub(super) fn rtprio_limit(look: &mut Look<'_>) -> Looked {
    let (soft, _) = limit(look, "Max realtime priority")?;
    let priority = u64::from(look.machine.priority);
    if soft.is_none_or(|soft| soft >= priority) || effective(look)?.has(Capabilities::SYS_NICE) {
        ok()
    } else {
        bad(Fault::Below(priority)).by_hand().end()
    }
}

pub(super) fn memlock_limit(look: &mut Look<'_>) -> Looked {
    let (soft, _) = limit(look, "Max locked memory")?;
    if soft.is_none() || effective(look)?.has(Capabilities::IPC_LOCK) {
        ok()
    } else {
        bad(missing("unlimited")).by_hand().end()
    }
}

pub(super) fn rttime_limit(look: &mut Look<'_>) -> Looked {
    let (soft, hard) = limit(look, "Max realtime timeout")?;
    if soft.is_none() && hard.is_none() {
        ok()
    } else {
        bad(missing("unlimited")).by_hand().end()
    }
}

/// Answers that snapshots keep to the question whether a file may be written to; the others are
/// errors.
const GRANTED: &str = "granted";
const NO_FILE: &str = "no such file";

pub(super) fn dma_latency_access(look: &mut Look<'_>) -> Looked {
    use rustix::fs::{Access, access};
    use rustix::io::Errno;

    let path = "/dev/cpu_dma_latency";
    let question = format!("access({path}, W_OK)");
    let answer = look.machine.root.answer(&question, || {
        Ok(match access(path, Access::WRITE_OK) {
            Ok(()) => GRANTED.to_owned(),
            Err(Errno::NOENT) => NO_FILE.to_owned(),
            Err(error) => crate::root::plain(&error.into()),
        })
    });
    let Ok(answer) = answer else {
        return unknown(Unknown::NotRecorded(question));
    };
    match answer.as_str() {
        GRANTED => {
            look.seen(question, Seen::Granted);
            ok()
        }
        NO_FILE => {
            look.saw_none(question);
            without(path)
        }
        error => {
            look.saw(question, error);
            bad(missing(ItemKind::WriteAccess)).by_hand().end()
        }
    }
}

pub(super) fn capabilities(look: &mut Look<'_>) -> Looked {
    let held = effective(look)?;
    let wanted = [
        (Capabilities::SYS_NICE, "CAP_SYS_NICE"),
        (Capabilities::IPC_LOCK, "CAP_IPC_LOCK"),
        (Capabilities::SYS_RESOURCE, "CAP_SYS_RESOURCE"),
    ];
    let lacking: Vec<Item> = wanted
        .into_iter()
        .filter(|(number, _)| !held.has(*number))
        .map(|(_, name)| name.into())
        .collect();
    if lacking.is_empty() {
        ok()
    } else {
        information_that(Fault::Missing(lacking)).by_hand().end()
    }
}

pub(super) fn affinity(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let path = format!("{}/status", look.machine.process);
    let text = look.unshown(&path)?;
    let list = Look::parsed(&path, value(&text, "Cpus_allowed_list"))?;
    look.saw(path.clone(), &format!("Cpus_allowed_list: {list}"));
    let allowed = Look::parsed(&path, punctual_rt::cpulist::numbers(list).ok())?;
    let lacks: Vec<usize> = cpus
        .iter()
        .filter(|cpu| !allowed.contains(cpu))
        .copied()
        .collect();
    if lacks.is_empty() {
        return ok();
    }
    // An affinity is no limit, a cpuset is: with `isolcpus=` every program inherits the other CPUs.
    let groups = format!("{}/cgroup", look.machine.process);
    look.unshown(&groups)?;
    let beyond = match cpuset_of(look.machine.root, &groups) {
        Some(cpuset) => {
            look.saw(cpuset.file.as_str(), &cpu_list(&cpuset.cpus));
            lacking(&lacks, &cpuset.cpus)
        }
        None => return unknown(Unknown::NotShown("cpuset.cpus.effective".to_owned())),
    };
    if beyond.is_empty() {
        information_that(Fault::Lacks(lacks)).end()
    } else {
        bad(Fault::Lacks(beyond)).by_hand().end()
    }
}

/// Constants of the C library, beside what was tried.
pub(super) fn posix_options(look: &mut Look<'_>) -> Looked {
    let mut any = false;
    for question in posix::QUESTIONS {
        if let Ok(answer) = look.machine.root.answer(question.name, question.ask) {
            look.add(question.source(), posix::evidence(&answer));
            any = true;
        }
    }
    if any {
        information().end()
    } else {
        unknown(Unknown::NotRecorded("sysconf".to_owned()))
    }
}
