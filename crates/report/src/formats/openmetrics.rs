//! Metrics in the text form of OpenMetrics 1.0, for Prometheus and its kin, and in the older
//! one of Prometheus itself, which is all that node_exporter's textfile collector reads: one
//! family of a type that it does not know (`info`, `stateset`) costs it the whole file.
//! <https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>

mod watch;

use punctual_record::Field;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::SystemTime;

use punctual_stats::verdict::Outcome;

use super::WriteError;
use super::rows::{self, Known};
use crate::{conditions, experiment, facts};
use punctual_record::{Run, Thread, time};

/// Upper edges of the buckets: 1, 2 and 5 in each decade from 1 µs to 10 s.
const EDGES_NS: [u64; 22] = [
    1_000,
    2_000,
    5_000,
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Which of the two text forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus's own, version 0.0.4.
    Prometheus,
}

/// The metrics of a run under way, in Prometheus's own form, written again and again: what counts
/// never falls.
///
/// A sample of the record lies in a bucket that may straddle an edge of the metrics; on which side of
/// the edge it is counted depends on the maximum, so that a count could fall when the maximum rises.
/// Prometheus would take that for a restart, and add the whole count once more.
#[derive(Debug, Default)]
pub struct Metrics {
    /// The value of each series that counts, as it was written last.
    highest: BTreeMap<String, u64>,
}

impl Metrics {
    /// The metrics of the run so far.
    ///
    /// # Errors
    /// [`WriteError`], where a histogram can't be decoded.
    pub fn write(&mut self, run: &Run) -> Result<String, WriteError> {
        let (text, highest) = written(run, Dialect::Prometheus, &self.highest)?;
        // Those of threads that are gone are forgotten.
        self.highest = highest;
        Ok(text)
    }
}

pub(super) fn write(run: &Run, dialect: Dialect) -> Result<String, WriteError> {
    written(run, dialect, &BTreeMap::new()).map(|(text, _)| text)
}

fn written(
    run: &Run,
    dialect: Dialect,
    before: &BTreeMap<String, u64>,
) -> Result<(String, BTreeMap<String, u64>), WriteError> {
    let mut histograms = Vec::with_capacity(run.threads.len());
    for index in 0..run.threads.len() {
        histograms.push(rows::known(run, index)?);
    }
    let labels = labels(run);
    let mut out = Page {
        text: String::new(),
        dialect,
        before,
        highest: BTreeMap::new(),
    };
    latency(&mut out, run, &histograms, &labels);
    extremes(&mut out, &histograms, &labels);
    // Another tool states none of these.
    if run.imported.is_none() {
        counters(&mut out, run, &labels);
    }
    watch::write(&mut out, run);
    jobs(&mut out, run);
    about(&mut out, run);
    if dialect == Dialect::OpenMetrics {
        out.text.push_str("# EOF\n");
    }
    Ok((out.text, out.highest))
}

/// The labels of each thread. A number of a thread that ended may be given to another of the same
/// name: no two series have the same labels.
fn labels(run: &Run) -> Vec<String> {
    let mut labels: Vec<String> = Vec::with_capacity(run.threads.len());
    let mut uses: BTreeMap<String, u64> = BTreeMap::new();
    for index in 0..run.threads.len() {
        let own = thread_labels(run, index);
        let used = uses.entry(own.clone()).or_insert(0);
        *used += 1;
        labels.push(match *used {
            1 => own,
            nth => format!("{own},nth=\"{nth}\""),
        });
    }
    labels
}

fn thread_labels(run: &Run, index: usize) -> String {
    let host = quoted(&run.system.hostname);
    if run.watched(index).is_some() {
        return format!("host={host},thread={}", quoted(&run.thread_label(index)));
    }
    match run.threads[index].cpu {
        Some(cpu) => format!("host={host},cpu=\"{cpu}\""),
        None => format!("host={host},thread=\"{index}\""),
    }
}

/// What is written so far.
struct Page<'a> {
    text: String,
    dialect: Dialect,
    /// The value of each series that counts, on the page before.
    before: &'a BTreeMap<String, u64>,
    /// The same on this page.
    highest: BTreeMap<String, u64>,
}

