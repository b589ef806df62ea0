//! Time for ordinary tasks: where the fair server may run, and what it takes.

use crate::support::{self, INHERIT, Shape, random_set};
use punctual_sched::server::ServerCase;
use punctual_sched::simulate::{Options, Random, simulate};
use punctual_sched::{
    Lock, Part, Policy, Protocol, Section, Server, Source, Task, TaskSet, Unbounded, analyse,
};

const MS: u64 = 1_000_000;

/// Tasks of execution time and period in ms, highest priority first, with the usual fair server.
fn set(tasks: &[(u64, u64)]) -> TaskSet {
    let task = |(place, (cost, period)): (usize, &(u64, u64))| {
        let priority = 90 - place as u8;
        Task::new("t", Policy::Fixed { priority }, period * MS, cost * MS)
    };
    TaskSet {
        tasks: tasks.iter().enumerate().map(task).collect(),
        servers: vec![Server::usual()],
        ..TaskSet::default()
    }
}

fn case(set: &TaskSet) -> ServerCase {
    analyse(set).expect("a sound set").servers[0][&0]
}

fn responses(set: &TaskSet) -> Vec<Option<u64>> {
    support::bounds(set)
}

/// A plain lock leaves its users without a bound; what they execute is bounded by the busy time of the CPU.
#[test]
fn a_task_without_a_bound_takes_no_more_than_its_jobs_need() {
    let mut plain = set(&[(1, 100), (100, 1_000), (2, 100)]);
    plain.locks.push(Lock {
        name: "m".to_owned(),
        protocol: Protocol::Plain,
    });
    for task in [0, 2] {
        plain.tasks[task].sections.push(Section {
            lock: 0,
            length_ns: MS,
            times: 1,
        });
    }
    // Busy for 106 ms: in a second each of 100 ms arrives at most ceil((1000 + 106 - C) / 100) = 12 times, the
    // one of a second, which has a bound of 104 ms, twice.
    let expected = ServerCase {
        may_run: false,
        taken_ns: Some((12 + 12 * 2 + 2 * 100) * MS),
    };
    assert_eq!(case(&plain), expected);
    assert_eq!(responses(&plain)[0], None);
    // Released by the end of another one it is a part of that busy time; with a jitter it may come later.
    let mut released = plain.clone();
    released.tasks[2].after = Some(0);
    released.tasks[2].period_ns = 100 * MS;
    assert_eq!(case(&released), expected);
    released.tasks[2].jitter_ns = MS;
    assert_eq!(case(&released).taken_ns, None);
    // On another CPU a holder may run when it likes.
    plain.tasks[2].cpu = 1;
    assert_eq!(case(&plain).taken_ns, None);
}

#[test]
fn it_runs_only_where_real_time_tasks_can_leave_less_than_its_runtime() {
    // Half of the CPU: in a second 11 jobs of 50 at most, the first one late by nothing.
    let half = set(&[(50, 100)]);
    let expected = ServerCase {
        may_run: false,
        taken_ns: Some(500 * MS),
    };
    assert_eq!(case(&half), expected);
    assert_eq!(responses(&half), [Some(50 * MS)]);
    // Short busy periods don't exclude it: 49 of 50 ms, and ordinary tasks get 20 ms of a second.
    let dense = set(&[(49, 50)]);
    let expected = ServerCase {
        may_run: true,
        taken_ns: Some(980 * MS),
    };
    assert_eq!(case(&dense), expected);
    assert_eq!(responses(&dense), [None]);
    // 94 % leaves it less than 1 ms beyond its runtime with a tick of 9 ms, and enough without.
    let mut near = set(&[(94, 100)]);
    assert!(!case(&near).may_run);
    near.servers[0].overrun_ns = 9 * MS;
    assert!(case(&near).may_run);
    // Twice in a row, which takes a second to make up for; the tenth job meets the third time.
    let bound = analyse(&near).expect("a sound set").tasks.remove(0);
    let bound = bound.expect("a bound");
    assert_eq!(bound.response_ns, (10 * 94 + 3 * 59 - 900) * MS);
    assert!(bound.parts.contains(&Part {
        source: Source::Server(0),
        ns: 177 * MS
    }));
    // Not there at all.
    near.servers.clear();
    assert_eq!(responses(&near), [Some(94 * MS)]);
    assert!(analyse(&near).expect("a sound set").servers.is_empty());
}

