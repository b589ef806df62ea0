//! Why tracing is not available here.

use std::fmt;
use std::fs;

/// What is missing, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// What is missing.
    pub reason: String,
    /// What to do.
    pub mend: String,
}

impl Unavailable {
    /// One line of each.
    #[must_use]
    pub fn new(reason: impl Into<String>, mend: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            mend: mend.into(),
        }
    }
}

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.reason, self.mend)
    }
}

impl std::error::Error for Unavailable {}

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// The kernel's description of its types.
pub const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Checks the requirements before anything is attempted.
///
/// # Errors
/// The first thing that is missing.
pub fn check() -> Result<(), Unavailable> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Unavailable::new(
            "this processor's interrupts are not known to punctual yet",
            "it takes an x86-64 machine",
        ));
    }
    if let Err(error) = fs::metadata(BTF) {
        return Err(Unavailable::new(
            format!("the kernel doesn't describe its types ({BTF}: {error})"),
            "it takes a kernel of 5.15 or later with CONFIG_DEBUG_INFO_BTF=y, as \
             distributions have it, and /sys mounted",
        ));
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    match lacking(&status) {
        None => Ok(()),
        Some(names) => Err(Unavailable::new(format!("no {names}"), rights(&status))),
    }
}

/// How this process gets the capabilities. If root lacks them, they were removed: a container
/// starts its programs this way, and neither being root nor a file's capabilities restore them.
fn rights(status: &str) -> &'static str {
    if effective_user(status) == Some("0") {
        "root lacks them here, as in a container: start it with `--cap-add sys_admin --cap-add \
         syslog` (a container's seccomp filter may refuse BPF to less), or run punctual \
         outside of it"
    } else {
        "run as root, or on the program, in this order: chgrp realtime, chmod 750, setcap \
         cap_bpf,cap_perfmon,cap_sys_nice,cap_ipc_lock,cap_syslog+ep (without the group any \
         user could run any program at FIFO 99 with it)"
    }
}

/// The effective user, from /proc/self/status.
fn effective_user(status: &str) -> Option<&str> {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    users.split_whitespace().nth(1)
}

/// The missing capabilities, from /proc/self/status.
fn lacking(status: &str) -> Option<&'static str> {
    let held = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok())
        .unwrap_or(0);
    let has = |number: u32| held >> number & 1 == 1 || held >> CAP_SYS_ADMIN & 1 == 1;
    match (has(CAP_BPF), has(CAP_PERFMON)) {
        (true, true) => None,
        (false, true) => Some("CAP_BPF"),
        (true, false) => Some("CAP_PERFMON"),
        (false, false) => Some("CAP_BPF and CAP_PERFMON"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_without_capabilities_is_not_advised_to_run_as_root() {
        let status = |user: &str| format!("Name:\tx\nUid:\t1000\t{user}\t0\t0\nCapEff:\t0\n");
        assert_eq!(lacking(&status("0")), Some("CAP_BPF and CAP_PERFMON"));
        let of_root = rights(&status("0"));
        assert!(of_root.contains("--cap-add sys_admin") && !of_root.contains("run as root"));
        assert!(rights(&status("1000")).starts_with("run as root"));
        assert!(rights("").starts_with("run as root"));
    }
}
