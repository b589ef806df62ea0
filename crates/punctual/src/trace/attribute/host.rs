//! CPUs that stood still at once: what took one of them is no thread or interrupt of this kernel.

use super::amounts::Amount;
use super::event::{Event, Stall, Vector, What, Window};
use crate::record::explanation::Cause;

/// Less in common is a chance.
const LEAST_NS: u64 = 500_000;
/// CPUs that a host lets go on together do so within this time, or within a tenth of the standstill
/// where that is more: a busy host lets one after the other go on.
const TOGETHER_NS: u64 = 1_000_000;
const TOGETHER_PART: u64 = 10;
/// The other CPU's request may come just before the CPU's own timer, that both are late alike.
pub const BEFORE_TIMER_NS: u64 = 100_000;

/// How far apart CPUs may go on that stood still for so long together.
#[must_use]
pub fn together_ns(standstill_ns: u64) -> u64 {
    TOGETHER_NS.max(standstill_ns / TOGETHER_PART)
}

/// A stretch in which a CPU and others stood still, and these others.
type Common = (u64, u64, Vec<u32>);

/// Gives what lies in a standstill of several CPUs to the host.
pub(super) fn take(amounts: &mut Vec<Amount>, window: &Window, events: &[&Event]) {
    if window.stalls.is_empty() {
        return;
    }
    let mut cpus: Vec<u32> = amounts.iter().map(|amount| amount.cpu).collect();
    cpus.sort_unstable();
    cpus.dedup();
    for cpu in cpus {
        for (from, to, others) in common(cpu, window, events) {
            move_out(amounts, cpu, (from, to), &others);
        }
    }
}

/// When this CPU stood still together with others: nothing was seen of it, and it went on when
/// they did, by itself.
fn common(cpu: u32, window: &Window, events: &[&Event]) -> Vec<Common> {
    let own: Vec<&Event> = events
        .iter()
        .filter(|event| event.cpu == cpu && !is_read_later(&event.what))
        .copied()
        .collect();
    let others: Vec<&Stall> = window.stalls.iter().filter(|it| it.cpu != cpu).collect();
    let mut found = Vec::new();
    for (index, pair) in own.windows(2).enumerate() {
        let (from, to) = (pair[0].at_ns, pair[1].at_ns);
        let silent = to.saturating_sub(from) >= LEAST_NS;
        if !silent || !goes_on_by_itself(&own[..=index], &own[index + 1..]) {
            continue;
        }
        let together = |stall: &&&Stall| {
            let shorter = (to - from).min(stall.to_ns.saturating_sub(stall.from_ns));
            stall.to_ns.abs_diff(to) <= together_ns(shorter)
        };
        let with: Vec<&&Stall> = others.iter().filter(together).collect();
        let Some(begin) = with.iter().map(|stall| stall.from_ns.max(from)).min() else {
            continue;
        };
        if to.saturating_sub(begin) >= LEAST_NS {
            let mut cpus: Vec<u32> = with.iter().map(|stall| stall.cpu).collect();
            cpus.push(cpu);
            cpus.sort_unstable();
            cpus.dedup();
            found.push((begin, to, cpus));
        }
    }
    found
}

/// Counters that are read, and not seen to move.
fn is_read_later(what: &What) -> bool {
    matches!(what, What::Stolen { .. } | What::SmiCount { .. })
}

/// Whether a CPU was within an interrupt when it fell silent, or its own timer came late at the
/// end. Another CPU's request alone proves nothing: that CPU woke it.
fn goes_on_by_itself(before: &[&Event], after: &[&Event]) -> bool {
    let open = before.iter().fold(0_i32, |open, event| match event.what {
        What::VectorEntry { .. } => open + 1,
        What::VectorExit { .. } => (open - 1).max(0),
        _ => open,
    });
    if open > 0 {
        return true;
    }
    let (Some(last), Some(first)) = (before.last(), after.first()) else {
        return false;
    };
    let soon = |event: &&&Event| event.at_ns - first.at_ns <= BEFORE_TIMER_NS;
    let mut soon = after.iter().take_while(soon);
    let timer = soon.position(|event| {
        let timer = Vector::LocalTimer;
        matches!(event.what, What::VectorEntry { vector, .. } if vector == timer)
    });
    let Some(timer) = timer else {
        return false;
    };
    let expiry = after[timer..].iter().find_map(|event| match event.what {
        What::TimerExpire { expires_ns, .. } => Some(expires_ns),
        _ => None,
    });
    expiry.is_some_and(|at| first.at_ns.saturating_sub(at.max(last.at_ns)) >= LEAST_NS)
}

fn move_out(amounts: &mut Vec<Amount>, cpu: u32, (from, to): (u64, u64), cpus: &[u32]) {
    let mut moved = Vec::new();
    for amount in amounts.iter_mut() {
        // A stopped thread would not have run in any case.
        let other = matches!(
            amount.cause,
            Cause::Steal | Cause::Blind | Cause::Blocked { .. }
        );
        if amount.cpu != cpu || other {
            continue;
        }
        let ns = amount.within(from, to);
        if ns == 0 {
            continue;
        }
        amount.ns -= ns;
        moved.push(Amount {
            cause: Cause::Host {
                cpus: cpus.to_vec(),
            },
            from: amount.from.max(from),
            to: amount.to.min(to),
            ns,
            stack: Vec::new(),
            note: None,
            by: None,
            ..amount.clone()
        });
    }
    amounts.append(&mut moved);
}
