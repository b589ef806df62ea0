//! Values with units: times, probabilities, percentiles.

use std::error::Error;
use std::fmt;

use punctual_record::time::parse_length;
use punctual_stats::requirement::Requirement;

/// The longest time that a flag accepts: ten years.
const LONGEST_NS: u64 = 10 * 365 * 86_400 * 1_000_000_000;

/// What a value is expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// A latency.
    Latency,
    /// CPU time per second.
    LeastCpu,
    /// The length of a run.
    Duration,
    /// An interval.
    Interval,
    /// The probability of a miss.
    Miss,
    /// Episodes an hour.
    Episodes,
    /// A level of confidence.
    Confidence,
    /// A percentile and its limit.
    Percentile,
    /// A mark's name and its limit.
    MarkLimit,
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected ")?;
        f.write_str(match self {
            Self::Latency => {
                "a time above 0 such as 100us, 1.5ms or 20000ns; a bare number is in us"
            }
            Self::LeastCpu => {
                "0, or a CPU time such as 500us or 10ms per second; a bare number is in us"
            }
            Self::Duration => {
                "a time above 0 such as 60, 500ms, 5m, 1h or 1d; a bare number is in s"
            }
            Self::Interval => {
                "an interval from 1us to 1h such as 1000, 250us or 1ms; a bare number is in us"
            }
            Self::Miss => "a probability from 0 (no miss seen) to below 1, such as 1e-4; the least above 0 is 1e-18",
            Self::Episodes => "a number of episodes an hour or a day, at most 300 an hour, such as 2/h or 3/d",
            Self::Confidence => "a level from 0.5 to 0.999999, such as 0.95",
            Self::Percentile => "a percentile and its limit, such as 99.99=50us",
            Self::MarkLimit => "a mark's name and its limit, such as 'step()=500us'",
        })
    }
}

impl Error for Expected {}

fn time(text: &str, bare_unit_ns: u64, expected: Expected) -> Result<u64, Expected> {
    let ns = parse_length(text, bare_unit_ns).ok_or(expected)?;
    if ns == 0 || ns > LONGEST_NS {
        return Err(expected);
    }
    Ok(ns)
}

/// A latency or an interval: `100us`, `1.5ms`; a bare number is in µs, as
/// cyclictest has it.
pub fn latency(text: &str) -> Result<u64, Expected> {
    time(text, 1_000, Expected::Latency)
}

/// CPU time per second: as [`latency`], or 0.
pub fn least_cpu(text: &str) -> Result<u64, Expected> {
    if text.trim() == "0" {
        return Ok(0);
    }
    time(text, 1_000, Expected::LeastCpu)
}

/// The length of a run: `60`, `90s`, `5m`, `1h`, `1d`; a bare number is in seconds.
pub fn duration(text: &str) -> Result<u64, Expected> {
    time(text, 1_000_000_000, Expected::Duration)
}

/// An interval between 1 µs and 1 h.
pub fn interval(text: &str) -> Result<u64, Expected> {
    let ns = time(text, 1_000, Expected::Interval)?;
    if (1_000..=3_600_000_000_000).contains(&ns) {
        Ok(ns)
    } else {
        Err(Expected::Interval)
    }
}

/// The allowed probability of a miss: 0 up to, not including, 1.
pub fn miss(text: &str) -> Result<f64, Expected> {
    match text.trim().parse::<f64>() {
        // What is too small to be told from none is no 0 of the user's.
        Ok(allowed) if (1e-18..1.0).contains(&allowed) => Ok(allowed),
        Ok(0.0) if !text.contains(|it: char| ('1'..='9').contains(&it)) => Ok(0.0),
        _ => Err(Expected::Miss),
    }
}

/// A level of confidence.
pub fn confidence(text: &str) -> Result<f64, Expected> {
    match text.trim().parse::<f64>() {
        Ok(level) if (0.5..=0.999_999).contains(&level) => Ok(level),
        _ => Err(Expected::Confidence),
    }
}

