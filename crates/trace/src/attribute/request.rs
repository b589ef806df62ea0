//! A thread that is woken by another CPU: its own CPU continues what it runs until the request to
//! switch arrives, in an interrupt.

use std::collections::{BTreeMap, BTreeSet};

use super::event::{Kind, Vector, Window};
use super::stages::{ProbeHistory, WakeUpStages};
use super::timeline::Slice;

/// A request may take this long to arrive where nothing delays it.
const ARRIVAL_MOST_NS: u64 = 100_000;

/// When the probe was woken on another CPU, and when its own CPU received the request to switch.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// The probe's own CPU.
    cpu: u32,
    /// All of them: when they arrived.
    arrivals: BTreeSet<u64>,
    /// Those that were on their way all the time: from the waking to the arrival.
    on_the_way: BTreeMap<u64, u64>,
}

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
        let mut asked: BTreeMap<u64, (u32, u64)> = wakings
            .map(|event| (event.at_ns, (event.cpu, u64::MAX)))
            .collect();
        if asked.is_empty() {
            return Self::default();
        }
        let requests = window.events.iter().filter(|event| {
            let vector = Vector::Reschedule;
            event.cpu == window.cpu
                && matches!(event.kind, Kind::VectorEntry { vector: is, .. } if is == vector)
        });
        for request in requests {
            if let Some((_, (_, at_ns))) = asked.range_mut(..request.at_ns).next_back() {
                *at_ns = request.at_ns.min(*at_ns);
            }
        }
        // A request that came when the probe already ran had another purpose.
        let due_ns = stages.instants.due_ns;
        asked.retain(|waking_ns, (_, at_ns)| {
            *at_ns != u64::MAX && *at_ns <= history.state_at((*waking_ns).max(due_ns)).1
        });
        let arrivals = asked.values().map(|(_, at_ns)| *at_ns).collect();
        let order = Order::from_window(window);
        asked.retain(|waking_ns, (by, at_ns)| !order.is_overtaken(*by, *waking_ns, *at_ns));
        let on_the_way = asked.into_iter().map(|(from, (_, to))| (from, to));
        Self {
            cpu: window.cpu,
            arrivals,
            on_the_way: on_the_way.collect(),
        }
    }

    /// Whether a stretch is such a request.
    pub(super) fn is_request(&self, slice: &Slice<'_>) -> bool {
        self.arrivals.contains(&slice.from)
    }

    /// Whether the CPU still runs what it ran when the probe was woken, because the request to switch
    /// has not arrived yet.
    pub(super) fn is_on_its_way(&self, slice: &Slice<'_>, since_ns: u64) -> bool {
        let asked = self.on_the_way.get(&since_ns);
        slice.cpu == self.cpu
            && slice.since <= since_ns
            && asked.is_some_and(|at_ns| slice.to <= *at_ns)
    }
}

/// When something happened, in order.
struct Order {
    /// Interrupts of the probe's CPU.
    interrupts: Vec<u64>,
    /// All events of each CPU.
    events: BTreeMap<u32, Vec<u64>>,
}

impl Order {
    fn from_window(window: &Window) -> Self {
        let mut order = Self {
            interrupts: Vec::new(),
            events: BTreeMap::new(),
        };
        for event in &window.events {
            let its = order.events.entry(event.cpu).or_default();
            its.push(event.at_ns);
            let is_interrupt = matches!(
                event.kind,
                Kind::VectorEntry { .. } | Kind::HandlerEntry { .. }
            );
            if event.cpu == window.cpu && is_interrupt {
                order.interrupts.push(event.at_ns);
            }
        }
        order
            .events
            .values_mut()
            .for_each(|its| its.sort_unstable());
        order.interrupts.sort_unstable();
        order
    }

    /// Whether another interrupt came to the probe's CPU after the request had been sent, long
    /// before this one arrived. A request that is pending is delivered before any other interrupt
    /// (on x86 its vector is the highest), so this one was sent later: by what allowed the probe
    /// to run again.
    fn is_overtaken(&self, by: u32, waking_ns: u64, arrival_ns: u64) -> bool {
        // What the CPU that woke it did next shows that it had sent the request; it may have been
        // stopped before.
        let sent_ns = self.events.get(&by).and_then(|its| next(its, waking_ns));
        let Some(sent_ns) = sent_ns else {
            return false;
        };
        let other_ns = next(&self.interrupts, sent_ns.saturating_add(ARRIVAL_MOST_NS));
        other_ns.is_some_and(|at_ns| at_ns.saturating_add(ARRIVAL_MOST_NS) < arrival_ns)
    }
}

/// The first instant after another.
fn next(instants: &[u64], after: u64) -> Option<u64> {
    let index = instants.partition_point(|at| *at <= after);
    instants.get(index).copied()
}
