//! The machine that the tests run on. Tests that it does not allow report that they are skipped.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use punctual_machine::Root;
use punctual_machine::survey::{Policy, SurveyRequest, allowed, online, read_back, survey};
use punctual_record::{Demand, Event, Standing};
use punctual_report::facts;
use punctual_tool::system;
use punctual_tool::system::demands::{self, ProbeFound, Requested};
use punctual_tool::system::monitor::{Monitor, Monitored};

use crate::needs::{self, Absent, need, skip};
use crate::threads::{Sleeper, output, own_tid, set_affinity, set_fifo};

const SECOND: u64 = 1_000_000_000;

#[test]
fn a_changed_affinity_and_priority_is_noticed() {
    let root = Root::live();
    let usable = allowed(&root);
    if usable.len() < 2 {
        skip!(Absent::cpus(2));
    }
    let sleeper = Sleeper::pinned(usable[1]);
    let probe = Monitored {
        cpu: usable[1],
        tid: sleeper.tid,
        raised: None,
    };
    let mut monitor = Monitor::start(&root, &[probe]);
    let about_us = |events: Vec<Event>| {
        events
            .into_iter()
            .filter(|e| {
                matches!(
                    e.kind(),
                    "affinity" | "priority" | "clock-set" | "suspended"
                )
            })
            .map(|e| (e.kind(), e.invalidates))
            .collect::<Vec<_>>()
    };
    assert_eq!(about_us(monitor.poll(SECOND)), []);
    set_affinity(sleeper.tid, &usable).unwrap();
    assert_eq!(about_us(monitor.poll(2 * SECOND)), [("affinity", true)]);
    set_affinity(sleeper.tid, &[usable[1]]).unwrap();
    assert_eq!(about_us(monitor.poll(3 * SECOND)), [("affinity", false)]);
    let renice = output(&format!("chrt -b -p 0 {} && echo done", sleeper.tid));
    if renice == "done" {
        assert_eq!(about_us(monitor.poll(4 * SECOND)), [("priority", true)]);
    }
    drop(sleeper);
    assert_eq!(about_us(monitor.poll(5 * SECOND)), []);
    assert!(monitor.stolen().is_some());
}

#[test]
fn a_look_is_cheap() {
    let root = Root::live();
    let probe = Monitored {
        cpu: online(&root)[0],
        tid: own_tid(),
        raised: None,
    };
    let mut monitor = Monitor::start(&root, &[probe]);
    let best = (1..6)
        .map(|n| {
            let begun = Instant::now();
            monitor.poll(n * SECOND);
            begun.elapsed()
        })
        .min()
        .unwrap();
    assert!(best < Duration::from_millis(20), "{best:?}");
}

/// Run elsewhere, a child of this test binary reports its own priority.
#[test]
#[ignore = "run by other tests, in other circumstances"]
fn child_asks_for_a_priority() {
    let refused = set_fifo(80).err();
    let scheduling = read_back(own_tid());
    let asked = Requested {
        policy: Policy::Fifo,
        priority: 80,
        lock_memory: false,
        dma_latency_us: None,
        explain: false,
        executable: system::executable(),
    };
    let probe = ProbeFound {
        cpu: 0,
        scheduling,
        priority_refused: refused,
        affinity_refused: None,
    };
    let state = survey(
        &Root::live(),
        &SurveyRequest {
            probed_cpus: vec![0],
            priority: 80,
        },
    );
    let demand = demands::priority(&asked, &[probe], &state);
    eprintln!("DEMAND {}", serde_json::to_string(&demand).unwrap());
}

/// Runs the child after a prefix of shell commands: a copy, because the build's directory may be closed
/// to other users.
fn child_behind(prefix: &str) -> Demand {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let copy = place.path().join("child");
    // By another process: a file that is open for writing here can't be executed by others.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().unwrap())
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    let command = format!(
        "{prefix} {} --exact live::child_asks_for_a_priority --ignored --nocapture",
        copy.display()
    );
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("DEMAND "));
    let (_, demand) = line.unwrap_or_else(|| panic!("{output:?}"));
    serde_json::from_str(demand).unwrap()
}

#[test]
fn without_rights_the_fix_works() {
    need!(needs::root());
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let demand = child_behind(nobody);
    assert_eq!(demand.standing, Standing::NotInForce);
    assert_eq!(
        facts::found(&demand),
        "other on CPU 0 (refused: operation not permitted)"
    );
    let fix = facts::fix_of(&demand).unwrap();
    assert!(fix.contains("setcap cap_sys_nice,cap_ipc_lock=ep"), "{fix}");
    assert!(fix.contains("rtprio 99"), "{fix}");
    // The effect of the fix's limit.
    if output("prlimit --rtprio=80 echo done") != "done" {
        skip!(Absent::right("CAP_SYS_RESOURCE, to raise a limit"));
    }
    let demand = child_behind(&format!("prlimit --rtprio=80 {nobody}"));
    assert_eq!(demand.standing, Standing::InForce, "{demand:?}");
}

/// A control group, removed when dropped.
struct Group(String);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn in_a_group_without_runtime_the_fix_works() {
    let directory = format!("/sys/fs/cgroup/cpu/punctual-test-{}", std::process::id());
    let runtime = format!("{directory}/cpu.rt_runtime_us");
    need!(needs::root());
    need!(needs::kernel_file("/sys/fs/cgroup/cpu/cpu.rt_runtime_us"));
    fs::create_dir(&directory).expect("a group");
    let group = Group(directory);
    let enter = format!("echo $$ > {}/tasks && exec", group.0);
    let demand = child_behind(&enter);
    assert_eq!(demand.standing, Standing::NotInForce);
    let fix = facts::fix_of(&demand).unwrap();
    let command = format!("echo 950000 | sudo tee {runtime}");
    assert!(fix.contains(&command), "{fix}");
    assert!(
        fix.contains("`echo $$ | sudo tee /sys/fs/cgroup/cpu/tasks`"),
        "{fix}"
    );
    // The groups share the root's runtime: half of it is certainly available.
    fs::write(&runtime, "100000").unwrap();
    let demand = child_behind(&enter);
    assert_eq!(demand.standing, Standing::InForce, "{demand:?}");
}
