//! The lines of a journal: how they are read, merged and written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use punctual_record::tuning::{Closed, Entry, Holder, Setting};
use serde::Serialize;

use crate::tune::TuneError;

/// The largest journal, in bytes. A longer one is neither read nor written: its end would be taken for a
/// line that is torn, and the originals that stand there would be lost.
pub(super) const LIMIT: u64 = 16 << 20;

pub(super) fn text_of<T: Serialize>(lines: &[T]) -> io::Result<String> {
    let mut text = String::new();
    for line in lines {
        text += &serde_json::to_string(line).map_err(io::Error::other)?;
        text.push('\n');
    }
    Ok(text)
}

pub(super) type Key<'k> = (&'k str, &'k Setting, Option<Holder>);

pub(super) fn key<'k>(boot: &'k str, setting: &'k Setting, holder: Option<Holder>) -> Key<'k> {
    // What outlives a reboot is the same setting in each boot.
    let boot = if setting.ends_with_boot() { boot } else { "" };
    (boot, setting, holder)
}

pub(super) fn key_of(entry: &Entry) -> Key<'_> {
    key(&entry.boot, &entry.setting, entry.holder)
}

/// The changes of a journal that were not restored. A line that is damaged ends one plan's intents
/// only if it is followed by an empty rest or by the line break that the next plan wrote.
pub(super) fn parse(file: &File, path: &Path) -> Result<Vec<Entry>, TuneError> {
    let mut text = Vec::new();
    file.take(LIMIT + 1)
        .read_to_end(&mut text)
        .map_err(|source| TuneError::Journal {
            path: path.to_owned(),
            source,
        })?;
    if text.len() as u64 > LIMIT {
        return Err(TuneError::LongJournal {
            path: path.to_owned(),
        });
    }
    let text = String::from_utf8_lossy(&text);
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, it)| !it.is_empty()) {
        match serde_json::from_str::<Entry>(line) {
            Ok(entry) => lines.push(entry),
            // Written in part when the disk was full or the machine stopped: nothing was changed.
            Err(error) if error.is_eof() => {}
            Err(_) => match serde_json::from_str::<Closed>(line) {
                Ok(closed) => {
                    let key = key(&closed.boot, &closed.restored, closed.holder);
                    lines.retain(|entry| key_of(entry) != key);
                }
                Err(_) => {
                    return Err(TuneError::Malformed {
                        path: path.to_owned(),
                        line: number + 1,
                    });
                }
            },
        }
    }
    Ok(lines)
}

/// One change for each setting and holder: the first original, the last value and its knob count.
pub(super) fn merged(lines: &[Entry]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in lines {
        let known = entries.iter_mut().find(|it| key_of(it) == key_of(line));
        match known {
            Some(known) => {
                known.value.clone_from(&line.value);
                known.boot.clone_from(&line.boot);
                known.knob.clone_from(&line.knob);
            }
            None => entries.push(line.clone()),
        }
    }
    entries
}

pub(super) fn ends_with_newline(mut file: &File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}
