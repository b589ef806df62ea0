//! The CPUs that are isolated: by a boot parameter, by a partition of cgroup v2, or by the exclusive
//! set of cgroup v1 that `tune` makes.

use punctual_record::finding::FindingState;
use punctual_rt::cpulist;

use crate::look::Look;
use crate::root::Root;

/// The CPUs of `isolcpus=`.
pub(crate) const BY_KERNEL: &str = "/sys/devices/system/cpu/isolated";
/// The CPUs of isolated partitions, from Linux 6.7 on.
pub(crate) const BY_GROUPS: &str = "/sys/fs/cgroup/cpuset.cpus.isolated";

/// All of them, in ascending order. A file that can't be read or is not understood adds none.
pub(crate) fn isolated(root: &Root) -> Vec<usize> {
    let listed = |path: &str| list(path, &root.text(path).unwrap_or_default());
    let in_partition = in_partition(root, &mut |path| Ok(root.text(path).ok()));
    let lists = [listed(BY_KERNEL), listed(BY_GROUPS), in_partition];
    let mut cpus: Vec<usize> = lists.into_iter().flatten().flatten().collect();
    cpus.sort_unstable();
    cpus.dedup();
    cpus
}

/// The CPUs of a list in this file.
///
/// # Errors
/// Unknown, where the text is not understood.
pub(crate) fn list(path: &str, text: &str) -> Result<Vec<usize>, FindingState> {
    // A kernel without a list prints `(null)`.
    let text = if text == "(null)" { "" } else { text };
    Look::parsed(path, cpulist::numbers(text).ok())
}

/// Groups that are looked through, and how deep.
const GROUPS: usize = 4096;
const DEPTH: usize = 6;

/// The groups of cgroup v2 that were asked to isolate CPUs, whoever made them: the file says whether
/// they do, or why not.
fn partitions(root: &Root) -> Vec<String> {
    // Where both versions are mounted, the second has a place of its own.
    let top = match root.exists("/sys/fs/cgroup/unified/cgroup.controllers") {
        true => "/sys/fs/cgroup/unified",
        false if root.exists("/sys/fs/cgroup/cpu") => return Vec::new(),
        false => "/sys/fs/cgroup",
    };
    let (mut found, mut seen) = (Vec::new(), 0);
    let mut level = vec![top.to_owned()];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for folder in level {
            // The files of a group begin with their controller.
            let files = [
                "cgroup.", "cpu.", "cpuset.", "memory.", "io.", "pids.", "hugetlb.", "misc.",
                "rdma.", "irq.", "dmem.",
            ];
            let mut names = root.names(&folder).unwrap_or_default();
            names.retain(|name| !files.iter().any(|file| name.starts_with(file)));
            names.sort();
            for name in names {
                seen += 1;
                let group = format!("{folder}/{name}");
                let state = root.text(&format!("{group}/{STATE}"));
                if state.is_ok_and(|state| state.starts_with("isolated")) {
                    found.push(group.clone());
                }
                next.push(group);
            }
            if seen > GROUPS {
                return found;
            }
        }
        level = next;
    }
    found
}

/// The file that says what a group of cgroup v2 is.
const STATE: &str = "cpuset.cpus.partition";

/// The CPUs of isolated partitions: before Linux 6.7 the root group doesn't list them, and with
/// cgroup v1 they are those of the exclusive set that `tune` makes.
///
/// # Errors
/// Those of `read`, which reads a file that a machine may lack; unknown, where a list is not
/// understood.
pub(crate) fn in_partition(
    root: &Root,
    read: &mut dyn FnMut(&str) -> Result<Option<String>, FindingState>,
) -> Result<Vec<usize>, FindingState> {
    let mut cpus = Vec::new();
    for group in partitions(root) {
        if read(&format!("{group}/{STATE}"))?.as_deref() == Some("isolated") {
            let path = format!("{group}/cpuset.cpus.effective");
            cpus.extend(list(&path, &read(&path)?.unwrap_or_default())?);
        }
    }
    let mounts = read("/proc/mounts")?.unwrap_or_default();
    let place = mounts.lines().find_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
        let has_controller = options.split(',').any(|option| option == "cpuset");
        (kind == "cgroup" && has_controller).then_some(place)
    });
    if let Some(place) = place
        && read(&format!("{place}/cpuset.sched_load_balance"))?.as_deref() == Some("0")
    {
        let path = format!("{place}/punctual/cpuset.cpus");
        cpus.extend(list(&path, &read(&path)?.unwrap_or_default())?);
    }
    Ok(cpus)
}
