//! Examples from papers and books, and some that can be followed by hand.

use punctual_sched::chain::latency;
use punctual_sched::demand::{Demand, EdfTask, From, Sharing, edf};
use punctual_sched::sensitivity::{WHOLE_PPM, largest_factor_ppm, slack_ns};
use punctual_sched::{
    Interference, Lock, Overheads, Part, Policy, Protocol, Section, Source, Suspension, Task,
    TaskSet, Tick, Unbounded, analyse,
};

/// Tasks of execution time and period, highest priority first.
fn set(tasks: &[(u64, u64)]) -> TaskSet {
    let task = |(place, (cost, period)): (usize, &(u64, u64))| {
        let priority = 90 - place as u8;
        Task::new(
            &format!("t{place}"),
            Policy::Fixed { priority },
            *period,
            *cost,
        )
    };
    TaskSet {
        tasks: tasks.iter().enumerate().map(task).collect(),
        ..TaskSet::default()
    }
}

fn responses(set: &TaskSet) -> Vec<Option<u64>> {
    let analysis = analyse(set).expect("a sound set");
    analysis
        .tasks
        .iter()
        .map(|task| task.as_ref().ok().map(|bound| bound.response_ns))
        .collect()
}

fn why(set: &TaskSet) -> Vec<Option<Unbounded>> {
    let analysis = analyse(set).expect("a sound set");
    analysis.tasks.into_iter().map(Result::err).collect()
}

#[test]
fn published_response_times_are_found() {
    // Burns, Wellings, "Real-Time Systems and Programming Languages": 3, 6, 20.
    assert_eq!(
        responses(&set(&[(3, 7), (3, 12), (5, 20)])),
        [Some(3), Some(6), Some(20)]
    );
    // Joseph, Pandya 1986 and Audsley et al. 1993: the fixed point of the lowest task.
    assert_eq!(
        responses(&set(&[(1, 4), (1, 5), (3, 9), (3, 18)])),
        [Some(1), Some(2), Some(7), Some(18)]
    );
    // Lehoczky 1990, example 2: 52 % and 37 %, in both orders.
    assert_eq!(
        responses(&set(&[(52, 100), (52, 140)])),
        [Some(52), Some(156)]
    );
    assert_eq!(
        responses(&set(&[(52, 140), (52, 100)])),
        [Some(52), Some(108)]
    );
    // Lehoczky 1990, as Tindell 1994 has it: jobs of 114, 102, 116, 104, 118, 106, 94.
    let analysis = analyse(&set(&[(26, 70), (62, 100)])).expect("a sound set");
    let bound = analysis.tasks[1].as_ref().expect("a bound");
    assert_eq!((bound.response_ns, bound.job), (118, 4));
    assert_eq!(
        bound.parts,
        [
            Part {
                source: Source::Itself,
                ns: 5 * 62
            },
            Part {
                source: Source::Task(0),
                ns: 8 * 26
            },
        ]
    );
}

#[test]
fn jitter_overheads_and_interference_count_as_by_hand() {
    let mut both = set(&[(3, 10), (4, 20)]);
    assert_eq!(responses(&both), [Some(3), Some(7)]);
    // Late by 4 of 10: a second job of the upper task comes 6 after the first.
    both.tasks[0].jitter_ns = 4;
    assert_eq!(responses(&both), [Some(7), Some(10)]);
    both.tasks[0].jitter_ns = 0;
    both.overheads = Overheads {
        release_interrupt_ns: 1,
        wake_ns: 1,
        sleep_ns: 1,
        nonpreemptible_ns: 2,
        tick: Some(Tick {
            period_ns: 100,
            execution_ns: 1,
        }),
        ..Overheads::default()
    };
    // Upper: 2 + (3 + 2) + an interrupt for each task + a tick; the second interrupt at 10 is its
    // own next one. Lower: 2 + 6 + 5 + 2 + 1 = 16 reaches beyond 10: 5 + 1 more, 22; beyond 20: the
    // interrupts of both and 5 more, 29; all within 30. The next job ends 29 + 6 + ... = 48.
    assert_eq!(responses(&both)[0], Some(10));
    let bound = analyse(&both)
        .expect("a sound set")
        .tasks
        .remove(1)
        .expect("a bound");
    assert!(
        bound.parts.contains(&Part {
            source: Source::Nonpreemptible,
            ns: 2
        }),
        "{bound:?}"
    );
    assert!(bound.response_ns >= 29, "{bound:?}");

    let mut one = set(&[(100_000_000, 2_000_000_000)]);
    one.interference.push(Interference {
        name: "device".to_owned(),
        cpu: 0,
        period_ns: 1_000_000_000,
        jitter_ns: 950_000_000,
        execution_ns: 50_000_000,
    });
    // At the end of one of its periods and at the beginning of the next.
    assert_eq!(responses(&one), [Some(200_000_000)]);
    one.interference[0].cpu = 1;
    assert_eq!(responses(&one), [Some(100_000_000)]);
}

