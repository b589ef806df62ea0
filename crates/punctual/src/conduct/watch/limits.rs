//! What a wake-up of a watched thread is compared with.

use std::sync::Arc;

/// The limits of all requirements, and the break value. What is not known exactly is judged by each of them, not only
/// by the deadline that late wake-ups are counted by.
#[derive(Debug, Clone)]
pub struct Limits(Arc<[u64]>);

impl Limits {
    pub fn new(limits_ns: impl IntoIterator<Item = u64>) -> Self {
        Self(limits_ns.into_iter().collect())
    }

    /// [`u64::MAX`] where nothing is limited.
    pub fn strictest_ns(&self) -> u64 {
        self.0.iter().copied().min().unwrap_or(u64::MAX)
    }

    /// Whether a latency within these bounds may keep one of them, or exceed it.
    pub fn are_undecided(&self, least_ns: u64, most_ns: u64) -> bool {
        self.0.iter().any(|it| (least_ns..most_ns).contains(it))
    }
}
