//! What a run hands over to be judged.

use crate::histogram::Histogram;
use crate::miss::MissEvidence;
use crate::peaks::Peaks;

/// The evidence of one measuring thread.
#[derive(Clone, Debug)]
pub struct ThreadEvidence<'a> {
    /// The CPU it was pinned to.
    pub cpu: u32,
    /// Every latency that was measured.
    pub histogram: &'a Histogram,
    /// Samples later than [`RunEvidence::deadline_ns`], counted exactly by the
    /// collector. Ignored when there is no deadline.
    pub late: u64,
    /// Periods that passed while the thread was late.
    pub missed: u64,
    /// Those of them that a sample later than [`RunEvidence::deadline_ns`] passed
    /// over: with a deadline longer than the period, a period may pass and the
    /// deadline be kept. Ignored when there is no deadline.
    pub missed_late: u64,
    /// Samples that were lost on their way to the collector.
    pub lost: u64,
    /// Whether it may be without a sample, as a thread that ended before its first wake-up.
    /// Of any other that means that it was never woken, and nothing was measured.
    pub may_be_empty: bool,
    /// The highest samples.
    pub peaks: &'a Peaks,
}

impl ThreadEvidence<'_> {
    /// Cycles: samples and missed periods.
    pub fn cycles(&self) -> u64 {
        self.histogram.count().saturating_add(self.missed)
    }
}

/// One half of a run, to see whether it changed under way.
#[derive(Clone, Debug)]
pub struct HalfEvidence<'a> {
    /// The latencies of all threads in this half.
    pub histogram: &'a Histogram,
    /// Late samples and missed periods of all threads in this half.
    pub misses: u64,
}

/// The evidence of a run.
#[derive(Clone, Debug)]
pub struct RunEvidence<'a> {
    /// One entry for each measuring thread.
    pub threads: Vec<ThreadEvidence<'a>>,
    /// Duration of the measurement in ns.
    pub duration_ns: u64,
    /// The deadline that the collector counted `late` for.
    pub deadline_ns: Option<u64>,
    /// Whole seconds of the run.
    pub seconds: u64,
    /// Seconds with a late sample or a missed period on any thread.
    pub seconds_with_miss: u64,
    /// The two halves of the run, when the collector kept them.
    pub halves: Option<[HalfEvidence<'a>; 2]>,
    /// What loaded the machine, in words: "standard load v1".
    pub load: Option<&'a str>,
}

impl RunEvidence<'_> {
    /// Samples of all threads.
    pub fn samples(&self) -> u64 {
        self.threads.iter().map(|t| t.histogram.count()).sum()
    }

    /// Missed periods of all threads.
    pub fn missed(&self) -> u64 {
        self.threads.iter().map(|t| t.missed).sum()
    }

    /// Samples and missed periods of all threads.
    pub fn cycles(&self) -> u64 {
        self.threads.iter().map(ThreadEvidence::cycles).sum()
    }

    /// Samples that were lost on their way to the collector.
    pub fn lost(&self) -> u64 {
        self.threads.iter().map(|t| t.lost).sum()
    }

    /// Exact maximum of all threads in ns, `None` without samples.
    pub fn max_ns(&self) -> Option<u64> {
        self.threads.iter().filter_map(|t| t.histogram.max()).max()
    }

    /// The peaks of all threads under their common threshold.
    pub fn peaks(&self) -> Peaks {
        Peaks::merged(self.threads.iter().map(|t| t.peaks))
    }

    /// Samples later than `limit_ns`: fewest and most that agree with what was
    /// kept. They are equal for the deadline that the collector counted and
    /// wherever the peaks are complete.
    pub fn late(&self, limit_ns: u64) -> (u64, u64) {
        let counted = self.deadline_ns == Some(limit_ns);
        self.threads
            .iter()
            .map(|thread| {
                let exact = if counted {
                    Some(thread.late)
                } else {
                    thread.peaks.count_above(limit_ns)
                };
                exact.map_or_else(
                    || {
                        (
                            thread.histogram.count_surely_above(limit_ns),
                            thread.histogram.count_above(limit_ns),
                        )
                    },
                    |late| (late, late),
                )
            })
            .fold((0, 0), |(low, high), (l, h)| (low + l, high + h))
    }

    /// Periods that a sample later than `limit_ns` passed over: fewest and most
    /// that agree with what was kept. They are equal for the deadline that the
    /// collector counted.
    pub fn missed_late(&self, limit_ns: u64) -> (u64, u64) {
        let all = self.missed();
        let counted = self.threads.iter().map(|t| t.missed_late).sum();
        match self.deadline_ns {
            Some(deadline_ns) if limit_ns == deadline_ns => (counted, counted),
            Some(deadline_ns) if limit_ns < deadline_ns => (counted, all),
            Some(_) => (0, counted),
            None => (0, all),
        }
    }

    /// The evidence on misses of `limit_ns`.
    ///
    /// `peaks` are those of [`RunEvidence::peaks`]; `late` is a count out of
    /// [`RunEvidence::late`]; `missed` is one out of [`RunEvidence::missed_late`],
    /// or `None` where a missed period is no cycle.
    pub fn misses<'p>(
        &self,
        limit_ns: u64,
        late: u64,
        missed: Option<u64>,
        peaks: &'p Peaks,
    ) -> MissEvidence<'p> {
        let counted = self.deadline_ns == Some(limit_ns) && missed.is_some();
        MissEvidence {
            limit_ns,
            cycles: if missed.is_some() {
                self.cycles()
            } else {
                self.samples()
            },
            late,
            missed: missed.unwrap_or(0),
            peaks,
            threads: self.threads.len(),
            duration_ns: self.duration_ns,
            seconds: self.seconds,
            seconds_with_miss: counted.then_some(self.seconds_with_miss),
        }
    }
}
