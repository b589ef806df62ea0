//! Feeds synthetic samples through rings and collector, and prints the cost.
//! `cargo xtask bench` runs it: `bench_collector SAMPLES CPUS`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it talks to `cargo xtask bench`"
)]

use std::time::{Duration, Instant};

use punctual_probe::collector::{Collector, Lane};
use punctual_probe::cycle::Sample;
use punctual_probe::tally::{Halves, Tally};
use punctual_rt::ring::{Producer, ring};
use punctual_rt::sys::task::process_usage;

const INTERVAL_NS: u64 = 1_000_000;
const DEADLINE_NS: u64 = 100_000;
/// Peaks of each CPU in a run of two.
const PEAKS: usize = 4096;
/// Latencies are drawn from as many, so that drawing costs next to nothing.
const DRAWN: usize = 1 << 16;

struct Probe {
    ring: Producer<Sample>,
    requested_ns: u64,
    state: u64,
}

impl Probe {
    /// Pushes as many cycles as the collector finds after one of its pauses at 1 kHz.
    fn go_on(&mut self, cycles: u64, drawn: &[u64]) {
        for _ in 0..cycles {
            self.state = self.state.wrapping_mul(6_364_136_223_846_793_005) | 1;
            // A slow drift keeps causing new peaks, however long the run is.
            let drift = self.requested_ns >> 38;
            let latency_ns = drawn[(self.state >> 48) as usize] + drift;
            let missed = latency_ns / INTERVAL_NS;
            self.ring.push(Sample {
                requested_ns: self.requested_ns,
                late_ns: latency_ns as i64,
                missed,
            });
            self.requested_ns += (1 + missed) * INTERVAL_NS;
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|word| word.parse::<u64>());
    let (Some(Ok(samples)), Some(Ok(cpus @ 1..))) = (arguments.next(), arguments.next()) else {
        eprintln!("bench_collector SAMPLES CPUS");
        std::process::exit(64);
    };
    let drawn = latencies();
    let (mut probes, mut lanes) = (Vec::new(), Vec::new());
    for cpu in 0..cpus {
        let (producer, consumer) = ring(Collector::ring_capacity(INTERVAL_NS));
        probes.push(Probe {
            ring: producer,
            requested_ns: INTERVAL_NS,
            state: cpu * 2 + 1,
        });
        let halves = Halves::At(samples / cpus * INTERVAL_NS / 2);
        let tally = Tally::new(0, DEADLINE_NS, halves, PEAKS)
            .with_shortest_interval(INTERVAL_NS)
            .with_interval(INTERVAL_NS);
        lanes.push(Lane::new(cpu as usize, 0, consumer, tally));
    }
    let mut collector = Collector::new(lanes, 0, Vec::new());
    let mut collecting = Duration::ZERO;
    let mut taken = 0;
    while taken < samples {
        for probe in &mut probes {
            probe.go_on(1000, &drawn);
        }
        let begin = Instant::now();
        taken += collector.collect() as u64;
        collecting += begin.elapsed();
    }
    let counted: u64 = collector.lanes.iter().map(|lane| lane.tally.count()).sum();
    let lost: u64 = collector.lanes.iter().map(Lane::lost).sum();
    assert_eq!((counted, lost), (taken, 0), "a sample was not counted");
    let rows = collector.lanes[0].tally.rows().clone();
    let timeline = punctual_probe::timeline::merged([&rows], 0);
    let peak = process_usage().map_or(0, |usage| usage.ru_maxrss.max(0) as u64 * 1024);
    println!("samples {taken}");
    println!("collector_ns {}", collecting.as_nanos());
    println!("peak_resident_bytes {peak}");
    println!("timeline_rows {}", timeline.rows.len());
    println!("peaks {}", collector.lanes[0].tally.peaks().len());
}

/// Most wake-ups about 5 us, some of tens, one in 2,000 beyond the deadline, and
/// now and then one that skips a period.
fn latencies() -> Vec<u64> {
    let mut state = 1u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let draw = |_| match next() % 65_536 {
        0 => 1_000_000 + next() % 9_000_000,
        1..32 => 100_000 + next() % 400_000,
        32..3_000 => 8_000 + next() % 60_000,
        _ => 3_000 + next() % 4_000,
    };
    (0..DRAWN).map(draw).collect()
}
