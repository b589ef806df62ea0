//! What was not requested, but a reader must know.

use super::{ProbeFound, Requested};
use punctual_record::condition::{Competitor, Governed};
use punctual_record::system::SystemState;
use punctual_record::{Condition, Demand, Fix};

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
pub fn stated(requested: &Requested, threads: &[ProbeFound], system: &SystemState) -> Vec<Demand> {
    let probed: Vec<usize> = threads.iter().map(|thread| thread.cpu).collect();
    [
        virtual_machine(system),
        container(system),
        preemption(system),
        clock_source(system),
        tasks_above(requested, system),
        siblings(system, &probed),
        governor(system, &probed),
        idle_states(requested, system),
        timer_slack(threads),
        time_limit(requested, system),
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

/// Real-time throttling: stated where it is armed, not in force where it is known
/// to have cut a probe; nothing where it is off.
#[must_use]
pub fn rt_throttling(system: &SystemState, throttled: bool) -> Option<Demand> {
    let scheduler = &system.scheduler;
    let (runtime, period) = (scheduler.rt_runtime_us?, scheduler.rt_period_us?);
    if (runtime < 0 || runtime >= period) && !throttled {
        return None;
    }
    // Below 0 there is no limit.
    let runtime = u64::try_from(runtime).unwrap_or(period.unsigned_abs());
    let condition = Condition::RtThrottling {
        runtime_ns: runtime.saturating_mul(1000),
        period_ns: period.unsigned_abs().saturating_mul(1000),
    };
    Some(match throttled {
        true => Demand::requested(condition, false, || Fix::NoThrottling),
        false => Demand::stated(condition, Some(Fix::NoThrottling)),
    })
}

fn virtual_machine(system: &SystemState) -> Option<Demand> {
    let machine = &system.virtualisation;
    let stolen = machine.stolen_share.is_some_and(|share| share > 0.0);
    if machine.hypervisor.is_none() && !stolen {
        return None;
    }
    let condition = Condition::VirtualMachine {
        hypervisor: machine.hypervisor.clone(),
        stolen_ns: machine.stolen_ns,
        stolen_share: machine.stolen_share,
    };
    Some(Demand::stated(condition, Some(Fix::OwnMachine)))
}

fn container(system: &SystemState) -> Option<Demand> {
    let runtime = system.virtualisation.container.clone()?;
    Some(Demand::stated(Condition::Container { runtime }, None))
}

fn preemption(system: &SystemState) -> Option<Demand> {
    let model = system.kernel.preemption.as_str();
    if matches!(model, "rt" | "") {
        return None;
    }
    let condition = Condition::Preemption {
        model: model.to_owned(),
    };
    Some(Demand::stated(condition, Some(Fix::PreemptRt)))
}

fn clock_source(system: &SystemState) -> Option<Demand> {
    let clock = &system.clock;
    let source = clock.source.as_str();
    if source.is_empty() || FAST_CLOCKS.contains(&source) {
        return None;
    }
    let mut available = clock.available.iter();
    let better = available.find(|name| FAST_CLOCKS.contains(&name.as_str()));
    let fix = better.map(|name| Fix::ClockSource {
        source: name.clone(),
    });
    let condition = Condition::ClockSource {
        source: source.to_owned(),
    };
    Some(Demand::stated(condition, fix))
}

fn tasks_above(requested: &Requested, system: &SystemState) -> Option<Demand> {
    let scheduler = &system.scheduler;
    if scheduler.above_count == 0 {
        return None;
    }
    // The stop-class threads are on every machine and run for moments.
    let listed: Vec<Competitor> = scheduler
        .above
        .iter()
        .filter(|task| !(task.kernel && task.name.starts_with("migration/")))
        .take(5)
        .map(|task| Competitor {
            name: task.name.clone(),
            policy: task.policy.clone(),
            priority: task.priority,
            cpus: task.cpus.clone(),
        })
        .collect();
    if listed.is_empty() {
        return None;
    }
    let others = scheduler
        .above_count
        .saturating_sub(scheduler.above_kernel_count);
    let condition = Condition::TasksAbove {
        others,
        kernel: scheduler.above_kernel_count,
        listed,
    };
    let can_rise =
        requested.priority > 0 && requested.priority < 98 && requested.policy.is_real_time();
    Some(Demand::stated(
        condition,
        can_rise.then_some(Fix::HigherPriority),
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
    let condition = Condition::SmtSiblings {
        cpus: with,
        siblings: others,
    };
    Some(Demand::stated(condition, Some(Fix::NoSmt)))
}

fn governor(system: &SystemState, probed: &[usize]) -> Option<Demand> {
    let scaled: Vec<Governed> = system
        .power
        .governors
        .iter()
        .filter(|(name, cpus)| name != "performance" && cpus.iter().any(|c| probed.contains(c)))
        .map(|(governor, cpus)| Governed {
            governor: governor.clone(),
            cpus: cpus.clone(),
        })
        .collect();
    let some = !scaled.is_empty();
    some.then(|| {
        Demand::stated(
            Condition::Governor { scaled },
            Some(Fix::PerformanceGovernor),
        )
    })
}

fn idle_states(requested: &Requested, system: &SystemState) -> Option<Demand> {
    if requested.dma_latency_us.is_some() {
        return None;
    }
    let deepest = system
        .power
        .idle_states
        .iter()
        .filter(|state| !state.disabled)
        .max_by_key(|state| state.exit_latency_us)
        .filter(|state| state.exit_latency_us > 0)?;
    let condition = Condition::IdleStates {
        state: deepest.name.clone(),
        exit_latency_us: deepest.exit_latency_us,
    };
    Some(Demand::stated(condition, Some(Fix::HoldIdleStates)))
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
    Some(Demand::stated(
        Condition::TimerSlack { slack_ns: slack },
        None,
    ))
}

/// RLIMIT_RTTIME kills a real-time thread that runs on without sleeping.
fn time_limit(requested: &Requested, system: &SystemState) -> Option<Demand> {
    let limit_us = system.limits.rttime_us?;
    let condition = Condition::RtTimeLimit { limit_us };
    let concerns = requested.policy.is_real_time();
    concerns.then(|| Demand::stated(condition, Some(Fix::NoTimeLimit)))
}

fn group_limits(system: &SystemState) -> Option<Demand> {
    let limits: Vec<String> = system
        .limits
        .cgroup_limits
        .iter()
        .filter(|limit| !limit.contains("/cpuset."))
        .take(4)
        .cloned()
        .collect();
    let some = !limits.is_empty();
    some.then(|| Demand::stated(Condition::CgroupLimits { limits }, None))
}
