//! In whose queue a woken thread stands until it runs: another CPU may take it over.

use super::event::{Event, Kind, Window};
use super::path::{On, Stretch};
use super::stages::WakeUpEvents;

/// The stretches from the waking, at `over`, to the end of the wake-up: those in which it is ready
/// are on the CPU of its queue. In order, without a gap.
pub(super) fn of_wake_up<'w>(
    window: &Window,
    events: &[&'w Event],
    traces: &WakeUpEvents,
    over: u64,
) -> Vec<Stretch<'w>> {
    let woken = window.woken_ns.max(window.due_ns);
    let runs_on = traces.running_cpu(window);
    let stretch = |from, to, cpu, on| Stretch { from, to, cpu, on };
    let whole = || vec![stretch(over, woken, runs_on, On::Itself)];
    // Where events are missing, a move may be as well.
    if window.lost > 0 || window.gap {
        return whole();
    }
    let queues = queues(window, events, traces, over);
    if queues.last().is_none_or(|(_, cpu)| *cpu != Some(runs_on)) {
        return whole();
    }
    let ends = queues.iter().skip(1).map(|(from, _)| *from).chain([woken]);
    let parts = queues.iter().zip(ends).map(|((from, cpu), to)| match cpu {
        Some(cpu) => stretch(*from, to, *cpu, On::Itself),
        None => stretch(*from, to, runs_on, On::Unseen),
    });
    parts.filter(|part| part.from < part.to).collect()
}

/// From when on it stands in which queue, if that was seen. Empty if it was not moved.
fn queues(
    window: &Window,
    events: &[&Event],
    traces: &WakeUpEvents,
    over: u64,
) -> Vec<(u64, Option<u32>)> {
    let probe = window.probe.tid;
    let until = traces.switch.map_or(window.woken_ns, |(at, _)| at);
    let mut queues: Vec<(u64, Option<u32>)> = Vec::new();
    let mut first = None;
    // While a CPU wakes it, with interrupts disabled, that chooses the queue: no event lies between.
    let mut waker = traces.waking.map(|(_, cpu)| cpu);
    for event in events.iter().filter(|event| event.at_ns <= until) {
        let is_waking = traces.waking == Some((event.at_ns, event.cpu));
        let chooses = waker == Some(event.cpu) && event.at_ns >= over && !is_waking;
        match &event.kind {
            Kind::Migrate {
                tid,
                to_cpu,
                from_cpu,
            } if *tid == probe => {
                if event.at_ns < over || chooses && queues.is_empty() {
                    first = Some(*to_cpu);
                } else {
                    if queues.is_empty() {
                        queues.push((over, first.or(*from_cpu)));
                    }
                    queues.push((event.at_ns, Some(*to_cpu)));
                }
            }
            Kind::Switch { from, to, .. }
                if event.at_ns <= over && (from.tid == probe || to.tid == probe) =>
            {
                first = Some(event.cpu);
            }
            _ => {}
        }
        if chooses {
            waker = None;
        }
    }
    queues
}
