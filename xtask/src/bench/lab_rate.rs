//! The highest rate with nothing missed, in virtual time: exact, nothing of the host is in it.
//!
//! The rules are those of the timed row (`rate`), but a stall excuses nothing here. Whether an
//! interval is sustained depends on the phase between it and the tick, and so not on its length
//! alone: the whole ladder is tried, with several seeds, and an interval counts if it and all longer
//! ones hold. cyclictest takes whole microseconds.

use std::fmt::Write as _;
use std::ops::RangeInclusive;
use std::process::Command;

use serde_json::Value;

use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools};

const MACHINES: [&str; 2] = ["rt", "standard"];
const OURS: &str = "punctual";
const PEER: &str = "cyclictest";
/// Intervals in us. Below, neither tool has the time for its cycle; above, both have.
const LADDER: RangeInclusive<u64> = 6..=14;
const SEEDS: usize = 3;
/// Length of an attempt, 50 ticks.
const LENGTH_US: u64 = 200_000;

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    tools::peer("qemu-system-x86_64", "qemu-system-x86")?;
    tools::peer(PEER, "rt-tests")?;
    let place = tools.place("lab-rate");
    std::fs::create_dir_all(&place).map_err(|error| error.to_string())?;
    let file = place.join("rate.toml");
    std::fs::write(&file, experiment()).map_err(|error| error.to_string())?;
    let made = place.join("made");
    let mut command = Command::new(&tools.punctual);
    command.args(["lab", "run"]).arg(&file);
    command.args(["--seeds", &SEEDS.to_string(), "--no-explain", "-q", "-o"]);
    tools::output(command.arg(&made))?;
    let bytes = std::fs::read(made.join("lab.json")).map_err(|error| error.to_string())?;
    let lab: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    let _ = std::fs::remove_dir_all(&place);
    Ok(MACHINES.iter().map(|machine| row(machine, &lab)).collect())
}

/// Both tools at each interval: the same priority, processor, clock and number of cycles.
fn experiment() -> String {
    let mut text = "loads = \"idle\"\n".to_owned();
    for machine in MACHINES {
        let _ = write!(
            text,
            "[[machine]]\nname = \"{machine}\"\nkernel = \"{machine}\"\n"
        );
    }
    for us in LADDER {
        let cycles = LENGTH_US / us;
        let ours = format!(
            "punctual measure nanosleep -q -p 80 -i {us} --interval fixed -l {cycles} -a 0 \
             --no-explain -o run"
        );
        // A histogram longer than any latency here: without one it leaves no record.
        let theirs = format!(
            "cyclictest -q -m -N -p 80 -i {us} -l {cycles} -a 0 -t 1 -h 100000 --json=c.json"
        );
        for (tool, line, result) in [(OURS, ours, "run/run.json"), (PEER, theirs, "c.json")] {
            let words: Vec<String> = line
                .split_whitespace()
                .map(|it| format!("{it:?}"))
                .collect();
            let _ = write!(
                text,
                "[[variant]]\nname = \"{tool} {us}\"\ncommand = [{}]\nresult = \"{result}\"\n",
                words.join(", ")
            );
        }
    }
    text
}

fn row(machine: &str, lab: &Value) -> Row {
    let name = format!("lab, {machine}, idle: highest rate with nothing missed");
    let (Some(ours), Some(theirs)) = (shortest(lab, machine, OURS), shortest(lab, machine, PEER))
    else {
        let reason = "a machine gave no result, or not even the longest interval is sustained";
        return Row::not_measured(name, reason);
    };
    let rate = |us: u64| format!("{:.0}/s ({us} us)", 1e6 / us as f64);
    Row {
        ours: rate(ours),
        peer: format!("{} {PEER}", rate(theirs)),
        ratio: Some(Spread::exactly(theirs as f64 / ours as f64)),
        target: "above 1.0".to_owned(),
        standing: Standing::of(ours < theirs),
        exact: true,
        ..Row::new(name)
    }
}

/// The shortest interval that is sustained, and all longer ones with it; nothing where a cell is
/// lacking.
fn shortest(lab: &Value, machine: &str, tool: &str) -> Option<u64> {
    let mut found = None;
    for us in LADDER.rev() {
        let variant = format!("{tool} {us}");
        let here = lab["cells"].as_array()?.iter().filter(|cell| {
            cell["variant"]["machine"] == machine && cell["variant"]["name"] == *variant
        });
        let holds: Vec<bool> = here
            .map(|cell| sustained(&cell["figures"], us))
            .collect::<Option<_>>()?;
        if holds.len() != SEEDS {
            return None;
        }
        if !holds.iter().all(|holds| *holds) {
            break;
        }
        found = Some(us);
    }
    found
}

/// A period is missed when a wake-up is as late as the interval is long. We skip and count those,
/// cyclictest does neither: its maximum tells.
fn sustained(figures: &Value, us: u64) -> Option<bool> {
    let max_ns = figures["max_ns"].as_u64()?;
    let all = figures["samples"].as_u64()? == LENGTH_US / us;
    Some(all && max_ns < us * 1000)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Cells of one machine; `late` says how late the worst wake-up of a tool is at an interval.
    fn lab(late: impl Fn(&str, u64, usize) -> u64) -> Value {
        let mut cells = Vec::new();
        for tool in [OURS, PEER] {
            for us in LADDER {
                for seed in 0..SEEDS {
                    cells.push(json!({
                        "variant": {"machine": "rt", "name": format!("{tool} {us}")},
                        "figures": {"samples": LENGTH_US / us, "max_ns": late(tool, us, seed)},
                    }));
                }
            }
        }
        json!({ "cells": cells })
    }

    #[test]
    fn the_shortest_interval_is_one_above_which_all_hold_with_each_seed() {
        let worst = |tool: &str, us, seed| match (tool, us, seed) {
            (OURS, ..) => 7_100,
            // By chance a shorter one holds where a longer one doesn't.
            (_, 8, 2) | (_, 9, 0) => 9_000,
            _ => 5_000,
        };
        let row = row("rt", &lab(worst));
        assert_eq!(row.ours, "125000/s (8 us)");
        assert_eq!(row.peer, "100000/s (10 us) cyclictest");
        assert_eq!(row.standing, Standing::Met);
        assert_eq!(row.ratio, Some(Spread::exactly(1.25)));
    }

    #[test]
    fn as_late_as_the_interval_is_missed_and_the_same_is_not_above() {
        let row = row(
            "rt",
            &lab(|_, us, _| if us > 9 { 9_000 } else { us * 1000 }),
        );
        assert!(row.ours.contains("10 us") && row.peer.contains("10 us"));
        assert_eq!(row.standing, Standing::NotMet);
    }

    #[test]
    fn without_all_cells_nothing_is_claimed() {
        let mut lab = lab(|_, _, _| 5_000);
        lab["cells"].as_array_mut().map(Vec::pop);
        assert!(matches!(row("rt", &lab).standing, Standing::NotMeasured(_)));
        let late = self::lab(|_, _, _| 50_000);
        assert!(matches!(
            row("rt", &late).standing,
            Standing::NotMeasured(_)
        ));
        assert!(matches!(
            row("standard", &late).standing,
            Standing::NotMeasured(_)
        ));
    }
}
