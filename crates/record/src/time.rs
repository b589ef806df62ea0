//! Instants as text, in UTC: no time zone can be got wrong.

use std::time::{Duration, SystemTime};

/// A calendar date and time in UTC.
struct Civil {
    year: i64,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

/// Proleptic Gregorian calendar, from days since 1970-01-01
/// (<https://howardhinnant.github.io/date_algorithms.html>).
fn civil(at: SystemTime) -> Civil {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    let seconds = since.as_secs();
    let days = i64::try_from(seconds / 86_400).unwrap_or(0);
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let of_day = seconds % 86_400;
    Civil {
        year,
        month: month as u32,
        day: day as u32,
        hour: (of_day / 3600) as u32,
        minute: (of_day / 60 % 60) as u32,
        second: (of_day % 60) as u32,
    }
}

/// `2026-11-21T02:46:09Z`.
#[must_use]
pub fn rfc3339(at: SystemTime) -> String {
    let c = civil(at);
    format!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        c.year, c.month, c.day, c.hour, c.minute, c.second
    )
}

/// `20261121T024609`: for file names.
#[must_use]
pub fn compact(at: SystemTime) -> String {
    let c = civil(at);
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}",
        c.year, c.month, c.day, c.hour, c.minute, c.second
    )
}

const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Seconds since the epoch of a civil date and time in UTC.
fn seconds_since_epoch(c: &Civil) -> Option<i64> {
    if !(1970..=9999).contains(&c.year)
        || !(1..=12).contains(&c.month)
        || !(1..=31).contains(&c.day)
        || c.hour > 23
        || c.minute > 59
        || c.second > 60
    {
        return None;
    }
    let year = c.year - i64::from(c.month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted = i64::from(if c.month > 2 {
        c.month - 3
    } else {
        c.month + 9
    });
    let day_of_year = (153 * shifted + 2) / 5 + i64::from(c.day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some(days * 86_400 + i64::from(c.hour) * 3600 + i64::from(c.minute) * 60 + i64::from(c.second))
}

/// Reads `2026-11-21T02:46:09Z`, the form that [`rfc3339`] writes.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    let b = text.as_bytes();
    if b.len() != 20 || b[4] != b'-' || b[7] != b'-' || b[10] != b'T' || b[13] != b':' {
        return None;
    }
    if b[16] != b':' || b[19] != b'Z' {
        return None;
    }
    let number = |from: usize, to: usize| -> Option<u32> {
        let digits = b.get(from..to)?;
        digits.iter().all(u8::is_ascii_digit).then_some(())?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    at(&Civil {
        year: i64::from(number(0, 4)?),
        month: number(5, 7)?,
        day: number(8, 10)?,
        hour: number(11, 13)?,
        minute: number(14, 16)?,
        second: number(17, 19)?,
    })
}

fn at(c: &Civil) -> Option<SystemTime> {
    let seconds = u64::try_from(seconds_since_epoch(c)?).ok()?;
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

/// Reads `Sat, 21 Nov 2026 02:49:24 +0000`, the form of RFC 2822 that rt-tests write.
#[must_use]
pub fn parse_rfc2822(text: &str) -> Option<SystemTime> {
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split_ascii_whitespace();
    let day = words.next()?.parse().ok()?;
    let name = words.next()?;
    let month = u32::try_from(MONTHS.iter().position(|m| *m == name)?).ok()? + 1;
    let year = words.next()?.parse().ok()?;
    let mut clock = words.next()?.split(':');
    let hour = clock.next()?.parse().ok()?;
    let minute = clock.next()?.parse().ok()?;
    let second = clock.next()?.parse().ok()?;
    let zone = words.next()?;
    let local = at(&Civil {
        year,
        month,
        day,
        hour,
        minute,
        second,
    })?;
    let (sign, digits) = zone.split_at_checked(1)?;
    if digits.len() != 4 || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let hhmm: u64 = digits.parse().ok()?;
    let offset = Duration::from_secs((hhmm / 100) * 3600 + (hhmm % 100) * 60);
    match sign {
        "+" => local.checked_sub(offset),
        "-" => local.checked_add(offset),
        _ => None,
    }
}

/// Writes the form of RFC 2822 that rt-tests write.
#[must_use]
pub fn rfc2822(at: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let days = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs() / 86_400);
    let c = civil(at);
    format!(
        "{}, {:02} {} {:04} {:02}:{:02}:{:02} +0000",
        DAYS[(days % 7) as usize],
        c.day,
        MONTHS[c.month as usize - 1],
        c.year,
        c.hour,
        c.minute,
        c.second
    )
}

#[cfg(test)]
mod tests {
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
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
            assert_eq!(parse_rfc2822(text), None, "{text}");
        }
        assert_eq!(parse_rfc2822("x, 1 Jan 1970 00:00:00 é000"), None);
    }
}
