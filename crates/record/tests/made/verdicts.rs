//! Verdicts of all kinds, with every figure that a verdict may hold.
#![allow(dead_code, reason = "each test program takes what it needs")]

use punctual_record::ThreadName;
use punctual_record::condition::{Astray, FoundScheduling};
use punctual_record::{
    Condition, Demand, Event, Happening, InvalidReason, Judgement, LoadFailure, LoadFault,
    MarkFault, Scheduling, Standing, ThreadFault, Unavailable, WorkCheck,
};
use punctual_stats::extremal::{ExtremalIndex, ExtremalLevel};
use punctual_stats::gaps::WatchedTime;
use punctual_stats::lengths::LengthResult;
use punctual_stats::miss::{Episodes, MissBound, StallLengths, TimeUnknown};
use punctual_stats::requirement::Requirement;
use punctual_stats::verdict::{
    AloneResult, InvalidEvidence, Outcome, RequirementResult, Seen, Verdict,
};

/// Four of 100,000 cycles missed 100 µs, in two bursts.
pub fn bound() -> MissBound {
    MissBound {
        limit_ns: 100_000,
        confidence: 0.95,
        cycles: 100_000,
        misses: 4,
        late: 3,
        missed: 1,
        observed_probability: 4e-5,
        independent_upper: 9.15e-5,
        independent_lower: 1.37e-5,
        effective_cycles: 50_000.0,
        dispersion: 2.0,
        burst_weight: 3.0,
        extremal_index: Some(ExtremalIndex {
            theta: 0.5,
            theta_lower: 0.4,
            levels: vec![ExtremalLevel {
                threshold_ns: 50_000,
                exceedances: 100,
                bursts: 50,
                theta: 0.5,
                theta_lower: 0.4,
            }],
        }),
        bursts: Some(2),
        largest_burst: Some(3),
        episodes: Some(Episodes {
            gap_ns: 1_000_000_000,
            seen: 2,
            upper: 6.3,
            lower: 0.36,
            dispersion: 1.25,
        }),
        stalls: Some(StallLengths {
            stalls: 2,
            longest_share: 1.0,
            heavy: true,
        }),
        upper: 1.234e-4,
        lower: 1.234e-5,
        seconds: 100,
        seconds_with_miss: Some(2),
        duration_ns: 100_000_000_000,
    }
}

/// The same without a miss.
pub fn no_miss() -> MissBound {
    MissBound {
        misses: 0,
        late: 0,
        missed: 0,
        observed_probability: 0.0,
        bursts: Some(0),
        episodes: Some(Episodes {
            gap_ns: 1_000_000_000,
            seen: 0,
            upper: 3.0,
            lower: 0.0,
            dispersion: 1.0,
        }),
        stalls: None,
        upper: 4.56e-5,
        lower: 0.0,
        ..bound()
    }
}

/// A requirement on wake-ups.
pub fn waking(allowed: f64, outcome: Outcome, bound: MissBound) -> RequirementResult {
    RequirementResult {
        alone: None,
        requirement: Requirement::MissProbability {
            deadline_ns: bound.limit_ns,
            allowed,
        },
        outcome,
        seen: Seen::WakeUps {
            samples: bound.cycles - bound.missed,
            skipped: bound.missed,
            worst_ns: Some(1_520_000),
        },
        bound,
        needed_seconds: None,
        needed_without_miss_seconds: None,
        never: None,
    }
}

/// A requirement on gaps: 50 µs at most.
pub fn gaps(longer: u64, longest_ns: Option<u64>) -> RequirementResult {
    let outcome = match longest_ns {
        None => Outcome::Pass,
        Some(_) => Outcome::Fail,
    };
    RequirementResult {
        requirement: Requirement::Max { limit_ns: 50_000 },
        seen: Seen::Gaps {
            longer,
            longest_ns,
            time: WatchedTime {
                span_ns: 10_000_000_000,
                watched_ns: 9_000_000_000,
                untold_ns: 0,
            },
        },
        ..waking(0.0, outcome, no_miss())
    }
}

