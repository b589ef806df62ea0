//! What is saved when a latency above the break value ends a run: the kernel's own trace buffer,
//! frozen, and the content of punctual's recorder.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::keeping::Keeping;
use punctual_record::{Ending, Happening, RecordError, Run, RunDirectory, State};
use punctual_trace::attribute::event::Window;

/// The kernel's trace buffer as text, beside the run.
pub const TRACE_FILE: &str = "breach-trace.txt";
/// Bytes of the trace buffer that are saved: the last ones, because the oldest come first.
const MOST: usize = 64 << 20;

/// Where the kernel's tracing may be mounted.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Whether a run ended because a latency was above the break value.
#[must_use]
pub fn ended_by_breach(run: &Run) -> bool {
    run.state == State::Stopped(Ending::BreakValue)
}

/// What is saved of a breach; empty if the run ended otherwise.
#[derive(Debug, Default)]
pub(super) struct Breach {
    frozen: Option<Frozen>,
    /// The content of the recorder.
    pub ring: Option<Window>,
}

impl Breach {
    /// Freezes the kernel's trace buffer when a run with a break value has ended by itself, while
    /// what delayed the wake-up is still in it.
    pub fn freeze(break_ns: Option<u64>, kept: &mut Keeping<'_>) -> Self {
        let frozen = break_ns.map_or(Ok(None), |_| Frozen::freeze());
        let frozen = frozen.unwrap_or_else(|refused| {
            let NotFrozen { file, error } = refused;
            let file = file.display().to_string();
            let error = error.to_string();
            kept.event(Happening::TraceNotFrozen { file, error });
            None
        });
        Self { frozen, ring: None }
    }

    /// What is kept of a run that has ended, whose state is final: `ring` takes the recorder's
    /// content. If the run ended otherwise, tracing continues.
    pub fn keep(self, kept: &mut Keeping<'_>, ring: impl FnOnce(&Run) -> Option<Window>) -> Self {
        if !ended_by_breach(&kept.run) {
            self.frozen.iter().for_each(Frozen::thaw);
            return Self::default();
        }
        if let Some(frozen) = &self.frozen {
            kept.event(frozen.event());
        }
        let ring = ring(&kept.run);
        Self { ring, ..self }
    }

    /// Saves the trace beside the run.
    ///
    /// # Errors
    /// It cannot be read or saved.
    pub fn save(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        let frozen = self.frozen.as_ref();
        frozen.map_or(Ok(()), |frozen| frozen.save(directory))
    }
}

/// The kernel's trace buffer, which records no more events.
#[derive(Debug)]
pub struct Frozen {
    place: PathBuf,
}

/// Tracing is on and cannot be stopped.
#[derive(Debug)]
pub struct NotFrozen {
    /// The file that could not be written.
    pub file: PathBuf,
    /// Why.
    pub error: io::Error,
}

impl Frozen {
    /// Freezes the trace buffer; `None` if tracefs is not mounted or tracing is off.
    ///
    /// # Errors
    /// Tracing is on and cannot be stopped.
    pub fn freeze() -> Result<Option<Self>, NotFrozen> {
        PLACES
            .iter()
            .find_map(|place| at(Path::new(place)).transpose())
            .transpose()
    }

    /// The event for the record.
    #[must_use]
    pub fn event(&self) -> Happening {
        Happening::TraceFrozen {
            directory: self.place.display().to_string(),
            file: TRACE_FILE.to_owned(),
        }
    }

    /// Continues tracing: no latency ended the run.
    pub fn thaw(&self) {
        let _ = fs::write(self.place.join("tracing_on"), "1");
    }

    /// Saves its content beside the run.
    ///
    /// # Errors
    /// It cannot be read or saved.
    pub fn save(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        let path = self.place.join("trace");
        match File::open(&path).and_then(|file| last_of(file, MOST)) {
            Ok(bytes) => directory.save_file(TRACE_FILE, &bytes),
            Err(source) => Err(RecordError::Read { path, source }),
        }
    }
}

/// The head of a trace as text, and its last bytes from the beginning of a line.
fn last_of(mut trace: impl Read, most: usize) -> io::Result<Vec<u8>> {
    const CHUNK: u64 = 1 << 20;
    let (mut kept, mut dropped, mut head) = (Vec::new(), 0, Vec::new());
    loop {
        let read = trace.by_ref().take(CHUNK).read_to_end(&mut kept)?;
        if head.is_empty() {
            let lines = kept.split_inclusive(|byte| *byte == b'\n');
            head = lines
                .take_while(|line| line.starts_with(b"#"))
                .flatten()
                .copied()
                .collect();
        }
        if read == 0 || kept.len() > most.saturating_mul(2) {
            let over = kept.len().saturating_sub(most);
            kept.drain(..over);
            dropped += over;
        }
        if read == 0 {
            break;
        }
    }
    if dropped == 0 {
        return Ok(kept);
    }
    let line = kept
        .iter()
        .position(|byte| *byte == b'\n')
        .map_or(0, |at| at + 1);
    dropped += line;
    head.extend(format!("# {dropped} earlier bytes are left out\n").bytes());
    head.extend_from_slice(&kept[line..]);
    Ok(head)
}

fn at(place: &Path) -> Result<Option<Frozen>, NotFrozen> {
    let read = |name: &str| fs::read_to_string(place.join(name)).unwrap_or_default();
    let traces = read("current_tracer").trim() != "nop" || read("events/enable").trim() != "0";
    if read("tracing_on").trim() != "1" || !traces {
        return Ok(None);
    }
    let path = place.join("tracing_on");
    if let Err(error) = fs::write(&path, "0") {
        return Err(NotFrozen { file: path, error });
    }
    Ok(Some(Frozen {
        place: place.to_owned(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_long_trace_is_kept() {
        let lines: String = (0..1000).map(|n| format!("line {n:04}\n")).collect();
        let trace = format!("# tracer: nop\n#\n{lines}");
        let whole = last_of(trace.as_bytes(), 1 << 20).unwrap();
        assert_eq!(whole, trace.as_bytes());
        let kept = String::from_utf8(last_of(trace.as_bytes(), 105).unwrap()).unwrap();
        let kept: Vec<&str> = kept.lines().collect();
        assert_eq!(&kept[..2], ["# tracer: nop", "#"]);
        assert!(kept[2].ends_with("earlier bytes are left out"), "{kept:?}");
        let last: Vec<String> = (990..1000).map(|n| format!("line {n:04}")).collect();
        assert_eq!(&kept[3..], last);
    }

    #[test]
    fn only_tracing_that_is_on_is_frozen() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("events")).unwrap();
        for (on, tracer, events, frozen) in [
            ("1\n", "nop\n", "0\n", false),
            ("0\n", "function\n", "X\n", false),
            ("1\n", "timerlat\n", "0\n", true),
            ("1\n", "nop\n", "X\n", true),
        ] {
            fs::write(path("tracing_on"), on).unwrap();
            fs::write(path("current_tracer"), tracer).unwrap();
            fs::write(path("events/enable"), events).unwrap();
            let held = at(folder.path()).unwrap();
            assert_eq!(held.is_some(), frozen, "{tracer}{events}");
            let now = fs::read_to_string(path("tracing_on")).unwrap();
            assert_eq!(now.trim() == "0", frozen || on == "0\n");
            if let Some(held) = held {
                held.thaw();
                assert_eq!(fs::read_to_string(path("tracing_on")).unwrap(), "1");
            }
        }
        assert!(at(&path("nowhere")).unwrap().is_none());
    }
}
