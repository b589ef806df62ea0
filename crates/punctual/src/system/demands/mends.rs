//! What a person can do about a demand that is not in force: commands that can be
//! run as they stand, for the reason that was found.

use super::{Asked, Found};
use crate::system::{cpus, dma_latency as device, setcap};
use punctual_record::run::{Demand, Standing};
use punctual_record::system::SystemState;

/// What a real-time group is given where it has nothing: the kernel's own default.
const GROUP_RUNTIME_US: u32 = 950_000;

/// The file that the advice about limits writes, always whole: advice that was followed before
/// is not undone by the next.
const LIMITS_FILE: &str = "/etc/security/limits.d/90-punctual.conf";

/// What helps.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fix {
    /// Rights for the program or its user.
    Rights,
    /// Rights for the container.
    Container,
    /// Something else, in words.
    Other(String),
}

impl Fix {
    /// `device`: the bound on idle wake-up time lacks as well.
    fn words(self, asked: &Asked, system: &SystemState, device: bool) -> String {
        match self {
            Self::Rights => rights(asked, system, device),
            Self::Container => container(system, device),
            Self::Other(text) => text,
        }
    }
}

/// Gives demands that lack for want of rights one fix in common, in the place of one each: a
/// person runs it once, and it holds for all of them.
pub(super) fn combine(demands: &mut [Demand], asked: &Asked, found: &Found, system: &SystemState) {
    let refused = found.threads.iter().find_map(|it| it.priority_refused);
    let fix_of = |demand: &Demand| match demand.name.as_str() {
        "priority" => Some(of_priority(asked, refused, system)),
        "locked-memory" => Some(of_memory(system)),
        "cpu-dma-latency" => Some(of_device(found.dma_latency_forbidden, system)),
        _ => None,
    };
    let kinds = [Fix::Rights, Fix::Container];
    for kind in kinds {
        let lacks = |demand: &&mut Demand| {
            demand.standing == Standing::NotInForce && fix_of(demand).as_ref() == Some(&kind)
        };
        let mut same: Vec<&mut Demand> = demands.iter_mut().filter(lacks).collect();
        let device = same.iter().any(|demand| demand.name == "cpu-dma-latency");
        if same.len() > 1 {
            let words = kind.words(asked, system, device);
            for demand in &mut same {
                demand.mend = Some(words.clone());
            }
        }
    }
}

/// For a policy or priority that was not got, by the reason.
#[must_use]
pub fn priority(asked: &Asked, refused: Option<i32>, system: &SystemState) -> String {
    of_priority(asked, refused, system).words(asked, system, false)
}

fn of_priority(asked: &Asked, refused: Option<i32>, system: &SystemState) -> Fix {
    if let Some(text) = wrong_number(asked, refused) {
        return Fix::Other(text);
    }
    let limits = &system.limits;
    let capable = has(system, "cap_sys_nice");
    let within_limit = limits
        .rtprio
        .is_some_and(|limit| limit >= u64::from(asked.priority));
    if capable || within_limit {
        return Fix::Other(not_for_want_of_rights(system));
    }
    if in_container(system) {
        return Fix::Container;
    }
    Fix::Rights
}

fn in_container(system: &SystemState) -> bool {
    system.virtualisation.container.is_some() || system.limits.user_namespace == Some(true)
}

/// The kernel takes 1 to 99 only.
fn wrong_number(asked: &Asked, refused: Option<i32>) -> Option<String> {
    (refused == Some(libc::EINVAL)).then(|| {
        format!(
            "the kernel takes no priority of {}: ask for 1 to 99 with -p",
            asked.priority
        )
    })
}

