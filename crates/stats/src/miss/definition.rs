//! What a miss is, for each relation of deadline and interval.

/// Skipped periods that miss a limit.
///
/// A wake-up `latency_ns` late skipped `skipped` periods of `interval_ns`; whether the wake-up
/// itself is later than `limit_ns` is not counted here.
///
/// - Limit not above the interval: every skipped period misses. It got no wake-up of its own,
///   and the next one belongs to a period that is due after its limit.
/// - Limit above the interval: the late wake-up can still serve a period that it skipped. The
///   k-th was due `k` intervals after the requested instant, and misses if the thread ran more
///   than `limit_ns` after that.
/// - No interval known: all of them if the wake-up is later than the limit, else none.
#[must_use]
pub fn skipped_misses(
    latency_ns: u64,
    skipped: u64,
    interval_ns: Option<u64>,
    limit_ns: u64,
) -> u64 {
    if skipped == 0 {
        return 0;
    }
    match interval_ns {
        Some(interval_ns) if limit_ns <= interval_ns => skipped,
        Some(interval_ns) if latency_ns > limit_ns => {
            // k·interval < latency - limit
            skipped.min((latency_ns - limit_ns - 1) / interval_ns.max(1))
        }
        None if latency_ns > limit_ns => skipped,
        _ => 0,
    }
}

/// Misses of one wake-up: itself, if it is later than the limit, and the skipped periods that
/// miss it ([`skipped_misses`]).
#[must_use]
pub fn misses_of(latency_ns: u64, skipped: u64, interval_ns: Option<u64>, limit_ns: u64) -> u64 {
    u64::from(latency_ns > limit_ns).saturating_add(skipped_misses(
        latency_ns,
        skipped,
        interval_ns,
        limit_ns,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, period by period.
    fn by_hand(latency: u64, interval: u64, limit: u64) -> u64 {
        let skipped = latency / interval;
        let late = |k: u64| latency - k * interval > limit;
        let missed = |k: &u64| limit <= interval || late(*k);
        u64::from(latency > limit) + (1..=skipped).filter(missed).count() as u64
    }

    #[test]
    fn the_closed_form_counts_what_the_definition_says() {
        for interval in [1, 2, 3, 10, 1000] {
            for limit in [0, 1, 2, 5, 9, 10, 11, 20, 999, 1000, 1001, 5000] {
                for latency in (0..60).chain([999, 1000, 1001, 2000, 2001, 61_000]) {
                    let skipped = latency / interval;
                    assert_eq!(
                        misses_of(latency, skipped, Some(interval), limit),
                        by_hand(latency, interval, limit),
                        "latency {latency}, interval {interval}, limit {limit}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_longer_limit_is_never_missed_more_often() {
        for latency in 0..300 {
            let count = |limit| misses_of(latency, latency / 7, Some(7), limit);
            assert!((0..300).all(|limit| count(limit) >= count(limit + 1)));
        }
    }

    #[test]
    fn without_an_interval_the_wake_up_alone_decides() {
        assert_eq!(misses_of(10, 3, None, 9), 4);
        assert_eq!(misses_of(9, 3, None, 9), 0);
        assert_eq!(misses_of(u64::MAX, u64::MAX, None, 9), u64::MAX);
    }
}
