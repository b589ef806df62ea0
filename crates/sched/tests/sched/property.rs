//! No simulated job is later than its bound, on thousands of random sets.

use crate::support::{CEILING, INHERIT, Shape, bounds, compare, holds, random_set, runs};
use punctual_sched::simulate::Random;
use punctual_sched::{Policy, Protocol, Rank, TaskSet, analyse};

#[test]
fn no_job_is_later_than_its_bound() {
    let plain = holds(&Shape::default(), 600, 1, 1_200);
    assert_eq!(plain.unbounded, 0);
    let jitter = holds(
        &Shape {
            jitter: true,
            ..Shape::default()
        },
        1_000,
        2,
        300,
    );
    assert_eq!(jitter.unbounded, 0);
    let shape = Shape {
        jitter: true,
        any_order: true,
        equal_priorities: true,
        ..Shape::default()
    };
    holds(&shape, 500, 3, 100);
    holds(
        &Shape {
            any_order: true,
            ..Shape::default()
        },
        500,
        1,
        500,
    );
}

#[test]
fn no_job_that_shares_locks_is_later_than_its_bound() {
    for (seed, locks) in [(4, INHERIT), (5, CEILING)] {
        holds(
            &Shape {
                locks,
                ..Shape::default()
            },
            600,
            seed,
            500,
        );
        let shape = Shape {
            locks,
            jitter: true,
            equal_priorities: true,
            ..Shape::default()
        };
        holds(
            &Shape {
                any_order: true,
                ..shape
            },
            500,
            seed,
            50,
        );
    }
}

#[test]
fn no_job_that_suspends_itself_or_is_released_by_another_is_later_than_its_bound() {
    holds(
        &Shape {
            suspensions: true,
            ..Shape::default()
        },
        500,
        6,
        200,
    );
    let shape = Shape {
        suspensions: true,
        locks: INHERIT,
        jitter: true,
        ..Shape::default()
    };
    holds(&shape, 300, 7, 0);
    holds(
        &Shape {
            chains: true,
            ..Shape::default()
        },
        500,
        8,
        100,
    );
    let shape = Shape {
        chains: true,
        locks: INHERIT,
        suspensions: true,
        ..shape
    };
    holds(&shape, 200, 9, 0);
}

#[test]
fn no_job_that_every_second_or_third_of_another_task_releases_is_later_than_its_bound() {
    let chains = Shape {
        chains: true,
        every: true,
        any_order: true,
        ..Shape::default()
    };
    holds(&chains, 600, 21, 100);
    let shape = Shape {
        locks: INHERIT,
        jitter: true,
        suspensions: true,
        kernel: true,
        ..chains
    };
    holds(&shape, 200, 22, 0);
    // The response of one job isn't enough: the release may be as late as the other's response.
    let claim = |set: &TaskSet| -> Vec<Option<u64>> {
        let mut apart = set.clone();
        apart.tasks.iter_mut().for_each(|task| task.after = None);
        bounds(&apart)
    };
    let tally = compare(&chains, 300, 21, claim);
    assert!(tally.exceeded > 50, "{tally:?}");
}

#[test]
fn no_job_beside_reservations_is_later_than_its_bound() {
    let tally = holds(
        &Shape {
            reservations: 2,
            ..Shape::default()
        },
        1_000,
        10,
        200,
    );
    assert!(tally.unbounded < tally.tasks / 4, "{tally:?}");
    let shape = Shape {
        reservations: 2,
        jitter: true,
        ..Shape::default()
    };
    let tally = holds(&shape, 600, 11, 20);
    assert!(tally.unbounded < tally.tasks / 2, "{tally:?}");
    let shape = Shape {
        reservations: 2,
        suspensions: true,
        ..Shape::default()
    };
    holds(&shape, 300, 12, 0);
    holds(
        &Shape {
            reservations: 1,
            locks: INHERIT,
            ..Shape::default()
        },
        500,
        13,
        0,
    );
}

