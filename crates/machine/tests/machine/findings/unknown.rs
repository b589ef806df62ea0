//! What can't be read is unknown, and what is absent is never ok.

use punctual_machine::{CheckRequest, Root, Snapshot, check, survey};
use punctual_record::finding::{FindingId, FindingState, ReadResult, StateKind, Unknown};
use serde_json::{Value, json};

use super::tree::{Policy, Tree, request};

fn why(tree: &Tree, id: FindingId) -> Unknown {
    let finding = tree.finding(id);
    match finding.state {
        FindingState::Unknown { why } => why,
        state => panic!("{id}: {state:?}"),
    }
}

fn not_mounted(filesystem: &str, place: &str) -> Unknown {
    Unknown::NotMounted {
        filesystem: filesystem.to_owned(),
        place: place.to_owned(),
    }
}

#[test]
fn nothing_is_ok_or_bad_on_a_machine_without_any_file() {
    for cpus in [None, Some(vec![]), Some(vec![2, 3])] {
        let request = CheckRequest {
            cpus,
            ..CheckRequest::default()
        };
        let found = check(&Tree::empty().root(), &request);
        assert_eq!(found.findings.len(), FindingId::ALL.len());
        for finding in &found.findings {
            let kind = finding.state.kind();
            let is_open = matches!(kind, StateKind::Unknown | StateKind::NotApplicable);
            assert!(is_open, "{finding:?}");
        }
    }
}

#[test]
fn a_file_that_can_not_be_read_makes_its_finding_unknown() {
    for (id, path) in [
        (
            FindingId::TransparentHugepages,
            "/sys/kernel/mm/transparent_hugepage/enabled",
        ),
        (FindingId::VmstatInterval, "/proc/sys/vm/stat_interval"),
        (FindingId::Threadirqs, "/proc/cmdline"),
        (FindingId::Swap, "/proc/swaps"),
        (FindingId::Hypervisor, "/proc/cpuinfo"),
        (
            FindingId::ReceiveSteering,
            "/sys/class/net/e/queues/rx-0/rps_cpus",
        ),
        (
            FindingId::FairServer,
            "/sys/kernel/debug/sched/fair_server/cpu2/runtime",
        ),
    ] {
        let tree = Tree::base();
        tree.write("/proc/sys/kernel/osrelease", "6.12.0");
        if path == "/proc/cmdline" {
            tree.remove(path);
        }
        tree.write(&format!("{path}/"), "");
        assert_eq!(why(&tree, id), Unknown::Unreadable(path.to_owned()), "{id}");
    }
}

/// As for an ordinary user: a snapshot holds the errors that a user got (EACCES, and EPERM of
/// lockdown).
#[test]
fn a_file_without_permission_makes_its_finding_unknown() {
    let tree = Tree::base();
    let path = "/proc/sys/vm/stat_interval";
    tree.write(path, "10\n");
    let root = tree.root().recording();
    let found = check(&root, &request());
    let interval = found.finding(FindingId::VmstatInterval).expect("each");
    assert_eq!(interval.state.kind(), StateKind::Ok);
    let mut snapshot: Value = serde_json::from_str(&root.snapshot().to_json()).expect("JSON");
    for (number, words) in [(13, "permission denied"), (1, "operation not permitted")] {
        snapshot["files"][path] = json!({ "error": number });
        let text = snapshot.to_string();
        let refused = Root::of_snapshot(Snapshot::parse(text.as_bytes()).expect("a snapshot"));
        let found = check(&refused, &request());
        let interval = found.finding(FindingId::VmstatInterval).expect("each");
        let why = Unknown::Unreadable(path.to_owned());
        assert_eq!(interval.state, FindingState::Unknown { why });
        let error = ReadResult::Error(words.to_owned());
        assert_eq!(interval.readings[0].result, error);
    }
}

