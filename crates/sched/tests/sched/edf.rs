//! Processor demand against every interval, and against the simulator.

use punctual_sched::demand::{Demand, EdfTask, From, Sharing, edf};
use punctual_sched::simulate::{Options, Random, simulate};
use punctual_sched::{Lock, Policy, Protocol, Section, Task, TaskSet};

use crate::support::uunifast;

fn tasks(random: &mut Random) -> Vec<EdfTask> {
    let count = 2 + random.up_to(3) as usize;
    let total = 0.6 + 0.39 * random.unit();
    let task = |share: f64| {
        let period = 10 * [4, 5, 6, 8, 10, 12, 15, 20][random.up_to(7) as usize];
        let execution_ns = ((share * period as f64) as u64).max(1);
        EdfTask {
            execution_ns,
            period_ns: period,
            jitter_ns: 0,
            deadline_ns: (period / 3).max(execution_ns) + random.up_to(2 * period / 3),
            deadline_from: From::Arrival,
            sections: Vec::new(),
        }
    };
    let mut other = Random::new(total.to_bits());
    uunifast(count, total, &mut other)
        .into_iter()
        .map(task)
        .collect()
}

/// The shortest interval in which more is due than fits, by looking at all.
fn by_looking(tasks: &[EdfTask], until: u64) -> Option<u64> {
    (0..until).find(|interval| {
        let due = tasks.iter().map(|task| {
            let first = match task.deadline_from {
                From::Arrival => task.deadline_ns.saturating_sub(task.jitter_ns),
                From::Release => task.deadline_ns,
            };
            if *interval < first {
                return 0;
            }
            let beyond = interval + task.jitter_ns - task.deadline_ns;
            (beyond / task.period_ns + 1) * task.execution_ns
        });
        due.sum::<u64>() > *interval
    })
}

#[test]
fn few_intervals_tell_as_much_as_all() {
    let (mut met, mut exceeded) = (0, 0);
    for seed in 0..3_000 {
        let mut random = Random::new(seed);
        let mut tasks = tasks(&mut random);
        if seed % 2 == 0 {
            for task in &mut tasks {
                task.jitter_ns = random.up_to(task.deadline_ns / 2);
                task.deadline_from = [From::Arrival, From::Release][random.up_to(1) as usize];
            }
        }
        let whole: f64 = tasks
            .iter()
            .map(|task| task.execution_ns as f64 / task.period_ns as f64)
            .sum();
        if whole > 1.0 {
            continue;
        }
        // Twice the least common multiple of all periods.
        let first = by_looking(&tasks, 2 * 1_200 + 400);
        match edf(&tasks, Sharing::Inherit) {
            Demand::Met => {
                assert_eq!(first, None, "{tasks:?}");
                met += 1;
            }
            Demand::Exceeded {
                interval_ns,
                demand_ns,
                first: is_first,
            } => {
                assert!(is_first && demand_ns > interval_ns);
                assert_eq!(Some(interval_ns), first, "{tasks:?}");
                exceeded += 1;
            }
            Demand::Undecided => panic!("{tasks:?}"),
        }
    }
    assert!(met > 500 && exceeded > 500, "{met} {exceeded}");
}

/// The same tasks for the simulator, with deadlines from the release.
fn executed(tasks: &[EdfTask], locks: usize, random: &mut Random) -> TaskSet {
    let task = |it: &EdfTask| {
        let policy = Policy::Deadline {
            runtime_ns: it.execution_ns,
            deadline_ns: it.deadline_ns,
            period_ns: it.period_ns,
        };
        let mut task = Task::new("t", policy, it.period_ns, it.execution_ns);
        task.offset_ns = random.up_to(it.period_ns - 1);
        let section = |&(lock, length_ns): &(usize, u64)| Section {
            lock,
            length_ns,
            times: 1,
        };
        task.sections = it.sections.iter().map(section).collect();
        task
    };
    let lock = |_| Lock {
        name: "m".to_owned(),
        protocol: Protocol::Inherit,
    };
    TaskSet {
        tasks: tasks.iter().map(task).collect(),
        locks: (0..locks).map(lock).collect(),
        ..TaskSet::default()
    }
}

/// How many jobs of a simulation are late.
fn late(tasks: &[EdfTask], locks: usize, seed: u64) -> usize {
    let mut random = Random::new(seed);
    let runs = (0..6).map(|run| {
        let set = executed(tasks, locks, &mut random);
        let mut options = Options::new(seed + run, 4_000);
        options.keep = usize::MAX;
        let simulation = simulate(&set, &options).expect("a sound set");
        let late = |job: &&punctual_sched::simulate::Job| {
            job.finish_ns - job.release_ns > tasks[job.task].deadline_ns
        };
        simulation.jobs.iter().filter(late).count()
    });
    runs.sum()
}

#[test]
fn no_job_is_late_where_the_demand_with_blocking_is_met() {
    let (mut met, mut missed_without) = (0, 0);
    for seed in 0..1_500 {
        let mut random = Random::new(seed);
        let mut tasks = tasks(&mut random);
        for task in &mut tasks {
            task.deadline_ns = task.deadline_ns.min(task.period_ns);
            for lock in 0..2 {
                let length = random.up_to(task.execution_ns / 2);
                if length > 0 {
                    task.sections.push((lock, length));
                }
            }
        }
        let mut without = tasks.clone();
        without.iter_mut().for_each(|task| task.sections.clear());
        if edf(&without, Sharing::Inherit) != Demand::Met {
            continue;
        }
        let late = late(&tasks, 2, seed);
        if edf(&tasks, Sharing::Inherit) == Demand::Met {
            assert_eq!(late, 0, "{tasks:?}");
            // Less is waited for under the stack resource policy.
            assert_eq!(edf(&tasks, Sharing::Stack), Demand::Met);
            met += 1;
        } else {
            missed_without += usize::from(late > 0);
        }
    }
    // Without blocking in the test, sets with late jobs would pass.
    assert!(met > 100 && missed_without > 10, "{met} {missed_without}");
}

#[test]
fn times_out_of_range_are_undecided() {
    let task = |execution_ns, period_ns, jitter_ns, deadline_ns| EdfTask {
        execution_ns,
        period_ns,
        jitter_ns,
        deadline_ns,
        deadline_from: From::Arrival,
        sections: Vec::new(),
    };
    assert_eq!(edf(&[], Sharing::Inherit), Demand::Met);
    assert_eq!(
        edf(&[task(1, 0, 0, 1)], Sharing::Inherit),
        Demand::Undecided
    );
    assert_eq!(
        edf(&[task(u64::MAX, 1, 0, 1)], Sharing::Inherit),
        Demand::Undecided
    );
    // Coprime periods and a load of nearly one: too long to be looked at.
    let long: Vec<_> = (0..40)
        .map(|n| task((1 << 48) / 40, (1 << 48) + 2 * n + 1, 0, 1 << 48))
        .collect();
    assert_ne!(edf(&long, Sharing::Stack), Demand::Undecided);
    let over = edf(
        &[task(1, 1, 0, 1), task(1, 1 << 50, 0, 1 << 50)],
        Sharing::Stack,
    );
    assert!(matches!(over, Demand::Exceeded { .. }), "{over:?}");
    // Released after its deadline.
    let never = edf(&[task(1, 10, 10, 5)], Sharing::Stack);
    assert_eq!(
        never,
        Demand::Exceeded {
            interval_ns: 0,
            demand_ns: 1,
            first: true
        }
    );
}
