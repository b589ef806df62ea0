//! `explain` of another tool's recording: a run of its wake-ups, with their bills.

use std::collections::BTreeMap;
use std::path::Path;

use super::failure::Failure;
use punctual_record::explanation::NotSeen;
use punctual_record::{RecordError, Run};
use punctual_report::{facts, formats};
use punctual_trace::attribute::event::Window;
use punctual_trace::attribute::{self, Ledger};
use punctual_trace::foreign::open::{RecordingKind, open};
use punctual_trace::foreign::{Recording, WakeUp};
use punctual_trace::windows::OutlierHeader;

/// Wake-ups that have a bill: those of the highest latencies.
const MOST: usize = 1000;

/// Whether a path is another tool's recording.
pub fn is_one(path: &Path) -> bool {
    path.is_file() && matches!(RecordingKind::of_file(path), Ok(Some(_)))
}

/// The run of a recording; `None` if the file is not a recording.
///
/// # Errors
/// The file cannot be read, or shows no wake-up of a real-time thread.
pub fn run_of(path: &Path) -> Result<Option<Run>, Failure> {
    let Some((kind, recording)) = recording(path)? else {
        return Ok(None);
    };
    if recording.wake_ups.is_empty() {
        let lacks: Vec<String> = recording.missing.iter().map(facts::not_seen).collect();
        let lacks = lacks.join("; ");
        return Err(Failure::setup(format!(
            "{}: shows no wake-up of a real-time thread: {lacks}",
            path.display()
        )));
    }
    let mut latencies: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
    for wake_up in &recording.wake_ups {
        latencies
            .entry(wake_up.cpu)
            .or_default()
            .push(wake_up.latency_ns());
    }
    let mut run = formats::recorded(path, kind.tool(), latencies).map_err(Failure::setup)?;
    // Rates make recordings of different lengths comparable.
    run.measured_ns = recording.span_ns;
    run.explanation = Some(explain(&recording));
    Ok(Some(run))
}

/// A recording, and the tool that made it; `None` if the file is not a recording.
fn recording(path: &Path) -> Result<Option<(RecordingKind, Recording)>, Failure> {
    if !path.is_file() {
        return Ok(None);
    }
    let unreadable = |source| {
        Failure::setup(RecordError::Read {
            path: path.to_owned(),
            source,
        })
    };
    let Some(kind) = RecordingKind::of_file(path).map_err(unreadable)? else {
        return Ok(None);
    };
    let recording = open(path, kind).map_err(Failure::setup)?;
    Ok(Some((kind, recording)))
}

/// A recording's wake-ups, the highest latencies first, one window at a time.
pub struct Recorded {
    recording: Recording,
    latest: Vec<WakeUp>,
    next: usize,
}

impl Recorded {
    /// The wake-ups that have a bill; `None` if the file is not a recording.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn open(path: &Path) -> Result<Option<Self>, Failure> {
        let Some((_, recording)) = recording(path)? else {
            return Ok(None);
        };
        let latest = latest(&recording).into_iter().cloned().collect();
        Ok(Some(Self {
            recording,
            latest,
            next: 0,
        }))
    }

    /// What identifies them.
    pub fn heads(&self) -> Vec<OutlierHeader> {
        let head = |it: &WakeUp| OutlierHeader::new(it.cpu, it.due_ns, it.woken_ns);
        self.latest.iter().map(head).collect()
    }
}

impl Iterator for Recorded {
    type Item = Window;

    fn next(&mut self) -> Option<Window> {
        let wake_up = self.latest.get(self.next)?;
        self.next += 1;
        Some(wake_up.window(&self.recording))
    }
}

/// The wake-ups that have a bill.
fn latest(recording: &Recording) -> Vec<&WakeUp> {
    let mut latest: Vec<&WakeUp> = recording.wake_ups.iter().collect();
    latest.sort_by_key(|wake_up| wake_up.rank());
    latest.truncate(MOST);
    latest
}

fn explain(recording: &Recording) -> punctual_record::Explanation {
    let mut ledger = Ledger::new(None);
    for wake_up in latest(recording) {
        let bill = attribute::bill(&wake_up.window(recording));
        ledger.add_stages(&bill.stages);
        ledger.add(&bill);
    }
    recording
        .missing
        .iter()
        .for_each(|what| ledger.add_missing(what.clone()));
    if recording.wake_ups.len() > MOST {
        ledger.add_missing(NotSeen::WithoutBill {
            wake_ups: (recording.wake_ups.len() - MOST) as u64,
            bills: MOST as u64,
        });
    }
    ledger.to_record()
}
