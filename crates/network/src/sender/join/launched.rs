//! Messages with a launch time: whether they waited for it, and which were dropped because it had passed.

use super::{Joiner, Pending};
use crate::ancillary::SentStage;
use crate::sender::Stamped;

/// A message that the driver has this much before its launch time did not wait for it: the conversion
/// of clocks is not exact.
const EARLY_NS: u64 = 20_000;
/// Messages of one instant that are searched for the one that was dropped.
const MOST_AT_ONCE: usize = 1 << 12;

impl Joiner {
    /// Whether the message waited for its launch time.
    pub(super) fn check_launch(&mut self, index: usize, stamped: &Stamped) {
        let by_kernel = self.rules.launch.is_some_and(|launch| !launch.by_card);
        let of_driver = stamped.stage == SentStage::Software && !stamped.is_hardware;
        let requested_ns = self.pending[index].exchange.requested_ns;
        if !by_kernel || !of_driver || requested_ns < self.from_ns {
            return;
        }
        self.launched.seen += 1;
        let ahead_ns = requested_ns.saturating_sub(stamped.at_ns);
        if ahead_ns > EARLY_NS {
            self.launched.early += 1;
            self.launched.earliest_ns = self.launched.earliest_ns.max(ahead_ns);
        }
    }

    /// A message with this launch time was dropped for it, on this machine.
    pub(super) fn missed(&mut self, launch_ns: u64) {
        // The conversion of clocks is not exact.
        let from_ns = launch_ns.saturating_sub(EARLY_NS);
        let first = self
            .pending
            .partition_point(|it| it.exchange.requested_ns < from_ns);
        let is_it = |it: &Pending| {
            !it.is_decided() && it.exchange.requested_ns.abs_diff(launch_ns) <= EARLY_NS
        };
        let mut of_burst = self.pending.range(first..).take(MOST_AT_ONCE);
        let Some(index) = of_burst.position(is_it).map(|at| first + at) else {
            return;
        };
        let requested_ns = self.pending[index].exchange.requested_ns;
        self.launched.missed += u64::from(requested_ns >= self.from_ns);
        self.lose(index, true);
    }
}
