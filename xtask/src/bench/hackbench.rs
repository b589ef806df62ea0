//! Our hackbench beside rt-tests': the time for the same messages.

use std::process::Command;

use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools};

const ROUNDS: usize = 9;
const ARGUMENTS: [&str; 4] = ["-g", "4", "-l", "400"];
const KINDS: [(&str, &[&str]); 4] = [
    ("processes, sockets", &[]),
    ("processes, pipes", &["-p"]),
    ("threads, sockets", &["-T"]),
    ("threads, pipes", &["-T", "-p"]),
];

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    if let Err(reason) = tools::peer("hackbench", "rt-tests") {
        return Ok(vec![Row::not_measured("hackbench", reason)]);
    }
    KINDS
        .iter()
        .map(|(name, kind)| of_kind(tools, name, kind))
        .collect()
}

fn of_kind(tools: &Tools, name: &str, kind: &[&str]) -> Result<Row, String> {
    let ours = || {
        let mut command = Command::new(&tools.punctual);
        command.args(["load", "hackbench", "--"]);
        time(command.args(ARGUMENTS).args(kind))
    };
    let theirs = || time(Command::new("hackbench").args(ARGUMENTS).args(kind));
    let (mut own, mut other, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let (a, b) = if round % 2 == 0 {
            let a = ours()?;
            (a, theirs()?)
        } else {
            let b = theirs()?;
            (ours()?, b)
        };
        own.push(a);
        other.push(b);
        ratios.push(a / b);
    }
    let middle = |times| Spread::of(times).map_or(0.0, |spread| spread.middle);
    let ratio = Spread::of(ratios);
    // Within, as far as the spread lets one say.
    let within = |ratio: Spread| ratio.low <= 1.03 && ratio.high >= 0.97;
    Ok(Row {
        ours: format!("{:.3} s", middle(own)),
        peer: format!("{:.3} s rt-tests' hackbench", middle(other)),
        ratio,
        target: "0.97 to 1.03 within noise".to_owned(),
        standing: Standing::of(ratio.is_some_and(within)),
        ..Row::new(format!("hackbench, {name}: time"))
    })
}

fn time(command: &mut Command) -> Result<f64, String> {
    let text = tools::output(command)?;
    seconds(&text).ok_or_else(|| format!("no time in {text:?}"))
}

fn seconds(text: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix("Time:"))
        .and_then(|time| time.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_hackbenchs_line() {
        let text = "Running in process mode with 2 groups\nTime: 0.152\n";
        assert_eq!(seconds(text), Some(0.152));
        assert_eq!(seconds("Running"), None);
    }
}
