//! What a person can do about a demand that is not in force, for the reason that was found.

use super::{Found, Requested};
use punctual_record::system::SystemState;
use punctual_record::{Condition, Demand, Fix, Standing};

/// What a real-time group is given where it has nothing: the kernel's own default.
const GROUP_RUNTIME_US: u32 = 950_000;

/// Who lacks a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lacks {
    /// The program's or its user's.
    Rights,
    /// The container's.
    Container,
}

/// What helps: rights, or something else.
type Help = Result<Lacks, Fix>;

impl Lacks {
    /// `device`: the bound on idle wake-up time lacks as well.
    fn fix(self, requested: &Requested, system: &SystemState, device: bool) -> Fix {
        match self {
            Self::Rights => Fix::Rights {
                program: requested.executable.clone(),
                capabilities: capabilities(requested, system),
                device,
            },
            Self::Container => Fix::ContainerRights {
                runtime: system.virtualisation.container.clone(),
                user_namespace: system.limits.user_namespace == Some(true),
                device,
            },
        }
    }
}

fn settle(help: Help, requested: &Requested, system: &SystemState) -> Fix {
    help.map_or_else(|other| other, |lacks| lacks.fix(requested, system, false))
}

/// Gives demands that lack for want of rights one fix in common, in the place of one each: a
/// person runs it once, and it holds for all of them.
pub(super) fn combine(
    demands: &mut [Demand],
    requested: &Requested,
    found: &Found,
    system: &SystemState,
) {
    let refused = found.threads.iter().find_map(|it| it.priority_refused);
    let help_for = |demand: &Demand| match demand.condition {
        Condition::Priority { .. } => Some(for_priority(requested, refused, system)),
        Condition::LockedMemory { .. } => Some(for_memory(system)),
        Condition::CpuDmaLatency { .. } => Some(for_device(found.may_not_open_device(), system)),
        _ => None,
    };
    for lacks in [Lacks::Rights, Lacks::Container] {
        let lacking = |demand: &&mut Demand| {
            demand.standing == Standing::NotInForce && help_for(demand) == Some(Ok(lacks))
        };
        let mut same: Vec<&mut Demand> = demands.iter_mut().filter(lacking).collect();
        let is_device =
            |demand: &&mut Demand| matches!(demand.condition, Condition::CpuDmaLatency { .. });
        let device = same.iter().any(is_device);
        if same.len() > 1 {
            let fix = lacks.fix(requested, system, device);
            for demand in &mut same {
                demand.fix = Some(fix.clone());
            }
        }
    }
}

/// For a policy or priority that is not in force, by the reason.
#[must_use]
pub fn priority(requested: &Requested, refused: Option<i32>, system: &SystemState) -> Fix {
    settle(for_priority(requested, refused, system), requested, system)
}

fn for_priority(requested: &Requested, refused: Option<i32>, system: &SystemState) -> Help {
    // The kernel takes 1 to 99 only.
    if refused == Some(libc::EINVAL) {
        return Err(Fix::PriorityInRange {
            priority: requested.priority,
        });
    }
    let limits = &system.limits;
    let capable = has(system, "cap_sys_nice");
    let within_limit = limits
        .rtprio
        .is_some_and(|limit| limit >= u64::from(requested.priority));
    if capable || within_limit {
        return Err(not_for_want_of_rights(system));
    }
    Ok(rights_of(system))
}

fn rights_of(system: &SystemState) -> Lacks {
    if in_container(system) {
        Lacks::Container
    } else {
        Lacks::Rights
    }
}

fn in_container(system: &SystemState) -> bool {
    system.virtualisation.container.is_some() || system.limits.user_namespace == Some(true)
}

