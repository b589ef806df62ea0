//! Conditions in words: what was requested, what was found.

use punctual_stats::format::duration;

use punctual_record::Hypervisor;
use punctual_record::condition::{
    Astray, Competitor, Condition, Demand, FoundScheduling, IdleBoundError, Scheduling, Standing,
    Target,
};
use punctual_record::cpus::cpu_list;

use crate::words;

/// Threads that are named one by one.
const NAMED: usize = 8;

/// What was requested.
#[must_use]
pub fn requested(demand: &Demand) -> String {
    match &demand.condition {
        Condition::Priority { requested, .. } => scheduling(requested),
        Condition::Affinity { requested, .. } => {
            format!("one thread each on CPU {}", cpu_list(requested))
        }
        Condition::LockedMemory { .. } => "all memory locked".to_owned(),
        Condition::PeerPriority { requested, .. } => match requested {
            Some(it) => format!("{} on the responder", scheduling(it)),
            None => "a real-time priority on the responder".to_owned(),
        },
        Condition::PeerMemory { .. } => "all memory of the responder locked".to_owned(),
        Condition::LaunchTimes {
            interface,
            discipline,
            ..
        } => format!(
            "{} on {} sends at launch times",
            words::clean(discipline),
            words::clean(interface)
        ),
        Condition::Timers { .. } => "high-resolution timers".to_owned(),
        Condition::CpuDmaLatency { requested_us, .. } => format!("held at {requested_us} µs"),
        Condition::Watched { target, every, .. } => watched(target, *every),
        Condition::VirtualTime { .. } => "one processor, in virtual time".to_owned(),
        Condition::Conditions { .. } => "unknown".to_owned(),
        Condition::RtThrottling { .. } if demand.standing == Standing::NotInForce => {
            "a probe that is never throttled".to_owned()
        }
        _ => "not requested".to_owned(),
    }
}

/// What was found.
#[must_use]
pub fn found(demand: &Demand) -> String {
    let in_force = demand.standing == Standing::InForce;
    match &demand.condition {
        Condition::Priority { found, refused, .. } => {
            with_refusal(on_cpus(found), *refused, in_force)
        }
        Condition::Affinity {
            requested,
            astray,
            refused,
        } => with_refusal(pinned(requested, astray, in_force), *refused, in_force),
        Condition::LockedMemory {
            resident_bytes,
            loose_bytes,
            refused,
            limit_bytes,
            ..
        } => {
            let words = locked(*resident_bytes, *loose_bytes);
            match (refused, limit_bytes) {
                // ENOMEM and EPERM speak of the limit then.
                (Some(_), Some(limit)) if !in_force => {
                    format!("{words} (this user may lock {})", bytes(*limit))
                }
                _ => with_refusal(words, *refused, in_force),
            }
        }
        Condition::PeerPriority { found, refused, .. } => {
            let found = found
                .as_ref()
                .map_or("not read back".to_owned(), scheduling);
            with_refusal(found, *refused, in_force)
        }
        Condition::PeerMemory { refused } => {
            let found = if in_force { "all of it" } else { "not locked" };
            with_refusal(found.to_owned(), *refused, in_force)
        }
        Condition::LaunchTimes {
            by_card,
            early,
            earliest_ns,
            ..
        } => match early {
            None if !by_card => "not seen: the driver makes no time stamps".to_owned(),
            Some(0) => "no message left before".to_owned(),
            Some(count) => format!(
                "{} left before, by up to {}",
                words::plural(*count, "message", "messages"),
                duration(*earliest_ns)
            ),
            None => "held by the card: not seen here".to_owned(),
        },
        Condition::Timers { resolution_ns: 0 } => {
            "resolution of CLOCK_MONOTONIC not read".to_owned()
        }
        Condition::Timers { resolution_ns } => {
            format!("resolution of CLOCK_MONOTONIC {resolution_ns} ns")
        }
        Condition::CpuDmaLatency { found_us, why, .. } => match (found_us, why) {
            (_, Some(why)) => idle_bound(why),
            (Some(us), None) => format!("{us} µs"),
            (None, None) => "not read back".to_owned(),
        },
        Condition::Watched {
            target: Target::System,
            woken,
            ..
        } => format!("{woken} of them"),
        Condition::Watched { seen, woken, .. } => woken_of(*seen, *woken),
        Condition::VirtualTime { cpus } => {
            format!("{cpus} processors of an emulator, at the host's pace")
        }
        Condition::Conditions { tool } => format!("{tool} does not state what was in force"),
        other => of_machine(other, demand.standing),
    }
}

