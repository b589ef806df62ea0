//! The windows of all outliers, beside the record: compressed, within a budget of bytes; if there is
//! no room for all, the worst are kept.
//!
//! During a run, windows are only appended to the file, so that saving costs only what is new.
//! Windows that made room for worse ones stay in it until it is twice its budget. At the end it is
//! rewritten, the worst first.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use punctual_record::explanation::KeptWindows;
use punctual_record::files::Folder;
use punctual_trace::windows::{OUTLIERS_FILE, WINDOWS};

/// Bytes that may wait to be written; more are dropped and counted.
const PENDING: usize = 4 << 20;

/// Where a window is in the file.
#[derive(Debug, Clone, Copy)]
struct Place {
    from: u64,
    length: u32,
}

/// The windows that are kept.
#[derive(Debug, Default)]
pub struct Outliers {
    budget: u64,
    /// By latency, and among equal ones the later first: the first is dropped first.
    kept: BTreeMap<(u64, u64), Place>,
    bytes: u64,
    dropped: u64,
    next: u64,
    /// What is in the file, and what will be appended to it.
    written: u64,
    pending: Vec<u8>,
    file: Option<File>,
}

impl Outliers {
    /// Keeps at most this number of bytes.
    pub fn within(budget: u64) -> Self {
        Self {
            budget,
            ..Self::default()
        }
    }

    /// Whether a window with this latency would be kept.
    pub fn would_keep(&self, latency_ns: u64) -> bool {
        let full = self.bytes >= self.budget || self.kept.len() >= WINDOWS;
        let least = self.kept.first_key_value();
        !full || least.is_some_and(|((least_ns, _), _)| latency_ns > *least_ns)
    }

    /// Keeps a window, a line of JSON, while there is room for it.
    pub fn add(&mut self, latency_ns: u64, line: &str) {
        if !self.would_keep(latency_ns) {
            self.dropped += 1;
            return;
        }
        self.add_packed(latency_ns, &packed(line));
    }

    /// Adds the windows of another set, none of which is written yet.
    pub fn absorb(&mut self, other: &Self) {
        let mut all: Vec<(u64, Place)> = other.kept.iter().map(|(key, at)| (key.0, *at)).collect();
        all.sort_by_key(|(_, place)| place.from);
        for (latency_ns, place) in all {
            let from = place.from as usize;
            let packed = other.pending.get(from..from + place.length as usize);
            match packed.filter(|_| self.would_keep(latency_ns)) {
                Some(packed) => self.add_packed(latency_ns, packed),
                None => self.dropped += 1,
            }
        }
        self.dropped += other.dropped;
    }

    fn add_packed(&mut self, latency_ns: u64, packed: &[u8]) {
        if self.pending.len() + packed.len() > PENDING {
            self.dropped += 1;
            return;
        }
        let place = Place {
            from: self.written + self.pending.len() as u64,
            length: u32::try_from(packed.len()).unwrap_or(u32::MAX),
        };
        self.pending.extend_from_slice(packed);
        self.next += 1;
        self.kept.insert((latency_ns, u64::MAX - self.next), place);
        self.bytes += packed.len() as u64;
        while self.bytes > self.budget || self.kept.len() > WINDOWS {
            let Some((_, place)) = self.kept.pop_first() else {
                return;
            };
            self.bytes -= u64::from(place.length);
            self.dropped += 1;
        }
    }

    /// Counts a window that is not kept.
    pub fn drop_one(&mut self) {
        self.dropped += 1;
    }

    /// How many are kept, and how many are not.
    pub fn counts(&self) -> KeptWindows {
        KeptWindows {
            windows: self.kept.len() as u64,
            bytes: self.bytes,
            budget_bytes: self.budget,
            dropped: self.dropped,
        }
    }

    /// Saves the new windows; `last`: rewrites the file, the worst first.
    ///
    /// # Errors
    /// The disk's error; the next call tries again.
    pub fn save(&mut self, folder: &Folder, last: bool) -> io::Result<()> {
        let name = OsStr::new(OUTLIERS_FILE);
        if !self.pending.is_empty() {
            let file = match &self.file {
                Some(file) => file,
                None => self.file.insert(folder.create(name)?),
            };
            if let Err(error) = file.write_all_at(&self.pending, self.written) {
                // No part of a window, and no empty file.
                let _ = file.set_len(self.written);
                if self.written == 0 {
                    self.file = None;
                    let _ = folder.remove(name);
                }
                return Err(error);
            }
            self.written += self.pending.len() as u64;
            self.pending.clear();
        }
        if last || self.written > 2 * self.budget {
            self.write_anew(folder, name)?;
        }
        Ok(())
    }

