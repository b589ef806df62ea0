//! Where in the kernel a thread was while it kept the CPU, from stacks and system calls.

use super::event::Window;
use super::naming;
use super::timeline::{CpuTimeline, InterruptedStack, ReleaseStack, Slice};
use crate::calls;
use punctual_record::explanation::{Cause, Explanation, RowNote};

/// An interrupt takes the stack, so it ends just after the stretch.
const CAUGHT_AFTER_NS: u64 = 50_000;

/// A stack, innermost first, and notes for the reader.
pub(super) type Place = (Vec<String>, Vec<RowNote>);

/// Where the thread of a stretch was: interrupted in the middle, or as it released the CPU.
pub(super) fn stack_and_note(
    window: &Window,
    timeline: &CpuTimeline<'_>,
    slice: &Slice<'_>,
    cause: &Cause,
) -> Option<Place> {
    let late_interrupt = match cause {
        Cause::PreemptOff { .. } => false,
        Cause::IrqsOff { .. } | Cause::LateInterrupt { .. } => true,
        _ => return None,
    };
    let tid = slice.thread?.tid;
    let until = slice.to.saturating_add(CAUGHT_AFTER_NS);
    let within = |caught: &&InterruptedStack<'_>| {
        caught.tid == tid
            && caught.at >= slice.from
            && caught.at <= until
            && !caught.frames.is_empty()
    };
    if let Some(caught) = timeline.stacks.iter().find(within) {
        return Some((named(window, caught.frames), Vec::new()));
    }
    let left = |left: &&ReleaseStack<'_>| left.tid == tid && left.at >= slice.to;
    let left = timeline.releases.iter().find(left)?;
    let call = left.call.map(|call| RowNote::SystemCall {
        call: calls::name(call),
    });
    let mut notes: Vec<RowNote> = call.into_iter().collect();
    if late_interrupt {
        // It ran on meanwhile, unless it was preempted right there.
        let first = left.frames.first().map(|at| naming::function(window, *at));
        let there = match cause {
            Cause::IrqsOff { function, .. } => first.as_ref() == Some(function),
            _ => false,
        };
        let frames = if there { left.frames } else { &[] };
        return Some((named(window, frames), notes));
    }
    if !left.frames.is_empty() {
        notes.push(RowNote::StackOfRelease);
    }
    Some((named(window, left.frames), notes))
}

fn named(window: &Window, frames: &[u64]) -> Vec<String> {
    frames
        .iter()
        .take(Explanation::FRAMES)
        .map(|address| naming::symbol(window, *address))
        .collect()
}
