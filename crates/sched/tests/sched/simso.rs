//! SimSo executes the same sets, and the jobs respond alike. `data/README.md` says how its
//! figures were made.

use std::collections::BTreeMap;

use punctual_sched::simulate::{Options, simulate};
use punctual_sched::{Policy, Task, TaskSet, analyse};

#[test]
fn the_simulator_and_simso_see_the_same_worst_responses() {
    let mut sets: BTreeMap<u32, (u64, TaskSet, Vec<u64>)> = BTreeMap::new();
    for line in include_str!("../data/simso-responses.csv").lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |at: usize| fields[at].parse::<u64>().expect("a number");
        let (cost, period) = (number(3), number(4));
        let policy = match fields[1] {
            "FP" => Policy::Fixed {
                priority: number(6) as u8,
            },
            _ => Policy::Deadline {
                runtime_ns: cost,
                deadline_ns: period,
                period_ns: period,
            },
        };
        let mut task = Task::new("t", policy, period, cost);
        task.offset_ns = number(5);
        let set = sets.entry(number(0) as u32).or_default();
        set.0 = number(2);
        set.1.tasks.push(task);
        set.2.push(number(7));
    }
    let (mut compared, mut reached) = (0, 0);
    for (number, (duration, set, expected)) in &sets {
        let mut options = Options::new(0, *duration);
        options.keep = usize::MAX;
        let simulation = simulate(set, &options).expect("a sound set");
        let analysis = analyse(set).expect("a sound set");
        let mut found = vec![0; expected.len()];
        for job in simulation
            .jobs
            .iter()
            .filter(|job| job.finish_ns <= *duration)
        {
            found[job.task] = job.response_ns().max(found[job.task]);
        }
        for (task, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_eq!(found, expected, "set {number} task {task}");
            let bound = analysis.tasks[task].as_ref().expect("a bound").response_ns;
            assert!(
                *expected <= bound,
                "set {number} task {task}: {expected} {bound}"
            );
            reached += usize::from(*expected == bound);
        }
        compared += found.len();
    }
    assert!(compared > 350 && reached > 100, "{compared} {reached}");
}