/// The rights are there, and yet it was refused.
fn not_for_want_of_rights(system: &SystemState) -> Fix {
    let scheduler = &system.scheduler;
    if scheduler.rt_group_runtime_us == Some(0)
        && let Some(file) = &scheduler.rt_group_file
    {
        // Within, the group's files are read only, and the root that is seen is the container's.
        if in_container(system) {
            return Fix::ContainerRuntime;
        }
        return Fix::GroupRuntime {
            runtime_us: GROUP_RUNTIME_US,
            file: file.clone(),
            root: root_group(file, system).to_owned(),
        };
    }
    if scheduler.rt_runtime_us == Some(0) {
        return Fix::MachineRuntime;
    }
    let mut groups = system.limits.cgroups.iter();
    if groups.any(|path| path.starts_with("v2:")) {
        return Fix::RootGroup;
    }
    Fix::SecurityPolicy
}

/// The root of the hierarchy that a group's file belongs to: its path without that
/// of our group.
fn root_group<'f>(file: &'f str, system: &SystemState) -> &'f str {
    let directory = file
        .rsplit_once('/')
        .map_or(file, |(directory, _)| directory);
    system
        .limits
        .cgroups
        .iter()
        .filter_map(|path| path.split_once(':'))
        .filter(|(controllers, _)| controllers.split(',').any(|c| c == "cpu"))
        .find_map(|(_, path)| directory.strip_suffix(path))
        .unwrap_or(directory)
}

/// All capabilities that a run takes and that it has already: a command that sets them replaces
/// those that the file has.
fn capabilities(requested: &Requested, system: &SystemState) -> Vec<String> {
    const RUN: [&str; 2] = ["cap_sys_nice", "cap_ipc_lock"];
    const EXPLAIN: [&str; 3] = ["cap_bpf", "cap_perfmon", "cap_syslog"];
    let held = |name: &&str| requested.explain || has(system, name);
    RUN.into_iter()
        .chain(EXPLAIN.into_iter().filter(held))
        .map(str::to_owned)
        .collect()
}

/// For threads that are not on their CPUs alone.
#[must_use]
pub fn affinity(astray: &[usize], system: &SystemState) -> Fix {
    let processor = &system.processor;
    let outside_of = |cpus: &[usize]| astray.iter().find(|cpu| !cpus.contains(cpu)).copied();
    if let Some(cpu) = outside_of(&processor.online) {
        return Fix::CpuOnline {
            cpu,
            online: processor.online.clone(),
        };
    }
    if let Some(cpu) = outside_of(&processor.allowed) {
        return Fix::CpuAllowed {
            cpu,
            allowed: processor.allowed.clone(),
        };
    }
    Fix::AffinityLeftAlone
}

/// For memory that is not locked.
#[must_use]
pub fn locked_memory(requested: &Requested, system: &SystemState) -> Fix {
    settle(for_memory(system), requested, system)
}

fn for_memory(system: &SystemState) -> Help {
    match memory_limit(system) {
        None => Err(Fix::Memory),
        Some(_) => Ok(rights_of(system)),
    }
}

/// Bytes that this user may lock, where there is a limit.
pub(super) fn memory_limit(system: &SystemState) -> Option<u64> {
    let limit = system.limits.memlock_bytes;
    limit.filter(|_| !has(system, "cap_ipc_lock"))
}

/// For a clock without high resolution.
#[must_use]
pub fn timers(system: &SystemState) -> Fix {
    let off = system.kernel.command_line.split_whitespace().find(|word| {
        matches!(
            *word,
            "highres=off" | "nohz=off" | "nolapic" | "noapictimer"
        )
    });
    match off {
        Some(word) => Fix::BootWithout {
            word: word.to_owned(),
        },
        None => Fix::HighResolutionTimers,
    }
}

/// For a bound on idle wake-up time that is not held.
#[must_use]
pub fn dma_latency(system: &SystemState) -> Fix {
    Fix::IdleBound {
        contained: in_container(system),
        runtime: system.virtualisation.container.clone(),
    }
}

/// `forbidden`: the device is there, and this user may not open it.
fn for_device(forbidden: bool, system: &SystemState) -> Help {
    match rights_of(system) {
        Lacks::Rights if !forbidden => Err(dma_latency(system)),
        lacks => Ok(lacks),
    }
}

/// Whether a capability is effective where the scheduler looks for it.
fn has(system: &SystemState, capability: &str) -> bool {
    system.limits.user_namespace != Some(true)
        && system.limits.capabilities.iter().any(|c| c == capability)
}
