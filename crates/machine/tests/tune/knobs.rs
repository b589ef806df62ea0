//! Every fix of this kernel that can be made while it runs: it turns its finding, the kernel itself
//! shows the new value, and a restore brings the old bytes back. What is fine here is made bad
//! first. Also runs on the laboratory's kernels.
#![expect(
    clippy::print_stdout,
    reason = "tests say what they skipped and changed"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use crate::needs::{self, Absent};
use punctual_machine::tune::{
    Journal, RestoreRequest, apply, apply_accepted, changes_of, find_thread, restore, status,
};
use punctual_machine::{CheckRequest, Root, check};
use punctual_record::finding::{Check, FindingFix, FindingId, FindingState, StateKind};
use punctual_record::tuning::{Applied, Change, Restored, Setting};
use tempfile::TempDir;

use crate::turn::turn;

/// Files and values that a finding calls bad, or that are worth knowing. `CPUS` is the mask of all
/// CPUs, `LIST` their list.
const BAD_VALUES: &[(&str, &str)] = &[
    ("/proc/sys/vm/stat_interval", "1"),
    ("/proc/sys/vm/compact_unevictable_allowed", "1"),
    ("/proc/sys/vm/compaction_proactiveness", "20"),
    ("/proc/sys/vm/zone_reclaim_mode", "1"),
    ("/proc/sys/vm/dirty_ratio", "40"),
    ("/proc/sys/kernel/numa_balancing", "1"),
    ("/proc/sys/kernel/sched_rt_runtime_us", "950000"),
    ("/proc/sys/kernel/soft_watchdog", "1"),
    ("/proc/sys/kernel/nmi_watchdog", "1"),
    ("/proc/sys/kernel/watchdog_cpumask", "LIST"),
    ("/proc/sys/kernel/split_lock_mitigate", "1"),
    ("/proc/sys/kernel/printk", "7"),
    ("/proc/irq/default_smp_affinity", "CPUS"),
    ("/sys/class/net/lo/queues/rx-0/rps_cpus", "CPUS"),
    ("/sys/devices/virtual/workqueue/cpumask", "CPUS"),
    ("/sys/kernel/debug/sched/preempt", "voluntary"),
    ("/sys/kernel/mm/ksm/run", "1"),
    ("/sys/kernel/mm/transparent_hugepage/enabled", "always"),
    ("/sys/kernel/rcu_expedited", "1"),
    (EVENTS, "sched:sched_process_exit\nsched:sched_process_fork"),
];
/// Where the kernel appends, unless it is opened to be truncated.
const EVENTS: &str = "/sys/kernel/tracing/set_event";

/// What every kernel of the laboratory and every other with these files lets root change.
const ALWAYS: &[FindingId] = &[
    FindingId::VmstatInterval,
    FindingId::Compaction,
    FindingId::DefaultIrqAffinity,
    FindingId::WorkqueueMask,
    FindingId::DirtyWriteback,
];

/// What has no value that is ok: it is only shown then.
const SHOWN: &[FindingId] = &[FindingId::DirtyWriteback];

/// An interrupt is delivered elsewhere from the next one on, which may never come: it is shown until
/// then.
const LATER: &[FindingId] = &[FindingId::IrqAffinity];

fn is_root() -> bool {
    needs::root().inspect_err(Absent::report).is_ok()
}

/// The values before the test, which come back with its end.
struct Spoilt {
    before: Vec<(String, String)>,
    _turn: Option<fs::File>,
}

fn put(path: &str, value: &[u8]) -> std::io::Result<()> {
    let mut file = fs::File::options()
        .write(true)
        .truncate(path == EVENTS)
        .open(path)?;
    file.write_all(value)
}

/// The value that a file has: of a list the chosen one.
fn now_in(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(chosen(&text).unwrap_or(&text).to_owned())
}

