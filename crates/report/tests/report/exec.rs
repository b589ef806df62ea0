//! Analyses of task sets in words.

use punctual_record::document::Printed;
use punctual_record::taskset::TaskPolicy;
use punctual_record::taskset::analysis::{
    Admission, AnalysisOutcome, BoundPart, BoundSource, ChainAnalysis, ChainLatency, CpuLoad,
    NoBound, OrdinaryBy, OrdinaryTime, OverheadsMeasured, Response, ServerTime, SetAnalysis,
    SetOverheads, TaskAnalysis, TickOverhead, UntimedStep,
};
use punctual_report::exec::{analysis, analysis_sentence};
use punctual_report::style::Style;

use crate::formats::schema::published;

fn task(name: &str, response: Response) -> TaskAnalysis {
    TaskAnalysis {
        name: name.to_owned(),
        policy: TaskPolicy::Fifo { priority: 80 },
        cpus: vec![1],
        period_ns: 1_000_000,
        deadline_ns: 900_000,
        execution_ns: Some(200_000),
        response,
        counts_worst: false,
        may_take_longer_ns: None,
        admission: None,
    }
}

fn bounded(response_ns: u64) -> Response {
    let part = |source, ns| BoundPart { source, ns };
    Response::Bounded {
        response_ns,
        job: 2,
        jitter_ns: 50_000,
        arrival_in_window_ns: None,
        parts: vec![
            part(BoundSource::Itself, 200_000),
            part(BoundSource::Sleep, 1_000),
            part(BoundSource::Task { task: 0 }, 2_000),
            part(BoundSource::Blocking, 3_000),
            part(BoundSource::ReleaseInterrupt { task: 0 }, 4_000),
            part(BoundSource::ReleaseInterrupt { task: 1 }, 1_000),
            part(BoundSource::Tick, 6_000),
            part(BoundSource::FairServer, 8_000),
            part(BoundSource::RtThrottling, 9_000),
            part(BoundSource::Other, 7_000),
        ],
    }
}

fn made(tasks: Vec<TaskAnalysis>, outcome: AnalysisOutcome) -> SetAnalysis {
    SetAnalysis {
        version: SetAnalysis::VERSION,
        name: "robot".to_owned(),
        cpus: 2,
        overheads: SetOverheads::default(),
        tasks,
        locks: vec!["state".to_owned()],
        loads: Vec::new(),
        chains: Vec::new(),
        largest_factor_ppm: None,
        outcome,
    }
}

/// Every reason there is.
const REASONS: [NoBound; 23] = [
    NoBound::SeveralCpus,
    NoBound::Untimed {
        step: UntimedStep::Library,
    },
    NoBound::After { task: 0 },
    NoBound::Interferer { task: 0 },
    NoBound::LockUser { lock: 0, task: 0 },
    NoBound::NestedLocks { lock: 0, task: 0 },
    NoBound::SleepsInLock { lock: 0, task: 0 },
    NoBound::YieldsReservation,
    NoBound::Overload,
    NoBound::PlainLock { lock: 0 },
    NoBound::LockAcrossCpus { lock: 0 },
    NoBound::LockWithDeadlineTask { lock: 0 },
    NoBound::Throttled {
        needed_ns: 2_000_000,
    },
    NoBound::FasterThanReservation,
    NoBound::SleepsInReservation,
    NoBound::Demand {
        interval_ns: 1_000_000,
        demand_ns: 2_000_000,
    },
    NoBound::FairServer,
    NoBound::OrdinaryTasks { task: 1 },
    NoBound::ReleasesSkipped { pending: 9 },
    NoBound::GlobalUndecided,
    NoBound::TooLong,
    NoBound::TooManySteps,
    NoBound::Untimed {
        step: UntimedStep::Command,
    },
];

