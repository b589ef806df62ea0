//! What is kept of a recording: the threads that are wanted, and the worst wake-ups.

use std::io::{BufReader, Read};

use crate::recordings_odd::{late, late_turn, one_line, place};
use punctual_record::explanation::NotSeen;
use punctual_trace::attribute::event::Kind;
use punctual_trace::attribute::{self, Cause};
use punctual_trace::foreign::{BILLS, Recording, ThreadFilter, WakeUp};

/// A long text, made while it is read.
struct Text<I> {
    parts: I,
    part: Vec<u8>,
}

impl<I: Iterator<Item = String>> Read for Text<I> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.part.is_empty() {
            self.part = self.parts.next().unwrap_or_default().into();
        }
        let count = self.part.len().min(into.len());
        into[..count].copy_from_slice(&self.part[..count]);
        self.part.drain(..count);
        Ok(count)
    }
}

fn read(parts: impl Iterator<Item = String>) -> Recording {
    let text = Text {
        parts,
        part: Vec::new(),
    };
    Recording::read(BufReader::new(text)).expect("a recording")
}

fn without_bill(recording: &Recording) -> Option<(u64, u64)> {
    let mut missing = recording.missing.iter();
    missing.find_map(|it| match it {
        NotSeen::WithoutBill { wake_ups, bills } => Some((*wake_ups, *bills)),
        _ => None,
    })
}

fn latencies_us(recording: &Recording) -> Vec<u64> {
    let wake_ups = recording.wake_ups.iter();
    wake_ups.map(|it| it.latency_ns() / 1_000).collect()
}

#[test]
fn only_a_thousand_wake_ups_are_kept_and_the_others_counted() {
    // More than all events that are in memory.
    const MANY: u64 = (1 << 20) + 5;
    let timerlat = |last: u64| {
        let line = |n| format!("t-9 [0] 1.{n:09}: #{n} context thread timer_latency {n} ns\n");
        let recording = read((1..=last).map(line));
        let first = recording.wake_ups[0].latency_ns();
        let latencies = &recording.latencies[&0];
        // Beyond so many they are rounded, but all are counted, and the extremes are exact.
        assert!(latencies.len() <= 1 << 16);
        assert_eq!(latencies.values().sum::<u64>(), last);
        let below = latencies.range(..1 << 19).map(|(_, times)| times);
        assert_eq!(below.sum::<u64>(), last.min((1 << 19) - 1));
        let ends = latencies.first_key_value().zip(latencies.last_key_value());
        assert_eq!(
            ends.map(|((min, _), (max, _))| (*min, *max)),
            Some((1, last))
        );
        (recording.wake_ups.len(), first, without_bill(&recording))
    };
    assert_eq!(timerlat(1_000), (1_000, 1, None));
    assert_eq!(timerlat(1_001), (1_000, 2, Some((1, 1_000))));
    let others = Some((MANY - 1_000, 1_000));
    assert_eq!(timerlat(MANY), (BILLS, MANY - 999, others));
}

/// 1.2 million events after the worst wake-up: its own are still there.
#[test]
fn the_worst_wake_up_at_the_beginning_of_a_long_recording_is_kept() {
    const TURNS: u64 = 400_000;
    let recording = read((1..=TURNS).map(|turn| {
        let late_us = if turn == 3 { 5_000 } else { 100 + turn % 7 };
        late_turn(turn, late_us, "late", 7)
    }));
    assert!(recording.events.len() <= 1 << 20);
    assert_eq!(without_bill(&recording), Some((TURNS - 1_000, 1_000)));
    let worst = recording.wake_ups.iter().max_by_key(|it| it.latency_ns());
    let bill = attribute::bill(&worst.expect("a wake-up").window(&recording));
    assert_eq!(bill.latency_ns, 5_000_000);
    let hog = |cause: &Cause| matches!(cause, Cause::Thread { task, .. } if task == "hog");
    let by_hog = bill.rows.iter().filter(|row| hog(&row.cause));
    assert!(
        by_hog.map(|row| row.ns).sum::<u64>() > 4_900_000,
        "{bill:#?}"
    );
    let all: u64 = recording.latencies[&1].values().sum();
    assert_eq!((all, recording.latencies[&1][&5_000_000]), (TURNS, 1));
}

/// 100,000 events before each of twelve wake-ups, of which only five find room at once.
#[test]
fn if_the_worst_need_too_many_events_fewer_of_the_worst_are_kept() {
    let recording = |latency_us: fn(u64) -> u64| {
        read((1..=12).flat_map(move |turn| {
            let us = 1_000_000 + turn * 10_000 - 1;
            let event = format!(
                " hog-9 [001] d..2. {}.{:06}: irq_handler_exit: irq=7 ret=handled\n",
                us / 1_000_000,
                us % 1_000_000
            );
            let events = std::iter::repeat_n(event, 100_000);
            events.chain([late_turn(turn, latency_us(turn), "late", 7)])
        }))
    };
    let falling = recording(|turn| 2_000 - 10 * turn);
    assert_eq!(latencies_us(&falling), [1_990, 1_980, 1_970, 1_960, 1_950]);
    assert_eq!(without_bill(&falling), Some((7, 5)));
    // The last ones are still in memory, with the worst before them.
    let rising = recording(|turn| 2_000 + 10 * turn);
    assert_eq!(
        latencies_us(&rising),
        [
            2_040, 2_050, 2_060, 2_070, 2_080, 2_090, 2_100, 2_110, 2_120
        ]
    );
    for recording in [falling, rising] {
        assert!(recording.events.len() <= 1 << 20);
        for wake_up in &recording.wake_ups {
            let events = wake_up.window(&recording).events.len();
            assert!((100_000..100_010).contains(&events), "{events}");
        }
    }
}

