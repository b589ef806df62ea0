//! The events of a recording that are read.

use punctual_record::explanation::RecordedEvents;

/// Systems of events, and the events of each that are read: docs/explain.md lists them.
#[rustfmt::skip]
const SYSTEMS: &[(&str, &[&str])] = &[
    ("sched", &[
        "sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task",
    ]),
    ("irq", &["irq_handler_entry", "irq_handler_exit", "softirq_entry", "softirq_exit"]),
    ("irq_vectors", &[
        "local_timer_entry", "local_timer_exit", "reschedule_entry", "reschedule_exit",
        "call_function_entry", "call_function_exit",
        "call_function_single_entry", "call_function_single_exit",
        "irq_work_entry", "irq_work_exit", "x86_platform_ipi_entry", "x86_platform_ipi_exit",
        "thermal_apic_entry", "thermal_apic_exit", "threshold_apic_entry", "threshold_apic_exit",
    ]),
    ("timer", &["hrtimer_start", "hrtimer_expire_entry", "hrtimer_expire_exit"]),
    ("workqueue", &["workqueue_execute_start"]),
    ("nmi", &["nmi_handler"]),
    ("power", &["cpu_idle"]),
    ("osnoise", &["irq_noise", "softirq_noise", "thread_noise", "nmi_noise"]),
];

/// All events that are read, each with its system.
pub fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
    let names = |(system, names): &(&'static str, &'static [&'static str])| {
        let system = *system;
        names.iter().map(move |name| (system, *name))
    };
    SYSTEMS.iter().flat_map(names)
}

/// Events that begin something and those that end it: without these it isn't known what runs then.
pub(super) fn with_ends() -> impl Iterator<Item = (&'static str, &'static str)> {
    let interrupts = SYSTEMS
        .iter()
        .filter(|(system, _)| system.starts_with("irq"));
    let pairs = interrupts.flat_map(|(_, names)| names.chunks_exact(2));
    let callbacks = ("hrtimer_expire_entry", "hrtimer_expire_exit");
    pairs.map(|pair| (pair[0], pair[1])).chain([callbacks])
}

/// Events that tell what a complete bill needs: any of them does.
pub(super) fn that_tell(needed: RecordedEvents) -> &'static [&'static str] {
    match needed {
        RecordedEvents::Switches => &["sched_switch", "thread_noise"],
        RecordedEvents::Wakings => &["sched_waking", "sched_wakeup", "timerlat"],
        RecordedEvents::CpuInterrupts => &["irq_vectors", "irq_noise"],
        RecordedEvents::DeviceInterrupts => &["irq_handler_entry", "irq_noise"],
        RecordedEvents::Softirqs => &["softirq_entry", "softirq_noise"],
        RecordedEvents::TimerStarts => &["hrtimer_start", "timerlat"],
    }
}
