//! Another implementation, of analyses that PROSA has proved in Coq, says the same.

use crate::support::uunifast;
use punctual_sched::demand::{Demand, EdfTask, From, Sharing, edf};
use punctual_sched::simulate::Random;
use punctual_sched::{Policy, Task, TaskSet, analyse};
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::demand::RBF;
use response_time_analysis::fixed_priority::floating_nonpreemptive::{
    TaskUnderAnalysis, dedicated_uniproc_rta,
};
use response_time_analysis::time::{Duration, Service};
use response_time_analysis::{edf as oracle_edf, wcet};

/// Beyond it the oracle says that there is no bound.
const LIMIT: u64 = 10_000_000;

fn sporadic(task: &Task) -> RBF<Sporadic, wcet::Scalar> {
    let (period, jitter) = (
        Duration::from(task.period_ns),
        Duration::from(task.jitter_ns),
    );
    let cost = wcet::Scalar::new(Service::from(task.execution_ns));
    RBF::new(Sporadic::new(period, jitter), cost)
}

#[test]
fn response_times_of_fixed_priorities_equal_the_oracles() {
    let (mut equal, mut beyond, mut later) = (0, 0, 0);
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let count = 2 + random.up_to(4) as usize;
        let total = 0.3 + 0.68 * random.unit();
        let mut set = TaskSet::default();
        for share in uunifast(count, total, &mut random) {
            let period = 50 + random.up_to(1_950);
            let cost = ((share * period as f64) as u64).max(1);
            let priority = 1 + random.up_to(4) as u8;
            let mut task = Task::new("t", Policy::Fixed { priority }, period, cost);
            task.jitter_ns = random.up_to(1) * random.up_to(2 * period);
            set.tasks.push(task);
        }
        let blocking = random.up_to(1) * random.up_to(300);
        set.overheads.nonpreemptible_ns = blocking;
        let analysis = analyse(&set).expect("a sound set");
        for (index, task) in set.tasks.iter().enumerate() {
            let others = set
                .tasks
                .iter()
                .enumerate()
                .filter(|(other, it)| *other != index && it.rank() >= task.rank());
            let others: Vec<_> = others.map(|(_, it)| sporadic(it)).collect();
            let rbf = sporadic(task);
            let blocking_bound = Service::from(blocking);
            let own = TaskUnderAnalysis {
                rbf: &rbf,
                blocking_bound,
            };
            match dedicated_uniproc_rta(&own, &others, Duration::from(LIMIT)) {
                Ok(expected) => {
                    // It counts from the release.
                    let bound = analysis.tasks[index].as_ref().expect("a bound");
                    let found = Duration::from(bound.from_release_ns);
                    assert_eq!(found, expected, "task {index} of {set:?}");
                    equal += 1;
                    later += usize::from(bound.job > 0);
                }
                Err(_) => {
                    let own = analysis.tasks[index].as_ref();
                    assert!(
                        own.map_or(true, |bound| bound.response_ns > LIMIT / 2),
                        "{set:?}"
                    );
                    beyond += 1;
                }
            }
        }
    }
    assert!(
        equal > 9_000 && later > 200 && beyond < 100,
        "{equal} {later} {beyond}"
    );
}

#[test]
fn the_demand_test_agrees_with_response_times_under_edf() {
    let (mut met, mut missed) = (0, 0);
    for seed in 0..1_500 {
        let mut random = Random::new(seed);
        let count = 2 + random.up_to(3) as usize;
        let total = 0.5 + 0.48 * random.unit();
        let mut tasks = Vec::new();
        for share in uunifast(count, total, &mut random) {
            let period = 40 + random.up_to(400);
            let cost = ((share * period as f64) as u64).max(1);
            let deadline = cost + random.up_to(period + period / 4 - cost);
            tasks.push(EdfTask {
                execution_ns: cost,
                period_ns: period,
                jitter_ns: 0,
                deadline_ns: deadline,
                deadline_from: From::Arrival,
                sections: Vec::new(),
            });
        }
        let rbfs: Vec<_> = tasks
            .iter()
            .map(|task| {
                let period = Duration::from(task.period_ns);
                let cost = wcet::Scalar::new(Service::from(task.execution_ns));
                RBF::new(Sporadic::new_zero_jitter(period), cost)
            })
            .collect();
        let oracles = |index: usize| oracle_edf::fully_preemptive::Task {
            rbf: &rbfs[index],
            deadline: Duration::from(tasks[index].deadline_ns),
        };
        let on_time = (0..count).all(|index| {
            let others: Vec<_> = (0..count).filter(|o| *o != index).map(oracles).collect();
            let limit = Duration::from(LIMIT);
            let bound = oracle_edf::fully_preemptive::dedicated_uniproc_rta(
                &oracles(index),
                &others,
                limit,
            );
            bound.is_ok_and(|bound| bound <= Duration::from(tasks[index].deadline_ns))
        });
        let found = edf(&tasks, Sharing::Inherit);
        assert_eq!(found == Demand::Met, on_time, "{found:?} {tasks:?}");
        assert_ne!(found, Demand::Undecided);
        met += usize::from(on_time);
        missed += usize::from(!on_time);
    }
    assert!(met > 200 && missed > 200, "{met} {missed}");
}
