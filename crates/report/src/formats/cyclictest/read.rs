//! Reads cyclictest's histogram and its lines `T: 0 (123) P:80 I:500 C: ...`.
//!
//! The text doesn't say on which CPUs the threads ran, nor whether `-N` was given:
//! microseconds, the default, are taken, and both are named as unknown.

use std::path::Path;

use super::super::fault::ForeignError;
use super::super::import::{Foreign, ForeignThread};
use punctual_record::{RecordError, Run, SystemState, Tool, Unread, UnreadReason};

/// Columns, so threads.
const MOST_THREADS: usize = 4096;
/// Rows times columns.
const MOST_CELLS: usize = 1 << 24;

#[derive(Default)]
struct Parsed {
    histogram: bool,
    /// Rows of cells: value, then one count for each column.
    values: Vec<u64>,
    cells: Vec<u64>,
    columns: usize,
    total: Vec<u64>,
    min: Vec<u64>,
    mean: Vec<u64>,
    max: Vec<u64>,
    overflows: Vec<u64>,
    summaries: Vec<Option<Summary>>,
    dma_latency_us: Option<i32>,
}

#[derive(Clone, Default)]
struct Summary {
    priority: u64,
    interval: u64,
    cycles: u64,
    min: u64,
    mean: u64,
    max: u64,
}

/// Reads the text.
pub(in super::super) fn read(path: &Path, bytes: &[u8]) -> Result<Run, RecordError> {
    let error = |line: usize, fault: ForeignError| {
        RecordError::malformed(path, format!("line {line}"), fault.to_string())
    };
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let before = &bytes[..e.valid_up_to()];
        error(
            before.iter().filter(|b| **b == b'\n').count() + 1,
            ForeignError::NotText,
        )
    })?;
    let mut parsed = Parsed::default();
    for (index, line) in text.lines().enumerate() {
        parsed.line(line).map_err(|fault| error(index + 1, fault))?;
    }
    let whole = |fault: ForeignError| RecordError::malformed(path, "", fault.to_string());
    parsed
        .into_foreign()
        .map_err(whole)?
        .into_run(path, |thread| format!("thread {thread}"))
}

impl Parsed {
    fn line(&mut self, line: &str) -> Result<(), ForeignError> {
        let line = without_escapes(line);
        let line = line.trim();
        if let Some(comment) = line.strip_prefix('#') {
            return self.comment(comment.trim());
        }
        if let Some(rest) = line.strip_prefix("T:") {
            return self.summary(rest);
        }
        if self.histogram && line.starts_with(|c: char| c.is_ascii_digit()) {
            return self.row(line);
        }
        // policy: fifo: loadavg: ..., Max CPUs = 2, empty lines.
        Ok(())
    }

    fn comment(&mut self, comment: &str) -> Result<(), ForeignError> {
        if comment == "Histogram" {
            if self.histogram {
                return Err(ForeignError::SecondHistogram);
            }
            self.histogram = true;
            return Ok(());
        }
        if let Some(value) = comment.strip_prefix("/dev/cpu_dma_latency set to ") {
            self.dma_latency_us = value
                .strip_suffix("us")
                .and_then(|value| value.parse().ok());
            return Ok(());
        }
        let Some((name, figures)) = comment.split_once(':') else {
            return Ok(());
        };
        let list = match name {
            "Total" => &mut self.total,
            "Min Latencies" => &mut self.min,
            "Avg Latencies" => &mut self.mean,
            "Max Latencies" => &mut self.max,
            "Histogram Overflows" => &mut self.overflows,
            _ => return Ok(()),
        };
        *list = numbers(figures)?;
        Ok(())
    }

    fn row(&mut self, line: &str) -> Result<(), ForeignError> {
        let numbers = numbers(line)?;
        let (value, counts) = numbers.split_first().ok_or(ForeignError::EmptyRow)?;
        if self.columns == 0 {
            self.columns = counts.len();
        }
        if counts.is_empty() {
            return Err(ForeignError::EmptyRow);
        }
        if counts.len() != self.columns {
            return Err(ForeignError::RowLength {
                found: numbers.len(),
                expected: self.columns + 1,
            });
        }
        if self.values.last().is_some_and(|before| before >= value) {
            return Err(ForeignError::RowOrder { value: *value });
        }
        if self.cells.len() + counts.len() > MOST_CELLS {
            return Err(ForeignError::TooManyCounts { most: MOST_CELLS });
        }
        self.values.push(*value);
        self.cells.extend_from_slice(counts);
        Ok(())
    }

    /// `0 (11782) P:80 I:500 C:   3999 Min:      7 Act:   12 Avg:   11 Max:     681`
    fn summary(&mut self, rest: &str) -> Result<(), ForeignError> {
        let rest = rest.trim_start();
        let (thread, rest) = rest
            .split_once('(')
            .ok_or(ForeignError::SummaryLacks { part: "thread id" })?;
        let thread: usize = thread
            .trim()
            .parse()
            .map_err(|_| ForeignError::SummaryLacks { part: "thread" })?;
        if thread >= MOST_THREADS {
            return Err(ForeignError::TooManyThreads { most: MOST_THREADS });
        }
        let mut summary = Summary::default();
        for (name, slot) in [
            ("P:", &mut summary.priority),
            ("I:", &mut summary.interval),
            ("C:", &mut summary.cycles),
            ("Min:", &mut summary.min),
            ("Avg:", &mut summary.mean),
            ("Max:", &mut summary.max),
        ] {
            *slot = labelled(rest, name).ok_or(ForeignError::SummaryLacks { part: name })?;
        }
        if self.summaries.len() <= thread {
            self.summaries.resize(thread + 1, None);
        }
        // While it runs, cyclictest prints the line again and again: the last holds.
        self.summaries[thread] = Some(summary);
        Ok(())
    }

