//! `explain` of another tool's recording: a run of its wake-ups, with their bills.

use std::path::Path;

use super::failure::Failure;
use punctual_record::{RecordError, Run};
use punctual_report::{facts, formats};
use punctual_trace::attribute::event::Window;
use punctual_trace::attribute::{self, Ledger};
use punctual_trace::foreign::open::{RecordingKind, open};
use punctual_trace::foreign::{Recording, ThreadFilter, WakeUp};
use punctual_trace::windows::OutlierHeader;

/// Whether a path is another tool's recording.
pub fn is_one(path: &Path) -> bool {
    path.is_file() && matches!(RecordingKind::of_file(path), Ok(Some(_)))
}

/// The run of a recording, of these threads; `None` if the file is not a recording.
///
/// # Errors
/// The file cannot be read, or shows no wake-up of such a thread.
pub fn run_of(path: &Path, threads: &ThreadFilter) -> Result<Option<Run>, Failure> {
    let Some((kind, recording)) = recording(path, threads)? else {
        return Ok(None);
    };
    if recording.wake_ups.is_empty() {
        let why = match recording.left_out {
            0 => {
                let lacks: Vec<String> = recording.missing.iter().map(facts::not_seen).collect();
                format!("no wake-up of a real-time thread: {}", lacks.join("; "))
            }
            others => format!(
                "no wake-up of a real-time thread that --tid or --comm names, and {others} of others"
            ),
        };
        return Err(Failure::setup(format!("{}: shows {why}", path.display())));
    }
    let run = formats::recorded(path, kind.tool(), &recording.latencies);
    let mut run = run.map_err(Failure::setup)?;
    // Rates make recordings of different lengths comparable.
    run.measured_ns = recording.span_ns;
    run.explanation = Some(explain(&recording));
    Ok(Some(run))
}

/// A recording, and the tool that made it; `None` if the file is not a recording.
fn recording(
    path: &Path,
    threads: &ThreadFilter,
) -> Result<Option<(RecordingKind, Recording)>, Failure> {
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
    let recording = open(path, kind, threads).map_err(Failure::setup)?;
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
    pub fn open(path: &Path, threads: &ThreadFilter) -> Result<Option<Self>, Failure> {
        let Some((_, mut recording)) = recording(path, threads)? else {
            return Ok(None);
        };
        let mut latest = std::mem::take(&mut recording.wake_ups);
        latest.sort_by_key(WakeUp::rank);
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

fn explain(recording: &Recording) -> punctual_record::Explanation {
    let mut ledger = Ledger::new(None);
    for wake_up in &recording.wake_ups {
        let bill = attribute::bill(&wake_up.window(recording));
        ledger.add_stages(&bill.stages);
        ledger.add(&bill);
    }
    recording
        .missing
        .iter()
        .for_each(|what| ledger.add_missing(what.clone()));
    ledger.to_record()
}
