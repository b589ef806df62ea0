//! The shortest interval that is sustained with no skipped period, on an idle CPU.
//!
//! A period is skipped when a wake-up is as late as the interval is long. We count
//! those; cyclictest passes over them in silence, but its maximum tells.

use std::process::Command;

use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools};

/// Intervals that are tried, in us, the easiest first: each a seventh or less below the one before,
/// as far as they are whole microseconds.
const LADDER: [u64; 32] = [
    500, 430, 370, 320, 275, 237, 204, 176, 151, 130, 112, 97, 84, 73, 63, 55, 48, 42, 37, 32, 28,
    24, 21, 18, 16, 14, 12, 10, 9, 8, 7, 6,
];
const ROUNDS: usize = 15;
/// A stall of the whole machine is not for the tool to answer: the best of as many.
const ATTEMPTS: usize = 4;
/// Length of an attempt: below the second after which the kernel throttles.
const LENGTH_US: u64 = 200_000;

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    let name = "highest rate with no skipped period";
    if let Err(reason) =
        tools::may_be_real_time().and_then(|()| tools::peer("cyclictest", "rt-tests"))
    {
        return Ok(vec![Row::not_measured(name, reason)]);
    }
    let mut intervals: [Vec<f64>; 2] = Default::default();
    for round in 0..ROUNDS {
        let sustained = |who: usize, interval_us| match who {
            0 => sustained_by_us(tools, interval_us),
            _ => sustained_by_cyclictest(tools, interval_us),
        };
        let [Some(own), Some(other)] = side_by_side(round, sustained)? else {
            let easiest = LADDER[0];
            let reason = format!("not even {easiest} us are sustained: this machine is too busy");
            return Ok(vec![Row::not_measured(name, reason)]);
        };
        intervals[0].push(own as f64);
        intervals[1].push(other as f64);
    }
    let [ours, theirs] = intervals;
    let ratios = ours.iter().zip(&theirs).map(|(own, other)| other / own);
    let ratio = Spread::of(ratios.collect());
    let rate = |intervals: Vec<f64>| {
        let middle = Spread::of(intervals).map_or(0.0, |spread| spread.middle);
        format!("{:.0}/s ({middle:.0} us)", 1e6 / middle)
    };
    Ok(vec![Row {
        ours: rate(ours),
        peer: format!("{} cyclictest", rate(theirs)),
        ratio,
        target: "at least 1.0 within noise".to_owned(),
        standing: Standing::of(ratio.is_some_and(|ratio| ratio.high >= 1.0)),
        ..Row::new(name)
    }])
}

/// The shortest interval of each of two that is sustained. They take turns attempt by attempt, so
/// that both meet the same machine; `first` says who begins.
fn side_by_side(
    first: usize,
    mut sustained: impl FnMut(usize, u64) -> Result<bool, String>,
) -> Result<[Option<u64>; 2], String> {
    let mut searches = [Search::NEW; 2];
    let mut turn = first;
    while !searches.iter().all(Search::is_over) {
        for who in [turn % 2, (turn + 1) % 2] {
            let search = &mut searches[who];
            if !search.is_over() {
                let well = sustained(who, LADDER[search.middle()])?;
                search.attempted(well);
            }
        }
        turn += 1;
    }
    Ok(searches.map(Search::found))
}

/// The shortest interval of the ladder that is sustained, by halving.
#[derive(Debug, Clone, Copy)]
struct Search {
    /// All below are sustained.
    good: usize,
    /// This one and those above are not.
    bad: usize,
    /// At the one between.
    attempts: usize,
}

impl Search {
    const NEW: Self = Self {
        good: 0,
        bad: LADDER.len(),
        attempts: 0,
    };

    fn is_over(&self) -> bool {
        self.good == self.bad
    }

    fn middle(&self) -> usize {
        (self.good + self.bad) / 2
    }

    fn attempted(&mut self, well: bool) {
        let middle = self.middle();
        self.attempts += 1;
        if well {
            self.good = middle + 1;
        } else if self.attempts == ATTEMPTS {
            self.bad = middle;
        } else {
            return;
        }
        self.attempts = 0;
    }

    fn found(self) -> Option<u64> {
        self.good.checked_sub(1).map(|index| LADDER[index])
    }
}

fn sustained_by_us(tools: &Tools, interval_us: u64) -> Result<bool, String> {
    let cycles = LENGTH_US / interval_us;
    // A fixed interval, as cyclictest has.
    let line = format!(
        "-i {interval_us} --interval fixed -l {cycles} -a {} -p 80 --no-explain",
        tools.cpu
    );
    let more: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let record = tools.measure("rate", &more)?;
    let thread = &record["threads"][0];
    let all = thread["latency"]["count"] == cycles;
    Ok(all && thread["missed"] == 0 && thread["lost"] == 0)
}

fn sustained_by_cyclictest(tools: &Tools, interval_us: u64) -> Result<bool, String> {
    let cycles = LENGTH_US / interval_us;
    let line = format!(
        "-q -m -N -i {interval_us} -l {cycles} -t 1 -a {} -p 80",
        tools.cpu
    );
    let text = tools::output(Command::new("cyclictest").args(line.split_whitespace()))?;
    let max_ns = maximum(&text).ok_or("cyclictest prints no maximum")?;
    Ok(max_ns < interval_us * 1000)
}

fn maximum(text: &str) -> Option<u64> {
    let (_, rest) = text.rsplit_once("Max:")?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halving_finds_the_border_of_each() {
        for limit in LADDER {
            let either = |who, us| Ok(us >= [limit, 100][who]);
            assert_eq!(side_by_side(0, either), Ok([Some(limit), Some(112)]));
        }
        let neither = |who, us| Ok(who == 1 && us > 100);
        assert_eq!(side_by_side(1, neither), Ok([None, Some(112)]));
    }

    #[test]
    fn the_best_of_the_attempts_counts_and_both_take_turns() {
        let mut tried = Vec::new();
        let stalled = |who, us| {
            tried.push((who, us));
            // Each third attempt is without a stall.
            let at_this = tried.iter().filter(|other| **other == (who, us)).count();
            Ok(us >= 100 && at_this == 3)
        };
        assert_eq!(side_by_side(0, stalled), Ok([Some(112), Some(112)]));
        let middle = LADDER[LADDER.len() / 2];
        assert_eq!(
            tried[..4],
            [(0, middle), (1, middle), (1, middle), (0, middle)]
        );
    }

    #[test]
    fn the_maximum_in_cyclictests_line() {
        let line =
            "T: 0 ( 1307) P:80 I:1000 C:    500 Min:     13 Act:   13 Avg:   18 Max:      77\n";
        assert_eq!(maximum(line), Some(77));
    }
}
