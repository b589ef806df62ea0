//! Watches for records that hold one.

#![allow(dead_code, reason = "each test program takes what it needs")]
use punctual_record::explanation::{Culprit, Doing, WaitRow};
use punctual_record::watch::{
    Breach, Budget, BudgetWindow, Following, Jobs, MarkedThread, OffCpu, OffCpuPlace, OffCpuWhy,
    QueueTimes, RunQueue, RunQueueThread, Runtime, Subject, ThreadRole, TickBill, TickRow,
    TickTimes, Ticks, TimesSum, Timing, WaitingThread, Watch, WatchCost, WatchedCall, WatchedMark,
    WatchedProgram, WatchedRuntime, WatchedTask, WatchedThread, WorstLength, WorstWakeUp,
};
use punctual_record::{ProbeRefusal, Unavailable};
use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::skips::Skips;

fn task(name: &str) -> WatchedTask {
    WatchedTask {
        tid: 4711,
        name: name.to_owned(),
        policy: "fifo".to_owned(),
        priority: 60,
    }
}

fn thread(name: &str) -> WatchedThread {
    let mut by_timer = Histogram::new();
    by_timer.record_n(20_000, 100);
    WatchedThread {
        task: task(name),
        program: None,
        ended: true,
        period_ns: Some(1_000_000),
        timing: Timing::Periodic,
        skips: Skips::default(),
        skipped_itself: 0,
        by_timer: HistogramRecord::from(&by_timer),
        by_others: HistogramRecord::from(&Histogram::new()),
        overruns: 3,
        worst_overrun_ns: 2_500_000,
        switches: 5000,
        migrations: 7,
        jobs: Some(Jobs {
            count: 25,
            late: 5,
            worst_ns: 2_000_000,
            postponed: 5,
            throttled: 5,
            throttled_ns: 40_000_000,
            worst_throttled_ns: 15_000_000,
        }),
        budgets: vec![budget()],
        budgets_beyond: 1,
        calls: vec![WatchedCall {
            name: "futex LOCK_PI".into(),
            count: 7,
            total_ns: 2_000_000,
            worst_ns: 344_000,
            by_timer: 0,
            inversions: 7,
            other: Some(task(name)),
            held: true,
        }],
        calls_beyond: 1,
        unseen: 1,
        unseen_most_ns: Some(600_000),
        others: 2,
        slept_but_for_stops: true,
    }
}

fn off_cpu(name: &str) -> OffCpu {
    let place = |why, kernel: &[&str]| OffCpuPlace {
        thread: 0,
        why,
        kernel: kernel.iter().map(|it| (*it).to_owned()).collect(),
        user: vec!["read+0x1c".to_owned(), format!("{name}::next+0x40")],
        count: 20,
        total_ns: 40_000_000,
        longest_ns: 11_000_000,
        longest_at_ns: 5_000_000_000,
    };
    let sum = |count| TimesSum {
        count,
        total_ns: count * 1_000,
    };
    OffCpu {
        places: vec![
            place(
                OffCpuWhy::Asleep,
                &["anon_pipe_read+0x1a0", "vfs_read+0x2c"],
            ),
            place(OffCpuWhy::Throttled, &[]),
        ],
        beyond: sum(7),
        no_room: sum(3),
        stackless: 2,
        runs: 0,
    }
}

fn run_queue(name: &str, threads: u64) -> RunQueue {
    let times = |ns: u64, count| {
        let mut lengths = Histogram::new();
        lengths.record_n(ns, count);
        QueueTimes {
            lengths: HistogramRecord::from(&lengths),
            total_ns: ns * count,
            longest_at_ns: 5_000_000_000,
        }
    };
    RunQueue {
        threads: vec![RunQueueThread {
            task: WatchedTask {
                tid: if threads > 1 { 0 } else { task(name).tid },
                ..task(name)
            },
            threads,
            unseen: 1,
            woken: times(12_000, 2_000),
            preempted: times(4_000_000, 5),
        }],
        beyond: 9,
        lost: 4,
        runs: 0,
    }
}

fn budget() -> Budget {
    let mut used = Histogram::new();
    used.record_n(1_000_000, 20);
    used.record_n(12_000_000, 5);
    let window = |jobs, over| BudgetWindow {
        jobs,
        used_ns: jobs * 1_000_000 + over * 11_000_000,
        max_ns: match (jobs, over) {
            (0, _) => 0,
            (_, 0) => 1_000_000,
            _ => 12_000_000,
        },
        over,
        throttled: over,
    };
    Budget {
        runtime_ns: 5_000_000,
        deadline_ns: 6_000_000,
        period_ns: 20_000_000,
        used: HistogramRecord::from(&used),
        over: 5,
        throttled: 5,
        worst_at_ns: 5_000_000_000,
        window_ns: 100_000_000,
        windows: vec![window(10, 0), window(0, 0), window(15, 5)],
    }
}

/// Of a program with so many threads of this name.
pub fn program(name: &str, threads: usize) -> Watch {
    Watch {
        subject: Subject::Program {
            pid: 4710,
            name: name.to_owned(),
            command: vec![name.to_owned(), "--rate".to_owned()],
            all_threads: true,
            ended: true,
            killed_by: Some(24),
        },
        threads: (0..threads).map(|_| thread(name)).collect(),
        beyond: 2,
        unfollowed: 0,
        children: 0,
        ordinary: 0,
        worst: Vec::new(),
        waiting: Vec::new(),
        reading_ns: 0,
        cost: None,
        breach: Some(Breach {
            task: task(name),
            cpu: 1,
            latency_ns: 1_450_000,
            at_ns: 5_000_000_000,
        }),
        off_cpu: (threads > 0).then(|| off_cpu(name)),
        run_queue: Some(run_queue(name, 1)),
        marks: vec![mark(name), refused_mark(name)],
        runtime: Some(runtime(name, threads)),
    }
}

