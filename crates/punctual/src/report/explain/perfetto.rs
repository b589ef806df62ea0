//! A trace for Perfetto (its page is ui.perfetto.dev), written by hand: the few messages of its
//! protobuf that slices on tracks need.

use std::collections::BTreeMap;

use crate::record::explanation::{Lane, Picture, Span};

/// The wire's ways of writing a field.
const VARINT: u64 = 0;
const BYTES: u64 = 2;

/// Perfetto's number for CLOCK_MONOTONIC.
const CLOCK_MONOTONIC: u64 = 3;
/// The writer's number: one sequence of packets.
const SEQUENCE: u64 = 1;
/// The sequence begins anew: nothing before it is referred to.
const STATE_CLEARED: u64 = 1;

const SLICE_BEGIN: u64 = 1;
const SLICE_END: u64 = 2;
const INSTANT: u64 = 3;

/// A protobuf message in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn number(mut self, field: u64, value: u64) -> Self {
        varint(&mut self.0, field << 3 | VARINT);
        varint(&mut self.0, value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        varint(&mut self.0, field << 3 | BYTES);
        varint(&mut self.0, bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A packet at an instant.
fn packet(at_ns: u64) -> Message {
    Message::default()
        .number(8, at_ns)
        .number(58, CLOCK_MONOTONIC)
        .number(10, SEQUENCE)
}

fn event(kind: u64, track: u64, name: Option<&str>) -> Message {
    let event = Message::default().number(9, kind).number(11, track);
    match name {
        Some(name) => event.bytes(23, name.as_bytes()),
        None => event,
    }
}

/// The trace of one wake-up that was due at `due_ns`, CLOCK_MONOTONIC.
#[must_use]
pub fn trace(picture: &Picture, due_ns: u64, latency_ns: u64) -> Vec<u8> {
    let at = |offset: i64| due_ns.saturating_add_signed(offset);
    let mut out = Message::default();
    let clock = Message::default()
        .number(1, CLOCK_MONOTONIC)
        .number(2, due_ns);
    let snapshot = Message::default()
        .message(1, &clock)
        .number(2, CLOCK_MONOTONIC);
    let first = packet(due_ns)
        .number(13, STATE_CLEARED)
        .message(6, &snapshot);
    out = out.message(1, &first);

    let wake_up = 1;
    out = describe(out, wake_up, None, "wake-up");
    let tracks = tracks(picture);
    for (index, (cpu, lanes)) in tracks.iter().enumerate() {
        let parent = cpu_track(index);
        out = describe(out, parent, None, &format!("CPU {cpu}"));
        for lane in lanes.keys() {
            out = describe(
                out,
                lane_track(index, *lane),
                Some(parent),
                lane_name(*lane),
            );
        }
    }
    // The latency itself, and the marks.
    out = out.message(
        1,
        &packet(due_ns).message(11, &event(SLICE_BEGIN, wake_up, Some("late"))),
    );
    for mark in &picture.marks {
        let event = event(INSTANT, wake_up, Some(&mark.label));
        out = out.message(1, &packet(at(mark.at_ns)).message(11, &event));
    }
    let woken = due_ns.saturating_add(latency_ns);
    out = out.message(
        1,
        &packet(woken).message(11, &event(SLICE_END, wake_up, None)),
    );

    for (index, lanes) in tracks.values().enumerate() {
        for (lane, spans) in lanes {
            let track = lane_track(index, *lane);
            for (offset, name) in nested(spans) {
                let kind = if name.is_some() {
                    SLICE_BEGIN
                } else {
                    SLICE_END
                };
                let event = event(kind, track, name);
                out = out.message(1, &packet(at(offset)).message(11, &event));
            }
        }
    }
    out.0
}

type Tracks<'a> = BTreeMap<u32, BTreeMap<Lane, Vec<&'a Span>>>;

fn tracks(picture: &Picture) -> Tracks<'_> {
    let mut tracks: Tracks<'_> = BTreeMap::new();
    for span in &picture.spans {
        let lanes = tracks.entry(span.cpu).or_default();
        lanes.entry(span.lane).or_default().push(span);
    }
    tracks
}

fn cpu_track(index: usize) -> u64 {
    10 + 10 * index as u64
}

fn lane_track(index: usize, lane: Lane) -> u64 {
    cpu_track(index) + 1 + lane as u64
}

/// What a lane is called.
#[must_use]
pub fn lane_name(lane: Lane) -> &'static str {
    match lane {
        Lane::Interrupt => "interrupts",
        Lane::Softirq => "softirqs",
        Lane::Thread => "threads",
        Lane::Probe => "the probe",
    }
}

fn describe(out: Message, track: u64, parent: Option<u64>, name: &str) -> Message {
    let mut descriptor = Message::default()
        .number(1, track)
        .bytes(2, name.as_bytes());
    if let Some(parent) = parent {
        descriptor = descriptor.number(5, parent);
    }
    let packet = Message::default()
        .number(10, SEQUENCE)
        .message(60, &descriptor);
    out.message(1, &packet)
}

/// Beginnings (with a name) and ends, in order, each end after what lies within it.
/// Spans that overlap without nesting are cut: a track can't show them otherwise.
fn nested<'a>(spans: &[&'a Span]) -> Vec<(i64, Option<&'a str>)> {
    let mut spans = spans.to_vec();
    spans.sort_by(|a, b| {
        (a.from_ns, std::cmp::Reverse(a.to_ns), &a.label).cmp(&(
            b.from_ns,
            std::cmp::Reverse(b.to_ns),
            &b.label,
        ))
    });
    let mut events = Vec::with_capacity(2 * spans.len());
    let mut open: Vec<i64> = Vec::new();
    for span in spans {
        while let Some(end) = open.pop_if(|end| *end <= span.from_ns) {
            events.push((end, None));
        }
        let end = open
            .last()
            .map_or(span.to_ns, |outer| span.to_ns.min(*outer));
        events.push((span.from_ns, Some(span.label.as_str())));
        open.push(end);
    }
    while let Some(end) = open.pop() {
        events.push((end, None));
    }
    events
}
