//! The figures of a run as every view shows them: one row for each probe
//! thread and one for all of them, computed once.
//!
//! Histograms are read one at a time and reduced at once, so that a record of
//! 256 CPUs costs no more memory than one of two.

use std::collections::BTreeMap;

use punctual_stats::histogram::{Histogram, LadderRung, MIN_SAMPLES_BEYOND};

use super::facts;
use super::known::{Known, Reading};
use punctual_record::live::RowsAre;
use punctual_record::{Run, Thread};

/// Bins per decade in the pictures.
pub const BINS_PER_DECADE: i32 = 25;
/// Points per decade of the percentile curve.
const POINTS_PER_DECADE: i32 = 24;

/// Counts in logarithmic bins: bin `i` begins at `10^(i / BINS_PER_DECADE)` ns.
pub type Bins = BTreeMap<i32, u64>;

/// The lower edge of a bin in ns.
#[must_use]
pub fn bin_edge(index: i32) -> f64 {
    10f64.powf(f64::from(index) / f64::from(BINS_PER_DECADE))
}

/// A point of a percentile curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Share of samples above, in (0, 1].
    pub above: f64,
    /// The latency in ns.
    pub ns: u64,
}

/// The figures of one thread, or of all of them.
#[derive(Debug, Clone, Default)]
pub struct Row {
    /// `0`, or `0/1234` where two threads share a CPU, or `all`.
    pub label: String,
    /// The same in words: `CPU 0`, or `thread 0` where its CPU isn't known.
    pub name: String,
    /// Samples.
    pub count: u64,
    /// Exact minimum in ns; `None` without samples.
    pub min: Option<u64>,
    /// Mean in ns.
    pub mean: Option<f64>,
    /// Exact maximum in ns.
    pub max: Option<u64>,
    /// p50 ... p99.999, each only where the sample supports it.
    pub ladder: Vec<LadderRung>,
    /// Wake-ups later than the deadline.
    pub late: u64,
    /// Missed periods.
    pub missed: u64,
    /// Lost samples.
    pub lost: u64,
    /// Wake-ups before the requested instant.
    pub early: u64,
    /// The histogram in logarithmic bins.
    pub bins: Bins,
    /// The percentile curve, from the lowest sample to the maximum.
    pub curve: Vec<CurvePoint>,
    /// What a reader must know of the thread: an error, an unreadable histogram.
    pub note: Option<String>,
    /// Another tool's figures, which state nothing of late, missed, lost or early wake-ups.
    pub imported: bool,
    /// Samples whose latency another tool did not keep, its maximum apart.
    pub unkept: u64,
    /// Where there are such: nothing is known of the distribution from here on. Absent too
    /// where there is no histogram at all.
    pub kept_below_ns: Option<u64>,
}

impl Row {
    /// The value of a percentile of the ladder, where it is supported.
    #[must_use]
    pub fn percentile(&self, percentile: f64) -> Option<u64> {
        self.ladder
            .iter()
            .find(|rung| (rung.percentile - percentile).abs() < 1e-9)
            .and_then(|rung| rung.value_ns)
    }

    /// A percentile of the ladder as far as it is known.
    #[must_use]
    pub fn reading(&self, percentile: f64) -> Reading {
        let rung = self
            .ladder
            .iter()
            .find(|rung| (rung.percentile - percentile).abs() < 1e-9);
        match rung.map(|rung| (rung.value_ns, rung.samples_beyond)) {
            Some((Some(ns), _)) => Reading::Value(ns),
            Some((None, beyond)) if beyond >= MIN_SAMPLES_BEYOND => {
                self.kept_below_ns.map_or(Reading::TooFew, Reading::AtLeast)
            }
            _ => Reading::TooFew,
        }
    }

    /// As [`Row::fill`], where samples were counted whose latency was not kept.
    fn fill_kept(&mut self, histogram: &Histogram, unkept: u64, kept_below_ns: u64) {
        self.fill(histogram);
        self.unkept = unkept;
        self.kept_below_ns = (!histogram.is_empty()).then_some(kept_below_ns);
        let whole = Known {
            histogram: histogram.clone(),
            limit_ns: None,
        };
        let all = whole.cut(kept_below_ns, unkept).histogram;
        self.count = all.count();
        self.mean = None;
        let known = |ns: &u64| *ns < kept_below_ns;
        self.ladder = all.percentile_ladder();
        for rung in &mut self.ladder {
            rung.value_ns = rung.value_ns.filter(known);
        }
        self.curve = curve(&all);
        self.curve.retain(|point| known(&point.ns));
        self.curve.extend(histogram.max().map(|ns| CurvePoint {
            above: 1.0 / all.count() as f64,
            ns,
        }));
    }

