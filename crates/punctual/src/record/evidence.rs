//! What a record hands to the statistics.

use punctual_stats::analysis::{Analysis, Settings, analyse};
use punctual_stats::evidence::{RunEvidence, ThreadEvidence};
use punctual_stats::histogram::{DecodeError, Histogram};
use punctual_stats::peaks::{Peak, Peaks};

use super::run::{Run, Standing, Thread};

/// The histograms and peaks of a record, decoded.
#[derive(Debug)]
pub struct Evidence {
    threads: Vec<ThreadParts>,
}

#[derive(Debug)]
struct ThreadParts {
    histogram: Histogram,
    peaks: Peaks,
}

impl Evidence {
    /// Decodes.
    ///
    /// # Errors
    /// [`DecodeError`]; a run that was read by [`super::read()`] has no such fault.
    pub fn of(run: &Run) -> Result<Self, DecodeError> {
        let threads = run.threads.iter().map(parts).collect::<Result<_, _>>()?;
        Ok(Self { threads })
    }

    /// The histograms of the threads, in their order.
    pub fn histograms(&self) -> impl Iterator<Item = &Histogram> {
        self.threads.iter().map(|thread| &thread.histogram)
    }

    /// The evidence as the statistics take it; `run` is the one that it was made of.
    #[must_use]
    pub fn view<'a>(&'a self, run: &'a Run) -> RunEvidence<'a> {
        let deadline_ns = run
            .request
            .requirements
            .first()
            .map(|first| first.limit_ns());
        let threads = run
            .threads
            .iter()
            .zip(&self.threads)
            .map(|(thread, parts)| ThreadEvidence {
                cpu: u32::try_from(thread.cpu).unwrap_or(u32::MAX),
                histogram: &parts.histogram,
                late: thread.late,
                missed: thread.missed,
                lost: thread.lost,
                peaks: &parts.peaks,
            });
        let loaded = run.request.load != "none" && run.knows("load");
        RunEvidence {
            threads: threads.collect(),
            duration_ns: run.measured_ns,
            deadline_ns,
            seconds: run.timeline.seconds,
            seconds_with_miss: run.timeline.seconds_with_miss,
            // The record keeps the latencies of the first half, not its misses: the
            // statement on stationarity is made while the run goes.
            halves: None,
            load: loaded.then_some(run.request.load.as_str()),
        }
    }
}

fn parts(thread: &Thread) -> Result<ThreadParts, DecodeError> {
    Ok(ThreadParts {
        histogram: Histogram::try_from(&thread.latency)?,
        peaks: restored(thread.peaks_above_ns, &thread.peaks),
    })
}

/// Peaks as they stood when the record was written, threshold and all. Offered
/// anew they would claim to be complete down to zero.
fn restored(threshold_ns: u64, samples: &[Peak]) -> Peaks {
    let worst = samples
        .iter()
        .max_by_key(|p| (p.latency_ns, std::cmp::Reverse(p.asked_ns)));
    let record = serde_json::json!({
        "threshold_ns": threshold_ns,
        "capacity": samples.len().max(2),
        "worst": worst,
        "samples": samples,
    });
    serde_json::from_value(record).unwrap_or_else(|_| {
        // Samples at or below the threshold, which a validated record has none of.
        let mut peaks = Peaks::with_capacity(samples.len());
        for peak in samples.iter().filter(|peak| peak.latency_ns > threshold_ns) {
            peaks.offer(peak.cycle, peak.asked_ns, peak.latency_ns);
        }
        peaks
    })
}

/// What makes a run invalid apart from its figures: demands not in force, unless
/// the run was made with `--best-effort`, and events that ended the conditions.
#[must_use]
pub fn invalid_reasons(run: &Run) -> Vec<String> {
    let demands = run
        .demands
        .iter()
        .filter(|demand| demand.standing == Standing::NotInForce && !run.request.best_effort);
    let demands = demands.map(|demand| {
        format!(
            "{}: asked for {}, found {}",
            demand.name, demand.asked, demand.found
        )
    });
    let events = run.events.iter().filter(|event| event.invalidates);
    demands
        .chain(events.map(|event| event.text.clone()))
        .collect()
}

/// Analyses a record anew, as a merge or an import needs.
///
/// # Errors
/// As [`Evidence::of`].
pub fn analyse_record(run: &Run) -> Result<Analysis, DecodeError> {
    let evidence = Evidence::of(run)?;
    let settings = Settings {
        confidence: run.request.confidence,
        requirements: run.request.requirements.clone(),
        invalid_reasons: invalid_reasons(run),
    };
    Ok(analyse(&evidence.view(run), &settings))
}
