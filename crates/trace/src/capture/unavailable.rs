//! Checks whether tracing is available here.

use std::fs;

pub use punctual_record::Unavailable;
use punctual_record::proc_status::{Capabilities, effective_user};

/// The kernel's description of its types.
pub const BTF: &str = "/sys/kernel/btf/vmlinux";

/// Checks the requirements before anything is attempted.
///
/// # Errors
/// The first thing that is missing.
pub fn check() -> Result<(), Unavailable> {
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        return Err(Unavailable::Architecture);
    }
    if let Err(error) = fs::metadata(BTF) {
        return Err(Unavailable::NoTypes {
            error: error.to_string(),
        });
    }
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    lacking(&status).map_or(Ok(()), Err)
}

/// The missing capabilities, from /proc/self/status.
fn lacking(status: &str) -> Option<Unavailable> {
    let held = Capabilities::effective(status).unwrap_or_default();
    let lacks = |number: u32| !held.has(number) && !held.has(Capabilities::SYS_ADMIN);
    let (bpf, perfmon) = (lacks(Capabilities::BPF), lacks(Capabilities::PERFMON));
    (bpf || perfmon).then(|| Unavailable::NoCapabilities {
        bpf,
        perfmon,
        root: effective_user(status) == Some(0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_missing_capabilities_are_named_and_root_without_them_is_recognised() {
        let status = |user: &str, held: u64| {
            format!("Name:\tx\nUid:\t1000\t{user}\t0\t0\nCapEff:\t{held:x}\n")
        };
        let no = |bpf, perfmon, root| Some(Unavailable::NoCapabilities { bpf, perfmon, root });
        assert_eq!(lacking(&status("0", 0)), no(true, true, true));
        assert_eq!(lacking(&status("1000", 0)), no(true, true, false));
        assert_eq!(lacking(""), no(true, true, false));
        assert_eq!(
            lacking(&status("1000", 1 << Capabilities::BPF)),
            no(false, true, false)
        );
        assert_eq!(
            lacking(&status("1000", 1 << Capabilities::PERFMON)),
            no(true, false, false)
        );
        assert_eq!(lacking(&status("1000", 1 << Capabilities::SYS_ADMIN)), None);
        assert_eq!(
            lacking(&status(
                "1000",
                1 << Capabilities::BPF | 1 << Capabilities::PERFMON
            )),
            None
        );
    }
}
