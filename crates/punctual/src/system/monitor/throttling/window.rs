//! Decides from the looks of a window whether a probe was throttled.
//!
//! A wait is accounted in the look in which it ended, so it may have begun some looks
//! earlier; and steal time is accounted with the next tick. So the waits of a stretch of looks
//! are compared with what ran and what was stolen in that stretch, in the earlier looks that
//! they may extend into, and in the next one. Time stolen elsewhere in the window
//! explains none of them.
//!
//! There is no tick while the host has the CPU. Then the accounts stand still, perhaps for several
//! looks, and what they lack may be steal time: it proves nothing.

use std::collections::BTreeMap;

use punctual_record::event::{RealTimeBound, Throttling};

/// The accounts lag by a tick.
const REACHED: f64 = 0.95;
/// The shortest wait for no other thread that counts as throttling.
const WAITED_NS: u64 = 10_000_000;
/// Steal time is counted in ticks of this length.
const STOLEN_GRAIN_NS: u64 = 10_000_000;
/// The accounts of a CPU are behind if they lack this share of a look, and this time. Less may be
/// the rounding of a few accounts, or ticks that came late.
const BEHIND_SHARE: u64 = 4;
const BEHIND_NS: u64 = 40_000_000;

/// How much of each period real-time threads may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Budget {
    pub(super) runtime_ns: u64,
    pub(super) period_ns: u64,
    /// What sets it.
    pub(super) bound: RealTimeBound,
}

/// What happened on a probed CPU between two looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Part {
    /// Real-time threads ran.
    pub(super) rt_ns: u64,
    /// Real-time threads of our group ran.
    pub(super) group_ns: u64,
    /// Other threads at the probe's priority or above ran.
    pub(super) above_ns: u64,
    /// The host took the CPU.
    pub(super) stolen_ns: u64,
    /// Time that the CPU's accounts lack: see [`pending_ns`].
    pub(super) pending_ns: u64,
    /// The probe was ready and did not run.
    pub(super) waited_ns: u64,
    /// The probe is scheduled in real time.
    pub(super) real_time: bool,
}

/// A look, and the time since the previous one.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    pub(super) length_ns: u64,
    pub(super) cpus: BTreeMap<usize, Part>,
}

impl Part {
    /// The time that a wait may be explained by.
    fn in_the_way_ns(&self) -> u64 {
        self.above_ns
            .saturating_add(self.stolen_ns)
            .saturating_add(self.pending_ns)
    }
}

/// How much of a look a CPU's accounts lack, if they are behind.
pub(super) fn pending_ns(length_ns: u64, accounted_ns: u64) -> u64 {
    let lacking_ns = length_ns.saturating_sub(accounted_ns);
    if lacking_ns < BEHIND_NS.max(length_ns / BEHIND_SHARE) {
        return 0;
    }
    lacking_ns
}

/// How many of the first looks are too old for a window of `keep_ns` plus one look before it and
/// one after it.
pub(super) fn ahead(looks: &[Look], keep_ns: u64) -> usize {
    let mut sum_ns: u64 = looks.iter().skip(1).map(|look| look.length_ns).sum();
    sum_ns -= looks
        .last()
        .filter(|_| looks.len() > 1)
        .map_or(0, |look| look.length_ns);
    let mut ahead = 0;
    while let Some(next) = looks.get(ahead + 1) {
        if sum_ns < keep_ns.saturating_add(next.length_ns) {
            break;
        }
        sum_ns -= next.length_ns;
        ahead += 1;
    }
    ahead
}

