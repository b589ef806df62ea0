//! Reaction time and data age in the simulator, never above their bounds.

use crate::support::{PERIODS, uunifast};
use punctual_sched::chain::{Broken, Latency, latency};
use punctual_sched::simulate::{Job, Options, Random, simulate};
use punctual_sched::{Policy, Task, TaskSet, analyse};

/// Five tasks on two CPUs, some of them released by the one before; the first four are a chain.
fn set(random: &mut Random) -> TaskSet {
    let mut set = TaskSet::default();
    let shares = uunifast(5, 0.9 + 0.6 * random.unit(), random);
    let mut priorities: Vec<u8> = (10..15).collect();
    for at in (1..5).rev() {
        priorities.swap(at, random.up_to(at as u64) as usize);
    }
    let mut load = [0.0, 0.0];
    for (index, share) in shares.into_iter().enumerate() {
        let mut period = 100 * PERIODS[random.up_to(PERIODS.len() as u64 - 1) as usize];
        let after = (0 < index && index < 4 && random.up_to(2) == 0).then(|| index - 1);
        if let Some(before) = after {
            // Each job of it, or every second or third.
            period = set.tasks[before].period_ns * (1 + random.up_to(5).saturating_sub(3));
        }
        let share = share.min(0.6);
        let cost = ((share * period as f64) as u64).max(2);
        let policy = Policy::Fixed {
            priority: priorities[index],
        };
        let mut task = Task::new("t", policy, period, cost);
        // Where there is room for it.
        task.cpu = u32::from(load[0] > load[1]);
        load[task.cpu as usize] += share;
        task.after = after;
        if after.is_none() {
            task.jitter_ns = random.up_to(1) * random.up_to(period / 4);
        }
        set.tasks.push(task);
    }
    set
}

const CHAIN: [usize; 4] = [0, 1, 2, 3];

/// The longest reaction, age and age until replaced in these jobs.
fn observed(jobs: &[Job]) -> Latency {
    let of = |task: usize| -> Vec<&Job> {
        let mut of: Vec<&Job> = jobs.iter().filter(|job| job.task == task).collect();
        of.sort_by_key(|job| job.start_ns);
        of
    };
    let sources = of(CHAIN[0]);
    // For each output of a task: when it is written, and the source's job that it is made of.
    let mut outputs: Vec<(u64, usize)> = sources
        .iter()
        .enumerate()
        .map(|(at, job)| (job.finish_ns, at))
        .collect();
    for task in &CHAIN[1..] {
        outputs = of(*task)
            .into_iter()
            .filter_map(|job| {
                let written = outputs.partition_point(|(at, _)| *at <= job.start_ns);
                written
                    .checked_sub(1)
                    .map(|last| (job.finish_ns, outputs[last].1))
            })
            .collect();
    }
    let (mut reaction_ns, mut age_ns, mut age_until_replaced_ns) = (0, 0, 0);
    for (at, (finish, source)) in outputs.iter().enumerate() {
        let since = |time: u64| time - sources[*source].arrival_ns;
        age_ns = since(*finish).max(age_ns);
        if let Some((replaced, _)) = outputs.get(at + 1) {
            age_until_replaced_ns = since(*replaced).max(age_until_replaced_ns);
        }
    }
    for (missed, source) in sources.iter().enumerate() {
        // An event just after this job has read.
        if let Some((finish, _)) = outputs.iter().find(|(_, made_of)| *made_of > missed) {
            reaction_ns = (finish - source.start_ns).max(reaction_ns);
        }
    }
    Latency {
        reaction_ns,
        age_ns,
        age_until_replaced_ns,
    }
}

