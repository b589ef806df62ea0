//! What is commonly claimed instead of a bound is exceeded by the simulator, on the same sets on
//! which the bounds hold.

use crate::support::{CEILING, INHERIT, Shape, bounds, compare, holds};
use punctual_sched::simulate::{Options, simulate};
use punctual_sched::{
    Outcome, Overheads, Policy, Protocol, Rank, Task, TaskSet, Unbounded, analyse,
};

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
fn a_bound_that_ignores_the_kernel_is_exceeded() {
    let shape = Shape {
        kernel: true,
        ..Shape::default()
    };
    let tally = compare(&shape, 200, 14, |set| {
        of_changed(set, |set| {
            set.interference.clear();
            set.overheads = Overheads::default();
        })
    });
    assert!(tally.exceeded > 200, "{tally:?}");
}

#[test]
fn what_a_reservation_has_left_makes_others_late() {
    let reserved = |runtime_ns, deadline_ns, period_ns| {
        let policy = Policy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        };
        Task::new("t", policy, period_ns, runtime_ns)
    };
    let mut set = TaskSet {
        tasks: vec![reserved(60, 100, 100), reserved(30, 40, 200)],
        ..TaskSet::default()
    };
    // It mostly needs less.
    set.tasks[0].execution_ns = 35;
    let alone = analyse(&set).expect("a sound set");
    assert_eq!(bounds(&set), [Some(100), Some(40)], "{alone:?}");
    // The first one wakes up while it has runtime left, due soon: with the second one's, too soon.
    set.tasks[0].jitter_ns = 100;
    let analysis = analyse(&set).expect("a sound set");
    let exceeded = |task: &Outcome| matches!(task, Err(Unbounded::Demand { .. }));
    assert!(analysis.tasks.iter().all(exceeded), "{analysis:?}");
    let late = (0..50).filter(|seed| {
        let mut options = Options::new(*seed, 40_000);
        options.keep = usize::MAX;
        set.tasks[1].offset_ns = seed % 200;
        let jobs = simulate(&set, &options).expect("a sound set").jobs;
        jobs.iter()
            .any(|job| job.task == 1 && job.finish_ns - job.release_ns > 40)
    });
    assert!(late.count() > 10);
}
