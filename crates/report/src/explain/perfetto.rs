//! A trace for Perfetto (its page is ui.perfetto.dev), written by hand: the few messages of its
//! protobuf that slices on tracks need.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::Interval;
use crate::facts;
use crate::terms::Terms;
use punctual_record::Run;
use punctual_record::explanation::{Bill, Lane, Picture, Span};

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

/// What a trace begins with: the clock that its instants are of.
fn opened(at_ns: u64) -> Message {
    let clock = Message::default()
        .number(1, CLOCK_MONOTONIC)
        .number(2, at_ns);
    let snapshot = Message::default()
        .message(1, &clock)
        .number(2, CLOCK_MONOTONIC);
    let first = packet(at_ns)
        .number(13, STATE_CLEARED)
        .message(6, &snapshot);
    Message::default().message(1, &first)
}

/// What one bill is about: a wake-up, or a gap.
#[derive(Debug, Clone, Copy)]
pub struct Outlier {
    /// The instant that it counts from, CLOCK_MONOTONIC.
    pub due_ns: u64,
    /// The latency, or the length.
    pub latency_ns: u64,
    /// What it is called.
    pub terms: Terms,
}

impl Outlier {
    /// That of a bill.
    #[must_use]
    pub fn of(bill: &Bill, terms: Terms) -> Self {
        Self {
            due_ns: bill.due_ns,
            latency_ns: bill.latency_ns,
            terms,
        }
    }
}

/// The trace of everything that a recorder still held when a wake-up ended the run.
#[must_use]
pub fn ring(due_ns: u64, woken_ns: u64, picture: &Picture, run: &Run) -> Vec<u8> {
    let outlier = Outlier {
        due_ns,
        latency_ns: woken_ns.saturating_sub(due_ns),
        terms: Terms::for_run(run),
    };
    trace(picture, outlier, &[])
}

