//! What the peers and we read on the same kernels under the same loads, in virtual time: the
//! laboratory's experiment `peers`. Exact: nothing of the host is in it.

use std::process::Command;

use serde_json::Value;

use super::lab;
use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools};

/// Those that are held against each other; ours first.
const OURS: &str = "punctual";
const PEERS: [&str; 2] = ["cyclictest", "jitterdebugger"];
/// A maximum holds for one seed.
const SEEDS: &str = "3";
/// Each figure, and whether of several seeds its mean or its highest stands.
const FIGURES: [(&str, &str, bool); 3] = [
    ("mean", "mean_ns", true),
    ("p99", "p99_ns", false),
    ("max", "max_ns", false),
];

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    tools::peer("qemu-system-x86_64", "qemu-system-x86")?;
    for (name, package) in [
        ("cyclictest", "rt-tests"),
        ("jitterdebugger", "jitterdebugger"),
    ] {
        tools::peer(name, package)?;
    }
    let place = tools.place("peers");
    let mut command = Command::new(&tools.punctual);
    command
        .args(["lab", "run", "peers", "--seeds", SEEDS, "-q", "-o"])
        .arg(&place);
    let (lab, _) = lab::record(&mut command, &place)?;
    let _ = std::fs::remove_dir_all(&place);
    Ok(of_lab(&lab))
}

/// A row for each figure of each machine and load.
fn of_lab(lab: &Value) -> Vec<Row> {
    let empty = Vec::new();
    let cells = lab["cells"].as_array().unwrap_or(&empty);
    let mut places: Vec<(&str, &str)> = Vec::new();
    for cell in cells {
        let place = (text(&cell["variant"]["machine"]), text(&cell["load"]));
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let mut rows = Vec::new();
    for (machine, load) in places {
        for (name, key, mean) in FIGURES {
            let of = |tool: &str| {
                let here = cells.iter().filter(|cell| {
                    let variant = &cell["variant"];
                    variant["machine"] == machine && variant["name"] == tool && cell["load"] == load
                });
                let values = here.map(|cell| cell["figures"][key].as_f64()).collect();
                together(values, mean)
            };
            rows.push(row(&format!("{machine}, {load}: {name}"), of));
        }
    }
    rows
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Of all seeds; nothing where one of them is lacking.
fn together(values: Vec<Option<f64>>, mean: bool) -> Option<f64> {
    let values: Vec<f64> = values.into_iter().collect::<Option<_>>()?;
    match mean {
        _ if values.is_empty() => None,
        true => Some(values.iter().sum::<f64>() / values.len() as f64),
        false => values.into_iter().reduce(f64::max),
    }
}

fn row(name: &str, of: impl Fn(&str) -> Option<f64>) -> Row {
    let peers = PEERS.iter().filter_map(|peer| Some((*peer, of(peer)?)));
    let lowest = peers.min_by(|(_, a), (_, b)| a.total_cmp(b));
    let (Some(ours), Some((peer, theirs))) = (of(OURS), lowest) else {
        return Row::not_measured(name, "a machine gave no result: punctual lab run peers");
    };
    Row {
        ours: format!("{ours:.0} ns"),
        peer: format!("{theirs:.0} ns {peer}"),
        ratio: Some(Spread::exactly(ours / theirs)),
        target: "lowest of the three".to_owned(),
        standing: Standing::of(ours <= theirs),
        exact: true,
        ..Row::new(name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ours_stands_beside_the_lowest_peer_over_all_seeds() {
        let cell = |tool: &str, seed: u64, mean: f64, max: u64| {
            json!({
                "variant": {"machine": "rt", "name": tool}, "load": "fork", "seed": seed,
                "figures": {"mean_ns": mean, "p99_ns": 5000, "max_ns": max},
            })
        };
        let mut cells = vec![
            cell("punctual", 1, 4000.0, 6000),
            cell("punctual", 2, 4200.0, 6500),
            cell("cyclictest", 1, 4500.0, 6400),
            cell("cyclictest", 2, 4500.0, 6300),
            cell("jitterdebugger", 1, 4300.0, 7000),
            cell("jitterdebugger", 2, 4300.0, 6100),
        ];
        let rows = of_lab(&json!({ "cells": cells }));
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (&*row.name, &*row.ours, &*row.peer))
            .collect();
        assert_eq!(
            shown,
            [
                ("rt, fork: mean", "4100 ns", "4300 ns jitterdebugger"),
                ("rt, fork: p99", "5000 ns", "5000 ns cyclictest"),
                ("rt, fork: max", "6500 ns", "6400 ns cyclictest"),
            ]
        );
        let standings: Vec<_> = rows.iter().map(|row| &row.standing).collect();
        assert_eq!(
            standings,
            [&Standing::Met, &Standing::Met, &Standing::NotMet]
        );
        cells[0]["figures"] = Value::Null;
        let rows = of_lab(&json!({ "cells": cells }));
        assert!(matches!(rows[0].standing, Standing::NotMeasured(_)));
    }
}