/// Which thread runs as a window begins is told by a switch long before it, when other events are
/// dropped too: neither nothing nor the thread of an older switch.
#[test]
fn the_thread_that_runs_since_long_before_a_window_is_known() {
    let time = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let switch = move |us, from: &str, to: &str| {
        let tid = |name: &str| name.as_bytes()[0];
        format!(
            " x-9 [001] d..2. {}: sched_switch: prev_comm={from} prev_pid={} prev_prio=49 \
             prev_state=S ==> next_comm={to} next_pid={} next_prio=49\n",
            time(us),
            tid(from),
            tid(to)
        )
    };
    let late = move |us, over: &str| {
        let tid = b'l';
        let waking = format!(
            " x-9 [001] d..2. {}: sched_waking: comm=late pid={tid} prio=49 target_cpu=001\n",
            time(us)
        );
        waking + &switch(us + 1_000, over, "late") + &switch(us + 1_050, "late", over)
    };
    let fill = move |from: u64, to| {
        let event = |us| format!(" x-9 [001] d..2. {us}: irq_handler_exit: irq=7 ret=handled\n");
        (from..to).map(move |us| event(time(us)))
    };
    let begin = late(1_000_000, "first") + &switch(1_100_000, "first", "second");
    let middle = late(1_400_000, "second") + &switch(1_500_000, "second", "third");
    let parts = [begin].into_iter().chain(fill(1_200_000, 1_400_000));
    let parts = parts.chain([middle]).chain(fill(1_600_000, 2_600_000));
    let recording = read(parts.chain([late(2_600_000, "third")]));
    assert!(recording.events.len() <= 1 << 19, "nothing was dropped");
    let running = |wake_up: &WakeUp| match &wake_up.window(&recording).events[0].kind {
        Kind::Switch { to, .. } => Some(to.name.clone()),
        _ => None,
    };
    let running: Vec<_> = recording.wake_ups.iter().map(running).collect();
    assert_eq!(running, [None, Some("second".into()), Some("third".into())]);
}

#[test]
fn only_the_wake_ups_of_the_wanted_threads_have_a_bill() {
    let text: String = (1..=30)
        .map(|turn| match turn % 3 {
            0 => late_turn(turn, 900, "worst", 5),
            1 => late_turn(turn, 100, "ctl", 7),
            _ => late_turn(turn, 200, "a-longest-of-name", 8),
        })
        .collect();
    let of = |tids: &[u32], names: &[&str]| {
        let threads = ThreadFilter {
            tids: tids.to_vec(),
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let recording = Recording::read_threads(text.as_bytes(), &threads).expect("a recording");
        let mut latencies = latencies_us(&recording);
        latencies.dedup();
        (
            recording.wake_ups.len(),
            latencies.len(),
            recording.left_out,
        )
    };
    assert_eq!(of(&[], &[]), (30, 30, 0));
    assert_eq!(of(&[7], &[]), (10, 1, 20));
    assert_eq!(of(&[7, 5], &[]).0, 20);
    assert_eq!(of(&[], &["ctl"]), of(&[7], &[]));
    assert_eq!(of(&[5], &["ctl", "none"]).0, 20);
    // The kernel cuts names after 15 bytes.
    assert_eq!(of(&[], &["a-longest-of-na"]).0, 10);
    assert_eq!(of(&[], &["ct"]), (0, 0, 30));

    let place = place(&[("two.txt", &text)]);
    let bills = |flags: &[&str]| {
        let words = [&["explain", "two.txt", "--json"][..], flags].concat();
        let json = place.run(&words).expect(0).json();
        let bills = json["bills"].as_array().expect("bills").iter();
        bills
            .map(|bill| bill["latency_ns"].as_u64())
            .collect::<Vec<_>>()
    };
    assert_eq!(bills(&[])[0], Some(900_000));
    assert_eq!(bills(&["--tid", "7"]), [Some(100_000); 10]);
    assert_eq!(bills(&["--comm", "ctl", "--tid", "8"])[..11], {
        let mut both = [Some(200_000); 11];
        both[10] = Some(100_000);
        both
    });
    // A number counts among them.
    let bill = place.run(&["explain", "two.txt", "1", "--comm", "ctl"]);
    assert!(bill.expect(0).stdout.contains("latency 100 µs"));
    let list = place.run(&["explain", "two.txt", "--list", "--tid", "5"]);
    assert_eq!(list.expect(0).stdout.lines().count(), 1 + 10);
    let none = place.run(&["explain", "two.txt", "--tid", "99"]).expect(1);
    let line = one_line(&none);
    assert!(line.contains("--tid or --comm"), "{line}");
    assert!(line.contains("30 of others"), "{line}");
}

#[test]
fn a_run_has_no_threads_to_select() {
    let run = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../record/tests/data/run-2.json"
    );
    let place = place(&[("late.txt", &late([5]))]);
    let refused = place.run(&["explain", run, "--tid", "7"]).expect(64);
    assert!(one_line(&refused).contains("expected another tool's recording"));
}
