//! How much memory the loads may use.

use std::fs;
use std::path::Path;

/// By default one load uses at most this fraction of the memory available:
/// one 16th, so that the standard load stays below one quarter.
pub const DEFAULT_SHARE: u64 = 16;

/// By default the large areas of all loads of a list together use at most this fraction of
/// the memory available: one quarter, so that 100 MB fit into 1 GB.
pub const AREA_SHARE: u64 = 4;

/// Loads that together need more than this fraction of the memory
/// available (one half) are refused.
pub const REFUSED_SHARE: u64 = 2;

/// Memory that is available without swapping and within the limits of this process's control
/// group, in bytes.
pub fn available() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let cgroup = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let machine = meminfo_available(&meminfo).unwrap_or(256 << 20);
    let group = group_available(&cgroup, Path::new("/sys/fs/cgroup"));
    group.map_or(machine, |group| group.min(machine))
}

fn meminfo_available(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kilobytes * 1024)
}

/// The tightest of the limits from the group up to the root.
fn group_available(cgroup: &str, mount: &Path) -> Option<u64> {
    let rooms = cgroup.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let controllers = fields.nth(1)?;
        let path = fields.next()?.trim_start_matches('/');
        match controllers {
            "" => room(mount, path, "memory.max", "memory.current"),
            _ if controllers.split(',').any(|name| name == "memory") => room(
                &mount.join("memory"),
                path,
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            ),
            _ => None,
        }
    });
    rooms.min()
}

fn room(mount: &Path, path: &str, limit: &str, usage: &str) -> Option<u64> {
    let number = |file| -> Option<u64> { fs::read_to_string(file).ok()?.trim().parse().ok() };
    let group = mount.join(path);
    let groups = group.ancestors().take_while(|dir| dir.starts_with(mount));
    // "max" is not a number: no limit.
    let rooms = groups.filter_map(|dir| {
        let limit = number(dir.join(limit))?;
        Some(limit.saturating_sub(number(dir.join(usage)).unwrap_or(0)))
    });
    rooms.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_in_kilobytes() {
        let text = "MemTotal:       2000 kB\nMemAvailable:    1000 kB\n";
        assert_eq!(meminfo_available(text), Some(1_024_000));
        assert_eq!(meminfo_available(""), None);
    }

    #[test]
    fn the_tightest_group_counts() {
        let mount = tempfile::tempdir().expect("a directory");
        let inner = mount.path().join("outer/inner");
        fs::create_dir_all(&inner).expect("groups");
        let write = |dir: &Path, file: &str, text: &str| {
            fs::write(dir.join(file), text).expect("a file of the group");
        };
        write(&inner, "memory.max", "max\n");
        write(&mount.path().join("outer"), "memory.max", "5000\n");
        write(&mount.path().join("outer"), "memory.current", "2000\n");
        let room = group_available("0::/outer/inner\n", mount.path());
        assert_eq!(room, Some(3000));
        assert_eq!(group_available("0::/\n", mount.path()), None);
        assert_eq!(group_available("", mount.path()), None);
    }
}