/// The trace of one outlier: what ran, and the intervals of marks around it.
#[must_use]
pub fn trace(picture: &Picture, outlier: Outlier, intervals: &[Interval<'_>]) -> Vec<u8> {
    let Outlier {
        due_ns,
        latency_ns,
        terms,
    } = outlier;
    let at = |offset: i64| due_ns.saturating_add_signed(offset);
    let mut out = opened(due_ns);
    let wake_up = 1;
    out = describe(out, wake_up, None, terms.one);
    let tracks = tracks(picture);
    for (index, (cpu, lanes)) in tracks.iter().enumerate() {
        let parent = cpu_track(index);
        out = describe(out, parent, None, &format!("CPU {cpu}"));
        for lane in lanes.keys() {
            out = describe(
                out,
                lane_track(index, *lane),
                Some(parent),
                lane_name(*lane, terms),
            );
        }
    }
    // The latency itself, and the marks.
    for mark in &picture.marks {
        let event = event(INSTANT, wake_up, Some(&facts::mark_label(&mark.label)));
        out = out.message(1, &packet(at(mark.at_ns)).message(11, &event));
    }
    let late = event(SLICE_BEGIN, wake_up, Some(&terms.outlier(latency_ns)));
    let end_ns = due_ns.saturating_add(latency_ns);
    out = out.message(1, &packet(due_ns).message(11, &late)).message(
        1,
        &packet(end_ns).message(11, &event(SLICE_END, wake_up, None)),
    );

    for (index, lanes) in tracks.values().enumerate() {
        for (lane, spans) in lanes {
            let track = lane_track(index, *lane);
            for (offset, which) in nested(spans, |span| (span.from_ns, span.to_ns)) {
                let event = match which {
                    Some(span) => event(SLICE_BEGIN, track, Some(&facts::span_label(&span.label))),
                    None => event(SLICE_END, track, None),
                };
                out = out.message(1, &packet(at(offset)).message(11, &event));
            }
        }
    }
    with_intervals(out, intervals).0
}

/// The trace of all intervals of marks that are kept, and of the wake-ups with a bill beside
/// them: each slice of these bears the number of its bill. None where there are no intervals.
#[must_use]
pub fn marks_trace(intervals: &[Interval<'_>], bills: &[Bill], terms: Terms) -> Option<Vec<u8>> {
    let first_ns = intervals.iter().map(|it| it.from_ns).min()?;
    let mut out = opened(first_ns);
    let mut tracks: BTreeMap<u32, Vec<(usize, &Bill)>> = BTreeMap::new();
    for (number, bill) in (1..).zip(bills) {
        tracks.entry(bill.cpu).or_default().push((number, bill));
    }
    for (track, (cpu, bills)) in (1..).zip(&tracks) {
        out = describe(out, track, None, &format!("{} on CPU {cpu}", terms.many));
        let stretch = |(_, bill): &(usize, &Bill)| {
            let end_ns = bill.due_ns.saturating_add(bill.latency_ns);
            (bill.due_ns, end_ns)
        };
        for (at_ns, which) in nested(bills, stretch) {
            let name = which
                .map(|(number, bill)| format!("bill {number}: {}", terms.outlier(bill.latency_ns)));
            let event = match &name {
                Some(name) => event(SLICE_BEGIN, track, Some(name)),
                None => event(SLICE_END, track, None),
            };
            out = out.message(1, &packet(at_ns).message(11, &event));
        }
    }
    Some(with_intervals(out, intervals).0)
}

/// Adds a track for each thread, and below it one for each of its marks.
fn with_intervals(mut out: Message, intervals: &[Interval<'_>]) -> Message {
    // Beyond the tracks of all CPUs.
    let mut next = 1 << 32;
    for thread in intervals.chunk_by(|a, b| a.thread == b.thread) {
        let parent = next;
        next += 1;
        out = describe(out, parent, None, &format!("marks of {}", thread[0].thread));
        for mark in thread.chunk_by(|a, b| a.mark == b.mark) {
            let track = next;
            next += 1;
            out = describe(out, track, Some(parent), mark[0].mark);
            for (at_ns, which) in nested(mark, |it| (it.from_ns, it.to_ns())) {
                let event = match which {
                    Some(interval) => {
                        annotated(event(SLICE_BEGIN, track, Some(&interval.label())), interval)
                    }
                    None => event(SLICE_END, track, None),
                };
                out = out.message(1, &packet(at_ns).message(11, &event));
            }
        }
    }
    out
}

/// What the thread went through meanwhile, shown when the slice is clicked on.
fn annotated(event: Message, interval: &Interval<'_>) -> Message {
    let worst = interval.worst;
    let figures = [
        ("without a CPU, ns", worst.waited_ns),
        ("preempted", Some(worst.preempted)),
        ("slept", Some(worst.slept)),
        ("page faults", Some(worst.faults)),
    ];
    let known = figures
        .into_iter()
        .filter_map(|(name, it)| Some((name, it?)));
    known.fold(event, |event, (name, value)| {
        let annotation = Message::default()
            .bytes(10, name.as_bytes())
            .number(3, value);
        event.message(4, &annotation)
    })
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
pub fn lane_name(lane: Lane, terms: Terms) -> &'static str {
    match lane {
        Lane::Interrupt => "interrupts",
        Lane::Softirq => "softirqs",
        Lane::Host => "host",
        Lane::Thread => "threads",
        Lane::Probe => terms.who,
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

/// Beginnings (with what begins) and ends, in order, each end after what lies within it.
/// What overlaps without nesting is cut: a track can't show it otherwise.
fn nested<S, T: Copy + Ord>(all: &[S], stretch: impl Fn(&S) -> (T, T)) -> Vec<(T, Option<&S>)> {
    let mut all: Vec<&S> = all.iter().collect();
    all.sort_by_key(|one| {
        let (from, to) = stretch(one);
        (from, Reverse(to))
    });
    let mut events = Vec::with_capacity(2 * all.len());
    let mut open: Vec<T> = Vec::new();
    for one in all {
        let (from, to) = stretch(one);
        while let Some(end) = open.pop_if(|end| *end <= from) {
            events.push((end, None));
        }
        let end = open.last().map_or(to, |outer| to.min(*outer));
        events.push((from, Some(one)));
        open.push(end);
    }
    while let Some(end) = open.pop() {
        events.push((end, None));
    }
    events
}
