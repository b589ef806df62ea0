//! Gives up the privileges that a responder does not need.

use std::io;

use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_keep_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// The user and the group that own nothing.
const NOBODY: u32 = 65_534;

/// What a responder does beyond answering over TCP and UDP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Further {
    /// It answers Ethernet frames.
    pub raw: bool,
    /// It records the kernel's events.
    pub explain: bool,
}

/// Keeps the capabilities for real-time priority and locked memory, for a low port if there is one,
/// and for what it does further; and of root, neither its user nor its groups. To be called before there is a second thread:
/// each has its own.
///
/// # Errors
/// The kernel's. What was given up before stays so. With [`Further::raw`], the capability is missing.
pub fn give_up(port: u16, further: Further) -> io::Result<()> {
    let mut kept = CapabilitySet::SYS_NICE | CapabilitySet::IPC_LOCK;
    if port < 1024 {
        kept |= CapabilitySet::NET_BIND_SERVICE;
    }
    let had = capabilities(None)?;
    if further.raw {
        if !had.permitted.contains(CapabilitySet::NET_RAW) {
            let why = "--raw needs the capability CAP_NET_RAW: run it as root";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        kept |= CapabilitySet::NET_RAW;
    }
    if further.explain {
        kept |= CapabilitySet::BPF | CapabilitySet::PERFMON;
    }
    if rustix::process::geteuid().is_root() {
        set_keep_capabilities(true)?;
        let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        // In a user namespace there may be no such user, and no right to change groups.
        let _ = set_thread_groups(&[]);
        let _ = set_thread_res_gid(group, group, group);
        let _ = set_thread_res_uid(user, user, user);
    }
    let kept = kept & had.permitted;
    set_capabilities(
        None,
        CapabilitySets {
            effective: kept,
            permitted: kept,
            inheritable: CapabilitySet::empty(),
        },
    )?;
    // Nor does any program that it might start get more.
    set_no_new_privs(true)?;
    Ok(())
}