impl Page<'_> {
    /// Writes a sample that counts: never less than before.
    fn count(&mut self, series: String, value: u64) {
        let value = value.max(self.before.get(&series).copied().unwrap_or(0));
        self.put(format_args!("{series} {value}\n"));
        self.highest.insert(series, value);
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string can't fail.
        let _ = self.text.write_fmt(text);
    }

    /// Begins a family. Prometheus's own form has no units, calls a counter by the name of its
    /// samples, and knows no type but the oldest.
    fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        let (suffix, kind) = match (self.dialect, kind) {
            (Dialect::Prometheus, "counter") => ("_total", kind),
            (Dialect::Prometheus, "info") => ("_info", "gauge"),
            (Dialect::Prometheus, "stateset") => ("", "gauge"),
            _ => ("", kind),
        };
        self.put(format_args!("# TYPE {name}{suffix} {kind}\n"));
        if !unit.is_empty() && self.dialect == Dialect::OpenMetrics {
            self.put(format_args!("# UNIT {name} {unit}\n"));
        }
        self.put(format_args!("# HELP {name}{suffix} {help}\n"));
    }
}

fn latency(out: &mut Page<'_>, run: &Run, histograms: &[Known], labels: &[String]) {
    let gaps = run.gaps.is_some();
    let (name, help) = if gaps {
        (
            "punctual_gap_seconds",
            "Length of gaps in a thread that polls the clock.",
        )
    } else {
        (
            "punctual_latency_seconds",
            "Wake-up time minus the requested instant.",
        )
    };
    out.family(name, "histogram", "seconds", help);
    // The limits that were required have an edge of their own.
    let mut edges = EDGES_NS.to_vec();
    edges.extend(
        run.request
            .requirements
            .iter()
            .map(|requirement| requirement.limit_ns()),
    );
    edges.sort_unstable();
    edges.dedup();
    for (known, labels) in histograms.iter().zip(labels) {
        let histogram = &known.histogram;
        // How many lie below an edge beyond the end of another tool's histogram isn't known.
        let is_known = |edge: &&u64| known.kept_below_ns.is_none_or(|end| **edge < end);
        for edge in edges.iter().filter(is_known) {
            let below = histogram.count_at_or_below(*edge);
            let edge = seconds(*edge);
            out.count(format!("{name}_bucket{{{labels},le=\"{edge}\"}}"), below);
        }
        let count = known.count();
        out.count(format!("{name}_bucket{{{labels},le=\"+Inf\"}}"), count);
        out.count(format!("{name}_count{{{labels}}}"), count);
        let stated = known.mean_ns.filter(|_| run.imported.is_some());
        let sum = match stated {
            Some(mean) => mean * count as f64,
            None if known.beyond > 0 => continue,
            None => histogram.sum() as f64,
        } / 1e9;
        out.put(format_args!("{name}_sum{{{labels}}} {sum:?}\n"));
    }
}

fn extremes(out: &mut Page<'_>, histograms: &[Known], labels: &[String]) {
    type Figure = fn(&Known) -> Option<u64>;
    let figures: [(&str, &str, Figure); 2] = [
        ("punctual_latency_min_seconds", "Exact minimum.", |known| {
            known.min_ns
        }),
        (
            "punctual_latency_max_seconds",
            "Exact maximum; see the count and measured time.",
            |known| known.max_ns,
        ),
    ];
    for (name, help, figure) in figures {
        out.family(name, "gauge", "seconds", help);
        for (histogram, labels) in histograms.iter().zip(labels) {
            if let Some(ns) = figure(histogram) {
                out.put(format_args!("{name}{{{labels}}} {}\n", seconds(ns)));
            }
        }
    }
}

fn counters(out: &mut Page<'_>, run: &Run, labels: &[String]) {
    let figures: [Counter; 4] = [
        (
            "punctual_missed_periods",
            "Periods that passed while the thread was late.",
            |t| t.missed,
        ),
        (
            "punctual_late_wakeups",
            "Wake-ups later than the first deadline.",
            |t| t.late,
        ),
        (
            "punctual_lost_samples",
            "Samples that were lost; above zero the run is not valid.",
            |t| t.lost,
        ),
        (
            "punctual_early_wakeups",
            "Wake-ups before the requested instant.",
            |t| t.early,
        ),
    ];
    counted(
        out,
        &figures,
        run.threads.iter().zip(labels.iter().cloned()),
    );
}

/// A counter, what it counts, and how.
type Counter = (&'static str, &'static str, fn(&Thread) -> u64);

