//! A cgroup v2 partition: CPUs on which the scheduler balances nothing.

use std::io;
use std::path::Path;

use punctual_record::cpu_list;
use punctual_record::finding::FindingId;
use punctual_record::proc_stat::Stat;
use punctual_record::tuning::{Change, Setting, ThreadIdentity};
use punctual_rt::cpuset::{Cpuset, CpusetError, Cpusets, Version};
use punctual_rt::{affinity, cpulist};

use super::TuneError;
use super::setting::{find_thread, put};
use crate::root::Root;

const ABSENT: &str = "absent";
/// The name of the partition.
const NAME: &str = "punctual";

/// The changes that give these CPUs a partition of their own. Before Linux 7.0 the kernel
/// overwrites the CPUs of its own threads when a partition begins or ends: each of them is a
/// change as well, so that the journal has them, and those that may run elsewhere are moved.
///
/// # Errors
/// [`TuneError::NoPartitions`] with cgroup v1; [`TuneError::Partition`] without a controller.
pub fn partition_changes(cpus: &[usize]) -> Result<Vec<Change>, TuneError> {
    let sets = Cpusets::of_this_machine().map_err(TuneError::Partition)?;
    if sets.version() != Version::Two {
        return Err(TuneError::NoPartitions);
    }
    let folder = match sets.find(NAME) {
        Ok(set) => set.folder().to_owned(),
        Err(CpusetError::System(folder, error)) if error.kind() == io::ErrorKind::NotFound => {
            folder
        }
        Err(error) => return Err(TuneError::Partition(error)),
    };
    let mut changes: Vec<Change> = kernel_threads()
        .into_iter()
        .map(|(thread, now)| {
            let elsewhere: Vec<usize> = now
                .iter()
                .filter(|it| !cpus.contains(it))
                .copied()
                .collect();
            // An interrupt's thread follows the interrupt.
            let stays = elsewhere.is_empty() || thread.name.starts_with("irq/");
            Change {
                knob: FindingId::IsolatedCpus.into(),
                setting: Setting::Affinity { thread },
                value: cpu_list(if stays { &now } else { &elsewhere }),
            }
        })
        .collect();
    changes.push(Change {
        knob: FindingId::IsolatedCpus.into(),
        setting: Setting::Partition {
            folder: folder.display().to_string(),
        },
        value: cpu_list(cpus),
    });
    Ok(changes)
}

/// The kernel's threads that may be given other CPUs, and their CPUs.
fn kernel_threads() -> Vec<(ThreadIdentity, Vec<usize>)> {
    /// Threads with this flag stay where the kernel put them.
    const PF_NO_SETAFFINITY: u64 = 0x0400_0000;
    let root = Root::live();
    let mut threads = Vec::new();
    for number in root.numbered("/proc", "") {
        let Ok(line) = root.text(&format!("/proc/{number}/stat")) else {
            continue;
        };
        let is_movable = Stat::parse(&line).is_some_and(|stat| {
            let flags = stat.count(9).unwrap_or(PF_NO_SETAFFINITY);
            stat.is_of_kernel() && flags & PF_NO_SETAFFINITY == 0
        });
        let Some(tid) = i32::try_from(number).ok().filter(|_| is_movable) else {
            continue;
        };
        if let (Ok(thread), Ok(cpus)) = (find_thread(tid), affinity::get(tid)) {
            threads.push((thread, cpus));
        }
    }
    threads
}

fn find(folder: &str) -> io::Result<Option<Cpuset>> {
    let sets = Cpusets::of_this_machine().map_err(io::Error::other)?;
    let name = Path::new(folder).file_name().and_then(|name| name.to_str());
    match sets.find(name.ok_or(io::ErrorKind::InvalidInput)?) {
        Ok(set) => Ok(Some(set)),
        Err(CpusetError::System(_, error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io::Error::other(error)),
    }
}

pub(super) fn read(folder: &str) -> io::Result<String> {
    let Some(set) = find(folder)? else {
        return Ok(ABSENT.to_owned());
    };
    let cpus = set.cpus().map_err(io::Error::other)?;
    Ok(match set.state() {
        Ok(()) => cpus,
        Err(CpusetError::NotIsolated(reason)) => format!("{cpus} ({reason})"),
        Err(error) => return Err(io::Error::other(error)),
    })
}

pub(super) fn write(folder: &str, value: &str) -> io::Result<()> {
    if let Some(set) = find(folder)? {
        if value != ABSENT && set.state().is_err() {
            // Somebody else's group of this name.
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        // A group that is removed gives its CPUs back some time later (Linux 6.1: by a work item);
        // one that becomes an ordinary member does so at once.
        put(&format!("{folder}/cpuset.cpus.partition"), "member")?;
        set.remove().map_err(io::Error::other)?;
    }
    if value == ABSENT {
        return Ok(());
    }
    let cpus = cpulist::numbers(value).map_err(|_| io::ErrorKind::InvalidInput)?;
    let sets = Cpusets::of_this_machine().map_err(io::Error::other)?;
    let name = Path::new(folder).file_name().and_then(|name| name.to_str());
    let name = name.ok_or(io::ErrorKind::InvalidInput)?;
    sets.create(name, &cpus).map_err(io::Error::other)?;
    Ok(())
}
