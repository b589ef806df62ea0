//! Random task sets, and the comparison of a bound with what the simulator does.

use punctual_sched::simulate::{Lateness, Options, Random, Simulation, Times, simulate};
use punctual_sched::{
    Arrivals, Interference, Lock, Overheads, Policy, Protocol, Section, Suspension, Task, TaskSet,
    Tick, analyse,
};

/// What random sets may have.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    pub jitter: bool,
    pub equal_priorities: bool,
    /// Not by the period, the shortest first.
    pub any_order: bool,
    pub locks: Option<Protocol>,
    pub suspensions: bool,
    pub chains: bool,
    /// Only every second or third job of a task releases the next one's.
    pub every: bool,
    pub reservations: usize,
    /// Interrupts, tick, paths from and to sleep.
    pub kernel: bool,
    /// Most tasks arrive strictly by their periods.
    pub periodic: bool,
}

pub const PERIODS: &[u64] = &[4, 5, 6, 7, 8, 10, 12, 14, 20, 25, 30, 40];

/// Shares that sum to `total`, uniform among all such (Bini, Buttazzo 2005).
pub fn uunifast(count: usize, total: f64, random: &mut Random) -> Vec<f64> {
    let mut rest = total;
    let mut shares = Vec::new();
    for left in (1..count).rev() {
        let next = rest * random.unit().powf(1.0 / left as f64);
        shares.push(rest - next);
        rest = next;
    }
    shares.push(rest);
    shares
}

fn one_in(count: u64, random: &mut Random) -> bool {
    random.up_to(count - 1) == 0
}

/// A set of one CPU; deadlines are far beyond the periods.
pub fn random_set(shape: &Shape, random: &mut Random) -> TaskSet {
    let count = 3 + random.up_to(3) as usize;
    let total = 0.4 + 0.55 * random.unit();
    let mut set = TaskSet::default();
    for (index, share) in uunifast(count, total, random).into_iter().enumerate() {
        let period = 100 * PERIODS[random.up_to(PERIODS.len() as u64 - 1) as usize];
        let cost = ((share * period as f64) as u64).max(4);
        let mut task = Task::new(&format!("t{index}"), Policy::Other, period, cost);
        task.deadline_ns = 50 * period;
        if shape.jitter && !one_in(3, random) {
            // Also beyond the period: jobs come in a bunch.
            let most = if one_in(4, random) {
                2 * period
            } else {
                period / 4
            };
            task.jitter_ns = random.up_to(most);
        }
        if shape.suspensions && one_in(3, random) {
            let total_ns = 2 + random.up_to(period / 4);
            task.suspension = Suspension {
                count: 1 + random.up_to(1) as u32,
                total_ns,
            };
            task.suspension.total_ns -= total_ns % u64::from(task.suspension.count);
        }
        if let Some(protocol) = shape.locks {
            lock_sections(&mut set, &mut task, protocol, random);
        }
        set.tasks.push(task);
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(|task| set.tasks[*task].period_ns);
    if shape.any_order {
        order.sort_by_cached_key(|_| random.bits());
    }
    for (place, task) in order.iter().enumerate() {
        let place = if shape.equal_priorities {
            place / 2
        } else {
            place
        };
        set.tasks[*task].policy = Policy::Fixed {
            priority: 90 - place as u8,
        };
    }
    for index in order.iter().take(shape.reservations) {
        let task = &mut set.tasks[*index];
        let (cost, period_ns) = (task.execution_ns, task.period_ns);
        let deadline_ns = period_ns - random.up_to((period_ns - cost) / 2);
        let deadline_ns = if one_in(2, random) {
            period_ns
        } else {
            deadline_ns
        };
        let runtime_ns = (cost + random.up_to(20)).min(deadline_ns);
        task.policy = Policy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        };
    }
    for lock in 0..set.locks.len() {
        let ranks = set.users(lock).map(|task| match task.policy {
            Policy::Fixed { priority } => priority,
            _ => 1,
        });
        let highest = ranks.max().unwrap_or(1);
        if let Protocol::Ceiling { priority } = &mut set.locks[lock].protocol {
            *priority = highest;
        }
    }
    if shape.kernel {
        let tick = Tick {
            period_ns: 100,
            execution_ns: 1 + random.up_to(2),
        };
        set.overheads = Overheads {
            release_interrupt_ns: 1 + random.up_to(4),
            wake_ns: random.up_to(5),
            sleep_ns: random.up_to(5),
            // A reservation's overrun to the tick would be all that counts in sets of such sizes.
            tick: (shape.reservations == 0).then_some(tick),
            ..Overheads::default()
        };
        set.interference.push(Interference {
            name: "device".to_owned(),
            cpu: 0,
            period_ns: 900,
            jitter_ns: random.up_to(1) * 700,
            execution_ns: 1 + random.up_to(40),
        });
    }
    if shape.periodic {
        for task in &mut set.tasks {
            if !one_in(5, random) {
                task.arrivals = Arrivals::Periodic;
                task.offset_ns = random.up_to(task.period_ns - 1);
            }
        }
    }
    if shape.chains {
        for index in 1..count {
            if one_in(2, random) {
                set.tasks[index].after = Some(index - 1);
                let every = if shape.every { 1 + random.up_to(2) } else { 1 };
                set.tasks[index].period_ns = every * set.tasks[index - 1].period_ns;
            }
        }
    }
    set
}

