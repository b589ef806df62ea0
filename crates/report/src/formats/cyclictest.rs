//! The text that `cyclictest -h N -q` prints, and its lines of summary.

mod read;

use std::fmt::Write;

use super::{WriteError, rows};
use punctual_record::Run;

pub(super) use read::read;

/// Rows that are written at most; what lies beyond is counted as overflow, as
/// cyclictest does. A second is a million rows.
const MOST_ROWS: u64 = 1_000_000;
/// Cycles of overflow that are named for each thread, cyclictest's own limit.
const MOST_CYCLES: usize = 10_000;
const UNIT_NS: u64 = 1000;

/// Writes the histogram with as many rows as it takes, so that nothing
/// overflows short of a second.
pub(super) fn write(run: &Run) -> Result<String, WriteError> {
    let mut known = Vec::with_capacity(run.threads.len());
    let mut means = Vec::with_capacity(run.threads.len());
    for index in 0..run.threads.len() {
        let of = rows::known(run, index)?;
        means.extend(of.mean(UNIT_NS).map(|mean| mean as u64));
        known.push(of);
    }
    let steps: Vec<_> = run
        .threads
        .iter()
        .zip(&known)
        .map(|(thread, of)| rows::in_steps(thread, &of.histogram, UNIT_NS))
        .collect();
    // Where a thread's histogram ended, all do: a row of it would be a count of 0.
    let ends = known.iter().filter_map(|of| of.kept_below_ns);
    let most = ends.map(|ns| ns / UNIT_NS).min().unwrap_or(MOST_ROWS);
    let most = most.min(MOST_ROWS);
    let last = steps
        .iter()
        .filter_map(|rows| rows.range(..most).next_back())
        .map(|row| *row.0);
    let end = last.max().map_or(0, |last| last + 1);
    let end = if most < MOST_ROWS && end > 0 {
        most
    } else {
        end
    };

    let mut out = String::new();
    if let Some(us) = run.system.power.cpu_dma_latency_held_us {
        put(
            &mut out,
            format_args!("# /dev/cpu_dma_latency set to {us}us\n"),
        );
    }
    out.push_str("# Histogram\n");
    for row in 0..end {
        put(&mut out, format_args!("{row:06} "));
        for (index, rows) in steps.iter().enumerate() {
            let gap = if index == 0 { "" } else { "\t" };
            put(
                &mut out,
                format_args!("{gap}{:06}", rows.get(&row).copied().unwrap_or(0)),
            );
        }
        out.push('\n');
    }
    // Counts of a damaged record may be as large as a number can be.
    let inside = |rows: &std::collections::BTreeMap<u64, u64>| {
        let counts = rows.range(..end).map(|row| *row.1);
        counts.fold(0, u64::saturating_add)
    };
    let totals: Vec<u64> = steps.iter().map(inside).collect();
    line(&mut out, "# Total:", 9, totals.iter().copied());
    let of = |figure: fn(&rows::Known) -> Option<u64>| {
        let values = known.iter().map(figure);
        values.map(|ns| ns.unwrap_or(0) / UNIT_NS)
    };
    line(&mut out, "# Min Latencies:", 5, of(|of| of.min_ns));
    if means.len() == known.len() {
        line(&mut out, "# Avg Latencies:", 5, means.iter().copied());
    }
    line(&mut out, "# Max Latencies:", 5, of(|of| of.max_ns));
    let over = known
        .iter()
        .zip(&totals)
        .map(|(of, inside)| of.count().saturating_sub(*inside));
    line(&mut out, "# Histogram Overflows:", 5, over.clone());
    out.push_str("# Histogram Overflow at cycle number:\n");
    for ((index, thread), over) in run.threads.iter().enumerate().zip(over) {
        put(&mut out, format_args!("# Thread {index}:"));
        let beyond = |peak: &&punctual_stats::peaks::Peak| peak.latency_ns / UNIT_NS >= end;
        let named = thread.peaks.iter().filter(beyond).take(MOST_CYCLES);
        let mut unnamed = over;
        for peak in named {
            put(&mut out, format_args!(" {:05}", peak.cycle));
            unnamed = unnamed.saturating_sub(1);
        }
        if unnamed > 0 {
            put(&mut out, format_args!(" # {unnamed:05} others"));
        }
        out.push('\n');
    }
    Ok(out)
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    let _ = out.write_fmt(text);
}

fn line(out: &mut String, name: &str, width: usize, figures: impl Iterator<Item = u64>) {
    out.push_str(name);
    for figure in figures {
        put(out, format_args!(" {figure:0width$}"));
    }
    out.push('\n');
}
