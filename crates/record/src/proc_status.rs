//! `/proc/PID/status`, by proc_pid_status(5).

/// The value of a line `Key:\tvalue`.
#[must_use]
pub fn value<'t>(status: &'t str, key: &str) -> Option<&'t str> {
    status
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))
        .map(str::trim)
}

/// A set of bits that is stated in hexadecimal: signals, capabilities.
#[must_use]
pub fn mask(status: &str, key: &str) -> Option<u64> {
    u64::from_str_radix(value(status, key)?, 16).ok()
}

/// The effective user.
#[must_use]
pub fn effective_user(status: &str) -> Option<u32> {
    value(status, "Uid")?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// A set of capabilities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// CAP_IPC_LOCK.
    pub const IPC_LOCK: u32 = 14;
    /// CAP_SYS_RAWIO.
    pub const SYS_RAWIO: u32 = 17;
    /// CAP_SYS_PTRACE.
    pub const SYS_PTRACE: u32 = 19;
    /// CAP_SYS_ADMIN.
    pub const SYS_ADMIN: u32 = 21;
    /// CAP_SYS_NICE.
    pub const SYS_NICE: u32 = 23;
    /// CAP_SYS_RESOURCE.
    pub const SYS_RESOURCE: u32 = 24;
    /// CAP_SYSLOG.
    pub const SYSLOG: u32 = 34;
    /// CAP_PERFMON.
    pub const PERFMON: u32 = 38;
    /// CAP_BPF.
    pub const BPF: u32 = 39;

    /// The effective ones; absent where the text doesn't state them.
    #[must_use]
    pub fn effective(status: &str) -> Option<Self> {
        Self::stated(status, "CapEff")
    }

    /// Those that a line states: `CapEff`, `CapBnd`, `CapAmb`.
    #[must_use]
    pub fn stated(status: &str, key: &str) -> Option<Self> {
        mask(status, key).map(Self)
    }

    /// Whether a capability is among them, by its number.
    #[must_use]
    pub fn has(self, number: u32) -> bool {
        self.0.checked_shr(number).is_some_and(|bits| bits & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_that_of_the_whole_key() {
        let status =
            "Name:\tCapEff: 1\nUid:\t1000\t7\t0\t0\nCapEffX:\tf\nCapEff:\t0000000000804000\n";
        assert_eq!(value(status, "Name"), Some("CapEff: 1"));
        assert_eq!(effective_user(status), Some(7));
        let held = Capabilities::effective(status).expect("a mask");
        assert_eq!(held, Capabilities(0x80_4000));
        assert!(held.has(Capabilities::IPC_LOCK) && held.has(Capabilities::SYS_NICE));
        assert!(!held.has(Capabilities::BPF) && !held.has(64) && !held.has(u32::MAX));
        for broken in [
            "",
            "CapEff:",
            "CapEff:\tx",
            "CapEff:\t10000000000000000",
            "CapEff",
        ] {
            assert_eq!(Capabilities::effective(broken), None, "{broken}");
        }
        assert_eq!(effective_user("Uid:\t1000"), None);
    }
}
