//! The longest waits that another thread ended, each with its chain.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::feed::Wake;
use crate::conduct::culprits;
use punctual_record::explanation::{Explanation, NotSeen, Wait, general_name};
use punctual_trace::attribute::waits::chain;
use punctual_trace::calls;
use punctual_trace::capture::Capture;
use punctual_trace::capture::numbers::Numbers;

/// Chains that are made per round: one on a busy machine takes a few ms. The others wait.
const AT_ONCE: usize = 8;

/// Kinds that are kept.
const MOST: usize = Wait::KINDS;

/// A thread, a system call, and the name of the thread that ended the wait; all kernel workers count
/// as one.
type Key = (u32, u32, String);

/// A kind of waits, and its longest wait, followed or not.
#[derive(Debug, Default)]
struct Kind {
    wait: Wait,
    longest_ns: u64,
}

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct Waits {
    kept: BTreeMap<Key, Kind>,
    /// Waits that there was no time for.
    pending: Vec<(Key, u64, Wake)>,
    /// A lower bound of the longest wait of each kept kind.
    floor_ns: u64,
    /// Waits of kinds that are not kept, and the longest of them.
    dropped: u64,
    dropped_most_ns: u64,
}

impl Waits {
    /// Counts the waits among these wake-ups, whose events have been copied, and follows those that
    /// are longer than all earlier waits of their kind.
    pub(super) fn take(&mut self, wakes: &[Wake], capture: &Capture, numbers: &Numbers) {
        let pending = std::mem::take(&mut self.pending).into_iter();
        let mut longest: BTreeMap<Key, (u64, Wake)> = pending
            .map(|(key, wait_ns, wake)| (key, (wait_ns, wake)))
            .collect();
        for wake in wakes {
            let (Some(call), Some(from_ns)) = (wake.slept_in, wake.waiting_ns) else {
                continue;
            };
            let waker = capture.waker(wake.tid, wake.due_ns, wake.at.waking);
            let key = (
                wake.tid,
                call,
                waker.map_or_else(String::new, |it| general_name(&it.name)),
            );
            let wait_ns = wake.woken_ns.saturating_sub(from_ns);
            let Some(known) = self.count(&key, wait_ns) else {
                continue;
            };
            let best = longest.get(&key).map_or(known, |(ns, _)| *ns);
            if wait_ns > best {
                longest.insert(key, (wait_ns, *wake));
            }
        }
        let mut longest: Vec<(Key, u64, Wake)> = longest
            .into_iter()
            .map(|(key, (wait_ns, wake))| (key, wait_ns, wake))
            .collect();
        longest.sort_by_key(|(_, wait_ns, _)| Reverse(*wait_ns));
        self.pending = longest.split_off(longest.len().min(AT_ONCE));
        for (key, wait_ns, wake) in longest {
            self.follow(&key, &wake, capture, numbers);
            if let Some(Kind { wait: kept, .. }) = self.kept.get_mut(&key) {
                // From the context switches, like the sum.
                kept.total_ns = (kept.total_ns - wait_ns).saturating_add(kept.wait_ns);
            }
        }
    }

    /// Whether there was no time for some.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Counts a wait of a kind; returns the longest followed wait of that kind. If there are too many
    /// kinds, those with the longest waits are kept.
    fn count(&mut self, key: &Key, wait_ns: u64) -> Option<u64> {
        if !self.kept.contains_key(key) {
            if self.kept.len() >= MOST && !self.make_room(wait_ns) {
                self.drop_kind(1, wait_ns);
                return None;
            }
            let wait = Wait {
                call: calls::name(key.1),
                ended_by: key.2.clone(),
                ..Wait::default()
            };
            let longest_ns = 0;
            self.kept.insert(key.clone(), Kind { wait, longest_ns });
        }
        let Kind { wait, longest_ns } = self.kept.get_mut(key)?;
        *longest_ns = wait_ns.max(*longest_ns);
        wait.count += 1;
        wait.total_ns = wait.total_ns.saturating_add(wait_ns);
        Some(wait.wait_ns)
    }

