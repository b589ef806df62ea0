//! What it costs to be explained: the same run with tracing and without, in turns.

use serde_json::Value;

use super::latency::percentiles_of_ours;
use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools};

const ROUNDS: usize = 16;
const SECONDS: u64 = 2;
/// What tracing may add to p50.
const P50_NS: f64 = 1000.0;
/// Pairs of runs beside the standard load.
const LOADED_ROUNDS: usize = 12;
const DECADES: [Decade; 4] = [
    Decade::new("1 to 10 us", 1e3, 1e4, P50_NS),
    Decade::new("10 to 100 us", 1e4, 1e5, P50_NS),
    Decade::new("100 us to 1 ms", 1e5, 1e6, 0.0),
    Decade::new("1 ms and more", 1e6, f64::INFINITY, 0.0),
];
/// What tracing may add to an outlier.
const OUTLIER_NS: f64 = 2000.0;
/// Fewer wake-ups of a decade tell nothing.
const FEWEST: usize = 30;
const SWAPS: usize = 999;
/// Two of a kind are as far apart in a smaller share of swaps once in 100 times.
const LEAST_SHARE: f64 = 0.01;

/// The latencies of a run with tracing, and of one without.
type Pair = [Vec<f64>; 2];

struct Decade {
    words: &'static str,
    from_ns: f64,
    to_ns: f64,
    /// What tracing may add to each wake-up here. Among thousands of wake-ups a difference of 0.1 us
    /// shows, and so what is told apart is whether they are later by more than this.
    cost_ns: f64,
}

impl Decade {
    const fn new(words: &'static str, from_ns: f64, to_ns: f64, cost_ns: f64) -> Decade {
        Decade {
            words,
            from_ns,
            to_ns,
            cost_ns,
        }
    }

    fn has(&self, ns: f64) -> bool {
        (self.from_ns..self.to_ns).contains(&ns)
    }
}

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    if let Err(reason) = tools::may_be_real_time() {
        return Ok(vec![Row::not_measured("explained: p50", reason)]);
    }
    let mut rows = quiet(tools)?;
    if rows.len() > 1 {
        rows.extend(under_load(tools)?);
    }
    Ok(rows)
}

/// Wake-ups of runs beside the standard load, with tracing and without: how they are distributed
/// within each decade of latency must not differ.
fn under_load(tools: &Tools) -> Result<Vec<Row>, String> {
    let mut pairs: Vec<Pair> = Vec::new();
    for round in 0..LOADED_ROUNDS {
        let mut pair = Pair::default();
        // Who goes first changes.
        for place in [round % 2, 1 - round % 2] {
            let line = format!(
                "-i 1000 -D {SECONDS} -a {} -p 80 --load standard --deadline 60us --miss 0.5",
                tools.cpu
            );
            let mut more: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            if place == 1 {
                more.push("--no-explain".to_owned());
            }
            pair[place] = latencies(&tools.measure("loaded", &more)?)?;
        }
        pairs.push(pair);
    }
    let mut rows = vec![median(&pairs)?];
    rows.extend(DECADES.iter().map(|of| decade(of, &pairs)));
    Ok(rows)
}

/// What tracing adds to the middle of all wake-ups of a run.
fn median(pairs: &[Pair]) -> Result<Row, String> {
    let middle = |of: &[f64]| Spread::of(of.to_vec()).map(|spread| spread.middle);
    let medians: Option<Vec<[f64; 2]>> = pairs
        .iter()
        .map(|[with, without]| Some([middle(with)?, middle(without)?]))
        .collect();
    let medians = medians.ok_or("a run without a wake-up")?;
    let of = |place: usize| Spread::of(medians.iter().map(|pair| pair[place]).collect());
    let added = Spread::of(
        medians
            .iter()
            .map(|[with, without]| with - without)
            .collect(),
    );
    let us = |spread: Option<Spread>| spread.map_or(0.0, |spread| spread.middle / 1e3);
    Ok(Row {
        ours: format!("{:.1} us", us(of(0))),
        peer: format!("{:.1} us untraced", us(of(1))),
        ratio: Spread::of(
            medians
                .iter()
                .map(|[with, without]| with / without)
                .collect(),
        ),
        target: format!("at most {:+.1} us; {}", P50_NS / 1e3, words(added)),
        standing: Standing::of(added.is_some_and(|added| added.low <= P50_NS)),
        ..Row::new("explained: p50 under load")
    })
}