impl Spoilt {
    /// Takes the turn, and makes bad what can be made bad; none without the right to.
    fn machine(cpus: &[usize]) -> Option<Self> {
        if !is_root() {
            return None;
        }
        let mut spoilt = Self {
            before: Vec::new(),
            _turn: turn(),
        };
        let mask = cpus.iter().fold(0_u64, |mask, cpu| mask | 1 << cpu);
        let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
        for (path, value) in BAD_VALUES {
            let value = match *value {
                "CPUS" => format!("{mask:x}"),
                "LIST" => list.join(","),
                value => value.to_owned(),
            };
            let Some(before) = now_in(path) else {
                continue;
            };
            if *path == "/proc/sys/vm/dirty_ratio" && before == "0\n" {
                continue; // The bytes are in force, which the ratio would set to zero.
            }
            if now_in(path).as_deref() == Some(value.as_str()) {
                continue;
            }
            match put(path, format!("{value}\n").as_bytes()) {
                Ok(()) => {
                    spoilt.before.push(((*path).to_owned(), before));
                }
                Err(error) => println!("{path} takes no {value}: {error}"),
            }
        }
        Some(spoilt)
    }
}

impl Drop for Spoilt {
    fn drop(&mut self) {
        for (path, before) in self.before.iter().rev() {
            if now_in(path).as_deref() == Some(before.as_str()) {
                continue;
            }
            if let Err(error) = put(path, before.as_bytes()) {
                println!("{path} is not as before: {error}");
            }
        }
    }
}

fn online() -> Vec<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online").expect("CPUs");
    cpus_of(text.trim())
}

/// The CPUs of a list, without the reader that is tested.
fn cpus_of(list: &str) -> Vec<usize> {
    let number = |text: &str| text.parse::<usize>().expect("a CPU");
    list.split(',')
        .filter(|part| !part.is_empty())
        .flat_map(|part| match part.split_once('-') {
            Some((first, last)) => number(first)..=number(last),
            None => number(part)..=number(part),
        })
        .collect()
}

/// For the last CPU of several.
fn request(online: &[usize]) -> CheckRequest {
    let last = online.last().filter(|_| online.len() > 1);
    CheckRequest {
        cpus: Some(last.into_iter().copied().collect()),
        ..CheckRequest::default()
    }
}

/// Fields of `/proc/TID/stat`, counted from 1 as in proc(5).
fn stat(tid: i32, fields: &[usize]) -> Vec<u8> {
    let text = fs::read_to_string(format!("/proc/{tid}/stat")).expect("a thread");
    let (_, rest) = text.rsplit_once(')').expect("a name");
    let words: Vec<&str> = rest.split_whitespace().collect();
    let words: Vec<&str> = fields.iter().map(|field| words[field - 3]).collect();
    words.join(" ").into_bytes()
}

fn allowed(tid: i32) -> String {
    let text = fs::read_to_string(format!("/proc/{tid}/status")).expect("a thread");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    line.expect("it is there").trim().to_owned()
}

/// What the kernel shows of a setting: policy, priority and nice of a thread, or bytes.
fn bytes(setting: &Setting) -> Vec<u8> {
    match setting {
        Setting::File { path } => fs::read(path).expect(path),
        Setting::Pair { first, second } => [
            fs::read(first).expect(first),
            fs::read(second).expect(second),
        ]
        .concat(),
        Setting::Scheduling { thread } => stat(thread.tid, &[41, 40, 19]),
        Setting::Affinity { thread } => allowed(thread.tid).into_bytes(),
        other => panic!("not of a running machine: {other:?}"),
    }
}

fn all_bytes(changes: &[Change]) -> Vec<Vec<u8>> {
    changes
        .iter()
        .map(|change| bytes(&change.setting))
        .collect()
}

/// The word of a list that is in brackets or parentheses.
fn chosen(text: &str) -> Option<&str> {
    let mut words = text.split_whitespace();
    let word = words.find(|word| word.starts_with(['[', '(']))?;
    Some(word.trim_matches(['[', ']', '(', ')']))
}

