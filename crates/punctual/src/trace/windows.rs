//! The windows that are kept beside a record, so that they can be attributed again:
//! `windows.jsonl`, one [`Window`] as JSON on each line.
//!
//! The file may come from anywhere. What is read is bounded in size before memory is taken.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::attribute::event::{What, Window};
use crate::record::{RecordError, scan};

/// The file's name in a run directory.
pub const WINDOWS_FILE: &str = "windows.jsonl";

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

/// What a line may hold.
const LIMITS: scan::Limits = scan::Limits {
    depth: 12,
    entries: EVENTS as u32,
    total: 1 << 21,
    string: 1 << 12,
};

/// Reads one window from a line; `place` is named in errors alone.
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
    let deep = |what: &What| matches!(what, What::Stack { frames, .. } if frames.len() > FRAMES);
    if window.events.iter().any(|event| deep(&event.what)) {
        return Err(wrong(format!("a stack of more than {FRAMES} addresses")));
    }
    Ok(window)
}

/// The windows beside a record, one at a time: a long run's need not fit into memory.
#[derive(Debug)]
pub struct Windows {
    path: PathBuf,
    lines: BufReader<File>,
    number: usize,
    ended: bool,
}

impl Windows {
    /// Opens the windows of a run directory, or of the directory that a `run.json` lies in.
    /// `None` where there are none.
    ///
    /// # Errors
    /// [`RecordError::Read`].
    pub fn open(run: &Path) -> Result<Option<Self>, RecordError> {
        let directory = if run.is_dir() {
            run
        } else {
            run.parent().unwrap_or(Path::new("."))
        };
        let path = directory.join(WINDOWS_FILE);
        match File::open(&path) {
            Ok(file) => Ok(Some(Self {
                path,
                lines: BufReader::new(file),
                number: 0,
                ended: false,
            })),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(RecordError::Read { path, source }),
        }
    }

    /// A line without its end; `None` at the end of the file.
    fn line(&mut self) -> Result<Option<Vec<u8>>, RecordError> {
        let mut line = Vec::new();
        let read = (&mut self.lines)
            .take(LINE + 1)
            .read_until(b'\n', &mut line)
            .map_err(|source| RecordError::Read {
                path: self.path.clone(),
                source,
            })?;
        self.number += 1;
        if read as u64 > LINE || self.number > WINDOWS {
            return Err(RecordError::TooLarge {
                path: self.path.clone(),
                limit: LINE,
            });
        }
        Ok((read > 0).then_some(line))
    }
}

impl Iterator for Windows {
    type Item = Result<Window, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.line() {
                Ok(None) => self.ended = true,
                Ok(Some(line)) if line.trim_ascii().is_empty() => {}
                // The last line of a run that was killed may be cut short.
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
