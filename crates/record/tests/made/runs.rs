//! Runs with known figures, without measuring anything.
#![allow(dead_code, reason = "each test program takes what it needs")]

use std::sync::atomic::{AtomicU64, Ordering};

use std::collections::BTreeMap;

use punctual_record::*;
use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::peaks::{Peak, Peaks};
use punctual_stats::requirement::Requirement;

/// xorshift64*: the same figures everywhere, always.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Latencies like those of a quiet machine: most about 5 µs, few up to `worst_ns`.
pub fn latencies(seed: u64, count: usize, worst_ns: u64) -> Vec<u64> {
    let mut random = Random(seed * 2 + 1);
    (0..count)
        .map(|_| match random.next() % 1000 {
            0 => 20_000 + random.next() % worst_ns.saturating_sub(20_000).max(1),
            1..50 => 8_000 + random.next() % 12_000,
            _ => 3_000 + random.next() % 4_000,
        })
        .collect()
}

pub fn thread(cpu: usize, latencies: &[u64], capacity: usize) -> Thread {
    let mut histogram = Histogram::new();
    let mut first_half = Histogram::new();
    let mut peaks = Peaks::with_capacity(capacity);
    for (cycle, latency) in latencies.iter().enumerate() {
        histogram.record(*latency);
        if cycle < latencies.len() / 2 {
            first_half.record(*latency);
        }
        let asked_ns = 1_000_000_000 + cycle as u64 * 1_000_000;
        peaks.offer(Peak::new(cycle as u64, asked_ns, *latency));
    }
    Thread {
        cpu: Some(cpu),
        tid: 4000 + cpu as i32,
        latency: HistogramRecord::from(&histogram),
        late: latencies
            .iter()
            .filter(|latency| **latency > 100_000)
            .count() as u64,
        missed: 0,
        missed_late: Some(0),
        lost: 0,
        early: 0,
        warm_up: 100,
        peaks: peaks.in_order(),
        peaks_above_ns: peaks.threshold(),
        measured_ns: latencies.len() as u64 * 1_000_000,
        faults: Some(Faults { minor: 0, major: 0 }),
        preemptions: Some(0),
        first_half: Some(HistogramRecord::from(&first_half)),
        first_half_misses: Some(0),
        fault: None,
    }
}

pub fn system() -> SystemState {
    let mut system = SystemState {
        hostname: "bench <&\"'> \\ \u{1b} host".to_owned(),
        ..SystemState::default()
    };
    system.kernel.release = "6.18.44".to_owned();
    system.kernel.version = "#1 SMP PREEMPT_RT".to_owned();
    system.kernel.machine = "x86_64".to_owned();
    system.kernel.preemption = "rt".to_owned();
    system.kernel.command_line = "quiet isolcpus=1".to_owned();
    system.processor.online = vec![0, 1];
    system.processor.nodes = vec![system::Node {
        node: 0,
        cpus: vec![0, 1],
    }];
    system.power.cpu_dma_latency_held_us = Some(0);
    system.virtualisation.stolen_share = Some(0.001);
    system
}

/// Priority 80 for probes, found on these CPUs; on none, SCHED_OTHER is found.
pub fn fifo_80_on(cpus: &[usize]) -> Condition {
    let requested = Scheduling::Fifo { priority: 80 };
    Condition::Priority {
        requested,
        found: vec![condition::FoundScheduling {
            cpus: if cpus.is_empty() {
                vec![0]
            } else {
                cpus.to_vec()
            },
            scheduling: Some(match cpus {
                [] => Scheduling::Other,
                _ => requested,
            }),
            error: None,
        }],
        refused: None,
    }
}

static STARTS: AtomicU64 = AtomicU64::new(1);

