//! Noise of a CPU as we see it and as oslat does: in turns, on one CPU, at one priority,
//! polling without rest, above one threshold.

use std::process::Command;

use serde_json::Value;

use super::row::{Row, Spread};
use super::tools::{self, Tools};

const ROUNDS: usize = 12;
const SECONDS: u64 = 2;
const PRIORITY: &str = "80";

/// What one of the two saw in a second.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    /// Gaps of a microsecond and more.
    gaps: f64,
    /// Readings of the clock.
    readings: f64,
    /// Seconds in which it looked.
    watched: f64,
}

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    if let Err(reason) = tools::may_be_real_time().and_then(|()| tools::peer("oslat", "rt-tests")) {
        return Ok(vec![Row::not_measured("noise", reason)]);
    }
    let mut rounds = Vec::new();
    for round in 0..ROUNDS {
        // Who goes first changes.
        rounds.push(if round % 2 == 0 {
            let ours = of_ours(tools)?;
            (ours, of_oslat(tools)?)
        } else {
            let theirs = of_oslat(tools)?;
            (of_ours(tools)?, theirs)
        });
    }
    let row = |name: &str, of: fn(&Seen) -> f64, shown: fn(f64) -> String| {
        let middle = |values: Vec<f64>| Spread::of(values).map_or(0.0, |spread| spread.middle);
        let ours = middle(rounds.iter().map(|(ours, _)| of(ours)).collect());
        let theirs = middle(rounds.iter().map(|(_, theirs)| of(theirs)).collect());
        Row {
            ours: shown(ours),
            peer: format!("{} oslat", shown(theirs)),
            ratio: Spread::of(rounds.iter().map(|(a, b)| of(a) / of(b)).collect()),
            ..Row::new(name)
        }
    };
    Ok(vec![
        row(
            "noise: gaps of 1 us and more",
            |seen| seen.gaps,
            |n| format!("{n:.0}/s"),
        ),
        row(
            "noise: time watched",
            |seen| seen.watched,
            |n| format!("{:.3} %", n * 100.0),
        ),
        row(
            "noise: readings of the clock",
            |seen| seen.readings,
            |n| format!("{:.1} million/s", n / 1e6),
        ),
    ])
}

fn of_ours(tools: &Tools) -> Result<Seen, String> {
    // oslat explains nothing. Above 999 ns is from 1 us on.
    let line = format!(
        "noise --gap 999ns --runtime 100ms --period 100ms -D {SECONDS} -a {} -p {PRIORITY} \
         --no-explain",
        tools.cpu
    );
    let more: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    ours(&tools.measure("noise", &more)?).ok_or("measure noise: its record lacks a figure".into())
}

fn ours(record: &Value) -> Option<Seen> {
    let watched = &record["gaps"]["threads"][0];
    let part = |name: &str| watched[name].as_f64();
    let span = part("span_ns").filter(|span| *span > 0.0)?;
    let gaps = record["threads"][0]["latency"]["count"].as_f64()?;
    Some(Seen {
        gaps: gaps / (span / 1e9),
        readings: part("polls")? / (span / 1e9),
        watched: (part("polled_ns")? + part("gap_ns")?) / span,
    })
}

fn of_oslat(tools: &Tools) -> Result<Seen, String> {
    let file = tools.directory.join("oslat.json");
    let line = format!(
        "-q -c {} -D {SECONDS} -f {PRIORITY} --json={}",
        tools.cpu,
        file.display()
    );
    tools::output(Command::new("oslat").args(line.split_whitespace()))?;
    let bytes = std::fs::read(&file).map_err(|error| error.to_string())?;
    let value: Value = serde_json::from_slice(&bytes).map_err(|error| error.to_string())?;
    theirs(&value).ok_or("oslat: its JSON lacks a figure".into())
}

/// oslat's bucket of so many us holds what is shorter than that, and the last one all the rest.
fn theirs(value: &Value) -> Option<Seen> {
    let thread = &value["thread"]["0"];
    let duration = thread["duration"].as_f64().filter(|time| *time > 0.0)?;
    let (mut all, mut long) = (0.0, 0.0);
    for (bucket, count) in thread["histogram"].as_object()? {
        let count = count.as_f64()?;
        all += count;
        if bucket.parse::<u64>().ok()? > 1 {
            long += count;
        }
    }
    Some(Seen {
        gaps: long / duration,
        readings: all / duration,
        // It never rests, and each step is in a bucket.
        watched: 1.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_first_bucket_of_oslat_holds_what_is_below_a_microsecond() {
        let value = json!({"thread": {"0": {
            "duration": 2.0,
            "histogram": {"1": 1000, "2": 6, "64": 4},
        }}});
        let seen = theirs(&value).unwrap();
        assert_eq!((seen.gaps, seen.readings), (5.0, 505.0));
        assert_eq!(theirs(&json!({})), None);
    }

    #[test]
    fn what_stands_in_our_record() {
        let value = json!({
            "threads": [{"latency": {"count": 30}}],
            "gaps": {"threads": [
                {"span_ns": 2e9, "polled_ns": 17e8, "gap_ns": 1e8, "polls": 4_000_000}
            ]},
        });
        let seen = ours(&value).unwrap();
        let wanted = Seen {
            gaps: 15.0,
            readings: 2e6,
            watched: 0.9,
        };
        assert_eq!(seen, wanted);
    }
}
