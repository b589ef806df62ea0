//! Tasks that arrive strictly by their periods: bounds at their offsets, by hand, exact where they can
//! be, and never exceeded.

use crate::support::{
    CEILING, INHERIT, Shape, Tally, bounds, compare, holds, random_set, uunifast,
};
use punctual_sched::sensitivity::largest_factor_ppm;
use punctual_sched::simulate::{Lateness, Options, Random, simulate};
use punctual_sched::{Arrivals, Policy, Task, TaskSet, analyse};

/// Tasks of execution time, period and offset, highest priority first.
fn set(tasks: &[(u64, u64, u64)]) -> TaskSet {
    let task = |(place, (cost, period, offset)): (usize, &(u64, u64, u64))| {
        let priority = 90 - place as u8;
        let mut task = Task::new("t", Policy::Fixed { priority }, *period, *cost);
        (task.arrivals, task.offset_ns) = (Arrivals::Periodic, *offset);
        task
    };
    TaskSet {
        tasks: tasks.iter().enumerate().map(task).collect(),
        ..TaskSet::default()
    }
}

fn sporadic(set: &TaskSet) -> TaskSet {
    let mut set = set.clone();
    set.tasks
        .iter_mut()
        .for_each(|task| task.arrivals = Arrivals::Sporadic);
    set
}

#[test]
fn offsets_count_as_by_hand() {
    // The lower one begins when the upper one is done.
    let two = set(&[(2, 4, 0), (2, 4, 2)]);
    assert_eq!(bounds(&two), [Some(2), Some(2)]);
    assert_eq!(bounds(&sporadic(&two)), [Some(2), Some(4)]);
    // An offset beyond the period is one within it.
    assert_eq!(bounds(&set(&[(2, 4, 0), (2, 4, 42)])), [Some(2), Some(2)]);
    // From 5 to 10; released up to 3 later, the upper one ends at 7, and comes again at 10.
    let mut late = set(&[(4, 10, 0), (5, 20, 5)]);
    assert_eq!(bounds(&late), [Some(4), Some(5)]);
    assert_eq!(bounds(&sporadic(&late))[1], Some(9));
    late.tasks[0].jitter_ns = 3;
    assert_eq!(bounds(&late), [Some(7), Some(11)]);
    assert_eq!(bounds(&sporadic(&late))[1], Some(13));
    let bound = analyse(&late).expect("a sound set").tasks.remove(1);
    let bound = bound.expect("a bound");
    // The window begins at 3: with 4, 5, and 4 from 10 on.
    assert!(bound.at_offsets && bound.arrival_in_window_ns == 2);
    assert_eq!(bound.parts.iter().map(|part| part.ns).sum::<u64>(), 13);
    // One after the other: 0 to 3, 4 to 6, 6 to 10.
    let three = set(&[(3, 10, 0), (2, 30, 4), (4, 30, 6)]);
    assert_eq!(bounds(&three), [Some(3), Some(2), Some(4)]);
    assert_eq!(bounds(&sporadic(&three)), [Some(3), Some(5), Some(9)]);
    // At 4 it takes 2; at 19 it runs for 1, and 1 more after that of 20.
    assert_eq!(bounds(&set(&[(3, 10, 0), (2, 15, 4)])), [Some(3), Some(5)]);
    // All at once at some time: nothing is gained, and nothing claimed.
    let alike = set(&[(3, 10, 8), (3, 15, 3), (4, 30, 18)]);
    assert_eq!(bounds(&alike), bounds(&sporadic(&alike)));
    let analysis = analyse(&alike).expect("a sound set");
    assert!(!analysis.tasks[2].as_ref().expect("a bound").at_offsets);
    // One that arrives at any time may do so together with any other.
    // Below both: 4 from 0 on, and 3 before 8.
    let mut any = set(&[(4, 20, 0), (4, 20, 8), (3, 20, 9)]);
    any.tasks[2].arrivals = Arrivals::Sporadic;
    assert_eq!(bounds(&any), [Some(4), Some(4), Some(7)]);
    assert_eq!(bounds(&sporadic(&any)), [Some(4), Some(8), Some(11)]);
}

#[test]
fn a_chain_keeps_the_offset_of_its_first_task() {
    let mut two = set(&[(3, 20, 0), (4, 20, 0), (5, 20, 10)]);
    two.tasks[1].after = Some(0);
    two.tasks[1].arrivals = Arrivals::Sporadic;
    // Both are done at 7, and the third begins at 10.
    assert_eq!(bounds(&two), [Some(3), Some(7), Some(5)]);
    assert_eq!(bounds(&sporadic(&two))[2], Some(12));
    // Every second job: which ones isn't known.
    two.tasks[1].period_ns = 40;
    assert_eq!(bounds(&two)[2], Some(9));
}

/// Executes a set at its offsets for some common multiples of its periods.
fn worst(set: &TaskSet, multiple: u64) -> Vec<u64> {
    let options = Options::new(1, 4 * multiple);
    let simulation = simulate(set, &options).expect("a sound set");
    let of = |job: &Option<punctual_sched::simulate::Job>| {
        job.as_ref().map_or(0, |job| job.response_ns())
    };
    simulation.worst.iter().map(of).collect()
}

