//! The histogram that `rtla timerlat hist` prints: of the interrupt (`IRQ-000`), the kernel's
//! thread (`Thr-000`) and, from 6.5 on, a program's (`Usr-000`), by CPU. What a wake-up is here
//! is the program's where there is one, else the thread's.

use std::path::Path;

use super::fault::ForeignError;
use super::import::{Foreign, ForeignThread};
use punctual_record::text::shortened;
use punctual_record::{RecordError, Run, Tool};

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
    let error =
        |place: String, fault: ForeignError| RecordError::malformed(path, place, fault.to_string());
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let before = bytes[..e.valid_up_to()].iter();
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        error(format!("line {line}"), ForeignError::NotText)
    })?;
    let mut parsed = Parsed::default();
    for (index, line) in text.lines().enumerate() {
        let read = parsed.line(line.trim());
        read.map_err(|fault| error(format!("line {}", index + 1), fault))?;
    }
    if parsed.columns.is_empty() {
        return Err(error(String::new(), ForeignError::NoColumn));
    }
    // A row in which no CPU has a sample is not printed: the end is not stated.
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
    fn line(&mut self, line: &str) -> Result<(), ForeignError> {
        if let Some(unit) = line.strip_prefix("# Time unit is ") {
            self.unit_ns = match unit {
                _ if unit.ends_with("(ns)") => Some(1),
                _ if unit.ends_with("(us)") => Some(1000),
                _ => {
                    return Err(ForeignError::UnknownUnit {
                        unit: shortened(unit, 40),
                    });
                }
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

    fn head(&mut self, line: &str) -> Result<(), ForeignError> {
        if self.words != 0 {
            return Err(ForeignError::SecondHistogram);
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
            return Err(ForeignError::TooManyThreads { most: MOST_COLUMNS });
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

    fn row(&mut self, line: &str) -> Result<(), ForeignError> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.len() != self.words {
            return Err(ForeignError::RowLength {
                found: words.len(),
                expected: self.words,
            });
        }
        let value = ForeignError::count(words[0])?;
        if self.last.is_some_and(|last| last >= value) {
            return Err(ForeignError::RowOrder { value });
        }
        self.last = Some(value);
        self.cells += self.columns.len();
        if self.cells > MOST_CELLS {
            return Err(ForeignError::TooManyCounts { most: MOST_CELLS });
        }
        for (at, column) in &mut self.columns {
            let count = ForeignError::count(words[*at])?;
            if count > 0 {
                column.rows.push((value, count));
            }
        }
        Ok(())
    }

    /// `count:`, `min:`, `avg:` and `max:`; a place without samples has `-`.
    fn summary(&mut self, name: &str, values: &str) -> Result<(), ForeignError> {
        // The first word of a row is its name.
        let values: Vec<&str> = values.split_whitespace().collect();
        for (at, column) in &mut self.columns {
            let Some(value) = values.get(*at - 1) else {
                return Ok(());
            };
            let value = if *value == "-" {
                0
            } else {
                ForeignError::count(value)?
            };
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
# RTLA timerlat histogram
# Time unit is nanoseconds (ns)
# Duration:   0 00:00:02
Index   IRQ-000   Thr-000
1200          3         0
3900          0         2
4000          0         1
over:         0         1
count:        3         4
min:       1200      3900
avg:       1200      4700
max:       1200      7000
";

    fn parsed(text: &str) -> Result<Run, RecordError> {
        super::super::detect_and_parse(Path::new("hist"), text.as_bytes())
    }

    #[test]
    fn the_threads_column_is_read_with_what_lies_beyond() {
        let run = parsed(TEXT).expect("a histogram");
        assert_eq!(run.threads.len(), 1);
        let of = &run.imported.as_ref().expect("imported").threads[0];
        assert_eq!((of.count, of.min_ns, of.max_ns), (4, 3900, 7000));
        assert_eq!(
            (of.mean_ns, of.beyond),
            (Some(4700.0), 0),
            "the one beyond is the maximum"
        );
        assert_eq!(run.threads[0].latency.count, 4);
        let micro = TEXT.replace("nanoseconds (ns)", "microseconds (us)");
        let run = parsed(&micro).expect("a histogram");
        assert_eq!(run.imported.expect("imported").threads[0].max_ns, 7_000_000);
    }

    #[test]
    fn where_a_program_took_part_it_is_the_program() {
        let text = "\
# RTLA timerlat histogram
# Time unit is microseconds (us)
Index   IRQ-000   Thr-000   Usr-000
1             2         1         0
5             0         1         2
over:         0         0         0
count:        2         2         2
min:          1         1         5
avg:          1         3         5
max:          1         5         5
";
        let run = parsed(text).expect("a histogram");
        let of = &run.imported.as_ref().expect("imported").threads[0];
        assert_eq!((of.count, of.min_ns, of.max_ns), (2, 5000, 5000));
    }

    #[test]
    fn damage_is_refused_in_a_line() {
        for (from, to, words) in [
            ("Thr-000", "Thr-x", "no column of a thread"),
            ("3900          0         2", "3900 0", "2 columns in a row"),
            ("4000 ", "3900 ", "out of order"),
            (
                "4000          0         1",
                "4000 0 x",
                "'x' is not a count",
            ),
            ("over:", "Index", "a second histogram"),
            ("nanoseconds (ns)", "fortnights", "unknown unit"),
            ("count:        3         4", "count: 3 2", "more than"),
        ] {
            assert!(TEXT.contains(from));
            let error = parsed(&TEXT.replace(from, to)).expect_err(to).to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-0-9a-zA-Z:# \n]{0,300}", at in 0..TEXT.len()) {
            let _ = parsed(&format!("{FIRST_LINE}\n{text}"));
            let _ = parsed(&format!("{}{text}{}", &TEXT[..at], &TEXT[at..]));
        }
    }
}
