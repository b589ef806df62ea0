//! A set of tasks that is made up, with what it did.
#![allow(dead_code, reason = "each test program takes what it needs")]

use punctual_record::explanation::{
    BillRow, Cause, Culprit, Lane, Meanwhile, Picture, Span, SpanLabel, Stage,
};
use punctual_record::taskset::*;
use punctual_record::{Event, Run, RunSource, State, Timeline, analyse_record};
use punctual_stats::histogram::{Histogram, HistogramRecord};

use crate::support::{run_of, thread};

const MS: u64 = 1_000_000;

fn task(name: &str, policy: TaskPolicy, wake: Wake, work: Vec<Step>) -> Task {
    Task {
        name: name.to_owned(),
        policy,
        cpus: vec![0],
        wake,
        deadline_ns: MS,
        jitter_ns: 0,
        execution_ns: None,
        phases: vec![Phase {
            jobs: 1,
            period_ns: None,
            deadline_ns: Some(MS + 50_000),
            work,
        }],
    }
}

fn timer(timer: Timer) -> Wake {
    Wake::Timer {
        timer,
        period_ns: MS,
        offset_ns: 10_000,
    }
}

fn after(means: Means) -> Wake {
    Wake::After {
        task: 0,
        every: 1,
        means,
    }
}

/// A set in which everything stands that may stand in one.
pub fn set() -> TaskSet {
    let fifo = TaskPolicy::Fifo { priority: 80 };
    let mut control = task(
        "control",
        fifo,
        timer(Timer::Absolute),
        vec![
            Step::Run { ns: 200_000 },
            Step::Lock {
                lock: 0,
                work: vec![Step::Run { ns: 50_000 }, Step::Yield],
            },
            Step::Instructions { count: 1000 },
            Step::Memory { bytes: 65_536 },
            Step::Calls { count: 10 },
            Step::Sleep { ns: 1_000 },
            Step::Library {
                path: "step.so".into(),
                function: "step".to_owned(),
            },
            Step::Command {
                command: vec!["true".to_owned()],
            },
        ],
    );
    control.jitter_ns = 5_000;
    control.execution_ns = Some(300_000);
    control.phases[0].period_ns = Some(2 * MS);
    let deadline = TaskPolicy::Deadline {
        runtime_ns: 100_000,
        deadline_ns: MS,
        period_ns: MS,
    };
    let mut tasks = vec![
        control,
        task(
            "round",
            TaskPolicy::Rr { priority: 10 },
            timer(Timer::Relative),
            vec![],
        ),
        task("reserved", deadline, timer(Timer::Timerfd), vec![]),
        task(
            "logger",
            TaskPolicy::Other { nice: 5 },
            timer(Timer::Signal),
            vec![],
        ),
    ];
    let all = [
        Means::Futex,
        Means::Semaphore,
        Means::Condvar,
        Means::Signal,
        Means::Eventfd,
        Means::Mqueue,
        Means::Pipe,
        Means::Socket,
    ];
    tasks.extend(all.map(|means| task(&format!("after {means:?}"), fifo, after(means), vec![])));
    let lock = |name: &str, protocol| Lock {
        name: name.to_owned(),
        protocol,
    };
    TaskSet {
        name: "robot".to_owned(),
        tasks,
        locks: vec![
            lock("state", LockProtocol::Inherit),
            lock("queue", LockProtocol::Protect { ceiling: 81 }),
            lock("log", LockProtocol::Plain),
        ],
        chains: vec![Chain {
            name: "sensor to actuator".to_owned(),
            tasks: vec![0, 4],
            reaction_ns: Some(3 * MS),
            age_ns: Some(2 * MS),
        }],
        duration_ns: Some(1_000 * MS),
    }
}

fn lengths(values: &[u64]) -> HistogramRecord {
    let mut histogram = Histogram::new();
    values.iter().for_each(|value| histogram.record(*value));
    HistogramRecord::from(&histogram)
}

