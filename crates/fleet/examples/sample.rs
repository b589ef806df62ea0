//! Makes a dataset of RUNS synthetic runs, to see how engines cope with it:
//! `cargo run --release -p punctual-fleet --example sample -- RUNS DATASET`.
//!
//! With `MACHINES` after `DATASET` all are one kind of machine, of which each is measured once a day; a new
//! kernel comes every two weeks, and `node-5` misses its limit more often than its peers. Without:
//! twelve kernels, forty kinds of hardware with five BIOS versions each, two hundred machines of each kind;
//! latencies as those of real machines have them: most about one value, few far beyond.
#![allow(clippy::print_stderr, reason = "an example talks to its user")]

use std::path::Path;
use std::process::ExitCode;

use punctual_fleet::{CauseRow, Dataset, HistogramRow, Id, RequirementRow, Rows, RunRow, buckets};

const LIMIT_NS: u64 = 100_000;
const CYCLES: u64 = 120_000;

/// splitmix64: the same dataset everywhere.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A count with this mean: exact for small means, rounded with noise for large ones.
    fn count(&mut self, mean: f64) -> u64 {
        if mean > 30.0 {
            let noise = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
            return (mean + noise * mean.sqrt()).max(0.0) as u64;
        }
        let (mut product, mut count, least) = (self.unit(), 0, (-mean).exp());
        while product > least {
            product *= self.unit();
            count += 1;
        }
        count
    }
}

/// The share of wake-ups in each bucket for a median and a tail's weight.
fn shares(median_ns: f64, tail: f64) -> Vec<(u32, f64)> {
    let bell = |low: f64, high: f64, middle: f64, width: f64| {
        let at = ((low * high).sqrt().max(1.0) / middle).ln() / width;
        (high / low.max(1.0)).ln() / width * 0.3989 * (-0.5 * at * at).exp()
    };
    let in_bucket = |bucket: u32| {
        let low = buckets::lowest_ns(bucket) as f64;
        let high = buckets::lowest_ns(bucket + 1) as f64;
        let share = bell(low, high, median_ns, 0.22) + tail * bell(low, high, 40_000.0, 0.9);
        (bucket, share)
    };
    let all = (buckets::bucket_of(500)..buckets::bucket_of(16_000_000)).map(in_bucket);
    all.filter(|(_, share)| share * CYCLES as f64 > 1e-5)
        .collect()
}

/// What a run is of.
pub struct Kind {
    kernel: u64,
    hardware: u64,
    bios: u64,
    machine: String,
    /// Days since the first.
    day: u64,
    /// How much more often than elsewhere it is late.
    factor: f64,
}

/// A run of any machine of a large fleet.
pub fn anywhere(number: u64, random: &mut Random) -> Kind {
    let (kernel, hardware, bios) = (random.next() % 12, random.next() % 40, random.next() % 5);
    Kind {
        kernel,
        hardware,
        bios,
        machine: format!("node-{hardware}-{}", random.next() % 200),
        day: number,
        factor: if bios == 4 && hardware == 7 { 3.0 } else { 1.0 },
    }
}

fn in_a_laboratory(number: u64, machines: u64) -> Kind {
    let (machine, day) = (number % machines, number / machines);
    Kind {
        kernel: day / 14,
        hardware: 1,
        bios: 1,
        machine: format!("node-{machine}"),
        day,
        factor: if machine == 5 { 5.0 } else { 1.0 },
    }
}

