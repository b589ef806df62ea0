//! Makes many runs from one, each with different figures: as many histograms as
//! runs, and peaks as full as a long run's. `cargo xtask bench` times their merge:
//! `bench_runs RUN DIRECTORY COUNT`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "it talks to `cargo xtask bench`"
)]

use std::error::Error;
use std::path::Path;

use punctual_record::{Document, Run, TimelineRow};
use punctual_stats::histogram::{Histogram, HistogramRecord};
use punctual_stats::peaks::{Peak, Peaks};

/// Cycles of each thread: a minute at 1 kHz.
const CYCLES: u64 = 60_000;
const INTERVAL_NS: u64 = 1_000_000;
/// Peaks of each CPU in a run of two.
const PEAKS: usize = 4096;
const ROWS: usize = 600;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [run, directory, count] = words.as_slice() else {
        return Err("bench_runs RUN DIRECTORY COUNT".into());
    };
    let model = Run::read(Path::new(run))?;
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for number in 0..count.parse::<u64>()? {
        let run = varied(&model, number, &mut state);
        let place = Path::new(directory).join(format!("run-{number:04}"));
        std::fs::create_dir(&place)?;
        // Not synced one by one: only reading is timed.
        std::fs::write(place.join("run.json"), serde_json::to_vec(&run)?)?;
    }
    Ok(())
}

fn varied(model: &Run, number: u64, state: &mut u64) -> Run {
    let mut run = model.clone();
    let begin_ns = 1_000_000_000_000 + number * 2 * CYCLES * INTERVAL_NS;
    let base_ns = 3_000 + number * 7;
    let mut rows = vec![TimelineRow::default(); ROWS];
    for thread in &mut run.threads {
        let (mut all, mut first_half) = (Histogram::new(), Histogram::new());
        let mut peaks = Peaks::with_capacity(PEAKS);
        for cycle in 0..CYCLES {
            let latency_ns = draw(state, base_ns);
            all.record(latency_ns);
            if cycle < CYCLES / 2 {
                first_half.record(latency_ns);
            }
            peaks.offer(Peak::new(cycle, begin_ns + cycle * INTERVAL_NS, latency_ns));
            let row = &mut rows[cycle as usize * ROWS / CYCLES as usize];
            row.add(1, latency_ns, (latency_ns, latency_ns));
        }
        thread.latency = HistogramRecord::from(&all);
        thread.first_half = Some(HistogramRecord::from(&first_half));
        thread.peaks = peaks.in_order();
        thread.peaks_above_ns = peaks.threshold();
        thread.measured_ns = CYCLES * INTERVAL_NS;
        (thread.late, thread.missed, thread.lost, thread.early) = (0, 0, 0, 0);
    }
    // A run is identified by its start time, and is not added twice.
    let (hour, minute, second) = (number / 3600 % 24, number / 60 % 60, number % 60);
    run.started = format!("2026-01-01T{hour:02}:{minute:02}:{second:02}Z");
    run.measured_ns = CYCLES * INTERVAL_NS;
    run.timeline.row_ns = 100_000_000;
    run.timeline.rows = rows;
    run.timeline.seconds = run.measured_ns / 1_000_000_000;
    run.timeline.seconds_with_miss = 0;
    run
}

fn draw(state: &mut u64, base_ns: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    let spread = (*state >> 16) % 4_000;
    match *state % 1000 {
        0..2 => base_ns + 20 * spread,
        2..50 => base_ns + 3 * spread,
        _ => base_ns + spread,
    }
}
