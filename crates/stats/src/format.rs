//! Figures as people read them, the same everywhere.

use crate::shares::Shares;

/// A latency or duration: `850 ns`, `99.4 µs`, `1.52 ms`, `25 min`, `4.5 h`. Three
/// significant digits; fewer only where they say it exactly: 8,000 µs is `8 ms`, 8,002 µs
/// is `8.00 ms`.
pub fn duration(ns: u64) -> String {
    duration_f64(ns as f64)
}

/// As [`duration`], for computed values in ns.
pub fn duration_f64(ns: f64) -> String {
    const UNITS: [(f64, &str); 7] = [
        (1.0, "ns"),
        (1e3, "µs"),
        (1e6, "ms"),
        (1e9, "s"),
        (60e9, "min"),
        (3600e9, "h"),
        (86_400e9, "d"),
    ];
    if !ns.is_finite() {
        return "unbounded".to_owned();
    }
    let ns = ns.max(0.0);
    let mut chosen = UNITS.len() - 1;
    for (i, window) in UNITS.windows(2).enumerate() {
        // Round first: 999.96 µs is 1 ms; seconds go on to two minutes.
        let next = if window[1].1 == "min" {
            120e9
        } else {
            window[1].0
        };
        let rounded = significant(ns / window[0].0) * window[0].0;
        if rounded < next * (1.0 - 1e-12) {
            chosen = i;
            break;
        }
    }
    let (unit, name) = UNITS[chosen];
    if unit == 1.0 {
        return format!("{:.0} ns", ns);
    }
    format!("{} {name}", exact_or_three_digits(ns / unit))
}

fn exact_or_three_digits(value: f64) -> String {
    if value >= 999.5 {
        return count(value.round() as u64);
    }
    let short = three_digits(value);
    let exact = short
        .parse()
        .is_ok_and(|read: f64| (read - value).abs() <= value * 1e-12);
    if exact {
        short
    } else {
        format!("{value:.*}", decimals(value))
    }
}

/// Rounds to three significant digits, whole numbers above.
fn significant(value: f64) -> f64 {
    let scale = 10f64.powi(decimals(value) as i32);
    (value * scale).round() / scale
}

fn decimals(value: f64) -> usize {
    // 9.996 has three digits as 10.0.
    match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    }
}

fn three_digits(value: f64) -> String {
    let text = format!("{value:.*}", decimals(value));
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

/// A count with thousands separators: `3,600,000`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A probability as "1 in 1.2 million"; "0" for nothing, percent from 1 in 20 on.
pub fn probability(probability: f64) -> String {
    if probability.is_nan() || probability <= 0.0 {
        return "0".to_owned();
    }
    if probability >= 0.05 {
        return format!("{} %", three_digits((probability * 100.0).min(100.0)));
    }
    format!("1 in {}", large(1.0 / probability))
}

/// A large number in words: `950`, `12,000`, `1.2 million`, `3 billion`.
/// Rounded down to two or three digits, so that "1 in …" never claims more
/// than was shown.
pub fn large(value: f64) -> String {
    let floor_to = |value: f64, decimals: i32| {
        let scale = 10f64.powi(decimals);
        (value * scale + 1e-9).floor() / scale
    };
    match value {
        v if !v.is_finite() => "infinity".to_owned(),
        v if v < 1e3 => three_digits(floor_to(v, i32::from(v < 100.0))),
        v if v < 1e6 => {
            let unit = 10f64.powi(v.log10().floor() as i32 - 2);
            count((v / unit + 1e-9).floor() as u64 * unit as u64)
        }
        v if v < 1e9 => format!(
            "{} million",
            three_digits(floor_to(v / 1e6, one_digit(v, 1e6)))
        ),
        v if v < 1e12 => format!(
            "{} billion",
            three_digits(floor_to(v / 1e9, one_digit(v, 1e9)))
        ),
        v => format!("{v:.1e}"),
    }
}

fn one_digit(value: f64, unit: f64) -> i32 {
    i32::from(value < 100.0 * unit)
}

/// A confidence or share as `95 %`, `99.9 %`.
pub fn percent(share: f64) -> String {
    let percent = (share * 1e8).round() / 1e6;
    format!("{percent} %")
}

/// A measured share or probability, two significant digits: `4.0 %`, `0.35 %`,
/// `0.010 %`, below 0.01 % as `3.2e-6`; "0" for nothing. [`Shares`] is for several of one
/// sentence.
pub fn share(share: f64) -> String {
    Shares::for_values(&[share]).text(share)
}
