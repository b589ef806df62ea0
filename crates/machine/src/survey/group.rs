//! Control groups by name, and the programs in them.

use std::error::Error;
use std::fmt;
use std::os::unix::fs::MetadataExt as _;

use super::cgroup::{self, Hierarchy};
use crate::root::{Root, decimal};

/// Directories that are searched for a group, and for the programs of one.
const DIRECTORIES: usize = 1 << 14;
/// The deepest nesting of groups.
const DEPTH: usize = 32;

/// A control group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its directory's path.
    pub directory: String,
    /// The kernel's number of it.
    pub id: u64,
    /// The number of its hierarchy; 0 for version 2.
    pub hierarchy: i32,
}

/// Why a group isn't found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum GroupError {
    /// No path contains what was asked for.
    None {
        /// What was asked for.
        wanted: String,
    },
    /// Several do.
    Several {
        /// What was asked for.
        wanted: String,
        /// Their paths.
        paths: Vec<String>,
    },
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None { wanted } => write!(
                f,
                "--cgroup: no control group's path contains '{wanted}'; `systemd-cgls` and \
                 /proc/PID/cgroup list them"
            ),
            Self::Several { wanted, paths } => {
                let more = if paths.len() > 4 { ", ..." } else { "" };
                write!(
                    f,
                    "--cgroup: {} control groups' paths contain '{wanted}': name one by its path \
                     ({}{more})",
                    paths.len(),
                    paths[..paths.len().min(4)].join(", ")
                )
            }
        }
    }
}

impl Error for GroupError {}

/// Finds a group by its path, as it is mounted or as `/proc/PID/cgroup` has it, or by a part of
/// its path, such as the id of a container.
///
/// # Errors
/// There is none, or there are several.
pub fn find(root: &Root, wanted: &str) -> Result<Group, GroupError> {
    let mut best: Option<(usize, Vec<Group>)> = None;
    for (hierarchy, number) in hierarchies(root) {
        let found = matches(root, &hierarchy, wanted).into_iter();
        let groups: Vec<Group> = found
            .filter_map(|directory| {
                let id = std::fs::metadata(root.path(&directory)).ok()?.ino();
                Some(Group {
                    directory,
                    id,
                    hierarchy: number,
                })
            })
            .collect();
        let members = groups.iter().map(|group| group.members(root).len()).sum();
        // The same group is in several hierarchies: the one with its programs is chosen, and of
        // several of these the one of version 2.
        let better = best.as_ref().is_none_or(|(most, others)| {
            members > *most || members == *most && number < others[0].hierarchy
        });
        if better && !groups.is_empty() {
            best = Some((members, groups));
        }
    }
    let Some((_, mut groups)) = best else {
        return Err(GroupError::None {
            wanted: wanted.to_owned(),
        });
    };
    if groups.len() > 1 {
        return Err(GroupError::Several {
            wanted: wanted.to_owned(),
            paths: groups.into_iter().map(|group| group.directory).collect(),
        });
    }
    Ok(groups.remove(0))
}

/// The mounted control group hierarchies, with their numbers.
fn hierarchies(root: &Root) -> Vec<(Hierarchy, i32)> {
    let own = root.text("/proc/self/cgroup").unwrap_or_default();
    let number = |hierarchy: &Hierarchy| {
        own.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers) = (parts.next()?, parts.next()?);
            let same = match hierarchy.controllers.is_empty() {
                true => controllers.is_empty(),
                false => cgroup::holds(hierarchy, controllers),
            };
            if same { decimal(number) } else { None }
        })
    };
    let mounts = root.text("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.lines().filter_map(cgroup::hierarchy);
    mounted
        .filter_map(|hierarchy| {
            let number = number(&hierarchy)?;
            Some((hierarchy, number))
        })
        .collect()
}

