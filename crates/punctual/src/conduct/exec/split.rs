//! Where the time of a chain's reactions went, hop by hop.

use crate::conduct::compose::thread_of;
use crate::probe::cycle::Sample;
use crate::probe::tally::{Halves, Tally};
use crate::probe::timeline;
use punctual_exec::Passed;
use punctual_record::Thread;
use punctual_record::taskset::{ChainHop, ChainSplit, TaskSet, Times};

/// The longest times of a hop that are kept whole.
const PEAKS: usize = 256;

/// The figures of the hops of one chain.
#[derive(Debug, Clone)]
pub struct SplitTally {
    start_ns: u64,
    hops: Vec<ChainHop>,
    whole: Tally,
    each: Vec<Tally>,
    unsplit: u64,
}

impl SplitTally {
    /// For a chain of a set that starts at an instant; `None` for one that is not split.
    pub fn new(set: &TaskSet, chain: usize, start_ns: u64, halves: Halves) -> Option<Self> {
        let limit_ns = set.chains.get(chain)?.reaction_ns;
        let hops = ChainHop::of(set, chain);
        let tally = |limit_ns| {
            Tally::new(start_ns, limit_ns, halves, PEAKS).with_shortest_interval(u64::MAX)
        };
        (!hops.is_empty()).then(|| Self {
            start_ns,
            whole: tally(limit_ns.unwrap_or(u64::MAX)),
            each: hops.iter().map(|_| tally(u64::MAX)).collect(),
            hops,
            unsplit: 0,
        })
    }

    /// Adds a reaction that began at an instant, with the way of what came out at its end.
    pub fn add(&mut self, passed: &Passed, since_ns: u64) {
        let instants = passed.way.instants();
        let Some(times) =
            times(&self.hops, instants).filter(|_| instants.first() == Some(&since_ns))
        else {
            return self.leave_out();
        };
        let sample = |ns: u64| Sample {
            requested_ns: since_ns,
            late_ns: i64::try_from(ns).unwrap_or(i64::MAX),
            missed: 0,
        };
        for (tally, ns) in self.each.iter_mut().zip(times) {
            tally.record_all(&[sample(ns)]);
        }
        let whole_ns = passed.out_ns.saturating_sub(since_ns);
        self.whole.record_all(&[sample(whole_ns)]);
    }

    /// Counts a reaction of which the way is not known.
    pub fn leave_out(&mut self) {
        self.unsplit += 1;
    }

    /// The figures as the record keeps them, after so much of the run, of which so many outputs were lost.
    pub fn to_record(&self, lost: u64, measured_ns: u64) -> ChainSplit {
        let times = |tally: &Tally| Times {
            times: Thread {
                cpu: None,
                lost,
                ..thread_of(self.start_ns, tally, 0, 0)
            },
            timeline: timeline::merged([tally.rows()], measured_ns),
        };
        ChainSplit {
            whole: times(&self.whole),
            hops: self.each.iter().map(times).collect(),
            unsplit: self.unsplit,
        }
    }
}

/// The time of each hop along a way: the instants are a reading, then the begin and the end of a job of
/// each task.
fn times(hops: &[ChainHop], instants: &[u64]) -> Option<Vec<u64>> {
    let mut left = instants.iter();
    let mut since_ns = *left.next()?;
    let mut times = Vec::with_capacity(hops.len());
    for hop in hops {
        if let ChainHop::Task { released: true, .. } = hop {
            // Its begin is within the hop.
            left.next()?;
        }
        let until_ns = *left.next()?;
        times.push(until_ns.checked_sub(since_ns)?);
        since_ns = until_ns;
    }
    left.next().is_none().then_some(times)
}
