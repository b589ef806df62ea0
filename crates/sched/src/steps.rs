//! Request-bound functions that step up by a constant, and arithmetic that stops at the largest
//! number and never wraps.

use crate::bound::Source;

/// Longer bounds are no bounds.
pub(crate) const LIMIT_NS: u64 = 1 << 60;

/// How much may be computed before an analysis gives up: terms of sums.
pub(crate) const WORK: u64 = 20_000_000;

/// The same, for offsets: without them, the bound of tasks that arrive together stands.
pub(crate) const OFFSET_WORK: u64 = 4_000_000;

/// What is left of [`WORK`].
#[derive(Debug)]
pub(crate) struct Work(u64);

impl Work {
    pub(crate) fn new() -> Self {
        Work(WORK)
    }

    pub(crate) fn of_offsets() -> Self {
        Work(OFFSET_WORK)
    }

    /// False where nothing is left.
    pub(crate) fn take(&mut self, terms: usize) -> bool {
        let left = self.0.checked_sub(terms as u64 + 1);
        self.0 = left.unwrap_or(0);
        left.is_some()
    }
}

/// Something that asks for the CPU again and again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    pub source: Source,
    pub cost_ns: u64,
    pub period_ns: u64,
    pub jitter_ns: u64,
    /// The first one comes no earlier than this after the beginning of the window.
    pub delay_ns: u64,
    /// Once in a window, beside the steps.
    pub once_ns: u64,
    /// Where it arrives strictly by its period: at this time, and at each period before and after.
    pub offset_ns: Option<u64>,
}

impl Request {
    /// One that arrives at any time.
    pub(crate) fn new(source: Source, cost_ns: u64, period_ns: u64, jitter_ns: u64) -> Self {
        Request {
            source,
            cost_ns,
            period_ns,
            jitter_ns,
            delay_ns: 0,
            once_ns: 0,
            offset_ns: None,
        }
    }

    /// The most that it asks for in a window of this length, open at its end.
    pub(crate) fn in_window(&self, window_ns: u64) -> u64 {
        let count = window_ns
            .saturating_add(self.jitter_ns)
            .saturating_sub(self.delay_ns)
            .div_ceil(self.period_ns);
        count
            .saturating_mul(self.cost_ns)
            .saturating_add(self.once_ns)
    }
}

/// The sum of [`Request::in_window`].
pub(crate) fn sum_in_window(requests: &[Request], window_ns: u64) -> u64 {
    requests.iter().fold(0, |sum, request| {
        sum.saturating_add(request.in_window(window_ns))
    })
}

/// Whether the requests certainly ask for more than the whole CPU in the long run.
pub(crate) fn is_overload(requests: impl Iterator<Item = (u64, u64)>) -> bool {
    // Each share is rounded down: no set with a sum of exactly 1 is refused.
    const WHOLE: u128 = 1 << 64;
    let shares = requests.map(|(cost, period)| u128::from(cost) * WHOLE / u128::from(period));
    shares.fold(0u128, u128::saturating_add) > WHOLE
}
