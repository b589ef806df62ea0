//! Other CPUs that stood still: found in their slots by the rules for the target's own events.

use super::slot::{LOCAL_TIMER, Slot, kind};
use super::{Capture, WakeUpPlace};
use crate::attribute::event::Stall;
use crate::attribute::host::{self, StallEvidence, Standstill};

impl Capture {
    /// When CPUs other than the target's stood still.
    pub(super) fn stalls(&self, at: WakeUpPlace, from_ns: u64, to_ns: u64) -> Vec<Stall> {
        const MOST: usize = 256;
        let lanes = self.options.cpus.iter().zip(&self.histories);
        let others = lanes.filter(|(cpu, _)| **cpu != at.running);
        let each = others.flat_map(|(cpu, history)| {
            // A CPU that resumes just after the wake-up stood still as well.
            let later = host::together_ns(to_ns.saturating_sub(from_ns));
            let (slots, lost) = history.cut(from_ns, to_ns.saturating_add(later));
            // A silence with lost events in it does not count.
            let slots = if lost > 0 { Vec::new() } else { slots };
            let stalls = stalls(&slots).into_iter();
            stalls.map(|stall| Stall {
                cpu: *cpu,
                from_ns: stall.from_ns,
                to_ns: stall.to_ns,
                in_kernel: stall.in_kernel,
            })
        });
        each.filter(|stall| stall.to_ns > from_ns && stall.from_ns < to_ns)
            .take(MOST)
            .collect()
    }
}

/// When a CPU stood still, from its slots in order.
#[must_use]
pub fn stalls(slots: &[Slot]) -> Vec<Standstill> {
    let seen = slots.iter().map(|slot| (slot.at_ns(), sign(slot)));
    host::standstills(&seen.collect::<Vec<_>>())
}