    /// What another tool states of a thread, and what its histogram lacks.
    fn import(&mut self, run: &Run, index: usize, histogram: &Histogram) {
        let Some(imported) = &run.imported else {
            return;
        };
        self.imported = true;
        let stated = imported.threads.get(index);
        if self.lost > 0 {
            let own = stated.and_then(|thread| thread.kept_below_ns);
            let kept_below_ns = own.or(imported.kept_below_ns).unwrap_or(0);
            self.fill_kept(histogram, self.lost, kept_below_ns);
        }
        if let Some(stated) = stated.filter(|thread| thread.count > 0) {
            self.count = stated.count;
            self.min = Some(stated.min_ns);
            self.max = Some(stated.max_ns);
            self.mean = stated.mean_ns.or(self.mean);
        }
    }

    fn fill(&mut self, histogram: &Histogram) {
        self.count = histogram.count();
        self.min = histogram.min();
        self.mean = histogram.mean();
        self.max = histogram.max();
        self.ladder = histogram.percentile_ladder();
        self.bins = bins(histogram);
        self.curve = curve(histogram);
    }
}

/// All figures of a run.
#[derive(Debug, Clone, Default)]
pub struct Figures {
    /// What the rows are: threads where a program was watched.
    pub rows_are: RowsAre,
    /// One row per probe thread, in the order of the record.
    pub rows: Vec<Row>,
    /// All threads together.
    pub merged: Row,
}

impl Figures {
    /// Computes the figures of a run.
    #[must_use]
    pub fn from_run(run: &Run) -> Self {
        let threads = run
            .watch
            .as_ref()
            .is_some_and(|watch| !watch.threads.is_empty());
        let threads = threads || run.tasks.is_some();
        let mut merged = Row {
            label: "all".to_owned(),
            name: if threads { "all threads" } else { "all CPUs" }.to_owned(),
            ..Row::default()
        };
        let mut all = Histogram::new();
        let mut rows = Vec::with_capacity(run.threads.len());
        for (index, thread) in run.threads.iter().enumerate() {
            let row = row(run, index, thread, &mut all);
            merged.late = merged.late.saturating_add(row.late);
            merged.missed = merged.missed.saturating_add(row.missed);
            merged.lost = merged.lost.saturating_add(row.lost);
            merged.early = merged.early.saturating_add(row.early);
            rows.push(row);
        }
        match &run.imported {
            Some(imported) if merged.lost > 0 => {
                merged.fill_kept(&all, merged.lost, imported.kept_below_ns.unwrap_or(0));
            }
            _ => merged.fill(&all),
        }
        if run.imported.is_some() {
            merged.imported = true;
            let stated: Vec<&Row> = rows.iter().filter(|row| row.count > 0).collect();
            merged.min = stated.iter().filter_map(|row| row.min).min();
            merged.max = stated.iter().filter_map(|row| row.max).max();
            let sum = |row: &&Row| row.mean.map(|mean| mean * row.count as f64);
            let sums: Option<Vec<f64>> = stated.iter().map(sum).collect();
            let mean = |sums: Vec<f64>| sums.iter().sum::<f64>() / merged.count as f64;
            merged.mean = sums.filter(|sums| !sums.is_empty()).map(mean);
        }
        Self {
            rows_are: if threads {
                RowsAre::Threads
            } else {
                RowsAre::Cpus
            },
            rows,
            merged,
        }
    }