/// A limit of 500 µs on a part of a program.
pub fn length(outcome: Outcome, count: u64, longer: u64, max_ns: Option<u64>) -> LengthResult {
    LengthResult {
        name: "step()".to_owned(),
        limit_ns: 500_000,
        count,
        longer,
        max_ns,
        outcome,
    }
}

/// A verdict of these.
pub fn judgement(requirements: Vec<RequirementResult>, lengths: Vec<LengthResult>) -> Judgement {
    let severity = |outcome: &Outcome| match outcome {
        Outcome::Pass => 0,
        Outcome::Inconclusive => 1,
        Outcome::Fail => 2,
        Outcome::Invalid => 3,
    };
    let outcomes = requirements.iter().map(|it| it.outcome);
    let outcomes = outcomes.chain(lengths.iter().map(|it| it.outcome));
    Judgement {
        alone: Vec::new(),
        verdict: Verdict {
            outcome: outcomes
                .max_by_key(severity)
                .unwrap_or(Outcome::Inconclusive),
            invalid: Vec::new(),
            needed_seconds: requirements.iter().filter_map(|it| it.needed_seconds).max(),
            requirements,
            lengths,
            tasks: Vec::new(),
            confidence: 0.95,
        },
        reasons: Vec::new(),
        load: Some("standard-load".to_owned()),
        without: Vec::new(),
        repeats: false,
        messages: false,
        unseen: 0,
        killed: Vec::new(),
    }
}

fn unmet(condition: Condition) -> Demand {
    Demand {
        condition,
        standing: Standing::NotInForce,
        fix: None,
    }
}

fn affinity() -> Demand {
    unmet(Condition::Affinity {
        requested: vec![0],
        astray: vec![Astray {
            cpu: 0,
            allowed: Some(vec![0, 1]),
            error: None,
        }],
        refused: None,
    })
}

fn priority() -> Demand {
    let found = FoundScheduling {
        cpus: vec![0],
        scheduling: Some(Scheduling::Other),
        error: None,
    };
    unmet(Condition::Priority {
        requested: Scheduling::Fifo { priority: 80 },
        found: vec![found],
        refused: None,
    })
}

fn locked_memory() -> Demand {
    unmet(Condition::LockedMemory {
        resident_bytes: None,
        locked_bytes: None,
        loose_bytes: None,
        refused: Some(1),
        limit_bytes: None,
    })
}

/// What was seen of a load that did no work for a fifth of the time.
pub fn idle(least_cpu_ns: Option<u64>) -> WorkCheck {
    WorkCheck {
        looked_ns: 10_000_000_000,
        idle_ns: 2_000_000_000,
        longest_idle_ns: 1_000_000_000,
        least_cpu_ns,
    }
}

