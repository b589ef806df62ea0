//! What causes are called.

use punctual_record::cpu_list;
use punctual_record::explanation::{Cause, EARLIER_TIMER, Meanwhile, SLEPT_EARLIER, softirq_name};

/// What the holder of a lock did meanwhile, behind its name.
#[must_use]
pub fn meanwhile(did: &Option<Meanwhile>) -> String {
    match did {
        None => String::new(),
        Some(Meanwhile::Ran) => ": it ran".to_owned(),
        Some(Meanwhile::Preempted { task, .. }) => format!(": preempted by {task}"),
        Some(Meanwhile::Blocked { lock, holder }) => {
            let lock = match lock.as_str() {
                "" => "another lock".to_owned(),
                lock => format!("lock {lock}"),
            };
            let by = holder.as_ref().map(|holder| format!(" held by {holder}"));
            format!(": it waited for {lock}{}", by.unwrap_or_default())
        }
        Some(Meanwhile::Slept { state }) if state == SLEPT_EARLIER => {
            ": it slept (since earlier, for what is not known)".to_owned()
        }
        Some(Meanwhile::Slept { state }) => format!(": it slept ({state})"),
    }
}

/// Whether a thread had the priority of one that waits for a lock which it holds: by its own policy it
/// has none.
#[must_use]
pub fn is_boosted(policy: &str, priority: u32) -> bool {
    priority > 0 && matches!(policy, "SCHED_OTHER" | "SCHED_BATCH" | "SCHED_IDLE")
}

/// A cause in words.
#[must_use]
pub fn name(cause: &Cause) -> String {
    let known = |what: &str, name: &str| {
        if name.is_empty() {
            what.to_owned()
        } else {
            format!("{what} {name}")
        }
    };
    match cause {
        Cause::WakePath => "the wake-up itself".to_owned(),
        Cause::NotReleased => "not released yet".to_owned(),
        Cause::Work => "its own work".to_owned(),
        Cause::Crossing => "into the kernel and out of it".to_owned(),
        Cause::Platform => "platform: hardware or hypervisor".to_owned(),
        Cause::Steal => "hypervisor (stolen time)".to_owned(),
        Cause::Host { cpus } => format!(
            "host or firmware: CPUs {} stopped at once",
            cpu_list(&cpus.iter().map(|cpu| *cpu as usize).collect::<Vec<_>>())
        ),
        Cause::Smi => "system management interrupt".to_owned(),
        Cause::Nmi => "NMI".to_owned(),
        Cause::IdleExit { state: Some(state) } => format!("idle exit from state {state}"),
        Cause::IdleExit { state: None } => "idle exit".to_owned(),
        Cause::Interrupt { irq, name } => known(&format!("IRQ {irq}"), name),
        Cause::CpuInterrupt { vector } => format!("interrupt: {vector}"),
        Cause::Call { function } => format!("IPI: {function}"),
        Cause::TimerCallback { function } => format!("timer callback {function}"),
        Cause::Softirq { number } => format!("softirq {}", softirq_name(*number)),
        Cause::IrqsOff { function, task } => {
            format!("interrupts disabled until {function}, by {task}")
        }
        Cause::LateInterrupt { task } => format!("late interrupt while {task} ran"),
        Cause::PreemptOff { task, work } => {
            let work = work.as_ref().map(|work| format!(" ({work})"));
            format!("{task}{} could not be preempted", work.unwrap_or_default())
        }
        Cause::Thread {
            task,
            policy,
            priority: 0,
        } => format!("thread {task}, {policy}"),
        Cause::Thread {
            task,
            policy,
            priority,
        } if is_boosted(policy, *priority) => {
            format!("thread {task}, {policy}, boosted to FIFO {priority}")
        }
        Cause::Thread {
            task,
            policy,
            priority,
        } => format!("thread {task}, {policy} {priority}"),
        Cause::FairShare { task } => format!("fair share of {task}"),
        Cause::Throttled { task } if task.is_empty() => "throttled, CPU idle".to_owned(),
        Cause::Throttled { task } => format!("throttled in favour of {task}"),
        Cause::GroupThrottled { group, file } => format!("throttled by {file} of {group}"),
        Cause::Inversion {
            lock,
            holder,
            meanwhile: did,
        } => {
            let lock = known("lock", lock);
            format!(
                "{lock} held by {holder} of lower priority{}",
                meanwhile(did)
            )
        }
        Cause::Lock {
            lock,
            holder,
            meanwhile: did,
        } => match holder {
            Some(holder) => format!("{} held by {holder}{}", known("lock", lock), meanwhile(did)),
            None => known("lock", lock),
        },
        Cause::Fault => "page fault of its own".to_owned(),
        Cause::Blocked { state } if state == EARLIER_TIMER => {
            "its previous wake-up was late".to_owned()
        }
        Cause::Blocked { state } => format!("it slept ({state})"),
        Cause::Waker { task } if task.is_empty() => "not woken yet".to_owned(),
        Cause::Waker { task } => format!("not woken yet by {task}"),
        Cause::Probe => "itself: it was awake".to_owned(),
        Cause::Tracer => "tracer".to_owned(),
        Cause::Other => "others".to_owned(),
        Cause::Unexplained => "unexplained".to_owned(),
        Cause::Blind => "blind (events are missing)".to_owned(),
    }
}
