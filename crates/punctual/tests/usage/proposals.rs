//! `tune plan --from` and `tune apply --from` with hand-made bills.

use std::fs;
use std::path::{Path, PathBuf};

use punctual_record::explanation::{Cause, Stage};
use punctual_record::{Document, Ledger, Run};

use super::tune::{KNOB, bad_knob};
use crate::bills::bill_of;
use crate::common::{Place, need, needs};
use crate::turn::turn;

/// A run of this machine on CPU 0 with these late wake-ups, each of one cause.
fn run_with(
    place: &Place,
    name: &str,
    rows: &[(Cause, u64)],
    change: impl Fn(&mut Run),
) -> PathBuf {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../record/tests/data/run-2.json"
    );
    let mut run = Run::read(Path::new(file)).expect("a record");
    let mut ledger = Ledger::new(Some(100_000));
    for (at, (cause, ns)) in rows.iter().enumerate() {
        let due_ns = run.start_ns.unwrap_or(0) + at as u64 * 1_000_000;
        ledger.add(&bill_of(0, due_ns, &[(Stage::Switch, cause.clone(), *ns)]));
    }
    run.explanation = Some(ledger.to_record());
    let host = fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    host.trim().clone_into(&mut run.system.hostname);
    run.request.cpus = vec![0];
    change(&mut run);
    let folder = place.path().join(name);
    fs::create_dir_all(&folder).expect("a directory");
    let json = serde_json::to_string(&run).expect("JSON");
    fs::write(folder.join("run.json"), json).expect("a record");
    folder
}

fn text(text: &str) -> String {
    text.to_owned()
}

fn vmstat() -> Cause {
    Cause::PreemptOff {
        task: text("kworker/0:1"),
        work: Some(text("vmstat_update")),
    }
}

fn hog() -> Cause {
    Cause::Thread {
        task: text("hog"),
        policy: text("SCHED_FIFO"),
        priority: 90,
    }
}

/// 5 ms of the host, 3 ms of an interrupt's thread, 0.9 ms of a worker in two bills.
#[test]
fn a_plan_names_cost_knob_and_obstacle_by_the_time() {
    let _turn = turn();
    let place = Place::new();
    let rows = [
        (vmstat(), 400_000),
        (Cause::Steal, 5_000_000),
        (vmstat(), 500_000),
        (Cause::Softirq { number: 9 }, 3_000_000),
    ];
    run_with(&place, "run", &rows, |_| {});
    let plan = place.run(&["tune", "plan", "--from", "run"]).expect(0);
    let flat: Vec<&str> = plan.stdout.split_whitespace().collect();
    let flat = flat.join(" ");
    for words in [
        "run: 4 late wake-ups, 8.9 ms",
        "cost 900 µs, 2 times, the worst 500 µs: kworker (vmstat_update) could \
         not be preempted",
        "rcu-nocbs cost 3 ms, 1 time, the worst 3 ms: softirq RCU",
        "No setting of this machine helps the host of this virtual machine cost 5 ms, 1 time",
    ] {
        assert!(flat.contains(words), "{words}\n{}", plan.stdout);
    }
    let place_of = |words: &str| flat.find(words);
    assert!(place_of("cost 3 ms") < place_of("cost 900 µs"), "{flat}");
    assert_eq!(plan.stderr, "");
}

#[test]
fn what_the_bills_ask_for_is_changed_and_nothing_else() {
    need!(needs::root());
    let _turn = turn();
    let place = Place::new();
    let (before, _own) = bad_knob();
    // A hog is no setting; that it is changed by hand alone is said.
    run_with(&place, "hogged", &[(hog(), 900_000)], |_| {});
    let apply = |run: &str| place.run(&["tune", "apply", "--from", run, "--state", "state"]);
    let none = apply("hogged").expect(0).stdout;
    assert!(none.contains("competing-priorities"), "{none}");
    assert!(none.contains("Nothing was changed"), "{none}");
    assert!(!place.path().join("state").exists());

    let rows = [(vmstat(), 400_000), (hog(), 900_000)];
    run_with(&place, "run", &rows, |_| {});
    let changed = apply("run").expect(0).stdout;
    assert!(
        changed.contains(&format!("echo 10 > {KNOB}")) && changed.contains("Changed 1 settings"),
        "{changed}"
    );
    assert_eq!(fs::read_to_string(KNOB).expect("it"), "10\n");
    // What is fixed is ok now, and no longer proposed.
    let plan = place.run(&["tune", "plan", "--from", "run"]).expect(0);
    let restore = ["tune", "restore", "--state", "state"];
    place.run(&restore).expect(0);
    // Another test's probe is a real-time thread that competes.
    let competes = plan
        .stdout
        .contains("Threads at or above the program's priority");
    let fine = if competes {
        "Ok here or not applicable: vmstat-interval"
    } else {
        "Ok here or not applicable: competing-priorities, vmstat-interval"
    };
    assert!(plan.stdout.contains(fine), "{plan:?}");
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
}

#[test]
fn a_run_that_says_nothing_of_this_machine_is_refused_in_one_line() {
    let place = Place::new();
    let rows = [(vmstat(), 400_000)];
    run_with(&place, "elsewhere", &rows, |run| {
        run.system.hostname = text("another");
    });
    run_with(&place, "untraced", &rows, |run| run.explanation = None);
    run_with(&place, "far", &rows, |run| run.request.cpus = vec![4095]);
    for (words, wanted) in [
        (&["apply", "--from", "elsewhere"][..], "made on another"),
        (&["plan", "--from", "untraced"], "has no bills"),
        (&["plan", "--from", "far"], "CPU 4095, which is not online"),
        (&["plan", "--from", "run", "ksm"], "cannot be used with"),
        (&["apply", "--boot", "--from", "run"], "cannot be used with"),
        (&["apply", "--keep", "--from", "run"], "cannot be used with"),
        (&["plan", "--from", "elsewhere", "-a", "all"], "leave one"),
    ] {
        let refused = place.run(&[&["tune"], words].concat()).expect(64);
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
        assert!(refused.stderr.contains(wanted), "{refused:?}");
    }
    let absent = place.run(&["tune", "plan", "--from", "absent"]).expect(1);
    assert_eq!(absent.stderr.lines().count(), 1, "{absent:?}");
    // A plan changes nothing: of another machine's run it may be made.
    let plan = place
        .run(&["tune", "plan", "--from", "elsewhere"])
        .expect(0);
    assert!(plan.stderr.contains("made on another"), "{plan:?}");
    let named = ["tune", "plan", "--from", "far", "-a", "0"];
    if crate::common::cpus().len() > 1 {
        place.run(&named).expect(0);
    }
}