    fn into_foreign(self) -> Result<Foreign, ForeignError> {
        let threads = if self.histogram {
            self.histogram_threads()?
        } else {
            self.summary_threads()?
        };
        let same = |figure: fn(&Summary) -> u64| {
            let mut figures = self.summaries.iter().flatten().map(figure);
            let first = figures.next()?;
            figures.all(|figure| figure == first).then_some(first)
        };
        let priority = same(|s| s.priority).and_then(|p| u32::try_from(p).ok());
        let interval_ns = same(|s| s.interval).and_then(|us| us.checked_mul(1000));
        Ok(Foreign {
            format: "cyclictest",
            tool: Tool {
                name: "cyclictest".to_owned(),
                version: "unknown".to_owned(),
            },
            interval_ns,
            priority: priority.filter(|priority| *priority <= 99),
            unit_ns: 1000,
            unit_known: false,
            system: self.dma_latency_us.map(|us| {
                let mut system = SystemState::default();
                system.power.cpu_dma_latency_held_us = Some(us);
                system.unread.push(Unread {
                    what: String::new(),
                    why: UnreadReason::NotStated {
                        tool: "cyclictest".to_owned(),
                        kernel: false,
                    },
                });
                system
            }),
            threads,
            ..Foreign::default()
        })
    }

    fn histogram_threads(&self) -> Result<Vec<ForeignThread>, ForeignError> {
        let threads = self.min.len();
        if threads == 0 || threads > MOST_THREADS {
            return Err(ForeignError::CutShort);
        }
        let rows_agree = self.columns == threads || self.columns == threads + 1 && threads > 1;
        // With -H there is one column more, the sum of the others.
        let lists = [&self.total, &self.max, &self.overflows];
        let means = self.mean.len();
        if !(self.values.is_empty() || rows_agree)
            || lists
                .iter()
                .any(|list| list.len() < threads || list.len() > threads + 1)
            || ![0, threads, threads + 1].contains(&means)
        {
            return Err(ForeignError::FiguresMissing { threads });
        }
        let mut found = Vec::with_capacity(threads);
        for index in 0..threads {
            let counts = self.cells.chunks(self.columns.max(1)).map(|row| row[index]);
            let rows: Vec<_> = self
                .values
                .iter()
                .copied()
                .zip(counts)
                .filter(|(_, count)| *count > 0)
                .collect();
            let inside = rows
                .iter()
                .try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
            if inside != Some(self.total[index]) {
                return Err(ForeignError::Total {
                    thread: index,
                    total: self.total[index],
                });
            }
            let count = self.total[index]
                .checked_add(self.overflows[index])
                .ok_or(ForeignError::TooManySamples)?;
            found.push(ForeignThread {
                cpu: None,
                rows,
                count,
                min: self.min[index],
                max: self.max[index],
                mean: self.mean.get(index).map(|mean| *mean as f64),
                end: self.values.last().and_then(|last| last.checked_add(1)),
            });
        }
        Ok(found)
    }

    fn summary_threads(&self) -> Result<Vec<ForeignThread>, ForeignError> {
        if self.summaries.is_empty() {
            return Err(ForeignError::UnknownFormat);
        }
        let thread = |(index, summary): (usize, &Option<Summary>)| {
            let summary = summary
                .as_ref()
                .ok_or(ForeignError::NoSummary { thread: index })?;
            Ok(ForeignThread {
                cpu: None,
                rows: Vec::new(),
                count: summary.cycles,
                min: summary.min,
                max: summary.max,
                mean: Some(summary.mean as f64),
                end: None,
            })
        };
        self.summaries.iter().enumerate().map(thread).collect()
    }
}

fn numbers(text: &str) -> Result<Vec<u64>, ForeignError> {
    let mut numbers = Vec::new();
    for word in text.split_ascii_whitespace() {
        if numbers.len() > MOST_THREADS + 1 {
            return Err(ForeignError::TooManyThreads { most: MOST_THREADS });
        }
        numbers.push(ForeignError::count(word)?);
    }
    Ok(numbers)
}

/// The number after a label.
fn labelled(text: &str, label: &str) -> Option<u64> {
    let (_, after) = text.split_once(label)?;
    after.split_ascii_whitespace().next()?.parse().ok()
}

/// Without the cursor movements that cyclictest prints on a terminal.
fn without_escapes(line: &str) -> std::borrow::Cow<'_, str> {
    if !line.contains('\u{1b}') {
        return line.into();
    }
    let mut plain = String::with_capacity(line.len());
    let mut rest = line.chars();
    while let Some(c) = rest.next() {
        if c == '\u{1b}' {
            // CSI: parameters up to a letter.
            for c in rest.by_ref() {
                if c.is_ascii_alphabetic() {
                    break;
                }
            }
        } else {
            plain.push(c);
        }
    }
    plain.into()
}