#[test]
fn what_is_not_bounded_does_not_exclude_it() {
    let mut two = set(&[(10, 100), (95, 100)]);
    let analysis = analyse(&two).expect("a sound set");
    assert_eq!(analysis.tasks[1], Err(Unbounded::Overload));
    // The upper one meets its deadline only without the server: 10 and twice 50.
    assert_eq!(
        analysis.tasks[0].as_ref().expect("a bound").response_ns,
        110 * MS
    );
    assert_eq!(analysis.servers[0][&0].taken_ns, None);
    // Where others run on the CPU, and where tasks of several CPUs may take it.
    two.tasks.pop();
    assert!(!case(&two).may_run);
    two.servers[0].roaming_ns = 900 * MS;
    assert!(case(&two).may_run);
    two.servers[0].roaming_ns = 0;
    two.servers[0].certain = vec![0];
    assert!(case(&two).may_run);
    two.servers[0].certain = vec![1];
    assert!(!case(&two).may_run);
    // A reservation is limited, whatever its task does.
    let policy = Policy::Deadline {
        runtime_ns: 30 * MS,
        deadline_ns: 100 * MS,
        period_ns: 100 * MS,
    };
    two.tasks.push(Task::new("d", policy, 100 * MS, 31 * MS));
    let limited = case(&two);
    assert!(
        !limited.may_run && limited.taken_ns > Some(400 * MS),
        "{limited:?}"
    );
    // Its own runtime isn't charged with the server's.
    two.tasks[1].execution_ns = 30 * MS;
    two.servers[0].certain = vec![0];
    let analysis = analyse(&two).expect("a sound set");
    assert!(
        !matches!(analysis.tasks[1], Err(Unbounded::Throttled { .. })),
        "{analysis:?}"
    );
}

#[test]
fn an_ordinary_task_that_inherits_counts_as_one_of_real_time() {
    let mut both = set(&[(40, 100)]);
    let mut below = Task::new("o", Policy::Other, 1_000 * MS, 30 * MS);
    for (task, length_ns) in [(&mut both.tasks[0], 1), (&mut below, 30 * MS)] {
        task.sections.push(Section {
            lock: 0,
            length_ns,
            times: 1,
        });
    }
    both.tasks.push(below);
    both.locks.push(Lock {
        name: "m".to_owned(),
        protocol: Protocol::Inherit,
    });
    // 40 + 30 for each job.
    assert_eq!(case(&both).taken_ns, Some(700 * MS));
}

#[test]
fn servers_on_other_cpus_follow_from_later_releases() {
    // The first CPU's server makes the second one's task bunch.
    let mut two = set(&[(49, 50), (45, 50)]);
    (two.tasks[1].cpu, two.tasks[1].after) = (1, Some(0));
    let analysis = analyse(&two).expect("a sound set");
    assert!(analysis.servers[0][&0].may_run && analysis.servers[0][&1].may_run);
    two.tasks[0].execution_ns = 40 * MS;
    let analysis = analyse(&two).expect("a sound set");
    assert!(!analysis.servers[0][&0].may_run && !analysis.servers[0][&1].may_run);
}

#[test]
fn what_real_time_tasks_leave_of_an_interval_is_left_to_those_below() {
    let shapes = [
        Shape {
            jitter: true,
            any_order: true,
            ..Shape::default()
        },
        Shape {
            jitter: true,
            suspensions: true,
            locks: INHERIT,
            ..Shape::default()
        },
        Shape {
            kernel: true,
            reservations: 1,
            ..Shape::default()
        },
    ];
    let (mut compared, mut short) = (0, 0);
    for (seed, shape) in shapes.iter().enumerate() {
        for number in 0..150 {
            let mut random = Random::new(1_000 * seed as u64 + number);
            let mut set = random_set(shape, &mut random);
            let period_ns = 3_000 + random.up_to(5_000);
            set.servers.push(Server {
                runtime_ns: 1,
                period_ns,
                ..Server::usual()
            });
            let Some(taken) = case(&set).taken_ns.filter(|taken| *taken < period_ns) else {
                continue;
            };
            // An ordinary task that needs what is left of each such interval gets it.
            set.servers.clear();
            let mut below = Task::new("o", Policy::Fixed { priority: 1 }, period_ns, 1);
            let of = set.overheads;
            let path =
                of.release_interrupt_ns * (set.tasks.len() as u64 + 1) + of.wake_ns + of.sleep_ns;
            let Some(left @ 1..) = (period_ns - taken).checked_sub(path) else {
                continue;
            };
            below.execution_ns = left;
            below.offset_ns = random.up_to(period_ns);
            set.tasks.push(below);
            let mut longest = 0;
            for (_, simulation) in support::runs(&set, number, 4, 0) {
                let worst = simulation.worst.last().and_then(Option::as_ref);
                longest = worst.map_or(0, |job| job.response_ns()).max(longest);
            }
            assert!(longest <= period_ns, "{longest} of {period_ns}: {set:?}");
            compared += 1;
            // Ten percent more don't always fit.
            set.tasks.last_mut().expect("a task").execution_ns += period_ns / 10;
            let simulation = simulate(&set, &Options::new(number, 40 * period_ns));
            let worst = simulation.expect("a sound set").worst.pop().flatten();
            short += usize::from(worst.is_some_and(|job| job.response_ns() > period_ns));
        }
    }
    assert!(compared > 80 && short > 20, "{compared} {short}");
}
