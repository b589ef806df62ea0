//! Who stopped a target before its window begins.

use super::history::History;
use super::slot::{Slot, kind};
use crate::attribute::is_stopped;

/// Who stopped a target that `left` its CPU in a state before the window, or with one of its events. The
/// stop has the time of that switch, and is recorded before it: a window that begins with the switch
/// lacks it.
pub(super) fn stop_before<'h>(
    lanes: impl Iterator<Item = &'h History>,
    window: &[Slot],
    tid: u32,
    begin_ns: u64,
    left: Option<u64>,
) -> Option<Slot> {
    let mut switches = window.iter().filter(|it| it.kind() == kind::SWITCH);
    let first = switches.find(|it| it.from_tid() == tid || it.to_tid() == tid);
    let gone = first.filter(|it| it.from_tid() == tid && !it.is_preempted());
    let gone = gone.map(|it| (it.at_ns(), it.b()));
    let (at_ns, state) = gone.or(left.map(|state| (begin_ns, state)))?;
    let is_stop = |slot: &Slot| slot.kind() == kind::STOP && slot.a() as u32 == tid;
    let stops = lanes.filter_map(|it| it.last_before(at_ns, is_stop));
    let stop = stops.max_by_key(|slot| slot.at_ns()).copied();
    stop.filter(|_| is_stopped(state))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOPPED: u64 = 4;

    fn slot(at_ns: u64, of: u16, a: u64, b: u64) -> Slot {
        Slot([at_ns, u64::from(of) << 32, a, b, 0, 0, 0, 0])
    }

    fn switch(at_ns: u64, from: u64, to: u64, state: u64) -> Slot {
        slot(at_ns, kind::SWITCH, to << 32 | from, state)
    }

    /// Nothing else happens on its CPU until a wake-up that is due 1 ms later.
    #[test]
    fn a_stop_is_found_that_is_just_before_the_window() {
        let found = |state: u64| {
            let mut history = History::new(100, 100);
            let stop = slot(700_000, kind::STOP, 100, 4711);
            history.push(slot(300_000, kind::STOP, 100, 1));
            history.push(switch(500_000, 0, 100, 0));
            history.push(stop);
            history.push(switch(700_000, 100, 0, state));
            let (window, _) = history.cut(1_700_000, 1_800_000);
            assert_eq!(window, [switch(700_000, 100, 0, state)]);
            let found = stop_before([&history].into_iter(), &window, 100, 700_000, None);
            (found == Some(stop), found.is_none())
        };
        assert_eq!(found(STOPPED), (true, false));
        assert_eq!(found(1), (false, true));
    }

    #[test]
    fn a_stop_long_before_the_window_is_found_by_how_it_left() {
        let mut history = History::new(100, 100);
        let stop = slot(100_000, kind::STOP, 100, 4711);
        for slot in [
            stop,
            switch(100_000, 100, 0, STOPPED),
            switch(700_000, 0, 9, 0),
        ] {
            history.push(slot);
        }
        let (window, _) = history.cut(1_700_000, 1_800_000);
        let found = |left| stop_before([&history].into_iter(), &window, 100, 700_000, left);
        assert_eq!(found(Some(STOPPED)), Some(stop));
        assert_eq!((found(Some(1)), found(None)), (None, None));
    }
}
