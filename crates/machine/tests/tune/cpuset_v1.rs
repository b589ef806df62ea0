//! CPUs are isolated by cgroup v1, and everything is as before then. Every task of the machine is
//! moved: it runs in the laboratory's guest alone.
#![expect(clippy::print_stdout, reason = "a skipped test says so")]
#![expect(unsafe_code, reason = "tests call the C library")]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::needs::{Absent, skip};
use punctual_machine::tune::{
    Journal, RestoreRequest, apply, partition_changes, read, restore, status,
};
use punctual_machine::{CheckRequest, Root, check};
use punctual_record::finding::{FindingId, StateKind};
use punctual_record::tuning::{Applied, Change, Setting};
use punctual_rt::affinity;
use punctual_rt::cpuset::{Cpusets, Version};

use crate::turn::turn;

const MOUNT: &str = "/run/cpuset";

/// A process that sleeps, with these CPUs.
struct Sleeper(Child);

impl Sleeper {
    fn on(cpus: &[usize]) -> Self {
        let own = std::env::current_exe().expect("this program");
        let mut child = Command::new(own);
        child
            .args(["--ignored", "--exact", "cpuset_v1::a_process_that_sleeps"])
            .stdout(Stdio::null());
        let sleeper = Self(child.spawn().expect("a child"));
        affinity::set(sleeper.tid(), cpus).expect("its CPUs");
        sleeper
    }

    fn tid(&self) -> i32 {
        self.0.id().try_into().expect("a process")
    }

    fn cpus(&self) -> Vec<usize> {
        affinity::get(self.tid()).expect("it lives")
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "the child of another test"]
fn a_process_that_sleeps() {
    std::thread::sleep(std::time::Duration::from_secs(600));
}

fn values(changes: &[Change]) -> Vec<String> {
    let value = |change: &Change| read(&change.setting).expect("it was read before");
    changes.iter().map(value).collect()
}

/// The scheduling domains of a CPU: none if the scheduler balances nothing there.
fn domains(cpu: usize) -> usize {
    let folder = format!("/sys/kernel/debug/sched/domains/cpu{cpu}");
    fs::read_dir(folder).expect("debugfs").count()
}

fn isolated_cpus(last: usize) -> StateKind {
    let request = CheckRequest {
        cpus: Some(vec![last]),
        ..CheckRequest::default()
    };
    let found = check(&Root::live(), &request);
    let finding = found.finding(FindingId::IsolatedCpus).expect("each");
    finding.state.kind()
}

#[test]
fn an_exclusive_set_isolates_and_everything_is_as_before_then() {
    if std::env::var_os("PUNCTUAL_LAB_OUT").is_none() {
        skip!(Absent::Consent(
            "it moves every task of the machine: only in the laboratory"
        ));
    }
    let _turn = turn();
    let online = affinity::get(0).expect("its CPUs");
    let [first, last] = online[..] else {
        skip!(Absent::cpus(2));
    };
    fs::create_dir_all(MOUNT).expect("a folder");
    // SAFETY: each argument is a C string that lives during the call.
    let mounted = unsafe {
        libc::mount(
            c"none".as_ptr(),
            c"/run/cpuset".as_ptr(),
            c"cgroup".as_ptr(),
            0,
            c"cpuset".as_ptr().cast(),
        )
    };
    assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
    let sets = Cpusets::of_this_machine().expect("a controller");
    assert_eq!(sets.version(), Version::One);
    assert_eq!(isolated_cpus(last), StateKind::Bad);

    // A set of this name that is somebody else's is left alone.
    let others = Path::new(MOUNT).join("punctual-others");
    fs::create_dir(&others).expect("a set");
    let refused = partition_changes(&[last]).expect_err("it is not ours");
    assert!(refused.to_string().contains("punctual-others"), "{refused}");
    // If it is ours, a kill was between its beginning and its CPUs: restore removes it.
    let entry = Setting::Cpuset {
        folder: others.display().to_string(),
        is_of_others: true,
    };
    let unfinished = read(&entry).expect("its value");
    assert!(unfinished.starts_with(" ("), "{unfinished}");
    fs::remove_dir(&others).expect("an empty set");

    let (anywhere, here) = (Sleeper::on(&online), Sleeper::on(&[first]));
    let there = Sleeper::on(&[last]);
    let changes = partition_changes(&[last]).expect("a plan");
    let before = values(&changes);
    assert_eq!((domains(first), domains(last)), (1, 1));
    let folder = tempfile::tempdir().expect("a folder");
    let mut journal = Journal::open(folder.path()).expect("a journal");
    apply(&mut journal, &changes).expect("isolated");
    let text = |path: &str| {
        let text = fs::read_to_string(Path::new(MOUNT).join(path)).expect(path);
        text.trim().to_owned()
    };
    assert_eq!(text("cpuset.sched_load_balance"), "0");
    assert_eq!(text("punctual/cpuset.cpus"), last.to_string());
    assert_eq!(text("punctual/cpuset.cpu_exclusive"), "1");
    assert_eq!(text("punctual/cpuset.sched_load_balance"), "0");
    assert_eq!(text("punctual-others/cpuset.cpus"), first.to_string());
    assert_eq!(text("punctual-others/cpuset.sched_load_balance"), "1");
    // One CPU alone has nothing to balance either.
    assert_eq!(domains(last), 0);
    assert_eq!(anywhere.cpus(), [first]);
    assert_eq!(here.cpus(), [first]);
    assert_eq!(there.cpus(), [last], "somebody put it there");
    assert_eq!(affinity::get(0).expect("this thread's"), [first]);
    // The program that the CPU is for.
    fs::write(
        Path::new(MOUNT).join("punctual/cgroup.procs"),
        anywhere.tid().to_string(),
    )
    .expect("moved");
    assert_eq!(anywhere.cpus(), [last]);
    assert_eq!(isolated_cpus(last), StateKind::Ok);
    for (entry, state) in status(&journal) {
        let is_ours = matches!(state, Applied::Ours(_) | Applied::Original);
        assert!(is_ours, "{}: {state:?}", entry.setting);
    }
    let plan = partition_changes(&[last]).expect("a plan");
    let again = apply(&mut journal, &plan).expect("isolated already");
    assert!(
        again
            .iter()
            .all(|change| change.setting.to_string().contains("CPUs of"))
    );
    drop(journal);

    let mut journal = Journal::open(folder.path()).expect("a journal");
    let results = restore(&mut journal, &RestoreRequest::default()).expect("restored");
    assert!(results.iter().all(|(_, it)| it.is_done()), "{results:?}");
    assert_eq!(values(&changes), before);
    assert_eq!(text("cpuset.sched_load_balance"), "1");
    for name in ["punctual", "punctual-others"] {
        assert!(!Path::new(MOUNT).join(name).exists(), "{name}");
    }
    assert_eq!((domains(first), domains(last)), (1, 1));
    assert_eq!(anywhere.cpus(), online);
    assert_eq!((here.cpus(), there.cpus()), (vec![first], vec![last]));
    assert_eq!(affinity::get(0).expect("this thread's"), online);
    assert_eq!(isolated_cpus(last), StateKind::Bad);
    println!(
        "{} settings, {} of them threads",
        changes.len(),
        changes.len() - 3
    );
}
