//! From what another tool states to a [`Run`], and nothing beyond that.

use std::collections::BTreeMap;
use std::path::Path;

use punctual_stats::histogram::{Histogram, HistogramRecord};

use super::fault::ForeignError;
use punctual_record::Document;
use punctual_record::{
    Condition, Demand, Ending, Event, Field, Happening, Imported, ImportedThread, Interval,
    RecordError, Request, Run, State, SystemState, Thread, Tool,
};

/// A thread as another tool states it, in that tool's unit.
#[derive(Debug, Default)]
pub(super) struct ForeignThread {
    /// Its CPU, where that is stated.
    pub cpu: Option<u64>,
    /// Value and count, values rising.
    pub rows: Vec<(u64, u64)>,
    /// Samples counted, also those beyond the rows.
    pub count: u64,
    pub min: u64,
    pub max: u64,
    pub mean: Option<f64>,
    /// The lowest value that the histogram has no row for, where that is stated.
    pub end: Option<u64>,
}

/// A run as another tool states it.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    pub format: &'static str,
    pub tool: Tool,
    pub command: Vec<String>,
    pub started: Option<String>,
    pub measured_ns: Option<u64>,
    /// Exit status other than success.
    pub failed: Option<i64>,
    pub interval_ns: Option<u64>,
    pub policy: Option<String>,
    pub priority: Option<u32>,
    pub unit_ns: u64,
    pub unit_known: bool,
    pub system: Option<SystemState>,
    pub threads: Vec<ForeignThread>,
}

/// A run of the latencies that another tool's recording shows: how often each, by CPU, in ns.
///
/// # Errors
/// More than a record takes.
pub fn recorded(
    path: &Path,
    tool: &str,
    latencies: &BTreeMap<u32, BTreeMap<u64, u64>>,
) -> Result<Run, RecordError> {
    let thread = |(cpu, latencies): (&u32, &BTreeMap<u64, u64>)| {
        let count = latencies.values().sum();
        let sum: u128 = latencies
            .iter()
            .map(|(ns, times)| u128::from(*ns) * u128::from(*times))
            .sum();
        let ends = latencies.first_key_value().zip(latencies.last_key_value());
        let (min, max) = ends.map_or((0, 0), |((min, _), (max, _))| (*min, *max));
        ForeignThread {
            cpu: Some((*cpu).into()),
            count,
            min,
            max,
            mean: Some(sum as f64 / count.max(1) as f64),
            rows: latencies.iter().map(|(ns, times)| (*ns, *times)).collect(),
            end: None,
        }
    };
    Foreign {
        format: "recording",
        tool: Tool {
            name: tool.to_owned(),
            version: "unknown".to_owned(),
        },
        unit_ns: 1,
        unit_known: true,
        threads: latencies.iter().map(thread).collect(),
        ..Foreign::default()
    }
    .into_run(path, |index| format!("thread {index}"))
}

impl Foreign {
    /// The run. `places` names thread k in an error.
    pub(super) fn into_run(
        self,
        path: &Path,
        place: impl Fn(usize) -> String,
    ) -> Result<Run, RecordError> {
        let mut threads = Vec::with_capacity(self.threads.len());
        let mut stated = Vec::with_capacity(self.threads.len());
        let mut events = Vec::new();
        let cpus_known = self.cpus_known();
        for (index, foreign) in self.threads.iter().enumerate() {
            let error =
                |fault: ForeignError| RecordError::malformed(path, place(index), fault.to_string());
            let (thread, summary) = foreign
                .build(
                    foreign.cpu.filter(|_| cpus_known),
                    self.unit_ns,
                    self.measured_ns.unwrap_or(0),
                )
                .map_err(error)?;
            events.extend(gaps(index, foreign, &summary));
            threads.push(thread);
            stated.push(summary);
        }
        let unknown = self.unknown();
        let request = Request {
            source: "unknown".into(),
            interval: Interval::Fixed {
                interval_ns: self.interval_ns.unwrap_or(0),
            },
            cpus: threads.iter().filter_map(|thread| thread.cpu).collect(),
            policy: self.policy.unwrap_or_else(|| "unknown".to_owned()),
            priority: self.priority.unwrap_or(0),
            duration_ns: None,
            loops: None,
            break_ns: None,
            load: "unknown".to_owned(),
            load_class: "unknown".to_owned(),
            requirements: Vec::new(),
            confidence: 0.95,
            as_deployed: false,
            best_effort: false,
        };
        let started = self.started.unwrap_or_default();
        let system = self.system.unwrap_or_default();
        let run = Run {
            command: self.command,
            state: match self.failed {
                None => State::Finished,
                Some(status) => State::Stopped(Ending::ExitStatus { status }),
            },
            demands: vec![Demand::stated(
                Condition::Conditions {
                    tool: self.tool.name.clone(),
                },
                None,
            )],
            measured_ns: self.measured_ns.unwrap_or(0),
            threads,
            events,
            imported: Some(Imported {
                format: self.format.to_owned(),
                resolution_ns: self.unit_ns,
                unknown,
                kept_below_ns: stated
                    .iter()
                    .filter_map(|thread| thread.kept_below_ns)
                    .min(),
                threads: stated,
            }),
            ..Run::begun(self.tool, "import", started, request, system)
        };
        let mut run = run.validated(path)?;
        // The statistics take a histogram as whole.
        let whole = run.threads.iter().all(|thread| thread.lost == 0);
        if whole && run.threads.iter().any(|thread| thread.latency.count > 0) {
            run.analysis = punctual_record::analyse_record(&run).ok();
        }
        Ok(run)
    }