/// What fixes it.
#[must_use]
pub fn fix_of(demand: &Demand) -> Option<String> {
    demand.fix.as_ref().map(super::fix)
}

/// What nobody requested.
fn of_machine(condition: &Condition, standing: Standing) -> String {
    match condition {
        Condition::RtThrottling {
            runtime_ns,
            period_ns,
        } => {
            let bound = format!(
                "real-time threads may run {} of each {}",
                duration(*runtime_ns),
                duration(*period_ns)
            );
            match standing {
                Standing::NotInForce => format!("{bound}, and a probe was cut short"),
                _ => bound,
            }
        }
        Condition::VirtualMachine {
            hypervisor,
            stolen_ns,
            stolen_share,
        } => virtual_machine(hypervisor.as_ref(), *stolen_ns, *stolen_share),
        Condition::Container { runtime } => format!("inside {runtime}"),
        Condition::Preemption { model } => {
            format!("the kernel's preemption model is {model}, not PREEMPT_RT")
        }
        Condition::ClockSource { source } => {
            format!("{source}: reading the clock enters the kernel or a device")
        }
        Condition::TasksAbove {
            others,
            kernel,
            listed,
        } => {
            let listed: Vec<String> = listed.iter().map(competitor).collect();
            format!(
                "{others} tasks of other programs and {kernel} of the kernel may go before a \
                 probe or keep it waiting: {}",
                listed.join(", ")
            )
        }
        Condition::SmtSiblings { cpus, siblings } => format!(
            "CPU {} share their cores with {}",
            cpu_list(cpus),
            cpu_list(siblings)
        ),
        Condition::Governor { scaled } => {
            let scaled: Vec<String> = scaled
                .iter()
                .map(|it| format!("{} on CPU {}", it.governor, cpu_list(&it.cpus)))
                .collect();
            format!("the frequency follows the load: {}", scaled.join(", "))
        }
        Condition::IdleStates {
            state,
            exit_latency_us,
        } => format!(
            "idle processors may enter {state}, which takes {exit_latency_us} µs to leave as its \
             driver says"
        ),
        Condition::TimerSlack { slack_ns } => {
            format!("the kernel may delay each wake-up of an ordinary thread by {slack_ns} ns")
        }
        Condition::RtTimeLimit { limit_us } => {
            format!("a real-time thread that runs {limit_us} µs without sleeping is killed")
        }
        Condition::CgroupLimits { limits } => {
            format!("the load is bounded by {}", limits.join(", "))
        }
        // Requested: `found` has the words.
        Condition::Priority { .. }
        | Condition::Affinity { .. }
        | Condition::LockedMemory { .. }
        | Condition::PeerPriority { .. }
        | Condition::PeerMemory { .. }
        | Condition::LaunchTimes { .. }
        | Condition::Timers { .. }
        | Condition::CpuDmaLatency { .. }
        | Condition::Watched { .. }
        | Condition::VirtualTime { .. }
        | Condition::Conditions { .. } => String::new(),
    }
}

/// `fifo 80`, or `other` where there is no priority.
#[must_use]
pub fn scheduling(scheduling: &Scheduling) -> String {
    match scheduling {
        Scheduling::Fifo { priority } => format!("fifo {priority}"),
        Scheduling::Rr { priority } => format!("rr {priority}"),
        Scheduling::Other => "other".to_owned(),
        Scheduling::Batch => "batch".to_owned(),
        Scheduling::Idle => "idle".to_owned(),
        Scheduling::Deadline => "deadline".to_owned(),
        Scheduling::Ext => "ext".to_owned(),
        Scheduling::Unknown { number } => format!("policy {number}"),
    }
}

/// `fifo 80 on CPU 0-2; other on CPU 3`.
fn on_cpus(found: &[FoundScheduling]) -> String {
    if found.is_empty() {
        return "no probe thread".to_owned();
    }
    let mut groups: Vec<String> = found
        .iter()
        .map(|group| {
            let what = match (&group.scheduling, &group.error) {
                (Some(found), _) => scheduling(found),
                (None, Some(error)) => error.clone(),
                (None, None) => "not read back".to_owned(),
            };
            format!("{what} on CPU {}", cpu_list(&group.cpus))
        })
        .collect();
    groups.sort_unstable();
    groups.join("; ")
}

