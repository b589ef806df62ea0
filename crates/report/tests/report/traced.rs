//! Traces for Perfetto and pictures of bills, compared with what their readers ask of them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use proptest::prelude::*;
use punctual_record::Run;
use punctual_record::explanation::{Lane, Mark, MarkLabel, Picture, Span, SpanLabel};
use punctual_report::chart::{Form, outlier};
use punctual_report::explain::perfetto::{self, Outlier};
use punctual_report::explain::{around, intervals};
use punctual_report::terms::Terms;

use super::bills::bill_of;
use super::fixtures as report_fixtures;

/// A field of a protobuf message.
#[derive(Debug, Clone, PartialEq)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

/// What any reader of protobuf sees: the fields of a message, by number.
fn decode(mut bytes: &[u8]) -> Vec<(u64, Field)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            let (first, rest) = bytes.split_first().expect("the message goes on");
            *bytes = rest;
            value |= u64::from(first & 0x7f) << shift;
            if first & 0x80 == 0 {
                return value;
            }
        }
        unreachable!()
    }
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let field = match tag & 7 {
            0 => Field::Number(varint(&mut bytes)),
            2 => {
                let length = varint(&mut bytes) as usize;
                let (content, rest) = bytes.split_at(length);
                bytes = rest;
                Field::Bytes(content.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((tag >> 3, field));
    }
    fields
}

fn number(fields: &[(u64, Field)], wanted: u64) -> Option<u64> {
    fields.iter().find_map(|(field, value)| match value {
        Field::Number(value) if *field == wanted => Some(*value),
        _ => None,
    })
}

fn message(fields: &[(u64, Field)], wanted: u64) -> Option<Vec<(u64, Field)>> {
    bytes(fields, wanted).map(|bytes| decode(&bytes))
}

fn bytes(fields: &[(u64, Field)], wanted: u64) -> Option<Vec<u8>> {
    fields.iter().find_map(|(field, value)| match value {
        Field::Bytes(value) if *field == wanted => Some(value.clone()),
        _ => None,
    })
}

/// Holds a trace against what Perfetto asks of one: tracks are described before they are
/// used, slices nest and end.
fn hold(trace: &[u8]) -> usize {
    let mut tracks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut slices = 0;
    for (index, (field, packet)) in decode(trace).into_iter().enumerate() {
        let Field::Bytes(packet) = packet else {
            panic!("not a packet");
        };
        assert_eq!(field, 1);
        let packet = decode(&packet);
        assert_eq!(number(&packet, 10), Some(1), "the sequence");
        if index == 0 {
            let snapshot = message(&packet, 6).expect("the clock comes first");
            assert_eq!(number(&snapshot, 2), Some(3), "CLOCK_MONOTONIC");
            assert_eq!(number(&packet, 13), Some(1));
        }
        if let Some(track) = message(&packet, 60) {
            let id = number(&track, 1).expect("a track has a number");
            assert!(bytes(&track, 2).is_some_and(|name| !name.is_empty()));
            if let Some(parent) = number(&track, 5) {
                assert!(tracks.contains_key(&parent));
            }
            assert!(tracks.insert(id, Vec::new()).is_none());
        }
        if let Some(event) = message(&packet, 11) {
            let at = number(&packet, 8).expect("an event has a time");
            assert_eq!(number(&packet, 58), Some(3));
            let track = number(&event, 11).expect("an event has a track");
            let open = tracks.get_mut(&track).expect("a track that was described");
            match number(&event, 9) {
                Some(1) => {
                    assert!(bytes(&event, 23).is_some());
                    open.push(at);
                    slices += 1;
                }
                Some(2) => assert!(open.pop().expect("it began") <= at),
                Some(3) => assert!(bytes(&event, 23).is_some()),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!(tracks.values().all(Vec::is_empty), "a slice does not end");
    slices
}

#[test]
fn a_trace_of_a_recorded_wake_up() {
    let window = super::data::window("preempt-off-0");
    let picture = punctual_trace::attribute::picture(&window);
    let latency = window.woken_ns - window.due_ns;
    let outlier = Outlier {
        due_ns: window.due_ns,
        latency_ns: latency,
        terms: Terms::default(),
    };
    let trace = perfetto::trace(&picture, outlier, &[]);
    assert_eq!(hold(&trace), picture.spans.len() + 1);
    assert!(holds(&trace, "preempt-off") && holds(&trace, "latency "));
    // A gap is no latency.
    let terms = Terms::for_run(&report_fixtures::gaps());
    let trace = perfetto::trace(&picture, Outlier { terms, ..outlier }, &[]);
    assert!(holds(&trace, "gap of ") && !holds(&trace, " late"));
}

fn holds(trace: &[u8], text: &str) -> bool {
    trace.windows(text.len()).any(|it| it == text.as_bytes())
}

/// A run whose marks were passed around an instant.
fn passed_at(at_ns: u64) -> Run {
    // Made once: a run of many samples takes a while.
    static PROGRAM: OnceLock<Run> = OnceLock::new();
    let mut run = PROGRAM.get_or_init(super::watched::program).clone();
    let marks = run.watch.iter_mut().flat_map(|watch| &mut watch.marks);
    let threads = marks.flat_map(|mark| &mut mark.threads);
    for worst in threads.flat_map(|thread| &mut thread.worst) {
        worst.at_ns = at_ns.saturating_add(worst.length_ns / 2);
    }
    run
}

#[test]
fn the_longest_of_marks_stand_beside_what_ran_meanwhile() {
    let window = super::data::window("preempt-off-0");
    let picture = punctual_trace::attribute::picture(&window);
    let bill = punctual_trace::attribute::bill(&window);
    let run = passed_at(bill.due_ns);
    let all = intervals(&run);
    // Two threads, two each.
    assert_eq!(all.len(), 4);
    let near = around(&all, &bill, &picture);
    assert_eq!(near.len(), 4);
    let trace = perfetto::trace(&picture, Outlier::of(&bill, Terms::for_run(&run)), &near);
    assert_eq!(hold(&trace), picture.spans.len() + 1 + 4);
    for text in [
        "marks of controller/4711",
        "controller 2.5 ms",
        "page faults",
    ] {
        assert!(holds(&trace, text), "{text}");
    }
    let mut drawn = bill.clone();
    drawn.picture = Some(picture.clone());
    let svg = outlier::draw(&run, &drawn, "a bill", Form::File, "x").expect("a picture");
    assert!(svg.contains("controller 2.5 ms"), "{svg}");
    // All of them, and which bill to open.
    let bills = [drawn.clone(), drawn.clone()];
    let trace = perfetto::marks_trace(&all, &bills, Terms::for_run(&run)).expect("a trace");
    assert_eq!(hold(&trace), 4 + 2);
    assert!(holds(&trace, "bill 2: "));
    assert!(perfetto::marks_trace(&[], &bills, Terms::for_run(&run)).is_none());
    // Elsewhere in time, or in a sum of runs, they are in no picture.
    let elsewhere = passed_at(bill.due_ns + 60_000_000_000);
    assert!(around(&intervals(&elsewhere), &bill, &picture).is_empty());
    let mut other = run.clone();
    other.start_ns = other.start_ns.map(|at| at + 1);
    other.started = "2026-11-21T09:30:01Z".to_owned();
    let sum = punctual_record::merge(&[run, other], true, Vec::new());
    assert!(intervals(&sum.expect("a sum")).is_empty());
}

fn pictures() -> impl Strategy<Value = Picture> {
    let time = prop_oneof![20 => -1_000i64..5_000, 1 => any::<i64>()];
    let lane = prop_oneof![
        Just(Lane::Interrupt),
        Just(Lane::Softirq),
        Just(Lane::Thread),
        Just(Lane::Probe)
    ];
    let span = (
        lane,
        0u32..4,
        time.clone(),
        time.clone(),
        "\\PC{0,12}",
        any::<bool>(),
    )
        .prop_map(|(lane, cpu, a, b, label, in_the_way)| Span {
            lane,
            cpu,
            from_ns: a.min(b),
            to_ns: a.max(b),
            label: SpanLabel::Earlier { text: label },
            in_the_way,
        });
    let mark = (time, 0u32..4, "\\PC{0,12}").prop_map(|(at_ns, cpu, text)| {
        let label = MarkLabel::Earlier { text };
        Mark { at_ns, cpu, label }
    });
    (
        proptest::collection::vec(span, 0..40),
        proptest::collection::vec(mark, 0..8),
    )
        .prop_map(|(spans, marks)| Picture {
            spans,
            marks,
            left_out: 0,
        })
}

proptest! {
    #[test]
    fn any_picture_is_drawn_and_traced(
        picture in pictures(),
        due_ns in any::<u64>(),
        latency_ns in prop_oneof![0u64..5_000, any::<u64>()],
    ) {
        let terms = Terms::default();
        let run = passed_at(1 << 62);
        let usual = Outlier { due_ns: 1 << 62, latency_ns: 5_000, terms };
        hold(&perfetto::trace(&picture, usual, &intervals(&run)));
        let run = passed_at(due_ns);
        let odd = Outlier { due_ns, latency_ns, terms };
        let _ = perfetto::trace(&picture, odd, &intervals(&run));
        let mut bill = bill_of(0, due_ns, &[]);
        bill.latency_ns = latency_ns;
        let trace = perfetto::marks_trace(&intervals(&run), &[bill.clone()], terms);
        hold(&trace.expect("a trace"));
        bill.picture = Some(picture);
        for form in [Form::Wide, Form::Narrow, Form::File] {
            if let Some(svg) = outlier::draw(&run, &bill, "a bill", form, "x") {
                prop_assert!(!svg.contains("NaN") && !svg.contains("\"inf"));
                prop_assert!(svg.len() < 200_000);
            }
        }
    }
}
