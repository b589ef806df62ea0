//! What all recorded CPUs did in some time.

use super::Capture;
use super::slot::Slot;
use crate::attribute::event::Event;

impl Capture {
    /// What all recorded CPUs did between two instants, with the switches before it, and how many
    /// events of that time were lost.
    #[must_use]
    pub fn between(&self, from_ns: u64, to_ns: u64) -> (Vec<Event>, u64) {
        let mut lost = 0u64;
        let mut slots = Vec::new();
        for history in &self.histories {
            let (cut, lost_here) = history.cut(from_ns, to_ns);
            slots.extend(cut);
            lost = lost.saturating_add(lost_here);
        }
        slots.sort_by_key(Slot::at_ns);
        let events = self.events_of(&slots, [None; 2], None, (from_ns, to_ns));
        (events, lost)
    }
}