#[test]
fn what_a_file_system_that_is_not_mounted_holds_is_unknown() {
    let tree = Tree::base();
    tree.write("/proc/mounts", "sysfs /sys sysfs rw 0 0\n");
    tree.write("/proc/sys/kernel/osrelease", "6.12.0");
    tree.write(
        "/boot/config-6.12.0",
        "CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_PREEMPT=y\nCONFIG_FTRACE=y\n\
         CONFIG_SECURITY_LOCKDOWN_LSM=y\n",
    );
    let debugfs = not_mounted("debugfs", "/sys/kernel/debug");
    assert_eq!(why(&tree, FindingId::PreemptMode), debugfs);
    assert_eq!(why(&tree, FindingId::FairServer), debugfs);
    let securityfs = not_mounted("securityfs", "/sys/kernel/security");
    assert_eq!(why(&tree, FindingId::Lockdown), securityfs);
    let tracefs = not_mounted("tracefs", "/sys/kernel/tracing");
    assert_eq!(why(&tree, FindingId::Tracing), tracefs);
    // Mounted, and the server of such a kernel is not to be seen.
    tree.write("/proc/mounts", "d /sys/kernel/debug debugfs rw 0 0\n");
    let runtime = "/sys/kernel/debug/sched/fair_server/cpu2/runtime";
    assert_eq!(
        why(&tree, FindingId::FairServer),
        Unknown::Absent(runtime.into())
    );
    // A kernel without these has them not.
    tree.write("/boot/config-6.12.0", "CONFIG_PREEMPT=y\n");
    for (id, kind) in [
        (FindingId::Lockdown, StateKind::NotApplicable),
        (FindingId::Tracing, StateKind::NotApplicable),
        (FindingId::PreemptMode, StateKind::Ok),
    ] {
        assert_eq!(tree.finding(id).state.kind(), kind, "{id}");
    }
}

#[test]
fn without_a_configuration_what_follows_from_it_is_unknown() {
    let tree = Tree::base();
    tree.write("/proc/cmdline", "nohz_full=2-3 rcu_nocbs=2-3");
    tree.remove("/boot/config-6.8.0");
    for id in [
        FindingId::KernelConfig,
        FindingId::DebugOptions,
        FindingId::HighResolution,
        FindingId::NoHzFullSupport,
        FindingId::RcuNocbSupport,
        FindingId::RtGroupSched,
    ] {
        assert_eq!(why(&tree, id), Unknown::NoConfiguration, "{id}");
    }
}

#[test]
fn a_kernel_without_the_file_nohz_full_lacks_the_option() {
    let tree = Tree::base();
    assert_eq!(
        tree.finding(FindingId::NohzFull).state.kind(),
        StateKind::Bad
    );
    tree.remove("/sys/devices/system/cpu/isolated");
    let isolated = "/sys/devices/system/cpu/isolated".to_owned();
    assert_eq!(
        why(&tree, FindingId::NohzFull),
        Unknown::Absent(isolated.into())
    );
}

/// In a container the kernel's threads are not to be seen, nor other programs.
#[test]
fn threads_that_are_hidden_make_unknown_what_is_found_by_threads() {
    let tree = Tree::base();
    tree.remove("/proc/2/task/2/stat");
    tree.thread(1, "sh", false, Policy::Other, "0-3");
    for id in [
        FindingId::RcuNocbs,
        FindingId::RcuThreads,
        FindingId::BoundKworkers,
        FindingId::Irqbalance,
        FindingId::UserThreads,
        FindingId::CompetingPriorities,
        FindingId::IrqThreads,
        FindingId::MemoryScanners,
        FindingId::PerfSampling,
        FindingId::OtherTuners,
        FindingId::Rtkit,
        FindingId::FirmwareUpdates,
        FindingId::ClockSteps,
        FindingId::Audit,
        FindingId::TimerJobs,
        FindingId::Stalld,
    ] {
        assert_eq!(why(&tree, id), Unknown::HiddenThreads, "{id}");
    }
}

#[test]
fn a_file_that_only_some_cpus_have_is_not_ok() {
    let tree = Tree::base();
    let governor = |cpu: u32| format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    for cpu in 0..3 {
        tree.write(&governor(cpu), "performance\n");
    }
    assert_eq!(
        why(&tree, FindingId::Governor),
        Unknown::Absent(governor(3).into())
    );
}

