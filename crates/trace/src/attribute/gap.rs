//! A gap between two readings of the clock by a thread that polls it, and the job of a task, which
//! lies between two such readings too: which cause its time has.
//!
//! At both ends the probe itself ran its own code, so nothing outside the gap
//! matters: no interrupt and no other thread can have been active there.

use super::classify::{Attribution, Context};
use super::event::{Event, Kind, Window};
use super::naming;
use super::stages::ProbeState;
use super::timeline::{Layer, Slice};
use punctual_record::explanation::{Cause, RowNote};

/// From the probe's last instruction to the first event in the kernel, and back: no processor
/// takes longer by itself.
const CROSSING_MOST_NS: u64 = 3_000;

/// From the waking of a thread to the switch to it: no longer, also from another CPU and on a virtual
/// machine, if nothing delays it.
const SWITCH_MOST_NS: u64 = 50_000;

/// The events of a gap: those of its CPU, from one reading to the other.
pub(super) fn inside<'w>(window: &Window, events: &[&'w Event]) -> Vec<&'w Event> {
    events
        .iter()
        .filter(|event| event.cpu == window.cpu)
        .filter(|event| event.at_ns >= window.due_ns && event.at_ns <= window.woken_ns)
        .copied()
        .collect()
}

/// The events of another CPU that a job was on, or the holder of a lock that it waited for: with the
/// last switch before it began, which says what ran there.
pub(super) fn inside_of_job<'w>(window: &Window, events: &[&'w Event], cpu: u32) -> Vec<&'w Event> {
    let here = |event: &&&Event| event.cpu == cpu && event.at_ns <= window.woken_ns;
    let here: Vec<&Event> = events.iter().filter(here).copied().collect();
    let first = here.partition_point(|event| event.at_ns < window.due_ns);
    let switch = |event: &&Event| matches!(event.kind, Kind::Switch { .. });
    let before = here[..first].iter().rfind(|event| switch(event));
    before.into_iter().chain(&here[first..]).copied().collect()
}

/// Whether the kernel did anything in the gap.
pub(super) fn is_busy(window: &Window, pieces: &[Slice<'_>]) -> bool {
    let probe = |slice: &Slice<'_>| slice.thread.is_some_and(|t| t.tid == window.probe.tid);
    pieces.iter().any(|slice| {
        !matches!(slice.layer, Layer::Thread) || !probe(slice) || slice.fault || slice.blind
    })
}

/// The cause of a stretch during which no interrupt ran.
pub(super) fn classify(context: &Context<'_, '_>, slice: &Slice<'_>) -> Attribution {
    let window = context.window;
    let Some(thread) = slice.thread else {
        return (Cause::Blind, vec![RowNote::UnknownThread]);
    };
    if thread.tid == window.probe.tid {
        if window.job {
            return (Cause::Work, Vec::new());
        }
        if slice.fault {
            return (Cause::Fault, Vec::new());
        }
        return match (context.busy, slice.to - slice.from) {
            (true, ..=CROSSING_MOST_NS) => (Cause::Crossing, Vec::new()),
            // The missing events may be the cause.
            _ if window.lost > 0 => (Cause::Blind, Vec::new()),
            _ => (Cause::Platform, Vec::new()),
        };
    }
    if let Some(ProbeState::Asleep(sleep)) = context.history.state_at(slice.from).0 {
        return super::classify::asleep(sleep, window);
    }
    if window.job
        && let Some(ProbeState::Ready(since)) = context.history.state_at(slice.from).0
        && slice.since <= since
        && (thread.tid == 0 || thread.priority > window.probe.priority)
        && slice.to.saturating_sub(since) <= SWITCH_MOST_NS
    {
        // What ran as it was woken, until the CPU switches.
        return (Cause::WakePath, Vec::new());
    }
    if thread.tid == 0 {
        let span = (slice.from, slice.to);
        let by_group = context
            .groups
            .idle(&window.probe, true, (slice.from, slice.to), span);
        return by_group.unwrap_or_else(super::classify::idle_though_ready);
    }
    if thread.is_ordinary() && window.probe.is_ordinary() {
        let since = match context.history.state_at(slice.from).0 {
            Some(ProbeState::Ready(since)) => since,
            _ => window.due_ns,
        };
        let by_group = context.groups.ordinary(slice.to, (since, window.woken_ns));
        return by_group.unwrap_or_else(|| (naming::interference(thread), Vec::new()));
    }
    if thread.priority <= window.probe.priority || window.probe.is_ordinary() {
        return (naming::interference(thread), Vec::new());
    }
    if context.groups.only_if_raised(thread, &window.probe) {
        return (naming::interference(thread), vec![RowNote::PriorityRaised]);
    }
    let task = naming::bounded(&thread.name);
    let other = || {
        (
            Cause::Throttled { task },
            context.groups.note_of_doubt(&window.probe),
        )
    };
    context.groups.below(slice.to).unwrap_or_else(other)
}