/// Whether the wake-ups of one decade are distributed alike, or are later by no more than tracing may
/// cost.
fn decade(decade: &Decade, pairs: &[Pair]) -> Row {
    let name = format!("explained: {}", decade.words);
    let less = |cost_ns: f64| -> Vec<Pair> {
        let within = |of: &[f64], cost_ns: f64| {
            let all = of.iter().map(|ns| ns - cost_ns);
            all.filter(|ns| decade.has(*ns)).collect()
        };
        let pair = |[with, without]: &Pair| [within(with, cost_ns), within(without, 0.0)];
        pairs.iter().map(pair).collect()
    };
    let as_read = less(0.0);
    let all = |place: usize| {
        let of = as_read.iter();
        of.flat_map(move |pair| pair[place].iter().copied())
    };
    let of = |place| {
        let spread = Spread::of(all(place).collect());
        let middle = spread.map_or(0.0, |spread| spread.middle / 1e3);
        format!("p50 {middle:.1} us of {}", all(place).count())
    };
    let fewest = all(0).count().min(all(1).count());
    if fewest < FEWEST {
        return Row::not_measured(&name, format!("only {fewest} wake-ups"));
    }
    let (distance, as_far) = swapped(&as_read, Side::Both);
    let (judged, words) = if decade.cost_ns > 0.0 {
        let (later, as_far) = swapped(&less(decade.cost_ns), Side::Later);
        let us = decade.cost_ns / 1e3;
        let words = format!("KS distance {distance:.3}; later by more than {us:.1} us {later:.3}");
        (as_far, words)
    } else {
        (as_far, format!("KS distance {distance:.3}"))
    };
    Row {
        ours: of(0),
        peer: format!("{} untraced", of(1)),
        target: format!(
            "{words}, as far in {:.0} % of swapped pairs (at least {:.0} %)",
            judged * 100.0,
            LEAST_SHARE * 100.0
        ),
        standing: Standing::of(judged >= LEAST_SHARE),
        ..Row::new(&name)
    }
}

/// Which difference counts.
#[derive(Clone, Copy)]
enum Side {
    Both,
    /// The traced ones are later.
    Later,
}

/// The latencies of all wake-ups, of which a short run keeps each.
fn latencies(record: &Value) -> Result<Vec<f64>, String> {
    let mut all = Vec::new();
    for thread in record["threads"].as_array().into_iter().flatten() {
        let peaks = thread["peaks"]
            .as_array()
            .ok_or("the record has no peaks")?;
        if thread["latency"]["count"] != peaks.len() {
            return Err("the record doesn't keep every wake-up".to_owned());
        }
        all.extend(peaks.iter().filter_map(|peak| peak.get(2)?.as_f64()));
    }
    Ok(all)
}

/// How far apart the distributions of all first and all second samples are (Kolmogorov and Smirnov),
/// and in which share of random swaps within pairs they are at least as far.
///
/// Late wake-ups come in bursts, and one run differs from the next: against the textbook's limit, which
/// takes all of them as independent, two samples of one kind would fail. What a pair's two runs were
/// called must not matter, whatever the bursts.
fn swapped(pairs: &[Pair], side: Side) -> (f64, f64) {
    let mut sorted: Vec<(f64, usize, usize)> = Vec::new();
    for (round, pair) in pairs.iter().enumerate() {
        for (place, values) in pair.iter().enumerate() {
            sorted.extend(values.iter().map(|value| (*value, round, place)));
        }
    }
    sorted.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
    let distance = distance(&sorted, &vec![0; pairs.len()], side);
    let mut state = 1u64;
    let mut swap = |_: &Pair| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as usize % 2
    };
    let as_far = (0..SWAPS)
        .filter(|_| {
            let swaps: Vec<usize> = pairs.iter().map(&mut swap).collect();
            self::distance(&sorted, &swaps, side) >= distance - 1e-12
        })
        .count();
    // The pairs as they are count as one of them.
    (distance, (as_far + 1) as f64 / (SWAPS + 1) as f64)
}

