//! A single rung of a ladder as a run, as a guest of the lab leaves it.

use std::path::Path;

use punctual_record::ladder::{Ladder, Rung};
use punctual_record::{Document, RecordError};
use punctual_stats::histogram::{Histogram, HistogramRecord};

use super::import::{Foreign, ForeignThread};

/// Reads it.
///
/// # Errors
/// As [`Document::parse`]; a ladder of several rungs is no run.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<punctual_record::Run, RecordError> {
    let ladder = Ladder::parse(path, bytes)?;
    let measured: Vec<_> = ladder.rungs.iter().filter(|it| it.is_measured).collect();
    let [rung] = measured[..] else {
        let several = "a ladder of several rungs, not a run: `punctual report` shows it";
        return Err(RecordError::malformed(path, "rungs", several));
    };
    let takes = |step| ladder.takes(rung.rung, step);
    let is_fifo = takes(Rung::Priority);
    let thread = ForeignThread {
        cpu: takes(Rung::Affinity).then_some(ladder.design.cpu as u64),
        ..thread(path, &rung.response)?
    };
    let foreign = Foreign {
        format: "ladder",
        tool: ladder.tool.clone(),
        command: ladder.command.clone(),
        started: Some(ladder.started.clone()),
        measured_ns: Some(measured_ns(&ladder)),
        interval_ns: Some(ladder.design.interval_ns),
        policy: Some(if is_fifo { "fifo" } else { "other" }.to_owned()),
        priority: Some(if is_fifo { ladder.design.priority } else { 0 }),
        unit_ns: 1,
        unit_known: true,
        threads: vec![thread],
        ..Foreign::default()
    };
    foreign.into_run(path, |_| "rungs".to_owned())
}

fn measured_ns(ladder: &Ladder) -> u64 {
    let periods = ladder.blocks.iter().map(|block| block.counts.periods_ns);
    periods.fold(0, u64::saturating_add)
}

/// The response times; the lowest and the highest are exact.
fn thread(path: &Path, response: &HistogramRecord) -> Result<ForeignThread, RecordError> {
    let histogram = Histogram::try_from(response)
        .map_err(|error| RecordError::malformed(path, "rungs[].response", error.to_string()))?;
    let (min, max) = (response.min_ns, response.max_ns);
    let mut rows: Vec<(u64, u64)> = histogram
        .buckets()
        .map(|bucket| (bucket.low_ns.clamp(min, max), bucket.count))
        .collect();
    if let Some(first) = rows.first_mut() {
        first.0 = min;
    }
    if let Some((value, count)) = rows.last_mut().filter(|(value, _)| *value != max) {
        match *count {
            1 => *value = max,
            _ => {
                *count -= 1;
                rows.push((max, 1));
            }
        }
    }
    Ok(ForeignThread {
        count: response.count,
        min,
        max,
        mean: histogram.mean(),
        rows,
        ..ForeignThread::default()
    })
}
