//! A thread that is woken by another CPU: its own CPU continues what it runs until the request to
//! switch arrives, in an interrupt.

use std::collections::BTreeMap;

use super::event::{Kind, Vector, Window};
use super::stages::{ProbeHistory, WakeUpStages};
use super::timeline::Slice;

/// When the probe was woken on another CPU, and when its own CPU received the request to switch.
#[derive(Debug, Default)]
pub(super) struct Requests(BTreeMap<u64, u64>);

impl Requests {
    pub(super) fn from_window(
        window: &Window,
        stages: &WakeUpStages<'_>,
        history: &ProbeHistory<'_>,
    ) -> Self {
        let wakings = window.events.iter().filter(|event| {
            event.cpu != window.cpu
                && matches!(event.kind, Kind::Waking { tid, .. } if tid == window.probe.tid)
        });
        let mut asked: BTreeMap<u64, u64> = wakings.map(|event| (event.at_ns, u64::MAX)).collect();
        if asked.is_empty() {
            return Self::default();
        }
        let requests = window.events.iter().filter(|event| {
            let vector = Vector::Reschedule;
            event.cpu == window.cpu
                && matches!(event.kind, Kind::VectorEntry { vector: is, .. } if is == vector)
        });
        for request in requests {
            if let Some((_, at_ns)) = asked.range_mut(..request.at_ns).next_back() {
                *at_ns = request.at_ns.min(*at_ns);
            }
        }
        // A request that came when the probe already ran had another purpose.
        let due_ns = stages.instants.due_ns;
        asked.retain(|waking_ns, at_ns| {
            *at_ns != u64::MAX && *at_ns <= history.state_at((*waking_ns).max(due_ns)).1
        });
        Self(asked)
    }

    /// Whether a stretch is such a request.
    pub(super) fn is_request(&self, slice: &Slice<'_>) -> bool {
        self.0.values().any(|at_ns| *at_ns == slice.from)
    }

    /// Whether the CPU still runs what it ran when the probe was woken, because the request to switch
    /// has not arrived yet.
    pub(super) fn is_on_its_way(&self, slice: &Slice<'_>, since_ns: u64) -> bool {
        let asked = self.0.get(&since_ns);
        slice.since <= since_ns && asked.is_some_and(|at_ns| slice.to <= *at_ns)
    }
}