fn sign(slot: &Slot) -> StallEvidence {
    match slot.kind() {
        kind::VECTOR_ENTRY if u64::from(slot.a() as u32) == LOCAL_TIMER => StallEvidence::Timer {
            over_program: slot.is_over_program(),
        },
        kind::VECTOR_ENTRY => StallEvidence::Enter,
        kind::VECTOR_EXIT => StallEvidence::Leave,
        kind::TIMER_EXPIRE => StallEvidence::Expire(slot.c()),
        kind::SWITCH => StallEvidence::Switch {
            to_idle: slot.to_tid() == 0,
        },
        kind::IDLE => StallEvidence::Idle,
        _ => StallEvidence::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(at_ns: u64, of: u16, a: u64, b: u64, c: u64) -> Slot {
        Slot([at_ns, u64::from(of) << 32, a, b, c, 0, 0, 0])
    }

    /// From when, to when, and whether kernel code may have delayed the CPU.
    fn found(slots: &[Slot]) -> Vec<(u64, u64, bool)> {
        let found = stalls(slots).into_iter();
        found
            .map(|it| (it.from_ns, it.to_ns, it.in_kernel))
            .collect()
    }

    /// The last event is at 1 ms; a timer was due at `due`, and its interrupt came at 9 ms, over
    /// the code segment `over`.
    fn seen(to_tid: u64, due: u64, over: u64) -> Vec<(u64, u64, bool)> {
        found(&[
            slot(1_000_000, kind::SWITCH, to_tid << 32 | 7, 0, 0),
            slot(9_000_000, kind::VECTOR_ENTRY, LOCAL_TIMER, 0x400000, over),
            slot(9_001_000, kind::TIMER_EXPIRE, 0x77, 0x99, due),
        ])
    }

    #[test]
    fn a_late_timer_over_a_program_or_an_idle_cpu_shows_a_standstill() {
        assert_eq!(seen(5, 2_000_000, 0x33), [(2_000_000, 9_000_000, false)]);
        assert_eq!(seen(0, 500_000, 0x10), [(1_000_000, 9_000_000, false)]);
        // Kernel code may have delayed it; a timer in time shows nothing.
        assert_eq!(seen(5, 2_000_000, 0x10), [(2_000_000, 9_000_000, true)]);
        assert_eq!(seen(5, 8_900_000, 0x33), []);
        assert_eq!(stalls(&[]), []);
    }

    #[test]
    fn another_cpus_request_just_before_its_own_late_timer_ended_no_standstill() {
        let seen = |of: u16, at_ns: u64| {
            found(&[
                slot(1_000_000, kind::SWITCH, 7, 0, 0),
                slot(at_ns, of, 3, 0, 0),
                slot(9_000_000, kind::VECTOR_ENTRY, LOCAL_TIMER, 0x400000, 0x10),
                slot(9_001_000, kind::TIMER_EXPIRE, 0x77, 0x99, 2_000_000),
            ])
        };
        assert_eq!(
            seen(kind::VECTOR_ENTRY, 8_950_000),
            [(2_000_000, 8_950_000, false)]
        );
        // A thread that was switched to before the timer came may have run with interrupts disabled.
        assert_eq!(
            seen(kind::SWITCH, 8_950_000),
            [(2_000_000, 8_950_000, true)]
        );
        // It resumed long before.
        assert_eq!(seen(kind::VECTOR_ENTRY, 8_700_000), []);
    }

    /// After 33 ms a CPU serves its timer up to 0.66 ms after its first event: a switch to a thread
    /// that an interrupt had woken before, or another CPU's request.
    #[test]
    fn after_a_long_standstill_the_late_timer_may_come_later() {
        let seen = |of: u16, to_tid: u64, timer_ns: u64| {
            let first = if of == kind::SWITCH {
                9 << 32 | to_tid
            } else {
                3
            };
            found(&[
                slot(400_000, kind::SWITCH, to_tid << 32 | 7, 0, 0),
                slot(990_000, kind::VECTOR_ENTRY, 3, 0, 0),
                slot(1_000_000, kind::VECTOR_EXIT, 3, 0, 0),
                slot(34_000_000, of, first, 0, 0),
                slot(timer_ns, kind::VECTOR_ENTRY, LOCAL_TIMER, 0x400000, 0x10),
                slot(timer_ns + 10_000, kind::TIMER_EXPIRE, 0x77, 0x99, 2_000_000),
            ])
        };
        let stood_still = |in_kernel| vec![(2_000_000, 34_000_000, in_kernel)];
        assert_eq!(seen(kind::SWITCH, 8, 34_340_000), stood_still(true));
        // If the timer comes later, only the time from that event on is a standstill.
        let short = vec![(34_000_000, 34_670_000, true)];
        assert_eq!(seen(kind::SWITCH, 8, 34_670_000), short);
        assert_eq!(seen(kind::VECTOR_ENTRY, 0, 34_130_000), stood_still(false));
        assert_eq!(seen(kind::VECTOR_ENTRY, 0, 34_670_000), short);
        // If a thread runs, the timer interrupts its kernel code.
        assert_eq!(seen(kind::VECTOR_ENTRY, 8, 34_130_000), stood_still(true));
    }

    /// An interrupt that continues after 8 ms, and an idle CPU that switches to the thread that it
    /// woke 8 ms ago: no timer ends either. A CPU in an idle state is woken by others.
    #[test]
    fn kernel_code_that_nothing_is_seen_of_is_a_standstill_in_doubt() {
        let entry = |at_ns: u64| slot(at_ns, kind::VECTOR_ENTRY, 3, 0, 0);
        let exit = |at_ns: u64| slot(at_ns, kind::VECTOR_EXIT, 3, 0, 0);
        let switch =
            |at_ns: u64, from: u64, to: u64| slot(at_ns, kind::SWITCH, to << 32 | from, 0, 0);
        assert_eq!(
            found(&[entry(1_000_000), exit(9_000_000)]),
            [(1_000_000, 9_000_000, true)]
        );
        let idle = [switch(900_000, 7, 0), entry(990_000), exit(1_000_000)];
        let goes_on = [idle[0], idle[1], idle[2], switch(9_000_000, 0, 7)];
        assert_eq!(found(&goes_on), [(1_000_000, 9_000_000, true)]);
        let rests = slot(1_001_000, kind::IDLE, 1, 0, 0);
        let rests = [idle[0], idle[1], idle[2], rests, switch(9_000_000, 0, 7)];
        assert_eq!(found(&rests), []);
        let busy = [switch(900_000, 0, 7), entry(990_000), exit(1_000_000)];
        let busy = [busy[0], busy[1], busy[2], switch(9_000_000, 7, 8)];
        assert_eq!(found(&busy), []);
    }
}
