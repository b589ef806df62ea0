//! What failed, in words: loads, probe threads, files that were not saved or not read.

use punctual_record::{
    LoadFailure, MissingSamples, ThreadFault, Unread, UnreadReason, Unsaved, UnsavedPart,
    UnsavedReason,
};
use punctual_stats::format::duration;

/// Why a load failed.
#[must_use]
pub fn load_failure(failure: &LoadFailure) -> String {
    match failure {
        LoadFailure::Error { error } => error.clone(),
        LoadFailure::SupervisorGone => {
            "its supervisor ended and left no error message (killed, or not a punctual binary)"
                .to_owned()
        }
        LoadFailure::SupervisorKilled => "its supervisor was killed".to_owned(),
        LoadFailure::NotStarted => "it was stopped before it was started".to_owned(),
        LoadFailure::EndedEarly { after_ns } => {
            format!(
                "it ended after {}, before it was stopped",
                seconds(*after_ns)
            )
        }
        LoadFailure::NoWork { ran_ns } => format!("it did no work in {}", seconds(*ran_ns)),
        LoadFailure::SlowToStop { waited_ns } => {
            format!("it took more than {} to stop", duration(*waited_ns))
        }
        LoadFailure::NotKilled { waited_ns } => format!(
            "some of its processes could not be killed within {}",
            duration(*waited_ns)
        ),
    }
}

/// Why a probe thread did not measure until the end, after its name.
#[must_use]
pub fn thread_fault(fault: &ThreadFault) -> String {
    match fault {
        ThreadFault::WaitFailed { error } => format!("ended early: the wait failed: {error}"),
        ThreadFault::StillWaiting => {
            "did not end in time: it waits for an instant far ahead".to_owned()
        }
    }
}

/// The same as a sentence.
#[must_use]
pub fn failed_thread(cpu: Option<usize>, fault: &ThreadFault) -> String {
    let fault = thread_fault(fault);
    match cpu {
        Some(cpu) => format!("the probe thread on CPU {cpu} {fault}"),
        None => format!("a probe thread {fault}"),
    }
}

/// How many samples were not written, and why.
#[must_use]
pub fn missing_samples(samples: &MissingSamples) -> String {
    let MissingSamples {
        written,
        measured,
        error,
    } = samples;
    let why = error.as_deref().unwrap_or("the disk was too slow");
    format!("{written} of {measured} samples were written: {why}")
}

/// What was not saved, and why.
#[must_use]
pub fn unsaved(unsaved: &Unsaved) -> String {
    let part = |part: &UnsavedPart| match part {
        UnsavedPart::File { name } => name.clone(),
        UnsavedPart::Explanation => "the explanation in run.json".to_owned(),
    };
    let parts: Vec<String> = unsaved.parts.iter().map(part).collect();
    let why = match &unsaved.why {
        UnsavedReason::Error { error } => error.clone(),
        UnsavedReason::DirectoryRemoved => "the directory was removed".to_owned(),
        UnsavedReason::NoSpace => "there is no space left for it".to_owned(),
        UnsavedReason::Samples(samples) => missing_samples(samples),
    };
    format!(
        "{}: not saved: {}: {why}",
        unsaved.directory,
        parts.join(", ")
    )
}

/// What of the machine could not be read, and why.
#[must_use]
pub fn unread(unread: &Unread) -> String {
    let why = match &unread.why {
        UnreadReason::Error { error } => error.clone(),
        UnreadReason::NotRegular => "not a regular file".to_owned(),
        UnreadReason::NotUnderstood { text } => format!("not understood: `{text}`"),
        UnreadReason::TooManyTasks { limit } => format!("more than {limit} real-time tasks"),
        UnreadReason::NoPreemptionModel => "no preemption model in it".to_owned(),
        UnreadReason::NoPreemptionSource => {
            let sources = "neither debugfs nor the kernel's configuration can be read";
            return format!("preemption model: {sources}");
        }
        UnreadReason::NotStated { tool, kernel: true } => {
            return format!("{tool} states nothing of the machine but its kernel");
        }
        UnreadReason::NotStated {
            tool,
            kernel: false,
        } => {
            return format!("{tool} states nothing of the machine");
        }
    };
    format!("{}: {why}", unread.what)
}

fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}
