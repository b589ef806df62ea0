//! Conditions, events, fixes, ends and faults of every kind. The test of the schema
//! (`records_hold_what_the_schema_names`) fails where a kind is missing here.
#![allow(dead_code, reason = "each test program takes what it needs")]

use punctual_record::condition::{
    Astray, Competitor, FoundScheduling, Governed, IdleBoundError, Target,
};
use punctual_record::conditions::{Aspect, Difference, MarkLimit, Value};
use punctual_record::*;
use punctual_stats::requirement::Requirement;

mod happenings;

pub use happenings::events;
#[allow(unused_imports, reason = "each test program takes what it needs")]
pub use happenings::unavailable;

/// A hypervisor of which a little is known.
pub fn unknown_hypervisor() -> Hypervisor {
    Hypervisor::Unknown {
        signature: Some(text("ABCABCABC")),
        firmware: Some(text("Bochs")),
    }
}

fn text(text: &str) -> String {
    text.to_owned()
}

/// Scheduling of every policy.
pub fn schedulings() -> Vec<Scheduling> {
    vec![
        Scheduling::Fifo { priority: 80 },
        Scheduling::Rr { priority: 7 },
        Scheduling::Other,
        Scheduling::Batch,
        Scheduling::Idle,
        Scheduling::Deadline,
        Scheduling::Ext,
        Scheduling::Unknown { number: 9 },
    ]
}

/// Conditions of every kind, with each of their parts present and absent.
pub fn conditions() -> Vec<Condition> {
    let found = |scheduling, error: Option<&str>| FoundScheduling {
        cpus: vec![0, 1, 3],
        scheduling,
        error: error.map(text),
    };
    let priority = |found, refused| Condition::Priority {
        requested: Scheduling::Fifo { priority: 80 },
        found,
        refused,
    };
    let affinity = |requested, astray, refused| Condition::Affinity {
        requested,
        astray,
        refused,
    };
    let astray = |allowed, error: Option<&str>| Astray {
        cpu: 1,
        allowed,
        error: error.map(text),
    };
    let locked = |resident, loose, refused, limit_bytes| Condition::LockedMemory {
        resident_bytes: resident,
        locked_bytes: resident,
        loose_bytes: loose,
        refused,
        limit_bytes,
    };
    let idle = |found_us, why| Condition::CpuDmaLatency {
        requested_us: 0,
        found_us,
        why,
    };
    let machine =
        |hypervisor: Option<Hypervisor>, stolen_ns, stolen_share| Condition::VirtualMachine {
            hypervisor,
            stolen_ns,
            stolen_share,
        };
    let watched = |target, seen, woken| Condition::Watched {
        target,
        every: seen == 0,
        seen,
        woken,
    };
    let program = |children| Target::Program {
        program: text("controller"),
        pid: 4711,
        children,
    };
    let competitor = |policy: &str| Competitor {
        name: text("irq/36-eth0"),
        policy: text(policy),
        priority: 50,
        cpus: vec![0],
    };
    let mut all: Vec<Condition> = schedulings()
        .into_iter()
        .map(|scheduling| priority(vec![found(Some(scheduling), None)], None))
        .collect();
    all.extend([
        priority(vec![], Some(1)),
        priority(vec![found(None, Some("EPERM")), found(None, None)], Some(1)),
        affinity(vec![0, 1], vec![], None),
        affinity(vec![], vec![], Some(22)),
        affinity(
            vec![0, 1],
            vec![
                astray(Some(vec![0, 1]), None),
                astray(None, Some("EPERM")),
                astray(None, None),
            ],
            Some(22),
        ),
        locked(None, None, Some(12), None),
        locked(Some(9 << 20), Some(4096), Some(12), Some(65_536)),
        locked(Some(90 << 20), Some(0), None, None),
        Condition::PeerPriority {
            requested: None,
            found: None,
            refused: None,
        },
        Condition::PeerPriority {
            requested: Some(Scheduling::Fifo { priority: 80 }),
            found: Some(Scheduling::Other),
            refused: Some(1),
        },
        Condition::PeerMemory { refused: Some(12) },
        Condition::PeerMemory { refused: None },
        launches(false, Some(0), 0),
        launches(false, Some(3), 180_000),
        launches(false, None, 0),
        launches(true, None, 0),
        Condition::Timers { resolution_ns: 0 },
        Condition::Timers {
            resolution_ns: 4_000_000,
        },
        idle(Some(0), None),
        idle(None, None),
        idle(None, Some(IdleBoundError::Absent)),
        idle(None, Some(IdleBoundError::Forbidden)),
        idle(None, Some(IdleBoundError::Failed { text: text("EIO") })),
        Condition::RtThrottling {
            runtime_ns: 950_000_000,
            period_ns: 1_000_000_000,
        },
        machine(None, None, None),
        machine(Some("kvm".into()), Some(0), Some(0.0)),
        machine(Some("kvm".into()), Some(5_000_000), Some(0.01)),
        machine(Some(unknown_hypervisor()), None, None),
        Condition::Container {
            runtime: text("podman"),
        },
        Condition::Preemption {
            model: text("voluntary"),
        },
        Condition::ClockSource {
            source: text("hpet"),
        },
        Condition::TasksAbove {
            others: 1,
            kernel: 2,
            listed: vec![competitor("fifo"), competitor("deadline")],
        },
        Condition::SmtSiblings {
            cpus: vec![0],
            siblings: vec![2],
        },
        Condition::Governor {
            scaled: vec![Governed {
                governor: text("powersave"),
                cpus: vec![0, 1],
            }],
        },
        Condition::IdleStates {
            state: text("C6"),
            exit_latency_us: 133,
        },
        Condition::TimerSlack { slack_ns: 50_000 },
        Condition::RtTimeLimit { limit_us: 200_000 },
        Condition::CgroupLimits {
            limits: vec![text("cpu.max = 50000 100000")],
        },
        watched(program(true), 0, 0),
        watched(program(false), 3, 0),
        watched(
            Target::Named {
                program: text("controller"),
            },
            3,
            1,
        ),
        watched(
            Target::Group {
                directory: text("/sys/fs/cgroup/rt"),
            },
            3,
            2,
        ),
        watched(Target::System, 0, 7),
        Condition::VirtualTime { cpus: 2 },
        Condition::Conditions {
            tool: text("cyclictest"),
        },
    ]);
    all
}