/// The largest difference between the shares of two samples up to any value. `sorted` has the pair and
/// the place in it of each value, `swaps` for each pair whether its places are swapped.
fn distance(sorted: &[(f64, usize, usize)], swaps: &[usize], side: Side) -> f64 {
    let who = |(_, round, place): &(f64, usize, usize)| place ^ swaps[*round];
    let second: usize = sorted.iter().map(who).sum();
    let steps = [(sorted.len() - second).max(1), second.max(1)].map(|count| 1.0 / count as f64);
    let mut shares = [0.0; 2];
    let mut largest = 0.0f64;
    for equal in sorted.chunk_by(|(a, ..), (b, ..)| a == b) {
        for value in equal {
            shares[who(value)] += steps[who(value)];
        }
        let later = shares[1] - shares[0];
        largest = largest.max(match side {
            Side::Both => later.abs(),
            Side::Later => later,
        });
    }
    largest
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
    Ok(vec![
        Row {
            target: format!("at most {:+.1} us; {}", P50_NS / 1e3, words(added)),
            standing: Standing::of(added.is_some_and(|added| added.low <= P50_NS)),
            ..p50
        },
        Row {
            target: format!("at most {:+.1} us; {}", OUTLIER_NS / 1e3, words(added_p99)),
            standing: Standing::of(added_p99.is_some_and(|added| added.low <= OUTLIER_NS)),
            ..p99
        },
    ])
}

/// What was added, with its quartiles.
fn words(added: Option<Spread>) -> String {
    added.map_or(String::new(), |s| {
        let [middle, low, high] = [s.middle, s.low, s.high].map(|ns| ns / 1e3);
        format!("{middle:+.1} us [{low:+.1}, {high:+.1}]")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs whose level differs from pair to pair; those with tracing are later by so much.
    fn pairs(added_ns: f64) -> Vec<Pair> {
        let run = |level: usize, added_ns: f64| -> Vec<f64> {
            let within = (0..80).map(|i| (i * 37 + level * 11) % 80);
            let level_ns = level as f64 * 50.0;
            within
                .map(|i| i as f64 * 25.0 + level_ns + added_ns)
                .collect()
        };
        (0..12)
            .map(|level| [run(level, added_ns), run((level * 7 + 3) % 12, 0.0)])
            .collect()
    }

    #[test]
    fn the_same_twice_differs_by_nothing_and_a_later_one_is_found() {
        let of = |words| Decade::new(words, 0.0, f64::INFINITY, 0.0);
        let (distance, as_far) = swapped(&pairs(0.0), Side::Both);
        assert!(distance < 1e-9 && as_far > 0.99, "{distance} {as_far}");
        assert_eq!(decade(&of("same"), &pairs(0.0)).standing, Standing::Met);
        // By a fifth of their width: more than pairs differ among themselves.
        let (distance, as_far) = swapped(&pairs(400.0), Side::Both);
        assert!(distance > 0.1 && as_far < 0.01, "{distance} {as_far}");
        assert_eq!(
            decade(&of("later"), &pairs(400.0)).standing,
            Standing::NotMet
        );
        let few = decade(&of("few"), &[[vec![1.0; 29], vec![2.0; 99]]]);
        assert!(matches!(few.standing, Standing::NotMeasured(_)));
    }

    #[test]
    fn later_by_the_allowed_cost_is_alike_and_by_more_is_not() {
        let of = Decade::new("cost", -f64::INFINITY, f64::INFINITY, 500.0);
        for (added_ns, standing) in [
            (0.0, Standing::Met),
            (450.0, Standing::Met),
            (500.0, Standing::Met),
            (900.0, Standing::NotMet),
        ] {
            assert_eq!(
                decade(&of, &pairs(added_ns)).standing,
                standing,
                "{added_ns}"
            );
        }
        // Earlier is never later, whatever the distance.
        let (later, _) = swapped(&pairs(-400.0), Side::Later);
        let (distance, _) = swapped(&pairs(-400.0), Side::Both);
        assert!(later < 0.05 && distance > 0.1, "{later} {distance}");
    }

    #[test]
    fn shares_are_compared_after_all_equal_values() {
        let sorted = [(1.0, 0, 0), (1.0, 0, 1), (2.0, 0, 0), (3.0, 0, 1)];
        assert!((distance(&sorted, &[0], Side::Both) - 0.5).abs() < 1e-9);
        let apart = [(1.0, 0, 0), (2.0, 0, 1)];
        assert!((distance(&apart, &[1], Side::Both) - 1.0).abs() < 1e-9);
        assert!((distance(&apart, &[1], Side::Later) - 1.0).abs() < 1e-9);
        assert!(distance(&apart, &[0], Side::Later).abs() < 1e-9);
    }

    #[test]
    fn the_latencies_of_a_record_are_those_of_every_wake_up() {
        let thread = |count| {
            serde_json::json!({"threads": [
                {"latency": {"count": count}, "peaks": [[0, 1, 70], [1, 2, 50]]}
            ]})
        };
        assert_eq!(latencies(&thread(2)), Ok(vec![70.0, 50.0]));
        assert!(latencies(&thread(3)).is_err());
    }
}
