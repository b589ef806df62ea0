//! Sets that nobody means: faults are found, nothing overflows, everything ends.

use punctual_sched::demand::Demand;
use punctual_sched::model::{MAX_COUNT, MAX_NS};
use punctual_sched::sensitivity::{largest_factor_ppm, slack_ns};
use punctual_sched::simulate::{Options, Random, simulate};
use punctual_sched::{
    Arrivals, Fault, Interference, Lock, Overheads, Policy, Protocol, Section, Server, Suspension,
    Task, TaskSet, Tick, Unbounded, analyse,
};

fn fixed(priority: u8, period_ns: u64, execution_ns: u64) -> Task {
    Task::new("t", Policy::Fixed { priority }, period_ns, execution_ns)
}

fn one(change: impl FnOnce(&mut TaskSet)) -> Vec<Fault> {
    let mut set = TaskSet {
        tasks: vec![fixed(10, 100, 10)],
        ..TaskSet::default()
    };
    assert_eq!(set.faults(), []);
    change(&mut set);
    let faults = set.faults();
    assert_eq!(analyse(&set).err().unwrap_or_default(), faults);
    assert_eq!(
        simulate(&set, &Options::new(0, 10))
            .err()
            .unwrap_or_default(),
        faults
    );
    assert_eq!(
        largest_factor_ppm(&set, &[]).err().unwrap_or_default(),
        faults
    );
    faults
}

#[test]
fn each_fault_is_found() {
    let lock = |protocol| Lock {
        name: "m".to_owned(),
        protocol,
    };
    let section = |lock| Section {
        lock,
        length_ns: 1,
        times: 1,
    };
    assert_eq!(one(|set| set.tasks[0].period_ns = 0), [Fault::ZeroTime(0)]);
    assert_eq!(
        one(|set| set.tasks[0].execution_ns = 0),
        [Fault::ZeroTime(0)]
    );
    assert_eq!(
        one(|set| set.tasks[0].period_ns = MAX_NS + 1),
        [Fault::TooLong(0)]
    );
    assert_eq!(
        one(|set| set.tasks[0].jitter_ns = u64::MAX),
        [Fault::TooLong(0)]
    );
    assert_eq!(
        one(|set| set.tasks[0].policy = Policy::Fixed { priority: 0 }),
        [Fault::Priority(0)]
    );
    assert_eq!(
        one(|set| set.tasks[0].policy = Policy::Fixed { priority: 100 }),
        [Fault::Priority(0)]
    );
    for (runtime_ns, deadline_ns, period_ns) in [(0, 1, 1), (2, 1, 2), (1, 3, 2)] {
        let policy = Policy::Deadline {
            runtime_ns,
            deadline_ns,
            period_ns,
        };
        assert_eq!(
            one(|set| set.tasks[0].policy = policy),
            [Fault::Reservation(0)]
        );
    }
    assert_eq!(
        one(|set| set.tasks[0].sections.push(section(0))),
        [Fault::UnknownLock(0)]
    );
    assert_eq!(
        one(|set| {
            set.locks.push(lock(Protocol::Inherit));
            set.tasks[0].sections = vec![section(0); 11];
        }),
        [Fault::SectionsExceedExecution(0)]
    );
    assert_eq!(
        one(|set| {
            set.locks.push(lock(Protocol::Ceiling { priority: 9 }));
            set.tasks[0].sections.push(section(0));
        }),
        [Fault::Ceiling(0)]
    );
    assert_eq!(
        one(|set| set.locks.push(lock(Protocol::Ceiling { priority: 0 }))),
        [Fault::Ceiling(0)]
    );
    assert_eq!(
        one(|set| {
            set.locks.push(lock(Protocol::Ceiling { priority: 9 }));
            set.tasks[0].policy = Policy::Other;
            set.tasks[0].sections.push(section(0));
        }),
        [Fault::CeilingWithoutPriority(0)]
    );
    let suspension = Suspension {
        count: 1,
        total_ns: 0,
    };
    assert_eq!(
        one(|set| set.tasks[0].suspension = suspension),
        [Fault::Suspension(0)]
    );
    assert_eq!(
        one(|set| set.tasks[0].after = Some(1)),
        [Fault::UnknownPredecessor(0)]
    );
    assert_eq!(
        one(|set| set.tasks[0].after = Some(0)),
        [Fault::UnknownPredecessor(0)]
    );
    assert_eq!(
        one(|set| {
            set.tasks.push(fixed(10, 150, 1));
            set.tasks[1].after = Some(0);
        }),
        [Fault::PeriodOfPredecessor(1)]
    );
    assert_eq!(
        one(|set| {
            set.tasks.push(fixed(10, 100, 1));
            (set.tasks[0].after, set.tasks[1].after) = (Some(1), Some(0));
        }),
        [Fault::Cycle(0), Fault::Cycle(1)]
    );
    assert_eq!(
        one(|set| set.interference.push(Interference {
            name: "device".to_owned(),
            cpu: 0,
            period_ns: 0,
            jitter_ns: 0,
            execution_ns: 1,
        })),
        [Fault::Interference(0)]
    );
    for (runtime_ns, period_ns) in [(0, 1), (2, 1), (1, u64::MAX)] {
        let server = Server {
            runtime_ns,
            period_ns,
            ..Server::usual()
        };
        assert_eq!(
            one(|set| set.servers.push(server.clone())),
            [Fault::Server(0)]
        );
    }
    let tick = Some(Tick {
        period_ns: 0,
        execution_ns: 1,
    });
    assert_eq!(one(|set| set.overheads.tick = tick), [Fault::Overheads]);
    assert_eq!(
        one(|set| set.overheads.wake_ns = u64::MAX),
        [Fault::Overheads]
    );
    assert_eq!(
        one(|set| set.tasks = vec![fixed(1, 1, 1); MAX_COUNT + 1]),
        [Fault::TooMany]
    );
}