/// The text on one line.
fn flat(of: &SetAnalysis) -> String {
    let text = analysis(of, &Style::plain());
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An analysis with every kind of fact.
pub fn whole() -> SetAnalysis {
    let mut tasks: Vec<TaskAnalysis> = vec![task("sensor", bounded(300_000))];
    for (number, why) in REASONS.into_iter().enumerate() {
        tasks.push(task(&format!("t{number}"), Response::Unbounded { why }));
    }
    tasks[0].may_take_longer_ns = Some(200_000);
    let mut reserved = task("camera", bounded(900_000));
    reserved.policy = TaskPolicy::Deadline {
        runtime_ns: 1_000_000,
        deadline_ns: 900_000,
        period_ns: 1_000_000,
    };
    for admission in [Admission::Admitted, Admission::Busy, Admission::Invalid] {
        reserved.admission = Some(admission);
        reserved.name = format!("{admission:?}");
        tasks.push(reserved.clone());
    }
    let mut ordinary = task("log", Response::BestEffort);
    ordinary.policy = TaskPolicy::Other { nice: 5 };
    ordinary.cpus = Vec::new();
    ordinary.execution_ns = None;
    tasks.push(ordinary);
    let mut open = task("open", bounded(1_100_000));
    open.counts_worst = true;
    tasks.push(open);
    let mut whole = made(tasks, AnalysisOutcome::NotMet);
    whole.overheads = SetOverheads {
        measured: Some(OverheadsMeasured {
            cpu: 1,
            interrupts: 40,
            wake_ups: 200,
            ticks: 30,
        }),
        release_interrupt_ns: 2_000,
        wake_and_sleep_ns: 5_000,
        tick: Some(TickOverhead {
            period_ns: 4_000_000,
            execution_ns: 1_500,
        }),
        fair_server: Some(ServerTime {
            runtime_ns: 50_000_000,
            period_ns: 1_000_000_000,
            overrun_ns: 4_000_000,
            assumed: true,
        }),
        rt_throttling: Some(ServerTime {
            runtime_ns: 100_000_000,
            period_ns: 1_000_000_000,
            overrun_ns: 4_000_000,
            assumed: false,
        }),
    };
    whole.loads = vec![CpuLoad {
        cpu: 1,
        tasks_ppm: 350_000,
        all_ppm: 398_479,
        unknown: 2,
        demand_met: Some(false),
        ordinary: vec![
            OrdinaryTime {
                by: OrdinaryBy::FairServer,
                may_run: false,
                taken_ns: Some(398_479_000),
            },
            OrdinaryTime {
                by: OrdinaryBy::RtThrottling,
                may_run: true,
                taken_ns: None,
            },
        ],
    }];
    let latencies = [
        ChainLatency::Bounded {
            reaction_ns: 5_000_000,
            age_ns: 3_000_000,
        },
        ChainLatency::Unbounded { task: 1 },
        ChainLatency::NotPeriodic { task: 0 },
        ChainLatency::Skips { task: 0 },
        ChainLatency::TooLong,
    ];
    whole.chains = latencies
        .into_iter()
        .enumerate()
        .map(|(number, latency)| ChainAnalysis {
            name: format!("c{number}"),
            tasks: vec![0, 1],
            reaction_limit_ns: Some(4_000_000),
            age_limit_ns: (number > 0).then_some(9_000_000),
            latency,
            counts_worst: number == 3,
        })
        .collect();
    whole.largest_factor_ppm = Some(1_541_000);
    whole
}

#[test]
fn an_analysis_says_what_a_bound_consists_of() {
    let text = flat(&made(
        vec![task("sensor", bounded(300_000))],
        AnalysisOutcome::Met,
    ));
    for words in [
        "All deadlines are met by analysis: 1 real-time task of robot",
        "sensor fifo 80 1 1 ms 200 µs 300 µs 900 µs 600 µs —",
        "sensor: 300 µs: 50 µs until its release, 200 µs itself, 1 µs its sleep, 2 µs sensor, 3 µs \
         holders of locks, 6 µs ticks, 8 µs ordinary tasks (fair server), 9 µs RT throttling, 7 µs the kernel, 5 µs timer interrupts; it is job 3 of a busy \
         window, 2 ms after the first",
        "nothing is counted for the kernel",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
}

#[test]
fn each_reason_says_what_to_do() {
    for why in REASONS {
        let response = Response::Unbounded { why };
        let set = made(
            vec![task("other", Response::BestEffort), task("late", response)],
            AnalysisOutcome::Unbounded,
        );
        let text = flat(&set);
        assert!(text.contains("No bound late: "), "{text}");
        let act = [
            "bind",
            "say how",
            "give",
            "has no bound",
            "sleep",
            "yield at",
            "shorten",
            "use",
            "longer",
        ];
        let said = text.split("No bound late: ").nth(1).unwrap_or_default();
        assert!(act.iter().any(|act| said.contains(act)), "{why:?}: {said}");
        if !why.is_impossible() {
            let sentence = analysis_sentence(&set);
            assert!(
                sentence.starts_with("No bound for 1 of 1 real-time task"),
                "{sentence}"
            );
        }
    }
}

#[test]
fn an_analysis_with_every_fact_is_shown_and_is_valid_under_the_published_schema() {
    let whole = whole();
    let text = flat(&whole);
    for words in [
        "Deadlines are not met by analysis: 3 of 33 real-time tasks and chains of robot: t8, t15, c0",
        "c0 5 ms 4 ms 3 ms —",
        "c1: t0 has no bound",
        "open: its bound counts what need not come together",
        "c2: the arrivals of sensor are not at one exact distance",
        "c3: jobs of sensor may end after the deadline of the next one, which is skipped then",
        "CPU 1: its real-time tasks need 35 %, with the kernel 39.9 %, without 2 tasks of unknown",
        "the kernel admits the reservations of Admitted: that is no guarantee",
        "it refuses (EBUSY) Busy",
        "it refuses (EINVAL) Invalid",
        "it refuses (EPERM) a reservation of a task bound to a part",
        "all jobs may take 1.541 times as long",
        "2 µs each timer interrupt, 5 µs from it to the job and back to sleep, 1.5 µs each tick (4 ms); \
         95 % of 40, 200 and 30 gaps were no longer",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    let schema = published("analysis-1");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let value = serde_json::to_value(&whole).expect("JSON");
    assert!(validator.is_valid(&value));
    let back: SetAnalysis = serde_json::from_value(value).expect("what was written");
    assert_eq!(back, whole);
}

#[test]
fn a_bound_that_proves_nothing_is_said_to_be_that() {
    let mut open = task("open", bounded(1_100_000));
    open.counts_worst = true;
    let mut overload = task(
        "full",
        Response::Unbounded {
            why: NoBound::Overload,
        },
    );
    overload.counts_worst = true;
    let tasks = vec![task("sensor", bounded(300_000)), open, overload];
    let text = flat(&made(tasks, AnalysisOutcome::Unbounded));
    for words in [
        "It is not proved that deadlines are met: 2 of 3 real-time tasks of robot: open, full; the others meet",
        "No proof open, full: its bound counts what need not come together",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    assert!(!text.contains("No bound"), "{text}");
}
