//! Runs as they might have been measured: made up from a seed, with figures
//! that hang together, judged by the real statistics.
#![allow(dead_code, clippy::missing_panics_doc)]

use punctual::record::explanation::{Cause, Ledger};
use punctual::record::{
    Demand, Event, Faults, Interval, Load, Run, Standing, State, Thread, Timeline, TimelineRow,
};
use punctual_stats::analysis::{Settings, analyse};
use punctual_stats::evidence::{HalfEvidence, RunEvidence, ThreadEvidence};
use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::peaks::Peaks;
use punctual_stats::requirement::Requirement;

/// xorshift64*: the same figures everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn unit(&mut self) -> f64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let bits = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11;
        (bits as f64 + 0.5) / (1u64 << 53) as f64
    }

    /// Log-normal around a median.
    pub fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        let normal = (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos();
        median * (sigma * normal).exp()
    }

    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

/// What a fixture is made of.
pub struct Spec<'a> {
    pub cpus: usize,
    pub samples: u64,
    pub interval_ns: u64,
    pub requirements: Vec<Requirement>,
    pub invalid: Vec<String>,
    /// CPU, cycle, randomness: latency in ns.
    pub latency: &'a dyn Fn(usize, u64, &mut Random) -> f64,
}

/// A run without samples on a machine of good repute.
pub fn blank(cpus: usize, interval_ns: u64) -> Run {
    let cpu_list: Vec<usize> = (0..cpus).collect();
    let histogram = HistogramRecord::from(&Histogram::new());
    let mut run: Run = serde_json::from_value(serde_json::json!({
        "format": "punctual-run", "version": 1,
        "tool": {"name": "punctual", "version": "0.1.0"},
        "verb": "qualify",
        "command": ["punctual", "qualify", "-D", "15m", "--deadline", "100us"],
        "started": "2026-11-21T09:30:00Z",
        "state": {"state": "finished"},
        "request": {
            "source": "nanosleep",
            "interval": {"kind": "fixed", "interval_ns": interval_ns},
            "cpus": cpu_list, "policy": "fifo", "priority": 80,
            "duration_ns": 900_000_000_000u64, "loops": null, "break_ns": null,
            "load": "standard load v1", "load_class": "other",
            "requirements": [], "confidence": 0.95, "as_deployed": false, "best_effort": false
        },
        "system": {
            "hostname": "rt-bench-07",
            "distribution": "Debian GNU/Linux 13 (trixie)",
            "kernel": {"release": "6.12.57-rt-amd64", "machine": "x86_64", "preemption": "rt",
                "command_line": "BOOT_IMAGE=/vmlinuz root=/dev/nvme0n1p2 ro isolcpus=domain,managed_irq,2-3 quiet"},
            "processor": {"model": "Intel Core i7-1185GRE @ 2.80GHz", "online": [0, 1, 2, 3],
                "allowed": [0, 1, 2, 3], "isolated": [2, 3], "smt_active": false},
            "clock": {"source": "tsc", "available": ["tsc", "hpet"], "resolution_ns": 1},
            "power": {"frequency_driver": "intel_pstate", "governors": [["performance", [0, 1, 2, 3]]],
                "idle_driver": "intel_idle", "cpu_dma_latency_held_us": 0,
                "idle_states": [{"name": "POLL", "exit_latency_us": 0, "disabled": false},
                    {"name": "C1E", "exit_latency_us": 10, "disabled": false}]},
            "virtualisation": {},
            "scheduler": {"rt_period_us": 1_000_000, "rt_runtime_us": 950_000,
                "above": [{"tid": 18, "name": "migration/0", "policy": "fifo", "priority": 99, "kernel": true}],
                "above_count": 4},
            "memory": {"total_bytes": 17_179_869_184u64}
        },
        "demands": [], "measured_ns": 0, "threads": [],
        "timeline": {"row_ns": 1_000_000_000, "rows": [], "seconds": 0, "seconds_with_miss": 0},
        "loads": [], "events": [],
        "own_cost": {"collector_cpu_ns": 1_200_000_000u64, "probes_cpu_ns": 9_300_000_000u64,
            "peak_resident_bytes": 14_680_064, "clock_read_ns": 21},
        "analysis": null, "verdict": null
    }))
    .expect("the fixture is a record");
    run.request.interval = Interval::Primes {
        interval_ns,
        seed: 2026,
        table_ns: vec![interval_ns],
    };
    for (name, asked) in [
        ("policy and priority", "fifo 80"),
        ("affinity", "one CPU each"),
        ("locked memory", "all, present and future"),
    ] {
        run.demands.push(Demand {
            name: name.into(),
            asked: asked.into(),
            found: asked.into(),
            standing: Standing::InForce,
            mend: None,
        });
    }
    for (name, processes, rate, unit) in [
        ("hackbench", 160, 412_345.6, "messages"),
        ("fork", 4, 1_204.0, "processes"),
        ("files", 8, 2_310.4, "MB"),
        ("net", 8, 88_120.0, "requests"),
        ("mmap", 4, 5_120.7, "pages"),
    ] {
        run.loads.push(Load {
            name: name.into(),
            parameters: [("groups".to_owned(), "4".to_owned())].into(),
            processes,
            work: (rate * 900.0) as u64,
            unit: unit.into(),
            rate,
            failed: None,
        });
    }
    for cpu in 0..cpus {
        run.threads.push(Thread {
            cpu,
            tid: 1234 + cpu as i32,
            latency: histogram.clone(),
            late: 0,
            missed: 0,
            missed_late: None,
            lost: 0,
            early: 0,
            warm_up: 1000,
            peaks: Vec::new(),
            peaks_above_ns: 0,
            measured_ns: 0,
            faults: Some(Faults { minor: 0, major: 0 }),
            preemptions: Some(0),
            first_half: Some(histogram.clone()),
            first_half_misses: None,
            error: None,
        });
    }
    run
}

