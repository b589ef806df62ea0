//! What it costs to be explained: the same run with tracing and without, in turns.

use serde_json::Value;

use super::latency::percentiles_of_ours;
use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools};

const ROUNDS: usize = 16;
const SECONDS: u64 = 2;
/// What tracing may add to p50.
const P50_NS: f64 = 1500.0;
/// What is late beside the load: whoever is explained must not show a gap above it.
const LIMIT_NS: f64 = 60_000.0;
const LATE_ROUNDS: usize = 12;
/// Of two samples of the same distribution the largest difference exceeds this many times
/// sqrt((n + m) / nm) once in 100 pairs (Kolmogorov and Smirnov).
const ONE_PERCENT: f64 = 1.63;

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    if let Err(reason) = tools::may_be_real_time() {
        return Ok(vec![Row::not_measured("explained: p50", reason)]);
    }
    let mut rows = quiet(tools)?;
    if rows.len() > 1 {
        rows.push(late(tools)?);
    }
    Ok(rows)
}

/// The late wake-ups of runs beside the standard load, with tracing and without: their numbers
/// differ with what the load does just then, how they are distributed above the limit must not.
fn late(tools: &Tools) -> Result<Row, String> {
    let mut late = [Vec::new(), Vec::new()];
    for round in 0..LATE_ROUNDS {
        for place in [round % 2, 1 - round % 2] {
            let line = format!(
                "-i 1000 -D {SECONDS} -a {} -p 80 --load standard --deadline 60us --miss 0.5",
                tools.cpu
            );
            let mut more: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            if place == 1 {
                more.push("--no-explain".to_owned());
            }
            late[place].extend(above(&tools.measure("late", &more)?, LIMIT_NS));
        }
    }
    let [with, without] = late;
    let near = |of: &[f64]| {
        let near = of.iter().filter(|ns| **ns < 1.45 * LIMIT_NS).count();
        format!(
            "{:.0} % of {}",
            near as f64 * 100.0 / of.len().max(1) as f64,
            of.len()
        )
    };
    let (n, m) = (with.len() as f64, without.len() as f64);
    let difference = largest_difference(&with, &without);
    let critical = ONE_PERCENT * ((n + m) / (n * m).max(1.0)).sqrt();
    Ok(Row {
        ours: near(&with),
        peer: format!("{} untraced", near(&without)),
        target: format!("KS distance {difference:.3}, at most {critical:.3}"),
        standing: if n.min(m) < 30.0 {
            Standing::NotMeasured("too few wake-ups were late".to_owned())
        } else {
            Standing::of(difference <= critical)
        },
        ..Row::new("explained: late, within 1.45 of 60 us")
    })
}

/// The latencies above a limit, as far as the record keeps them whole.
fn above(record: &Value, limit_ns: f64) -> Vec<f64> {
    let threads = record["threads"].as_array().into_iter().flatten();
    let peaks = threads.flat_map(|thread| thread["peaks"].as_array().into_iter().flatten());
    let latencies = peaks.filter_map(|peak| peak.get(2)?.as_f64());
    latencies.filter(|ns| *ns > limit_ns).collect()
}

/// Between the shares of two samples up to any value.
fn largest_difference(a: &[f64], b: &[f64]) -> f64 {
    let share = |of: &[f64], to: f64| {
        of.iter().filter(|value| **value <= to).count() as f64 / of.len().max(1) as f64
    };
    let values = a.iter().chain(b);
    values
        .map(|at| (share(a, *at) - share(b, *at)).abs())
        .fold(0.0, f64::max)
}

/// Wake-ups without load.
fn quiet(tools: &Tools) -> Result<Vec<Row>, String> {
    const NAME: &str = "explained: p50";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_twice_differs_by_nothing_and_a_gap_shows() {
        let all: Vec<f64> = (60..160).map(f64::from).collect();
        assert!(largest_difference(&all, &all).abs() < 1e-9);
        let gap: Vec<f64> = all.iter().map(|ns| ns.max(85.0)).collect();
        assert!((largest_difference(&all, &gap) - 0.25).abs() < 0.011);
    }

    #[test]
    fn latencies_above_a_limit_are_read_from_a_record() {
        let record = serde_json::json!({"threads": [{"peaks": [[0, 1, 70], [1, 2, 50]]}, {}]});
        assert_eq!(above(&record, 60.0), [70.0]);
    }
}
