//! Metrics in the text form of OpenMetrics 1.0, for Prometheus and its kin.
//! <https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>

use std::fmt::Write;

use punctual_stats::histogram::Histogram;
use punctual_stats::verdict::Outcome;

use super::rows;
use crate::record::{Run, Thread};

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

pub(super) fn write(run: &Run) -> Result<String, String> {
    let mut histograms = Vec::with_capacity(run.threads.len());
    for index in 0..run.threads.len() {
        histograms.push(rows::histogram(run, index)?);
    }
    let labels: Vec<String> = (0..run.threads.len())
        .map(|index| thread_labels(run, index))
        .collect();
    let mut out = String::new();
    latency(&mut out, run, &histograms, &labels);
    extremes(&mut out, &histograms, &labels);
    counters(&mut out, run, &labels);
    about(&mut out, run);
    out.push_str("# EOF\n");
    Ok(out)
}

fn thread_labels(run: &Run, index: usize) -> String {
    let host = quoted(&run.system.hostname);
    if run.watched(index).is_some() {
        return format!("host={host},thread={}", quoted(&run.thread_label(index)));
    }
    if run.knows("cpus") {
        format!("host={host},cpu=\"{}\"", run.threads[index].cpu)
    } else {
        format!("host={host},thread=\"{index}\"")
    }
}

fn family(out: &mut String, name: &str, kind: &str, unit: &str, help: &str) {
    put(out, format_args!("# TYPE {name} {kind}\n"));
    if !unit.is_empty() {
        put(out, format_args!("# UNIT {name} {unit}\n"));
    }
    put(out, format_args!("# HELP {name} {help}\n"));
}

fn latency(out: &mut String, run: &Run, histograms: &[Histogram], labels: &[String]) {
    let gaps = run.gaps.is_some();
    let (name, help) = if gaps {
        (
            "punctual_gap_seconds",
            "Length of gaps in a thread that polls the clock.",
        )
    } else {
        (
            "punctual_latency_seconds",
            "Wake-up time minus the instant that was asked for.",
        )
    };
    family(out, name, "histogram", "seconds", help);
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
    for (histogram, labels) in histograms.iter().zip(labels) {
        for edge in &edges {
            let below = histogram.count_at_or_below(*edge);
            put(
                out,
                format_args!(
                    "{name}_bucket{{{labels},le=\"{}\"}} {below}\n",
                    seconds(*edge)
                ),
            );
        }
        let count = histogram.count();
        put(
            out,
            format_args!("{name}_bucket{{{labels},le=\"+Inf\"}} {count}\n"),
        );
        put(out, format_args!("{name}_count{{{labels}}} {count}\n"));
        let sum = histogram.sum() as f64 / 1e9;
        put(out, format_args!("{name}_sum{{{labels}}} {sum:?}\n"));
    }
}

fn extremes(out: &mut String, histograms: &[Histogram], labels: &[String]) {
    type Figure = fn(&Histogram) -> Option<u64>;
    let figures: [(&str, &str, Figure); 2] = [
        (
            "punctual_latency_min_seconds",
            "Exact minimum.",
            Histogram::min,
        ),
        (
            "punctual_latency_max_seconds",
            "Exact maximum; see the count and measured time.",
            Histogram::max,
        ),
    ];
    for (name, help, figure) in figures {
        family(out, name, "gauge", "seconds", help);
        for (histogram, labels) in histograms.iter().zip(labels) {
            if let Some(ns) = figure(histogram) {
                put(out, format_args!("{name}{{{labels}}} {}\n", seconds(ns)));
            }
        }
    }
}

fn counters(out: &mut String, run: &Run, labels: &[String]) {
    type Figure = fn(&Thread) -> u64;
    let figures: [(&str, &str, Figure); 4] = [
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
            "Wake-ups before the instant asked for.",
            |t| t.early,
        ),
    ];
    for (name, help, figure) in figures {
        family(out, name, "counter", "", help);
        for (thread, labels) in run.threads.iter().zip(labels) {
            put(
                out,
                format_args!("{name}_total{{{labels}}} {}\n", figure(thread)),
            );
        }
    }
}

fn about(out: &mut String, run: &Run) {
    let host = quoted(&run.system.hostname);
    let name = "punctual_measured_seconds";
    family(
        out,
        name,
        "gauge",
        "seconds",
        "Time measured, warm-up excluded.",
    );
    if run.knows("measured-time") {
        put(
            out,
            format_args!("{name}{{host={host}}} {}\n", seconds(run.measured_ns)),
        );
    }
    let name = "punctual_run";
    family(out, name, "info", "", "What was measured, and where.");
    let facts = [
        ("tool", run.tool.name.as_str()),
        ("version", &run.tool.version),
        ("verb", &run.verb),
        ("started", &run.started),
        ("source", &run.request.source),
        ("load", &run.request.load),
        ("policy", &run.request.policy),
        ("kernel", &run.system.kernel.release),
        ("preemption", &run.system.kernel.preemption),
    ];
    put(out, format_args!("{name}_info{{host={host}"));
    for (label, value) in facts {
        put(out, format_args!(",{label}={}", quoted(value)));
    }
    out.push_str("} 1\n");
    if let Some(verdict) = &run.verdict {
        let name = "punctual_verdict";
        family(
            out,
            name,
            "stateset",
            "",
            "The verdict on all requirements.",
        );
        for outcome in [
            Outcome::Pass,
            Outcome::Fail,
            Outcome::Inconclusive,
            Outcome::Invalid,
        ] {
            let on = u8::from(outcome == verdict.outcome);
            put(
                out,
                format_args!("{name}{{host={host},{name}=\"{outcome}\"}} {on}\n"),
            );
        }
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

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    let _ = out.write_fmt(text);
}
