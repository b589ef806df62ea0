//! A fix as a command to copy.

use std::fmt::Display;

use punctual_record::cpu_list;
use punctual_record::finding::{Finding, FindingFix, FindingId, ReadResult, Reading, Seen, Undo};

use super::text;

/// The command of a fix, or the instruction where no command does it.
#[must_use]
pub fn command(finding: &Finding, fix: &FindingFix) -> String {
    match fix {
        FindingFix::Write { path, value } => write(path, value),
        FindingFix::Scheduling {
            thread,
            tid,
            policy,
            priority,
        } => {
            let letter = match policy.as_str() {
                "fifo" => "-f",
                "rr" => "-r",
                "batch" => "-b",
                "idle" => "-i",
                _ => "-o",
            };
            chrt(letter, priority, *tid, thread)
        }
        FindingFix::Affinity { thread, tid, cpus } => taskset(&cpu_list(cpus), *tid, thread),
        FindingFix::Boot { parameter } => format!("boot with {parameter}"),
        FindingFix::Unboot { parameter } => format!("boot without {parameter}"),
        FindingFix::HoldDmaLatency { limit_us } => {
            format!("hold /dev/cpu_dma_latency open with {limit_us} (in \u{b5}s)")
        }
        FindingFix::ByHand => by_hand(finding),
    }
}

/// What to do where no command does it.
fn by_hand(finding: &Finding) -> String {
    let words = text(finding.id).by_hand.to_owned();
    let first = |reading: &Reading| match &reading.result {
        ReadResult::Seen(Seen::OfCpus(cpus)) => Some(cpu_list(cpus)),
        _ => None,
    };
    let firsts = finding.readings.iter().find_map(first);
    match firsts.filter(|_| finding.id == FindingId::SmtSiblings) {
        Some(firsts) => format!("{words} (the first threads of these cores: CPUs {firsts})"),
        None => words,
    }
}

/// How a change is undone.
#[must_use]
pub fn undo(fix: &FindingFix) -> &'static str {
    match fix.undo() {
        Undo::Exact => "undone exactly",
        Undo::Reboot => "undone by removing it and a reboot",
        Undo::ByHand => "undone by hand",
    }
}

/// A value for a file of the kernel.
pub(crate) fn write(path: &str, value: &str) -> String {
    format!("echo {} > {path}", quoted(value))
}

/// A policy, by chrt's letter, and a priority for a thread.
pub(crate) fn chrt(letter: &str, priority: impl Display, tid: i32, thread: &str) -> String {
    format!("chrt {letter} -p {priority} {tid}    # {thread}")
}

/// CPUs for a thread.
pub(crate) fn taskset(cpus: &str, tid: i32, thread: &str) -> String {
    format!("taskset -pc {cpus} {tid}    # {thread}")
}

/// A word of the shell.
pub(crate) fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_,.:/=@".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\'', "'\\''"))
    }
}