/// A finished run of `threads`.
pub fn run_of(threads: Vec<Thread>) -> Run {
    let measured_ns = threads
        .iter()
        .map(|thread| thread.measured_ns)
        .max()
        .unwrap_or(0);
    let seconds = measured_ns / 1_000_000_000;
    let blocks = Some(Blocks {
        width_ns: measured_ns.max(1),
        threads: Vec::new(),
        latency: threads
            .iter()
            .map(|thread| thread.latency.clone())
            .filter(|latency| latency.count > 0)
            .take(Blocks::MOST)
            .collect(),
    });
    let mut run = Run {
        format: Run::FORMAT.to_owned(),
        version: Run::VERSION,
        tool: Tool {
            name: "punctual".to_owned(),
            version: "0.1.0".to_owned(),
        },
        verb: "qualify".to_owned(),
        command: vec![
            "punctual".to_owned(),
            "qualify".to_owned(),
            "-D".to_owned(),
            "10".to_owned(),
        ],
        started: "2026-11-21T02:46:09Z".to_owned(),
        // No two runs start at the same instant.
        start_ns: Some(STARTS.fetch_add(1, Ordering::Relaxed)),
        state: State::Finished,
        request: Request {
            source: "nanosleep".into(),
            interval: Interval::Fixed {
                interval_ns: 1_000_000,
            },
            cpus: threads.iter().filter_map(|thread| thread.cpu).collect(),
            policy: "fifo".to_owned(),
            priority: 80,
            duration_ns: Some(10_000_000_000),
            loops: None,
            break_ns: None,
            load: "standard load v1".to_owned(),
            load_class: "other".to_owned(),
            requirements: vec![
                Requirement::MissProbability {
                    deadline_ns: 100_000,
                    allowed: 1e-2,
                },
                Requirement::Max {
                    limit_ns: 5_000_000,
                },
            ],
            confidence: 0.95,
            as_deployed: false,
            best_effort: false,
        },
        placement: None,
        system: system(),
        findings: None,
        tuned: Vec::new(),
        demands: vec![
            Demand::requested(fifo_80_on(&[0]), true, || unreachable!()),
            Demand::stated(
                Condition::VirtualMachine {
                    hypervisor: Some("kvm".into()),
                    stolen_ns: None,
                    stolen_share: None,
                },
                None,
            ),
        ],
        measured_ns,
        timeline: Timeline {
            row_ns: 1_000_000_000,
            rows: (0..seconds)
                .map(|_| TimelineRow {
                    count: 1000 * threads.len() as u64,
                    min_ns: 3_000,
                    sum_ns: 5_000_000,
                    max_ns: 50_000,
                    late: 0,
                    missed: 0,
                    misses: 0,
                })
                .collect(),
            seconds,
            seconds_with_miss: 0,
        },
        threads,
        loads: vec![Load {
            name: "hackbench".to_owned(),
            parameters: BTreeMap::from([("groups".to_owned(), "2".to_owned())]),
            processes: 80,
            work: 1_000_000,
            unit: "messages".to_owned(),
            rate: 100_000.0,
            failed: None,
            check: None,
            idle_run: None,
        }],
        events: vec![Event::new(
            5_000_000_000,
            Happening::Steal {
                cpu: 0,
                stolen_ns: 3_000_000,
                between_ns: 20_000_000,
            },
        )],
        own_cost: OwnCost {
            collector_cpu_ns: 1_000_000,
            probes_cpu_ns: 2_000_000,
            peak_resident_bytes: 10 << 20,
            clock_read_ns: 25,
            tracer: Some(TracerCost {
                cpu_ns: 3_000_000,
                events: 40_000,
                lost: 0,
                unread_ns: 0,
            }),
        },
        analysis: None,
        verdict: None,
        explanation: None,
        imported: None,
        merged: None,
        blocks,
        laboratory: None,
        gaps: None,
        cross_check: None,
        watch: None,
        stops: None,
        experiment: None,
        tasks: None,
        path: None,
    };
    let analysis = analyse_record(&run).unwrap();
    run.verdict = Some(analysis.verdict.clone());
    run.analysis = Some(analysis);
    run
}

/// Two threads of 10,000 samples each.
pub fn run(seed: u64) -> Run {
    run_of(vec![
        thread(0, &latencies(seed, 10_000, 90_000), 512),
        thread(1, &latencies(seed + 1000, 10_000, 90_000), 512),
    ])
}