/// Makes up a run, analysed and judged.
pub fn make(spec: &Spec<'_>) -> Run {
    let mut run = blank(spec.cpus, spec.interval_ns);
    run.request.requirements = spec.requirements.clone();
    let deadline = spec
        .requirements
        .iter()
        .find(|r| !matches!(r, Requirement::Percentile { .. }))
        .map(Requirement::limit_ns);
    let duration = spec.samples * spec.interval_ns;
    let row_ns = 1_000_000_000u64;
    let mut rows = vec![TimelineRow::default(); duration.div_ceil(row_ns) as usize];
    let origin = 5_000_000_000_000u64;
    let (mut histograms, mut firsts, mut seconds_hists, mut peaks) =
        (vec![], vec![], vec![], vec![]);
    let mut half_misses = [0u64; 2];
    for cpu in 0..spec.cpus {
        let mut random = Random::new(cpu as u64 + 1);
        let mut all = Histogram::new();
        let (mut first, mut second) = (Histogram::new(), Histogram::new());
        let mut top = Peaks::with_capacity(1024);
        let mut cycle = 0;
        let thread = &mut run.threads[cpu];
        while cycle < spec.samples {
            let latency = (spec.latency)(cpu, cycle, &mut random).max(0.0) as u64;
            let at = cycle * spec.interval_ns;
            let missed = (latency / spec.interval_ns).min(spec.samples - cycle - 1);
            let late = u64::from(deadline.is_some_and(|d| latency > d));
            all.record(latency);
            let half = usize::from(cycle >= spec.samples / 2);
            if half == 0 {
                first.record(latency)
            } else {
                second.record(latency)
            };
            half_misses[half] += late + missed;
            top.offer(cycle, origin + at, latency);
            let row = &mut rows[(at / row_ns) as usize];
            row.min_ns = if row.count == 0 {
                latency
            } else {
                row.min_ns.min(latency)
            };
            row.count += 1;
            row.sum_ns += latency;
            row.max_ns = row.max_ns.max(latency);
            row.late += late;
            row.missed += missed;
            thread.late += late;
            thread.missed += missed;
            cycle += 1 + missed;
        }
        thread.measured_ns = duration;
        thread.latency = HistogramRecord::from(&all);
        thread.first_half = Some(HistogramRecord::from(&first));
        thread.peaks = top.in_order();
        thread.peaks_above_ns = top.threshold();
        histograms.push(all);
        firsts.push(first);
        seconds_hists.push(second);
        peaks.push(top);
    }
    let with_miss = rows.iter().filter(|r| r.late > 0 || r.missed > 0).count() as u64;
    run.timeline = Timeline {
        row_ns,
        seconds: rows.len() as u64,
        seconds_with_miss: with_miss,
        rows,
    };
    run.measured_ns = duration;
    run.request.duration_ns = Some(duration);
    let halves = [
        Histogram::merged(&firsts),
        Histogram::merged(&seconds_hists),
    ];
    let threads = run
        .threads
        .iter()
        .enumerate()
        .map(|(i, t)| ThreadEvidence {
            cpu: t.cpu as u32,
            histogram: &histograms[i],
            late: t.late,
            missed: t.missed,
            missed_late: t.missed,
            lost: t.lost,
            peaks: &peaks[i],
        })
        .collect();
    let evidence = RunEvidence {
        threads,
        duration_ns: duration,
        deadline_ns: deadline,
        seconds: run.timeline.seconds,
        seconds_with_miss: with_miss,
        halves: Some([0, 1].map(|i| HalfEvidence {
            histogram: &halves[i],
            misses: half_misses[i],
        })),
        load: Some("standard load v1"),
    };
    let settings = Settings {
        confidence: 0.95,
        requirements: spec.requirements.clone(),
        invalid_reasons: spec.invalid.clone(),
    };
    let analysis = analyse(&evidence, &settings);
    run.verdict = (!spec.requirements.is_empty()).then(|| analysis.verdict.clone());
    run.analysis = Some(analysis);
    run
}