fn culprit() -> Culprit {
    Culprit {
        ns: 700_000,
        tid: 4000,
        name: None,
        policy: "SCHED_FIFO".to_owned(),
        priority: 80,
        nice: None,
        pid: Some(3999),
        here: None,
        start: Some(812_345),
        own: true,
        command: None,
        group: None,
        weight: None,
        ended: false,
        parents: Vec::new(),
    }
}

/// A bill of 1.2 ms.
pub fn bill() -> JobBill {
    let row = |cause, ns, by: Vec<Culprit>| BillRow {
        stage: Stage::User,
        cause,
        ns,
        stack: Vec::new(),
        by,
        notes: Vec::new(),
    };
    let preempting = Cause::Thread {
        task: "control".to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 80,
    };
    let lock = Cause::Lock {
        lock: "log".to_owned(),
        holder: Some("logger".to_owned()),
        meanwhile: Some(Meanwhile::Preempted {
            task: "control".to_owned(),
            policy: "SCHED_FIFO".to_owned(),
            priority: 80,
        }),
    };
    let held = |did| Cause::Inversion {
        lock: "log".to_owned(),
        holder: "logger".to_owned(),
        meanwhile: Some(did),
    };
    let blocked = Meanwhile::Blocked {
        lock: "queue".to_owned(),
        holder: Some("after Pipe".to_owned()),
    };
    let slept = Meanwhile::Slept {
        state: "asleep".to_owned(),
    };
    JobBill {
        arrival_ns: 1_000 * MS,
        released_ns: 1_000 * MS + 100_000,
        started_ns: 1_000 * MS + 110_000,
        ended_ns: 1_001 * MS + 200_000,
        more_ns: 50_000,
        lost: 0,
        rows: vec![
            row(preempting, 700_000, vec![culprit()]),
            row(Cause::Work, 250_000, Vec::new()),
            row(lock, 140_000, Vec::new()),
            row(Cause::NotReleased, 100_000, Vec::new()),
            row(Cause::WakePath, 4_000, Vec::new()),
            row(held(Meanwhile::Ran), 3_000, Vec::new()),
            row(held(blocked), 2_000, Vec::new()),
            row(held(slept), 1_000, Vec::new()),
        ],
        picture: Some(picture()),
    }
}

/// What ran when around that job, on two CPUs.
fn picture() -> Picture {
    let span = |lane, cpu, (from_ns, to_ns): (i64, i64), label| Span {
        lane,
        cpu,
        from_ns: from_ns * 1000,
        to_ns: to_ns * 1000,
        label,
        in_the_way: false,
    };
    let thread = |name: &str, tid| SpanLabel::Thread {
        name: name.to_owned(),
        tid,
        priority: 10,
    };
    let lock = SpanLabel::LockWait {
        lock: "log".to_owned(),
        holder: Some("logger".to_owned()),
    };
    let vector = || SpanLabel::Vector {
        vector: "local timer".to_owned(),
    };
    Picture {
        spans: vec![
            span(Lane::Thread, 0, (-70, 110), thread("control", 4000)),
            span(Lane::Thread, 1, (-70, 400), thread("stranger", 17)),
            span(Lane::Interrupt, 0, (98, 105), vector()),
            span(Lane::Probe, 0, (110, 360), thread("round", 4001)),
            span(Lane::Thread, 0, (360, 500), thread("logger", 4003)),
            span(Lane::Probe, 0, (360, 500), lock),
            span(
                Lane::Softirq,
                1,
                (410, 450),
                SpanLabel::Softirq { number: 3 },
            ),
            span(Lane::Thread, 0, (500, 1200), thread("control", 4000)),
            span(Lane::Host, 0, (700, 800), SpanLabel::Hypervisor),
        ],
        marks: Vec::new(),
        left_out: 2,
    }
}

