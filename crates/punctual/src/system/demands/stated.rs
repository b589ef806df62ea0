//! What nobody asked for, but a reader must know.

use punctual_stats::format::duration;

use super::{Asked, ProbeFound};
use crate::system::cpus;
use punctual_record::run::{Demand, Standing};
use punctual_record::system::SystemState;

/// Clock sources that a program reads without entering the kernel.
const FAST_CLOCKS: &[&str] = &[
    "tsc",
    "tsc-early",
    "kvm-clock",
    "hyperv_clocksource_tsc_page",
    "arch_sys_counter",
    "riscv_clocksource",
    "timebase",
    "tod",
];

/// Everything that is stated, in order of weight.
#[must_use]
pub fn stated(asked: &Asked, threads: &[ProbeFound], system: &SystemState) -> Vec<Demand> {
    let probed: Vec<usize> = threads.iter().map(|thread| thread.cpu).collect();
    [
        virtual_machine(system),
        container(system),
        preemption(system),
        clock_source(system),
        tasks_above(asked, system),
        siblings(system, &probed),
        governor(system, &probed),
        idle_states(asked, system),
        timer_slack(threads),
        time_limit(asked, system),
        group_limits(system),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What is to be known of the machine whatever runs on it.
#[must_use]
pub fn stated_of_machine(system: &SystemState) -> Vec<Demand> {
    let of_it = [virtual_machine, container, preemption, clock_source];
    of_it.into_iter().filter_map(|of| of(system)).collect()
}

fn state(name: &str, found: String, mend: Option<String>) -> Demand {
    Demand {
        name: name.to_owned(),
        asked: "not requested".to_owned(),
        found,
        standing: Standing::Stated,
        mend,
    }
}

/// Real-time throttling: stated where it is armed, not in force where it is known
/// to have cut a probe; nothing where it is off.
#[must_use]
pub fn rt_throttling(system: &SystemState, throttled: bool) -> Option<Demand> {
    let scheduler = &system.scheduler;
    let (runtime, period) = (scheduler.rt_runtime_us?, scheduler.rt_period_us?);
    if (runtime < 0 || runtime >= period) && !throttled {
        return None;
    }
    let mend = "`sudo sysctl kernel.sched_rt_runtime_us=-1` (a real-time thread that never sleeps \
                then keeps its CPU for good)";
    // Below 0 there is no limit.
    let runtime = u64::try_from(runtime).unwrap_or(period.unsigned_abs());
    let found = format!(
        "real-time threads may run {} of each {}",
        duration(runtime.saturating_mul(1000)),
        duration(period.unsigned_abs().saturating_mul(1000))
    );
    Some(if throttled {
        Demand {
            name: "rt-throttling".to_owned(),
            asked: "a probe that is never throttled".to_owned(),
            found: format!("{found}, and a probe was cut short"),
            standing: Standing::NotInForce,
            mend: Some(mend.to_owned()),
        }
    } else {
        state("rt-throttling", found, Some(mend.to_owned()))
    })
}

fn virtual_machine(system: &SystemState) -> Option<Demand> {
    let machine = &system.virtualisation;
    let stolen = machine.stolen_share.filter(|share| *share > 0.0);
    let name = match (&machine.hypervisor, stolen) {
        (Some(name), _) => format!("a virtual machine on {name}"),
        (None, Some(_)) => "a virtual machine".to_owned(),
        (None, None) => return None,
    };
    let found = match (machine.stolen_share, machine.stolen_ns) {
        (Some(share), Some(ns)) if ns > 0 => format!(
            "{name}; its host took {:.2} % of the probed CPUs' time",
            share * 100.0
        ),
        (_, Some(_)) => format!("{name}; its host says that it took no time"),
        _ => name,
    };
    let mend = "measure on the machine itself, or give each virtual CPU a physical one of its own";
    Some(state("virtual-machine", found, Some(mend.to_owned())))
}

fn container(system: &SystemState) -> Option<Demand> {
    let kind = system.virtualisation.container.as_ref()?;
    Some(state("container", format!("inside of {kind}"), None))
}

fn preemption(system: &SystemState) -> Option<Demand> {
    let model = system.kernel.preemption.as_str();
    if matches!(model, "rt" | "") {
        return None;
    }
    let mend = "boot a kernel with PREEMPT_RT (on Debian: `sudo apt install linux-image-rt-$(dpkg \
                --print-architecture)`)";
    Some(state(
        "preemption",
        format!("the kernel's preemption model is {model}, not PREEMPT_RT"),
        Some(mend.to_owned()),
    ))
}

fn clock_source(system: &SystemState) -> Option<Demand> {
    let clock = &system.clock;
    let source = clock.source.as_str();
    if source.is_empty() || FAST_CLOCKS.contains(&source) {
        return None;
    }
    let better = clock
        .available
        .iter()
        .find(|name| FAST_CLOCKS.contains(&name.as_str()));
    let mend = better.map(|name| {
        format!(
            "`echo {name} | sudo tee \
             /sys/devices/system/clocksource/clocksource0/current_clocksource`, if the kernel did \
             not turn away from it for cause (see `sudo dmesg | grep clocksource`)"
        )
    });
    Some(state(
        "clock-source",
        format!("{source}: reading the clock enters the kernel or a device"),
        mend,
    ))
}

fn tasks_above(asked: &Asked, system: &SystemState) -> Option<Demand> {
    let scheduler = &system.scheduler;
    if scheduler.above_count == 0 {
        return None;
    }
    // The stop-class threads are on every machine and run for moments.
    let listed: Vec<String> = scheduler
        .above
        .iter()
        .filter(|task| !(task.kernel && task.name.starts_with("migration/")))
        .take(5)
        .map(|task| {
            let rank = if task.policy == "deadline" {
                task.policy.clone()
            } else {
                format!("{} {}", task.policy, task.priority)
            };
            format!("{} ({rank}) on CPU {}", task.name, cpus::format(&task.cpus))
        })
        .collect();
    if listed.is_empty() {
        return None;
    }
    let others = scheduler
        .above_count
        .saturating_sub(scheduler.above_kernel_count);
    Some(state(
        "tasks-above",
        format!(
            "{others} tasks of other programs and {} of the kernel may go before a probe or keep \
             it waiting: {}",
            scheduler.above_kernel_count,
            listed.join(", ")
        ),
        (asked.priority > 0 && asked.priority < 98 && asked.policy.is_real_time())
            .then(|| "ask for a higher priority with -p, or lower theirs with `chrt`".to_owned()),
    ))
}

fn siblings(system: &SystemState, probed: &[usize]) -> Option<Demand> {
    let mut with = Vec::new();
    let mut others = Vec::new();
    for siblings in &system.processor.siblings {
        if probed.contains(&siblings.cpu) && !siblings.others.is_empty() {
            with.push(siblings.cpu);
            others.extend_from_slice(&siblings.others);
        }
    }
    if with.is_empty() {
        return None;
    }
    Some(state(
        "smt-siblings",
        format!(
            "CPU {} share their cores with {}",
            cpus::format(&with),
            cpus::format(&others)
        ),
        Some("`echo off | sudo tee /sys/devices/system/cpu/smt/control`".to_owned()),
    ))
}

fn governor(system: &SystemState, probed: &[usize]) -> Option<Demand> {
    let slow: Vec<String> = system
        .power
        .governors
        .iter()
        .filter(|(name, cpus)| name != "performance" && cpus.iter().any(|c| probed.contains(c)))
        .map(|(name, cpus)| format!("{name} on CPU {}", cpus::format(cpus)))
        .collect();
    if slow.is_empty() {
        return None;
    }
    Some(state(
        "governor",
        format!("the frequency follows the load: {}", slow.join(", ")),
        Some(
            "`echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor`"
                .to_owned(),
        ),
    ))
}

fn idle_states(asked: &Asked, system: &SystemState) -> Option<Demand> {
    if asked.dma_latency_us.is_some() {
        return None;
    }
    let deepest = system
        .power
        .idle_states
        .iter()
        .filter(|state| !state.disabled)
        .max_by_key(|state| state.exit_latency_us)
        .filter(|state| state.exit_latency_us > 0)?;
    Some(state(
        "idle-states",
        format!(
            "idle processors may enter {}, which takes {} µs to leave as its driver says",
            deepest.name, deepest.exit_latency_us
        ),
        Some("measure without --as-deployed, which holds /dev/cpu_dma_latency".to_owned()),
    ))
}

/// Only ordinary threads have timer slack.
fn timer_slack(threads: &[ProbeFound]) -> Option<Demand> {
    let slack = threads
        .iter()
        .filter_map(|thread| thread.scheduling.as_ref().ok())
        .filter(|scheduling| !scheduling.policy.is_real_time())
        .filter_map(|scheduling| scheduling.timer_slack_ns)
        .max()
        .filter(|slack| *slack > 1)?;
    Some(state(
        "timer-slack",
        format!("the kernel may delay each wake-up of an ordinary thread by {slack} ns"),
        None,
    ))
}

/// RLIMIT_RTTIME kills a real-time thread that runs on without sleeping.
fn time_limit(asked: &Asked, system: &SystemState) -> Option<Demand> {
    let limit = system.limits.rttime_us?;
    asked.policy.is_real_time().then(|| {
        state(
            "rt-time-limit",
            format!("a real-time thread that runs {limit} µs without sleeping is killed"),
            Some("`ulimit -R unlimited` in the shell that starts the run".to_owned()),
        )
    })
}

fn group_limits(system: &SystemState) -> Option<Demand> {
    let bounding: Vec<&str> = system
        .limits
        .cgroup_limits
        .iter()
        .filter(|limit| !limit.contains("/cpuset."))
        .map(String::as_str)
        .take(4)
        .collect();
    if bounding.is_empty() {
        return None;
    }
    Some(state(
        "cgroup-limits",
        format!("the load is bounded by {}", bounding.join(", ")),
        None,
    ))
}