    /// The kept windows, the worst first.
    fn write_anew(&mut self, folder: &Folder, name: &OsStr) -> io::Result<()> {
        let Some(old) = &self.file else {
            return Ok(());
        };
        let (mut new, unfinished) = folder.begin(name)?;
        let mut places = Vec::with_capacity(self.kept.len());
        let mut at = 0;
        let mut copy = || {
            let mut bytes = Vec::new();
            for (key, place) in self.kept.iter().rev() {
                bytes.resize(place.length as usize, 0);
                old.read_exact_at(&mut bytes, place.from)?;
                new.write_all(&bytes)?;
                places.push((*key, Place { from: at, ..*place }));
                at += u64::from(place.length);
            }
            Ok(())
        };
        if let Err(error) = copy() {
            folder.abandon(unfinished);
            return Err(error);
        }
        folder.publish(&new, unfinished, name)?;
        self.kept = places.into_iter().collect();
        self.written = at;
        self.file = Some(new);
        Ok(())
    }
}

/// A member of a gzip file; members may be concatenated.
fn packed(line: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to memory cannot fail.
    let _ = encoder.write_all(line.as_bytes());
    let _ = encoder.write_all(b"\n");
    encoder.finish().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    /// What the file holds, line by line.
    fn lines(folder: &Folder) -> Vec<String> {
        let file = File::open(folder.path().join(OUTLIERS_FILE)).expect("a file");
        let mut text = String::new();
        let mut decoder = flate2::read::MultiGzDecoder::new(file);
        decoder.read_to_string(&mut text).expect("gzip");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn the_worst_are_kept_within_the_budget_and_the_others_counted() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = Folder::open(directory.path()).expect("it");
        let each = packed("window 1000").len() as u64;
        let mut outliers = Outliers::within(10 * each);
        // Ever worse ones, in an order of no kind, with saves between: the file is written anew
        // now and then.
        let mut added = Vec::new();
        for turn in 0..100 {
            let latency = 1000 + turn * 37 % 100 * 10;
            outliers.add(latency, &format!("window {latency}"));
            added.push(latency);
            if turn % 7 == 0 {
                outliers.save(&folder, false).expect("room");
                let length = std::fs::metadata(directory.path().join(OUTLIERS_FILE));
                assert!(length.expect("a file").len() <= 2 * 10 * each + 7 * each);
            }
        }
        outliers.save(&folder, true).expect("room");
        added.sort_unstable_by(|a, b| b.cmp(a));
        let expected: Vec<String> = added[..10]
            .iter()
            .map(|it| format!("window {it}"))
            .collect();
        assert_eq!(lines(&folder), expected);
        let counts = outliers.counts();
        assert_eq!((counts.windows, counts.dropped), (10, 90));
        assert_eq!((counts.bytes, counts.budget_bytes), (10 * each, 10 * each));
    }

    #[test]
    fn what_came_while_others_were_saved_is_kept_as_well() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = Folder::open(directory.path()).expect("it");
        let mut outliers = Outliers::within(1 << 20);
        outliers.add(10, "window 10");
        outliers.save(&folder, false).expect("room");
        let mut meanwhile = Outliers::within(1 << 20);
        meanwhile.add(30, "window 30");
        meanwhile.add(20, "window 20");
        meanwhile.drop_one();
        outliers.absorb(&meanwhile);
        outliers.save(&folder, true).expect("room");
        assert_eq!(lines(&folder), ["window 30", "window 20", "window 10"]);
        assert_eq!(outliers.counts().dropped, 1);
    }

    #[test]
    fn nothing_is_written_where_there_is_none() {
        let directory = tempfile::tempdir().expect("a directory");
        let folder = Folder::open(directory.path()).expect("it");
        let mut outliers = Outliers::within(1 << 20);
        outliers.save(&folder, true).expect("nothing to do");
        assert!(folder.is_empty().expect("it can be read"));
        assert!(outliers.would_keep(1));
    }
}