#[test]
fn without_named_or_isolated_cpus_their_findings_do_not_apply() {
    let tree = Tree::base();
    let unnamed = CheckRequest {
        cpus: None,
        ..request()
    };
    let found = check(&tree.root(), &unnamed);
    let state = |id| found.finding(id).expect("each").state.kind();
    assert_eq!(state(FindingId::IsolatedCpus), StateKind::NotApplicable);
    tree.write("/sys/devices/system/cpu/isolated", "3\n");
    let found = check(&tree.root(), &unnamed);
    assert_eq!(found.cpus, [3]);
    let isolated = found.finding(FindingId::IsolatedCpus).expect("each");
    assert_eq!(isolated.state.kind(), StateKind::Ok);
}

/// `tune apply --partition` isolates them: the root group lists the CPUs of its partition from Linux
/// 6.7 on, before only the partition itself does.
#[test]
fn cpus_of_isolated_partitions_are_for_real_time_work_by_default() {
    let unnamed = CheckRequest {
        cpus: None,
        ..request()
    };
    let group = "/sys/fs/cgroup/punctual/cpuset.cpus";
    let in_partition = [(".partition", "isolated\n"), (".effective", "2-3\n")];
    let in_partition = in_partition.map(|(file, text)| (format!("{group}{file}"), text));
    let by_root = [("/sys/fs/cgroup/cpuset.cpus.isolated".to_owned(), "2-3\n")];
    for files in [&in_partition[..], &by_root] {
        let tree = Tree::base();
        for (path, text) in files {
            tree.write(path, text);
        }
        let found = check(&tree.root(), &unnamed);
        assert_eq!(found.cpus, [2, 3], "{files:?}");
        assert_eq!(survey::topology(&tree.root()).isolated, [2, 3]);
        let isolated = found.finding(FindingId::IsolatedCpus).expect("each");
        assert_eq!(isolated.state.kind(), StateKind::Ok);
    }
}

/// The kernel knows forms of a list that are not known here.
#[test]
fn a_list_of_cpus_that_is_not_understood_makes_its_findings_unknown() {
    let tree = Tree::base();
    let not_understood = Unknown::NotUnderstood("/proc/cmdline".to_owned());
    for word in ["isolcpus=1-N", "nohz_full=all", "irqaffinity=0-N"] {
        tree.write("/proc/cmdline", word);
        assert_eq!(why(&tree, FindingId::ParameterNotInForce), not_understood);
    }
    tree.write("/proc/cmdline", "rcu_nocbs=1-N");
    assert_eq!(why(&tree, FindingId::RcuNocbs), not_understood);
    // The kernel refuses this: it is not in force, whatever the mask is now.
    tree.write("/proc/cmdline", "irqaffinity=0-1:x");
    let finding = tree.finding(FindingId::ParameterNotInForce);
    assert_eq!(finding.state.kind(), StateKind::Bad);
    // What is contradicted is bad all the same.
    tree.write("/proc/cmdline", "nohz_full=2-3 irqaffinity=0-N");
    let finding = tree.finding(FindingId::ParameterNotInForce);
    assert_eq!(finding.state.kind(), StateKind::Bad);
}

/// Of a bus lock #DB comes after it: the file slows down nothing.
#[test]
fn a_processor_that_detects_bus_locks_only_slows_no_split_lock_down() {
    let tree = Tree::base();
    tree.write("/proc/sys/kernel/split_lock_mitigate", "1\n");
    for (flags, kind) in [
        ("bus_lock_detect", StateKind::NotApplicable),
        ("split_lock_detect", StateKind::Bad),
        ("split_lock_detect bus_lock_detect", StateKind::Bad),
    ] {
        tree.write("/proc/cpuinfo", format!("flags : fpu {flags}\n"));
        assert_eq!(
            tree.finding(FindingId::SplitLock).state.kind(),
            kind,
            "{flags}"
        );
    }
}
