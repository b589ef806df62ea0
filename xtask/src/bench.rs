//! Figures beside the peers', side by side in one run: `cargo xtask bench`.
//!
//! What depends on time is measured in turns, A and B, and shown as ratios with
//! their quartiles; what is counted is exact whatever else the machine does. What
//! each figure means stands in docs/bench.md.

mod callgrind;
mod collector;
mod explain;
mod hackbench;
mod instructions;
pub mod lab;
mod lab_rate;
mod latency;
mod library;
mod merge;
mod noise;
mod peers;
mod rate;
mod row;
mod rtla;
pub mod table;
mod tools;
mod truth;

use std::process::ExitCode;
use std::time::Instant;

use row::{Row, Standing};
use tools::Tools;

/// A figure or several: its name for `--only`, and how it is measured.
type Figure = (&'static str, fn(&Tools) -> Result<Vec<Row>, String>);

const FIGURES: &[Figure] = &[
    ("instructions", instructions::rows),
    ("latency", latency::rows),
    ("noise", noise::rows),
    ("explain", explain::rows),
    ("truth", truth::rows),
    ("rate", rate::rows),
    ("hackbench", hackbench::rows),
    ("collector", collector::cost),
    ("memory", collector::memory),
    ("merge", merge::rows),
    ("stack", library::stacks),
    ("run", library::run),
    ("sync", library::sync),
    ("lab", lab::rows),
    ("lab-rate", lab_rate::rows),
    ("table", table::rows),
    ("peers", peers::rows),
];

const USAGE: &str = "\
cargo xtask bench [--only NAME,NAME] [--json FILE] [--strict] [--all]
  --only    instructions, latency, noise, explain, truth, rate, hackbench, collector,
            memory, merge, stack, run, sync, peers, lab, lab-rate, table
  --all     every load of the laboratory, not a few of them
  --json    writes the table to a file as well
  --strict  ends with 1 where an exact target is missed: instructions, memory, merge,
            page faults, peers, the laboratory's bytes, rates and table";

#[derive(Debug, Default, PartialEq)]
struct Options {
    only: Vec<String>,
    json: Option<String>,
    strict: bool,
    all: bool,
}

/// `cargo xtask bench`.
pub fn run(arguments: &[String]) -> ExitCode {
    let options = match parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::from(64);
        }
    };
    let tools = match Tools::ready(options.all) {
        Ok(tools) => tools,
        Err(error) => {
            eprintln!("bench: {error}");
            return ExitCode::FAILURE;
        }
    };
    let (mut rows, mut failed) = (Vec::new(), false);
    let chosen = |name: &str| options.only.is_empty() || options.only.iter().any(|n| n == name);
    for (name, figure) in FIGURES.iter().filter(|(name, _)| chosen(name)) {
        let begin = Instant::now();
        eprintln!("{name} ...");
        match figure(&tools) {
            Ok(more) => rows.extend(more),
            Err(error) => {
                failed = true;
                rows.push(Row::not_measured(*name, error));
            }
        }
        eprintln!("{name} took {:.0} s", begin.elapsed().as_secs_f64());
    }
    print!("{}", row::table(&rows));
    if let Some(file) = &options.json
        && let Err(error) = std::fs::write(file, row::json(&rows))
    {
        eprintln!("bench: {file}: {error}");
        failed = true;
    }
    let missed = |row: &&Row| row.exact && row.standing == Standing::NotMet;
    if failed || options.strict && rows.iter().any(|row| missed(&row)) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn parse(arguments: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().cloned().ok_or(format!("{word} needs a value"));
        match word.as_str() {
            "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
            "--json" => options.json = Some(value()?),
            "--strict" => options.strict = true,
            "--all" => options.all = true,
            other => return Err(format!("unknown argument {other}")),
        }
    }
    let known = |name: &&String| FIGURES.iter().any(|(figure, _)| figure == *name);
    match options.only.iter().find(|name| !known(name)) {
        Some(name) => Err(format!("there is no figure {name}")),
        None => Ok(options),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn arguments() {
        let options = parsed("--only instructions,merge --strict").unwrap();
        assert_eq!(options.only, ["instructions", "merge"]);
        assert!(options.strict);
        assert!(parsed("--only speed").unwrap_err().contains("speed"));
        assert!(parsed("--json").unwrap_err().contains("--json"));
        assert!(parsed("-x").is_err());
    }
}