/// A time out of few, the ends of the range among them.
fn time(random: &mut Random) -> u64 {
    let few = [1, 2, 3, 1_000, 999_983, 1 << 40, MAX_NS - 1, MAX_NS];
    few[random.up_to(few.len() as u64 - 1) as usize]
}

fn anything(random: &mut Random) -> TaskSet {
    let mut set = TaskSet::default();
    for _ in 0..random.up_to(2) {
        let protocol = [
            Protocol::Inherit,
            Protocol::Plain,
            Protocol::Ceiling { priority: 99 },
        ];
        let protocol = protocol[random.up_to(2) as usize];
        set.locks.push(Lock {
            name: String::new(),
            protocol,
        });
    }
    for index in 0..1 + random.up_to(4) as usize {
        let mut times = [time(random), time(random), time(random)];
        times.sort_unstable();
        let [runtime_ns, deadline_ns, period_ns] = times;
        let policy = match random.up_to(4) {
            0 => Policy::Other,
            1 => Policy::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
            },
            _ => Policy::Fixed {
                priority: 1 + random.up_to(3) as u8,
            },
        };
        let mut task = Task::new("t", policy, time(random), time(random));
        task.cpu = random.up_to(1) as u32 * u32::MAX;
        task.deadline_ns = time(random);
        task.offset_ns = time(random);
        task.jitter_ns = random.up_to(1) * time(random);
        if random.up_to(2) == 0 {
            task.suspension = Suspension {
                count: time(random) as u32 | 1,
                total_ns: time(random),
            };
        }
        if index > 0 && random.up_to(2) == 0 {
            task.after = Some(index - 1);
            task.period_ns = set.tasks[index - 1].period_ns;
        }
        for lock in 0..set.locks.len() {
            let length_ns = time(random).min(task.execution_ns / 2);
            if length_ns > 0 {
                task.sections.push(Section {
                    lock,
                    length_ns,
                    times: 1,
                });
            }
        }
        set.tasks.push(task);
    }
    if random.up_to(2) == 0 {
        let tick = Tick {
            period_ns: time(random),
            execution_ns: time(random),
        };
        let wake_ns = time(random);
        let release_interrupt_ns = random.up_to(1) * time(random);
        set.overheads = Overheads {
            wake_ns,
            release_interrupt_ns,
            tick: Some(tick),
            ..Overheads::default()
        };
    }
    if random.up_to(2) == 0 {
        let (period_ns, jitter_ns, execution_ns) = (time(random), time(random), time(random));
        let name = String::new();
        set.interference.push(Interference {
            name,
            cpu: 0,
            period_ns,
            jitter_ns,
            execution_ns,
        });
    }
    for task in &mut set.tasks {
        if random.up_to(2) == 0 {
            task.arrivals = Arrivals::Periodic;
        }
    }
    if random.up_to(3) == 0 {
        let (runtime_ns, period_ns) = (time(random), time(random));
        let certain = vec![random.up_to(3) as u32];
        set.servers.push(Server {
            runtime_ns: runtime_ns.min(period_ns),
            period_ns,
            overrun_ns: time(random),
            certain,
            roaming_ns: random.up_to(1) * time(random),
            also: vec![7],
        });
    }
    set
}