/// Reactions, split evenly among the hops of the first chain.
fn split(set: &TaskSet, reactions: &[u64]) -> ChainSplit {
    let hops = ChainHop::of(set, 0).len() as u64;
    let limit_ns = set.chains[0].reaction_ns;
    let times = |values: &[u64]| {
        let mut times = thread(0, values, 256);
        times.cpu = None;
        let is_longer = |ns: &&u64| limit_ns.is_some_and(|limit_ns| **ns > limit_ns);
        times.late = values.iter().filter(is_longer).count() as u64;
        times.first_half_misses = Some(0);
        Times {
            times,
            timeline: Timeline::default(),
        }
    };
    let of_hop = |hop: u64| -> Vec<u64> {
        let rest = |reaction: &u64| if hop == 0 { reaction % hops } else { 0 };
        reactions
            .iter()
            .map(|reaction| reaction / hops + rest(reaction))
            .collect()
    };
    ChainSplit {
        whole: times(reactions),
        hops: (0..hops).map(|hop| times(&of_hop(hop))).collect(),
        unsplit: 1,
    }
}

/// The set, executed: its second task was late once.
pub fn executed() -> Run {
    let set = set();
    let responses = |index: usize| -> Vec<u64> {
        let late = if index == 1 { 1_200_000 } else { 400_000 };
        (0..1000)
            .map(|at| {
                if at == 500 {
                    late
                } else {
                    300_000 + at * 7_919 % 1_000
                }
            })
            .collect()
    };
    let mut threads = Vec::new();
    let mut tasks = Vec::new();
    for index in 0..set.tasks.len() {
        let mut wake_ups = thread(
            0,
            &(0..1000)
                .map(|at| 5_000 + at * 7_919 % 1_000)
                .collect::<Vec<_>>(),
            256,
        );
        wake_ups.tid = 4000 + index as i32;
        wake_ups.late = 0;
        threads.push(wake_ups);
        let mut jobs = thread(0, &responses(index), 256);
        jobs.tid = 4000 + index as i32;
        jobs.late = u64::from(index == 1);
        jobs.first_half_misses = Some(0);
        tasks.push(TaskFigures {
            jobs,
            timeline: Timeline::default(),
            longest_ns: if index == 1 { 1_200_000 } else { 0 },
            cpu_ns: Some(250 * MS),
            bills: None,
            dropped: 0,
            fault: None,
        });
    }
    let mut bills = JobBills::default();
    bills.add(bill(), true);
    bills.unexplained = 1;
    tasks[1].bills = Some(bills);
    let mut run = run_of(threads);
    run.verb = "exec".to_owned();
    run.request.source = RunSource::Tasks {
        of: set.name.clone(),
    };
    run.request.requirements = Vec::new();
    run.request.load = "no load".to_owned();
    run.loads = Vec::new();
    let split = split(&set, &[2_500_000, 2_600_000, 3_200_000]);
    run.tasks = Some(TaskRun {
        set,
        all_on_cpu: None,
        allowed: 1e-2,
        speeds: vec![CpuSpeed {
            cpu: 0,
            turns: 400_000,
            ns: 200_000,
            spread: 0.004,
        }],
        analysis: None,
        tasks,
        chains: vec![ChainFigures {
            reaction: lengths(&[2_500_000, 2_600_000, 3_200_000]),
            reaction_longer: 1,
            age: lengths(&[1_500_000, 1_600_000]),
            age_longer: 0,
            replaced: 3,
            lost: 0,
            split: Some(split),
        }],
    });
    run.events = Vec::<Event>::new();
    judged(run)
}

/// The same, where too little was seen for a verdict.
pub fn undecided() -> Run {
    let mut run = executed();
    if let Some(tasks) = &mut run.tasks {
        tasks.allowed = 1e-4;
    }
    judged(run)
}

/// The same with every fault that ends a task.
pub fn failed() -> Run {
    let mut run = executed();
    let error = || "it is gone".to_owned();
    if let Some(tasks) = &mut run.tasks {
        let faults = [
            TaskFault::Wait { error: error() },
            TaskFault::Release { error: error() },
            TaskFault::Step {
                phase: 0,
                step: 2,
                error: error(),
            },
            TaskFault::StillBusy {},
        ];
        for (task, fault) in tasks.tasks.iter_mut().zip(faults) {
            task.fault = Some(fault);
        }
        tasks.chains[0].lost = 2;
    }
    run.state = State::Finished;
    judged(run)
}

fn judged(mut run: Run) -> Run {
    let analysis = analyse_record(&run).expect("its histograms are whole");
    run.conclude(analysis);
    run
}
