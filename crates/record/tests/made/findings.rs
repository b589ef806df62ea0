//! Findings and changed settings of every kind in the record of a run.
#![allow(dead_code, reason = "each test program takes what it needs")]

use punctual_record::finding::{
    BadFinding, Countable, Counted, Elsewhere, Fault, FindingFix, FindingId, Item, ItemKind,
    Portion, ReadResult, Reading, RunFindings, Seen, Source,
};
use punctual_record::tuning::{Setting, ThreadIdentity, Tuned};

fn text(text: &str) -> String {
    text.to_owned()
}

fn reading(source: &str, result: ReadResult) -> Reading {
    Reading {
        source: source.into(),
        result,
    }
}

const COUNTED: Counted = Counted {
    times: 12,
    within_ms: 1000,
};

/// Items of every kind.
pub fn items() -> Vec<Item> {
    let mut items = vec![
        Item::Name(text("irqbalance")),
        Item::Cpu(3),
        Item::NumaNode(text("1")),
        Item::DeviceOfNode {
            device: text("eth0"),
            node: text("0"),
        },
        Item::ThreadOn {
            thread: text("rcuop/1"),
            cpus: text("0-1"),
        },
        Item::ThreadAt {
            thread: text("napi/eth0-5"),
            policy: text("other"),
            priority: 0,
        },
        Item::Interrupt {
            number: 24,
            actions: vec![text("eth0"), text("ahci")],
            counted: None,
        },
        Item::Interrupt {
            number: 25,
            actions: vec![text("eth1")],
            counted: Some(COUNTED),
        },
        Item::IdleState {
            name: text("C6"),
            exit_us: 150,
        },
        Item::ClockEvent {
            number: 0,
            device: text("hpet"),
        },
        Item::Mount {
            place: text("/data"),
            filesystem: text("nfs4"),
        },
        Item::Misspelt {
            parameter: text("isolcpu=1"),
            known: text("isolcpus"),
        },
        Item::AuditRules { calls: 1 },
        Item::AuditRules { calls: 2 },
        Item::NotInKernel {
            parameter: text("nohz_full=1"),
        },
        Item::Repeated {
            parameter: text("isolcpus"),
        },
        Item::SharesCpus {
            parameter: text("irqaffinity"),
            other: text("isolcpus"),
        },
        Item::LinuxFrom(text("5.10")),
        Item::Cobalt(text("3.2.4")),
        Item::Threads(vec![text("ksoftirqd/N"), text("rcuc/N")]),
        Item::Governor(text("schedutil")),
    ];
    items.extend(ItemKind::ALL.map(Item::Kind));
    items
}

/// Places of every kind.
pub fn sources() -> Vec<Source> {
    vec![
        Source::Programs {},
        Source::Threads(vec![text("irq/N-*")]),
        Source::Tried(text("mlock")),
        Source::Place(text("/sys/a/b")),
    ]
}

/// What is seen there, of every kind.
pub fn seen() -> Vec<Seen> {
    let cpus = || vec![1, 2];
    let mut seen = vec![
        Seen::Nothing,
        Seen::NoneOf(vec![text("stalld")]),
        Seen::NoneOf(vec![text("cron"), text("crond")]),
        Seen::Present,
        Seen::Readable,
        Seen::InUse,
        Seen::Count(7),
        Seen::Part {
            count: 1,
            all: 9,
            of: None,
        },
        Seen::OfCpus(cpus()),
        Seen::ThreadsFrom {
            count: 2,
            priority: 80,
        },
        Seen::Parameters {
            count: 12,
            faulty: 1,
        },
        Seen::NotSet(text("RT_GROUP_SCHED")),
        Seen::Counted(COUNTED),
        Seen::NotCounted,
        Seen::NoRegisters,
        Seen::NoCpuController,
        Seen::Works,
        Seen::Failed,
        Seen::Granted,
        Seen::NotClaimed,
    ];
    for either in [false, true] {
        seen.push(Seen::OnCpus {
            count: 3,
            programs: either,
            cpus: cpus(),
        });
        seen.push(Seen::Flag {
            name: text("hypervisor"),
            set: either,
        });
    }
    seen.extend(Countable::ALL.map(|of| Seen::CountOf { count: 3, of }));
    seen.extend(Portion::ALL.map(|of| Seen::Part {
        count: 3,
        all: 4,
        of: Some(of),
    }));
    seen.extend(Elsewhere::ALL.map(|of| Seen::NoneOnCpus {
        count: 24,
        of,
        cpus: cpus(),
    }));
    seen
}

/// A reading of each of [`seen`], at each of [`sources`] in turn.
pub fn readings() -> Vec<Reading> {
    let places = sources().into_iter().cycle();
    let reading = |(source, seen)| Reading {
        source,
        result: ReadResult::Seen(seen),
    };
    places.zip(seen()).map(reading).collect()
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
                Fault::Missing(vec!["PREEMPT_RT".into()]),
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
                Fault::Present(vec![Item::ThreadOn {
                    thread: text("rcuop/1"),
                    cpus: text("0-1"),
                }]),
                ReadResult::Seen(Seen::OnCpus {
                    count: 1,
                    programs: false,
                    cpus: vec![1],
                }),
                vec![FindingFix::Affinity {
                    thread: text("rcuop/1"),
                    tid: 17,
                    cpus: vec![0],
                }],
            ),
            bad(
                FindingId::ThreadedNapi,
                Fault::Present(vec![Item::ThreadAt {
                    thread: text("napi/eth0-5"),
                    policy: text("other"),
                    priority: 0,
                }]),
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

/// The same, and items and readings of every kind.
pub fn findings_of_every_kind() -> RunFindings {
    let mut all = findings();
    for (id, fault, readings) in [
        (FindingId::FrequencyRange, Fault::Unequal, readings()),
        (FindingId::IrqAffinity, Fault::Present(items()), vec![]),
    ] {
        all.bad.push(BadFinding {
            id,
            fault,
            readings,
            fixes: vec![],
        });
    }
    all
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
