//! A cost with known answers: the treatment makes work take a quarter longer, and the tail is 1 ms
//! without it and 100 us with it, so that they cross at 900 us / 0.25 = 3.6 ms.

use std::collections::BTreeMap;

use punctual_record::cost::*;
use punctual_record::{Document, Tool};
use punctual_stats::Histogram;
use punctual_stats::cost::Usage;

const MS: u64 = 1_000_000;

pub fn usage(factor: f64) -> Usage {
    let of = |ns: f64| (ns * factor) as u64;
    Usage {
        user_ns: of(8e8),
        system_ns: of(2e8),
        instructions: Some(of(4e9)),
        elapsed_ns: of(2e9),
        voluntary_switches: 100,
        involuntary_switches: 20,
        minor_faults: 2_000,
        major_faults: 1,
    }
}

/// A thousand wake-ups, each of this latency.
pub fn wake_ups(ns: u64) -> CostWakeUps {
    let mut latency = Histogram::new();
    latency.record_n(ns, 1_000);
    CostWakeUps::of(&latency, 0, 0)
}

pub fn machine(kernel: &str) -> CostMachine {
    CostMachine {
        hostname: "rt-box".to_owned(),
        kernel: kernel.to_owned(),
        build: "#1 SMP".to_owned(),
        command_line: "quiet".to_owned(),
        boot_id: kernel.to_owned(),
        cpus: vec![0, 1],
        settings: BTreeMap::from([("/proc/sys/vm/swappiness".to_owned(), "60".to_owned())]),
    }
}

/// Every kind of part, all in one treatment.
pub fn parts() -> Vec<CostPart> {
    vec![
        CostPart::RtLoad {
            utilisation: 0.3,
            cpus: vec![1],
            priority: 70,
            period_ns: 10 * MS,
        },
        CostPart::Priority { priority: 50 },
        CostPart::Locked {},
        CostPart::Isolate { cpus: vec![1] },
        CostPart::Preempt {
            mode: "full".to_owned(),
            before: "voluntary".to_owned(),
        },
    ]
}

/// Twelve pairs of a treatment of these parts, and of identical runs; not judged yet.
pub fn cost(parts: Vec<CostPart>) -> Cost {
    let mut runs = Vec::new();
    for pair in 0..12 {
        for treatment in [None, Some(0)] {
            for with in [pair % 2 == 0, pair % 2 != 0] {
                let is_treated = with && treatment.is_some();
                runs.push(CostRun {
                    treatment,
                    pair,
                    with,
                    machine: 0,
                    at_ns: runs.len() as u64 * 2_100 * MS,
                    usage: usage(if is_treated { 1.25 } else { 1.0 }),
                    status: 0,
                    left: 0,
                    load: is_treated.then_some(0.29),
                    wake_ups: Some(wake_ups(if is_treated { 100_000 } else { MS })),
                });
            }
        }
    }
    Cost {
        format: Cost::FORMAT.to_owned(),
        version: Cost::VERSION,
        tool: Tool {
            name: "punctual".to_owned(),
            version: "0.1.0".to_owned(),
        },
        command: vec!["punctual".to_owned(), "cost".to_owned()],
        started: "2026-11-24T03:00:00Z".to_owned(),
        plan: CostWork {
            program: vec!["./filter".to_owned(), "data".to_owned()],
            directory: "/srv/work".to_owned(),
            prepare: Some("make clean".to_owned()),
            pairs: 12,
            warm_ups: 1,
            limit_ns: 3_600_000 * MS,
            seed: 7,
            confidence: 0.95,
            quantile: 0.99,
            accepts_failure: false,
        },
        treatments: vec![CostTreatment { parts }],
        machines: vec![machine("6.1.0")],
        no_instructions: None,
        probe: Some(CostProbe {
            cpu: 1,
            priority: 80,
            interval_ns: MS,
        }),
        runs,
        results: None,
        outcome: CostOutcome::Complete,
    }
}

/// As [`cost`], before and after a reboot.
pub fn across_reboot() -> Cost {
    let mut cost = cost(vec![CostPart::Reboot {}]);
    cost.machines.push(machine("6.1.0-rt"));
    for run in &mut cost.runs {
        // What was with the treatment is after the reboot, all of it.
        let is_after = run.treatment.take().is_some();
        run.machine = usize::from(is_after);
        run.load = None;
        run.usage = usage(if is_after { 1.25 } else { 1.0 });
        run.wake_ups = Some(wake_ups(if is_after { 100_000 } else { MS }));
    }
    cost
}