/// Four tasks and three locks; lengths of the longest sections.
fn sharing(protocol: Protocol) -> TaskSet {
    let lengths = [[1, 2, 0], [0, 9, 3], [8, 7, 0], [6, 5, 4]];
    let mut shared = set(&[(20, 1_000), (20, 1_000), (20, 1_000), (20, 1_000)]);
    for (task, lengths) in shared.tasks.iter_mut().zip(lengths) {
        for (lock, length_ns) in lengths.into_iter().enumerate() {
            if length_ns > 0 {
                task.sections.push(Section {
                    lock,
                    length_ns,
                    times: 1,
                });
            }
        }
    }
    for name in ["a", "b", "c"] {
        shared.locks.push(Lock {
            name: name.to_owned(),
            protocol,
        });
    }
    shared
}

fn blocking(set: &TaskSet) -> Vec<u64> {
    let analysis = analyse(set).expect("a sound set");
    let of = |task: &punctual_sched::Outcome| {
        let parts = &task.as_ref().expect("a bound").parts;
        parts
            .iter()
            .find(|part| part.source == Source::Blocking)
            .map_or(0, |part| part.ns)
    };
    analysis.tasks.iter().map(of).collect()
}

#[test]
fn blocking_is_that_of_the_protocol() {
    // Inheritance, the lesser of: each lower task once, each lock once. Of the first task: 9 + 8 + 6
    // and 8 + 9; of the second: 8 + 6 and 8 + 7 + 4; of the third: 6 and 6 + 5 + 4.
    assert_eq!(blocking(&sharing(Protocol::Inherit)), [17, 14, 6, 0]);
    // Ceiling: the longest one.
    assert_eq!(
        blocking(&sharing(Protocol::Ceiling { priority: 90 })),
        [9, 8, 6, 0]
    );
    // With a ceiling above all users, also those that don't share anything wait.
    let mut high = sharing(Protocol::Ceiling { priority: 90 });
    high.tasks[0].sections.clear();
    assert_eq!(blocking(&high)[0], 9);
    // A switch there and back for each section that is waited for.
    let mut contended = sharing(Protocol::Inherit);
    contended.overheads.contention_ns = 1;
    assert_eq!(blocking(&contended), [19, 16, 7, 0]);
    // And for each in which a task above may find the lock held: of the first three tasks two each.
    assert_eq!(
        responses(&contended),
        [41, 60, 73, 86].map(Some),
        "the lowest task waits for nobody, and for the switches of all others"
    );
}

#[test]
fn where_no_bound_holds_the_reason_is_said() {
    let plain = sharing(Protocol::Plain);
    assert_eq!(why(&plain)[0], Some(Unbounded::PlainLock { lock: 0 }));
    assert_eq!(
        why(&plain)[3],
        None,
        "the lowest task waits only for work above it"
    );

    let mut apart = sharing(Protocol::Inherit);
    apart.tasks[3].cpu = 1;
    assert_eq!(
        why(&apart),
        vec![Some(Unbounded::LockAcrossCpus { lock: 0 }); 4]
    );

    let overload = set(&[(5, 10), (6, 10), (1, 10)]);
    let too_much = Some(Unbounded::Overload);
    assert_eq!(why(&overload), [None, too_much, too_much]);

    let mut after = set(&[(5, 10), (6, 10), (1, 10)]);
    after.tasks[1].cpu = 1;
    after.tasks[1].policy = Policy::Other;
    after.tasks[2].after = Some(1);
    let unknown = Some(Unbounded::After { task: 1 });
    assert_eq!(why(&after), [None, Some(Unbounded::NoGuarantee), unknown]);
}