#[test]
fn without_jitter_and_locks_the_bound_is_what_happens() {
    let (mut equal, mut lower) = (0, 0);
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let count = 2 + random.up_to(4) as usize;
        let total = 0.4 + 0.58 * random.unit();
        let mut tasks = Vec::new();
        for share in uunifast(count, total, &mut random) {
            let period = [40, 50, 80, 100, 200][random.up_to(4) as usize];
            let cost = ((share * period as f64) as u64).max(1);
            tasks.push((cost, period, random.up_to(2 * period)));
        }
        let set = set(&tasks);
        let (found, expected) = (bounds(&set), worst(&set, 400));
        for ((found, expected), together) in
            found.iter().zip(&expected).zip(bounds(&sporadic(&set)))
        {
            assert_eq!(*found, Some(*expected), "seed {seed} {set:?}");
            equal += 1;
            lower += usize::from(*found < together);
        }
    }
    assert!(equal > 2_000 && lower > 800, "{equal} {lower}");
}

/// Never exceeded, never above the bound of tasks that arrive together, and below it for some.
fn holds_and_gains(shape: &Shape, sets: u64, seed: u64, gains: usize) -> Tally {
    let tally = holds(shape, sets, seed, 0);
    let mut lower = 0;
    for number in 0..sets {
        let set = random_set(
            shape,
            &mut Random::new(seed.wrapping_mul(1_000_003) + number),
        );
        let all = bounds(&set).into_iter().zip(bounds(&sporadic(&set)));
        for (at, together) in all {
            assert!(
                at.is_some() == together.is_some() && at <= together,
                "{set:?}"
            );
            lower += usize::from(at < together);
        }
    }
    assert!(lower >= gains, "{shape:?}: {lower} lower");
    tally
}

#[test]
fn no_job_at_its_offset_is_later_than_its_bound() {
    let periodic = Shape {
        periodic: true,
        any_order: true,
        ..Shape::default()
    };
    holds_and_gains(&periodic, 200, 31, 100);
    let jitter = Shape {
        jitter: true,
        ..periodic
    };
    holds_and_gains(&jitter, 200, 32, 30);
    let equal = Shape {
        equal_priorities: true,
        ..jitter
    };
    holds_and_gains(&equal, 100, 33, 15);
    for (seed, locks) in [(34, INHERIT), (35, CEILING)] {
        holds_and_gains(&Shape { locks, ..jitter }, 100, seed, 15);
    }
    let suspensions = Shape {
        suspensions: true,
        locks: INHERIT,
        ..jitter
    };
    holds_and_gains(&suspensions, 100, 36, 8);
    let chains = Shape {
        chains: true,
        every: true,
        ..jitter
    };
    holds_and_gains(&chains, 150, 37, 8);
    let kernel = Shape {
        kernel: true,
        ..jitter
    };
    holds_and_gains(&kernel, 100, 38, 8);
    let reservations = Shape {
        reservations: 1,
        ..jitter
    };
    holds_and_gains(&reservations, 80, 39, 2);
    let all = Shape {
        kernel: true,
        suspensions: true,
        ..chains
    };
    holds_and_gains(&all, 100, 40, 0);
}

#[test]
fn a_bound_at_offsets_that_do_not_hold_or_without_jitter_is_exceeded() {
    let shape = Shape {
        periodic: true,
        jitter: true,
        ..Shape::default()
    };
    // As if those that arrive at any time kept an offset.
    let tally = compare(&shape, 100, 32, |set| {
        let mut all = set.clone();
        all.tasks
            .iter_mut()
            .for_each(|task| task.arrivals = Arrivals::Periodic);
        bounds(&all)
    });
    assert!(tally.exceeded > 5, "{tally:?}");
    let tally = compare(&shape, 100, 32, |set| {
        let mut exact = set.clone();
        exact.tasks.iter_mut().for_each(|task| task.jitter_ns = 0);
        bounds(&exact)
    });
    assert!(tally.exceeded > 30, "{tally:?}");
}

#[test]
fn a_margin_found_at_offsets_is_one() {
    let (mut more, mut compared) = (0, 0);
    for seed in 0..30 {
        let mut random = Random::new(seed);
        let mut tasks = Vec::new();
        for share in uunifast(3, 0.5, &mut random) {
            let period = [40_000, 50_000, 100_000][random.up_to(2) as usize];
            let cost = ((share * period as f64) as u64).max(1);
            tasks.push((cost, period, random.up_to(period)));
        }
        let mut set = set(&tasks);
        set.tasks[0].jitter_ns = random.up_to(5_000);
        let factor = largest_factor_ppm(&set, &[]).expect("a sound set");
        let together = largest_factor_ppm(&sporadic(&set), &[]).expect("a sound set");
        assert!(factor >= together, "{set:?}");
        more += usize::from(factor > together);
        for task in &mut set.tasks {
            task.execution_ns = (task.execution_ns * factor / 1_000_000).max(1);
        }
        for (run, jitter) in [(0, Lateness::FirstOnly), (1, Lateness::Random)] {
            let mut options = Options::new(run, 2_000_000);
            options.jitter = jitter;
            let simulation = simulate(&set, &options).expect("a sound set");
            for (task, worst) in set.tasks.iter().zip(&simulation.worst) {
                let worst = worst.as_ref().expect("a job");
                assert!(worst.response_ns() <= task.deadline_ns, "{worst:?} {set:?}");
                compared += 1;
            }
        }
    }
    assert!(more > 10 && compared == 180, "{more} {compared}");
}
