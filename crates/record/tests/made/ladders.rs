//! Made-up ladders.

use punctual_record::experiment::SwitchedSetting;
use punctual_record::ladder::*;
use punctual_record::tuning::Setting;
use punctual_record::{Document, Load, LoadFailure, Tool};
use punctual_stats::Histogram;
use punctual_stats::experiment::BlockLatencies;
use punctual_stats::histogram::HistogramRecord;
use std::collections::BTreeMap;

/// Rounds of the made-up ladder.
pub const ROUNDS: u64 = 15;

fn file(path: &str) -> Setting {
    Setting::File {
        path: path.to_owned(),
    }
}

/// Response times of a block: `middle_ns`, with a tail, a little different in each round.
fn responses(middle_ns: u64, round: u64) -> Histogram {
    let mut histogram = Histogram::new();
    for at in 0..2_000 {
        let tail = if at % 50 == 0 { 3 * middle_ns } else { 0 };
        histogram.record(middle_ns + tail + (at * 7 + round * 131) % 997);
    }
    histogram
}

/// A ladder in which the priority halves the times, the two highest rungs are not possible, and
/// nothing else does anything.
pub fn ladder() -> Ladder {
    let not_possible = |rung: Rung| match rung {
        Rung::Affinity => Some(NotPossible::OneCpu),
        Rung::QuietInterrupts => Some(NotPossible::NotSwitchable {
            setting: file("/proc/irq/7/smp_affinity_list"),
            error: "Permission denied (os error 13)".to_owned(),
        }),
        _ => None,
    };
    let mut rungs: Vec<LadderRung> = Rung::ALL
        .map(|rung| LadderRung::new(rung, true, not_possible(rung)))
        .to_vec();
    let mut blocks = Vec::new();
    for round in 0..ROUNDS {
        let places = [
            (Rung::RelativeSleep, false),
            (Rung::AbsoluteSleep, false),
            (Rung::Priority, false),
            (Rung::LockedMemory, false),
            (Rung::LockedMemory, true),
        ];
        for (rung, is_second) in places {
            let middle_ns = if rung.has(Rung::Priority) {
                30_000
            } else {
                60_000
            };
            // Which of two places without a difference is faster changes from round to round.
            let jitter = (round * 37 + rung as u64 * 11 + u64::from(is_second) * 23) % 50;
            let responses = responses(middle_ns + 20 * jitter, round);
            let counts = LadderCounts {
                cycles: 2_000,
                skipped: 3,
                minor_faults: if rung.has(Rung::LockedMemory) { 0 } else { 31 },
                major_faults: 0,
                fresh_pages: 31,
                preemptions: 2,
                migrations: 1,
                periods_ns: 1_999 * 1_000_000,
                periods: 1_999,
            };
            if !is_second {
                let of = rungs.iter_mut().find(|it| it.rung == rung).expect("it");
                let mut all = Histogram::try_from(&of.response).expect("a histogram");
                all.merge(&responses);
                of.response = HistogramRecord::from(&all);
                of.counts.add(&counts);
            }
            blocks.push(LadderBlock {
                at_ns: blocks.len() as u64 * 2_200_000_000,
                round,
                rung,
                is_second,
                figures: BlockLatencies::of(&responses, 100_000),
                counts,
                in_force: RungInForce {
                    policy: "fifo".to_owned(),
                    priority: 80,
                    cpus: vec![0],
                    locked_kib: 4_096,
                },
                left_out: None,
            });
        }
    }
    let mut ladder = Ladder {
        format: Ladder::FORMAT.to_owned(),
        version: Ladder::VERSION,
        tool: Tool {
            name: "punctual".to_owned(),
            version: "0.1.0".to_owned(),
        },
        command: vec!["punctual".to_owned(), "ladder".to_owned()],
        hostname: "rt-box".to_owned(),
        kernel: "6.1.0-rt".to_owned(),
        started: "2026-11-23T20:00:00Z".to_owned(),
        design: LadderDesign {
            seed: 7,
            interval_ns: 1_000_000,
            block_ns: 2_000_000_000,
            loops: None,
            settle_ns: 200_000_000,
            rounds: ROUNDS,
            work_bytes: 64,
            deadline_ns: 100_000,
            confidence: 0.95,
            priority: 80,
            cpu: 0,
            cpus: vec![0],
        },
        load: "standard load v1".to_owned(),
        load_class: "other".to_owned(),
        loads: Vec::new(),
        switched: Vec::new(),
        rungs,
        control: Some(Rung::LockedMemory),
        blocks,
        steps: Vec::new(),
        measured_ns: 165_000_000_000,
        outcome: Some(LadderOutcome::Complete),
    };
    ladder.judge();
    ladder
}

/// A load of a ladder.
pub fn load(failed: Option<LoadFailure>) -> Load {
    Load {
        name: "cpu".to_owned(),
        parameters: BTreeMap::from([("workers".to_owned(), "2".to_owned())]),
        processes: 2,
        work: 100,
        unit: "loops".to_owned(),
        rate: 1.0,
        failed,
        check: None,
        idle_run: None,
    }
}

/// Ladders of every end, reason and kind.
pub fn of_every_kind() -> Vec<Ladder> {
    let with = |change: &dyn Fn(&mut Ladder)| {
        let mut changed = ladder();
        change(&mut changed);
        changed
    };
    let ended = |outcome: LadderOutcome| with(&|it| it.outcome = Some(outcome.clone()));
    let why =
        |at: usize, why: NotPossible| with(&|it| it.rungs[at].not_possible = Some(why.clone()));
    let error = || "no permission".to_owned();
    vec![
        ladder(),
        with(&|it| it.outcome = None),
        ended(LadderOutcome::Stopped),
        ended(LadderOutcome::Failed { error: error() }),
        ended(LadderOutcome::Conflict {
            setting: file("/proc/irq/7/smp_affinity_list"),
            found: "0-3".to_owned(),
        }),
        why(4, NotPossible::Refused { error: error() }),
        why(5, NotPossible::NothingToMove),
        why(5, NotPossible::NoJournal { error: error() }),
        with(&|it| {
            it.loads = vec![load(Some(LoadFailure::SupervisorGone))];
            it.switched = vec![SwitchedSetting {
                setting: file("/proc/irq/7/smp_affinity_list"),
                off: "0-3".to_owned(),
                on: "0".to_owned(),
            }];
        }),
        with(&|it| {
            let reasons = [
                RungLeftOut::NotInForce,
                RungLeftOut::ProcessStopped,
                RungLeftOut::CutShort,
                RungLeftOut::NoCycles,
            ];
            for (block, why) in it.blocks.iter_mut().zip(reasons) {
                block.left_out = Some(why);
            }
        }),
        single(),
    ]
}

/// One rung by itself.
pub fn single() -> Ladder {
    let mut one = ladder();
    one.rungs.truncate(3);
    for it in &mut one.rungs[..2] {
        *it = LadderRung::new(it.rung, false, None);
    }
    let of = one.rungs[2].rung;
    one.blocks.retain(|it| it.rung == of);
    one.design.loops = Some(30_000);
    one.control = None;
    one.steps.clear();
    one
}
