//! The windows that are saved beside a record, so that they can be attributed again:
//! `windows.jsonl`, one [`Window`] as JSON on each line, of the worst wake-ups; and
//! `outliers.jsonl.gz`, the same compressed, for all other outliers.
//!
//! The file may come from anywhere. Sizes are bounded before memory is allocated.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde::Deserialize;

use super::attribute::event::{Kind, Window};
use punctual_record::{RecordError, scan};

/// The file name in a run directory.
pub const WINDOWS_FILE: &str = "windows.jsonl";

/// The name of the file with the other outliers.
pub const OUTLIERS_FILE: &str = "outliers.jsonl.gz";

/// Windows that one file may hold.
pub const WINDOWS: usize = 1 << 16;
/// Bytes of one line.
const LINE: u64 = 64 << 20;
/// Events of one window.
const EVENTS: usize = 1 << 17;
/// Return addresses of one stack.
const FRAMES: usize = 1 << 10;
/// Names of one window.
const SYMBOLS: usize = 1 << 16;

/// Limits of a line.
const LIMITS: scan::Limits = scan::Limits {
    depth: 12,
    entries: EVENTS as u32,
    total: 1 << 21,
    string: 1 << 12,
};

/// Parses one window from a line; `place` is used only in errors.
///
/// # Errors
/// [`RecordError::Malformed`] with the line and what is wrong.
pub fn parse(path: &Path, number: usize, line: &[u8]) -> Result<Window, RecordError> {
    let wrong = |reason: String| RecordError::malformed(path, format!("line {number}"), reason);
    scan::scan(line, &LIMITS).map_err(|e| wrong(e.what))?;
    let window: Window = serde_json::from_slice(line).map_err(|e| wrong(e.to_string()))?;
    if window.events.len() > EVENTS || window.symbols.len() > SYMBOLS {
        return Err(wrong(format!(
            "more than {EVENTS} events or {SYMBOLS} names"
        )));
    }
    let deep = |kind: &Kind| matches!(kind, Kind::Stack { frames, .. } | Kind::Left { frames, .. } if frames.len() > FRAMES);
    if window.events.iter().any(|event| deep(&event.kind)) {
        return Err(wrong(format!("a stack of more than {FRAMES} addresses")));
    }
    Ok(window)
}

/// What identifies an outlier, and how bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct OutlierHeader {
    /// The CPU.
    pub cpu: u32,
    /// The requested instant.
    pub due_ns: u64,
    /// When the thread ran again.
    woken_ns: u64,
}

impl OutlierHeader {
    /// The head of a wake-up's window.
    #[must_use]
    pub fn new(cpu: u32, due_ns: u64, woken_ns: u64) -> Self {
        Self {
            cpu,
            due_ns,
            woken_ns,
        }
    }

    /// The latency.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.woken_ns.saturating_sub(self.due_ns)
    }

    /// Orders the worst first; of equal ones the earlier first.
    #[must_use]
    pub fn rank(&self) -> (std::cmp::Reverse<u64>, u64, u32) {
        (std::cmp::Reverse(self.latency_ns()), self.due_ns, self.cpu)
    }
}

/// The windows beside a record, read one at a time: those of a long run need not fit into memory.
pub struct Windows {
    path: PathBuf,
    lines: Box<dyn BufRead>,
    /// Whether it may end within a line: it was being written when the run was killed.
    packed: bool,
    number: usize,
    ended: bool,
}

impl Windows {
    /// Opens the windows of a run directory, or of the directory that contains a `run.json`.
    /// `None` if there are none.
    ///
    /// # Errors
    /// [`RecordError::Read`].
    pub fn open(run: &Path) -> Result<Option<Self>, RecordError> {
        Self::open_file(run, WINDOWS_FILE)
    }

    /// The same for the other outliers, the worst first; in a killed run, in no order.
    ///
    /// # Errors
    /// [`RecordError::Read`].
    pub fn open_outliers(run: &Path) -> Result<Option<Self>, RecordError> {
        Self::open_file(run, OUTLIERS_FILE)
    }

    fn open_file(run: &Path, name: &str) -> Result<Option<Self>, RecordError> {
        let directory = if run.is_dir() {
            run
        } else {
            run.parent().unwrap_or(Path::new("."))
        };
        let path = directory.join(name);
        let packed = name == OUTLIERS_FILE;
        match File::open(&path) {
            Ok(file) => Ok(Some(Self {
                path,
                lines: match packed {
                    true => Box::new(BufReader::new(MultiGzDecoder::new(file))),
                    false => Box::new(BufReader::new(file)),
                },
                packed,
                number: 0,
                ended: false,
            })),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RecordError::Read { path, source }),
        }
    }

    /// A line without its newline; `None` at the end of the file.
    fn line(&mut self) -> Result<Option<Vec<u8>>, RecordError> {
        let mut line = Vec::new();
        let read = (&mut self.lines)
            .take(LINE + 1)
            .read_until(b'\n', &mut line);
        let read = match read {
            Err(error) if self.packed && error.kind() == std::io::ErrorKind::UnexpectedEof => 0,
            read => read.map_err(|source| RecordError::Read {
                path: self.path.clone(),
                source,
            })?,
        };
        self.number += usize::from(read > 0);
        if read as u64 > LINE || self.number > WINDOWS {
            return Err(RecordError::TooLarge {
                path: self.path.clone(),
                limit: LINE,
            });
        }
        Ok((read > 0).then_some(line))
    }
}

impl Windows {
    /// The heads of all windows, the worst first. Nothing else is kept in memory.
    ///
    /// # Errors
    /// The errors of [`parse`], and read errors.
    pub fn heads(mut self) -> Result<Vec<OutlierHeader>, RecordError> {
        let mut heads = Vec::new();
        while let Some(line) = self.line()? {
            let whole = line.ends_with(b"\n");
            match serde_json::from_slice(&line) {
                Ok(head) => heads.push(head),
                Err(_) if !whole || line.trim_ascii().is_empty() => {}
                Err(error) => {
                    let place = format!("line {}", self.number);
                    return Err(RecordError::malformed(&self.path, place, error.to_string()));
                }
            }
        }
        heads.sort_by_key(OutlierHeader::rank);
        Ok(heads)
    }
}

impl Iterator for Windows {
    type Item = Result<Window, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.line() {
                Ok(None) => self.ended = true,
                Ok(Some(line)) if line.trim_ascii().is_empty() => {}
                // The last line of a run that was killed may be truncated.
                Ok(Some(line)) if !line.ends_with(b"\n") => {
                    self.ended = true;
                    return parse(&self.path, self.number, &line).ok().map(Ok);
                }
                Ok(Some(line)) => {
                    let window = parse(&self.path, self.number, &line);
                    self.ended = window.is_err();
                    return Some(window);
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
