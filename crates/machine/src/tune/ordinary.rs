//! What keeps time for ordinary threads, and whether that can be changed here.

use std::io;

use punctual_record::explanation::{Keeper, OrdinaryTime};
use punctual_record::taskset::analysis::ServerTime;
use punctual_record::tuning::Setting;

use rustix::process::geteuid;

use super::setting::check_writable;
use crate::root::{Root, plain};
use crate::survey::{online, ordinary_times};

/// Reads it; nothing is changed.
#[must_use]
pub fn time_of_ordinary_threads(root: &Root) -> Vec<OrdinaryTime> {
    let times = ordinary_times(root, None);
    let cpu = online(root).first().copied().unwrap_or(0);
    let server = format!("/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime");
    let kept = |by, time: Option<ServerTime>, path: String| {
        let ServerTime {
            runtime_ns,
            period_ns,
            ..
        } = time?;
        // That this user may not says nothing of root.
        let says = |error: &io::Error| {
            geteuid().is_root() || error.kind() != io::ErrorKind::PermissionDenied
        };
        let locked = check_writable(&Setting::File { path }).err().filter(says);
        Some(OrdinaryTime {
            by,
            kept_ns: runtime_ns,
            period_ns,
            locked: locked.as_ref().map(plain),
        })
    };
    let throttling = "/proc/sys/kernel/sched_rt_runtime_us".to_owned();
    let each = [
        kept(Keeper::FairServer, times.fair_server, server),
        kept(Keeper::RtThrottling, times.rt_throttling, throttling),
    ];
    each.into_iter().flatten().collect()
}
