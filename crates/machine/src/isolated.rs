//! The CPUs that are isolated: by a boot parameter, by a partition of cgroup v2, or by the exclusive
//! set of cgroup v1 that `tune` makes.

use punctual_record::finding::FindingState;
use punctual_rt::cpulist;

use crate::look::Look;
use crate::root::Root;

/// The CPUs of `isolcpus=`; newer kernels list those of partitions, too.
pub(crate) const BY_KERNEL: &str = "/sys/devices/system/cpu/isolated";
/// The CPUs of isolated partitions, from Linux 6.7 on.
pub(crate) const BY_GROUPS: &str = "/sys/fs/cgroup/cpuset.cpus.isolated";

/// All of them, in ascending order. A file that can't be read or is not understood adds none.
pub(crate) fn isolated(root: &Root) -> Vec<usize> {
    let listed = |path: &str| list(path, &root.text(path).unwrap_or_default());
    let in_partition = in_partition(&mut |path| Ok(root.text(path).ok()));
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

/// The CPUs of the partition that `tune` makes: before Linux 6.7 the root group doesn't list them,
/// and with cgroup v1 they are those of an exclusive set.
///
/// # Errors
/// Those of `read`, which reads a file that a machine may lack; unknown, where a list is not
/// understood.
pub(crate) fn in_partition(
    read: &mut dyn FnMut(&str) -> Result<Option<String>, FindingState>,
) -> Result<Vec<usize>, FindingState> {
    let group = "/sys/fs/cgroup/punctual";
    let state = read(&format!("{group}/cpuset.cpus.partition"))?;
    let path = if state.is_some() {
        (state.as_deref() == Some("isolated")).then(|| format!("{group}/cpuset.cpus.effective"))
    } else {
        let mounts = read("/proc/mounts")?.unwrap_or_default();
        let place = mounts.lines().find_map(|line| {
            let mut words = line.split_whitespace().skip(1);
            let (place, kind, options) = (words.next()?, words.next()?, words.next()?);
            let has_controller = options.split(',').any(|option| option == "cpuset");
            (kind == "cgroup" && has_controller).then_some(place)
        });
        let Some(place) = place else {
            return Ok(Vec::new());
        };
        let balances = read(&format!("{place}/cpuset.sched_load_balance"))?;
        (balances.as_deref() == Some("0")).then(|| format!("{place}/punctual/cpuset.cpus"))
    };
    match path {
        Some(path) => list(&path, &read(&path)?.unwrap_or_default()),
        None => Ok(Vec::new()),
    }
}