/// Fixes of every kind.
pub fn fixes() -> Vec<Fix> {
    let rights = |device| Fix::Rights {
        program: text("/usr/bin/punctual"),
        capabilities: vec![text("cap_sys_nice"), text("cap_ipc_lock")],
        device,
    };
    let container = |runtime: Option<&str>, user_namespace| Fix::ContainerRights {
        runtime: runtime.map(text),
        user_namespace,
        device: true,
    };
    let bound = |contained, runtime: Option<&str>| Fix::IdleBound {
        contained,
        runtime: runtime.map(text),
    };
    vec![
        rights(true),
        rights(false),
        container(None, false),
        container(None, true),
        container(Some("kubernetes"), false),
        container(Some("systemd-nspawn"), false),
        Fix::PriorityInRange { priority: 100 },
        Fix::ContainerRuntime,
        Fix::GroupRuntime {
            runtime_us: 950_000,
            file: text("/sys/fs/cgroup/cpu/a/cpu.rt_runtime_us"),
            root: text("/sys/fs/cgroup/cpu"),
        },
        Fix::MachineRuntime,
        Fix::RootGroup,
        Fix::SecurityPolicy,
        Fix::CpuOnline {
            cpu: 3,
            online: vec![0, 1],
        },
        Fix::CpuAllowed {
            cpu: 3,
            allowed: vec![0, 1],
        },
        Fix::AffinityLeftAlone,
        Fix::Memory,
        Fix::BootWithout {
            word: text("nohpet"),
        },
        Fix::HighResolutionTimers,
        bound(false, None),
        bound(true, None),
        bound(true, Some("systemd-nspawn")),
        Fix::NoThrottling,
        Fix::OwnMachine,
        Fix::PreemptRt,
        Fix::ClockSource {
            source: text("tsc"),
        },
        Fix::HigherPriority,
        Fix::NoSmt,
        Fix::PerformanceGovernor,
        Fix::HoldIdleStates,
        Fix::NoTimeLimit,
        Fix::WatchChildren,
        Fix::WatchOrdinary,
        Fix::WatchLonger,
        Fix::OneCpu,
        Fix::PeerRights,
        Fix::PeerPolicy,
        Fix::DriverStamps {
            interface: "eth0".to_owned(),
        },
        Fix::LaunchDiscipline {
            interface: "eth0".to_owned(),
        },
    ]
}

/// Each condition however it stands, and each fix with one of them.
pub fn demands() -> Vec<Demand> {
    let standings = [Standing::InForce, Standing::Stated, Standing::NotInForce];
    let demand = |condition, standing, fix| Demand {
        condition,
        standing,
        fix,
    };
    let conditions = conditions()
        .into_iter()
        .flat_map(|condition| standings.map(|standing| demand(condition.clone(), standing, None)));
    let fixes = fixes().into_iter().map(|fix| {
        let condition = Condition::Timers { resolution_ns: 0 };
        demand(condition, Standing::NotInForce, Some(fix))
    });
    conditions.chain(fixes).collect()
}

