//! What identifies a machine: the kernel, its command line, and settings that bear on cost and
//! latency.

use std::collections::BTreeMap;

use punctual_machine::Root;
use punctual_record::cost::CostMachine;
use punctual_rt::cpulist;

/// The settings; what is absent is left out.
const SETTINGS: [&str; 20] = [
    "/sys/kernel/realtime",
    "/sys/kernel/debug/sched/preempt",
    "/proc/sys/kernel/sched_rt_runtime_us",
    "/proc/sys/kernel/sched_rt_period_us",
    "/proc/sys/kernel/sched_autogroup_enabled",
    "/proc/sys/kernel/timer_migration",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/watchdog",
    "/proc/sys/kernel/nmi_watchdog",
    "/proc/sys/vm/stat_interval",
    "/proc/sys/vm/swappiness",
    "/proc/sys/vm/overcommit_memory",
    "/proc/irq/default_smp_affinity",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/mm/ksm/run",
    "/sys/devices/system/cpu/smt/control",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/nohz_full",
    "/sys/devices/virtual/workqueue/cpumask",
    "/sys/devices/system/clocksource/clocksource0/current_clocksource",
];
/// Characters of a setting that are kept.
const LENGTH: usize = 256;

/// This machine as it is now.
#[must_use]
pub fn this_machine() -> CostMachine {
    let root = Root::live();
    let text = |path: &str| root.text(path).unwrap_or_default();
    let online = text("/sys/devices/system/cpu/online");
    let mut settings = BTreeMap::new();
    let mut note = |path: &str| {
        if let Ok(value) = root.text(path) {
            settings.insert(path.to_owned(), value.chars().take(LENGTH).collect());
        }
    };
    SETTINGS.iter().for_each(|path| note(path));
    let cpus = cpulist::numbers(&online).unwrap_or_default();
    for cpu in &cpus {
        note(&format!(
            "/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"
        ));
    }
    CostMachine {
        hostname: text("/proc/sys/kernel/hostname"),
        kernel: text("/proc/sys/kernel/osrelease"),
        build: text("/proc/sys/kernel/version"),
        command_line: text("/proc/cmdline"),
        boot_id: text("/proc/sys/kernel/random/boot_id"),
        cpus,
        settings,
    }
}
