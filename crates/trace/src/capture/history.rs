//! The last events of each CPU, copied from its ring, and windows cut from them.

use std::collections::VecDeque;

use super::slot::{Slot, kind};

/// How long before the requested instant a window begins, at least.
pub(super) const LEAD_NS: u64 = 200_000;
/// How long after the wake-up it ends.
const TAIL_NS: u64 = 20_000;
/// Events that are searched backwards for the thread that ran when the window began.
const FAR: usize = 4096;
/// Calls of a window whose requests are searched for before it.
const SENT: usize = 8;
/// Gaps that are kept.
const GAPS: usize = 256;

/// Events that were overwritten before they were copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    from_ns: u64,
    to_ns: u64,
    events: u64,
}

/// Beyond the number of events that a lane always keeps, events are kept that are not older than this:
/// a late wake-up is examined 0.1 to 0.2 s after it ended, later on a busy machine.
pub const AGE_NS: u64 = 2_000_000_000;

/// The events of one lane.
#[derive(Debug)]
pub struct History {
    slots: VecDeque<Slot>,
    /// How many are kept regardless of their age, and the limit.
    least: usize,
    most: usize,
    age_ns: u64,
    gaps: VecDeque<Gap>,
    /// The last event that was dropped, or gap: nothing is known up to it.
    forgotten_ns: Option<u64>,
    /// Events lost since the last one that is present.
    pending: u64,
    /// The number of all lost events.
    lost: u64,
}

impl History {
    /// Keeps this many events, and up to `most` while they are young.
    #[must_use]
    pub fn new(least: usize, most: usize) -> Self {
        let least = least.max(1);
        Self {
            slots: VecDeque::new(),
            least,
            most: most.max(least),
            age_ns: AGE_NS,
            gaps: VecDeque::new(),
            forgotten_ns: None,
            pending: 0,
            lost: 0,
        }
    }

    /// Regards events as young for so long.
    pub fn keep_for(&mut self, ns: u64) {
        self.age_ns = ns;
    }

    /// Adds the next event of the lane.
    pub fn push(&mut self, slot: Slot) {
        if self.pending > 0 {
            let from_ns = self.slots.back().map_or(0, Slot::at_ns);
            self.gaps.push_back(Gap {
                from_ns,
                to_ns: slot.at_ns(),
                events: std::mem::take(&mut self.pending),
            });
            if self.gaps.len() > GAPS {
                let oldest = self.gaps.pop_front().map(|gap| gap.to_ns.saturating_sub(1));
                self.forgotten_ns = self.forgotten_ns.max(oldest);
            }
        }
        // Two at a time, so that the memory of a flood is released once it is over.
        for _ in 0..2 {
            if self.has_too_many(slot.at_ns()) {
                let oldest = self.slots.pop_front();
                self.forgotten_ns = self.forgotten_ns.max(oldest.as_ref().map(Slot::at_ns));
            }
        }
        self.slots.push_back(slot);
    }

    fn has_too_many(&self, now_ns: u64) -> bool {
        let count = self.slots.len();
        let is_old = |slot: &Slot| now_ns.saturating_sub(slot.at_ns()) > self.age_ns;
        count >= self.most || count >= self.least && self.slots.front().is_some_and(is_old)
    }

    /// The instant from which on no event before another instant is missing.
    #[must_use]
    pub fn known_from(&self, until_ns: u64) -> u64 {
        let gaps = self.gaps.iter().filter(|gap| gap.from_ns <= until_ns);
        let gap = gaps.map(|gap| gap.to_ns).max().unwrap_or(0);
        gap.max(self.forgotten_ns.map_or(0, |at_ns| at_ns.saturating_add(1)))
    }

    /// The time of the event that is followed by this many events up to an instant, if there is one.
    #[must_use]
    pub fn since(&self, until_ns: u64, count: usize) -> Option<u64> {
        let end = self.slots.partition_point(|slot| slot.at_ns() <= until_ns);
        let index = end.checked_sub(count + 1)?;
        self.slots.get(index).map(Slot::at_ns)
    }

    /// Whether events were dropped that a window needs which begins at this instant.
    #[must_use]
    pub fn has_forgotten(&self, due_ns: u64) -> bool {
        let from_ns = due_ns.saturating_sub(LEAD_NS);
        self.forgotten_ns
            .is_some_and(|until_ns| until_ns >= from_ns)
    }

    /// Notes that the next events of the lane were lost.
    pub fn count_lost(&mut self, events: u64) {
        self.pending += events;
        self.lost += events;
    }

