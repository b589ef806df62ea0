//! The highest rate with no skipped period, in virtual time: exact, nothing of the host is in it.
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
/// Intervals in us. Below, neither tool has the time for its cycle. On the standard kernel a wake-up of
/// cyclictest is 36 us late at times: above, both have the time.
const LADDER: RangeInclusive<u64> = 6..=40;
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
    let name = format!("lab, {machine}, idle: highest rate with no skipped period");
    let both =
        shortest(lab, machine, OURS).and_then(|ours| Ok((ours, shortest(lab, machine, PEER)?)));
    let (ours, theirs) = match both {
        Ok(both) => both,
        Err(reason) => return Row::not_measured(name, reason),
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

/// The shortest interval that is sustained, and all longer ones with it; which cell is the reason where
/// that can't be told.
fn shortest(lab: &Value, machine: &str, tool: &str) -> Result<u64, String> {
    let none = Vec::new();
    let cells = lab["cells"].as_array().unwrap_or(&none);
    let mut found = None;
    for us in LADDER.rev() {
        let variant = format!("{tool} {us}");
        let mut late = None;
        for seed in 1..=SEEDS {
            let at = format!("{tool} at {us} us, seed {seed}");
            let cell = cells.iter().find(|cell| {
                cell["variant"]["machine"] == machine
                    && cell["variant"]["name"] == *variant
                    && cell["seed"] == seed
            });
            let cell = cell.ok_or_else(|| format!("{at}: the laboratory ran no such guest"))?;
            let (samples, max_ns) = result(&cell["figures"])
                .ok_or_else(|| format!("{at}: no result, exit status {}", cell["status"]))?;
            let cycles = LENGTH_US / us;
            // A period is skipped when a wake-up is as late as the interval is long. We skip and count
            // those, cyclictest does neither: its maximum tells.
            if samples != cycles || max_ns >= us * 1000 {
                late.get_or_insert_with(|| {
                    let max_us = max_ns as f64 / 1e3;
                    format!("{at}: {samples} of {cycles} cycles, latest wake-up {max_us:.3} us")
                });
            }
        }
        match (late, found) {
            (None, _) => found = Some(us),
            (Some(_), Some(us)) => return Ok(us),
            (Some(late), None) => return Err(format!("the longest interval fails: {late}")),
        }
    }
    found.ok_or_else(|| "no interval was tried".to_owned())
}

/// How many cycles a guest measured, and how late the latest was.
fn result(figures: &Value) -> Option<(u64, u64)> {
    Some((figures["samples"].as_u64()?, figures["max_ns"].as_u64()?))
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
                for seed in 1..=SEEDS {
                    cells.push(json!({
                        "seed": seed,
                        "status": 0,
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
            (_, 8, 3) | (_, 9, 1) => 9_000,
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

    /// Why a machine's row has no figure.
    fn reason(machine: &str, lab: &Value) -> String {
        match row(machine, lab).standing {
            Standing::NotMeasured(reason) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_row_without_a_figure_names_the_tool_and_the_interval_that_failed() {
        let mut cells = lab(|_, _, _| 5_000);
        let last = cells["cells"].as_array_mut().and_then(Vec::pop);
        assert_eq!(
            reason("rt", &cells),
            "cyclictest at 40 us, seed 3: the laboratory ran no such guest"
        );
        let mut failed = last.expect("cells");
        failed["figures"] = Value::Null;
        failed["status"] = json!(124);
        cells["cells"].as_array_mut().expect("cells").push(failed);
        assert_eq!(
            reason("rt", &cells),
            "cyclictest at 40 us, seed 3: no result, exit status 124"
        );
        let late = lab(|tool, _, seed| {
            if tool == PEER && seed == 2 {
                50_123
            } else {
                900
            }
        });
        assert_eq!(
            reason("rt", &late),
            "the longest interval fails: cyclictest at 40 us, seed 2: 5000 of 5000 cycles, latest \
             wake-up 50.123 us"
        );
        assert!(reason("standard", &late).starts_with("punctual at 40 us, seed 1: the laboratory"));
    }

    #[test]
    fn a_cell_with_too_few_cycles_is_not_sustained() {
        let mut lab = lab(|_, _, _| 5_000);
        for cell in lab["cells"].as_array_mut().expect("cells") {
            if cell["variant"]["name"] == format!("{OURS} 12") && cell["seed"] == 2 {
                cell["figures"]["samples"] = json!(LENGTH_US / 12 - 1);
            }
        }
        let row = row("rt", &lab);
        assert_eq!(row.ours, "76923/s (13 us)");
        assert_eq!(row.peer, "166667/s (6 us) cyclictest");
        assert_eq!(row.standing, Standing::NotMet);
    }
}
