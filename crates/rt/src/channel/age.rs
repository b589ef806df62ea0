//! How old a message is, as far as two clocks can say.

use super::frame::Kind;

/// The age of a message when the program received it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// It has no stamp.
    Unknown,
    /// At least so many ns: how much longer it took than the fastest message of the last 10 to 20
    /// seconds. The clocks of the two machines need not agree.
    AtLeast(u64),
    /// So many ns by a clock that both ends share; 0 if the sender's is ahead.
    Exactly(u64),
}

impl Age {
    /// The age in ns; at least this if the clocks are not shared, 0 if it is unknown. Real-time
    /// safe.
    #[must_use]
    pub const fn ns(self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::AtLeast(ns) | Self::Exactly(ns) => ns,
        }
    }
}

/// How long a fastest message counts: a drift of 50 ppm between the clocks is 1 ms in 20 s.
const WINDOW_NS: u64 = 10_000_000_000;

/// The smallest difference between the receiver's clock and the stamps.
#[derive(Debug, Clone)]
pub(super) struct Fastest {
    kind: Kind,
    ends_ns: u64,
    now: i64,
    before: i64,
}

impl Fastest {
    pub(super) const fn new() -> Self {
        Self {
            kind: Kind::Message,
            ends_ns: 0,
            now: 0,
            before: 0,
        }
    }

    /// How many ns a message took beyond the fastest one. Any stamp has an answer.
    #[inline]
    pub(super) fn beyond(&mut self, kind: Kind, stamp_ns: u64, now_ns: u64) -> u64 {
        // The difference of two clocks: its sign and size mean nothing by themselves.
        let took = now_ns.wrapping_sub(stamp_ns) as i64;
        if self.kind != kind || now_ns >= self.ends_ns {
            self.next_window(kind, took, now_ns);
        }
        self.now = self.now.min(took);
        took.saturating_sub(self.now.min(self.before)).max(0) as u64
    }

    #[cold]
    fn next_window(&mut self, kind: Kind, took: i64, now_ns: u64) {
        let continues = self.kind == kind && now_ns - self.ends_ns < WINDOW_NS;
        self.before = if continues { self.now } else { took };
        self.now = took;
        self.kind = kind;
        self.ends_ns = now_ns.saturating_add(WINDOW_NS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn the_fastest_message_has_no_age_and_a_stall_has_its_length() {
        let mut fastest = Fastest::new();
        // The sender's clock is an hour ahead; a message takes 30 us.
        let mut after =
            |now: u64, took: u64| fastest.beyond(Kind::Stamped, now - took + 3600 * S, now);
        assert_eq!(after(S, 30_000), 0);
        assert_eq!(after(2 * S, 30_000), 0);
        assert_eq!(after(3 * S, 200_030_000), 200_000_000);
        assert_eq!(after(3 * S + 1, 20_000), 0);
        assert_eq!(after(3 * S + 2, 30_000), 10_000);
        // Still compared with the fastest of the window before.
        assert_eq!(after(12 * S, 30_000), 10_000);
        // Not any more after two windows.
        assert_eq!(after(23 * S, 30_000), 0);
        // Nor after a pause.
        assert_eq!(after(100 * S, 50_000), 0);
    }

    #[test]
    fn any_stamp_has_an_age() {
        let mut fastest = Fastest::new();
        for stamp in [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1] {
            for now in [1, S, 1 << 62] {
                for kind in [Kind::Stamped, Kind::StampedRealtime] {
                    fastest.beyond(kind, stamp, now);
                }
            }
        }
    }
}
