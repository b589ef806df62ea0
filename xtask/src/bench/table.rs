//! The table of docs/results/lab-kernels.md made again: digit for digit, where ours is the build that it names.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::lab::{cells, made};
use super::row::{Row, Standing};
use super::tools::Tools;
use crate::root;

const PAGE: &str = "docs/results/lab-kernels.md";
/// Its columns.
const HEAD: &str = "| load | rt | standard | ratio | |";

const KERNELS: [&str; 2] = ["rt", "standard"];

/// The worst wake-up, in virtual ns, by load and kernel.
type Worst = BTreeMap<(String, &'static str), u64>;

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    let path = root().join(PAGE);
    let page = std::fs::read_to_string(&path).map_err(|error| format!("{PAGE}: {error}"))?;
    let written = written(&page).ok_or(format!("{PAGE} has no table '{HEAD}'"))?;
    let mut loads: Vec<&str> = written.keys().map(|(load, _)| load.as_str()).collect();
    loads.dedup();
    let (lab, _) = made(tools, &["--load", &loads.join(",")])?;
    let found = found(&lab)?;
    let differ: Vec<String> = written
        .iter()
        .map(|(key, ns)| (key, ns, found.get(key)))
        .filter(|(_, ns, now)| *now != Some(ns))
        .map(|((load, kernel), ns, now)| {
            let now = now.map_or("nothing".to_owned(), u64::to_string);
            format!("{kernel} {load} {ns} now {now}")
        })
        .collect();
    let sum = sha256(&tools.punctual)?;
    let same_build = page.contains(&sum);
    let of = if same_build { "" } else { ", of another build" };
    Ok(vec![Row {
        ours: format!(
            "{} of {} the same{of}",
            written.len() - differ.len(),
            written.len()
        ),
        peer: differ.join(", "),
        target: "all, of the build that the page names".to_owned(),
        standing: if same_build {
            Standing::of(differ.is_empty())
        } else {
            Standing::Shown
        },
        exact: true,
        ..Row::new(format!("lab: the table of {PAGE} made again"))
    }])
}

/// What a page says.
fn written(page: &str) -> Option<Worst> {
    let lines = page.lines().skip_while(|line| *line != HEAD).skip(2);
    let mut worst = Worst::new();
    for line in lines.take_while(|line| line.starts_with('|')) {
        let mut cells = line.split('|').skip(1).map(str::trim);
        let load = cells.next()?.to_owned();
        for kernel in KERNELS {
            let ns = cells.next()?.replace(',', "").parse().ok()?;
            worst.insert((load.clone(), kernel), ns);
        }
    }
    (!worst.is_empty()).then_some(worst)
}

/// What a lab says.
fn found(lab: &Value) -> Result<Worst, String> {
    let worst = cells(lab)?.iter().filter_map(|cell| {
        let kernel = KERNELS.into_iter().find(|name| cell["kernel"] == *name)?;
        let load = cell["load"].as_str()?.to_owned();
        Some(((load, kernel), cell["figures"]["max_ns"].as_u64()?))
    });
    Ok(worst.collect())
}

/// The SHA-256 of a file, in hexadecimal.
pub fn sha256(file: &Path) -> Result<String, String> {
    let output = Command::new("sha256sum").arg(file).output();
    let output = output.map_err(|error| format!("sha256sum: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let sum = text.split(' ').next().filter(|sum| sum.len() == 64);
    sum.map(str::to_owned)
        .ok_or("sha256sum said nothing".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_page_s_table_is_read_and_held_against_a_lab() {
        let text = std::fs::read_to_string(root().join(PAGE)).unwrap();
        let written = written(&text).unwrap();
        assert!(
            written.len() >= 32 && written.len().is_multiple_of(2),
            "{written:?}"
        );
        assert!(written.values().all(|ns| *ns > 1_000), "{written:?}");
        let page = format!("{HEAD}\n|---|\n| exit | 4,949 | 4,147,942 | 838 | |\n\n| x | y |");
        let lab = json!({"cells": [
            {"kernel": "rt", "load": "exit", "figures": {"max_ns": 4949}},
            {"kernel": "standard", "load": "exit", "figures": {"max_ns": 4_147_942}},
            {"kernel": "standard", "load": "poll", "figures": null},
        ]});
        assert_eq!(super::written(&page), Some(found(&lab).unwrap()));
        for page in ["", HEAD, "| load | rt |"] {
            assert_eq!(super::written(page), None);
        }
    }
}