/// One whose pauses a mark measures.
fn runtime(name: &str, threads: usize) -> WatchedRuntime {
    const ROLES: [ThreadRole; 5] = [
        ThreadRole::Program,
        ThreadRole::Pauses,
        ThreadRole::Collects,
        ThreadRole::Compiles,
        ThreadRole::Serves,
    ];
    let spent = TickTimes {
        paused_ns: 590_000_000,
        pause_waited_ns: 585_000_000,
        ready_ns: 2_000_000,
        rest_ns: 1_000,
    };
    let thread = |tid, name: &str| Culprit {
        tid,
        name: Some(name.to_owned()),
        ..Culprit::default()
    };
    let row = |paused, ns, depth, doing| TickRow {
        paused,
        row: WaitRow {
            ns,
            depth,
            thread: Some(thread(4711 + depth, name)),
            doing,
        },
    };
    let behind = Some(thread(815, "hog"));
    let bill = |rows| TickBill {
        task: task(name),
        due_ns: 5_000_000_000,
        late_ns: spent.total_ns(),
        spent,
        rows,
    };
    WatchedRuntime {
        runtime: Runtime::Jvm,
        pause: name.to_owned(),
        pause_waited_ns: Some(585_000_000),
        roles: (0..threads).map(|at| ROLES[at % ROLES.len()]).collect(),
        late_above_ns: Some(1_000_000),
        ticks: vec![Ticks {
            task: task(name),
            count: 3_000,
            late: 46,
            held: 12,
            spent,
            worst_ns: spent.total_ns(),
        }],
        beyond: 2,
        bills: vec![
            bill(vec![
                row(true, 585_000_000, 1, Doing::Ready { behind }),
                row(true, 5_000_000, 1, Doing::Ran),
                row(false, 2_000_000, 0, Doing::Ready { behind: None }),
                row(false, 1_000, 0, Doing::Timer),
            ]),
            bill(Vec::new()),
        ],
    }
}

/// Of several programs.
#[allow(dead_code, reason = "not every test wants this one")]
pub fn programs(name: &str, threads: usize) -> Watch {
    let one = program(name, threads);
    let seen = |pid, gone| WatchedProgram {
        pid,
        name: name.to_owned(),
        gone,
        killed_by: gone.then_some(9),
    };
    Watch {
        subject: Subject::Programs {
            following: Following::Children,
            wanted: format!("{name} (4710)"),
            programs: vec![seen(4710, false), seen(4712, true)],
            unnamed: 1,
            refused: 2,
            all_threads: false,
        },
        children: 3,
        ordinary: 4,
        threads: one
            .threads
            .into_iter()
            .map(|thread| WatchedThread {
                program: Some(4712),
                ..thread
            })
            .collect(),
        ..one
    }
}

/// One that two threads passed.
fn mark(name: &str) -> WatchedMark {
    let worst = |length_ns, waited_ns| WorstLength {
        length_ns,
        at_ns: 5_000_000_000,
        waited_ns,
        preempted: 2,
        slept: 1,
        faults: 3,
    };
    let mut lengths = Histogram::new();
    lengths.record_n(250_000, 10_000);
    lengths.record(2_500_000);
    let lengths = HistogramRecord::from(&lengths);
    let thread = |lost| MarkedThread {
        task: task(name),
        count: 10_002,
        lengths: lengths.clone(),
        unfinished: 4,
        open_ns: 1_000_000,
        unmatched: 1,
        lost,
        longer: 1,
        worst: vec![worst(2_500_000, Some(2_000_000)), worst(250_000, None)],
    };
    WatchedMark {
        name: name.to_owned(),
        place: "begin..end".to_owned(),
        point: false,
        limit_ns: Some(2_000_000),
        refused: None,
        threads: vec![thread(0), thread(7)],
        unwatched: 9,
        beyond: 1,
    }
}

/// One that the kernel wouldn't have.
fn refused_mark(name: &str) -> WatchedMark {
    WatchedMark {
        name: format!("{name}-too"),
        place: "usdt:control:step".to_owned(),
        point: true,
        limit_ns: None,
        refused: Some(Unavailable::NoProbe {
            offset: 0x1234,
            refusal: ProbeRefusal::Other {
                error: name.to_owned(),
            },
        }),
        threads: Vec::new(),
        unwatched: 0,
        beyond: 0,
    }
}

/// Of a whole system.
pub fn system(name: &str) -> Watch {
    let worst = |before: Option<WatchedTask>| WorstWakeUp {
        latency_ns: 1_450_000,
        at_ns: 5_000_000_000,
        cpu: 1,
        task: task(name),
        before,
        by_timer: true,
    };
    Watch {
        subject: Subject::System,
        threads: Vec::new(),
        beyond: 0,
        unfollowed: 0,
        children: 0,
        ordinary: 0,
        worst: vec![worst(Some(task("hog"))), worst(None)],
        waiting: vec![WaitingThread {
            waited_ns: 1_200_000,
            cpu: 1,
            task: task("starved"),
        }],
        reading_ns: 251_000_000,
        cost: Some(WatchCost {
            measured_ns: 1_000_000_000,
            calls: 25_034,
            spent_ns: 3_970_000,
        }),
        breach: None,
        off_cpu: None,
        run_queue: Some(run_queue(name, 3)),
        marks: Vec::new(),
        runtime: None,
    }
}
