//! Instants as text, in UTC: no time zone can be got wrong. Lengths of time, as people write them.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

const UNITS: [(&str, u64); 10] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("min", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

fn written(at: SystemTime, form: &str) -> String {
    // A clock that is set to before 1970 or beyond 9999 is wrong in any case.
    let at = Timestamp::try_from(at.max(SystemTime::UNIX_EPOCH)).unwrap_or(Timestamp::MAX);
    at.strftime(form).to_string()
}

fn parsed(at: Timestamp) -> Option<SystemTime> {
    let at = SystemTime::try_from(at).ok()?;
    (at >= SystemTime::UNIX_EPOCH).then_some(at)
}

/// `2026-11-21T02:46:09Z`.
#[must_use]
pub fn rfc3339(at: SystemTime) -> String {
    written(at, "%Y-%m-%dT%H:%M:%SZ")
}

/// `20261121T024609`: for file names.
#[must_use]
pub fn compact(at: SystemTime) -> String {
    written(at, "%Y%m%dT%H%M%S")
}

/// Reads `2026-11-21T02:46:09Z`, the form that [`rfc3339`] writes.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    let at = parsed(text.parse().ok()?)?;
    (rfc3339(at) == text).then_some(at)
}

/// Reads `Sat, 21 Nov 2026 02:49:24 +0000`, the form of RFC 2822 that rt-tests write.
#[must_use]
pub fn parse_rfc2822(text: &str) -> Option<SystemTime> {
    let parser = DateTimeParser::new().relaxed_weekday(true);
    parsed(parser.parse_timestamp(text).ok()?)
}

/// Writes the form of RFC 2822 that rt-tests write.
#[must_use]
pub fn rfc2822(at: SystemTime) -> String {
    written(at, "%a, %d %b %Y %H:%M:%S +0000")
}

/// Reads a length of time as people write it: `100us`, `1.5ms`, `2 h`; a number without a unit counts
/// in units of `bare_unit_ns`. Exact: the value is never a floating-point number.
#[must_use]
pub fn parse_length(text: &str, bare_unit_ns: u64) -> Option<u64> {
    let text = text.trim();
    let digits_end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let unit = unit.trim();
    let unit_ns = if unit.is_empty() {
        bare_unit_ns
    } else {
        UNITS.iter().find(|(name, _)| *name == unit)?.1
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let parse = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u64>().ok(),
    };
    let scale = 10u128.pow(fraction.len() as u32);
    let value = u128::from(parse(whole)?) * scale + u128::from(parse(fraction)?);
    u64::try_from(value * u128::from(unit_ns) / scale).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn known_instants() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_229_169);
        assert_eq!(rfc3339(at), "2026-11-21T02:46:09Z");
        assert_eq!(compact(at), "20261121T024609");
        assert_eq!(rfc2822(at), "Sat, 21 Nov 2026 02:46:09 +0000");
        assert_eq!(parse_rfc2822("Sat, 21 Nov 2026 03:46:09 +0100"), Some(at));
        assert_eq!(parse_rfc2822("Fri, 20 Nov 2026 21:16:09 -0530"), Some(at));
    }

    #[test]
    fn every_day_of_four_centuries_comes_back() {
        for day in 0..146_097_u64 {
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400 + day % 86_400);
            assert_eq!(parse_rfc3339(&rfc3339(at)), Some(at));
            assert_eq!(parse_rfc2822(&rfc2822(at)), Some(at));
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "2026-13-01T00:00:00Z",
            "2026-1é-01T00:00:0Z",
            "99999999999999999999",
            "2026-02-29T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2026-11-21T02:46:09",
            "2026-11-21T02:46:09+00:00",
            "2026-11-21 02:46:09Z",
            "2026-11-21T02:46:09.5Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
            assert_eq!(parse_rfc2822(text), None, "{text}");
        }
        assert_eq!(parse_rfc2822("x, 1 Jan 1970 00:00:00 é000"), None);
    }

    #[test]
    fn a_clock_that_is_set_wrong_is_written_all_the_same() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(rfc3339(before), "1970-01-01T00:00:00Z");
        let beyond = SystemTime::UNIX_EPOCH + Duration::from_secs(300_000_000_000);
        assert_eq!(compact(beyond), "99991230T220000");
    }
}
