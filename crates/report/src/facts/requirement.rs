//! Requirements in words.

use punctual_stats::format::{duration, probability};
use punctual_stats::requirement::Requirement;

/// What a requirement on wake-ups or gaps asks: `at most 0.1 % of cycles miss 100 µs`.
#[must_use]
pub fn requirement(requirement: &Requirement) -> String {
    let limit = duration(requirement.limit_ns());
    match requirement {
        Requirement::MissProbability { allowed, .. } if *allowed <= 0.0 => {
            format!("no cycle misses {limit}")
        }
        Requirement::MissProbability { allowed, .. } => {
            let share = probability(*allowed);
            let of = if share.ends_with('%') { " of" } else { "" };
            format!("at most {share}{of} cycles miss {limit}")
        }
        Requirement::Episodes { per_hour, .. } => {
            let word = if *per_hour == 1.0 {
                "episode"
            } else {
                "episodes"
            };
            format!("misses of {limit} in at most {per_hour} {word} an hour")
        }
        Requirement::Max { .. } => format!("maximum at most {limit}"),
        Requirement::Percentile { percentile, .. } => format!("p{percentile} at most {limit}"),
    }
}

/// What a limit on a part of a program asks: `step() at most 500 µs`.
#[must_use]
pub fn length_limit(name: &str, limit_ns: u64) -> String {
    format!("{name} at most {}", duration(limit_ns))
}
