//! CPUs that stood still: nothing was seen of one, and the timer at the end of that came late over a
//! program or an idle CPU. No code of this kernel holds a timer up there: the host did, or the
//! firmware.

use super::slot::{LOCAL_TIMER, Slot, kind};
use super::{Capture, Place};
use crate::trace::attribute::event::Stall;
use crate::trace::attribute::host;

/// Shorter ones are nobody's.
const LEAST_NS: u64 = 500_000;

impl Capture {
    /// When other CPUs than the target's stood still.
    pub(super) fn stalls(&self, at: Place, from_ns: u64, to_ns: u64) -> Vec<Stall> {
        const MOST: usize = 256;
        let lanes = self.options.cpus.iter().zip(&self.histories);
        let others = lanes.filter(|(cpu, _)| **cpu != at.running);
        let each = others.flat_map(|(cpu, history)| {
            // One that goes on just after the wake-up stood still as well.
            let later = host::together_ns(to_ns.saturating_sub(from_ns));
            let (slots, _) = history.cut(from_ns, to_ns.saturating_add(later));
            let stalls = stalls(&slots).into_iter();
            stalls.map(|(from_ns, to_ns)| Stall {
                cpu: *cpu,
                from_ns,
                to_ns,
            })
        });
        each.filter(|stall| stall.to_ns > from_ns && stall.from_ns < to_ns)
            .take(MOST)
            .collect()
    }
}

/// From when to when a CPU stood still, by its slots in their order: from the last event, or the
/// instant at which the timer was to expire, to the timer's interrupt.
#[must_use]
pub fn stalls(slots: &[Slot]) -> Vec<(u64, u64)> {
    let mut stalls = Vec::new();
    let mut idle = false;
    for (index, slot) in slots.iter().enumerate() {
        match slot.kind() {
            kind::SWITCH => idle = slot.to_tid() == 0,
            kind::IDLE => idle = true,
            _ => {}
        }
        let timer = slot.kind() == kind::VECTOR_ENTRY && u64::from(slot.a() as u32) == LOCAL_TIMER;
        // What another CPU asks for may come just before, if no thread came with it.
        let soon = |earlier: &&Slot| {
            slot.at_ns().saturating_sub(earlier.at_ns()) <= host::BEFORE_TIMER_NS
                && earlier.kind() != kind::SWITCH
                && earlier.kind() != kind::IDLE
        };
        let asked = slots[..index].iter().rev().take_while(soon).count();
        let first = slots[index - asked];
        let (Some(before), Some(expiry)) = (
            (index - asked).checked_sub(1).map(|index| slots[index]),
            slots.get(index + 1),
        ) else {
            continue;
        };
        // The first that expires in an interrupt is the one that it came for.
        if !timer || expiry.kind() != kind::TIMER_EXPIRE || !(idle || slot.is_over_program()) {
            continue;
        }
        let from = before.at_ns().max(expiry.c());
        if first.at_ns().saturating_sub(from) >= LEAST_NS {
            stalls.push((from, first.at_ns()));
        }
    }
    stalls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(at_ns: u64, of: u16, a: u64, b: u64, c: u64) -> Slot {
        Slot([at_ns, u64::from(of) << 32, a, b, c, 0, 0, 0])
    }

    /// The last event at 1 ms, a timer that was due at `due` and whose interrupt came at 9 ms, over
    /// the code segment `over`.
    fn seen(to_tid: u64, due: u64, over: u64) -> Vec<(u64, u64)> {
        stalls(&[
            slot(1_000_000, kind::SWITCH, to_tid << 32 | 7, 0, 0),
            slot(9_000_000, kind::VECTOR_ENTRY, LOCAL_TIMER, 0x400000, over),
            slot(9_001_000, kind::TIMER_EXPIRE, 0x77, 0x99, due),
        ])
    }

    #[test]
    fn a_late_timer_over_a_program_or_an_idle_cpu_is_one_that_stood_still() {
        assert_eq!(seen(5, 2_000_000, 0x33), [(2_000_000, 9_000_000)]);
        assert_eq!(seen(0, 500_000, 0x10), [(1_000_000, 9_000_000)]);
        // Kernel code may have held it up; a timer in time says nothing.
        assert_eq!(seen(5, 2_000_000, 0x10), []);
        assert_eq!(seen(5, 8_900_000, 0x33), []);
        assert_eq!(stalls(&[]), []);
    }

    #[test]
    fn another_cpus_request_just_before_its_own_late_timer_ended_no_standstill() {
        let seen = |of: u16, at_ns: u64| {
            stalls(&[
                slot(1_000_000, kind::SWITCH, 7, 0, 0),
                slot(at_ns, of, 3, 0, 0),
                slot(9_000_000, kind::VECTOR_ENTRY, LOCAL_TIMER, 0x400000, 0x10),
                slot(9_001_000, kind::TIMER_EXPIRE, 0x77, 0x99, 2_000_000),
            ])
        };
        assert_eq!(
            seen(kind::VECTOR_ENTRY, 8_950_000),
            [(2_000_000, 8_950_000)]
        );
        // It was back long before, or another thread was.
        assert_eq!(seen(kind::VECTOR_ENTRY, 8_700_000), []);
        assert_eq!(seen(kind::SWITCH, 8_950_000), []);
    }
}
