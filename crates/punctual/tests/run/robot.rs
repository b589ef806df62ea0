//! The example of a robot: as a program of its own, as the functions of a task set, and the budget of
//! its chain.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use punctual_record::Run;
use punctual_record::taskset::{ChainHop, TaskRun, Times};

use crate::alone::alone;
use crate::common::{Place, need, needs};
use crate::support::{Build, Linked, ends, succeeds};

const SOURCE: &str = "../../examples/robot/robot.c";
const SET: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/robot/robot.toml"
);

fn compiled(linked: Linked, more: &'static [&'static str]) -> PathBuf {
    let build = Build {
        linked,
        more,
        ..Build::PLAIN
    };
    build.compile(SOURCE)
}

/// The set and its object in a folder; `change` changes the set.
fn placed(place: &Place, change: impl Fn(String) -> String) {
    let object = compiled(Linked::Static, &["-shared", "-fPIC"]);
    fs::copy(object, place.path().join("librobot.so")).unwrap();
    let set = fs::read_to_string(SET).unwrap();
    fs::write(place.path().join("robot.toml"), change(set)).unwrap();
}

fn tasks(run: &Run) -> &TaskRun {
    run.tasks.as_ref().unwrap()
}

#[test]
fn the_robot_reaches_its_targets_without_threads_on_every_machine() {
    for (linked, compiler) in [
        (Linked::Shared, "gcc"),
        (Linked::Static, "gcc"),
        (Linked::Shared, "clang"),
    ] {
        let build = Build {
            linked,
            compiler,
            ..Build::PLAIN
        };
        let program = build.compile(SOURCE);
        let output = succeeds(Command::new(program).args(["-n", "20"]));
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "the joint reached 10 of 10 targets\n"
        );
    }
    // A controller that does not work is seen.
    let source = fs::read_to_string(SET.replace(".toml", ".c")).unwrap();
    let place = Place::new();
    let weak = place.path().join("weak.c");
    fs::write(&weak, source.replace("20.0 * off", "0.2 * off")).unwrap();
    let program = Build::PLAIN.compile(weak.to_str().unwrap());
    let output = ends(Command::new(program).args(["-n", "20"]));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn the_robot_runs_as_a_program_of_its_own_without_a_page_fault() {
    need!(needs::rights());
    let _alone = alone();
    let program = compiled(Linked::Shared, &[]);
    let output = ends(Command::new(program).arg("3"));
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<Vec<&str>> = text
        .lines()
        .skip(1)
        .take(4)
        .map(|line| line.split_whitespace().collect())
        .collect();
    let figure = |row: usize, column: usize| -> i64 { rows[row][column].parse().expect(&text) };
    // Jobs and missed periods. What was missed since the last job isn't counted, and the thread that ends
    // the others is an ordinary one: on a busy machine it wakes up late.
    for (row, periods) in [(0, 3000), (2, 1500)] {
        let all = figure(row, 1) + figure(row, 2);
        assert!((periods - 500..=periods + 500).contains(&all), "{text}");
    }
    for (row, by) in [(1, 0), (3, 2)] {
        let all = figure(row, 1) + figure(row, 2);
        assert!((figure(by, 1) - 1..=figure(by, 1)).contains(&all), "{text}");
    }
    assert!((0..4).all(|row| figure(row, 4) == 0), "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
}

/// The sum of times, and the range of each.
fn of(times: &Times) -> (u64, u64, u64, u128) {
    let latency = &times.times.latency;
    (
        latency.count,
        latency.min_ns,
        latency.max_ns,
        latency.sum_ns,
    )
}

#[test]
fn the_budget_of_a_chain_adds_up_to_what_was_measured_end_to_end() {
    need!(needs::rights());
    need!(needs::cpus(2));
    let _alone = alone();
    let place = Place::new();
    placed(&place, |set| set);
    let ended = place.run(&["exec", "robot.toml", "-D", "4", "-o", "run"]);
    assert!(matches!(ended.code(), 0 | 2 | 3), "{ended:?}");
    let run = place.run_of_path("run");
    let jobs = |task: usize| {
        let jobs = &tasks(&run).tasks[task].jobs;
        (jobs.latency.count, jobs.missed)
    };
    let (sensor, controller) = (jobs(0), jobs(2));
    assert_eq!(sensor.0 + sensor.1, 4000);
    assert_eq!(controller.0 + controller.1, 2000);
    assert_eq!(jobs(1).0 + jobs(1).1, sensor.0);
    assert_eq!(jobs(3).0 + jobs(3).1, controller.0);
    for (thread, task) in run.threads.iter().zip(&tasks(&run).tasks) {
        // Those of the function's own thread are in them.
        let faults = thread.faults.unwrap();
        assert_eq!((faults.minor, faults.major), (0, 0));
        assert_eq!(task.fault, None);
        assert!(task.cpu_ns.unwrap() > 0);
    }
    let figures = &tasks(&run).chains[0];
    let split = figures.split.as_ref().unwrap();
    assert_eq!(
        ChainHop::of(&tasks(&run).set, 0),
        [
            ChainHop::Input { task: 0 },
            ChainHop::Task {
                task: 0,
                released: false
            },
            ChainHop::Task {
                task: 1,
                released: true
            },
            ChainHop::Sampling { task: 2 },
            ChainHop::Task {
                task: 2,
                released: false
            },
            ChainHop::Task {
                task: 3,
                released: true
            },
        ]
    );
    let whole = of(&split.whole);
    assert_eq!(whole.0 + split.unsplit, figures.reaction.count);
    // On a busy host a thread may be stopped while it writes down a way: that reaction is counted apart.
    let unsplit = split.unsplit;
    assert!(
        whole.0 > 100 && unsplit * 100 <= whole.0,
        "{whole:?}, {unsplit}"
    );
    let all = (figures.reaction.min_ns, figures.reaction.max_ns);
    assert!(all.0 <= whole.1 && whole.2 <= all.1, "{whole:?}, {all:?}");
    assert!(
        unsplit > 0 || (whole.1, whole.2) == all,
        "{whole:?}, {all:?}"
    );
    let hops: Vec<_> = split.hops.iter().map(of).collect();
    assert!(hops.iter().all(|hop| hop.0 == whole.0));
    assert_eq!(hops.iter().map(|hop| hop.3).sum::<u128>(), whole.3);
    assert!(hops.iter().map(|hop| hop.1).sum::<u64>() <= whole.1);
    assert!(hops.iter().map(|hop| hop.2).sum::<u64>() >= whole.2);
    let json = place.run(&["report", "run", "--json"]).expect(0).json();
    let budget = &json["tasks"]["chains"][0]["budget"];
    assert_eq!(budget["hops"].as_array().unwrap().len(), 6);
    assert_eq!(budget["whole"]["max_ns"], whole.2);
    assert_eq!(budget["demand"]["deadline_ns"], 10_000_000);
    // The verdict never rests on independence, and the whole path is there to be judged by.
    assert!(budget["whole"]["cycles"].as_u64() == Some(whole.0));
    assert!(budget["common"]["blocks"].as_u64().unwrap() > 0, "{budget}");
    let p999 = |of: &serde_json::Value| of["quantiles_ns"][2].as_u64().unwrap_or(u64::MAX);
    assert!(p999(&budget["any_dependence"]) >= p999(&budget["whole"]));
    for said in [
        ended.stdout,
        fs::read_to_string(place.path().join("run/report.html")).unwrap(),
    ] {
        for words in [
            "Budget of sensor to actuator",
            "wait for controller",
            "at most, dependent",
        ] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
    // The same figures as hops of another budget.
    let hop = |part: &str| {
        format!(
            "deadline = \"1s\"\nmiss = 0.5\nwhole = \"run\"\nwhole-chain = \"sensor to actuator\"\n\
             [[hop]]\nname = \"a\"\nrun = \"run\"\n{part}\n"
        )
    };
    for (part, max_ns) in [
        (
            "task = \"filter\"",
            tasks(&run).tasks[1].jobs.latency.max_ns,
        ),
        ("chain = \"sensor to actuator\"", whole.2),
    ] {
        fs::write(place.path().join("path.toml"), hop(part)).unwrap();
        let json = place
            .run(&["budget", "path.toml", "--json"])
            .expect(0)
            .json();
        assert_eq!(json["hops"][0]["max_ns"], max_ns);
        assert_eq!(json["whole"]["max_ns"], whole.2);
    }
    for (part, words) in [
        (
            "task = \"brake\"",
            "no task brake: expected one of sensor, filter",
        ),
        (
            "chain = \"brake\"",
            "no chain brake: expected one of sensor to actuator",
        ),
        ("cpu = 0", "expected one of cpu, task and chain"),
        (
            "",
            "its run executed a task set: name a task or a chain of it",
        ),
    ] {
        let text = match part {
            "cpu = 0" => hop("cpu = 0\ntask = \"filter\""),
            part => hop(part),
        };
        fs::write(place.path().join("path.toml"), text).unwrap();
        let ended = place.run(&["budget", "path.toml"]).expect(64);
        let line = "punctual: path.toml:5: hop a: ";
        assert!(ended.stderr.starts_with(line), "{ended:?}");
        assert!(ended.stderr.contains(words), "{words}: {ended:?}");
    }
}

#[test]
fn what_is_missing_is_named_with_file_and_line() {
    need!(needs::rights());
    need!(needs::cpus(2));
    let place = Place::new();
    for (from, to, words) in [
        (
            "robot_filter",
            "robot_fitler",
            "undefined symbol: robot_fitler",
        ),
        (
            "\"./librobot.so\", function = \"robot_filter",
            "\"./absent.so\", function = \"robot_filter",
            "absent.so: No such file",
        ),
    ] {
        placed(&place, |set| set.replace(from, to));
        let ended = place.run(&["exec", "robot.toml", "-o", "none"]).expect(1);
        assert!(
            ended
                .stderr
                .starts_with("punctual: robot.toml:24: task filter: step 1 of phase 1: "),
            "{ended:?}"
        );
        assert!(ended.stderr.contains(words), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(!place.path().join("none").exists());
    }
    place.await_silence();
}
