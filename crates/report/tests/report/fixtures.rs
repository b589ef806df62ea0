//! Runs as they might have been measured: made up from a seed, with figures
//! that hang together, judged by the real statistics.
#![allow(dead_code, reason = "each test program uses a part of it")]

mod build;

pub use build::*;
use punctual_record::Ledger;
use punctual_record::explanation::{Cause, NotSeen, RowNote, SpanLabel};
use punctual_record::finding::{Fault, FindingFix};
use punctual_record::{
    Condition, Demand, Event, Fix, Gaps, Happening, LoadFailure, Method, Run, Scheduling, State,
    Subject, Thread, ThreadFault, Unsaved, UnsavedPart, UnsavedReason, Watched, analyse_record,
};
use punctual_stats::requirement::Requirement;
use punctual_stats::verdict::Verdict;

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
        latency: &latency,
    });
    run.system.hostname = "laptop".into();
    run.system.kernel.release = "6.17.4-76061704-generic".into();
    run.system.kernel.preemption = "voluntary".into();
    run.system.processor.model = "AMD Ryzen 7 PRO 7840U w/ Radeon 780M Graphics".into();
    run.system.power.governors = vec![("powersave".into(), (0..8).collect())];
    run.system.power.cpu_dma_latency_held_us = None;
    run.request.as_deployed = true;
    run.findings = Some(super::findings_of_run::findings());
    run.tuned = super::findings_of_run::tuned();
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
    let mut run = make(&Spec {
        cpus: 2,
        samples: 60_000,
        interval_ns: 1_000_000,
        requirements: vec![miss(100_000, 1e-4)],
        latency: &latency,
    });
    run.system.hostname = "ci-runner-3".into();
    run.system.virtualisation.hypervisor = Some("kvm".into());
    run.system.virtualisation.stolen_ns = Some(1_734_000_000);
    run.system.virtualisation.stolen_share = Some(0.01445);
    run.system.virtualisation.container = Some("docker".into());
    run.demands[0] = Demand::requested(priority(2, Scheduling::Other), false, || {
        Fix::HigherPriority
    });
    run.demands.push(Demand::stated(
        Condition::VirtualMachine {
            hypervisor: Some("kvm".into()),
            stolen_ns: Some(1_734_000_000),
            stolen_share: Some(0.01445),
        },
        None,
    ));
    run.events.push(Event::new(
        31_204_000_000,
        Happening::Steal {
            cpu: 0,
            stolen_ns: 24_000_000,
            between_ns: 1_000_000_000,
        },
    ));
    run.events.push(Event::invalidating(
        48_900_000_000,
        Happening::CpuOffline {
            cpu: 1,
            probed: true,
        },
    ));
    run.loads[1].failed = Some(LoadFailure::Error {
        error: "fork: Resource temporarily unavailable".into(),
    });
    run.loads[1].rate = 0.0;
    run.verdict = run.verdict.map(Verdict::invalidated);
    run
}

/// Nothing was measured.
pub fn no_samples() -> Run {
    let mut run = make(&Spec {
        cpus: 2,
        samples: 0,
        interval_ns: 1_000_000,
        requirements: vec![miss(100_000, 1e-4)],
        latency: &|_, _, _| 0.0,
    });
    run.threads[1].fault = Some(ThreadFault::WaitFailed {
        error: "sched_setattr: Operation not permitted".into(),
    });
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
    let mut findings = super::findings_of_run::findings();
    for finding in &mut findings.bad {
        finding.fault = Fault::Present(vec![evil.into(); 9]);
        finding.readings[0].source = evil.into();
        for fix in &mut finding.fixes {
            if let FindingFix::Write { path, value } = fix {
                (*path, *value) = (evil.into(), evil.into());
            }
        }
    }
    run.findings = Some(findings);
    run.tuned = super::findings_of_run::tuned();
    run.tuned[0].before = evil.into();
    run.system.processor.model = "M".repeat(400);
    run.demands[0].condition = Condition::Conditions { tool: evil.into() };
    let what = Happening::SaveFailed(Unsaved {
        directory: evil.into(),
        parts: vec![UnsavedPart::File { name: evil.into() }],
        why: UnsavedReason::Error { error: evil.into() },
    });
    run.events.push(Event::new(1, what));
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
            let bill = punctual_trace::attribute::bill(&window);
            start = start.min(bill.due_ns);
            // So that the percentiles have enough to stand on.
            (0..400).for_each(|_| ledger.add_stages(&bill.stages));
            ledger.add(&bill);
        }
    }
    run.start_ns = Some(start);
    // The samples of the same run as the bills.
    for peak in run.threads.iter_mut().flat_map(|thread| &mut thread.peaks) {
        peak.asked_ns = peak.asked_ns - ORIGIN + start;
    }
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
            row.notes = vec![
                RowNote::LastSeen {
                    thread: evil.into(),
                    tid: 7,
                },
                RowNote::Earlier { text: evil.into() },
            ];
            if let Cause::PreemptOff { task, .. } | Cause::Thread { task, .. } = &mut row.cause {
                *task = evil.into();
            }
        }
        for span in bill
            .picture
            .iter_mut()
            .flat_map(|picture| &mut picture.spans)
        {
            span.label = SpanLabel::Handler {
                irq: 7,
                name: evil.into(),
            };
        }
    }
    for ranked in &mut explanation.ranking {
        if let Cause::PreemptOff { task, .. } | Cause::Thread { task, .. } = &mut ranked.cause {
            *task = evil.into();
            ranked.total_ns *= 100;
        }
    }
    explanation
        .missing
        .push(NotSeen::Earlier { text: evil.into() });
    run.explanation = Some(explanation);
    run
}

/// A thread that polled the clock on each of two CPUs, and what was found.
pub fn gaps() -> Run {
    let latency = |cpu: usize, cycle: u64, random: &mut Random| {
        if cpu == 1 && cycle % 4_000 == 17 {
            random.log_normal(310_000.0, 0.1)
        } else {
            random.log_normal(4_300.0, 0.4)
        }
    };
    let mut run = make(&Spec {
        cpus: 2,
        samples: 20_000,
        interval_ns: 1_000_000,
        requirements: vec![Requirement::Max { limit_ns: 500_000 }],
        latency: &latency,
    });
    run.request.source = "hardware".into();
    let watched = |thread: &mut Thread| {
        let gap_ns = u64::try_from(thread.latency.sum_ns).unwrap() + 5_000_000;
        let watched = Watched {
            span_ns: 10_000_000_000,
            polled_ns: 9_000_000_000 - gap_ns,
            gap_ns,
            unwatched_ns: 1_000_000_000,
            polls: 300_000_000,
            set_aside: 400,
            set_aside_ns: 5_000_000,
            untold: 3,
            longest_untold_ns: 40_000,
            smi: Some(2),
        };
        thread.measured_ns = watched.span_ns;
        watched
    };
    run.gaps = Some(Gaps {
        subject: Subject::Hardware,
        method: Method::Polling,
        above_ns: 1_000,
        step_ns: 27,
        runtime_ns: 90_000_000,
        period_ns: 100_000_000,
        sifted: true,
        threads: run.threads.iter_mut().map(watched).collect(),
    });
    run.measured_ns = 10_000_000_000;
    let analysis = analyse_record(&run).unwrap();
    run.conclude(analysis);
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
        ("gaps", gaps()),
    ]
}
