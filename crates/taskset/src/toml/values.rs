//! Values that say what was expected where they can't be read.

use std::fmt;

use punctual_record::time::parse_length;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

/// The longest time of a task: a day.
const LONGEST_NS: u64 = 86_400_000_000_000;

/// How long a set may run: ten years.
const LONGEST_RUN_NS: u64 = 3_650 * LONGEST_NS;

/// The largest area of memory.
const MOST_BYTES: u64 = 1 << 40;

/// A length of time above 0, in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time(pub u64);

/// That of a time in text.
pub(super) fn time<E: Error>(text: &str) -> Result<u64, E> {
    let ns = parse_length(text, 1_000).filter(|ns| (1..=LONGEST_NS).contains(ns));
    ns.ok_or_else(|| {
        E::custom(format!(
            "'{text}': expected a time above 0, up to 1d, such as \"500us\" or \"1.5ms\""
        ))
    })
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Time;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time in quotes, such as \"500us\" or \"1.5ms\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Time, E> {
                time(text).map(Time)
            }
        }
        deserializer.deserialize_str(Reads)
    }
}

/// How long a set runs, in ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length(pub u64);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Length;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time in quotes, such as \"10s\" or \"5m\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Length, E> {
                let ns = parse_length(text, 1_000_000_000);
                let ns = ns.filter(|ns| (1..=LONGEST_RUN_NS).contains(ns));
                ns.map(Length).ok_or_else(|| {
                    let why = "expected a time above 0 such as \"10s\" or \"5m\"";
                    E::custom(format!("'{text}': {why}"))
                })
            }
        }
        deserializer.deserialize_str(Reads)
    }
}

/// A whole number.
#[derive(Debug, Clone, Copy)]
pub(super) struct Whole(pub i64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Whole;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number")
            }
            fn visit_i64<E: Error>(self, number: i64) -> Result<Whole, E> {
                Ok(Whole(number))
            }
        }
        deserializer.deserialize_any(Reads)
    }
}

/// A number of bytes above 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes(pub u64);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reads;
        impl Visitor<'_> for Reads {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an amount of memory in quotes, such as \"64KiB\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Bytes, E> {
                bytes(text).map(Bytes).ok_or_else(|| {
                    E::custom(format!(
                        "'{text}': expected an amount of memory such as \"64KiB\" or \"1MiB\""
                    ))
                })
            }
        }
        deserializer.deserialize_str(Reads)
    }
}

fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let unit = match text[digits.len()..].trim() {
        "" | "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    let only_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| only_digits)?;
    let all = number.checked_mul(unit)?;
    (1..=MOST_BYTES).contains(&all).then_some(all)
}
