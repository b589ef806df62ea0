//! A fix as a command to copy.

use punctual_record::cpu_list;
use punctual_record::finding::{Finding, FindingFix, Undo};

use super::text;

/// The command of a fix, or the instruction where no command does it.
#[must_use]
pub fn command(finding: &Finding, fix: &FindingFix) -> String {
    match fix {
        FindingFix::Write { path, value } => format!("echo {} > {path}", quoted(value)),
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
            format!("chrt {letter} -p {priority} {tid}    # {thread}")
        }
        FindingFix::Affinity { thread, tid, cpus } => {
            format!("taskset -pc {} {tid}    # {thread}", cpu_list(cpus))
        }
        FindingFix::Boot { parameter } => format!("boot with {parameter}"),
        FindingFix::Unboot { parameter } => format!("boot without {parameter}"),
        FindingFix::HoldDmaLatency { limit_us } => {
            format!("hold /dev/cpu_dma_latency open with {limit_us} (in \u{b5}s)")
        }
        FindingFix::ByHand => text(finding.id).by_hand.to_owned(),
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

/// A word of the shell.
pub(crate) fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_,.:/=".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        value.to_owned()
    } else {
        format!("'{}'", value.replace('\'', "'\\''"))
    }
}