/// `99.99=50us`.
pub fn percentile(text: &str) -> Result<Requirement, Expected> {
    let refused = || Expected::Percentile;
    let (percentile, limit) = text.split_once('=').ok_or_else(refused)?;
    let percentile: f64 = percentile.trim().parse().map_err(|_| refused())?;
    if !(percentile > 0.0 && percentile < 100.0) {
        return Err(refused());
    }
    Ok(Requirement::Percentile {
        percentile,
        limit_ns: latency(limit).map_err(|_| refused())?,
    })
}

/// `2/h`, `0.5/h`, `3/d`: episodes an hour.
pub fn episodes(text: &str) -> Result<f64, Expected> {
    let refused = || Expected::Episodes;
    let (count, per) = text.split_once('/').ok_or_else(refused)?;
    let hours = match per.trim() {
        "h" => 1.0,
        "d" => 24.0,
        _ => return Err(refused()),
    };
    let count: f64 = count.trim().parse().map_err(|_| refused())?;
    let per_hour = count / hours;
    (1e-9..=300.0)
        .contains(&per_hour)
        .then_some(per_hour)
        .ok_or_else(refused)
}

/// `step()=500us`: a mark's name, which may hold anything but `=`, and its limit in ns.
pub fn mark_limit(text: &str) -> Result<(String, u64), Expected> {
    let refused = || Expected::MarkLimit;
    let (name, limit) = text.rsplit_once('=').ok_or_else(refused)?;
    let limit_ns = latency(limit).map_err(|_| refused())?;
    match name.trim() {
        "" => Err(refused()),
        name => Ok((name.to_owned(), limit_ns)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bare_numbers_are_cyclictests_units() {
        assert_eq!(latency("100"), Ok(100_000));
        assert_eq!(interval("1000"), Ok(1_000_000));
        assert_eq!(duration("60"), Ok(60_000_000_000));
    }

    #[test]
    fn units_are_exact() {
        assert_eq!(latency("1.5ms"), Ok(1_500_000));
        assert_eq!(latency("0.1us"), Ok(100));
        assert_eq!(latency("123456789ns"), Ok(123_456_789));
        assert_eq!(latency("20 µs"), Ok(20_000));
        assert_eq!(duration("5m"), Ok(300_000_000_000));
        assert_eq!(duration("1h"), Ok(3_600_000_000_000));
        assert_eq!(duration("1d"), Ok(86_400_000_000_000));
    }

    #[test]
    fn nonsense_is_refused_with_what_is_accepted() {
        for text in [
            "",
            "0",
            "0us",
            "-5",
            "5 parsecs",
            "1e3",
            "1.2.3",
            "us",
            ".",
            "99999999999999999999",
            "100000d",
            "nan",
        ] {
            assert_eq!(latency(text), Err(Expected::Latency), "{text}");
            assert_eq!(duration(text), Err(Expected::Duration), "{text}");
        }
        for text in ["0.5us", "2h", "999ns"] {
            assert!(interval(text).is_err(), "{text}");
        }
        for text in ["-0.1", "1", "2", "nan", "inf", "", "x"] {
            assert!(miss(text).is_err(), "{text}");
        }
        for text in ["0", "1", "95", "nan", ""] {
            assert!(confidence(text).is_err(), "{text}");
        }
        for text in [
            "99.99", "99.99=", "=50us", "0=5us", "100=5us", "nan=5us", "50=0",
        ] {
            assert!(percentile(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_panic(text in "\\PC{0,24}") {
            let _ = (latency(&text), duration(&text), interval(&text));
            let _ = (miss(&text), confidence(&text), percentile(&text));
        }

        #[test]
        fn what_is_written_in_ns_is_read_as_it_is(ns in 1u64..LONGEST_NS) {
            prop_assert_eq!(latency(&format!("{ns}ns")), Ok(ns));
        }
    }
}