    /// Whether the CPU of every thread is stated: of a part of them none is taken over.
    fn cpus_known(&self) -> bool {
        self.threads.iter().all(|thread| thread.cpu.is_some())
    }

    fn unknown(&self) -> Vec<Field> {
        [
            (Field::Cpus, !self.cpus_known()),
            (Field::Interval, self.interval_ns.is_none()),
            (Field::Priority, self.priority.is_none()),
            (Field::Policy, self.policy.is_none()),
            (Field::MeasuredTime, self.measured_ns.is_none()),
            (Field::Resolution, !self.unit_known),
            (Field::System, self.system.is_none()),
            (Field::Started, self.started.is_none()),
            (Field::Load, true),
            (Field::Missed, true),
            (Field::Source, true),
        ]
        .into_iter()
        .filter(|(_, unknown)| *unknown)
        .map(|(field, _)| field)
        .collect()
    }
}

/// What the figures of a thread leave open.
fn gaps(index: usize, foreign: &ForeignThread, summary: &ImportedThread) -> Option<Event> {
    let thread = index as u64;
    let what = match summary.beyond {
        _ if foreign.count == 0 => Happening::NoSamples { thread },
        0 => return None,
        _ if foreign.rows.is_empty() => Happening::NoHistogram { thread },
        samples => Happening::HistogramOverflow { thread, samples },
    };
    Some(Event::invalidating(0, what))
}

impl ForeignThread {
    fn build(
        &self,
        cpu: Option<u64>,
        unit_ns: u64,
        measured_ns: u64,
    ) -> Result<(Thread, ImportedThread), ForeignError> {
        let scaled = |value: u64| {
            value
                .checked_mul(unit_ns)
                .ok_or(ForeignError::LatencyTooLarge { value })
        };
        let mut histogram = Histogram::new();
        let mut inside = 0_u64;
        for (value, count) in &self.rows {
            inside = inside
                .checked_add(*count)
                .ok_or(ForeignError::TooManySamples)?;
            histogram.record_n(scaled(*value)?, *count);
        }
        let count = self.count;
        let beyond = count
            .checked_sub(inside)
            .ok_or(ForeignError::TooFewCounted { inside, count })?;
        self.agree(beyond)?;
        let (min_ns, max_ns) = match self.count {
            0 => (0, 0),
            _ => (scaled(self.min)?, scaled(self.max)?),
        };
        let mut unkept = beyond;
        if beyond > 0 && inside > 0 {
            // One sample beyond the histogram is known: the maximum itself.
            histogram.record(max_ns);
            unkept -= 1;
        }
        let thread = Thread {
            cpu: cpu.map(cpu_number).transpose()?,
            tid: 0,
            latency: HistogramRecord::from(&histogram),
            late: 0,
            missed: 0,
            missed_late: None,
            lost: unkept,
            early: 0,
            warm_up: 0,
            peaks: Vec::new(),
            peaks_above_ns: max_ns,
            measured_ns,
            faults: None,
            preemptions: None,
            first_half: None,
            first_half_misses: None,
            fault: None,
        };
        let mean_ns = self
            .mean
            .map(|mean| mean * unit_ns as f64)
            .filter(|mean| mean.is_finite());
        let kept_below_ns = match unkept {
            0 => None,
            _ => Some(scaled(self.kept_below())?),
        };
        let summary = ImportedThread {
            count: self.count,
            min_ns,
            max_ns,
            mean_ns,
            beyond: unkept,
            kept_below_ns,
        };
        Ok((thread, summary))
    }

    /// No value below this was left out of the histogram. Where its end is not stated, that
    /// is its last row in use: what was left out lies above.
    fn kept_below(&self) -> u64 {
        let used = self.rows.iter().filter(|(_, count)| *count > 0);
        let last = used.map(|(value, _)| value.saturating_add(1)).max();
        let end = self.end.filter(|end| *end <= self.max);
        last.max(end).unwrap_or(0).max(self.min)
    }

    /// Whether minimum and maximum agree with the histogram.
    fn agree(&self, beyond: u64) -> Result<(), ForeignError> {
        let in_use = || {
            self.rows
                .iter()
                .filter(|(_, count)| *count > 0)
                .map(|(value, _)| *value)
        };
        let (Some(first), Some(last)) = (in_use().min(), in_use().max()) else {
            return Ok(());
        };
        if self.min != first {
            let min = self.min;
            return Err(ForeignError::Minimum { min, first });
        }
        let max = self.max;
        match beyond {
            0 if max != last => Err(ForeignError::Maximum { max, last }),
            1.. if max < last => Err(ForeignError::MaximumWithin { max }),
            _ => Ok(()),
        }
    }
}

fn cpu_number(cpu: u64) -> Result<usize, ForeignError> {
    usize::try_from(cpu).map_err(|source| ForeignError::Cpu { cpu, source })
}

/// The value of a short or long option in a foreign command line, whole numbers only.
pub(super) fn number_option(words: &[String], short: &str, long: &str) -> Option<u64> {
    let mut words = words.iter();
    let mut found = None;
    while let Some(word) = words.next() {
        let value = if word == short || word == long {
            words.next().map(String::as_str)
        } else if let Some(value) = word.strip_prefix(long) {
            value.strip_prefix('=')
        } else if word.starts_with("--") {
            None
        } else {
            word.strip_prefix(short)
        };
        if let Some(number) = value.and_then(|value| value.parse().ok()) {
            found = Some(number);
        }
    }
    found
}
