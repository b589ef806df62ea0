//! No simulated job is later than its bound, on thousands of random sets; and what is commonly
//! claimed instead of the bound is exceeded on the same sets.

mod support;

use punctual_sched::simulate::{Options, Random, simulate};
use punctual_sched::{Overheads, Policy, Protocol, Rank, Task, TaskSet, analyse};
use support::{Shape, Tally, compare, random_set, runs};

fn bounds(set: &TaskSet) -> Vec<Option<u64>> {
    let analysis = analyse(set).expect("a sound set");
    analysis
        .tasks
        .iter()
        .map(|task| task.as_ref().ok().map(|bound| bound.response_ns))
        .collect()
}

/// Holds on all sets, says something on nearly all tasks, and is reached by some.
fn holds(shape: &Shape, sets: u64, seed: u64, reached: usize) -> Tally {
    let tally = compare(shape, sets, seed, bounds);
    assert_eq!(tally.exceeded, 0, "{shape:?} {tally:?}");
    assert!(tally.reached >= reached, "{shape:?} {tally:?}");
    tally
}

const INHERIT: Option<Protocol> = Some(Protocol::Inherit);
const CEILING: Option<Protocol> = Some(Protocol::Ceiling { priority: 1 });

#[test]
fn no_job_is_later_than_its_bound() {
    let plain = holds(&Shape::default(), 1_000, 1, 2_000);
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
            1_000,
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
    holds(&shape, 500, 7, 0);
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
    holds(&shape, 500, 9, 0);
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
    let tally = holds(&shape, 1_000, 11, 20);
    assert!(tally.unbounded < tally.tasks / 2, "{tally:?}");
    let shape = Shape {
        reservations: 2,
        suspensions: true,
        ..Shape::default()
    };
    holds(&shape, 500, 12, 0);
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
fn no_job_that_the_kernel_interrupts_is_later_than_its_bound() {
    let shape = Shape {
        kernel: true,
        ..Shape::default()
    };
    holds(&shape, 500, 14, 100);
    let tally = compare(&shape, 200, 14, |set| {
        of_changed(set, |set| {
            set.interference.clear();
            set.overheads = Overheads::default();
        })
    });
    assert!(tally.exceeded > 200, "{tally:?}");
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
fn a_reservation_whose_task_wakes_up_early_takes_more_than_one_in_each_period() {
    let shape = Shape {
        reservations: 2,
        jitter: true,
        ..Shape::default()
    };
    let tally = compare(&shape, 1_000, 11, |set| {
        // As sporadic tasks with the reservations' parameters.
        let mut claims = of_changed(set, |set| {
            for task in &mut set.tasks {
                if let Policy::Deadline {
                    runtime_ns,
                    period_ns,
                    ..
                } = task.policy
                {
                    task.policy = Policy::Fixed { priority: 99 };
                    (task.execution_ns, task.period_ns) = (runtime_ns, period_ns);
                    task.jitter_ns = 0;
                }
            }
        });
        for (claim, task) in claims.iter_mut().zip(&set.tasks) {
            *claim = claim.filter(|_| task.rank() != Rank::Deadline);
        }
        claims
    });
    assert!(tally.exceeded > 0, "{tally:?}");
}

/// What the textbook has: the response of the first job, when all are released at once.
fn one_job(set: &TaskSet) -> Vec<Option<u64>> {
    let response = |index: usize| {
        let task = &set.tasks[index];
        let mut response = task.execution_ns;
        for _ in 0..10_000 {
            let mut next = task.execution_ns;
            for (other, it) in set.tasks.iter().enumerate() {
                if other != index && it.rank() >= task.rank() {
                    next += (response + it.jitter_ns).div_ceil(it.period_ns) * it.execution_ns;
                }
            }
            if next == response {
                return Some(response + task.jitter_ns);
            }
            response = next;
        }
        None
    };
    (0..set.tasks.len()).map(response).collect()
}

#[test]
fn the_textbook_formula_of_one_job_is_exceeded() {
    // Where a deadline is longer than the period, priorities need not follow periods.
    let shape = Shape {
        any_order: true,
        ..Shape::default()
    };
    for shape in [
        shape,
        Shape {
            jitter: true,
            ..shape
        },
    ] {
        let tally = compare(&shape, 500, 1, one_job);
        assert!(tally.exceeded > 0, "{tally:?}");
    }
    // Lehoczky 1990: the fifth job.
    let high = Task::new("high", Policy::Fixed { priority: 2 }, 70, 26);
    let low = Task::new("low", Policy::Fixed { priority: 1 }, 100, 62);
    let set = TaskSet {
        tasks: vec![high, low],
        ..TaskSet::default()
    };
    assert_eq!((one_job(&set)[1], bounds(&set)[1]), (Some(114), Some(118)));
    let simulation = simulate(&set, &Options::new(0, 700)).expect("a sound set");
    let worst = simulation.worst[1].as_ref().expect("a job");
    assert_eq!((worst.response_ns(), worst.arrival_ns), (118, 400));
}

/// The bound of a set that is told less than the truth.
fn of_changed(set: &TaskSet, change: impl Fn(&mut TaskSet)) -> Vec<Option<u64>> {
    let mut changed = set.clone();
    change(&mut changed);
    bounds(&changed)
}

#[test]
fn a_bound_that_ignores_jitter_locks_or_suspension_is_exceeded() {
    let shape = Shape {
        jitter: true,
        ..Shape::default()
    };
    let tally = compare(&shape, 200, 2, |set| {
        of_changed(set, |set| {
            set.tasks.iter_mut().for_each(|task| task.jitter_ns = 0)
        })
    });
    assert!(tally.exceeded > 100, "{tally:?}");
    for (seed, locks) in [(4, INHERIT), (5, CEILING)] {
        let shape = Shape {
            locks,
            ..Shape::default()
        };
        let tally = compare(&shape, 200, seed, |set| {
            of_changed(set, |set| {
                set.tasks.iter_mut().for_each(|task| task.sections.clear())
            })
        });
        assert!(tally.exceeded > 100, "{tally:?}");
    }
    // Only the highest task's suspension, which the others' bounds need.
    let shape = Shape {
        suspensions: true,
        ..Shape::default()
    };
    let tally = compare(&shape, 2_000, 6, |set| {
        let highest = set.tasks.iter().map(|task| task.rank()).max();
        let mut claims = of_changed(set, |set| {
            let of_highest = set
                .tasks
                .iter_mut()
                .filter(|task| Some(task.rank()) == highest);
            of_highest.for_each(|task| task.suspension = Default::default());
        });
        for (claim, task) in claims.iter_mut().zip(&set.tasks) {
            *claim = claim.filter(|_| Some(task.rank()) != highest);
        }
        claims
    });
    assert!(tally.exceeded > 0, "{tally:?}");
}

#[test]
fn a_plain_mutex_exceeds_the_bound_of_one_that_inherits() {
    let shape = Shape {
        locks: Some(Protocol::Plain),
        ..Shape::default()
    };
    let tally = compare(&shape, 300, 4, |set| {
        of_changed(set, |set| {
            set.locks
                .iter_mut()
                .for_each(|lock| lock.protocol = Protocol::Inherit);
        })
    });
    assert!(tally.exceeded > 20, "{tally:?}");
    // And the analysis promises nothing there.
    holds(&shape, 300, 4, 100);
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
