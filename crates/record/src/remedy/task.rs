//! What helps against a thread that took the time, by its name.

use super::{ALONE, Obstacle, Remedy, Surroundings, softirq, with};
use crate::explanation::softirq_name;
use crate::finding::FindingId;

/// The kernel's threads by the beginning of their names, and the knobs that bear on them.
const KERNEL: [(&str, &[FindingId]); 19] = {
    use FindingId as F;
    [
        ("swapper", &[]),
        ("sugov", &[F::Governor]),
        ("kdamond", &[F::MemoryScanners]),
        ("ksmd", &[F::Ksm]),
        ("khugepaged", &[F::TransparentHugepages]),
        ("kcompactd", &[F::Compaction]),
        ("kswapd", &[F::MemoryLimit, F::MinFree]),
        ("kauditd", &[F::Audit]),
        ("watchdog", &[F::Watchdogs, F::WatchdogMask]),
        ("jbd2", &[F::DirtyWriteback]),
        ("idle_inject", &[F::ThermalThrottling]),
        ("migration", &[F::IsolatedCpus]),
        ("cpuhp", &[F::IsolatedCpus]),
        ("rcuo", &[F::RcuThreads]),
        ("rcu", &[F::RcuNocbs, F::RcuThreads]),
        ("napi/", &[F::ThreadedNapi, F::IrqAffinity]),
        ("irq/", &[F::IrqAffinity, F::Irqbalance, F::IrqThreads]),
        ("ksoftirqd", &[F::IrqAffinity, F::Irqbalance, F::NohzFull]),
        ("ktimers", &[F::NohzFull, F::IsolatedCpus]),
    ]
};

/// Work items by a part of their function's name.
const WORK: [(&str, &[FindingId]); 3] = {
    use FindingId as F;
    [
        ("vmstat", &[F::VmstatInterval]),
        ("wb_workfn", &[F::DirtyWriteback, F::WorkqueueMask]),
        ("mce", &[F::MachineCheckPolling]),
    ]
};

/// A thread of the kernel; nothing for a program's.
fn of_kernel(task: &str, work: Option<&str>) -> Option<Remedy> {
    if let Some(name) = task.strip_prefix("softirq ") {
        let number = (0..10).find(|number| softirq_name(*number) == name);
        return Some(softirq(number.unwrap_or(u32::MAX)));
    }
    if task.starts_with("kworker") {
        let known = work.and_then(|work| WORK.iter().find(|(part, _)| work.contains(part)));
        let others: &[FindingId] = &[FindingId::WorkqueueMask, FindingId::BoundKworkers];
        let knobs = known.map_or(others, |(_, knobs)| knobs);
        return Some(with(knobs, Obstacle::Kernel));
    }
    let (_, knobs) = KERNEL.iter().find(|(stem, _)| task.starts_with(stem))?;
    Some(with(knobs, Obstacle::Kernel))
}

/// A thread of lower priority that the kernel did not preempt, or whose code had interrupts
/// disabled.
pub(super) fn that_disabled(
    task: &str,
    work: Option<&str>,
    is_preemption: bool,
    surroundings: Surroundings,
) -> Remedy {
    use FindingId as F;
    // A load of ours stands for programs that run there, and is not to be moved away.
    let is_load = surroundings.is_own && task.starts_with("load-");
    if surroundings.is_own && !is_load {
        return with(&[], Obstacle::Tool);
    }
    let mut remedy = of_kernel(task, work).unwrap_or_else(|| {
        let away: &[F] = if is_load {
            &[]
        } else {
            &[F::UserThreads, F::IsolatedCpus]
        };
        with(away, Obstacle::Kernel)
    });
    if !surroundings.is_real_time {
        if is_preemption {
            remedy.knobs.push(F::PreemptMode);
        }
        remedy.knobs.push(F::RtKernel);
    }
    remedy
}

/// A thread of higher or equal priority.
pub(super) fn above(task: &str, policy: &str) -> Remedy {
    use FindingId as F;
    if matches!(
        policy,
        "SCHED_OTHER" | "SCHED_BATCH" | "SCHED_IDLE" | "SCHED_EXT"
    ) {
        return beside(task);
    }
    of_kernel(task, None).unwrap_or_else(|| with(&[F::CompetingPriorities], Obstacle::Program))
}

/// An ordinary thread beside an ordinary probe.
pub(super) fn beside(task: &str) -> Remedy {
    of_kernel(task, None).unwrap_or_else(|| with(&ALONE, Obstacle::Program))
}
