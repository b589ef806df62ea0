//! Findings and changed settings of every kind in the record of a run.
#![allow(dead_code, reason = "each test program takes what it needs")]

use punctual_record::finding::{
    BadFinding, Fault, FindingFix, FindingId, ReadResult, Reading, RunFindings,
};
use punctual_record::tuning::{Setting, ThreadIdentity, Tuned};

fn text(text: &str) -> String {
    text.to_owned()
}

fn reading(source: &str, result: ReadResult) -> Reading {
    Reading {
        source: text(source),
        result,
    }
}

/// Bad findings with every kind of fault, reading and fix; of each bearing at least one.
pub fn findings() -> RunFindings {
    let bad = |id, fault, result, fixes: Vec<FindingFix>| BadFinding {
        id,
        fault,
        readings: vec![reading("/sys/a/b", result)],
        fixes,
    };
    let value = |it: &str| ReadResult::Value(text(it));
    let write = |path: &str| FindingFix::Write {
        path: text(path),
        value: text("0"),
    };
    RunFindings {
        cpus: vec![1],
        priority: 80,
        unknown: 3,
        took_ns: 21_000_000,
        bad: vec![
            bad(
                FindingId::RtKernel,
                Fault::Missing(vec![text("PREEMPT_RT")]),
                ReadResult::Absent,
                vec![FindingFix::ByHand],
            ),
            bad(
                FindingId::IsolatedCpus,
                Fault::Lacks(vec![1]),
                value(""),
                vec![FindingFix::Boot {
                    parameter: text("isolcpus=managed_irq,domain,1"),
                }],
            ),
            bad(
                FindingId::DefaultIrqAffinity,
                Fault::Includes(vec![1]),
                value("3"),
                vec![write("/proc/irq/default_smp_affinity")],
            ),
            bad(
                FindingId::RcuThreads,
                Fault::Present(vec![text("rcuop/1 (0-1)")]),
                value("1 on CPUs 1"),
                vec![FindingFix::Affinity {
                    thread: text("rcuop/1"),
                    tid: 17,
                    cpus: vec![0],
                }],
            ),
            bad(
                FindingId::ThreadedNapi,
                Fault::Present(vec![text("napi/eth0-5 (OTHER 0)")]),
                value("1"),
                vec![FindingFix::Scheduling {
                    thread: text("napi/eth0-5"),
                    tid: 471,
                    policy: text("fifo"),
                    priority: 70,
                }],
            ),
            bad(
                FindingId::IdleStates,
                Fault::Above(10),
                value("POLL"),
                vec![FindingFix::HoldDmaLatency { limit_us: 0 }],
            ),
            bad(
                FindingId::ParameterNotInForce,
                Fault::Expected(vec![text("isolcpus=1")]),
                value("isolcpus=2"),
                vec![FindingFix::Unboot {
                    parameter: text("isolcpus=2"),
                }],
            ),
            bad(
                FindingId::SplitLock,
                Fault::Expected(vec![text("0")]),
                ReadResult::Error(text("permission denied")),
                vec![write("/proc/sys/kernel/split_lock_mitigate")],
            ),
            bad(
                FindingId::RtprioLimit,
                Fault::Below(80),
                value("0"),
                vec![FindingFix::ByHand],
            ),
        ],
        left_out: 2,
    }
}

/// Settings of every kind, changed for a run.
pub fn tuned() -> Vec<Tuned> {
    let thread = || ThreadIdentity {
        tid: 17,
        name: text("rcuop/1"),
        start: 42,
    };
    let tuned = |knob: FindingId, setting, before: &str, value: &str| Tuned {
        knob: knob.into(),
        setting,
        before: text(before),
        value: text(value),
    };
    let file = |path: &str| Setting::File { path: text(path) };
    vec![
        tuned(
            FindingId::VmstatInterval,
            file("/proc/sys/vm/stat_interval"),
            "1",
            "10",
        ),
        tuned(
            FindingId::IrqAffinity,
            file("/proc/irq/24/smp_affinity_list"),
            "0-1",
            "0",
        ),
        tuned(
            FindingId::IrqAffinity,
            file("/proc/irq/36/smp_affinity_list"),
            "1",
            "0",
        ),
        tuned(
            FindingId::DirtyWriteback,
            Setting::Pair {
                first: text("/proc/sys/vm/dirty_ratio"),
                second: text("/proc/sys/vm/dirty_bytes"),
            },
            "/proc/sys/vm/dirty_ratio 40",
            "/proc/sys/vm/dirty_ratio 20",
        ),
        tuned(
            FindingId::SoftirqThreads,
            Setting::Scheduling { thread: thread() },
            "0 0 0",
            "1 2 0",
        ),
        tuned(
            FindingId::RcuThreads,
            Setting::Affinity { thread: thread() },
            "0-1",
            "0",
        ),
    ]
}
