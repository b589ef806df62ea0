//! What it costs to be explained: the same run with tracing and without, in turns.

use super::latency::percentiles_of_ours;
use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools};

const ROUNDS: usize = 16;
const SECONDS: u64 = 2;
/// What tracing may add to p50.
const P50_NS: f64 = 1500.0;

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    const NAME: &str = "explained: p50";
    if let Err(reason) = tools::may_be_real_time() {
        return Ok(vec![Row::not_measured(NAME, reason)]);
    }
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        let of = |traced: bool| {
            let line = format!("-i 1000 -D {SECONDS} -a {} -p 80", tools.cpu);
            let mut more: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            // The default is a deadline that nothing is to be later than here.
            more.extend(["--deadline", "1s"].map(str::to_owned));
            if !traced {
                more.push("--no-explain".to_owned());
            }
            tools.measure("explain", &more)
        };
        // Who goes first changes.
        let (with, without) = if round % 2 == 0 {
            (of(true)?, of(false)?)
        } else {
            let without = of(false)?;
            (of(true)?, without)
        };
        if with["explanation"].is_null() {
            let reason = "the kernel doesn't let us trace it";
            return Ok(vec![Row::not_measured(NAME, reason)]);
        }
        rounds.push((percentiles_of_ours(&with)?, percentiles_of_ours(&without)?));
    }
    let middle = |values: Vec<f64>| Spread::of(values).map_or(0.0, |spread| spread.middle / 1e3);
    let row = |name: &str, at: usize| {
        let added = Spread::of(rounds.iter().map(|(a, b)| a[at] - b[at]).collect());
        let row = Row {
            ours: format!(
                "{:.1} us",
                middle(rounds.iter().map(|(with, _)| with[at]).collect())
            ),
            peer: format!(
                "{:.1} us untraced",
                middle(rounds.iter().map(|(_, without)| without[at]).collect())
            ),
            ratio: Spread::of(rounds.iter().map(|(a, b)| a[at] / b[at]).collect()),
            ..Row::new(name)
        };
        (row, added)
    };
    let (p50, added) = row(NAME, 0);
    let (p99, added_p99) = row("explained: p99", 1);
    let words = |added: Option<Spread>| {
        added.map_or(String::new(), |s| {
            format!(
                "{:+.1} us [{:+.1}, {:+.1}]",
                s.middle / 1e3,
                s.low / 1e3,
                s.high / 1e3
            )
        })
    };
    Ok(vec![
        Row {
            target: format!("at most +1.5 us; {}", words(added)),
            standing: Standing::of(added.is_some_and(|added| added.low <= P50_NS)),
            ..p50
        },
        Row {
            target: format!("within noise; {}", words(added_p99)),
            standing: Standing::of(added_p99.is_some_and(|added| added.low <= P50_NS)),
            ..p99
        },
    ])
}