    /// The number of all lost events.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The events around a wait, by time, and how many of them were lost; at least one if the wait
    /// began before the oldest kept event. It begins with the switch to the thread that ran when
    /// the wait was due, if that is still known.
    #[must_use]
    pub fn cut(&self, due_ns: u64, woken_ns: u64) -> (Vec<Slot>, u64) {
        let from_ns = due_ns.saturating_sub(LEAD_NS);
        let to_ns = woken_ns.saturating_add(TAIL_NS);
        // An interrupt between reading the clock and claiming the slot can only swap neighbours.
        let first = self.slots.partition_point(|slot| slot.at_ns() < from_ns);
        let end = self.slots.partition_point(|slot| slot.at_ns() <= to_ns);
        let is_switch = |slot: &Slot| slot.kind() == kind::SWITCH;
        let mut cut = Vec::with_capacity(end.saturating_sub(first) + 64);
        match (0..first).rev().find(|&at| is_switch(&self.slots[at])) {
            Some(at) if first - at <= FAR => cut.extend(self.slots.range(at..first)),
            Some(at) => {
                cut.push(self.slots[at]);
                // Its name at that time.
                let since = self.slots.range(at..first).rev();
                cut.extend(since.copied().find(|slot| slot.kind() == kind::RENAME));
            }
            None => {}
        }
        let begins_ns = cut.first().map_or(from_ns, Slot::at_ns);
        cut.extend(self.slots.range(first..end.max(first)));
        cut.sort_by_key(Slot::at_ns);
        let lost = self.lost_within(begins_ns, from_ns, to_ns);
        (cut, lost)
    }

    /// All events that are still kept.
    pub fn all(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter()
    }

    /// Whether nothing happened between two instants; `None` if that isn't known.
    #[must_use]
    pub fn is_quiet(&self, from_ns: u64, to_ns: u64) -> Option<bool> {
        let first = self.slots.partition_point(|slot| slot.at_ns() < from_ns);
        if self.slots.get(first).is_some_and(|s| s.at_ns() <= to_ns) {
            return Some(false);
        }
        (self.lost_within(from_ns, from_ns, to_ns) == 0).then_some(true)
    }

    /// The events between two instants, by time, and how many of them were lost.
    #[must_use]
    pub fn within(&self, from_ns: u64, to_ns: u64) -> (Vec<Slot>, u64) {
        let first = self.slots.partition_point(|slot| slot.at_ns() < from_ns);
        let end = self.slots.partition_point(|slot| slot.at_ns() <= to_ns);
        let mut slots: Vec<Slot> = self.slots.range(first..end.max(first)).copied().collect();
        slots.sort_by_key(Slot::at_ns);
        (slots, self.lost_within(from_ns, from_ns, to_ns))
    }

    /// How many events there are between two instants.
    #[must_use]
    pub fn count(&self, from_ns: u64, to_ns: u64) -> usize {
        let first = self.slots.partition_point(|slot| slot.at_ns() < from_ns);
        let end = self.slots.partition_point(|slot| slot.at_ns() <= to_ns);
        end.saturating_sub(first)
    }

    /// Lost events that may be in a window that begins at one instant and needs
    /// everything from another instant on.
    fn lost_within(&self, begins_ns: u64, from_ns: u64, to_ns: u64) -> u64 {
        let mut lost: u64 = self
            .gaps
            .iter()
            .filter(|gap| gap.to_ns > begins_ns && gap.from_ns <= to_ns)
            .map(|gap| gap.events)
            .sum();
        // Lost events at the end, not followed by any other yet, may be in it too.
        if self.slots.back().is_none_or(|last| last.at_ns() <= to_ns) {
            lost += self.pending;
        }
        if self
            .forgotten_ns
            .is_some_and(|until_ns| until_ns >= from_ns)
        {
            lost = lost.max(1);
        }
        lost
    }

    /// The last event before an instant that satisfies a condition.
    #[must_use]
    pub fn last_before(&self, at_ns: u64, is: impl Fn(&Slot) -> bool) -> Option<&Slot> {
        let end = self.slots.partition_point(|slot| slot.at_ns() <= at_ns);
        self.slots
            .range(..end)
            .rev()
            .take(FAR)
            .find(|slot| is(slot))
    }

    /// The requests for the calls of a window, if they were sent before it begins.
    #[must_use]
    pub fn sent_before(&self, window: &[Slot]) -> Vec<Slot> {
        let of_kind = |of: u16| window.iter().filter(move |slot| slot.kind() == of);
        let within = |call: &Slot| of_kind(kind::CALL_SENT).any(|sent| sent.d() == call.b());
        let calls = of_kind(kind::CALL_ENTRY).filter(|call| call.b() != 0 && !within(call));
        let sent = calls.take(SENT).filter_map(|call| {
            self.last_before(call.at_ns(), |slot| {
                slot.kind() == kind::CALL_SENT && slot.d() == call.b()
            })
        });
        sent.copied().collect()
    }