/// What a dataset keeps of a run of a kind.
pub fn run(number: u64, kind: Kind, random: &mut Random) -> Rows {
    let Kind {
        kernel,
        hardware,
        bios,
        machine,
        day,
        factor,
    } = kind;
    let tail = 0.004 * (1.0 + kernel as f64 / 6.0) * factor * (0.5 * random.unit()).exp();
    let shares = shares(6_000.0 + 500.0 * (hardware % 8) as f64, tail);
    let counted = shares
        .iter()
        .map(|(bucket, share)| (*bucket, random.count(share * CYCLES as f64)));
    let counts: Vec<(u32, u64)> = counted.filter(|(_, count)| *count > 0).collect();
    let samples: u64 = counts.iter().map(|it| it.1).sum();
    let late: u64 = counts
        .iter()
        .filter(|it| buckets::lowest_ns(it.0) > LIMIT_NS)
        .map(|it| it.1)
        .sum();
    let bound = |bucket: Option<&(u32, u64)>, of: fn(u32) -> u64| bucket.map(|it| of(it.0) as i64);
    let (day, month) = (1 + day % 28, 1 + day / 28 % 12);
    let key = number.wrapping_mul(0x5851_f42d_4c95_7f2d) & u64::MAX >> 1;
    let id = u128::from(key) << 64 | u128::from(number);
    let text = |text: &str| text.to_owned();
    Rows {
        run: RunRow {
            id: Id::new(id.to_be_bytes()),
            machine,
            started: format!("2026-{month:02}-{day:02}T02:00:00Z"),
            day: format!("2026-{month:02}-{day:02}"),
            verb: text("qualify"),
            tool: text(env!("CARGO_PKG_VERSION")),
            kernel: format!("6.12.{kernel}-rt"),
            kernel_build: text("#1 SMP PREEMPT_RT"),
            preemption: text("rt"),
            architecture: text("x86_64"),
            command_line: text("quiet isolcpus=1-3 nohz_full=1-3"),
            distribution: None,
            processor: format!("processor {}", hardware % 10),
            microcode: None,
            cpus: 4,
            hardware: format!("board-{hardware}"),
            bios: Some(format!("F{bios}")),
            hypervisor: None,
            source: text("nanosleep"),
            interval_ns: 1_000_000,
            threads: 2,
            policy: text("fifo"),
            priority: 80,
            load: text("standard load v1"),
            measured_ns: 60_000_000_000,
            verdict: Some(text(if late > 600 { "FAIL" } else { "PASS" })),
            reasons: 0,
            samples: samples as i64,
            skipped: 0,
            minimum_ns: bound(counts.first(), buckets::lowest_ns),
            maximum_ns: bound(counts.last(), buckets::highest_ns),
            mean_ns: Some(7_000.0),
            record: format!("/results/{number}"),
        },
        requirements: vec![RequirementRow {
            number: 0,
            kind: "miss-probability",
            limit_ns: LIMIT_NS as i64,
            allowed: 0.005,
            verdict: if late > 600 { "FAIL" } else { "PASS" },
            cycles: samples as i64,
            misses: late as i64,
            late: late as i64,
            skipped: 0,
            dispersion: 1.0 + (number % 4) as f64 / 2.0,
            upper: 0.01,
        }],
        histogram: counts
            .iter()
            .map(|(bucket, count)| HistogramRow {
                bucket: *bucket as i32,
                count: *count as i64,
            })
            .collect(),
        causes: vec![CauseRow {
            kind: text("interrupt"),
            cause: format!("interrupt {}", hardware % 16),
            bills: 10,
            tail_ns: late as i64 * 1_000,
            worst_ns: 500_000,
        }],
        is_invalid: number % 500 == 499,
    }
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let runs = arguments.next().and_then(|text| text.parse::<u64>().ok());
    let (Some(runs), Some(folder)) = (runs, arguments.next()) else {
        eprintln!("sample RUNS DATASET [MACHINES]");
        return ExitCode::from(64);
    };
    let machines = arguments.next().and_then(|text| text.parse::<u64>().ok());
    let mut random = Random(3);
    let made = Dataset::open(Path::new(&folder)).and_then(|mut dataset| {
        for number in 0..runs {
            let kind = match machines {
                Some(machines) => in_a_laboratory(number, machines.max(1)),
                None => anywhere(number, &mut random),
            };
            dataset.add(run(number, kind, &mut random))?;
        }
        dataset.finish()
    });
    match made {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