fn miss(deadline_ns: u64, allowed: f64) -> Requirement {
    Requirement::MissProbability {
        deadline_ns,
        allowed,
    }
}

/// A well-tuned machine: 3.6 million samples on 4 CPUs within 100 µs.
pub fn good() -> Run {
    let latency = |cpu: usize, _: u64, random: &mut Random| {
        let base = random.log_normal(3_100.0 + 300.0 * cpu as f64, 0.16);
        match random.unit() {
            p if p < 2e-4 => base + 4_000.0 + random.exponential(6_000.0).min(52_000.0),
            p if p < 0.02 => base + random.exponential(1_800.0),
            _ => base,
        }
    };
    make(&Spec {
        cpus: 4,
        samples: 900_000,
        interval_ns: 1_000_000,
        requirements: vec![miss(100_000, 1e-4)],
        invalid: vec![],
        latency: &latency,
    })
}

/// A laptop that sleeps deeply and stalls in bursts.
pub fn laptop() -> Run {
    let latency = |cpu: usize, cycle: u64, random: &mut Random| {
        let burst = (cycle / 400 + 7 * cpu as u64).is_multiple_of(31) && cycle % 400 < 60;
        let idle = if random.unit() < 0.4 {
            55_000.0
        } else {
            9_000.0
        };
        let base = random.log_normal(idle, 0.3);
        match random.unit() {
            p if burst && p < 0.5 => base + random.exponential(400_000.0),
            p if p < 3e-4 => base + random.exponential(900_000.0),
            _ => base,
        }
    };
    let mut run = make(&Spec {
        cpus: 8,
        samples: 60_000,
        interval_ns: 1_000_000,
        requirements: vec![
            miss(100_000, 1e-4),
            Requirement::Percentile {
                percentile: 99.99,
                limit_ns: 250_000,
            },
        ],
        invalid: vec![],
        latency: &latency,
    });
    run.system.hostname = "laptop".into();
    run.system.kernel.release = "6.17.4-76061704-generic".into();
    run.system.kernel.preemption = "voluntary".into();
    run.system.processor.model = "AMD Ryzen 7 PRO 7840U w/ Radeon 780M Graphics".into();
    run.system.power.governors = vec![("powersave".into(), (0..8).collect())];
    run.system.power.cpu_dma_latency_held_us = None;
    run.request.as_deployed = true;
    run
}

