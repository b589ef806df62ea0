//! Experiments with blocks that are made up, judged as real ones are.
#![allow(dead_code, reason = "each test program takes what it needs")]

use punctual_record::experiment::*;
use punctual_record::explanation::Cause;
use punctual_record::tuning::{
    Neighbour, NetworkDevice, Route, RouteMetric, Setting, ThreadIdentity,
};
use punctual_stats::experiment::{BlockLatencies, Measure, MessageCounts, Spread};

const SECOND: u64 = 1_000_000_000;

/// Latencies of a block whose tail is scaled.
pub fn figures(at: u64, ratio: f64) -> BlockLatencies {
    // A little different from block to block, and the same in each test.
    let noise = 1.0 + (at * 7 % 11) as f64 / 100.0;
    let scaled = |ns: f64| Some((ns * ratio * noise) as u64);
    BlockLatencies {
        count: 5_000,
        p50_ns: scaled(12_000.0),
        p99_ns: scaled(60_000.0),
        p999_ns: scaled(180_000.0),
        max_ns: 400_000,
        excess_ns: (900_000.0 * ratio * noise) as u64,
        messages: None,
    }
}

fn block(at: u64, phase: Phase, on: Vec<usize>, ratio: f64) -> ExperimentBlock {
    let halved = on.contains(&0);
    let cost = |cause, ns| BlockCost { cause, ns };
    ExperimentBlock {
        at_ns: at * 5_500_000_000,
        phase,
        on,
        pair: None,
        knob: None,
        switching_ns: 150_000,
        figures: Some(figures(at, ratio)),
        left_out: None,
        costs: vec![
            cost(
                Cause::Softirq { number: 9 },
                if halved { 100_000 } else { 300_000 },
            ),
            cost(Cause::WakePath, 50_000),
        ],
    }
}

fn file(path: &str) -> Setting {
    Setting::File {
        path: path.to_owned(),
    }
}

/// Three knobs and the control: the first helps, the second harms, the third does nothing.
pub fn experiment() -> Experiment {
    let ratios = [0.6, 1.5, 1.0, 1.0];
    let knob = |name: &str, setting: Setting, is_control| ExperimentKnob {
        name: name.to_owned(),
        settings: vec![SwitchedSetting {
            setting,
            off: "1".to_owned(),
            on: if is_control { "1" } else { "120" }.to_owned(),
        }],
        is_control,
    };
    let thread = ThreadIdentity {
        tid: 15,
        name: "ksoftirqd/0".to_owned(),
        start: 44,
    };
    let mut blocks: Vec<ExperimentBlock> = (0..20)
        .map(|at| block(at, Phase::Pilot, Vec::new(), 1.0))
        .collect();
    blocks.push(block(20, Phase::Between, Vec::new(), 1.0));
    let mut pair = 0;
    for round in 0..16_u64 {
        for (knob, its_ratio) in ratios.into_iter().enumerate() {
            for side in 0..2 {
                let is_on = (side == 0) == (round % 2 == 0);
                let (on, ratio) = match is_on {
                    true => (vec![knob], its_ratio),
                    false => (Vec::new(), 1.0),
                };
                let mut block = block(blocks.len() as u64, Phase::Pairs, on, ratio);
                block.pair = Some(pair);
                block.knob = Some(knob);
                blocks.push(block);
            }
            pair += 1;
        }
    }
    let spread = |measure, difference_sd| Spread {
        measure,
        difference_sd,
        freedom: Some(13.0),
    };
    let forecast = |measure, ratio, length_ns| Forecast {
        measure,
        ratio,
        length_ns,
        shortest_ns: length_ns.map(|ns| ns / 2),
        longest_ns: length_ns.map(|ns| ns * 2),
    };
    let mut experiment = Experiment {
        knobs: vec![
            knob("vmstat-interval", file("/proc/sys/vm/stat_interval"), false),
            knob(
                "/proc/sys/vm/swappiness",
                file("/proc/sys/vm/swappiness"),
                false,
            ),
            knob("softirq-threads", Setting::Scheduling { thread }, false),
            knob("control", file("/proc/sys/vm/stat_interval"), true),
        ],
        seed: 7,
        block_ns: 5 * SECOND,
        settle_ns: SECOND / 2,
        budget_ns: 1_200 * SECOND,
        confidence: 0.95,
        power: 0.8,
        wanted: None,
        limit: Some(ExcessLimit {
            ns: 100_000,
            is_deadline: true,
        }),
        pilot: Some(Pilot {
            spreads: vec![spread(Measure::P50, 0.1), spread(Measure::P99, 0.3)],
            forecasts: vec![
                forecast(Measure::P50, 1.1, Some(150 * SECOND)),
                forecast(Measure::P50, 1.2, Some(60 * SECOND)),
                forecast(Measure::P99, 1.1, None),
                forecast(Measure::P99, 1.2, Some(7_200 * SECOND)),
            ],
            pairs: 16,
        }),
        blocks,
        screened: Vec::new(),
        results: Vec::new(),
        outcome: ExperimentOutcome::Complete,
    };
    experiment.judge();
    experiment
}

/// An experiment in which the control shows an effect.
pub fn with_failed_control() -> Experiment {
    let mut experiment = experiment();
    for (at, block) in experiment.blocks.iter_mut().enumerate() {
        if block.on == [3] {
            block.figures = Some(figures(at as u64, 0.5));
        }
    }
    experiment.judge();
    experiment
}