fn lock_sections(set: &mut TaskSet, task: &mut Task, protocol: Protocol, random: &mut Random) {
    while set.locks.len() < 2 {
        let name = format!("m{}", set.locks.len());
        set.locks.push(Lock { name, protocol });
    }
    for lock in 0..2 {
        if !one_in(3, random) {
            let length_ns = 1 + random.up_to(task.execution_ns / 3);
            task.sections.push(Section {
                lock,
                length_ns,
                times: 1,
            });
        }
    }
    let held: u64 = task.sections.iter().map(|section| section.length_ns).sum();
    task.execution_ns = task.execution_ns.max(held);
}

/// How often jobs were later than what was claimed, and how often exactly as late.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    pub sets: usize,
    pub tasks: usize,
    pub unbounded: usize,
    pub exceeded: usize,
    pub reached: usize,
}

/// Executes a set several times: all at once and as late as can be, then with random phases. Tasks that
/// arrive strictly by their periods do so at their offsets.
pub fn runs(set: &TaskSet, seed: u64, count: u64, keep: usize) -> Vec<(TaskSet, Simulation)> {
    let mut random = Random::new(seed);
    let longest = set
        .tasks
        .iter()
        .map(|task| task.period_ns)
        .max()
        .unwrap_or(1);
    let run = |number: u64| {
        let mut set = set.clone();
        if number > 0 {
            let sporadic = |task: &&mut Task| task.arrivals == Arrivals::Sporadic;
            for task in set.tasks.iter_mut().filter(sporadic) {
                task.offset_ns = random.up_to(task.period_ns - 1);
            }
        }
        let mut options = Options::new(seed ^ number, 20 * longest);
        options.keep = keep;
        options.random_phases = number > 0;
        if number.is_multiple_of(2) {
            options.jitter = Lateness::FirstOnly;
        }
        if number % 3 == 2 {
            options.execution = Times::Random;
        }
        let simulation = simulate(&set, &options).expect("a sound set");
        (set, simulation)
    };
    (0..count).map(run).collect()
}

/// Compares a claim on each task's response with the simulator, on random sets.
pub fn compare(
    shape: &Shape,
    sets: u64,
    seed: u64,
    claim: impl Fn(&TaskSet) -> Vec<Option<u64>>,
) -> Tally {
    let mut tally = Tally::default();
    for number in 0..sets {
        let mut random = Random::new(seed.wrapping_mul(1_000_003) + number);
        let set = random_set(shape, &mut random);
        assert_eq!(set.faults(), [], "{set:?}");
        let claims = claim(&set);
        let mut worst = vec![0; set.tasks.len()];
        for (_, simulation) in runs(&set, random.bits(), 5, 0) {
            for (worst, job) in worst.iter_mut().zip(&simulation.worst) {
                *worst = job.as_ref().map_or(0, |job| job.response_ns()).max(*worst);
            }
        }
        tally.sets += 1;
        for (claim, worst) in claims.iter().zip(&worst) {
            tally.tasks += 1;
            match claim {
                None => tally.unbounded += 1,
                Some(claim) if worst > claim => tally.exceeded += 1,
                Some(claim) if worst == claim => tally.reached += 1,
                Some(_) => {}
            }
        }
    }
    tally
}

/// The analysis's own claim.
pub fn bounds(set: &TaskSet) -> Vec<Option<u64>> {
    let analysis = analyse(set).expect("a sound set");
    analysis
        .tasks
        .iter()
        .map(|task| task.as_ref().ok().map(|bound| bound.response_ns))
        .collect()
}

/// Holds on all sets, says something on nearly all tasks, and is reached by some.
pub fn holds(shape: &Shape, sets: u64, seed: u64, reached: usize) -> Tally {
    let tally = compare(shape, sets, seed, bounds);
    assert_eq!(tally.exceeded, 0, "{shape:?} {tally:?}");
    assert!(tally.reached >= reached, "{shape:?} {tally:?}");
    tally
}

pub const INHERIT: Option<Protocol> = Some(Protocol::Inherit);
pub const CEILING: Option<Protocol> = Some(Protocol::Ceiling { priority: 1 });
