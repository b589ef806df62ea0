//! Our control groups and their limits, in version 1 and 2.

use crate::root::{Reader, Root};
use punctual_record::explanation::{GroupLimit, GroupThrottling, RT_RUNTIME};

/// The control groups of this process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cgroups {
    /// `controllers:path`, one for each hierarchy in which we are not at the root.
    pub paths: Vec<String>,
    /// Limits that apply, `file = value`.
    pub limits: Vec<String>,
    /// Limits on CPU time, the nearest group's first.
    pub bounds: Vec<GroupLimit>,
    /// Runtime of our real-time group and the file that sets it; absent if the
    /// kernel has no real-time group scheduling or doesn't show it.
    pub rt_group: Option<(i64, String)>,
    /// The cpuset that applies to us; absent if none is visible.
    pub cpuset: Option<Cpuset>,
    /// The directory of the isolated partition that we are in.
    pub partition: Option<String>,
    /// CPUs of isolated partitions and of `isolcpus`, as the root of version 2 lists them.
    pub isolated: Vec<usize>,
}

/// A cpuset.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpuset {
    /// The file that lists its CPUs.
    pub file: String,
    /// The effective CPUs.
    pub cpus: Vec<usize>,
}

impl Cgroups {
    fn bound(&mut self, group: &str, file: &str, runtime_us: u64, period_us: u64) {
        self.bounds.push(GroupLimit {
            group: group.to_owned(),
            file: file.to_owned(),
            runtime_us,
            period_us,
            room_us: None,
            throttled: None,
        });
    }
}

/// One hierarchy.
pub(super) struct Hierarchy {
    /// Controllers of version 1; empty for version 2.
    pub(super) controllers: Vec<String>,
    /// Where it is mounted.
    pub(super) mount_point: String,
    /// The group that is mounted there.
    mount_root: String,
}

/// The deepest nesting of groups, so that garbage can't keep us climbing.
const DEPTH_LIMIT: usize = 32;

/// Reads our control groups.
#[must_use]
pub fn read(reader: &mut Reader<'_>) -> Cgroups {
    read_of(reader, "/proc/self/cgroup")
}

/// The cpuset of the thread that this file of `/proc` describes, where one is visible.
pub(crate) fn cpuset_of(root: &Root, file: &str) -> Option<Cpuset> {
    read_of(&mut Reader::new(root), file).cpuset
}

/// Reads the control groups of the thread that this file of `/proc` describes.
pub(super) fn read_of(reader: &mut Reader<'_>, file: &str) -> Cgroups {
    let mut groups = Cgroups::default();
    let Some(own) = reader.optional(file) else {
        return groups;
    };
    let hierarchies: Vec<Hierarchy> = reader
        .text("/proc/self/mountinfo")
        .unwrap_or_default()
        .lines()
        .filter_map(hierarchy)
        .collect();
    for line in own.lines().take(64) {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            reader.note(file, crate::root::not_understood(line));
            continue;
        };
        if path != "/" {
            let name = if controllers.is_empty() {
                "v2"
            } else {
                controllers
            };
            groups.paths.push(format!("{name}:{path}"));
        }
        let Some(found) = hierarchies
            .iter()
            .find(|h| h.controllers.join(",") == controllers || holds(h, controllers))
        else {
            continue;
        };
        climb(reader, found, path, &mut groups);
    }
    groups
}

/// Whether a version 1 hierarchy has exactly these controllers.
pub(super) fn holds(hierarchy: &Hierarchy, controllers: &str) -> bool {
    !controllers.is_empty()
        && controllers
            .split(',')
            .all(|c| hierarchy.controllers.iter().any(|h| h == c))
}

/// Parses a line of mountinfo that mounts a control group hierarchy.
pub(super) fn hierarchy(line: &str) -> Option<Hierarchy> {
    let (place, kind) = line.split_once(" - ")?;
    let mut kind = kind.split(' ');
    let controllers = match kind.next()? {
        "cgroup2" => Vec::new(),
        "cgroup" => kind
            .nth(1)?
            .split(',')
            .filter(|option| !matches!(*option, "rw" | "ro"))
            .map(str::to_owned)
            .collect(),
        _ => return None,
    };
    let mut place = place.split(' ').skip(3);
    Some(Hierarchy {
        controllers,
        mount_root: place.next()?.to_owned(),
        mount_point: place.next()?.to_owned(),
    })
}