#[test]
fn no_set_overflows_anything_or_keeps_an_analysis_from_ending() {
    let (mut sound, mut bounded, mut above) = (0, 0, 0);
    for seed in 0..500 {
        let mut random = Random::new(seed);
        let set = anything(&mut random);
        let Ok(analysis) = analyse(&set) else {
            continue;
        };
        sound += 1;
        bounded += analysis.tasks.iter().filter(|task| task.is_ok()).count();
        let mut options = Options::new(seed, u64::MAX);
        options.most_events = 300;
        let simulation = simulate(&set, &options).expect("a sound set");
        for (outcome, worst) in analysis.tasks.iter().zip(&simulation.worst) {
            if let (Ok(bound), Some(job)) = (outcome, worst) {
                assert!(
                    job.response_ns() <= bound.response_ns,
                    "seed {seed}: {job:?} {bound:?}"
                );
                above += 1;
            }
        }
        if seed % 20 == 0 {
            largest_factor_ppm(&set, &[]).expect("a sound set");
            slack_ns(&set, usize::MAX, &[]).expect("a sound set");
        }
    }
    assert!(
        sound > 300 && bounded > 50 && above > 30,
        "{sound} {bounded} {above}"
    );
}

#[test]
fn an_analysis_that_would_take_too_long_says_so() {
    // Its busy window has 2^54 jobs.
    let long = TaskSet {
        tasks: vec![fixed(2, 1 << 56, (1 << 56) - 4), fixed(1, 4, 1)],
        ..TaskSet::default()
    };
    let analysis = analyse(&long).expect("a sound set");
    assert_eq!(analysis.tasks[1], Err(Unbounded::Overload));
    let long = TaskSet {
        tasks: vec![fixed(2, 1 << 56, 1 << 55), fixed(1, 4, 1)],
        ..TaskSet::default()
    };
    let analysis = analyse(&long).expect("a sound set");
    assert_eq!(analysis.tasks[1], Err(Unbounded::TooManySteps));
    assert!(analysis.tasks[0].is_ok());

    // Offsets of many tasks with coprime periods and different offsets: the bound of those that
    // arrive together stands where they take too long.
    let mut many = TaskSet::default();
    for (at, period_ns) in (0..1_000u64).zip((100_001..).step_by(2)) {
        let mut task = fixed(1 + (at % 99) as u8, period_ns, 50);
        (task.arrivals, task.offset_ns) = (Arrivals::Periodic, 7 * at);
        many.tasks.push(task);
    }
    let analysis = analyse(&many).expect("a sound set");
    assert!(analysis.tasks.iter().all(Result::is_ok));

    // The whole CPU by coprime reservations.
    let mut dense = TaskSet::default();
    for period_ns in [999_983, 999_979, 999_961, 999_959] {
        let runtime_ns = period_ns / 4;
        let mut task = fixed(1, period_ns / 2, runtime_ns);
        task.policy = Policy::Deadline {
            runtime_ns,
            deadline_ns: period_ns,
            period_ns,
        };
        dense.tasks.push(task);
    }
    dense.tasks.push(fixed(5, 1_000_000_007, 10));
    let analysis = analyse(&dense).expect("a sound set");
    assert_eq!(analysis.tasks[0], Err(Unbounded::FasterThanReservation));
    assert!(matches!(
        analysis.demand[&0],
        Demand::Met | Demand::Undecided
    ));
}
