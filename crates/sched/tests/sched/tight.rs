//! How far above the worst that the simulator finds bounds are: a bound that is never wrong and of no
//! use would pass every other test.

use punctual_sched::simulate::Random;
use punctual_sched::{Lock, Policy, Protocol, Section, Server, Task, TaskSet, analyse};

use crate::support::{Shape, bounds, random_set, runs};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// The same set with all times so many times as long, so that a server's 50 ms of a second are as on a
/// machine.
fn stretched(mut set: TaskSet, by: u64) -> TaskSet {
    for task in &mut set.tasks {
        let times = [
            &mut task.period_ns,
            &mut task.offset_ns,
            &mut task.jitter_ns,
            &mut task.deadline_ns,
            &mut task.execution_ns,
            &mut task.suspension.total_ns,
        ];
        times.into_iter().for_each(|ns| *ns *= by);
        if let Policy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        } = &mut task.policy
        {
            [runtime_ns, deadline_ns, period_ns]
                .into_iter()
                .for_each(|ns| *ns *= by);
        }
        task.sections.iter_mut().for_each(|it| it.length_ns *= by);
    }
    set
}

/// The median of bound and worst response, in hundredths, of all tasks of 100 sets. No response is
/// later than its bound.
fn median(shape: &Shape, seed: u64) -> u64 {
    let mut ratios = Vec::new();
    for number in 0..100 {
        let mut random = Random::new(seed.wrapping_mul(1_000_003) + number);
        let mut set = stretched(random_set(shape, &mut random), 1_000);
        set.servers.push(Server::usual());
        let claims = bounds(&set);
        let mut worst = vec![0; set.tasks.len()];
        for (_, simulation) in runs(&set, random.bits(), 6, 0) {
            for (worst, job) in worst.iter_mut().zip(&simulation.worst) {
                *worst = job.as_ref().map_or(0, |job| job.response_ns()).max(*worst);
            }
        }
        for (claim, worst) in claims.iter().zip(&worst) {
            let Some(claim) = claim.filter(|_| *worst > 0) else {
                continue;
            };
            assert!(*worst <= claim, "{worst} of {claim}: {set:?}");
            ratios.push(claim * 100 / worst);
        }
    }
    ratios.sort_unstable();
    ratios[ratios.len() / 2]
}

#[test]
fn half_of_the_bounds_are_within_half_of_the_worst_response() {
    let plain = Shape::default();
    let shapes = [
        plain,
        Shape {
            periodic: true,
            ..plain
        },
        Shape {
            any_order: true,
            equal_priorities: true,
            ..plain
        },
        Shape {
            jitter: true,
            ..plain
        },
        Shape {
            locks: Some(Protocol::Inherit),
            ..plain
        },
        Shape {
            locks: Some(Protocol::Ceiling { priority: 1 }),
            ..plain
        },
        Shape {
            chains: true,
            ..plain
        },
        Shape {
            chains: true,
            any_order: true,
            ..plain
        },
        Shape {
            chains: true,
            any_order: true,
            every: true,
            ..plain
        },
        Shape {
            chains: true,
            any_order: true,
            periodic: true,
            ..plain
        },
        Shape {
            chains: true,
            any_order: true,
            locks: Some(Protocol::Inherit),
            ..plain
        },
        Shape {
            suspensions: true,
            ..plain
        },
        Shape {
            reservations: 2,
            ..plain
        },
    ];
    for (seed, shape) in shapes.iter().enumerate() {
        let median = median(shape, 40 + seed as u64);
        assert!(median <= 150, "{median} % of {shape:?}");
    }
}

/// One section of 0.9 ms each second can't hold up 1,000 jobs of another task: the CPU is busy for 5 %.
#[test]
fn a_rare_holder_of_a_lock_delays_one_job_and_makes_no_server_run() {
    let mut high = Task::new("hi", Policy::Fixed { priority: 80 }, MS, 50 * US);
    let mut low = Task::new("lo", Policy::Fixed { priority: 20 }, 1_000 * MS, 900 * US);
    for (task, length_ns) in [(&mut high, 10 * US), (&mut low, 900 * US)] {
        task.sections.push(Section {
            lock: 0,
            length_ns,
            times: 1,
        });
    }
    let set = TaskSet {
        tasks: vec![high, low],
        locks: vec![Lock {
            name: "m".to_owned(),
            protocol: Protocol::Inherit,
        }],
        servers: vec![Server::usual()],
        ..TaskSet::default()
    };
    let analysis = analyse(&set).expect("a sound set");
    let case = analysis.servers[0][&0];
    // 1,000 jobs and one more that is late by 0.9 ms, and one of 0.9 ms and one more.
    assert!(!case.may_run, "{case:?}");
    assert!(case.taken_ns.is_some_and(|ns| ns <= 53 * MS), "{case:?}");
    assert_eq!(bounds(&set), [Some(950 * US), Some(950 * US)]);
}

/// A task of higher rank that the end of a job releases comes after that job.
#[test]
fn what_a_job_releases_does_not_delay_it() {
    let mut first = Task::new("t1", Policy::Fixed { priority: 23 }, 4 * MS, 128 * US);
    let mut second = Task::new("t2", Policy::Fixed { priority: 65 }, 4 * MS, 1_814 * US);
    first.deadline_ns = 12 * MS;
    (second.deadline_ns, second.after) = (20 * MS, Some(0));
    let mut set = TaskSet {
        tasks: vec![first, second],
        ..TaskSet::default()
    };
    assert_eq!(bounds(&set), [Some(128 * US), Some(1_942 * US)]);
    // Longer than the period together: the second job waits for what the first one released.
    set.tasks[1].execution_ns = 3_900 * US;
    assert_eq!(bounds(&set), [None, None]);
    (set.tasks[0].execution_ns, set.tasks[0].jitter_ns) = (60 * US, 2 * MS);
    // Released at 2 ms, the next at 4: until 5.96 the CPU has what the first one released.
    assert_eq!(bounds(&set)[0], Some(2_060 * US));
}
