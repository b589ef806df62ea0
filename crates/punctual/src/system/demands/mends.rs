//! What a person can do about a demand that is not in force: commands that can be
//! run as they stand, for the reason that was found.

use super::Asked;
use crate::record::system::SystemState;
use crate::system::cpus;

/// What a real-time group is given where it has nothing: the kernel's own default.
const GROUP_RUNTIME_US: u32 = 950_000;

/// For a policy or priority that was not got, by the reason.
#[must_use]
pub fn priority(asked: &Asked, refused: Option<i32>, system: &SystemState) -> String {
    if let Some(text) = wrong_number(asked, refused) {
        return text;
    }
    let limits = &system.limits;
    let capable = has(system, "cap_sys_nice");
    let within_limit = limits
        .rtprio
        .is_some_and(|limit| limit >= u64::from(asked.priority));
    if capable || within_limit {
        return not_for_want_of_rights(system);
    }
    if system.virtualisation.container.is_some() || limits.user_namespace == Some(true) {
        return container(system);
    }
    privileges(asked)
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
fn container(system: &SystemState) -> String {
    let kind = system
        .virtualisation
        .container
        .as_deref()
        .unwrap_or_default();
    match kind {
        "kubernetes" => "give the container `securityContext: {capabilities: {add: [SYS_NICE, \
                         IPC_LOCK]}}` and a runtime with unlimited memlock"
            .to_owned(),
        "systemd-nspawn" => "start the container with `systemd-nspawn \
                             --capability=CAP_SYS_NICE,CAP_IPC_LOCK \
                             --rlimit=RLIMIT_RTPRIO=99 --rlimit=RLIMIT_MEMLOCK=infinity`"
            .to_owned(),
        _ if system.limits.user_namespace == Some(true) => {
            "capabilities of a user namespace (rootless container) don't reach the scheduler: \
             raise the user's limits on the host, `echo \"$USER - rtprio 99\" | sudo tee \
             /etc/security/limits.d/90-punctual.conf`, log in again and start the container with \
             `--ulimit rtprio=99 --ulimit memlock=-1`; or start it as root with \
             `--cap-add sys_nice --cap-add ipc_lock`"
                .to_owned()
        }
        _ => "start the container with `--cap-add sys_nice --cap-add ipc_lock --ulimit rtprio=99 \
              --ulimit memlock=-1`"
            .to_owned(),
    }
}

/// Rights for our program or for the user.
fn privileges(asked: &Asked) -> String {
    format!(
        "run as root, or `sudo setcap cap_sys_nice,cap_ipc_lock=ep {}`, or give your user the \
         limits and log in again: `printf '%s - rtprio {}\\n%s - memlock unlimited\\n' \"$USER\" \
         \"$USER\" | sudo tee /etc/security/limits.d/90-punctual.conf`",
        quoted(&asked.executable),
        asked.priority.max(1)
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
    if has(system, "cap_ipc_lock") || system.limits.memlock_bytes.is_none() {
        return "the machine has too little memory to lock what the run needs, or a memory limit \
                of the control group stands against it: see `limits` in the record"
            .to_owned();
    }
    if system.virtualisation.container.is_some() {
        return container(system);
    }
    format!(
        "the limit on locked memory is {}: `sudo prlimit --pid $$ --memlock=unlimited` in this \
         shell, or `sudo setcap cap_sys_nice,cap_ipc_lock=ep {}`, or \
         `echo \"$USER - memlock unlimited\" | sudo tee /etc/security/limits.d/90-punctual.conf` \
         and log in again",
        super::bytes(system.limits.memlock_bytes.unwrap_or(0)),
        quoted(&asked.executable)
    )
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
pub fn dma_latency() -> String {
    "run as root, or let your group open the device until the next boot: \
     `sudo chgrp \"$(id -gn)\" /dev/cpu_dma_latency && sudo chmod g+rw /dev/cpu_dma_latency`; \
     in a container `--device /dev/cpu_dma_latency`; or measure with --as-deployed, which leaves \
     idle states alone"
        .to_owned()
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
