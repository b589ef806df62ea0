//! How much memory the control group of the process still allows.
//!
//! A group's limit answers with the OOM killer, not with ENOMEM: look first before much is taken at
//! a time. Another process of the group may take it a moment later.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::cancel;

/// The names of one version's files.
struct Names {
    limit: &'static str,
    usage: &'static str,
    /// Lines of `memory.stat`: what is given up before anybody is killed.
    reclaimable: [&'static str; 2],
}

const TWO: Names = Names {
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: ["inactive_file", "active_file"],
};
const ONE: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: ["total_inactive_file", "total_active_file"],
};

/// The bytes that the process may still take before its memory control group, or one above it,
/// kills somebody; `None` where none has a limit, or none is known. Not for a real-time thread:
/// it reads files.
#[must_use]
pub fn memory_left() -> Option<u64> {
    let _held = cancel::hold();
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let of_version = |names: &Names, kind: &str, option: &str, controllers: &str| {
        let root = mounted(&mounts, kind, option)?;
        let group = group_of(&groups, controllers)?;
        left_from(&root, group, names)
    };
    let found = [
        of_version(&TWO, "cgroup2", "", ""),
        of_version(&ONE, "cgroup", "memory", "memory"),
    ];
    let least = found.into_iter().flatten().min()?;
    // What lies in other programs' anonymous memory may go to swap first.
    Some(least.saturating_add(free_swap()))
}

/// ENOMEM where so many bytes, taken at once, would have the memory control group kill somebody, as
/// far as that is known in advance. Not for a real-time thread: it reads files where they are many.
///
/// # Errors
/// ENOMEM.
pub fn allows(bytes: usize) -> io::Result<()> {
    /// No more is looked at: it comes and goes with each call of malloc.
    const LITTLE: usize = 1 << 20;
    if bytes > LITTLE && memory_left().is_some_and(|left| left < bytes as u64) {
        return Err(io::Error::from_raw_os_error(libc::ENOMEM));
    }
    Ok(())
}

/// Where a hierarchy is mounted.
fn mounted(mounts: &str, kind: &str, option: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (place, found, options) = (words.next()?, words.next()?, words.next()?);
        let has = option.is_empty() || options.split(',').any(|it| it == option);
        (found == kind && has).then(|| PathBuf::from(place))
    })
}

/// The group of the process among those of a hierarchy, `ID:CONTROLLERS:/PATH`.
fn group_of<'a>(groups: &'a str, controllers: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (found, path) = (parts.next()?, parts.next()?);
        let is = match controllers {
            "" => found.is_empty(),
            name => found.split(',').any(|it| it == name),
        };
        is.then_some(path)
    })
}

/// The least that the group and those above it allow.
fn left_from(root: &Path, group: &str, names: &Names) -> Option<u64> {
    let mut folder = root.join(group.trim_start_matches('/'));
    // In a container the path may be that of outside, and the root is the group itself.
    if !folder.exists() {
        folder = root.to_owned();
    }
    let mut least = None;
    loop {
        if let Some(left) = left_in(&folder, names) {
            least = Some(least.map_or(left, |known: u64| known.min(left)));
        }
        if folder == root || !folder.pop() {
            return least;
        }
    }
}

fn left_in(folder: &Path, names: &Names) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(folder.join(name)).ok()?;
        text.trim().parse().ok()
    };
    // "max" is no number; version 1 writes 2^63 for it, down to a page.
    let limit = number(names.limit).filter(|&limit| limit < 1 << 62)?;
    let usage = number(names.usage)?;
    let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    let reclaimable: u64 = stat
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| names.reclaimable.contains(name))
        .filter_map(|(_, value)| value.trim().parse::<u64>().ok())
        .sum();
    Some(limit.saturating_sub(usage.saturating_sub(reclaimable)))
}

fn free_swap() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("SwapFree:"));
    let kilobytes = line.and_then(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_group_and_the_mount_are_found() {
        let groups = "9:name=systemd:/\n4:cpu,memory:/box/a:b\n0::/slice\n";
        assert_eq!(group_of(groups, ""), Some("/slice"));
        assert_eq!(group_of(groups, "memory"), Some("/box/a:b"));
        assert_eq!(group_of("rubbish", "memory"), None);
        let mounts = "none /sys/fs/cgroup/m cgroup rw,memory 0 0\nx /u cgroup2 rw 0 0\n";
        assert_eq!(mounted(mounts, "cgroup2", ""), Some("/u".into()));
        let one = mounted(mounts, "cgroup", "memory");
        assert_eq!(one, Some("/sys/fs/cgroup/m".into()));
        assert_eq!(mounted(mounts, "cgroup", "cpuset"), None);
    }

    #[test]
    fn the_least_of_the_groups_counts_without_what_can_be_reclaimed() {
        let root = std::env::temp_dir().join(format!("punctual-cgroup-{}", std::process::id()));
        let inner = root.join("slice/inner");
        fs::create_dir_all(&inner).unwrap();
        let put = |folder: &Path, limit: &str, usage: &str| {
            fs::write(folder.join("memory.max"), limit).unwrap();
            fs::write(folder.join("memory.current"), usage).unwrap();
        };
        put(&root.join("slice"), "1000\n", "900\n");
        fs::write(
            root.join("slice/memory.stat"),
            "anon 5\ninactive_file 60\nactive_file 40\n",
        )
        .unwrap();
        put(&inner, "max\n", "700\n");
        let left = left_from(&root, "/slice/inner", &TWO);
        put(&inner, "750\n", "700\n");
        let tighter = left_from(&root, "/slice/inner", &TWO);
        let none = left_from(&root, "/", &TWO);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((left, tighter, none), (Some(200), Some(50), None));
    }
}
