//! A cgroup v2 partition, or an exclusive set of cgroup v1: CPUs on which the scheduler balances
//! nothing.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use punctual_record::cpu_list;
use punctual_record::finding::FindingId;
use punctual_record::proc_stat::Stat;
use punctual_record::tuning::{Change, Setting, ThreadIdentity};
use punctual_rt::cpuset::{Cpuset, CpusetError, Cpusets, Version};
use punctual_rt::{affinity, cpulist};

use super::TuneError;
use super::setting::{find_thread, put};
use crate::mask::lacking;
use crate::root::Root;

const ABSENT: &str = "absent";
/// The name of the partition.
const NAME: &str = "punctual";
/// The name of the set for everything else, with cgroup v1.
const OTHERS: &str = "punctual-others";
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// The changes that give these CPUs a partition of their own. Before Linux 7.0 the kernel
/// overwrites the CPUs of its own threads when a partition begins or ends: each of them is a
/// change as well, so that the journal has them, and those that may run elsewhere are moved.
///
/// With cgroup v1 an exclusive set has the CPUs, another set has the other CPUs and every task that
/// may run anywhere, and the scheduler no longer balances over all CPUs. Tasks with CPUs of their
/// own are changes as well, if they may run elsewhere.
///
/// # Errors
/// [`TuneError::Partition`] without a controller.
pub fn partition_changes(cpus: &[usize]) -> Result<Vec<Change>, TuneError> {
    let sets = Cpusets::of_this_machine().map_err(TuneError::Partition)?;
    let folder = match sets.find(NAME) {
        Ok(set) => set.folder().to_owned(),
        Err(CpusetError::System(folder, error)) if error.kind() == io::ErrorKind::NotFound => {
            folder
        }
        Err(error) => return Err(TuneError::Partition(error)),
    };
    let is_first = sets.version() == Version::One;
    let online = online().map_err(|error| {
        let path = PathBuf::from(ONLINE);
        TuneError::Partition(CpusetError::System(path, error))
    })?;
    let mut changes = Vec::new();
    for (thread, now) in threads(is_first) {
        let elsewhere = lacking(&now, cpus);
        // An interrupt's thread follows the interrupt.
        let stays = elsewhere.is_empty() || thread.identity.name.starts_with("irq/");
        // With v1 nothing is overwritten, and a task that may run anywhere is moved as a whole.
        if is_first && (stays || elsewhere == now || !thread.is_of_kernel && now == online) {
            continue;
        }
        changes.push(change(
            Setting::Affinity {
                thread: thread.identity,
            },
            if stays { &now } else { &elsewhere },
        ));
    }
    let set = |name: &str| folder.with_file_name(name).display().to_string();
    if !is_first {
        let folder = set(NAME);
        changes.push(change(Setting::Partition { folder }, cpus));
    } else {
        let top = folder.parent().unwrap_or(&folder);
        let balances = file_of(top, "sched_load_balance");
        let is_balanced = fs::read_to_string(&balances).is_ok_and(|text| text.trim() == "1");
        let others = folder.with_file_name(OTHERS);
        if others.exists() && is_balanced {
            // Not of a partition that is in force: somebody else's, or one that was not finished.
            let error = io::Error::from_raw_os_error(libc::EEXIST);
            return Err(TuneError::Partition(CpusetError::System(others, error)));
        }
        let others = Setting::Cpuset {
            folder: others.display().to_string(),
            is_of_others: true,
        };
        changes.push(change(others, &lacking(&online, cpus)));
        let exclusive = Setting::Cpuset {
            folder: set(NAME),
            is_of_others: false,
        };
        changes.push(change(exclusive, cpus));
        changes.push(Change {
            knob: FindingId::IsolatedCpus.into(),
            setting: Setting::File {
                path: balances.display().to_string(),
            },
            value: "0".to_owned(),
        });
    }
    Ok(changes)
}

fn change(setting: Setting, cpus: &[usize]) -> Change {
    Change {
        knob: FindingId::IsolatedCpus.into(),
        setting,
        value: cpu_list(cpus),
    }
}

