//! Windows with more events than are kept.

use super::slot::{Slot, kind};

/// Events of one window: if there are more, its middle is blind.
pub(super) const WINDOW: usize = 1 << 13;

/// Drops the middle of a window that has too many events; returns how many these were. What says nothing
/// about the target goes first: on a busy machine most events are the wakings of others.
pub(super) fn leave_out_middle(slots: &mut Vec<Slot>, target: u32) -> u64 {
    if slots.len() > WINDOW {
        slots.retain(|slot| slot.kind() != kind::WAKING || slot.a() as u32 == target);
    }
    let over = slots.len().saturating_sub(WINDOW);
    if over > 0 {
        slots.drain(WINDOW / 2..WINDOW / 2 + over);
    }
    over as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_of_too_many_events_keeps_both_its_ends() {
        let slot = |at_ns| Slot([at_ns, 0, 0, 0, 0, 0, 0, 0]);
        let mut slots: Vec<Slot> = (0..10_000).map(slot).collect();
        assert_eq!(leave_out_middle(&mut slots, 7), 10_000 - WINDOW as u64);
        assert_eq!(slots.len(), WINDOW);
        let at = |index: usize| slots[index].at_ns();
        assert_eq!((at(0), at(WINDOW / 2 - 1)), (0, WINDOW as u64 / 2 - 1));
        assert_eq!(
            (at(WINDOW / 2), at(WINDOW - 1)),
            (10_000 - WINDOW as u64 / 2, 9_999)
        );
        let mut few: Vec<Slot> = (0..3).map(slot).collect();
        assert_eq!(leave_out_middle(&mut few, 7), 0);
        assert_eq!(few.len(), 3);
        // Wakings of others alone are too many.
        let waking = |at_ns: u64| {
            Slot([
                at_ns,
                u64::from(kind::WAKING) << 32,
                at_ns % 10,
                0,
                0,
                0,
                0,
                0,
            ])
        };
        let mut busy: Vec<Slot> = (0..10_000).map(waking).collect();
        assert!(
            busy.iter()
                .all(|slot| slot.kind() == kind::WAKING && slot.a() == slot.at_ns() % 10)
        );
        assert_eq!(leave_out_middle(&mut busy, 7), 0);
        assert_eq!(busy.len(), 1_000);
    }
}
