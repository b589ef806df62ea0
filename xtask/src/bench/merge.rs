//! The merge of a thousand runs.

use std::process::Command;
use std::time::Instant;

use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools};

const RUNS: usize = 1000;
const ROUNDS: usize = 5;
const TARGET_S: f64 = 2.0;

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    let model = tools.place("model");
    let mut command = Command::new(&tools.punctual);
    let line = "measure -q -i 1000 -l 300 -t 2 --as-deployed --best-effort -o";
    // Whatever its verdict, the run is there.
    let _ = command.args(line.split_whitespace()).arg(&model).output();
    let runs = tools.place("runs");
    std::fs::create_dir(&runs).map_err(|error| error.to_string())?;
    let mut generate = Command::new(&tools.bench_runs);
    tools::output(generate.arg(&model).arg(&runs).arg(RUNS.to_string()))?;
    let mut paths: Vec<_> = std::fs::read_dir(&runs)
        .map_err(|error| error.to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect();
    paths.sort();
    let bytes: u64 = paths
        .iter()
        .filter_map(|path| std::fs::metadata(path.join("run.json")).ok())
        .map(|file| file.len())
        .sum();
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let place = tools.place("merged");
        let mut command = Command::new(&tools.punctual);
        command.args(["merge", "-q", "-o"]).arg(&place).args(&paths);
        let begin = Instant::now();
        let output = command.output().map_err(|error| error.to_string())?;
        times.push(begin.elapsed().as_secs_f64());
        let record = tools::record(&place)
            .map_err(|error| format!("{error}: {}", String::from_utf8_lossy(&output.stderr)))?;
        if record["merged"]["runs"] != RUNS {
            return Err("not all runs were merged".to_owned());
        }
    }
    let best = times.iter().copied().fold(f64::INFINITY, f64::min);
    let spread = Spread::of(times).ok_or("no rounds")?;
    Ok(vec![Row {
        ours: format!(
            "{best:.2} s at best, {:.2} [{:.2}, {:.2}]",
            spread.middle, spread.low, spread.high
        ),
        target: format!("under {TARGET_S} s on an idle machine"),
        standing: Standing::of(best < TARGET_S),
        exact: true,
        ..Row::new(format!("merge of {RUNS} runs, {} MB", bytes / 1_000_000))
    }])
}