/// Whether real-time threads used up a budget on a CPU within these looks (except the first and the
/// last) while the probe waited and no thread at its priority or above ran.
pub(super) fn throttled(looks: &[Look], budget: &Budget, cpu: usize) -> Option<Throttling> {
    let parts: Vec<Part> = looks
        .iter()
        .map(|look| look.cpus.get(&cpu).copied().unwrap_or_default())
        .collect();
    let within = 1..looks.len().saturating_sub(1).max(1);
    let lengths: Vec<u64> = looks.iter().map(|look| look.length_ns).collect();
    let accounted = parts[within.clone()].iter().map(|part| match budget.bound {
        RealTimeBound::Group { .. } => part.group_ns,
        RealTimeBound::Machine | RealTimeBound::FairServer => part.rt_ns,
    });
    let used_ns = used_ns(accounted.zip(lengths[within.clone()].iter().copied()));
    let reached = used_ns as f64 >= budget.runtime_ns as f64 * REACHED;
    if !reached || !parts[within.clone()].iter().any(|part| part.real_time) {
        return None;
    }
    let unexplained_wait_ns = unexplained_wait_ns(&parts, &lengths);
    let rest_ns = budget.period_ns.saturating_sub(budget.runtime_ns);
    if unexplained_wait_ns < WAITED_NS.min(rest_ns / 2).max(1_000_000) {
        return None;
    }
    Some(Throttling::Accounts {
        cpu,
        bound: budget.bound.clone(),
        runtime_ns: budget.runtime_ns,
        period_ns: budget.period_ns,
        ran_ns: used_ns,
        window_ns: lengths[within].iter().sum(),
        ready_ns: unexplained_wait_ns,
    })
}

/// How long the threads of a CPU ran within some looks, from their accounts in each of
/// them and its length. The account of a thread lags, and that of a new thread is first
/// read some looks after its start: time that exceeds a look belongs to the looks before it, and
/// time that exceeds all of them was before the window.
fn used_ns(looks: impl DoubleEndedIterator<Item = (u64, u64)>) -> u64 {
    let (mut used_ns, mut earlier_ns) = (0_u64, 0_u64);
    for (accounted_ns, length_ns) in looks.rev() {
        let ran_ns = accounted_ns.saturating_add(earlier_ns);
        let fits_ns = ran_ns.min(length_ns);
        earlier_ns = ran_ns - fits_ns;
        used_ns = used_ns.saturating_add(fits_ns);
    }
    used_ns
}

/// How long the probe waited, at least, while nothing ran before it: the most that a stretch of
/// looks proves. The first look and the last are included for what crosses their bounds.
fn unexplained_wait_ns(parts: &[Part], lengths: &[u64]) -> u64 {
    let mut most_ns = 0;
    for from in 1..parts.len().saturating_sub(1) {
        let (mut waited_ns, mut in_the_way_ns, mut passed_ns) = (0_u64, 0_u64, 0_u64);
        // The longest part of a wait that may be before the stretch.
        let mut outside_ns = 0;
        let mut stolen = false;
        for at in from..parts.len() - 1 {
            let (part, next) = (&parts[at], &parts[at + 1]);
            waited_ns = waited_ns.saturating_add(part.waited_ns);
            in_the_way_ns = in_the_way_ns.saturating_add(part.in_the_way_ns());
            outside_ns = part.waited_ns.saturating_sub(passed_ns).max(outside_ns);
            passed_ns = passed_ns.saturating_add(lengths[at]);
            let (begin, unknown_ns) = reaches_back(&lengths[..from], outside_ns);
            let before = &parts[begin..from];
            let known_ns: u64 = before.iter().map(Part::in_the_way_ns).sum();
            let before_ns = known_ns.saturating_add(unknown_ns).min(outside_ns);
            // What the last look's waits were for may be accounted in the next look.
            let late_ns = next.in_the_way_ns().min(part.waited_ns);
            stolen |= part.stolen_ns > 0;
            let in_ticks =
                stolen || next.stolen_ns > 0 || before.iter().any(|part| part.stolen_ns > 0);
            let grain_ns = if in_ticks { STOLEN_GRAIN_NS } else { 0 };
            let rest_ns = waited_ns
                .saturating_sub(in_the_way_ns)
                .saturating_sub(before_ns)
                .saturating_sub(late_ns)
                .saturating_sub(grain_ns);
            most_ns = most_ns.max(rest_ns);
        }
    }
    most_ns
}

/// The first of these looks in which a wait of this length may have begun that ended in the look
/// after them; and how much of it may be before all of them.
fn reaches_back(lengths: &[u64], waited_ns: u64) -> (usize, u64) {
    let mut left_ns = waited_ns;
    let mut from = lengths.len();
    while left_ns > 0 && from > 0 {
        from -= 1;
        left_ns = left_ns.saturating_sub(lengths[from]);
    }
    (from, left_ns)
}

#[cfg(test)]
mod tests;
