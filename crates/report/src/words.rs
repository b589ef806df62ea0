//! Figures and names in words: `punctual_stats::format` and what reports need
//! beside it.

pub use punctual_record::cpu_list;
use punctual_record::live::RowsAre;
pub use punctual_record::text::{clean, shortened};
pub use punctual_stats::format::{count, duration, duration_f64, percent, probability, share};

/// A latency as a bare number of µs with three significant digits, for tables
/// whose heading names the unit: `1.93`, `12.4`, `104`, `26,012`.
#[must_use]
pub fn micros(ns: f64) -> String {
    bare(ns, 1e3)
}

/// The same in a unit of so many ns.
#[must_use]
pub fn bare(ns: f64, unit: f64) -> String {
    let value = if ns.is_finite() {
        ns.max(0.0) / unit
    } else {
        0.0
    };
    match value {
        0.0 => "0".to_owned(),
        v if v < 0.9995 => format!("{v:.3}"),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => count(v.round() as u64),
    }
}

/// A count in few characters: `9,999`, `12.3k`, `3.60M`, `1.20G`.
#[must_use]
pub fn short_count(count: u64) -> String {
    let value = count as f64;
    let three = |v: f64| match v {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    };
    match value {
        v if v < 1e4 => self::count(count),
        v if v < 999.5e3 => format!("{}k", three(v / 1e3)),
        v if v < 999.5e6 => format!("{}M", three(v / 1e6)),
        v if v < 999.5e9 => format!("{}G", three(v / 1e9)),
        v => format!("{v:.1e}"),
    }
}

/// Time since the start of a measurement, to the millisecond: `6:52.503`,
/// `1:02:03.004`.
#[must_use]
pub fn instant(ns: u64) -> String {
    format!("{}.{:03}", clock(ns), ns / 1_000_000 % 1000)
}

/// A clock face for progress: `59 s` is `0:59`, an hour `1:00:00`.
#[must_use]
pub fn clock(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 {
        format!("{hours}:{minutes:02}:{seconds:02}")
    } else {
        format!("{minutes}:{seconds:02}")
    }
}

/// A rate with its unit: `12,300 messages/s`.
#[must_use]
pub fn rate(rate: f64, unit: &str) -> String {
    let rate = if rate.is_finite() {
        rate.clamp(0.0, 1e18)
    } else {
        0.0
    };
    if unit == "bytes" {
        return format!("{}/s", bytes(rate.round() as u64));
    }
    if rate < 99.95 {
        format!("{rate:.1} {unit}/s")
    } else {
        format!("{} {unit}/s", count(rate.round() as u64))
    }
}

/// A number of bytes: `8.0 GiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 {
        format!("{bytes} B")
    } else {
        format!("{value:.1} {}", UNITS[unit])
    }
}

/// What a row of a table is called.
#[must_use]
pub fn row(rows: RowsAre) -> &'static str {
    match rows {
        RowsAre::Cpus => "CPU",
        RowsAre::Threads => "thread",
    }
}

/// One of two words by a count: `1 sample`, `2 samples`.
#[must_use]
pub fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// The name of a thread, clean, and no longer than the kernel's are with their numbers: one
/// from elsewhere would leave a table no room for its figures.
#[must_use]
pub fn label(name: &str) -> String {
    shortened(name, 26)
}

/// A text in ASCII, for terminals and fonts that know no more.
#[must_use]
pub fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => out.push(c),
            'µ' | 'μ' => out.push('u'),
            '—' | '–' | '─' => out.push('-'),
            '·' => out.push('|'),
            '…' => out.push_str("..."),
            '≤' => out.push_str("<="),
            '≥' => out.push_str(">="),
            '→' => out.push_str("->"),
            '‹' => out.push('<'),
            '“' | '”' => out.push('"'),
            '’' => out.push('\''),
            _ => out.push('?'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_written_as_ranges() {
        assert_eq!(cpu_list(&[5, 0, 1, 2, 3, 3]), "0-3,5");
        assert_eq!(cpu_list(&[]), "none");
        assert_eq!(cpu_list(&[usize::MAX]), usize::MAX.to_string());
    }

    #[test]
    fn numbers_keep_three_digits() {
        assert_eq!(micros(1_934.0), "1.93");
        assert_eq!(micros(12_440.0), "12.4");
        assert_eq!(micros(104_300.0), "104");
        assert_eq!(micros(26_012_345.0), "26,012");
        assert_eq!(micros(f64::NAN), "0");
        assert_eq!(short_count(5_191), "5,191");
        assert_eq!(short_count(3_600_000), "3.60M");
        assert_eq!(short_count(u64::MAX), "1.8e19");
        assert_eq!(bytes(8 << 30), "8.0 GiB");
        assert_eq!(rate(f64::INFINITY, "x"), "0.0 x/s");
    }

    #[test]
    fn times_are_read_from_a_clock() {
        assert_eq!(instant(412_503_000_000), "6:52.503");
        assert_eq!(instant(3_723_004_000_000), "1:02:03.004");
        assert_eq!(clock(59_000_000_000), "0:59");
        assert_eq!(clock(3_600_000_000_000), "1:00:00");
    }

    #[test]
    fn a_hostile_text_cannot_drive_the_terminal() {
        assert_eq!(ascii("50 µs — ok…"), "50 us - ok...");
    }
}
