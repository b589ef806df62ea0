//! Which messages came late to this machine's kernel, by two clocks that need not agree.

/// The shortest time of these messages, and of this time before them, is the usual one. Two clocks drift
/// apart by up to 100 ppm, so that it must not be old.
const MESSAGES: u32 = 64;
const TIME_NS: u64 = 250_000_000;

/// The time from a message's instant, by the sender's clock, to its time stamp, by this machine's. The
/// difference of the clocks is part of it, and not of what exceeds the shortest.
#[derive(Debug, Clone, Copy)]
pub struct Lateness {
    /// The shortest so far, of how many, and since when.
    shortest_ns: i64,
    messages: u32,
    since_ns: u64,
    /// The shortest of those before.
    before_ns: i64,
}

impl Default for Lateness {
    fn default() -> Self {
        Self {
            shortest_ns: i64::MAX,
            messages: 0,
            since_ns: 0,
            before_ns: i64::MAX,
        }
    }
}

impl Lateness {
    /// How much longer than the quickest before it a message took. Real-time safe.
    pub fn of(&mut self, requested_ns: u64, received_ns: u64) -> u64 {
        let age_ns = received_ns.saturating_sub(self.since_ns);
        if self.messages == 0 || self.messages >= MESSAGES && age_ns >= TIME_NS {
            *self = Self {
                since_ns: received_ns,
                before_ns: self.shortest_ns,
                ..Self::default()
            };
        }
        let took_ns = received_ns.wrapping_sub(requested_ns).cast_signed();
        self.messages = self.messages.saturating_add(1);
        self.shortest_ns = self.shortest_ns.min(took_ns);
        let usual_ns = self.shortest_ns.min(self.before_ns);
        took_ns.saturating_sub(usual_ns).unsigned_abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// What exceeds the usual, of a message each ms that takes so long; the clocks differ by hours.
    fn late(took_ns: impl Fn(u64) -> u64, drift: impl Fn(u64) -> u64) -> Vec<u64> {
        let mut lateness = Lateness::default();
        let received = |at: u64| {
            let requested_ns = at * MS;
            let at_ns = requested_ns + took_ns(at) + drift(requested_ns);
            (
                requested_ns.wrapping_sub(7_200_000 * MS),
                at_ns.wrapping_add(3_600_000 * MS),
            )
        };
        let of = |(requested_ns, received_ns)| lateness.of(requested_ns, received_ns);
        (1_000..6_000).map(received).map(of).collect()
    }

    #[test]
    fn what_exceeds_the_quickest_is_late_whatever_the_clocks_are() {
        let took = |at: u64| match at {
            3_000 => 9 * MS,
            _ => 40_000 + at % 7 * 1_000,
        };
        let found = late(took, |_| 0);
        assert_eq!(found[2_000], 9 * MS - 40_000);
        let others = found.iter().enumerate().filter(|(at, _)| *at != 2_000);
        assert_eq!(others.map(|(_, ns)| *ns).max(), Some(6_000));
    }

    #[test]
    fn messages_that_came_together_after_a_second_are_late_by_what_each_waited() {
        // All of a second, the last of which waited for nothing.
        let took = |at: u64| match at {
            2_000..3_000 => (3_000 - at) * MS + 40_000,
            _ => 40_000,
        };
        let found = late(took, |_| 0);
        for at in [2_000u64, 2_500, 2_999] {
            assert_eq!(found[at as usize - 1_000], (3_000 - at) * MS, "{at}");
        }
    }

    #[test]
    fn clocks_that_drift_apart_hide_no_late_message() {
        let took = |at: u64| match at {
            3_000 => 9 * MS,
            _ => 40_000,
        };
        let apart = late(took, |ns| ns / 10_000);
        let ns = apart[2_000];
        assert!((8_960_000..9_020_000).contains(&ns), "{ns}");
        let ordinary = apart.iter().enumerate().filter(|(at, _)| *at != 2_000);
        assert!(ordinary.map(|(_, ns)| *ns).max().unwrap() <= 51_000);
        let together = late(took, |ns| 1_000_000 * MS - ns / 10_000);
        assert_eq!(together[2_000], 9 * MS - 40_000 - 100);
    }

    #[test]
    fn instants_that_are_nonsense_are_no_error() {
        let mut lateness = Lateness::default();
        for requested_ns in [0, u64::MAX, 1 << 63, 7, u64::MAX / 2] {
            for received_ns in [u64::MAX, 0, 1 << 63] {
                lateness.of(requested_ns, received_ns);
            }
        }
    }
}