#[test]
fn a_suspension_above_counts_as_jitter() {
    let mut both = set(&[(2, 10), (5, 20)]);
    both.tasks[0].suspension = Suspension {
        count: 1,
        total_ns: 6,
    };
    // The upper task responds after 8, and delays the lower one as with a jitter of 8 - 2: by two
    // jobs in 9.
    assert_eq!(responses(&both), [Some(8), Some(9)]);
}

#[test]
fn fixed_priorities_below_reservations_wait_for_them() {
    let mut both = set(&[(30, 100), (20, 200)]);
    let whole = Policy::Deadline {
        runtime_ns: 30,
        deadline_ns: 100,
        period_ns: 100,
    };
    both.tasks[0].policy = whole;
    assert_eq!(responses(&both), [Some(100), Some(50)]);
    // One that needs more than its runtime is throttled, and may run twice in a row.
    both.tasks[0].policy = Policy::Deadline {
        runtime_ns: 29,
        deadline_ns: 100,
        period_ns: 100,
    };
    assert_eq!(why(&both)[0], Some(Unbounded::Throttled { needed_ns: 30 }));
    assert_eq!(responses(&both)[1], Some(2 * 29 + 20));
    // Interrupts are charged to the reservation.
    both.tasks[0].policy = whole;
    both.overheads.tick = Some(Tick {
        period_ns: 50,
        execution_ns: 1,
    });
    assert_eq!(why(&both)[0], Some(Unbounded::Throttled { needed_ns: 32 }));
    // Two that wake up early may take two runtimes in a row. With a tick they overrun, and are late
    // by the shortest deadline at most.
    const MS: u64 = 1_000_000;
    let mut early = set(&[(10 * MS, 100 * MS), (20 * MS, 200 * MS), (5 * MS, 400 * MS)]);
    for (task, runtime_ns) in [(0, 20 * MS), (1, 40 * MS)] {
        let period_ns = early.tasks[task].period_ns;
        early.tasks[task].policy = Policy::Deadline {
            runtime_ns,
            deadline_ns: period_ns,
            period_ns,
        };
        early.tasks[task].jitter_ns = 7;
    }
    let lowest = Some(3 * 20 * MS + 2 * 40 * MS + 5 * MS);
    assert_eq!(
        responses(&early),
        [Some(7 + 100 * MS), Some(7 + 200 * MS), lowest]
    );
    early.overheads.tick = Some(Tick {
        period_ns: 4 * MS,
        execution_ns: 1_000,
    });
    assert_eq!(
        responses(&early)[..2],
        [Some(7 + 200 * MS), Some(7 + 300 * MS)]
    );
    // Others that ask for too much are told in which interval.
    let mut two = set(&[(30, 100), (30, 100)]);
    for task in &mut two.tasks {
        task.policy = Policy::Deadline {
            runtime_ns: 30,
            deadline_ns: 50,
            period_ns: 100,
        };
    }
    let demand = Some(Unbounded::Demand {
        interval_ns: 50,
        demand_ns: 60,
    });
    assert_eq!(why(&two), [demand, demand]);
    let first = Demand::Exceeded {
        interval_ns: 50,
        demand_ns: 60,
        first: true,
    };
    assert_eq!(analyse(&two).expect("a sound set").demand[&0], first);
}

#[test]
fn edf_is_optimal_where_fixed_priorities_are_not() {
    // Liu, Layland 1973: (2, 5) and (4, 7) under rate-monotonic priorities miss, under EDF not.
    assert!(!analyse(&set(&[(2, 5), (4, 7)])).is_ok_and(|it| it.all_meet(&set(&[(2, 5), (4, 7)]))));
    let task = |execution_ns, period_ns| EdfTask {
        execution_ns,
        period_ns,
        jitter_ns: 0,
        deadline_ns: period_ns,
        deadline_from: From::Arrival,
        sections: Vec::new(),
    };
    assert_eq!(
        edf(&[task(2, 5), task(4, 7)], Sharing::Inherit),
        Demand::Met
    );
    let more = edf(&[task(2, 5), task(4, 7), task(1, 30)], Sharing::Inherit);
    assert!(matches!(more, Demand::Exceeded { .. }), "{more:?}");
}

