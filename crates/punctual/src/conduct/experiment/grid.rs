//! Samples and costs by slot. Slots follow each other from the start of the measurement; what is
//! requested while the machine settles counts for none.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use punctual_record::experiment::{BlockCost, ExperimentBlock};
use punctual_record::explanation::{Bill, Cause};
use punctual_stats::Histogram;
use punctual_stats::experiment::BlockLatencies;
use punctual_stats::histogram::PackedHistogram;

use crate::probe::cycle::Sample;

/// Slots whose histograms are open.
const OPEN: usize = 3;

/// The samples of all slots, shared by the collector and the experiment.
#[derive(Debug)]
pub struct Grid {
    slot_ns: u64,
    settle_ns: u64,
    samples: Samples,
    inner: Mutex<Inner>,
}

/// What samples are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Samples {
    /// Wake-ups at an interval, which may skip periods.
    WakeUps {
        /// From one to the next, in ns.
        interval_ns: u64,
    },
    /// Messages: some have no reply.
    Messages,
}

/// Skipped periods of one wake-up that are counted.
const MOST_SKIPPED: u64 = 1 << 20;

#[derive(Debug)]
struct Inner {
    /// Absent before the measurement.
    start_ns: Option<u64>,
    open: BTreeMap<u64, Histogram>,
    packed: BTreeMap<u64, PackedHistogram>,
    /// Messages without a reply: skipped or lost.
    missed: BTreeMap<u64, u64>,
    /// How late the periods were that wake-ups skipped.
    skipped: BTreeMap<u64, Histogram>,
    packed_skipped: BTreeMap<u64, PackedHistogram>,
    costs: BTreeMap<u64, BTreeMap<Cause, u64>>,
}

impl Grid {
    /// A grid without samples.
    #[must_use]
    pub fn new(slot_ns: u64, settle_ns: u64, samples: Samples) -> Self {
        Self {
            slot_ns: slot_ns.max(1),
            settle_ns,
            samples,
            inner: Mutex::new(Inner {
                start_ns: None,
                open: BTreeMap::new(),
                packed: BTreeMap::new(),
                missed: BTreeMap::new(),
                skipped: BTreeMap::new(),
                packed_skipped: BTreeMap::new(),
                costs: BTreeMap::new(),
            }),
        }
    }

    /// Whether samples are messages.
    #[must_use]
    pub fn is_of_messages(&self) -> bool {
        self.samples == Samples::Messages
    }

    /// The first slot begins at this instant.
    pub fn begin(&self, start_ns: u64) {
        self.lock().start_ns = Some(start_ns);
    }

    /// Adds samples.
    pub fn add(&self, samples: &[Sample]) {
        let mut inner = self.lock();
        for sample in samples {
            let Some(slot) = self.slot_of(inner.start_ns, sample.requested_ns) else {
                continue;
            };
            if !sample.is_lost() {
                inner.histogram(slot).record(sample.latency_ns());
            }
            match self.samples {
                Samples::Messages => {
                    let missed = inner.missed.entry(slot).or_default();
                    *missed += u64::from(sample.is_lost()) + sample.missed;
                }
                Samples::WakeUps { interval_ns } if sample.missed > 0 => {
                    // Each was as late as the wake-up that skipped it was for it.
                    let skipped = inner.skipped.entry(slot).or_default();
                    for nth in 1..=sample.missed.min(MOST_SKIPPED) {
                        let earlier_ns = nth.saturating_mul(interval_ns);
                        skipped.record(sample.latency_ns().saturating_sub(earlier_ns));
                    }
                }
                Samples::WakeUps { .. } => {}
            }
        }
        inner.pack();
    }

    /// Adds what a late wake-up is explained by.
    pub fn add_bill(&self, bill: &Bill) {
        let mut inner = self.lock();
        let Some(slot) = self.slot_of(inner.start_ns, bill.due_ns) else {
            return;
        };
        let costs = inner.costs.entry(slot).or_default();
        for (cause, ns) in bill.causes() {
            let sum = costs.entry(cause.general()).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    /// The slot whose block an instant is in.
    fn slot_of(&self, start_ns: Option<u64>, at_ns: u64) -> Option<u64> {
        let since_ns = at_ns.checked_sub(start_ns?)?;
        let within_ns = since_ns % self.slot_ns;
        (within_ns >= self.settle_ns).then_some(since_ns / self.slot_ns)
    }

    /// The latencies of a slot so far.
    #[must_use]
    pub fn latencies(&self, slot: u64) -> Histogram {
        let inner = self.lock();
        let open = inner.open.get(&slot).cloned();
        open.or_else(|| inner.packed.get(&slot).map(Histogram::from))
            .unwrap_or_default()
    }

    /// The figures of a slot so far.
    #[must_use]
    pub fn figures(&self, slot: u64, limit_ns: u64) -> BlockLatencies {
        let latencies = self.latencies(slot);
        if self.is_of_messages() {
            let missed = self.lock().missed.get(&slot).copied().unwrap_or(0);
            return BlockLatencies::of_messages(&latencies, missed, limit_ns);
        }
        let (skipped, packed) = {
            let inner = self.lock();
            let packed = inner.packed_skipped.get(&slot).map(Histogram::from);
            (inner.skipped.get(&slot).cloned(), packed)
        };
        let all = Histogram::merged([&latencies].into_iter().chain(&skipped).chain(&packed));
        BlockLatencies::of(&all, limit_ns)
    }

    /// What late wake-ups of a slot cost so far, the largest first.
    #[must_use]
    pub fn costs(&self, slot: u64) -> Vec<BlockCost> {
        let inner = self.lock();
        let costs = inner.costs.get(&slot).into_iter().flatten();
        let cost = |(cause, ns): (&Cause, &u64)| BlockCost {
            cause: cause.clone(),
            ns: *ns,
        };
        let mut costs: Vec<BlockCost> = costs.map(cost).collect();
        costs.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.cause.cmp(&b.cause)));
        costs.truncate(ExperimentBlock::COSTS);
        costs
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn histogram(&mut self, slot: u64) -> &mut Histogram {
        let packed = &mut self.packed;
        self.open.entry(slot).or_insert_with(|| {
            // A sample that comes late opens its slot again.
            let known = packed.remove(&slot);
            known.map_or_else(Histogram::new, |packed| Histogram::from(&packed))
        })
    }

    /// Packs all but the last slots.
    fn pack(&mut self) {
        if self.open.len() <= OPEN {
            return;
        }
        let last: BTreeSet<u64> = self.open.keys().rev().take(OPEN).copied().collect();
        let old: Vec<u64> = self
            .open
            .keys()
            .filter(|it| !last.contains(it))
            .copied()
            .collect();
        for slot in old {
            if let Some(histogram) = self.open.remove(&slot) {
                self.packed.insert(slot, PackedHistogram::from(&histogram));
            }
            if let Some(histogram) = self.skipped.remove(&slot) {
                let mut all = self
                    .packed_skipped
                    .remove(&slot)
                    .map_or_else(Histogram::new, |it| Histogram::from(&it));
                all.merge(&histogram);
                self.packed_skipped
                    .insert(slot, PackedHistogram::from(&all));
            }
        }
    }
}
