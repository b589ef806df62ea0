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
    /// Samples that were lost on their way to the collector.
    pub lost: u64,
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

    /// The evidence on misses of `limit_ns`.
    ///
    /// `peaks` are those of [`RunEvidence::peaks`]; `late` is a count out of
    /// [`RunEvidence::late`]; with `count_missed`, a missed period is a miss.
    pub fn misses<'p>(
        &self,
        limit_ns: u64,
        late: u64,
        count_missed: bool,
        peaks: &'p Peaks,
    ) -> MissEvidence<'p> {
        let counted = self.deadline_ns == Some(limit_ns) && count_missed;
        MissEvidence {
            limit_ns,
            cycles: if count_missed {
                self.cycles()
            } else {
                self.samples()
            },
            late,
            missed: if count_missed { self.missed() } else { 0 },
            peaks,
            threads: self.threads.len(),
            duration_ns: self.duration_ns,
            seconds: self.seconds,
            seconds_with_miss: counted.then_some(self.seconds_with_miss),
        }
    }
}
