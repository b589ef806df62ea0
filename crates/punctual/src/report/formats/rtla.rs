//! The histogram that `rtla timerlat hist` prints: of the interrupt (`IRQ-000`), the kernel's
//! thread (`Thr-000`) and, from 6.5 on, a program's (`Usr-000`), by CPU. What a wake-up is here
//! is the program's where there is one, else the thread's.

use std::path::Path;

use super::import::{Foreign, ForeignThread};
use crate::record::{RecordError, Run, Tool};

/// How the text begins.
pub(super) const FIRST_LINE: &str = "# RTLA timerlat histogram";
/// The columns that may be meant by a wake-up, the better one first.
const COLUMNS: [&str; 2] = ["Usr-", "Thr-"];
/// CPUs.
const MOST_COLUMNS: usize = 4096;
/// Rows times columns.
const MOST_CELLS: usize = 1 << 24;

#[derive(Default)]
struct Parsed {
    unit_ns: Option<u64>,
    /// Words of a row.
    words: usize,
    /// The columns that are read, by their place among a row's words, with their CPUs.
    columns: Vec<(usize, ForeignThread)>,
    last: Option<u64>,
    cells: usize,
}

/// Reads the text.
pub(super) fn read(path: &Path, bytes: &[u8]) -> Result<Run, RecordError> {
    let error = |place: String, reason: String| RecordError::malformed(path, place, reason);
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let before = bytes[..e.valid_up_to()].iter();
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        error(format!("line {line}"), "not text".to_owned())
    })?;
    let mut parsed = Parsed::default();
    for (index, line) in text.lines().enumerate() {
        let read = parsed.line(line.trim());
        read.map_err(|reason| error(format!("line {}", index + 1), reason))?;
    }
    if parsed.columns.is_empty() {
        let reason = "rtla's histogram has no column of a thread (Thr-000)";
        return Err(error(String::new(), reason.to_owned()));
    }
    let cpus: Vec<Option<u64>> = parsed.columns.iter().map(|(_, of)| of.cpu).collect();
    Foreign {
        format: "rtla-timerlat",
        tool: Tool {
            name: "rtla timerlat".to_owned(),
            version: "unknown".to_owned(),
        },
        unit_ns: parsed.unit_ns.unwrap_or(1000),
        unit_known: parsed.unit_ns.is_some(),
        threads: parsed.columns.into_iter().map(|(_, of)| of).collect(),
        ..Foreign::default()
    }
    .into_run(path, |index| {
        let cpu = cpus.get(index).copied().flatten().unwrap_or(0);
        format!("CPU {cpu}")
    })
}

impl Parsed {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(unit) = line.strip_prefix("# Time unit is ") {
            self.unit_ns = match unit {
                _ if unit.ends_with("(ns)") => Some(1),
                _ if unit.ends_with("(us)") => Some(1000),
                _ => return Err(format!("unknown unit '{unit}'")),
            };
        } else if line.starts_with("Index") {
            self.head(line)?;
        } else if let Some((name, values)) = line.split_once(':') {
            self.summary(name, values)?;
        } else if line.starts_with(|c: char| c.is_ascii_digit()) {
            self.row(line)?;
        }
        Ok(())
    }

    fn head(&mut self, line: &str) -> Result<(), String> {
        if self.words != 0 {
            return Err("a second histogram in one text".to_owned());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let of = |prefix: &str| -> Vec<(usize, u64)> {
            let cpu = |word: &str| word.strip_prefix(prefix)?.parse().ok();
            let places = words.iter().enumerate();
            places
                .filter_map(|(at, word)| Some((at, cpu(word)?)))
                .collect()
        };
        let found = COLUMNS.into_iter().map(of).find(|found| !found.is_empty());
        let found = found.unwrap_or_default();
        if found.len() > MOST_COLUMNS {
            return Err(format!("{} CPUs", found.len()));
        }
        self.words = words.len();
        let column = |(at, cpu)| {
            let cpu = Some(cpu);
            (
                at,
                ForeignThread {
                    cpu,
                    ..ForeignThread::default()
                },
            )
        };
        self.columns = found.into_iter().map(column).collect();
        Ok(())
    }

    fn row(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() != self.words {
            return Err(format!(
                "{} words in a row, where the head has {}",
                words.len(),
                self.words
            ));
        }
        let value = number(words[0])?;
        if self.last.is_some_and(|last| last >= value) {
            return Err(format!("row {value} is out of order"));
        }
        self.last = Some(value);
        self.cells += self.columns.len();
        if self.cells > MOST_CELLS {
            return Err(format!("more than {MOST_CELLS} counts"));
        }
        for (at, column) in &mut self.columns {
            let count = number(words[*at])?;
            if count > 0 {
                column.rows.push((value, count));
            }
        }
        Ok(())
    }

    /// `count:`, `min:`, `avg:` and `max:`; a place without samples has `-`.
    fn summary(&mut self, name: &str, values: &str) -> Result<(), String> {
        // The first word of a row is its name.
        let values: Vec<&str> = values.split_whitespace().collect();
        for (at, column) in &mut self.columns {
            let Some(value) = values.get(*at - 1) else {
                return Ok(());
            };
            let value = if *value == "-" { 0 } else { number(value)? };
            match name {
                "count" => column.count = value,
                "min" => column.min = value,
                "avg" => column.mean = Some(value as f64),
                "max" => column.max = value,
                _ => {}
            }
        }
        Ok(())
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("'{word}' is no count"))
}
