//! The shortest interval that is sustained with nothing missed, on an idle CPU.
//!
//! A period is missed when a wake-up is as late as the interval is long. We count
//! those; cyclictest passes over them in silence, but its maximum tells.

use std::process::Command;

use super::row::{Row, Spread, Standing};
use super::tools::{self, Tools};

/// Intervals that are tried, in us, the easiest first.
const LADDER: [u64; 16] = [
    500, 350, 250, 180, 130, 95, 70, 50, 40, 30, 24, 18, 14, 11, 8, 6,
];
const ROUNDS: usize = 5;
/// A stall of the whole machine is not for the tool to answer: the best of as many.
const ATTEMPTS: usize = 4;
/// Length of an attempt: below the second after which the kernel throttles.
const LENGTH_US: u64 = 200_000;

pub fn rows(tools: &Tools) -> Result<Vec<Row>, String> {
    let name = "highest rate with nothing missed";
    if let Err(reason) =
        tools::may_be_real_time().and_then(|()| tools::peer("cyclictest", "rt-tests"))
    {
        return Ok(vec![Row::not_measured(name, reason)]);
    }
    let (mut ours, mut theirs, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let own = shortest(|interval_us| sustained_by_us(tools, interval_us))?;
        let other = shortest(|interval_us| sustained_by_cyclictest(tools, interval_us))?;
        let (Some(own), Some(other)) = (own, other) else {
            let easiest = LADDER[0];
            let reason = format!("not even {easiest} us are sustained: this machine is too busy");
            return Ok(vec![Row::not_measured(name, reason)]);
        };
        ours.push(own as f64);
        theirs.push(other as f64);
        ratios.push(other as f64 / own as f64);
    }
    let rate = |intervals: Vec<f64>| {
        let middle = Spread::of(intervals).map_or(0.0, |spread| spread.middle);
        format!("{:.0}/s ({middle:.0} us)", 1e6 / middle)
    };
    let ratio = Spread::of(ratios);
    Ok(vec![Row {
        ours: rate(ours),
        peer: format!("{} cyclictest", rate(theirs)),
        ratio,
        target: "at least 1.0 within noise".to_owned(),
        standing: Standing::of(ratio.is_some_and(|ratio| ratio.high >= 1.0)),
        ..Row::new(name)
    }])
}

/// The shortest interval of the ladder that is sustained, by halving.
fn shortest(mut sustained: impl FnMut(u64) -> Result<bool, String>) -> Result<Option<u64>, String> {
    // All below `good` are sustained, `bad` and above are not.
    let (mut good, mut bad) = (0, LADDER.len());
    while good < bad {
        let middle = (good + bad) / 2;
        let mut well = false;
        for _ in 0..ATTEMPTS {
            well = sustained(LADDER[middle])?;
            if well {
                break;
            }
        }
        if well {
            good = middle + 1;
        } else {
            bad = middle;
        }
    }
    Ok(good.checked_sub(1).map(|index| LADDER[index]))
}

fn sustained_by_us(tools: &Tools, interval_us: u64) -> Result<bool, String> {
    let cycles = LENGTH_US / interval_us;
    let line = format!(
        "-i {interval_us} -l {cycles} -a {} -p 80 --no-explain",
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
    fn halving_finds_the_border() {
        for limit in LADDER {
            assert_eq!(shortest(|us| Ok(us >= limit)), Ok(Some(limit)));
        }
        assert_eq!(shortest(|_| Ok(false)), Ok(None));
    }

    #[test]
    fn the_maximum_in_cyclictests_line() {
        let line =
            "T: 0 ( 1307) P:80 I:1000 C:    500 Min:     13 Act:   13 Avg:   18 Max:      77\n";
        assert_eq!(maximum(line), Some(77));
    }
}