#[test]
fn no_job_among_reservations_alone_is_later_than_its_bound() {
    let shape = Shape {
        reservations: 6,
        ..Shape::default()
    };
    let tally = compare(&shape, 300, 17, bounds);
    assert!(
        tally.exceeded == 0 && tally.unbounded < tally.tasks / 2,
        "{tally:?}"
    );
    let shape = Shape {
        jitter: true,
        any_order: true,
        ..shape
    };
    let tally = compare(&shape, 600, 18, bounds);
    assert!(
        tally.exceeded == 0 && tally.unbounded < 2 * tally.tasks / 3,
        "{tally:?}"
    );
}

#[test]
fn no_job_that_the_kernel_interrupts_is_later_than_its_bound() {
    let shape = Shape {
        kernel: true,
        ..Shape::default()
    };
    holds(&shape, 500, 14, 100);
    let shape = Shape {
        jitter: true,
        suspensions: true,
        locks: INHERIT,
        ..shape
    };
    holds(&shape, 300, 15, 0);
    let shape = Shape {
        kernel: true,
        reservations: 2,
        jitter: true,
        ..Shape::default()
    };
    holds(&shape, 300, 16, 0);
}

#[test]
fn the_times_of_each_job_sum_to_its_response() {
    let shapes = [
        Shape {
            jitter: true,
            locks: INHERIT,
            suspensions: true,
            ..Shape::default()
        },
        Shape {
            locks: CEILING,
            equal_priorities: true,
            chains: true,
            ..Shape::default()
        },
        Shape {
            reservations: 2,
            jitter: true,
            ..Shape::default()
        },
        Shape {
            locks: Some(Protocol::Plain),
            ..Shape::default()
        },
    ];
    let (mut jobs, mut preempted, mut blocked, mut throttled) = (0, 0, 0, 0);
    for (seed, shape) in shapes.iter().enumerate() {
        for number in 0..50 {
            let seed = 100 * seed as u64 + number;
            let set = random_set(shape, &mut Random::new(seed));
            let analysis = analyse(&set).expect("a sound set");
            for (set, simulation) in runs(&set, seed, 3, 10_000) {
                for job in &simulation.jobs {
                    let of_others: u64 = job.preempted.iter().map(|one| one.1).sum();
                    let of_holders: u64 = job.blocked.iter().map(|one| one.2).sum();
                    let sum = (job.release_ns - job.arrival_ns)
                        + job.behind_ns
                        + job.executed_ns
                        + job.suspended_ns
                        + job.throttled_ns
                        + job.interrupted_ns
                        + of_others
                        + of_holders;
                    assert_eq!(sum, job.response_ns(), "{job:?} {set:?}");
                    assert!(
                        job.executed_ns <= set.tasks[job.task].execution_ns,
                        "{job:?}"
                    );
                    let since = job.finish_ns - job.release_ns;
                    if let Ok(bound) = &analysis.tasks[job.task] {
                        assert!(since <= bound.from_release_ns, "{job:?} {bound:?} {set:?}");
                    }
                    jobs += 1;
                    preempted += usize::from(of_others > 0);
                    blocked += usize::from(of_holders > 0);
                    throttled += usize::from(job.throttled_ns > 0);
                }
            }
        }
    }
    assert!(jobs > 10_000 && preempted > 1_000 && blocked > 1_000 && throttled > 100);
}

#[test]
fn the_parts_of_a_bound_sum_to_it() {
    let shape = Shape {
        jitter: true,
        locks: INHERIT,
        suspensions: true,
        ..Shape::default()
    };
    let mut compared = 0;
    for seed in 0..300 {
        let set = random_set(&shape, &mut Random::new(seed));
        let analysis = analyse(&set).expect("a sound set");
        for (task, outcome) in set.tasks.iter().zip(&analysis.tasks) {
            let Ok(bound) = outcome else { continue };
            let sum: u64 = bound.parts.iter().map(|part| part.ns).sum();
            let until = bound.response_ns + bound.job * task.period_ns - bound.jitter_ns;
            assert_eq!(sum, until, "{bound:?}");
            compared += 1;
        }
    }
    assert!(compared > 500, "{compared}");
}

#[test]
fn ordinary_tasks_are_promised_nothing() {
    let mut set = random_set(&Shape::default(), &mut Random::new(1));
    set.tasks[0].policy = Policy::Other;
    assert_eq!(set.tasks[0].rank(), Rank::Other);
    let analysis = analyse(&set).expect("a sound set");
    assert!(!analysis.meets(&set, 0) && analysis.all_meet(&set));
}