/// Ends of every kind.
pub fn endings() -> Vec<Ending> {
    vec![
        Ending::Interrupt,
        Ending::Terminate,
        Ending::HangUp,
        Ending::TimeLimit,
        Ending::BreakValue,
        Ending::ProcessStopped,
        Ending::UnfinishedRuns {
            unfinished: 1,
            runs: 2,
        },
        Ending::ExitStatus { status: 3 },
    ]
}

/// Failures of a load of every kind.
pub fn load_failures() -> Vec<LoadFailure> {
    vec![
        LoadFailure::Error {
            error: text("fork: EAGAIN"),
        },
        LoadFailure::SupervisorGone,
        LoadFailure::SupervisorKilled,
        LoadFailure::NotStarted,
        LoadFailure::EndedEarly {
            after_ns: 1_500_000_000,
        },
        LoadFailure::NoWork {
            ran_ns: 1_500_000_000,
        },
        LoadFailure::SlowToStop {
            waited_ns: 5_000_000_000,
        },
        LoadFailure::NotKilled {
            waited_ns: 5_000_000_000,
        },
    ]
}

/// Faults of a probe thread of every kind.
pub fn thread_faults() -> Vec<ThreadFault> {
    vec![
        ThreadFault::WaitFailed {
            error: text("EINVAL"),
        },
        ThreadFault::StillWaiting,
    ]
}

/// What could not be saved, for every reason.
pub fn unsaved() -> Vec<Unsaved> {
    let missing = |error: Option<&str>| {
        UnsavedReason::Samples(MissingSamples {
            written: 5,
            measured: 7,
            error: error.map(text),
        })
    };
    let file = UnsavedPart::File {
        name: text("report.html"),
    };
    let entry = |why| Unsaved {
        directory: text("run"),
        parts: vec![file.clone(), UnsavedPart::Explanation],
        why,
    };
    [
        UnsavedReason::Error {
            error: text("No space left on device"),
        },
        UnsavedReason::DirectoryRemoved,
        UnsavedReason::NoSpace,
        missing(None),
        missing(Some("EIO")),
    ]
    .map(entry)
    .into()
}

/// What could not be read of a machine, for every reason.
pub fn unread() -> Vec<Unread> {
    let stated = |kernel| UnreadReason::NotStated {
        tool: text("rt-tests"),
        kernel,
    };
    [
        UnreadReason::Error {
            error: text("permission denied"),
        },
        UnreadReason::NotRegular,
        UnreadReason::NotUnderstood { text: text("3-1") },
        UnreadReason::TooManyTasks { limit: 4096 },
        UnreadReason::NoPreemptionModel,
        UnreadReason::NoPreemptionSource,
        stated(true),
        stated(false),
    ]
    .map(|why| Unread {
        what: text("/proc/stat"),
        why,
    })
    .into()
}

/// A difference in every condition, with a value of every kind.
pub fn differences() -> Vec<Difference> {
    let gaps = |method, with_kernel| Value::Gaps {
        method,
        above_ns: 1_000,
        runtime_ns: 900_000_000,
        period_ns: 1_000_000_000,
        with_kernel,
    };
    let requirements = |wake_ups, marks| Value::Requirements { wake_ups, marks };
    let values = [
        Value::Absent,
        Value::Text { text: text("kvm") },
        Value::Watch { of: None },
        Value::Watch {
            of: Some(text("controller")),
        },
        Value::Hypervisor {
            hypervisor: unknown_hypervisor(),
        },
        Value::Number { number: 80 },
        Value::Time { ns: 1_000 },
        Value::Switch { on: true },
        Value::Switch { on: false },
        Value::Cpus {
            cpus: vec![0, 1, 3],
        },
        Value::Names {
            names: vec![text("powersave"), text("performance")],
        },
        Value::Interval {
            nominal_ns: 1_000_000,
            primes: true,
        },
        Value::Interval {
            nominal_ns: 1_000_000,
            primes: false,
        },
        requirements(vec![], vec![]),
        requirements(
            vec![Requirement::Max { limit_ns: 1_000 }],
            vec![MarkLimit {
                name: text("step()"),
                limit_ns: 500_000,
            }],
        ),
        Value::Deployment { as_deployed: true },
        Value::Deployment { as_deployed: false },
        gaps(Method::Polling, false),
        gaps(Method::Hwlat, true),
    ];
    let aspects = Aspect::ALL.into_iter().enumerate();
    aspects
        .map(|(at, aspect)| Difference {
            aspect,
            role: aspect.role(),
            first: values[at % values.len()].clone(),
            second: values[(at + 1) % values.len()].clone(),
        })
        .collect()
}

fn launches(by_card: bool, early: Option<u64>, earliest_ns: u64) -> Condition {
    Condition::LaunchTimes {
        interface: "eth0".to_owned(),
        discipline: if by_card { "etf" } else { "fq" }.to_owned(),
        by_card,
        early,
        earliest_ns,
    }
}