/// A virtual machine whose host steals time, without the priority asked for.
pub fn virtual_machine() -> Run {
    let latency = |_: usize, cycle: u64, random: &mut Random| {
        let base = random.log_normal(62_000.0, 0.35);
        match random.unit() {
            p if p < 2e-3 => base + random.exponential(1_500_000.0),
            _ if cycle == 41_007 => 26_031_442.0,
            _ => base,
        }
    };
    let reasons = [
        "priority: asked for fifo 80, found other 0",
        "CPU 1 went offline",
    ];
    let mut run = make(&Spec {
        cpus: 2,
        samples: 60_000,
        interval_ns: 1_000_000,
        requirements: vec![miss(100_000, 1e-4)],
        invalid: reasons.map(str::to_owned).to_vec(),
        latency: &latency,
    });
    run.system.hostname = "ci-runner-3".into();
    run.system.virtualisation.hypervisor = Some("kvm".into());
    run.system.virtualisation.stolen_ns = Some(1_734_000_000);
    run.system.virtualisation.stolen_share = Some(0.01445);
    run.system.virtualisation.container = Some("docker".into());
    run.demands[0] = Demand {
        name: "priority".into(),
        asked: "fifo 80".into(),
        found: "other 0 (EPERM)".into(),
        standing: Standing::NotInForce,
        mend: Some("run as root, or `setcap cap_sys_nice+ep punctual`, or raise RLIMIT_RTPRIO to 80 in /etc/security/limits.conf".into()),
    };
    run.demands.push(Demand {
        name: "virtual machine".into(),
        asked: "nothing".into(),
        found: "kvm".into(),
        standing: Standing::Stated,
        mend: None,
    });
    run.events.push(Event {
        at_ns: 31_204_000_000,
        kind: "steal".into(),
        text: "the host stole 24 ms from CPU 0".into(),
        invalidates: false,
    });
    run.events.push(Event {
        at_ns: 48_900_000_000,
        kind: "cpu-offline".into(),
        text: "CPU 1 went offline".into(),
        invalidates: true,
    });
    run.loads[1].failed = Some("fork: Resource temporarily unavailable".into());
    run.loads[1].rate = 0.0;
    run
}

/// Nothing was measured.
pub fn no_samples() -> Run {
    let mut run = make(&Spec {
        cpus: 2,
        samples: 0,
        interval_ns: 1_000_000,
        requirements: vec![miss(100_000, 1e-4)],
        invalid: vec![],
        latency: &|_, _, _| 0.0,
    });
    run.threads[1].error = Some("sched_setattr: Operation not permitted".into());
    run
}

/// Killed after 20 of 60 s; nothing was judged yet.
pub fn unfinished() -> Run {
    let latency = |_: usize, _: u64, random: &mut Random| random.log_normal(4_000.0, 0.25);
    let mut run = make(&Spec {
        cpus: 3,
        samples: 20_000,
        interval_ns: 1_000_000,
        requirements: vec![miss(100_000, 1e-4)],
        invalid: vec![],
        latency: &latency,
    });
    run.state = State::Unfinished;
    run.request.duration_ns = Some(60_000_000_000);
    run.timeline.rows.truncate(17);
    run.analysis = None;
    run.verdict = None;
    run
}

/// 64 CPUs, one of them an outlier.
pub fn many_cpus() -> Run {
    many(64, 20_000)
}

/// A great many CPUs.
pub fn many(cpus: usize, samples: u64) -> Run {
    let latency = |cpu: usize, _: u64, random: &mut Random| {
        let base = random.log_normal(5_000.0 + 40.0 * cpu as f64, 0.2);
        let tail = if cpu % 32 == 17 { 60_000.0 } else { 3_000.0 };
        if random.unit() < 1e-3 {
            base + random.exponential(tail)
        } else {
            base
        }
    };
    let mut run = make(&Spec {
        cpus,
        samples,
        interval_ns: 1_000_000,
        requirements: vec![miss(150_000, 1e-3)],
        invalid: vec![],
        latency: &latency,
    });
    run.system.processor.online = (0..cpus).collect();
    run.system.processor.model = "AMD EPYC 9554P 64-Core Processor".into();
    run
}