/// Reads the limits of our group and its ancestors, as far as they are visible.
fn climb(reader: &mut Reader<'_>, hierarchy: &Hierarchy, path: &str, groups: &mut Cgroups) {
    let below = if hierarchy.mount_root == "/" {
        path
    } else {
        path.strip_prefix(&hierarchy.mount_root).unwrap_or("")
    };
    let mut names: Vec<&str> = below
        .split('/')
        .filter(|name| !matches!(*name, "" | "." | ".."))
        .collect();
    names.truncate(DEPTH_LIMIT);
    let mut in_partition = None;
    for depth in (0..=names.len()).rev() {
        let mut directory = hierarchy.mount_point.trim_end_matches('/').to_owned();
        for name in &names[..depth] {
            directory.push('/');
            directory.push_str(name);
        }
        let own = depth == names.len();
        if hierarchy.controllers.is_empty() {
            limits_v2(reader, &directory, own, groups);
            cpuset_v2(reader, &directory, &mut in_partition, groups);
            bound_v2(reader, &directory, groups);
        } else {
            if hierarchy.controllers.iter().any(|it| it == "cpu") {
                let root = depth == 0 && hierarchy.mount_root == "/";
                bounds_v1(reader, &directory, root, groups);
            }
            for controller in &hierarchy.controllers {
                limits_v1(reader, controller, &directory, own, groups);
            }
        }
    }
}

fn limits_v2(reader: &mut Reader<'_>, directory: &str, own: bool, groups: &mut Cgroups) {
    let mut keep = |reader: &mut Reader<'_>, name: &str, unlimited: &str| {
        let file = format!("{directory}/{name}");
        if let Some(value) = reader.optional(&file)
            && !value.is_empty()
            && value.split_whitespace().next() != Some(unlimited)
        {
            groups.limits.push(format!("{file} = {value}"));
        }
    };
    keep(reader, "cpu.max", "max");
    keep(reader, "memory.max", "max");
    if own {
        keep(reader, "cpuset.cpus.effective", "");
        keep(reader, "cpuset.cpus.partition", "member");
    }
}

/// A quota of version 2, `RUNTIME PERIOD`.
fn bound_v2(reader: &mut Reader<'_>, group: &str, groups: &mut Cgroups) {
    let Some(text) = reader.optional(&format!("{group}/cpu.max")) else {
        return;
    };
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    if let (Some(Ok(runtime_us)), Some(Ok(period_us))) = (numbers.next(), numbers.next()) {
        groups.bound(group, "cpu.max", runtime_us, period_us);
    }
}

/// The quota of version 1, and the budget of real-time threads. At the machine's root group the
/// latter is `kernel.sched_rt_runtime_us`, not a group's limit.
fn bounds_v1(reader: &mut Reader<'_>, group: &str, root: bool, groups: &mut Cgroups) {
    let mut pair = |runtime: &str, period: &str| {
        let runtime = reader.number::<i64>(&format!("{group}/{runtime}"))?;
        let period = reader.number::<u64>(&format!("{group}/{period}"))?;
        Some((u64::try_from(runtime).ok()?, period))
    };
    if let Some((runtime_us, period_us)) = pair("cpu.cfs_quota_us", "cpu.cfs_period_us") {
        groups.bound(group, "cpu.cfs_quota_us", runtime_us, period_us);
    }
    if root {
        return;
    }
    if let Some((runtime_us, period_us)) = pair(RT_RUNTIME, "cpu.rt_period_us")
        && runtime_us < period_us
    {
        groups.bound(group, RT_RUNTIME, runtime_us, period_us);
        if let Some(bound) = groups.bounds.last_mut() {
            bound.room_us = room_us(reader, group, runtime_us);
        }
    }
}

/// Sibling groups that are examined.
const SIBLINGS: usize = 1024;