/// An experiment that was ended in its pilot.
pub fn under_way() -> Experiment {
    let mut experiment = experiment();
    experiment.blocks.truncate(5);
    experiment.pilot = None;
    experiment.limit = None;
    experiment.outcome = ExperimentOutcome::UnderWay;
    experiment.judge();
    experiment
}

/// A screening of all knobs.
pub fn screening() -> Experiment {
    let mut experiment = experiment();
    let pilot = experiment.blocks[..20].to_vec();
    experiment.blocks = pilot;
    for pair in 0..24_u64 {
        let mut first: Vec<usize> = (0..4).filter(|at| (pair * 5 + 3) >> at & 1 == 1).collect();
        for _ in 0..2 {
            let ratio = if first.contains(&0) { 0.6 } else { 1.0 };
            let at = experiment.blocks.len() as u64;
            let mut next = block(at, Phase::Screening, first.clone(), ratio);
            next.pair = Some(pair);
            experiment.blocks.push(next);
            first = (0..4).filter(|at| !first.contains(at)).collect();
        }
    }
    experiment.judge();
    experiment
}

fn route() -> Route {
    Route {
        namespace: 4_026_531_840,
        destination: "10.0.0.0/24".to_owned(),
        table: 254,
        tos: 0,
        priority: 100,
    }
}

/// An experiment with messages to another machine: the first knob makes late ones rare.
pub fn of_messages() -> Experiment {
    let mut experiment = experiment();
    experiment.knobs[0].settings[0] = SwitchedSetting {
        setting: Setting::RouteMetric {
            route: route(),
            metric: RouteMetric::RtoMin,
        },
        off: "absent".to_owned(),
        on: "5 lock".to_owned(),
    };
    for (at, block) in experiment.blocks.iter_mut().enumerate() {
        let late = if block.on.contains(&0) { 2 } else { 200 };
        if let Some(figures) = &mut block.figures {
            figures.messages = Some(MessageCounts {
                late: late + at as u64 % 3,
                missed: 1,
            });
        }
        block.costs.clear();
    }
    experiment.pilot = None;
    experiment.judge();
    experiment
}

/// Experiments with ends, phases and reasons of every kind.
pub fn of_every_kind() -> Vec<Experiment> {
    let with = |outcome| Experiment {
        outcome,
        ..experiment()
    };
    let mut wanted = with(ExperimentOutcome::BudgetTooSmall {
        needed_ns: Some(7_200 * SECOND),
    });
    wanted.wanted = Some(WantedEffect {
        measure: Measure::P999,
        ratio: 1.2,
    });
    wanted.blocks.truncate(21);
    wanted.judge();
    let mut left_out = experiment();
    let reasons = [
        LeftOut::SlowSwitching,
        LeftOut::ProcessStopped,
        LeftOut::NoWakeUps,
        LeftOut::CutShort,
    ];
    for (block, reason) in left_out.blocks.iter_mut().rev().zip(reasons) {
        block.left_out = Some(reason);
    }
    left_out.judge();
    let pair = Setting::Pair {
        first: "/proc/sys/vm/dirty_ratio".to_owned(),
        second: "/proc/sys/vm/dirty_bytes".to_owned(),
    };
    let affinity = Setting::Affinity {
        thread: ThreadIdentity {
            tid: 15,
            name: "rcuc/0".to_owned(),
            start: 44,
        },
    };
    let mut conflict = with(ExperimentOutcome::Conflict {
        setting: pair.clone(),
        found: "9".to_owned(),
    });
    conflict.knobs[1].settings[0].setting = pair;
    conflict.knobs[2].settings[0].setting = affinity;
    let more = [
        Setting::Partition {
            folder: "/sys/fs/cgroup/punctual".to_owned(),
        },
        Setting::Cpuset {
            folder: "/sys/fs/cgroup/cpuset/punctual-others".to_owned(),
            is_of_others: true,
        },
        Setting::BootFile {
            path: "/etc/default/grub.d/zz-punctual.cfg".to_owned(),
            update: Some("update-grub".to_owned()),
        },
        Setting::ConfigFile {
            path: "/etc/sysctl.d/90-punctual.conf".to_owned(),
        },
        Setting::KernelArguments {
            grubby: "/sbin/grubby".to_owned(),
            parameters: "nohz_full=1".to_owned(),
        },
        Setting::NetworkFile {
            namespace: 4_026_531_840,
            path: "/proc/sys/net/ipv4/tcp_slow_start_after_idle".to_owned(),
        },
        Setting::RouteMetric {
            route: route(),
            metric: RouteMetric::RtoMin,
        },
        Setting::Neighbour {
            neighbour: Neighbour {
                namespace: 4_026_531_840,
                device: "eth0".to_owned(),
                address: "10.0.0.2".to_owned(),
            },
        },
        Setting::Napi {
            device: NetworkDevice {
                namespace: 4_026_531_840,
                name: "eth0".to_owned(),
            },
        },
    ];
    conflict.knobs[2]
        .settings
        .extend(more.map(|setting| SwitchedSetting {
            setting,
            off: "absent".to_owned(),
            on: "with".to_owned(),
        }));
    conflict.limit = Some(ExcessLimit {
        ns: 61_000,
        is_deadline: false,
    });
    vec![
        experiment(),
        under_way(),
        screening(),
        of_messages(),
        with_failed_control(),
        wanted,
        left_out,
        conflict,
        with(ExperimentOutcome::BudgetTooSmall { needed_ns: None }),
        with(ExperimentOutcome::NoSpread),
        with(ExperimentOutcome::Failed {
            error: "/proc/sys/vm/swappiness: the kernel refuses `120`".to_owned(),
        }),
        with(ExperimentOutcome::Stopped),
    ]
}