/// Whether the kernel shows what was asked for.
fn shows(change: &Change) -> bool {
    let value = change.value.as_str();
    let path = match &change.setting {
        Setting::File { path } => path.as_str(),
        Setting::Pair { .. } => {
            let (path, number) = value.split_once(' ').expect("a path and its value");
            let now = fs::read_to_string(path).expect(path);
            return now.trim() == number;
        }
        Setting::Affinity { thread } => {
            return cpus_of(&allowed(thread.tid)) == cpus_of(value);
        }
        setting => return bytes(setting) == value.as_bytes(),
    };
    let text = fs::read_to_string(path).expect(path);
    let text = text.trim();
    let mask = |text: &str| u128::from_str_radix(&text.replace(',', ""), 16).ok();
    if path.ends_with("_list") || path.ends_with("watchdog_cpumask") {
        cpus_of(text) == cpus_of(value)
    } else if path.ends_with("mask") || path.ends_with("affinity") || path.ends_with("_cpus") {
        mask(text).is_some() && mask(text) == mask(value)
    } else if path.ends_with("/printk") {
        text.split_whitespace().next() == Some(value)
    } else {
        chosen(text).unwrap_or(text) == value
    }
}

fn state(check: &Check, id: FindingId) -> &FindingState {
    &check.finding(id).expect("each").state
}

/// Whether nothing is left that could be changed here: only what somebody has to do by hand.
fn needs_hands(check: &Check, id: FindingId) -> bool {
    let fixes = &check.finding(id).expect("each").fixes;
    !fixes.is_empty() && fixes.iter().all(|fix| *fix == FindingFix::ByHand)
}

fn restored(journal: &mut Journal) {
    let results = restore(journal, &RestoreRequest::default()).expect("restored");
    let is_back = |result: &Restored| matches!(result, Restored::Written | Restored::Already);
    assert!(results.iter().all(|(_, it)| is_back(it)), "{results:?}");
}

#[test]
fn each_fix_turns_its_finding_ok_and_a_restore_brings_the_old_bytes_back() {
    let online = online();
    let Some(_spoilt) = Spoilt::machine(&online) else {
        return;
    };
    let look = || check(&Root::live(), &request(&online));
    let folder = TempDir::new().expect("a folder");
    let open = || Journal::open(folder.path()).expect("a journal");
    let mut turned = BTreeSet::new();
    let mut found = look();
    for id in FindingId::ALL.iter().copied() {
        let changes = changes_of(&found, &[id]);
        if changes.is_empty() {
            continue;
        }
        let before = all_bytes(&changes);
        let (changed, refused) = apply_accepted(&mut open(), &changes).expect("a journal");
        if !refused.is_empty() {
            // What is not known before it is tried: ASPM that the firmware keeps.
            for (change, error) in &refused {
                println!("{}: {error}", change.knob);
            }
            restored(&mut open());
            assert_eq!(all_bytes(&changes), before, "{id}");
            continue;
        }
        assert_eq!(changed.len(), changes.len(), "{id}: each is another value");
        for change in &changes {
            let now = String::from_utf8_lossy(&bytes(&change.setting)).into_owned();
            assert!(shows(change), "{id}: {change:?}: {now}");
        }
        let again = apply(&mut open(), &changes).expect("applied again");
        assert!(again.is_empty(), "{id}: {again:?}");
        let was = state(&found, id).kind();
        let now = look();
        let is = state(&now, id);
        if was == StateKind::Bad && !needs_hands(&now, id) {
            let is_ok = *is == FindingState::Ok;
            let is_shown =
                is.kind() == StateKind::Information && (SHOWN.contains(&id) || LATER.contains(&id));
            assert!(is_ok || is_shown, "{id}: {:?}", now.finding(id));
        } else if was != StateKind::Bad {
            assert_ne!(is.kind(), StateKind::Bad, "{id}: {:?}", now.finding(id));
        }
        restored(&mut open());
        assert_eq!(all_bytes(&changes), before, "{id}: not the old bytes");
        assert!(!Journal::is_in(folder.path()), "{id}: nothing is left");
        let after = look();
        if !LATER.contains(&id) {
            assert_eq!(*state(&after, id), *state(&found, id), "{id}");
        }
        println!(
            "{id}: {} settings, {was:?} to {:?} and back",
            changes.len(),
            is.kind()
        );
        turned.insert(id);
        found = after;
    }
    let has = |path: &str| Path::new(path).exists();
    for id in ALWAYS {
        let is_here = match id {
            FindingId::DefaultIrqAffinity => online.len() > 1 && has("/proc/irq"),
            FindingId::WorkqueueMask => online.len() > 1,
            _ => true,
        };
        assert!(
            turned.contains(id) || !is_here,
            "{id} was not turned: {turned:?}"
        );
    }
    println!("turned {}", turned.len());
}

