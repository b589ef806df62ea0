//! The shipped task sets are read, analysed, and valid under the schema.

use punctual_record::taskset::analysis::{
    AnalysisOutcome, ChainLatency, Response, ServerTime, SetOverheads,
};
use punctual_record::taskset::{Step, TaskSet, Wake};
use punctual_taskset::analyse::Limits;
use punctual_taskset::{Format, Machine, analyse, read};

fn examples() -> Vec<(String, String)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tasksets");
    let entries = std::fs::read_dir(folder).expect("the examples");
    let mut all: Vec<(String, String)> = entries
        .map(|entry| entry.expect("an entry").path())
        .map(|path| {
            let name = path.file_stem().expect("a name").display().to_string();
            (name, std::fs::read_to_string(&path).expect("a file"))
        })
        .collect();
    all.sort();
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["audio", "deadline", "robot", "rt-exec"]);
    all
}

fn set(name: &str) -> TaskSet {
    let (_, text) = examples()
        .into_iter()
        .find(|(known, _)| known == name)
        .expect("an example");
    read(&text, "file", Format::Toml).expect("a sound set").set
}

const MACHINE: Machine = Machine {
    limits: Limits {
        cpus: 2,
        rt_runtime_us: Some(950_000),
        rt_period_us: 1_000_000,
        period_min_us: 100,
        period_max_us: 1 << 22,
        fair_server: Some((50_000_000, 1_000_000_000)),
    },
    overheads: SetOverheads {
        measured: None,
        release_interrupt_ns: 0,
        wake_and_sleep_ns: 0,
        tick: None,
        fair_server: Some(ServerTime {
            runtime_ns: 50_000_000,
            period_ns: 1_000_000_000,
            overrun_ns: 10_000_000,
            assumed: false,
        }),
        rt_throttling: None,
    },
};

#[test]
fn every_example_meets_its_deadlines_on_two_cpus() {
    for (name, text) in examples() {
        let read =
            read(&text, "file", Format::Toml).unwrap_or_else(|fault| panic!("{name}:{fault}"));
        assert_eq!(read.set.name, name);
        let analysis = analyse(&read.set, &MACHINE);
        assert_eq!(
            analysis.outcome,
            AnalysisOutcome::Met,
            "{name}: {analysis:#?}"
        );
        let cpus = read.set.tasks.iter().flat_map(|task| &task.cpus);
        assert!(cpus.into_iter().all(|cpu| *cpu < 2), "{name}");
    }
}

#[test]
fn rt_exec_has_its_sixteen_tasks_priorities_and_rates() {
    let set = set("rt-exec");
    let beats = |index: usize| set.period_ns(index).expect("no circle") / 4_000_000;
    // Priority and beats of each, as rt-exec prints them: exec first.
    let published = [
        (5, 1),
        (29, 4),
        (28, 4),
        (25, 2),
        (24, 2),
        (23, 1),
        (22, 2),
        (19, 2),
        (18, 2),
        (17, 2),
        (17, 2),
        (14, 1),
        (14, 1),
        (11, 1),
        (11, 1),
        (7, 1),
        (7, 1),
    ];
    assert_eq!(set.tasks.len(), published.len());
    let mut sources = std::collections::BTreeSet::new();
    for (index, (priority, every)) in published.into_iter().enumerate() {
        let policy = serde_json::to_value(set.tasks[index].policy).expect("JSON");
        assert_eq!(policy["priority"], priority, "{index}");
        assert_eq!(
            policy["policy"],
            if index < 9 { "fifo" } else { "rr" },
            "{index}"
        );
        assert_eq!(beats(index), every, "{index}");
        sources.insert(match set.tasks[index].wake {
            Wake::Timer { timer, .. } => format!("{timer:?}"),
            Wake::After { means, .. } => format!("{means:?}"),
        });
    }
    assert_eq!(
        sources.len(),
        7,
        "two relative timers are one source here: {sources:?}"
    );
}

#[test]
fn the_robots_bounds_are_those_by_hand() {
    let analysis = analyse(&set("robot"), &MACHINE);
    let response = |index: usize| match &analysis.tasks[index].response {
        Response::Bounded { response_ns, .. } => Some(*response_ns / 1_000),
        _ => None,
    };
    // The filter is released 100 after the sensor's arrival at the latest, by the end of the sensor's job:
    // the next one comes at 1,000. The controller: 500, and 120 of the logger, which inherits its priority. The
    // actuator is above all that use the lock; its release is the controller's end, so it delays no job of it.
    let (filter, controller) = (100 + 250, 500 + 120);
    let actuator = controller + 80;
    let expected = [
        Some(100),
        Some(filter),
        Some(controller),
        Some(actuator),
        None,
    ];
    assert_eq!((0..5).map(response).collect::<Vec<_>>(), expected);
    // Two groups, each its period and the response of its last task; the age without the last period.
    let reaction_ns = (1_000 + filter + 2_000 + actuator) * 1_000;
    let age_ns = reaction_ns - 2_000_000;
    assert_eq!(
        analysis.chains[0].latency,
        ChainLatency::Bounded {
            reaction_ns,
            age_ns
        }
    );
}

#[test]
fn a_set_that_was_read_comes_back_from_json_as_it_was() {
    for (name, text) in examples() {
        let set = read(&text, &name, Format::Toml).expect("a sound set").set;
        let json = serde_json::to_string(&set).expect("JSON");
        assert_eq!(serde_json::from_str::<TaskSet>(&json).expect("a set"), set);
        let steps = set
            .tasks
            .iter()
            .flat_map(|task| &task.phases)
            .flat_map(|phase| &phase.work);
        assert!(
            steps
                .into_iter()
                .any(|step| matches!(step, Step::Run { .. })),
            "{name}"
        );
    }
}