    /// Indices of the rows from the highest maximum to the lowest.
    #[must_use]
    pub fn by_maximum(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(self.rows[i].max));
        order
    }

    /// The range of all latencies, at least 1 ns; `None` without samples.
    #[must_use]
    pub fn range(&self) -> Option<(u64, u64)> {
        let lowest = *self.merged.bins.keys().next()?;
        // Early wake-ups count as zero; the scale begins at the first real bin.
        let floor = self
            .merged
            .bins
            .keys()
            .copied()
            .find(|&bin| bin > 0)
            .unwrap_or(lowest);
        let low = self
            .merged
            .min
            .unwrap_or(1)
            .max(bin_edge(floor) as u64)
            .max(1);
        Some((low, self.merged.max.unwrap_or(1).max(low)))
    }
}

fn row(run: &Run, index: usize, thread: &Thread, all: &mut Histogram) -> Row {
    let on = |cpu: usize| run.threads.iter().filter(move |it| it.cpu == Some(cpu));
    let (label, name) = match thread.cpu {
        _ if run.watched(index).is_some() || run.tasks.is_some() => {
            let name = super::words::label(&run.thread_label(index));
            (name.clone(), name)
        }
        None => (index.to_string(), run.thread_label(index)),
        Some(cpu) if on(cpu).count() > 1 => {
            let label = format!("{cpu}/{}", thread.tid);
            let name = format!("CPU {label}");
            (label, name)
        }
        Some(cpu) => (cpu.to_string(), run.thread_label(index)),
    };
    let mut row = Row {
        label,
        name,
        late: thread.late,
        missed: thread.missed,
        lost: thread.lost,
        early: thread.early,
        note: thread.fault.as_ref().map(facts::thread_fault),
        ..Row::default()
    };
    match Histogram::try_from(&thread.latency) {
        Ok(histogram) => {
            all.merge(&histogram);
            row.fill(&histogram);
            if run.imported.is_some() {
                row.import(run, index, &histogram);
            }
        }
        Err(error) => row.note = Some(error.to_string()),
    }
    row
}

fn bins(histogram: &Histogram) -> Bins {
    let mut bins = Bins::new();
    for bucket in histogram.buckets() {
        let at = (bucket.low_ns.max(1) as f64).log10() * f64::from(BINS_PER_DECADE);
        // A guard keeps 1000 ns out of the bin below.
        let slot = bins.entry((at + 1e-9).floor() as i32).or_insert(0u64);
        *slot = slot.saturating_add(bucket.count);
    }
    bins
}

fn curve(histogram: &Histogram) -> Vec<CurvePoint> {
    let (Some(min), Some(max)) = (histogram.min(), histogram.max()) else {
        return Vec::new();
    };
    let count = histogram.count() as f64;
    let mut points = vec![CurvePoint {
        above: 1.0,
        ns: min,
    }];
    let mut step = 1;
    for point in histogram.cdf() {
        loop {
            let above = 10f64.powf(-f64::from(step) / f64::from(POINTS_PER_DECADE));
            if above * count < 1.0 || (point.at_or_below as f64) < (1.0 - above) * count {
                break;
            }
            points.push(CurvePoint {
                above,
                ns: point.value_ns,
            });
            step += 1;
        }
    }
    points.push(CurvePoint {
        above: 1.0 / count,
        ns: max,
    });
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_ends_at_the_exact_maximum() {
        let mut histogram = Histogram::new();
        for value in 1..=1000u64 {
            histogram.record(value);
        }
        let curve = curve(&histogram);
        assert_eq!(curve.first(), Some(&CurvePoint { above: 1.0, ns: 1 }));
        assert_eq!(
            curve.last(),
            Some(&CurvePoint {
                above: 0.001,
                ns: 1000
            })
        );
        let tenth = curve
            .iter()
            .find(|p| (p.above - 0.1).abs() < 1e-9)
            .expect("a point at 90 %");
        assert_eq!(tenth.ns, 900);
        assert!(
            curve
                .windows(2)
                .all(|w| w[0].ns <= w[1].ns && w[0].above >= w[1].above)
        );
    }

    #[test]
    fn bins_hold_every_sample_at_its_decade() {
        let mut histogram = Histogram::new();
        histogram.record_n(0, 3);
        histogram.record_n(1000, 5);
        histogram.record_n(u64::MAX, 7);
        let bins = bins(&histogram);
        assert_eq!(bins.values().sum::<u64>(), 15);
        assert_eq!(bins.get(&0), Some(&3));
        assert_eq!(bins.get(&(3 * BINS_PER_DECADE)), Some(&5));
    }
}