/// How much runtime the parent group has left for the real-time threads of this one, if all have the
/// same period.
fn room_us(reader: &Reader<'_>, group: &str, runtime_us: u64) -> Option<u64> {
    let (above, _) = group.rsplit_once('/')?;
    let number = |directory: &str| -> Option<i64> {
        let text = reader.root.text(&format!("{directory}/{RT_RUNTIME}"));
        text.ok()?.parse().ok()
    };
    let all = number(above)?;
    let names = reader.root.names(above).ok()?;
    let given: u64 = names
        .iter()
        .take(SIBLINGS)
        .filter_map(|name| u64::try_from(number(&format!("{above}/{name}"))?).ok())
        .fold(0, u64::saturating_add);
    let all = u64::try_from(all).ok()?;
    let others = given.saturating_sub(runtime_us);
    Some(all.saturating_sub(others).saturating_sub(runtime_us))
}

/// The nearest group with a cpuset is the effective one, and the nearest that is not a member
/// of its parent's partition determines the kind of partition.
fn cpuset_v2(
    reader: &mut Reader<'_>,
    directory: &str,
    in_partition: &mut Option<String>,
    groups: &mut Cgroups,
) {
    if groups.cpuset.is_none() {
        keep_cpuset(reader, format!("{directory}/cpuset.cpus.effective"), groups);
    }
    let state = reader.optional(&format!("{directory}/cpuset.cpus.partition"));
    if let Some(state) = state.filter(|state| in_partition.is_none() && state != "member") {
        // `isolated invalid (reason)` is not a valid partition.
        groups.partition = (state == "isolated").then(|| directory.to_owned());
        *in_partition = Some(state);
    }
    let isolated = reader.cpus(&format!("{directory}/cpuset.cpus.isolated"));
    groups.isolated.extend(isolated.unwrap_or_default());
}

fn keep_cpuset(reader: &mut Reader<'_>, file: String, groups: &mut Cgroups) {
    let cpus = reader.cpus(&file).filter(|cpus| !cpus.is_empty());
    if let Some(cpus) = cpus {
        groups.cpuset = Some(Cpuset { file, cpus });
    }
}

fn limits_v1(
    reader: &mut Reader<'_>,
    controller: &str,
    directory: &str,
    own: bool,
    groups: &mut Cgroups,
) {
    let number = |reader: &mut Reader<'_>, name: &str| -> Option<i64> {
        reader.number(&format!("{directory}/{name}"))
    };
    match controller {
        "cpu" => {
            if let Some(quota) = number(reader, "cpu.cfs_quota_us").filter(|quota| *quota > 0) {
                let period = number(reader, "cpu.cfs_period_us").unwrap_or(0);
                groups.limits.push(format!(
                    "{directory}/cpu.cfs_quota_us = {quota} of each {period}"
                ));
            }
            if own && let Some(runtime) = number(reader, "cpu.rt_runtime_us") {
                groups.rt_group = Some((runtime, format!("{directory}/cpu.rt_runtime_us")));
            }
        }
        "cpuset" if own => {
            let file = format!("{directory}/cpuset.effective_cpus");
            if let Some(cpus) = reader.optional(&file).filter(|cpus| !cpus.is_empty()) {
                groups.limits.push(format!("{file} = {cpus}"));
            }
            keep_cpuset(reader, file, groups);
        }
        "memory" => {
            // "No limit" is the highest number of pages, about 2^63 bytes.
            let limit = number(reader, "memory.limit_in_bytes").filter(|limit| *limit < 1 << 60);
            if let Some(limit) = limit {
                groups
                    .limits
                    .push(format!("{directory}/memory.limit_in_bytes = {limit}"));
            }
        }
        _ => {}
    }
}

/// The counters in a group's `cpu.stat` since its creation, in either version's format; absent
/// if the kernel doesn't count.
#[must_use]
pub fn throttling(root: &Root, directory: &str) -> Option<GroupThrottling> {
    let text = root.text(&format!("{directory}/cpu.stat")).ok()?;
    let number = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().parse::<u64>().ok()
    };
    let ns = number("throttled_usec ")
        .map(|us| us.saturating_mul(1000))
        .or_else(|| number("throttled_time "));
    Some(GroupThrottling {
        periods: number("nr_throttled ")?,
        ns: ns.unwrap_or(0),
    })
}