fn online() -> io::Result<Vec<usize>> {
    let text = Root::live().text(ONLINE)?;
    cpulist::numbers(&text).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// A file of a set of cgroup v1, which may be mounted with `noprefix`.
fn file_of(folder: &Path, name: &str) -> PathBuf {
    let bare = folder.join(name);
    if bare.exists() {
        bare
    } else {
        folder.join(format!("cpuset.{name}"))
    }
}

struct Thread {
    identity: ThreadIdentity,
    is_of_kernel: bool,
}

/// The threads that may be given other CPUs, and their CPUs: the kernel's, and those of programs
/// too if that is wanted.
fn threads(with_programs: bool) -> Vec<(Thread, Vec<usize>)> {
    let root = Root::live();
    let mut threads = Vec::new();
    for process in root.numbered("/proc", "") {
        let tasks = if with_programs {
            root.numbered(&format!("/proc/{process}/task"), "")
        } else {
            vec![process]
        };
        let found = tasks.into_iter().filter_map(|tid| {
            let thread = thread(&root, i32::try_from(tid).ok()?)?;
            let cpus = affinity::get(thread.identity.tid).ok()?;
            (with_programs || thread.is_of_kernel).then_some((thread, cpus))
        });
        threads.extend(found);
    }
    threads
}

/// The thread with this number, if it may be given other CPUs.
fn thread(root: &Root, tid: i32) -> Option<Thread> {
    /// Threads with this flag stay where the kernel put them.
    const PF_NO_SETAFFINITY: u64 = 0x0400_0000;
    let line = root.text(&format!("/proc/{tid}/stat")).ok()?;
    let stat = Stat::parse(&line)?;
    if stat.count(9)? & PF_NO_SETAFFINITY != 0 {
        return None;
    }
    Some(Thread {
        is_of_kernel: stat.is_of_kernel(),
        identity: find_thread(tid).ok()?,
    })
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

pub(super) fn read(folder: &str, is_of_others: bool) -> io::Result<String> {
    let Some(set) = find(folder)? else {
        return Ok(ABSENT.to_owned());
    };
    let cpus = set.cpus().map_err(io::Error::other)?;
    if is_of_others {
        // Made, and not filled: it was killed between.
        let is_unfinished = cpus.trim().is_empty();
        return Ok(if is_unfinished {
            " (unfinished)".to_owned()
        } else {
            cpus
        });
    }
    Ok(match set.state() {
        Ok(()) => cpus,
        Err(CpusetError::NotIsolated(reason)) => format!("{cpus} ({reason})"),
        Err(error) => return Err(io::Error::other(error)),
    })
}

pub(super) fn write(folder: &str, is_of_others: bool, value: &str) -> io::Result<()> {
    let sets = Cpusets::of_this_machine().map_err(io::Error::other)?;
    if let Some(set) = find(folder)? {
        if value != ABSENT && !is_of_others && set.state().is_err() {
            // Somebody else's group of this name.
            return Err(io::Error::from_raw_os_error(libc::EEXIST));
        }
        if sets.version() == Version::Two {
            // A group that is removed gives its CPUs back some time later (Linux 6.1: by a work
            // item); one that becomes an ordinary member does so at once.
            put(&format!("{folder}/cpuset.cpus.partition"), "member")?;
        }
        set.remove().map_err(io::Error::other)?;
    }
    if value == ABSENT {
        return Ok(());
    }
    if is_of_others {
        return gather(Path::new(folder), value);
    }
    let cpus = cpulist::numbers(value).map_err(|_| io::ErrorKind::InvalidInput)?;
    let name = Path::new(folder).file_name().and_then(|name| name.to_str());
    let name = name.ok_or(io::ErrorKind::InvalidInput)?;
    sets.create(name, &cpus).map_err(io::Error::other)?;
    Ok(())
}

/// Makes a set of cgroup v1 and moves each task of the root set into it that may run on every CPU.
fn gather(folder: &Path, cpus: &str) -> io::Result<()> {
    /// A task may start others while it is moved.
    const ROUNDS: usize = 100;
    let top = folder.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir(folder)?;
    let put = |name: &str, value: &str| put(&file_of(folder, name).display().to_string(), value);
    put("cpus", cpus)?;
    put("mems", fs::read_to_string(file_of(top, "mems"))?.trim())?;
    put("sched_load_balance", "1")?;
    let (root, online) = (Root::live(), online()?);
    let tasks = top.join("tasks");
    for _ in 0..ROUNDS {
        let mut moved = 0;
        for tid in fs::read_to_string(&tasks)?.lines() {
            let Some(thread) = tid.parse().ok().and_then(|tid| thread(&root, tid)) else {
                continue;
            };
            let runs_anywhere = affinity::get(thread.identity.tid).is_ok_and(|it| it == online);
            if thread.is_of_kernel || !runs_anywhere {
                continue;
            }
            match put("tasks", tid) {
                Ok(()) => moved += 1,
                // It has ended, or the kernel keeps it where it is.
                Err(error) if matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL)) => {}
                Err(error) => return Err(error),
            }
        }
        if moved == 0 {
            return Ok(());
        }
    }
    Err(io::Error::other("tasks start faster than they are moved"))
}