fn pinned(requested: &[usize], astray: &[Astray], in_force: bool) -> String {
    if in_force {
        return format!("one thread each, pinned to CPU {}", cpu_list(requested));
    }
    if requested.is_empty() {
        return "no probe thread".to_owned();
    }
    // A record from elsewhere may say that it is not in force, and name no thread.
    if astray.is_empty() {
        return "not read back".to_owned();
    }
    let each = astray.iter().take(NAMED).map(|thread| {
        let cpu = thread.cpu;
        match (&thread.allowed, &thread.error) {
            (Some(allowed), _) => {
                format!("the thread for CPU {cpu} may run on {}", cpu_list(allowed))
            }
            (None, error) => {
                let why = error.as_deref().unwrap_or("not read back");
                format!("the thread for CPU {cpu}: {why}")
            }
        }
    });
    each.collect::<Vec<_>>().join("; ")
}

fn locked(resident: Option<u64>, loose: Option<u64>) -> String {
    // The resident size: locked mappings also count address space that is merely set aside, as
    // the C library does for each thread.
    match (resident, loose) {
        (None, _) => "not read back".to_owned(),
        (Some(resident), Some(loose @ 1..)) => {
            let (loose, resident) = (bytes(loose), bytes(resident));
            format!("{loose} of {resident} resident not locked")
        }
        (Some(resident), _) => format!("all of {} resident", bytes(resident)),
    }
}

fn idle_bound(why: &IdleBoundError) -> String {
    const DEVICE: &str = "/dev/cpu_dma_latency";
    match why {
        IdleBoundError::Absent => format!("there is no {DEVICE}"),
        IdleBoundError::Forbidden => format!("{DEVICE} may not be opened by this user"),
        IdleBoundError::Failed { text } => format!("{DEVICE}: {text}"),
    }
}

fn virtual_machine(hypervisor: Option<&Hypervisor>, ns: Option<u64>, share: Option<f64>) -> String {
    let name = match hypervisor {
        Some(it) => format!("a virtual machine on {}", super::named::hypervisor(it)),
        None => "a virtual machine".to_owned(),
    };
    match (share, ns) {
        (Some(share), Some(1..)) => format!(
            "{name}; its host took {:.2} % of the probed CPUs' time",
            share * 100.0
        ),
        (_, Some(_)) => format!("{name}; its host says that it took no time"),
        _ => name,
    }
}

fn competitor(task: &Competitor) -> String {
    let rank = match task.policy.as_str() {
        "deadline" => task.policy.clone(),
        policy => format!("{policy} {}", task.priority),
    };
    format!("{} ({rank}) on CPU {}", task.name, cpu_list(&task.cpus))
}

fn watched(target: &Target, every: bool) -> String {
    let which = if every {
        "threads"
    } else {
        "real-time threads"
    };
    match target {
        Target::Program {
            program,
            pid,
            children,
        } => {
            let children = if *children { " and its children" } else { "" };
            format!("wake-ups of the {which} of {program} ({pid}){children}")
        }
        Target::Named { program } => {
            format!("wake-ups of the {which} of the programs named {program}")
        }
        Target::Group { directory } => {
            format!("wake-ups of the {which} in the control group {directory}")
        }
        Target::System => "wake-ups of every real-time thread".to_owned(),
    }
}

fn woken_of(seen: u64, woken: u64) -> String {
    match (seen, woken) {
        (0, _) => "no such thread ran".to_owned(),
        (seen, 0) => format!("{seen} such threads ran, and none of them was woken"),
        (_, 1) => "1 thread was woken".to_owned(),
        (_, woken) => format!("{woken} threads were woken"),
    }
}

fn with_refusal(found: String, refused: Option<i32>, in_force: bool) -> String {
    match refused {
        Some(number) if !in_force => format!("{found} (refused: {})", system_error(number)),
        _ => found,
    }
}

/// The operating system's text for an error number, without the number.
fn system_error(number: i32) -> String {
    let text = std::io::Error::from_raw_os_error(number).to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_lowercase(),
        None => text,
    }
}

/// Bytes in the unit that fits.
fn bytes(count: u64) -> String {
    const KI: u64 = 1024;
    if count >= 10 * KI * KI {
        format!("{} MiB", count / KI / KI)
    } else {
        format!("{} KiB", count / KI)
    }
}