    /// How a thread left this CPU, if that was its last switch here and nothing was lost since:
    /// when, and in what state.
    #[must_use]
    pub fn left_cpu_at(&self, tid: u32, before_ns: u64) -> Option<(u64, u64)> {
        let of_it = |slot: &Slot| {
            slot.kind() == kind::SWITCH && (slot.from_tid() == tid || slot.to_tid() == tid)
        };
        let last = self.last_before(before_ns, of_it)?;
        let known = self.lost_within(last.at_ns(), last.at_ns(), before_ns) == 0;
        let state = if last.is_preempted() { 0 } else { last.b() };
        (known && last.from_tid() == tid).then(|| (last.at_ns(), state))
    }

    /// The first event after an instant that satisfies a condition.
    #[must_use]
    pub fn first_after(&self, at_ns: u64, is: impl Fn(&Slot) -> bool) -> Option<&Slot> {
        let first = self.slots.partition_point(|slot| slot.at_ns() <= at_ns);
        self.slots.range(first..).take(FAR).find(|slot| is(slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(at_ns: u64, of: u16) -> Slot {
        let mut words = [0; 8];
        words[0] = at_ns;
        words[1] = u64::from(of) << 32;
        Slot(words)
    }

    fn times(cut: &[Slot]) -> Vec<u64> {
        cut.iter().map(Slot::at_ns).collect()
    }

    #[test]
    fn a_window_begins_with_the_switch_to_the_thread_that_ran_when_it_was_due() {
        let mut history = History::new(100, 100);
        for (at_us, of) in [
            (100, kind::SWITCH),
            (300, kind::SWITCH),
            (400, kind::NMI),
            (1000, kind::NMI),
            (1010, kind::SWITCH),
            (1031, kind::NMI),
        ] {
            history.push(slot(at_us * 1000, of));
        }
        let (cut, lost) = history.cut(1_000_000, 1_010_000);
        assert_eq!(times(&cut), [300_000, 400_000, 1_000_000, 1_010_000]);
        assert_eq!(lost, 0);
    }

    #[test]
    fn a_thread_that_ran_long_has_its_last_name() {
        let mut history = History::new(10_000, 10_000);
        history.push(slot(1, kind::SWITCH));
        history.push(slot(2, kind::RENAME));
        history.push(slot(3, kind::RENAME));
        for at_ns in 4..6_000 {
            history.push(slot(at_ns, kind::NMI));
        }
        history.push(slot(1_000_000, kind::NMI));
        let (cut, lost) = history.cut(1_000_000, 1_000_000);
        assert_eq!(times(&cut), [1, 3, 1_000_000]);
        assert_eq!(lost, 0);
    }

    /// The CPU was busy: it switched threads while the request was on its way.
    #[test]
    fn a_request_that_was_sent_before_the_window_is_found() {
        let mut history = History::new(100, 100);
        let call = |at_ns: u64, of: u16, b: u64, d: u64| {
            let words = [at_ns, u64::from(of) << 32, 7, b, 0, d, 0, 0];
            Slot(words)
        };
        history.push(call(600_000, kind::CALL_SENT, 0, 0x50));
        history.push(call(690_000, kind::CALL_SENT, 0, 0x60));
        history.push(slot(700_000, kind::SWITCH));
        history.push(call(701_000, kind::CALL_ENTRY, 0x60, 0));
        history.push(call(900_000, kind::CALL_SENT, 0, 0x50));
        history.push(call(901_000, kind::CALL_ENTRY, 0x50, 0));
        let (cut, _) = history.cut(1_000_000, 1_010_000);
        assert_eq!(times(&cut), [700_000, 701_000, 900_000, 901_000]);
        assert_eq!(times(&history.sent_before(&cut)), [690_000]);
    }

    #[test]
    fn swapped_events_are_put_in_order() {
        let mut history = History::new(100, 100);
        for at_ns in [1_000_100, 1_000_050, 1_000_200] {
            history.push(slot(at_ns, kind::NMI));
        }
        let (cut, _) = history.cut(1_000_000, 1_001_000);
        assert_eq!(times(&cut), [1_000_050, 1_000_100, 1_000_200]);
    }

    #[test]
    fn lost_events_count_in_each_window_that_may_contain_them() {
        let mut history = History::new(100, 100);
        history.push(slot(1_000_000, kind::SWITCH));
        history.count_lost(7);
        history.push(slot(2_000_000, kind::SWITCH));
        history.push(slot(3_000_000, kind::SWITCH));
        assert_eq!(history.cut(1_500_000, 1_600_000).1, 7);
        assert_eq!(history.cut(3_500_000, 3_600_000).1, 0);
        history.count_lost(5);
        assert_eq!(
            history.cut(3_500_000, 3_600_000).1,
            5,
            "nothing follows them yet"
        );
        assert_eq!(history.cut(2_500_000, 2_600_000).1, 0);
        assert_eq!(history.lost(), 12);
        assert_eq!(history.known_from(900_000), 0);
        assert_eq!(history.known_from(1_500_000), 2_000_000);
        assert_eq!(history.known_from(3_500_000), 2_000_000);
    }

    #[test]
    fn what_is_lost_stays_known_as_lost_however_often_that_happens() {
        let mut history = History::new(10_000, 10_000);
        let times = 2 * GAPS as u64;
        for turn in 1..=times {
            history.count_lost(1);
            history.push(slot(turn * 1_000_000, kind::NMI));
        }
        let lost_before = |turn: u64| history.cut(turn * 1_000_000 - 100, turn * 1_000_000 - 50).1;
        assert!((2..=times).all(|turn| lost_before(turn) > 0));
        assert!(history.has_forgotten(1_000_000) && !history.has_forgotten(times * 1_000_000));
        assert_eq!(history.lost(), times);
    }

    #[test]
    fn only_a_stretch_known_to_be_empty_is_quiet() {
        let mut history = History::new(3, 3);
        assert_eq!(history.is_quiet(5, 10), Some(true));
        for at_ns in [10, 20] {
            history.push(slot(at_ns, kind::NMI));
        }
        assert_eq!(history.is_quiet(11, 19), Some(true));
        assert_eq!(history.is_quiet(11, 20), Some(false));
        assert_eq!(history.is_quiet(10, 11), Some(false));
        assert_eq!(history.is_quiet(21, 90), Some(true));
        history.count_lost(4);
        assert_eq!(history.is_quiet(21, 90), None, "nothing follows them yet");
        assert_eq!(history.is_quiet(11, 19), Some(true));
        history.push(slot(100, kind::NMI));
        assert_eq!(history.is_quiet(21, 90), None);
        history.push(slot(110, kind::NMI));
        assert_eq!(history.is_quiet(5, 9), None, "it had to make room");
    }

    #[test]
    fn only_the_last_events_are_kept() {
        let mut history = History::new(3, 3);
        for at_ns in 1..=10 {
            history.push(slot(at_ns, kind::NMI));
        }
        assert_eq!(times(&history.cut(0, 100).0), [8, 9, 10]);
        assert_eq!(history.last_before(9, |_| true).map(Slot::at_ns), Some(9));
        assert_eq!(history.first_after(9, |_| true).map(Slot::at_ns), Some(10));
        assert_eq!(history.first_after(10, |_| true), None);
        assert_eq!(history.since(10, 1), Some(9));
        assert_eq!((history.since(9, 1), history.since(9, 2)), (Some(8), None));
    }

    #[test]
    fn events_of_a_flood_are_kept_while_they_are_young() {
        const MS: u64 = 1_000_000;
        let mut history = History::new(10, 100);
        for at in 0..60 {
            history.push(slot(at * MS, kind::NMI));
        }
        assert_eq!(times(&history.cut(0, 100 * MS).0).len(), 60);
        assert!(!history.has_forgotten(0));
        // Seconds later they are dropped, down to the number that is always kept.
        for at in 3_000..3_080 {
            history.push(slot(at * MS, kind::NMI));
        }
        let kept = times(&history.cut(0, 4_000 * MS).0);
        assert_eq!((kept.len(), kept[0]), (80, 3_000 * MS));
        assert!(history.has_forgotten(59 * MS) && !history.has_forgotten(3_001 * MS));
        for at in 3_080..3_300 {
            history.push(slot(at * MS, kind::NMI));
        }
        assert_eq!(
            history.cut(0, 4_000 * MS).0.len(),
            100,
            "never more than that"
        );
    }

    #[test]
    fn events_that_are_needed_longer_are_kept_longer() {
        const MS: u64 = 1_000_000;
        let mut history = History::new(10, 100);
        history.keep_for(2 * AGE_NS);
        (0..60).for_each(|at| history.push(slot(at * MS, kind::NMI)));
        history.push(slot(3_000 * MS, kind::NMI));
        assert!(!history.has_forgotten(MS));
        history.push(slot(5_000 * MS, kind::NMI));
        assert!(history.has_forgotten(MS));
    }

    #[test]
    fn dropped_events_are_reported_as_missing() {
        const MS: u64 = 1_000_000;
        let mut history = History::new(10, 10);
        for at in 0..50 {
            history.push(slot(at * MS, kind::NMI));
        }
        assert_eq!(history.cut(45 * MS, 46 * MS).1, 0);
        assert_eq!(history.cut(39 * MS, 46 * MS).1, 1);
        assert_eq!(history.cut(10 * MS, 12 * MS).1, 1);
        assert_eq!(history.known_from(45 * MS), 39 * MS + 1);
    }
}
