//! What collecting costs, and what it keeps in memory.

use std::process::Command;

use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools, value};

const SAMPLES: u64 = 20_000_000;
const ROUNDS: usize = 5;
/// Samples of a run of a week at 1 kHz on 2 CPUs, nearly.
const MANY: u64 = 1_000_000_000;
/// A hundredth of that, to see that memory does not grow.
const FEWER: u64 = 10_000_000;
const CPUS: u64 = 2;
const MEMORY_TARGET: u64 = 64 << 20;

/// Time of the collector for synthetic samples, as they come from rings.
pub fn cost(tools: &Tools) -> Result<Vec<Row>, String> {
    let each: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let text = fed(tools, SAMPLES)?;
            let ns: f64 = value(&text, "collector_ns")?;
            Ok(ns / value::<f64>(&text, "samples")?)
        })
        .collect::<Result<_, String>>()?;
    let spread = Spread::of(each).ok_or("no rounds")?;
    Ok(vec![Row {
        ours: format!(
            "{:.2} ms [{:.2}, {:.2}]",
            spread.middle, spread.low, spread.high
        ),
        ..Row::new("collector, per million samples")
    }])
}

/// Peak memory of a thousand million samples, and of the real program.
pub fn memory(tools: &Tools) -> Result<Vec<Row>, String> {
    let peak = |samples| fed(tools, samples).and_then(|text| value(&text, "peak_resident_bytes"));
    let (fewer, many): (u64, u64) = (peak(FEWER)?, peak(MANY)?);
    // A page here or there is the allocator's.
    let constant = many.abs_diff(fewer) < 1 << 20;
    let collector = Row {
        ours: format!("{} ({} at 1e7)", mebibytes(many), mebibytes(fewer)),
        target: "constant, under 64 MiB".to_owned(),
        standing: Standing::of(many < MEMORY_TARGET && constant),
        exact: true,
        ..Row::new("memory, collector with 1e9 samples of 2 CPUs")
    };
    // Peaks and rings as full as they get.
    let line = "-i 100 -D 6 -t 2 --as-deployed --best-effort";
    let more: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let record = tools.measure("memory", &more)?;
    let whole = record["own_cost"]["peak_resident_bytes"]
        .as_u64()
        .ok_or("the record tells no memory")?;
    let process = Row {
        ours: mebibytes(whole),
        target: "under 64 MiB".to_owned(),
        standing: Standing::of(whole < MEMORY_TARGET),
        exact: true,
        ..Row::new("memory, punctual measure, 2 threads, full peaks")
    };
    Ok(vec![collector, process])
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

fn fed(tools: &Tools, samples: u64) -> Result<String, String> {
    let mut command = Command::new(&tools.bench_collector);
    tools::output(command.args([samples.to_string(), CPUS.to_string()]))
}