#[test]
fn the_largest_factor_and_the_slack_are_exact() {
    // 3, 6, 20 with deadlines at the periods: nothing is left, and one unit more is too much.
    let full = set(&[(3_000, 7_000), (3_000, 12_000), (5_000, 20_000)]);
    assert_eq!(largest_factor_ppm(&full, &[]), Ok(WHOLE_PPM));
    assert_eq!(slack_ns(&full, 2, &[]), Ok(Some(0)));
    // Alone: up to the deadline.
    let mut one = set(&[(1_000, 10_000)]);
    assert_eq!(largest_factor_ppm(&one, &[]), Ok(10 * WHOLE_PPM));
    assert_eq!(slack_ns(&one, 0, &[]), Ok(Some(9_000)));
    one.tasks[0].deadline_ns = 500;
    assert_eq!(largest_factor_ppm(&one, &[]), Ok(WHOLE_PPM / 2));
    assert_eq!(slack_ns(&one, 0, &[]), Ok(None));
    one.tasks[0].deadline_ns = 0;
    assert_eq!(largest_factor_ppm(&one, &[]), Ok(0));
    // A reservation grows with its task: to its own deadline.
    one.tasks[0].deadline_ns = 10_000;
    one.tasks[0].policy = Policy::Deadline {
        runtime_ns: 1_000,
        deadline_ns: 8_000,
        period_ns: 10_000,
    };
    assert_eq!(largest_factor_ppm(&one, &[]), Ok(8 * WHOLE_PPM));
    assert_eq!(slack_ns(&one, 0, &[]), Ok(Some(7_000)));
}

#[test]
fn what_a_kernel_takes_explains_what_was_observed_in_the_lab() {
    const US: u64 = 1_000;
    // Six tasks on one CPU of a PREEMPT_RT kernel in virtual time: priority, period, execution and
    // the section of a lock in it, in microseconds; the worst response observed was 328.8 of the
    // first, and of the chain of the last but two, each sampling: reaction 27.0 ms, age 37.03 ms.
    let rows = [
        (90, 2_000, 300, 0),
        (80, 5_000, 1_000, 200),
        (75, 5_000, 400, 0),
        (70, 10_000, 1_500, 500),
        (60, 14_000, 800, 0),
        (50, 20_000, 2_000, 600),
    ];
    let task = |(priority, period, execution, section): (u8, u64, u64, u64)| {
        let policy = Policy::Fixed { priority };
        let mut task = Task::new("t", policy, period * US, execution * US);
        if section > 0 {
            task.sections.push(Section {
                lock: 0,
                length_ns: section * US,
                times: 1,
            });
        }
        task
    };
    let lock = Lock {
        name: "m".to_owned(),
        protocol: Protocol::Inherit,
    };
    let tasks: Vec<Task> = rows.into_iter().map(task).collect();
    let mut set = TaskSet {
        tasks,
        locks: vec![lock],
        ..TaskSet::default()
    };
    set.tasks[2].after = Some(1);
    assert_eq!(
        responses(&set)[0],
        Some(300 * US),
        "less than what was observed"
    );
    set.overheads = Overheads {
        release_interrupt_ns: 4_000,
        wake_ns: 4_849,
        sleep_ns: 8_400,
        nonpreemptible_ns: 20_000,
        tick: Some(Tick {
            period_ns: 4_000 * US,
            execution_ns: 6_000,
        }),
        ..Overheads::default()
    };
    let analysis = analyse(&set).expect("a sound set");
    assert!(analysis.all_meet(&set));
    let first = responses(&set)[0].expect("a bound");
    assert!((328_800..380_000).contains(&first), "{first}");
    let chain = latency(&set, &analysis, &[3, 4, 5]).expect("a bound");
    // Davare's sum, as computed by other means, was 65.3 ms.
    assert_eq!(chain.reaction_ns / (100 * US), 653);
    assert!(
        (37_030 * US..chain.reaction_ns).contains(&chain.age_until_replaced_ns),
        "{chain:?}"
    );
}