#[test]
fn no_chain_takes_longer_than_its_bound() {
    let (mut compared, mut close, mut beyond_responses, mut shortened) = (0, 0, 0, 0);
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let set = set(&mut random);
        let analysis = analyse(&set).expect("a sound set");
        let bound = match latency(&set, &analysis, &CHAIN) {
            Ok(bound) => bound,
            Err(Broken::Unbounded(..)) => continue,
            Err(why) => panic!("{why:?} {set:?}"),
        };
        compared += 1;
        let mut worst = Latency {
            reaction_ns: 0,
            age_ns: 0,
            age_until_replaced_ns: 0,
        };
        for run in 0..8 {
            let mut set = set.clone();
            for task in &mut set.tasks {
                task.offset_ns = random.up_to(task.period_ns - 1);
            }
            let mut options = Options::new(8 * seed + run, 60_000);
            options.keep = usize::MAX;
            let seen = observed(&simulate(&set, &options).expect("a sound set").jobs);
            worst.reaction_ns = worst.reaction_ns.max(seen.reaction_ns);
            worst.age_ns = worst.age_ns.max(seen.age_ns);
            worst.age_until_replaced_ns =
                worst.age_until_replaced_ns.max(seen.age_until_replaced_ns);
        }
        let within = worst.reaction_ns <= bound.reaction_ns
            && worst.age_ns <= bound.age_ns
            && worst.age_until_replaced_ns <= bound.age_until_replaced_ns;
        assert!(within, "{worst:?} {bound:?} {set:?}");
        close += usize::from(10 * worst.reaction_ns > 7 * bound.reaction_ns);
        // The sum of responses alone, as for a chain that is triggered throughout.
        let responses = CHAIN.iter().map(|task| {
            analysis.tasks[*task]
                .as_ref()
                .map_or(0, |bound| bound.response_ns)
        });
        let responses: u64 = responses.sum();
        beyond_responses += usize::from(worst.reaction_ns > responses);
        shortened += usize::from(bound.age_until_replaced_ns < bound.reaction_ns);
    }
    assert!(
        compared > 300 && close > 50 && beyond_responses > 100 && shortened > 50,
        "{compared} {close} {beyond_responses} {shortened}"
    );
}

#[test]
fn the_bounds_are_those_by_hand() {
    let task = |period, cost, priority| Task::new("t", Policy::Fixed { priority }, period, cost);
    let mut set = TaskSet {
        tasks: vec![task(10, 2, 30), task(20, 3, 20), task(40, 4, 10)],
        ..TaskSet::default()
    };
    let bound = |set: &TaskSet| latency(set, &analyse(set).expect("a sound set"), &[0, 1, 2]);
    // Responses 2, 5, 9. The writers are above their readers: none is half done when they read.
    let expected = Latency {
        reaction_ns: 12 + 25 + 49,
        age_ns: 10 + 20 + 9,
        age_until_replaced_ns: 79,
    };
    assert_eq!(bound(&set), Ok(expected));
    // Below them, on the same CPU: the response counts.
    set.tasks.iter_mut().for_each(|task| task.cpu = 0);
    set.tasks[0].cpu = 1;
    let expected = Latency {
        reaction_ns: 12 + 23 + 47,
        age_ns: 12 + 20 + 7,
        age_until_replaced_ns: 79,
    };
    assert_eq!(bound(&set), Ok(expected));
    // Triggered: one period, and the response of the last from the first arrival.
    for task in 1..3 {
        set.tasks[task].period_ns = 10;
        set.tasks[task].after = Some(task - 1);
    }
    set.tasks
        .iter_mut()
        .for_each(|task| (task.cpu, task.deadline_ns) = (0, 100));
    let analysis = analyse(&set).expect("a sound set");
    let last = analysis.tasks[2].as_ref().expect("a bound").response_ns;
    let expected = Latency {
        reaction_ns: 10 + last,
        age_ns: last,
        age_until_replaced_ns: 10 + last,
    };
    assert_eq!(bound(&set), Ok(expected));
}

#[test]
fn a_broken_chain_says_where() {
    let task = |after| {
        let mut task = Task::new("t", Policy::Fixed { priority: 1 }, 100, 2);
        task.after = after;
        task
    };
    let mut set = TaskSet {
        tasks: vec![task(None), task(Some(0))],
        ..TaskSet::default()
    };
    let analysis = analyse(&set).expect("a sound set");
    assert_eq!(latency(&set, &analysis, &[]), Err(Broken::Empty));
    assert_eq!(latency(&set, &analysis, &[0, 7]), Err(Broken::Unknown(7)));
    assert_eq!(
        latency(&set, &analysis, &[1]),
        Err(Broken::ReleasedElsewhere(1))
    );
    set.tasks[0].policy = Policy::Other;
    let analysis = analyse(&set).expect("a sound set");
    assert!(matches!(
        latency(&set, &analysis, &[0, 1]),
        Err(Broken::Unbounded(0, _))
    ));
}
