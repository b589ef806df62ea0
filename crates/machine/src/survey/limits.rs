//! Limits and privileges of this process.

use super::cgroup::Cgroups;
use super::cpus::parse_kernel;
use crate::root::{Reader, Root};
use punctual_record::proc_status::{Capabilities, effective_user, value};
use punctual_record::system::Limits;

/// The capabilities that matter for real-time work, with their numbers.
const CAPABILITIES: &[(u32, &str)] = &[
    (Capabilities::IPC_LOCK, "cap_ipc_lock"),
    (Capabilities::SYS_RAWIO, "cap_sys_rawio"),
    (Capabilities::SYS_PTRACE, "cap_sys_ptrace"),
    (Capabilities::SYS_ADMIN, "cap_sys_admin"),
    (Capabilities::SYS_NICE, "cap_sys_nice"),
    (Capabilities::SYS_RESOURCE, "cap_sys_resource"),
    (Capabilities::SYSLOG, "cap_syslog"),
    (Capabilities::PERFMON, "cap_perfmon"),
    (Capabilities::BPF, "cap_bpf"),
];

/// CPUs that the calling thread may use, ascending, without those that
/// are offline.
#[must_use]
pub fn allowed(root: &Root) -> Vec<usize> {
    if root.is_live()
        && let Ok(cpus) = punctual_rt::affinity::get(0)
    {
        return cpus;
    }
    root.text("/proc/self/status")
        .ok()
        .as_deref()
        .and_then(|status| value(status, "Cpus_allowed_list"))
        .and_then(|list| parse_kernel(list).ok())
        .unwrap_or_else(|| super::online(root))
}

/// Reads the limits.
pub(super) fn read(reader: &mut Reader<'_>, cgroups: &Cgroups) -> Limits {
    let status = reader.text("/proc/self/status").unwrap_or_default();
    let table = reader.text("/proc/self/limits").unwrap_or_default();
    Limits {
        user: effective_user(&status).unwrap_or(0),
        capabilities: capabilities(&status),
        user_namespace: user_namespace(reader.root),
        rtprio: limit(&table, "Max realtime priority").map(|limit| limit.unwrap_or(99)),
        memlock_bytes: limit(&table, "Max locked memory").unwrap_or_default(),
        rttime_us: limit(&table, "Max realtime timeout").unwrap_or_default(),
        rttime_hard_us: table
            .lines()
            .find_map(|line| line.strip_prefix("Max realtime timeout"))
            .and_then(|line| line.split_whitespace().nth(1)?.parse().ok()),
        cgroups: cgroups.paths.clone(),
        cgroup_limits: cgroups.limits.clone(),
    }
}

/// The effective capabilities that matter here.
fn capabilities(status: &str) -> Vec<String> {
    let held = Capabilities::effective(status).unwrap_or_default();
    CAPABILITIES
        .iter()
        .filter(|(number, _)| held.has(*number))
        .map(|(_, name)| (*name).to_owned())
        .collect()
}

/// The soft limit in `/proc/self/limits`: the outer option is absent if there
/// is no such line, the inner one if there is no limit.
#[allow(clippy::option_option, reason = "absent and unlimited differ")]
fn limit(table: &str, name: &str) -> Option<Option<u64>> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" {
        Some(None)
    } else {
        soft.parse().ok().map(Some)
    }
}

/// Whether we are in a user namespace other than the initial one: then capabilities
/// don't apply to the scheduler. The initial one's inode number is fixed
/// (`PROC_USER_INIT_INO` in the kernel's `include/linux/proc_ns.h`).
#[must_use]
pub fn user_namespace(root: &Root) -> Option<bool> {
    let link = root.link("/proc/self/ns/user").ok()?;
    Some(link != "user:[4026531837]")
}
