//! Time that overrides everything else and is found only when all events are in order: the
//! tracer's own work, and interrupts of which only the end is recorded.

use super::event::{Vector, Window};
use super::timeline::{Frame, Layer, Slice};

/// The callback of the timers that the tracer sets to take a stack during a delay.
const TRACERS_CALLBACK: &str = "bpf_timer_cb";
/// From the interrupt that raises a softirq to the softirq.
const RAISED_WITHIN_NS: u64 = 5_000;

/// When the tracer's own timers ran: the callback, the softirq if it did nothing else, and
/// the interrupt before it if that only raised the softirq.
pub(super) fn tracers_timers(window: &Window, frames: &[Frame<'_>]) -> Vec<(u64, u64)> {
    let is_own = |function: &u64| {
        let name = window.symbols.get(function);
        name.is_some_and(|name| name.split('+').next() == Some(TRACERS_CALLBACK))
    };
    let mut spans = Vec::new();
    // Frames are in the order of their starts: the contents of a frame follow it.
    let mut interrupt: Option<(u64, u64, bool)> = None;
    let mut softirq: Option<(u64, u64, bool, bool)> = None;
    for frame in frames {
        let Some(to) = frame.to else { continue };
        match frame.layer {
            Layer::Vector(Vector::LocalTimer) => {
                // The interrupt before it raised the softirq.
                if let Some(over) = softirq.take_if(|softirq| softirq.1 <= frame.from) {
                    end_softirq(&mut spans, Some(over), interrupt);
                }
                interrupt = Some((frame.from, to, true));
            }
            Layer::Softirq(_) => {
                end_softirq(&mut spans, softirq.take(), interrupt);
                softirq = Some((frame.from, to, false, true));
            }
            Layer::Timer { function, .. } => {
                let own = is_own(&function);
                if own {
                    spans.push((frame.from, to));
                }
                if let Some((_, end, has_own, only_own)) = &mut softirq
                    && to <= *end
                {
                    *has_own |= own;
                    *only_own &= own;
                } else if let Some((_, end, idle)) = &mut interrupt
                    && to <= *end
                {
                    *idle = false;
                }
            }
            _ => {}
        }
    }
    end_softirq(&mut spans, softirq, interrupt);
    spans
}

fn end_softirq(
    spans: &mut Vec<(u64, u64)>,
    softirq: Option<(u64, u64, bool, bool)>,
    interrupt: Option<(u64, u64, bool)>,
) {
    let Some((from, to, true, true)) = softirq else {
        return;
    };
    spans.push((from, to));
    if let Some((begin, end, true)) = interrupt
        && end <= from
        && from - end <= RAISED_WITHIN_NS
    {
        spans.push((begin, end));
    }
}

/// Assigns stretches of time to `layer`, whatever they belonged to.
pub(super) fn lay_over<'w>(
    slices: &mut Vec<Slice<'w>>,
    mut spans: Vec<(u64, u64)>,
    layer: Layer<'w>,
) {
    if spans.is_empty() {
        return;
    }
    spans.sort_unstable();
    // Overlapping stretches are joined.
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in spans {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    let mut cut = Vec::with_capacity(slices.len() + 2 * joined.len());
    let mut next = 0;
    for slice in slices.iter() {
        let mut at = slice.from;
        while at < slice.to {
            while joined.get(next).is_some_and(|span| span.1 <= at) {
                next += 1;
            }
            let (to, covered) = match joined.get(next) {
                Some(span) if span.0 <= at => (span.1.min(slice.to), true),
                Some(span) => (span.0.min(slice.to), false),
                None => (slice.to, false),
            };
            let mut part = Slice {
                from: at,
                to,
                ..*slice
            };
            if covered {
                part.layer = layer;
                part.blind = false;
            }
            cut.push(part);
            at = to;
        }
    }
    *slices = cut;
}
