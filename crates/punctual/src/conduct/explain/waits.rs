//! The longest waits that another thread ended, each with its chain.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::feed::Wake;
use crate::conduct::culprits;
use crate::record::explanation::{Explanation, Wait};
use crate::trace::attribute::waits::chain;
use crate::trace::calls;
use crate::trace::capture::Capture;
use crate::trace::capture::numbers::Numbers;

/// Chains that are made after each nap: one of a busy machine takes some ms. The others wait.
const AT_ONCE: usize = 8;

/// A thread, a system call, and the name of who ended it.
type Key = (u32, u32, String);

/// What is known so far.
#[derive(Debug, Default)]
pub(super) struct Waits {
    kept: BTreeMap<Key, Wait>,
    /// Those that there was no time for.
    pending: Vec<(Key, u64, Wake)>,
    /// Whether some were not kept.
    pub(super) full: bool,
}

impl Waits {
    /// Counts the waits among these wake-ups, whose events have been copied out, and follows those
    /// that are longer than all of their kind before.
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
            let key = (wake.tid, call, waker.map_or_else(String::new, |it| it.name));
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
            if let Some(kept) = self.kept.get_mut(&key) {
                // As the switches say it, of which the sum is made too.
                kept.total_ns = (kept.total_ns - wait_ns).saturating_add(kept.wait_ns);
            }
        }
    }

    /// Counts a wait of a kind; how long the longest is that is kept of it.
    fn count(&mut self, key: &Key, wait_ns: u64) -> Option<u64> {
        if !self.kept.contains_key(key) {
            if self.kept.len() >= Wait::KINDS {
                self.full = true;
                return None;
            }
            let call = calls::name(key.1);
            let kept = Wait {
                call: call.to_string(),
                ended_by: key.2.clone(),
                ..Wait::default()
            };
            self.kept.insert(key.clone(), kept);
        }
        let kept = self.kept.get_mut(key)?;
        kept.count += 1;
        kept.total_ns = kept.total_ns.saturating_add(wait_ns);
        Some(kept.wait_ns)
    }

    fn follow(&mut self, key: &Key, wake: &Wake, capture: &Capture, numbers: &Numbers) {
        let Some(kept) = self.kept.get_mut(key) else {
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
        culprits::look_up_threads(kept.threads(), numbers);
    }

    /// For the record: those in which others had most to do.
    pub(super) fn to_record(&self) -> Vec<Wait> {
        let followed = self.kept.values().filter(|wait| !wait.rows.is_empty());
        let mut waits: Vec<Wait> = followed.cloned().collect();
        waits.sort_by_key(|wait| Reverse(wait.worked_ns()));
        waits.truncate(Explanation::WAITS);
        waits
    }
}