/// Families of counters; `each` has its labels.
fn counted<'t>(
    out: &mut Page<'_>,
    counters: &[Counter],
    each: impl Iterator<Item = (&'t Thread, String)> + Clone,
) {
    for (name, help, figure) in counters {
        out.family(name, "counter", "", help);
        for (thread, labels) in each.clone() {
            out.count(format!("{name}_total{{{labels}}}"), figure(thread));
        }
    }
}

fn about(out: &mut Page<'_>, run: &Run) {
    let host = quoted(&run.system.hostname);
    let name = "punctual_measured_seconds";
    if run.knows(Field::MeasuredTime) {
        out.family(name, "gauge", "seconds", "Time measured, warm-up excluded.");
        out.put(format_args!(
            "{name}{{host={host}}} {}\n",
            seconds(run.measured_ns)
        ));
    }
    start(out, run);
    let name = "punctual_run";
    out.family(name, "info", "", "What was measured, and where.");
    let begun = conditions::begun(run);
    let source = facts::source(&run.request.source);
    let facts = [
        ("tool", run.tool.name.as_str()),
        ("version", &run.tool.version),
        ("verb", &run.verb),
        ("started", &begun),
        ("source", &source),
        ("load", &run.request.load),
        ("policy", &run.request.policy),
        ("kernel", &run.system.kernel.release),
        ("preemption", &run.system.kernel.preemption),
    ];
    out.put(format_args!("{name}_info{{host={host}"));
    let unstated = |value: &str| run.imported.is_some() && matches!(value, "" | "unknown");
    for (label, value) in facts.into_iter().filter(|(_, value)| !unstated(value)) {
        out.put(format_args!(",{label}={}", quoted(value)));
    }
    out.text.push_str("} 1\n");
    let of_experiment = experiment::outcome(run);
    let judged = run.verdict.as_ref().map(|verdict| verdict.outcome);
    if let Some(judged) = of_experiment.or(judged) {
        let name = "punctual_verdict";
        out.family(name, "stateset", "", "The verdict on all requirements.");
        for outcome in [
            Outcome::Pass,
            Outcome::Fail,
            Outcome::Inconclusive,
            Outcome::Invalid,
        ] {
            let on = u8::from(outcome == judged);
            // The label of a set of states is the family's name.
            let label = match out.dialect {
                Dialect::OpenMetrics => name,
                Dialect::Prometheus => "outcome",
            };
            out.put(format_args!(
                "{name}{{host={host},{label}=\"{outcome}\"}} {on}\n"
            ));
        }
    }
}

/// The jobs of a set of tasks.
fn jobs(out: &mut Page<'_>, run: &Run) {
    let Some(tasks) = &run.tasks else {
        return;
    };
    let figures: [Counter; 3] = [
        ("punctual_jobs", "Jobs that were done.", |jobs| {
            jobs.latency.count
        }),
        (
            "punctual_late_jobs",
            "Jobs that ended after their deadline.",
            |jobs| jobs.late,
        ),
        (
            "punctual_skipped_jobs",
            "Jobs that were never started.",
            |jobs| jobs.missed,
        ),
    ];
    let host = quoted(&run.system.hostname);
    let each = tasks.set.tasks.iter().zip(&tasks.tasks);
    let each = each.map(|(task, done)| {
        let labels = format!("host={host},task={}", quoted(&task.name));
        (&done.jobs, labels)
    });
    counted(out, &figures, each);
}

/// When it began: what counts began at zero then. Virtual time has no such instant.
fn start(out: &mut Page<'_>, run: &Run) {
    if run.imported.is_some() || run.laboratory.is_some() {
        return;
    }
    let since = time::parse_rfc3339(&run.started)
        .and_then(|at| at.duration_since(SystemTime::UNIX_EPOCH).ok());
    if let Some(since) = since {
        let (name, host) = ("punctual_start_time_seconds", quoted(&run.system.hostname));
        let help = "When the run began, in Unix time.";
        out.family(name, "gauge", "seconds", help);
        out.put(format_args!("{name}{{host={host}}} {}\n", since.as_secs()));
    }
}

/// Nanoseconds in seconds, exactly: no binary fraction stands between.
fn seconds(ns: u64) -> String {
    let text = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    let short = text.trim_end_matches('0');
    if short.ends_with('.') {
        format!("{short}0")
    } else {
        short.to_owned()
    }
}

/// A label's value in its quotes.
fn quoted(text: &str) -> String {
    let text = super::plain(text);
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
