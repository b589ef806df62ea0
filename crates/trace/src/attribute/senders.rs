//! Which CPU and thread requested a function call: the senders of interprocessor interrupts. And who
//! stopped the probe.

use std::collections::BTreeMap;

use super::event::{Event, Kind, Task, Window};
use super::naming;
use super::timeline::{CpuTimeline, Layer, Slice};
use punctual_record::explanation::{BillRow, Cause, Culprit, RowNote};

/// The sender of a call, and its stack.
#[derive(Debug, Clone, Copy)]
struct SentCall<'w> {
    from_cpu: u32,
    by: Option<&'w Task>,
}

/// The senders of calls, by the CPU that executed one and when it began.
#[derive(Debug, Default)]
pub(super) struct Senders<'w>(BTreeMap<(u32, u64), SentCall<'w>>);

impl<'w> Senders<'w> {
    /// From events in order: a request has the same address when it is sent and when it is executed,
    /// and no other request has that address in between.
    pub(super) fn from_events(events: &[&'w Event]) -> Self {
        let mut sent: BTreeMap<(u32, u64), SentCall<'w>> = BTreeMap::new();
        let mut senders = BTreeMap::new();
        for event in events {
            match &event.kind {
                Kind::CallSent {
                    request,
                    from_cpu,
                    by,
                    ..
                } => {
                    let by = by.as_ref();
                    let from_cpu = *from_cpu;
                    sent.insert((event.cpu, *request), SentCall { from_cpu, by });
                }
                Kind::CallEntry { request, .. } => {
                    if let Some(sent) = sent.remove(&(event.cpu, *request)) {
                        senders.insert((event.cpu, event.at_ns), sent);
                    }
                }
                _ => {}
            }
        }
        Self(senders)
    }

    /// The sender of the call that a stretch lies in, and a note for the reader.
    pub(super) fn sender_at(
        &self,
        window: &Window,
        cpu: u32,
        timeline: &CpuTimeline<'_>,
        slice: &Slice<'_>,
    ) -> Option<(Option<Culprit>, RowNote)> {
        let Layer::Call(_) = slice.layer else {
            return None;
        };
        let mut frames = timeline.frames.iter().rev();
        let frame = frames.find(|it| it.layer == slice.layer && it.from <= slice.from)?;
        let sent = self.0.get(&(cpu, frame.from))?;
        let by = sent.by.map(|thread| named(thread, window));
        let cpu = sent.from_cpu;
        let note = match sent.by {
            Some(_) => RowNote::SentFrom { cpu },
            None => RowNote::SentByInterrupt { cpu },
        };
        Some((by, note))
    }
}

fn named(thread: &Task, window: &Window) -> Culprit {
    Culprit {
        name: Some(naming::bounded(&thread.name)),
        ..naming::thread(thread, window)
    }
}

/// Whether a terminal sends this signal: then no thread does.
fn is_of_terminal(signal: i32) -> bool {
    matches!(signal, libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU)
}

/// Adds to the rows of a stop who stopped the probe.
pub(super) fn add_stoppers(rows: &mut [BillRow], window: &Window, events: &[&Event]) {
    for row in rows {
        let of_signal = match &row.cause {
            Cause::Blocked { state } if state == "stopped" => true,
            Cause::Blocked { state } if state == "traced" => false,
            _ => continue,
        };
        for event in events.iter().filter(|it| it.at_ns <= window.woken_ns) {
            if let Kind::Stop { tid, signal, by } = &event.kind
                && *tid == window.probe.tid
                && signal.is_some() == of_signal
                && (by.is_some() || signal.is_some_and(is_of_terminal))
                && row.notes.len() < Culprit::MOST
            {
                let by = by.as_ref().map(|by| Box::new(named(by, window)));
                let note = RowNote::StoppedBy {
                    signal: *signal,
                    thread: by,
                };
                if !row.notes.contains(&note) {
                    row.notes.push(note);
                }
            }
        }
    }
}