/// The rights are there, and yet it was refused.
fn not_for_want_of_rights(system: &SystemState) -> String {
    let scheduler = &system.scheduler;
    if scheduler.rt_group_runtime_us == Some(0)
        && let Some(file) = &scheduler.rt_group_file
    {
        // Within, the group's files are read only, and the root that is seen is the container's.
        if in_container(system) {
            return "the container's control group has no real-time runtime \
                    (CONFIG_RT_GROUP_SCHED): on the host, give the groups above it some, from the \
                    top down (`cpu.rt_runtime_us`, 950000 at most), and start the container with \
                    `--cpu-rt-runtime=400000`; or boot the host with `rt_group_sched=0`"
                .to_owned();
        }
        return format!(
            "this control group has no real-time runtime (CONFIG_RT_GROUP_SCHED): \
             `echo {GROUP_RUNTIME_US} | sudo tee {file}`, or run from the root group: \
             `echo $$ | sudo tee {}/tasks`",
            root_group(file, system)
        );
    }
    if scheduler.rt_runtime_us == Some(0) {
        return "real-time tasks have no runtime on this machine: \
                `sudo sysctl kernel.sched_rt_runtime_us=950000`"
            .to_owned();
    }
    if system
        .limits
        .cgroups
        .iter()
        .any(|path| path.starts_with("v2:"))
    {
        return "the rights are there; a kernel with CONFIG_RT_GROUP_SCHED refuses real-time \
                threads below the root group of cgroup v2: \
                `echo $$ | sudo tee /sys/fs/cgroup/cgroup.procs`, or boot with `rt_group_sched=0`"
            .to_owned();
    }
    "the rights are there, and a security policy (seccomp, SELinux, AppArmor) may refuse it: \
     look for the denial in `sudo dmesg` and `journalctl -k`"
        .to_owned()
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

/// More rights for the container.
fn container(system: &SystemState, device: bool) -> String {
    let kind = system
        .virtualisation
        .container
        .as_deref()
        .unwrap_or_default();
    let with = |flag: &str| {
        if device {
            format!(" {flag}")
        } else {
            String::new()
        }
    };
    match kind {
        "kubernetes" => "give the container `securityContext: {capabilities: {add: [SYS_NICE, \
                         IPC_LOCK]}}` and a runtime with unlimited memlock"
            .to_owned(),
        "systemd-nspawn" => format!(
            "start the container with `systemd-nspawn --capability=CAP_SYS_NICE,CAP_IPC_LOCK \
             --rlimit=RLIMIT_RTPRIO=99 --rlimit=RLIMIT_MEMLOCK=infinity{}`",
            with("--bind=/dev/cpu_dma_latency")
        ),
        _ if system.limits.user_namespace == Some(true) => {
            format!(
                "capabilities of a user namespace (rootless container) don't reach the scheduler: \
                 raise the user's limits on the host, `{}`, log in again and start the container \
                 with `--ulimit rtprio=99 --ulimit memlock=-1{flag}`; or start it as root with \
                 `--cap-add sys_nice --cap-add ipc_lock{flag}`",
                limits(),
                flag = with("--device /dev/cpu_dma_latency")
            )
        }
        _ => format!(
            "start the container with `--cap-add sys_nice --cap-add ipc_lock --ulimit rtprio=99 \
             --ulimit memlock=-1{}`",
            with("--device /dev/cpu_dma_latency")
        ),
    }
}

/// Rights for our program or for the user: all that a run takes, whichever of them lacks, so
/// that the next run doesn't ask for the rest.
fn rights(asked: &Asked, system: &SystemState, device: bool) -> String {
    let open = format!(" && {}", open_device());
    let open = if device { open.as_str() } else { "" };
    let until = if device {
        " (/dev/cpu_dma_latency keeps its group until the next boot; --as-deployed leaves it \
         alone)"
    } else {
        ""
    };
    format!(
        "run as root; or give this program the rights: `{}{open}` {}; or give your user the \
         limits and log in again: `{}{open}`{until}",
        with_capabilities(asked, system),
        setcap::reason(),
        limits(),
    )
}

/// The command that gives our program its capabilities, for a group alone. It replaces those that
/// the file has, so it names all that a run takes and that it has already.
fn with_capabilities(asked: &Asked, system: &SystemState) -> String {
    const RUN: [&str; 2] = ["cap_sys_nice", "cap_ipc_lock"];
    const EXPLAIN: [&str; 3] = ["cap_bpf", "cap_perfmon", "cap_syslog"];
    let held = |name: &&str| asked.explain || has(system, name);
    let names: Vec<&str> = RUN
        .into_iter()
        .chain(EXPLAIN.into_iter().filter(held))
        .collect();
    let capabilities = format!("{}=ep", names.join(","));
    setcap::command(&capabilities, &quoted(&asked.executable))
}

/// The command that writes the user's limits: both of them, and every priority, so that what is
/// advised to one run is not taken away by what is advised to the next.
fn limits() -> String {
    format!(
        "printf '%s - rtprio 99\\n%s - memlock unlimited\\n' \"$(id -un)\" \"$(id -un)\" | sudo \
         tee {LIMITS_FILE}"
    )
}

/// The command that opens the device to the user's group.
fn open_device() -> String {
    format!(
        "sudo chgrp \"$(id -gn)\" {} && sudo chmod g+rw {}",
        device::PATH,
        device::PATH
    )
}

/// For threads that are not on their CPUs alone.
#[must_use]
pub fn affinity(astray: &[usize], system: &SystemState) -> String {
    let processor = &system.processor;
    if let Some(cpu) = astray.iter().find(|cpu| !processor.online.contains(cpu)) {
        return format!(
            "CPU {cpu} is offline: `echo 1 | sudo tee /sys/devices/system/cpu/cpu{cpu}/online`, \
             or choose others with -a; online: {}",
            cpus::format(&processor.online)
        );
    }
    if let Some(cpu) = astray.iter().find(|cpu| !processor.allowed.contains(cpu)) {
        return format!(
            "this process may not use CPU {cpu}: start it without `taskset` and outside of the \
             cpuset, or choose others with -a; allowed: {}",
            cpus::format(&processor.allowed)
        );
    }
    "another program (a tuning daemon, a cpuset) changes the affinity of our threads: stop it \
     for the run"
        .to_owned()
}

/// For memory that is not locked.
#[must_use]
pub fn locked_memory(asked: &Asked, system: &SystemState) -> String {
    of_memory(system).words(asked, system, false)
}

fn of_memory(system: &SystemState) -> Fix {
    if memory_limit(system).is_none() {
        return Fix::Other(
            "the machine has too little memory to lock what the run needs, or a memory limit of \
             the control group stands against it: see `limits` in the record"
                .to_owned(),
        );
    }
    if in_container(system) {
        return Fix::Container;
    }
    Fix::Rights
}

/// Bytes that this user may lock, where there is a limit.
pub(super) fn memory_limit(system: &SystemState) -> Option<u64> {
    let limit = system.limits.memlock_bytes;
    limit.filter(|_| !has(system, "cap_ipc_lock"))
}

/// For a clock without high resolution.
#[must_use]
pub fn timers(system: &SystemState) -> String {
    let off = system.kernel.command_line.split_whitespace().find(|word| {
        matches!(
            *word,
            "highres=off" | "nohz=off" | "nolapic" | "noapictimer"
        )
    });
    match off {
        Some(word) => format!("boot without `{word}` on the kernel's command line"),
        None => "boot a kernel with CONFIG_HIGH_RES_TIMERS=y, on a machine with a one-shot timer \
                 (see /proc/timer_list)"
            .to_owned(),
    }
}

/// For a bound on idle wake-up time that is not held.
#[must_use]
pub fn dma_latency(system: &SystemState) -> String {
    let nspawn = system.virtualisation.container.as_deref() == Some("systemd-nspawn");
    let open = match in_container(system) {
        true if nspawn => format!("start the container with `--bind={}`", device::PATH),
        true => format!("start the container with `--device {}`", device::PATH),
        false => format!(
            "run as root, or let your group open the device until the next boot: `{}`",
            open_device()
        ),
    };
    format!("{open}; or measure with --as-deployed, which leaves idle states alone")
}

/// `forbidden`: the device is there, and this user may not open it.
fn of_device(forbidden: bool, system: &SystemState) -> Fix {
    if in_container(system) {
        Fix::Container
    } else if forbidden {
        Fix::Rights
    } else {
        Fix::Other(dma_latency(system))
    }
}

/// Whether a capability is effective where the scheduler looks for it.
fn has(system: &SystemState, capability: &str) -> bool {
    system.limits.user_namespace != Some(true)
        && system.limits.capabilities.iter().any(|c| c == capability)
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let plain = path
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_' | '+'));
    if plain && !path.is_empty() {
        path.to_owned()
    } else {
        format!("'{}'", path.replace('\'', r"'\''"))
    }
}