/// The directories of the matching groups.
fn matches(root: &Root, hierarchy: &Hierarchy, wanted: &str) -> Vec<String> {
    let top = hierarchy.mount_point.trim_end_matches('/');
    if wanted.starts_with('/') {
        let wanted = wanted.trim_end_matches('/');
        let as_mounted = wanted
            .strip_prefix(top)
            .filter(|below| below.is_empty() || below.starts_with('/'));
        let directory = match as_mounted {
            Some(_) => wanted.to_owned(),
            None => format!("{top}{wanted}"),
        };
        let is_group = root.exists(&format!("{directory}/cgroup.procs"));
        return is_group.then_some(directory).into_iter().collect();
    }
    let mut found = Vec::new();
    each_below(root, top, |directory| {
        let is_meant = directory[top.len()..].contains(wanted) && !wanted.is_empty();
        if is_meant {
            found.push(directory.to_owned());
        }
        // Groups below a matching one are part of it.
        !is_meant
    });
    found
}

/// Visits a directory and its descendants, as long as the callback says so.
fn each_below(root: &Root, top: &str, mut goes_on: impl FnMut(&str) -> bool) {
    let mut waiting = vec![(top.to_owned(), 0)];
    let mut left = DIRECTORIES;
    while let Some((directory, depth)) = waiting.pop() {
        if left == 0 || !goes_on(&directory) || depth == DEPTH {
            continue;
        }
        left -= 1;
        let entries = std::fs::read_dir(root.path(&directory));
        for entry in entries.into_iter().flatten().flatten() {
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if let (true, Ok(name)) = (is_directory, entry.file_name().into_string()) {
                waiting.push((format!("{directory}/{name}"), depth + 1));
            }
        }
    }
}

impl Group {
    /// The programs in the group and below it, by their numbers; 0 for each that is not visible
    /// from here.
    #[must_use]
    pub fn members(&self, root: &Root) -> Vec<u32> {
        let mut members = Vec::new();
        each_below(root, &self.directory, |directory| {
            let text = root.text(&format!("{directory}/cgroup.procs"));
            members.extend(text.unwrap_or_default().lines().filter_map(decimal::<u32>));
            true
        });
        members
    }

    /// Whether it still exists.
    #[must_use]
    pub fn exists(&self, root: &Root) -> bool {
        root.exists(&self.directory)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A machine with version 1 and 2, and with these groups and their programs.
    fn machine(groups: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, text).expect("a file");
        };
        write("proc/self/cgroup", "7:cpu,cpuacct:/\n0::/\n");
        write(
            "proc/self/mountinfo",
            "30 24 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
             31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
        );
        for (group, programs) in groups {
            write(&format!("sys/fs/cgroup/{group}/cgroup.procs"), programs);
        }
        let root = Root::recorded(directory.path());
        (directory, root)
    }

    #[test]
    fn a_group_is_found_by_each_of_its_paths_and_by_a_part_of_one() {
        let (_kept, root) = machine(&[
            ("unified/system/docker-0af3.scope", "17\n18\n"),
            ("unified/system/docker-0af3.scope/inner", "19\n"),
            ("cpu/system/docker-0af3.scope", ""),
        ]);
        for wanted in [
            "/system/docker-0af3.scope",
            "/sys/fs/cgroup/unified/system/docker-0af3.scope/",
            "0af3",
        ] {
            let group = find(&root, wanted).expect(wanted);
            assert_eq!(group.hierarchy, 0);
            assert!(
                group
                    .directory
                    .ends_with("unified/system/docker-0af3.scope")
            );
            let mut members = group.members(&root);
            members.sort_unstable();
            assert_eq!(members, [17, 18, 19]);
        }
    }

    #[test]
    fn of_several_hierarchies_the_one_with_the_programs_is_chosen() {
        let (_kept, root) = machine(&[("unified/a", ""), ("cpu/a", "5\n")]);
        let group = find(&root, "/a").expect("it");
        assert_eq!((group.hierarchy, group.members(&root)), (7, vec![5]));
    }

    #[test]
    fn no_match_and_several_matches_are_reported_in_one_line() {
        let (_kept, root) = machine(&[("unified/job-1", "5\n"), ("unified/job-2", "6\n")]);
        for (wanted, said) in [
            ("job", "2 control groups"),
            ("x", "no control"),
            ("", "no "),
        ] {
            let why = find(&root, wanted).expect_err(wanted).to_string();
            assert!(why.contains(said) && why.lines().count() == 1, "{why}");
        }
    }
}
