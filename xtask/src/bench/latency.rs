//! p50 and p99 as we read them and as cyclictest does: in turns, under one load, at
//! one priority, on one CPU.

use std::process::Command;

use serde_json::Value;

use super::row::{Row, Spread, Standing};
use super::tools::{self, Load, Tools};

const ROUNDS: usize = 12;
const SECONDS: u64 = 3;
const PRIORITY: &str = "80";
/// Highest latency that cyclictest keeps, in ns.
const KEPT_NS: usize = 2_000_000;

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    if let Err(reason) =
        tools::may_be_real_time().and_then(|()| tools::peer("cyclictest", "rt-tests"))
    {
        return Ok(vec![Row::not_measured("p50 and p99 under load", reason)]);
    }
    let load = Load::start(tools)?;
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        // Who goes first changes.
        let (ours, theirs) = if round % 2 == 0 {
            let ours = of_ours(tools)?;
            (ours, of_cyclictest(tools)?)
        } else {
            let theirs = of_cyclictest(tools)?;
            (of_ours(tools)?, theirs)
        };
        rounds.push((ours, theirs));
    }
    drop(load);
    let row = |name: &str, of: fn(&[f64; 2]) -> f64| {
        let middle = |values: Vec<f64>| Spread::of(values).map_or(0.0, |spread| spread.middle);
        let ours = middle(rounds.iter().map(|(ours, _)| of(ours)).collect());
        let theirs = middle(rounds.iter().map(|(_, theirs)| of(theirs)).collect());
        let ratio = Spread::of(rounds.iter().map(|(a, b)| of(a) / of(b)).collect());
        Row {
            ours: format!("{:.1} us", ours / 1e3),
            peer: format!("{:.1} us cyclictest", theirs / 1e3),
            ratio,
            target: "at most 1.0 within noise".to_owned(),
            standing: Standing::of(ratio.is_some_and(|ratio| ratio.low <= 1.0)),
            ..Row::new(format!("{name} under load, as read"))
        }
    };
    Ok(vec![
        row("p50", |percentiles| percentiles[0]),
        row("p99", |percentiles| percentiles[1]),
    ])
}

fn of_ours(tools: &Tools) -> Result<[f64; 2], String> {
    // cyclictest traces nothing.
    let line = format!(
        "-i 1000 -D {SECONDS} -a {} -p {PRIORITY} --no-explain",
        tools.cpu
    );
    let more: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    percentiles_of_ours(&tools.measure("latency", &more)?)
}

/// p50 and p99 of all threads, in ns.
pub fn percentiles_of_ours(record: &Value) -> Result<[f64; 2], String> {
    let ladder = record["analysis"]["total"]["percentiles"].as_array();
    let at = |percentile: f64| {
        ladder
            .into_iter()
            .flatten()
            .find(|rung| rung["percentile"] == percentile)
            .and_then(|rung| rung["value_ns"].as_f64())
            .ok_or(format!("p{percentile} does not stand in the record"))
    };
    Ok([at(50.0)?, at(99.0)?])
}

fn of_cyclictest(tools: &Tools) -> Result<[f64; 2], String> {
    let file = tools.directory.join("cyclictest.json");
    let mut command = Command::new("cyclictest");
    let line = format!(
        "-q -m -N -i 1000 -D {SECONDS} -t 1 -a {} -p {PRIORITY} -h {KEPT_NS} --json={}",
        tools.cpu,
        file.display()
    );
    tools::output(command.args(line.split_whitespace()))?;
    let bytes = std::fs::read(&file).map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let thread = &value["thread"]["0"];
    let cycles = thread["cycles"].as_u64().ok_or("cyclictest: no cycles")?;
    let mut counts: Vec<(u64, u64)> = thread["histogram"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(latency, count)| Some((latency.parse().ok()?, count.as_u64()?)))
        .collect();
    counts.sort_unstable();
    let at = |share| {
        percentile(&counts, cycles, share).ok_or("cyclictest: a percentile beyond its histogram")
    };
    Ok([at(0.5)?, at(0.99)?])
}

/// The latency at or below which a share of all cycles lie, those beyond the
/// histogram being the highest.
fn percentile(counts: &[(u64, u64)], cycles: u64, share: f64) -> Option<f64> {
    let rank = ((share * cycles as f64).ceil() as u64).max(1);
    let mut seen = 0;
    counts.iter().find_map(|(latency, count)| {
        seen += count;
        (seen >= rank).then_some(*latency as f64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_beyond_the_histogram_is_not_known() {
        let counts = [(10, 50), (20, 40)];
        assert_eq!(percentile(&counts, 100, 0.5), Some(10.0));
        assert_eq!(percentile(&counts, 100, 0.9), Some(20.0));
        assert_eq!(percentile(&counts, 100, 0.99), None);
    }
}