/// One CPU stalled once for 26 ms.
pub fn outlier() -> Run {
    let latency = |cpu: usize, cycle: u64, random: &mut Random| {
        if cpu == 2 && cycle == 171_500 {
            26_012_345.0
        } else {
            random.log_normal(2_600.0, 0.2)
        }
    };
    make(&Spec {
        cpus: 4,
        samples: 300_000,
        interval_ns: 1_000_000,
        requirements: vec![Requirement::Max { limit_ns: 50_000 }],
        invalid: vec![],
        latency: &latency,
    })
}

/// Latencies of milliseconds at an interval of 100 ms.
pub fn milliseconds() -> Run {
    let latency = |_: usize, _: u64, random: &mut Random| random.log_normal(14e6, 0.4);
    let mut run = make(&Spec {
        cpus: 2,
        samples: 3_000,
        interval_ns: 100_000_000,
        requirements: vec![miss(50_000_000, 1e-2)],
        invalid: vec![],
        latency: &latency,
    });
    run.request.source = "condvar".into();
    run
}

/// Hundreds of nanoseconds, one CPU, nothing required, under a hostile name.
pub fn hostile() -> Run {
    let latency = |_: usize, _: u64, random: &mut Random| random.log_normal(420.0, 0.3);
    let mut run = make(&Spec {
        cpus: 1,
        samples: 100_000,
        interval_ns: 50_000,
        requirements: vec![],
        invalid: vec![],
        latency: &latency,
    });
    let evil = "<script>alert(1)</script>\"'`reboot`\u{1b}[31m&amp;";
    run.system.hostname = evil.into();
    run.command = vec![
        "punctual".into(),
        evil.into(),
        "--".into(),
        "</style><img src=x onerror=alert(2)>".into(),
    ];
    run.system.kernel.command_line = evil.into();
    run.loads[0].name = evil.into();
    run.system.processor.model = "M".repeat(400);
    run.demands[0].found = evil.into();
    run.events.push(Event {
        at_ns: 1,
        kind: evil.into(),
        text: evil.into(),
        invalidates: false,
    });
    run
}

/// Bills that were made of events recorded on a real kernel.
pub fn explained() -> Run {
    let mut run = virtual_machine();
    let mut ledger = Ledger::new(Some(100_000));
    let mut start = u64::MAX;
    for name in super::data::NAMES {
        for number in 0..3 {
            let window = super::data::window(&format!("{name}-{number}"));
            let bill = punctual::trace::attribute::bill(&window);
            start = start.min(bill.due_ns);
            // So that the percentiles have enough to stand on.
            (0..400).for_each(|_| ledger.add_stages(&bill.stages));
            ledger.add(&bill);
        }
    }
    run.start_ns = Some(start);
    run.explanation = Some(ledger.to_record());
    run
}

/// Every kind of cause, with names that want to be markup and commands.
pub fn explained_hostile() -> Run {
    let mut run = hostile();
    let mut explanation = super::bills::explanation();
    let evil = "x'; reboot; </svg><script>alert(1)</script>\u{1b}[31m";
    for bill in &mut explanation.bills {
        for row in &mut bill.rows {
            row.stack = vec![evil.into(); 3];
            row.note = Some(evil.into());
            if let Cause::PreemptOff { task, .. } | Cause::Thread { task, .. } = &mut row.cause {
                *task = evil.into();
            }
        }
        for span in bill
            .picture
            .iter_mut()
            .flat_map(|picture| &mut picture.spans)
        {
            span.label = evil.into();
        }
    }
    for ranked in &mut explanation.ranking {
        if let Cause::PreemptOff { task, .. } | Cause::Thread { task, .. } = &mut ranked.cause {
            *task = evil.into();
            ranked.total_ns *= 100;
        }
    }
    explanation.missing.push(evil.into());
    run.explanation = Some(explanation);
    run
}

/// All of them with their names.
pub fn all() -> Vec<(&'static str, Run)> {
    vec![
        ("explained", explained()),
        ("explained-hostile", explained_hostile()),
        ("watched", super::watched::program()),
        ("watched-hostile", super::watched::hostile()),
        ("good", good()),
        ("laptop", laptop()),
        ("vm", virtual_machine()),
        ("empty", no_samples()),
        ("unfinished", unfinished()),
        ("many", many_cpus()),
        ("outlier", outlier()),
        ("milliseconds", milliseconds()),
        ("hostile", hostile()),
    ]
}
