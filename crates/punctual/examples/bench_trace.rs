//! The cost of tracing for the probe: one loop, tracing on and off in turns, and the paired
//! differences. `bench_trace [PAIRS [CPU]]`
#![allow(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punctual_rt::ring::ring;
use punctual_rt::sched::{self, Policy};
use punctual_rt::sys::{task, time};
use punctual_rt::{affinity, clock};
use punctual_trace::capture::{Capture, Options, RING_EVENTS};

const PERIOD_NS: u64 = 500_000;
const PART: Duration = Duration::from_millis(500);
const SETTLE: Duration = Duration::from_millis(60);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let pairs: usize = arguments.next().and_then(|n| n.parse().ok()).unwrap_or(20);
    let allowed = punctual_machine::survey::allowed(&punctual_machine::Root::live());
    let last = *allowed.last().expect("a CPU");
    let cpu: usize = arguments
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(last);
    let over = Arc::new(AtomicBool::new(false));
    let (mut producer, mut consumer) = ring::<u64>(1 << 16);
    let (tell, told) = std::sync::mpsc::channel();
    let ended = Arc::clone(&over);
    let probe = std::thread::spawn(move || {
        affinity::set_current(&[cpu]).expect("an allowed CPU");
        sched::set_current(Policy::Fifo(80)).expect("a real-time priority");
        tell.send(task::current_tid() as u32)
            .expect("somebody listens");
        let mut due_ns = clock::now_ns() + PERIOD_NS;
        while !ended.load(Ordering::Relaxed) {
            let _ = time::sleep_until(due_ns);
            let woken_ns = clock::now_ns();
            producer.push(woken_ns - due_ns);
            while due_ns <= woken_ns {
                due_ns += PERIOD_NS;
            }
        }
    });
    let tid = told.recv().expect("the probe");
    if let Some(other) = allowed.iter().find(|other| **other != cpu) {
        let _ = affinity::set_current(&[*other]);
    }
    let options = Options {
        targets: vec![(tid, cpu as u32)],
        roaming: Vec::new(),
        all_wakings: false,
        interrupt_above_ns: 0,
        cpus: vec![cpu as u32],
        ring_events: std::env::var("RING_EVENTS")
            .ok()
            .and_then(|n| n.parse().ok())
            .unwrap_or(RING_EVENTS),
    };
    let mut part = |on: bool| -> (Vec<u64>, u64, u64) {
        let mut capture = on.then(|| Capture::start(&options).expect("tracing"));
        std::thread::sleep(SETTLE);
        consumer.drain(|_| ());
        let mut latencies = Vec::new();
        let end = std::time::Instant::now() + PART;
        let cpu_before = time::clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
        while std::time::Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
            consumer.drain(|latency| latencies.push(latency));
            if let Some(capture) = &mut capture {
                capture.drain();
            }
        }
        let used = time::clock_now(libc::CLOCK_THREAD_CPUTIME_ID) - cpu_before;
        latencies.sort_unstable();
        (
            latencies,
            capture.map_or(0, |capture| capture.events()),
            used,
        )
    };
    let quantile = |sorted: &[u64], q: f64| sorted[((sorted.len() - 1) as f64 * q) as usize] as i64;
    let mut differences: Vec<[i64; 4]> = Vec::new();
    let (mut events, mut used, mut samples) = (0, 0, 0);
    for pair in 0..pairs {
        // The order alternates, so that a drift does not favour either.
        let (off, on) = if pair % 2 == 0 {
            let off = part(false);
            (off, part(true))
        } else {
            let on = part(true);
            (part(false), on)
        };
        events += on.1;
        used += on.2;
        samples += on.0.len();
        let mean = |of: &[u64]| (of.iter().sum::<u64>() / of.len() as u64) as i64;
        differences.push([
            quantile(&on.0, 0.5) - quantile(&off.0, 0.5),
            quantile(&on.0, 0.9) - quantile(&off.0, 0.9),
            quantile(&on.0, 0.99) - quantile(&off.0, 0.99),
            mean(&on.0) - mean(&off.0),
        ]);
        if pair == 0 {
            println!(
                "off p50 {} ns, on p50 {} ns",
                quantile(&off.0, 0.5),
                quantile(&on.0, 0.5)
            );
        }
    }
    over.store(true, Ordering::Relaxed);
    let _ = probe.join();
    for (index, name) in ["p50", "p90", "p99", "mean"].iter().enumerate() {
        let mut column: Vec<i64> = differences.iter().map(|row| row[index]).collect();
        column.sort_unstable();
        let at = |q: f64| column[((column.len() - 1) as f64 * q) as usize];
        println!(
            "{name}: {:+} ns (quartiles {:+} to {:+})",
            at(0.5),
            at(0.25),
            at(0.75)
        );
    }
    println!(
        "{} events a sample, {} ns of the collector's for each event",
        events / samples.max(1) as u64,
        used / events.max(1)
    );
}
