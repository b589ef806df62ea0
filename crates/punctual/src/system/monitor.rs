//! Conditions while a run goes: what changed since the last look.
//!
//! [`Snapshot::take`] reads, [`Snapshot::changes`] compares and is pure,
//! [`Monitor`] puts the two together. A look costs a few small files and three
//! system calls for each probe: once a second from an ordinary thread is meant.

use std::collections::BTreeMap;

use super::root::Root;
use punctual_record::Event;

mod kernel_log;
mod snapshot;
mod throttling;

pub use snapshot::{Offsets, ProbeSeen, Snapshot};

/// So many events of one kind are handed on; those that invalidate a run always are.
pub const EVENTS_PER_KIND: usize = 100;

/// A probe thread whose conditions are monitored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Monitored {
    /// Its CPU.
    pub cpu: usize,
    /// Its thread id.
    pub tid: i32,
}

/// Time taken by the host of a virtual machine since the monitor started.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Stolen {
    /// On all probed CPUs together.
    pub total_ns: u64,
    /// As a share of the time of the probed CPUs: 0 to 1.
    pub share: f64,
}

/// Monitors the conditions of a run.
///
/// What changes and changes back between two looks goes unseen, but for a probe's
/// CPU that was offline: a thread that wakes up meanwhile is moved, and stays with
/// another affinity. A thread that has ended is no event: its maker knows.
#[derive(Debug)]
pub struct Monitor {
    root: Root,
    probes: Vec<Monitored>,
    first: Snapshot,
    last: Snapshot,
    log: kernel_log::KernelLog,
    throttling: throttling::Throttling,
    counts: BTreeMap<&'static str, usize>,
}

impl Monitor {
    /// Takes the first look. The probes' scheduling should be in force by now, and
    /// time counts from here: `at_ns` of a later [`Monitor::poll`] is relative to it.
    #[must_use]
    pub fn start(root: &Root, probes: &[Monitored]) -> Self {
        let first = Snapshot::take(root, probes, 0);
        Self {
            root: root.clone(),
            probes: probes.to_vec(),
            last: first.clone(),
            log: kernel_log::KernelLog::open(root),
            throttling: throttling::Throttling::start(root, probes),
            first,
            counts: BTreeMap::new(),
        }
    }

    /// Looks again, `at_ns` after the start of the measurement, and says what
    /// changed since the last look; but for the quotas of control groups.
    pub fn poll(&mut self, at_ns: u64) -> Vec<Event> {
        let mut now = Snapshot::take(&self.root, &self.probes, at_ns);
        let mut events = self.last.changes(&mut now);
        events.extend(self.log.poll(at_ns));
        self.last = now;
        events.retain(|event| {
            let count = self.counts.entry(event.kind()).or_insert(0);
            *count += 1;
            event.invalidates || *count <= EVENTS_PER_KIND
        });
        events
    }

    /// Looks again, and brings the events of a run up to date: those of quotas grow.
    pub fn poll_into(&mut self, at_ns: u64, events: &mut Vec<Event>) {
        events.extend(self.poll(at_ns));
        self.throttling.quotas(at_ns, events);
    }

    /// Looks at the accounts of real-time threads, and says where one was throttled: to be
    /// called every [`Monitor::throttling_every`], and while the probes still live.
    pub fn poll_throttling(&mut self, at_ns: u64) -> Vec<Event> {
        self.throttling.look(at_ns)
    }

    /// How often [`Monitor::poll_throttling`] is to be called.
    #[must_use]
    pub fn throttling_every(&self) -> std::time::Duration {
        self.throttling.every()
    }

    /// How often each kind of event occurred, also where it was not handed on.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<&'static str, usize> {
        &self.counts
    }

    /// Time stolen from the probed CPUs between the start and the last look;
    /// absent where the kernel doesn't say.
    #[must_use]
    pub fn stolen(&self) -> Option<Stolen> {
        self.first.stolen_until(&self.last)
    }
}
