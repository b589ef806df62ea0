//! `explain` of recordings that lack something, or exceed what is kept: what isn't known is
//! reported.

use std::fs;

use crate::common::{Ended, Place};
use punctual_record::explanation::NotSeen;
use punctual_trace::attribute::event::Kind;
use punctual_trace::foreign::Recording;
use punctual_trace::foreign::lines::Line;

/// A wake-up each 10 ms from 1 s on, each late by this many us because of a thread above it.
pub fn late(latencies_us: impl IntoIterator<Item = u64>) -> String {
    let turns = (1..).zip(latencies_us);
    let turns = turns.map(|(turn, late_us)| late_turn(turn, late_us, "late", 7));
    "# tracer: nop\n".to_owned() + &turns.collect::<String>()
}

/// One such wake-up, of this thread.
pub fn late_turn(turn: u64, late_us: u64, name: &str, tid: u32) -> String {
    let at_us = 1_000_000 + turn * 10_000;
    let time = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let (woken, on, off) = (
        time(at_us),
        time(at_us + late_us),
        time(at_us + late_us + 50),
    );
    format!(
        " hog-9 [001] d..2. {woken}: sched_waking: comm={name} pid={tid} prio=49 target_cpu=001\n \
         hog-9 [001] d..2. {on}: sched_switch: prev_comm=hog prev_pid=9 prev_prio=9 prev_state=S \
         ==> next_comm={name} next_pid={tid} next_prio=49\n \
         {name}-{tid} [001] d..2. {off}: sched_switch: prev_comm={name} prev_pid={tid} prev_prio=49 \
         prev_state=S ==> next_comm=hog next_pid=9 next_prio=9\n"
    )
}

fn read(text: &str) -> Recording {
    Recording::read(text.as_bytes()).expect("a recording")
}

pub fn place(files: &[(&str, &str)]) -> Place {
    let place = Place::new();
    for (name, text) in files {
        fs::write(place.path().join(name), text).expect("written");
    }
    place
}

pub fn one_line(ended: &Ended) -> &str {
    let mut lines = ended.stderr.lines();
    let line = lines.next().unwrap_or_default();
    assert_eq!(lines.next(), None, "{ended:?}");
    line
}

#[test]
fn the_cpu_of_a_thread_with_brackets_in_its_name_is_the_one_after_its_number() {
    for (text, name, tid, cpu) in [
        (
            " w[1]-77 [003] d..2. 1.5: irq_handler_exit: irq=1",
            "w[1]",
            77,
            3,
        ),
        (
            " w-1[1]-77 [003] d..2. 1.5: irq_handler_exit: irq=1",
            "w-1[1]",
            77,
            3,
        ),
        (" w-1 [1]-77 [003] d..2. 1.5: x: irq=1", "w-1 [1]", 77, 3),
        (" [2]-77 (  77) [003] d..2. 1.5: x: irq=1", "[2]", 77, 3),
        (
            " w [1] 77/78 [003]  1.500000000: irq:x: irq=1",
            "w [1]",
            78,
            3,
        ),
        (" w-5 [004] 1.5: x: comm=a[1] pid=2", "w", 5, 4),
        (" [[[[[[-5 [004] 1.5: x: y", "[[[[[[", 5, 4),
    ] {
        let line = Line::parse(text).unwrap_or_else(|| panic!("{text}"));
        assert_eq!((line.name, line.tid, line.cpu), (name, tid, cpu), "{text}");
        assert_eq!(line.at_ns, 1_500_000_000);
    }
    for text in [
        "w[1]",
        "w-1[1] [3]",
        "w-1 [1",
        "[[[[[[[[[[[[[[[[[[-5 [004] 1.5: x: y",
    ] {
        assert_eq!(Line::parse(text), None, "{text}");
    }
}

#[test]
fn missing_end_events_are_named() {
    let with = |events: &str| late([100]) + events;
    let begins = [
        (
            "irq_handler",
            " <idle>-0 [001] d.h1. 1.5: irq_handler_entry: irq=31 name=eth0\n",
        ),
        (
            "softirq",
            " <idle>-0 [001] d.h1. 1.5: softirq_entry: vec=3 [action=NET_RX]\n",
        ),
        (
            "local_timer",
            " <idle>-0 [001] d.h1. 1.5: local_timer_entry: vector=236\n",
        ),
        (
            "reschedule",
            " <idle>-0 [001] d.h1. 1.5: reschedule_entry: vector=253\n",
        ),
    ];
    for (name, begins) in begins {
        let lacking = |text: &str| read(text).missing;
        let lack = NotSeen::RecordedEnd {
            begins: format!("{name}_entry"),
            ends: format!("{name}_exit"),
        };
        assert!(lacking(&with(begins)).contains(&lack), "{name}");
        assert!(!lacking(&with("")).contains(&lack), "{name}");
        let ends = begins.replace("_entry", "_exit").replace("1.5", "1.6");
        assert!(!lacking(&with(&(begins.to_owned() + &ends))).contains(&lack));
        // An end alone does not show what began.
        assert!(!lacking(&with(&ends)).contains(&lack));
    }
}

