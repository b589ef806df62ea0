//! A partition of isolated CPUs begins and ends, and the kernel's threads have their CPUs again.
#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use std::fs;

use crate::needs::{self, Absent, need, skip};
use punctual_machine::tune::{
    Journal, RestoreRequest, TuneError, apply, partition_changes, read, restore, status, write,
};
use punctual_record::tuning::{Applied, Change, Setting};
use punctual_rt::cpuset::{Cpusets, Version};
use tempfile::TempDir;

use crate::turn::turn;

fn values(changes: &[Change]) -> Vec<String> {
    let value = |change: &Change| read(&change.setting).expect("it was read before");
    changes.iter().map(value).collect()
}

#[test]
fn a_partition_ends_with_every_thread_of_the_kernel_as_before() {
    need!(needs::root());
    let _turn = turn();
    let online = fs::read_to_string("/sys/devices/system/cpu/online").expect("CPUs");
    let online = punctual_rt::cpulist::numbers(online.trim()).expect("a list");
    let [first, .., last] = online[..] else {
        skip!(Absent::cpus(2));
    };
    if Cpusets::of_this_machine().is_ok_and(|sets| sets.version() == Version::One) {
        skip!(Absent::kernel(
            "the cpuset controller of control groups version 2"
        ));
    }
    let changes = match partition_changes(&[last]) {
        Ok(changes) => changes,
        Err(error @ TuneError::Partition(_)) => {
            skip!(Absent::kernel(error));
        }
        Err(error) => panic!("{error}"),
    };
    let (partition, threads) = changes.split_last().expect("a partition");
    assert!(threads.len() > 5, "the kernel has threads of its own");
    // One that somebody moved: the kernel would give it all CPUs at the end.
    let moved = &threads[threads.len() / 2].setting;
    let everywhere = read(moved).expect("its CPUs");
    write(moved, &first.to_string()).expect("moved");
    let before = values(&changes);
    let folder = TempDir::new().expect("a folder");
    let mut journal = Journal::open(folder.path()).expect("a journal");
    // What is planned was read before the move.
    let changes = partition_changes(&[last]).expect("as before");
    assert_eq!(values(&changes), before);
    apply(&mut journal, &changes).expect("isolated");
    let Setting::Partition { folder: group } = &partition.setting else {
        panic!("{partition:?}");
    };
    let state = fs::read_to_string(format!("{group}/cpuset.cpus.partition"));
    assert_eq!(state.expect("a group"), "isolated\n");
    let isolated = read(&partition.setting).expect("it");
    assert_eq!(isolated, last.to_string());
    for change in threads {
        let cpus = read(&change.setting).expect("its CPUs");
        let cpus = punctual_rt::cpulist::numbers(&cpus).expect("a list");
        // An interrupt's thread follows the interrupt, unless the kernel overwrites that too.
        let stays = change.setting.to_string().contains("irq/");
        assert!(
            stays || !cpus.contains(&last),
            "{}: {cpus:?}",
            change.setting
        );
    }
    // Killed here, another process restores. What a kill leaves in the midst is ours as well.
    drop(journal);
    let mut journal = Journal::open(folder.path()).expect("a journal");
    fs::write(format!("{group}/cpuset.cpus.partition"), "member").expect("not isolated");
    let last_of = status(&journal).pop().expect("the partition").1;
    assert!(matches!(last_of, Applied::Ours(_)), "{last_of:?}");
    let results = restore(&mut journal, &RestoreRequest::default()).expect("restored");
    assert!(results.iter().all(|(_, it)| it.is_done()), "{results:?}");
    assert_eq!(values(&changes), before);
    assert!(!fs::exists(group).expect("known"), "the group is gone");
    println!("{} threads of the kernel as before", threads.len());
    write(moved, &everywhere).expect("moved back");
}