/// Every reason for which a run is not valid.
pub fn every_reason() -> Vec<InvalidReason> {
    let mark = |fault| InvalidReason::Mark {
        name: "step()".to_owned(),
        fault,
    };
    let load = |fault| InvalidReason::Load {
        name: "fork".to_owned(),
        fault,
    };
    let idle = |least_cpu_ns, in_one_run| {
        load(LoadFault::Idle {
            check: idle(least_cpu_ns),
            unit: "forks".to_owned(),
            in_one_run,
        })
    };
    let evidence = |fault| InvalidReason::Evidence { fault };
    let error = || "EPERM".to_owned();
    let unfollowed = |beyond, at_least| InvalidReason::ThreadsNotFollowed {
        beyond,
        at_least,
        room: 64,
    };
    let stopped = |watched| InvalidReason::Stopped {
        watched,
        total_ns: 510_000_000,
        run_ns: 10_000_000_000,
    };
    vec![
        InvalidReason::Demand(affinity()),
        InvalidReason::CyclesStopped {
            cycles: 1_337,
            of: 8_000,
        },
        InvalidReason::NeverWoke {
            thread: "controller/7".to_owned(),
        },
        InvalidReason::ProgramsNotFollowed,
        unfollowed(1, false),
        unfollowed(2, false),
        unfollowed(2, true),
        mark(MarkFault::NotSeen {
            why: Unavailable::NoThread { error: error() },
        }),
        mark(MarkFault::LengthsLost { passes: 1_234 }),
        mark(MarkFault::Unfinished { passes: 1_234 }),
        mark(MarkFault::NoRoom { passes: 1_234 }),
        mark(MarkFault::NeverPassed),
        mark(MarkFault::NotMeasured),
        mark(MarkFault::Unwatched),
        InvalidReason::Event(Event {
            at_ns: 7,
            what: Happening::CpuOffline {
                cpu: 1,
                probed: true,
            },
            invalidates: true,
            run: None,
        }),
        load(LoadFault::Failed {
            failure: LoadFailure::Error { error: error() },
        }),
        load(LoadFault::DidNothing),
        idle(None, false),
        idle(Some(1_500_000), false),
        idle(None, true),
        InvalidReason::ProbeFailed {
            cpu: Some(3),
            fault: ThreadFault::WaitFailed { error: error() },
        },
        stopped(false),
        stopped(true),
        InvalidReason::Unfinished,
        evidence(InvalidEvidence::NoWakeUp),
        evidence(InvalidEvidence::NeverWoke { cpu: Some(1) }),
        evidence(InvalidEvidence::NothingWatched),
        evidence(InvalidEvidence::Lost { samples: 1 }),
        evidence(InvalidEvidence::Lost { samples: 2_345 }),
        InvalidReason::OfRun {
            run: 3,
            reason: Box::new(stopped(false)),
        },
    ]
}

/// A run that was invalid for every reason.
pub fn invalid() -> Judgement {
    let limits = vec![length(Outcome::Pass, 2_402, 0, Some(1))];
    let mut judgement = judgement(vec![waking(1e-4, Outcome::Pass, bound())], limits);
    judgement.verdict.invalid = vec![
        InvalidEvidence::NoWakeUp,
        InvalidEvidence::NeverWoke { cpu: Some(1) },
        InvalidEvidence::NothingWatched,
        InvalidEvidence::Lost { samples: 2 },
    ];
    judgement.verdict = judgement.verdict.invalidated();
    judgement.reasons = every_reason();
    judgement
}

/// Requirements of all kinds, of all outcomes.
pub fn every_kind() -> Judgement {
    let pass = Outcome::Pass;
    let open = |needed: Option<u64>, never: Option<TimeUnknown>| RequirementResult {
        needed_seconds: needed,
        needed_without_miss_seconds: needed.map(|seconds| seconds / 2),
        never,
        ..waking(1e-6, Outcome::Inconclusive, no_miss())
    };
    let of = |requirement| RequirementResult {
        requirement,
        ..waking(0.0, pass, no_miss())
    };
    let limit_ns = 100_000;
    let percentile = 99.9;
    let requirements = vec![
        waking(1e-3, pass, bound()),
        waking(1e-5, Outcome::Fail, bound()),
        RequirementResult {
            alone: Some(Box::new(AloneResult {
                thread: 1,
                seen: waking(1e-5, Outcome::Fail, bound()).seen,
                bound: bound(),
            })),
            ..waking(1e-5, Outcome::Fail, no_miss())
        },
        open(Some(3_600), None),
        open(None, Some(TimeUnknown::TooFewBursts)),
        of(Requirement::Max { limit_ns }),
        of(Requirement::Episodes {
            deadline_ns: 100_000,
            per_hour: 200.0,
        }),
        of(Requirement::Percentile {
            percentile,
            limit_ns,
        }),
        gaps(0, None),
        gaps(2, Some(70_000)),
    ];
    let lengths = vec![
        length(pass, 2_402, 0, Some(500_000)),
        length(Outcome::Fail, 2_402, 3, Some(1_370_000)),
        length(Outcome::Inconclusive, 0, 0, None),
    ];
    Judgement {
        alone: vec![ThreadName {
            thread: 1,
            name: "control/4711".to_owned(),
        }],
        without: vec![priority(), locked_memory()],
        ..judgement(requirements, lengths)
    }
}