/// 4,000 bytes of a name in each of a million events would be 4 GB.
#[test]
fn names_are_cut_and_the_rest_of_a_long_line_is_ignored() {
    let long = "x".repeat(4_000);
    let event = " a-1 [000] d..2. 1.9: irq_handler_exit: irq=77\n";
    let text = late([100])
        + &format!(" a-1 [000] d..2. 1.5: irq_handler_entry: irq=31 name={long}\n")
        + &format!(" a-1 [000] d..2. 1.6: workqueue_execute_start: work struct 1: function {long}\n")
        + &format!(" {long}-1 [000] d..2. 1.7: irq_handler_exit: irq=31\n")
        // The fourth KiB ends where this line seems to begin.
        + &format!(" a-1 [000] d..2. 1.8: x: {}{event}", "y".repeat(4_096 - 25));
    let recording = read(&text);
    let names = recording
        .events
        .iter()
        .filter_map(|event| match &event.kind {
            Kind::HandlerEntry { name, .. } => Some(name.len()),
            Kind::HandlerExit { irq: 77 } => panic!("{event:?}"),
            _ => None,
        });
    assert_eq!(names.collect::<Vec<_>>(), [64]);
    assert!(recording.symbols.values().all(|name| name.len() <= 128));
    assert_eq!(recording.symbols.len(), 1);
}

#[test]
fn two_recordings_are_compared_by_the_minute_and_other_verbs_name_the_right_verb() {
    // Ten wake-ups in 90 ms, five of them delayed by another thread: by 1 ms, or by 3 ms.
    let of = |late_us: u64| late((0..10).map(|n| if n % 2 == 0 { late_us } else { 10 }));
    let (first, second) = (of(1_000), of(3_000));
    let place = place(&[("first.txt", &first), ("second.txt", &second)]);
    let minutes = |text: &str| read(text).span_ns as f64 / 60e9;
    assert_eq!(read(&first).span_ns, 90_060_000);
    let shown = place
        .run(&["explain", "first.txt", "second.txt"])
        .expect(0)
        .stdout;
    let row = shown.lines().rfind(|it| it.contains("hog")).expect("a row");
    let figures: Vec<f64> = row
        .split_whitespace()
        .take(4)
        .map(|word| word.replace(',', "").parse().expect("a figure"))
        .collect();
    // The wake-up's own share of each does not belong to the hog.
    let near = |shown: f64, us: f64| (0.95 * us..=us + 1.0).contains(&shown);
    assert!(near(figures[0], 5_050.0 / minutes(&first)), "{row}");
    assert!(near(figures[1], 15_050.0 / minutes(&second)), "{row}");
    for words in [
        &["compare", "first.txt", "second.txt"][..],
        &["report", "first.txt"],
        &["export", "--format", "csv", "first.txt"],
        &["merge", "first.txt", "second.txt"],
    ] {
        let ended = place.run(words).expect(1);
        let line = one_line(&ended);
        assert!(line.contains("first.txt: a recording of events"), "{line}");
        assert!(line.contains("punctual explain"), "{line}");
    }
}

#[test]
fn each_of_the_thousand_latest_wake_ups_of_a_recording_can_be_opened() {
    let text = late((1..=1_100).map(|n| 2 * n));
    let place = place(&[("many.txt", &text)]);
    let list = place
        .run(&["explain", "many.txt", "--list"])
        .expect(0)
        .stdout;
    assert_eq!(list.lines().count(), 1 + 1_000, "{list}");
    for (number, latency_us) in [
        ("1", "2.2 ms"),
        ("32", "2.14 ms"),
        ("33", "2.14 ms"),
        ("1000", "202 µs"),
    ] {
        let bill = place.run(&["explain", "many.txt", number]).expect(0).stdout;
        let head = format!("Bill {number}: latency {latency_us} on CPU 1");
        assert!(bill.contains(&head), "{number}: {bill}");
        assert!(bill.contains("thread hog, SCHED_FIFO 90"), "{bill}");
    }
    let none = place.run(&["explain", "many.txt", "1001"]).expect(64);
    assert!(one_line(&none).contains("bills 1 to 1000"), "{none:?}");
    let json = place
        .run(&["explain", "many.txt", "500", "--json"])
        .expect(0)
        .stdout;
    let bill: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(bill["latency_ns"], 2 * (1_100 - 499) * 1_000);
}
