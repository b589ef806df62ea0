//! What to do about a control group that was throttled.

use super::accused::system_unit;
use super::fix::write;
use punctual_record::Run;
use punctual_record::explanation::{GroupLimit, RT_RUNTIME};

/// The write that lifts a limit of a group, and whom it concerns beside the probe.
pub(super) fn lift(group: &str, file: &str, run: &Run) -> String {
    let path = format!("{group}/{file}");
    if file != RT_RUNTIME {
        let all = if file == "cpu.max" { "max" } else { "-1" };
        let below = group.trim_start_matches("/sys/fs/cgroup");
        // Version 1 has a mount for its controller.
        let below = match (file, below.trim_start_matches('/').split_once('/')) {
            ("cpu.max", _) | (_, None) => below,
            (_, Some((_, below))) => below,
        };
        let last = below.rsplit('/').next().unwrap_or("");
        let parts = below.split('/').filter(|part| !part.is_empty());
        let is_slice = parts.into_iter().all(|part| part.ends_with(".slice"));
        // A scope is of who made it: a container engine, a session.
        let unit = system_unit(below).filter(|unit| *unit == last);
        let engine = if let Some(unit) = unit.or(is_slice.then_some(last)) {
            format!("; for good: CPUQuota= in {unit}, which systemd may set again")
        } else {
            "; a container engine or service manager that made the group may set it again: change \
             it there as well"
                .to_owned()
        };
        return format!(
            "lift the CPU quota of its control group: {}; every thread of the group then takes \
             what it can get of the CPUs, from other groups too; a real-time thread is not bound \
             by it{engine}",
            write(&path, all)
        );
    }
    let limits = run.explanation.iter().flat_map(|it| &it.limits);
    let known = |it: &&GroupLimit| it.group == group && it.file == file;
    let room = limits
        .filter(known)
        .find_map(|it| Some((it.runtime_us, it.room_us?)));
    match room {
        Some((runtime_us, room_us @ 1..)) => format!(
            "give the real-time threads of its control group more of each period: {} (the group \
             above has no more to give); ordinary threads get what is left, so a real-time thread \
             that never sleeps starves them for as long",
            write(&path, &runtime_us.saturating_add(room_us).to_string())
        ),
        Some((_, 0)) => format!(
            "give the real-time threads of its control group more of each period: the groups \
             above and beside it leave no room for more than {path} has, so lower theirs or raise \
             the one above first; or move the program to a group that has more"
        ),
        None => format!(
            "give the real-time threads of its control group more of each period, by a write to \
             {path}: not more than the group above has left"
        ),
    }
}