#[test]
fn all_fixes_at_once_and_twice_are_undone_by_one_restore() {
    let online = online();
    let Some(_spoilt) = Spoilt::machine(&online) else {
        return;
    };
    let found = check(&Root::live(), &request(&online));
    let mut changes = changes_of(&found, &[]);
    // The kernel rewrites its own text for each switch: in the laboratory that takes long.
    changes.retain(|change| change.knob != FindingId::PreemptMode.into());
    assert!(changes.len() > 5, "{changes:?}");
    let before = all_bytes(&changes);
    let folder = TempDir::new().expect("a folder");
    let mut journal = Journal::open(folder.path()).expect("a journal");
    let (changed, refused) = apply_accepted(&mut journal, &changes).expect("a journal");
    let count = changed.len();
    assert!(count > 5, "{refused:?}");
    assert!(changed.into_iter().all(shows));
    let states = status(&journal);
    let ours = states
        .iter()
        .filter(|(_, it)| matches!(it, Applied::Ours(_)));
    assert_eq!(ours.count(), count, "{states:?}");
    // A second plan, from a second look: another CPU for real-time work.
    if let [first, _, ..] = online[..] {
        let other = CheckRequest {
            cpus: Some(vec![first]),
            ..CheckRequest::default()
        };
        let mut again = changes_of(&check(&Root::live(), &other), &[]);
        again.retain(|change| change.knob != FindingId::PreemptMode.into());
        let (changed, _) = apply_accepted(&mut journal, &again).expect("a journal");
        assert!(!changed.is_empty(), "masks of the other CPU: {again:?}");
    }
    drop(journal);
    let mut journal = Journal::open(folder.path()).expect("a journal");
    restored(&mut journal);
    assert_eq!(all_bytes(&changes), before);
    println!("{count} settings at once, {} refused", refused.len());
}

/// Threads of interrupts, softirqs, timers and RCU, as far as this kernel has them.
#[test]
fn the_kernels_threads_get_other_priorities_and_their_own_again() {
    if !is_root() {
        return;
    }
    let _turn = turn();
    let stems = [
        "irq/",
        "ksoftirqd/",
        "ktimers/",
        "rcuc/",
        "rcub/",
        "rcu_preempt",
        "rcu_sched",
    ];
    let processes = fs::read_dir("/proc").expect("proc").flatten();
    let threads = processes
        .filter_map(|it| it.file_name().to_str()?.parse().ok())
        .filter_map(|tid| find_thread(tid).ok())
        .filter(|thread| stems.iter().any(|stem| thread.name.starts_with(stem)));
    let changes: Vec<Change> = threads
        .map(|thread| Change {
            knob: FindingId::SoftirqThreads.into(),
            setting: Setting::Scheduling { thread },
            value: "1 31 0".to_owned(),
        })
        .collect();
    assert!(!changes.is_empty(), "every kernel has ksoftirqd");
    // What the kernel lets nobody change is known by trying it.
    let before = all_bytes(&changes);
    let folder = TempDir::new().expect("a folder");
    let mut journal = Journal::open(folder.path()).expect("a journal");
    apply(&mut journal, &changes).expect("changed");
    for change in &changes {
        let Setting::Scheduling { thread } = &change.setting else {
            continue;
        };
        // Policy 1 is FIFO.
        assert_eq!(stat(thread.tid, &[41, 40]), b"1 31", "{}", thread.name);
    }
    restored(&mut journal);
    assert_eq!(all_bytes(&changes), before);
    let names: BTreeSet<&str> = changes
        .iter()
        .filter_map(|change| match &change.setting {
            Setting::Scheduling { thread } => thread.name.split(['/', '-']).next(),
            _ => None,
        })
        .collect();
    println!("{} threads: {names:?}", changes.len());
    if fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1") {
        for stem in ["irq", "ksoftirqd", "rcuc"] {
            assert!(names.contains(stem), "PREEMPT_RT has {stem}: {names:?}");
        }
    }
}