    /// Drops the kind whose longest wait is the shortest, if that is shorter than this.
    fn make_room(&mut self, wait_ns: u64) -> bool {
        if wait_ns <= self.floor_ns {
            return false;
        }
        let least = self.kept.iter().min_by_key(|(_, kind)| kind.longest_ns);
        let Some((key, kind)) = least.map(|(key, kind)| (key.clone(), kind)) else {
            return false;
        };
        self.floor_ns = kind.longest_ns;
        if wait_ns <= self.floor_ns {
            return false;
        }
        self.drop_kind(kind.wait.count, kind.longest_ns);
        self.kept.remove(&key);
        self.pending.retain(|(pending, ..)| *pending != key);
        true
    }

    fn drop_kind(&mut self, count: u64, longest_ns: u64) {
        self.dropped = self.dropped.saturating_add(count);
        self.dropped_most_ns = self.dropped_most_ns.max(longest_ns);
    }

    /// What is missing.
    pub(super) fn missing(&self) -> Option<NotSeen> {
        (self.dropped > 0).then_some(NotSeen::Waits {
            count: self.dropped,
            longest_ns: self.dropped_most_ns,
            kinds: MOST as u64,
        })
    }

    fn follow(&mut self, key: &Key, wake: &Wake, capture: &Capture, numbers: &Numbers) {
        let Some(Kind { wait: kept, .. }) = self.kept.get_mut(key) else {
            return;
        };
        let from_ns = wake.waiting_ns.unwrap_or(wake.due_ns);
        let (window, known_from_ns) = capture.wait(wake.tid, wake.at, from_ns, wake.woken_ns);
        let chain = chain(&window, known_from_ns);
        if let (true, Some(by)) = (key.2.is_empty(), &chain.ended_by) {
            kept.ended_by.clone_from(by);
        }
        kept.thread = chain.waiter;
        (kept.from_ns, kept.wait_ns) = (chain.from_ns, chain.to_ns - chain.from_ns);
        kept.rows = chain.rows;
        culprits::look_up_threads(kept.threads(), chain.to_ns, numbers);
    }

    /// For the record: the waits in which other threads had the largest share.
    pub(super) fn to_record(&self) -> Vec<Wait> {
        let followed = self.kept.values().map(|kind| &kind.wait);
        let followed = followed.filter(|wait| !wait.rows.is_empty());
        let mut waits: Vec<Wait> = followed.cloned().collect();
        waits.sort_by_key(|wait| Reverse(wait.worked_ns()));
        waits.truncate(Explanation::WAITS);
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u32) -> Key {
        (number, 0, "waker".to_owned())
    }

    #[test]
    fn the_kinds_with_the_longest_waits_are_kept_and_the_others_counted() {
        let mut waits = Waits::default();
        let most = MOST as u32;
        for number in 0..most {
            assert!(
                waits
                    .count(&key(number), 1_000 + u64::from(number))
                    .is_some()
            );
        }
        assert_eq!(waits.missing(), None);
        // Shorter than all: it is not kept. Longer: the shortest makes room, with all its waits.
        assert_eq!(waits.count(&key(most), 999), None);
        waits.count(&key(0), 10).expect("it is kept");
        assert_eq!(waits.count(&key(most), 5_000), Some(0));
        assert_eq!(waits.kept.len(), MOST);
        assert!(!waits.kept.contains_key(&key(0)) && waits.kept.contains_key(&key(1)));
        assert_eq!((waits.dropped, waits.dropped_most_ns), (3, 1_000));
        let missing = NotSeen::Waits {
            count: 3,
            longest_ns: 1_000,
            kinds: MOST as u64,
        };
        assert_eq!(waits.missing(), Some(missing));
        let kept: u64 = waits.kept.values().map(|kind| kind.wait.count).sum();
        assert_eq!(kept + waits.dropped, u64::from(most) + 3);
    }
}
