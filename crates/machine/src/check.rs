//! All findings of a machine.

use punctual_record::document::Printed;
use std::time::Duration;

use punctual_record::finding::{
    Check, Difference, Finding, FindingFix, FindingId, ReadResult, Reading, Source,
};
use punctual_record::text::one_line;
use punctual_rt::cpulist;

use crate::findings::look_for;
use crate::look::{Look, Machine, Outcome, chosen};
use crate::root::Root;
use crate::version::Version;

/// What to check for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckRequest {
    /// The CPUs for real-time work; those that are isolated, if none are named.
    pub cpus: Option<Vec<usize>>,
    /// The priority of the program, 1 to 99: what runs above it is named.
    pub priority: u32,
    /// The program whose rights are read; that which checks, if none is named.
    pub pid: Option<u32>,
    /// Count interrupts for this time; without it nothing waits.
    pub sample: Option<Duration>,
}

impl Default for CheckRequest {
    fn default() -> Self {
        Self {
            cpus: None,
            priority: Check::PRIORITY,
            pid: None,
            sample: None,
        }
    }
}

impl CheckRequest {
    /// What to check for beside probes on these CPUs of this priority (0 without one). Where they
    /// have every CPU of the machine, everything else is left the first.
    #[must_use]
    pub fn of_probes(root: &Root, probed: &[usize], priority: u32) -> Self {
        let online = root.text("/sys/devices/system/cpu/online");
        let online = online.ok().and_then(|text| cpulist::numbers(&text).ok());
        let mut cpus = probed.to_vec();
        cpus.sort_unstable();
        cpus.dedup();
        if let Some(first) = first_of_all(&cpus, &online.unwrap_or_default()) {
            cpus.retain(|cpu| *cpu != first);
        }
        Self {
            cpus: Some(cpus),
            priority: priority.max(1),
            ..Self::default()
        }
    }
}

/// The first CPU of a machine with several, all of which are among these.
fn first_of_all(cpus: &[usize], online: &[usize]) -> Option<usize> {
    let has_all = online.len() > 1 && online.iter().all(|cpu| cpus.contains(cpu));
    online.first().copied().filter(|_| has_all)
}

/// What a boot parameter needs of the kernel: an option of its configuration without which it is not
/// read, and the version that reads it first.
const NEEDS: &[(&str, &str, Version)] = &[
    // It is proposed with the flag `managed_irq`.
    ("isolcpus", "CPU_ISOLATION", Version(5, 6)),
    ("nohz_full", "NO_HZ_FULL", ANY),
    ("nosmt", "HOTPLUG_SMT", ANY),
    ("rcu_nocbs", "RCU_NOCB_CPU", ANY),
    ("rt_group_sched", "RT_GROUP_SCHED", Version(6, 16)),
    ("threadirqs", "IRQ_FORCED_THREADING", ANY),
];
const ANY: Version = Version(0, 0);
/// The parameters whose findings have seen that the kernel has what they turn. One that is in neither list is
/// not proposed.
const NEED_NOTHING: &str = "audit efi irqaffinity kthread_cpus nmi_watchdog nosoftlockup \
    nvme_core.default_ps_max_latency_us pcie_aspm.policy preempt quiet randomize_kstack_offset \
    rcupdate.rcu_normal_after_boot rcutree.nohz_full_patience_delay skew_tick split_lock_detect";

/// Whether this kernel can do what a fix says. What can't be read of it excludes nothing.
fn is_possible(machine: &Machine<'_>, fix: &FindingFix) -> bool {
    match fix {
        FindingFix::Boot { parameter } => {
            let name = parameter.split('=').next().unwrap_or_default();
            let Some((_, option, from)) = NEEDS.iter().find(|need| need.0 == name) else {
                return NEED_NOTHING.split(' ').any(|known| known == name);
            };
            let config = machine.config.as_ref();
            config.is_none_or(|config| config.is_set(option))
                && machine.version.is_none_or(|version| version >= *from)
        }
        // Lockdown refuses to write to debugfs, and in its second mode to tracefs, too.
        FindingFix::Write { path, .. } if path.starts_with("/sys/kernel/") => {
            let is_trace = path.contains("/tracing/");
            let lockdown = machine.root.text("/sys/kernel/security/lockdown");
            match lockdown.as_deref().ok().and_then(chosen) {
                Some("integrity") => is_trace || !path.starts_with("/sys/kernel/debug/"),
                Some("confidentiality") => !is_trace && !path.starts_with("/sys/kernel/debug/"),
                _ => true,
            }
        }
        _ => true,
    }
}

/// Looks for every finding, in order. Reads files and asks the kernel, and changes nothing.
#[must_use]
pub fn check(root: &Root, request: &CheckRequest) -> Check {
    let machine = Machine::read(root, request);
    let finding = |id: &FindingId| {
        let mut look = Look::new(&machine);
        let outcome = look_for(*id, &mut look).unwrap_or_else(Outcome::from);
        let Outcome { state, mut fixes } = outcome.bounded();
        let proposed = fixes.len();
        fixes.retain(|fix| is_possible(&machine, fix));
        if fixes.is_empty() && proposed > 0 {
            fixes.push(FindingFix::ByHand);
        }
        Finding {
            id: *id,
            state,
            readings: look.into_readings(),
            fixes,
        }
    };
    Check {
        version: Check::VERSION,
        hostname: one_line(&root.text("/proc/sys/kernel/hostname").unwrap_or_default()),
        kernel: one_line(&machine.release),
        cpus: machine.cpus.clone(),
        priority: machine.priority,
        every_cpu: !machine.online.is_empty() && machine.housekeeping().is_empty(),
        findings: FindingId::ALL.iter().map(finding).collect(),
    }
}

/// The readings of two machines that differ, in the order of the findings. The same place may
/// be read several times: the command line, for several parameters.
#[must_use]
pub fn differences(first: &Check, second: &Check) -> Vec<Difference> {
    let mut differences = Vec::new();
    for one in &first.findings {
        let Some(other) = second.finding(one.id) else {
            continue;
        };
        let mut sources: Vec<&Source> = Vec::new();
        for reading in one.readings.iter().chain(&other.readings) {
            if !sources.contains(&&reading.source) {
                sources.push(&reading.source);
            }
        }
        for source in sources {
            let (first, second) = (of(source, &one.readings), of(source, &other.readings));
            for at in 0..first.len().max(second.len()) {
                let (first, second) = (first.get(at).copied(), second.get(at).copied());
                if first != second {
                    differences.push(Difference {
                        id: one.id,
                        source: source.clone(),
                        first: first.cloned(),
                        second: second.cloned(),
                    });
                }
            }
        }
    }
    differences
}

fn of<'r>(source: &Source, readings: &'r [Reading]) -> Vec<&'r ReadResult> {
    let of_source = readings.iter().filter(|reading| reading.source == *source);
    of_source.map(|reading| &reading.result).collect()
}
