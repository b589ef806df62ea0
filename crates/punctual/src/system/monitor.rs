//! Conditions during a run: what changed since the last look.
//!
//! [`Snapshot::take`] reads, [`Snapshot::changes`] compares and is pure,
//! [`Monitor`] combines the two. A look costs a few small files and three
//! system calls for each probe: it is intended for once a second, from an ordinary thread.

use std::collections::BTreeMap;

use punctual_machine::Root;
use punctual_record::Event;

mod kernel_log;
mod snapshot;
mod throttling;

pub use snapshot::{Offsets, ProbeSeen, Snapshot};

/// The number of events of one kind that are reported; those that invalidate a run always are.
pub const EVENTS_PER_KIND: usize = 100;

/// A probe thread whose conditions are monitored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Monitored {
    /// Its CPU.
    pub cpu: usize,
    /// Its thread id.
    pub tid: i32,
    /// Its own priority and the highest one to which locks of its program raise it, where they do.
    pub raised: Option<(u32, u32)>,
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
/// What changes and changes back between two looks is not noticed, except for a probe's
/// CPU that was offline: a thread that wakes up meanwhile is moved, and keeps
/// another affinity. A thread that has ended is not an event: its owner knows that.
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

    /// Looks again, `at_ns` after the start of the measurement, and returns what
    /// changed since the last look, without the quotas of control groups.
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

    /// Looks again, and updates the events of a run: those of quotas grow.
    pub fn poll_into(&mut self, at_ns: u64, events: &mut Vec<Event>) {
        events.extend(self.poll(at_ns));
        self.throttling.quotas(at_ns, events);
    }

    /// Reads the accounts of real-time threads, and returns where one was throttled. Call it
    /// every [`Monitor::throttling_check_interval`], while the probes still run.
    pub fn poll_throttling(&mut self, at_ns: u64) -> Vec<Event> {
        self.throttling.look(at_ns)
    }

    /// The interval between calls of [`Monitor::poll_throttling`].
    #[must_use]
    pub fn throttling_check_interval(&self) -> std::time::Duration {
        self.throttling.every()
    }

    /// How often each kind of event occurred, including unreported ones.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<&'static str, usize> {
        &self.counts
    }

    /// Time stolen from the probed CPUs between the start and the last look;
    /// absent if the kernel doesn't report it.
    #[must_use]
    pub fn stolen(&self) -> Option<Stolen> {
        self.first.stolen_until(&self.last)
    }
}
