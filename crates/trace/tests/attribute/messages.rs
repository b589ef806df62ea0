//! Bills of late messages, divided by events made by hand.

use proptest::prelude::*;
use punctual_record::path::bill::{
    Certainty, MessageBill, MessageCause as Cause, MessageRow, MessageStage as Stage, Runner,
};
use punctual_trace::attribute::event::{Event, Kind, Task};
use punctual_trace::attribute::message::{Moments, divide};

use crate::build::{hog, idle, task};

const MS: u64 = 1_000_000;
const DUE: u64 = 1_000 * MS;
const SENDER: u32 = 11;
const RECEIVER: u32 = 12;

fn row(stage: Stage, cause: Cause, ns: u64) -> MessageRow {
    MessageRow {
        stage,
        cause,
        ns,
        certainty: Certainty::Possible,
        evidence: Vec::new(),
    }
}

fn bill(rows: Vec<MessageRow>) -> MessageBill {
    MessageBill {
        sequence: 1,
        requested_ns: DUE,
        size: 256,
        latency_ns: rows.iter().map(|row| row.ns).sum(),
        rows,
    }
}

/// Sent at once, received 20 ms later and read at once.
fn moments() -> Moments {
    Moments {
        requested_ns: DUE,
        call_ns: DUE,
        call_end_ns: DUE,
        sent_ns: Some(DUE),
        received_ns: Some(DUE + 20 * MS),
        woke_ns: DUE + 20 * MS,
        sender: SENDER,
        receiver: RECEIVER,
    }
}

fn on_the_way() -> MessageBill {
    bill(vec![
        row(Stage::Way, Cause::Usual, MS),
        row(Stage::Way, Cause::Way, 19 * MS),
    ])
}

fn event(at_ns: u64, cpu: u32, kind: Kind) -> Event {
    Event { at_ns, cpu, kind }
}

fn switch(at_ns: u64, cpu: u32, from: &Task, to: &Task) -> Event {
    let kind = Kind::Switch {
        from: from.clone(),
        from_state: 1,
        preempted: false,
        to: to.clone(),
    };
    event(at_ns, cpu, kind)
}

fn waking(at_ns: u64, tid: u32) -> Event {
    event(at_ns, 0, Kind::Waking { tid, by: None })
}

fn fifo_hog() -> Task {
    task(77, "rt-hog", 9, 1)
}

fn named(task: &str, policy: &str, priority: u32, tid: u32) -> Runner {
    Runner {
        task: task.to_owned(),
        policy: policy.to_owned(),
        priority,
        tid,
    }
}

fn divided(mut bill: MessageBill, moments: &Moments, events: &[Event]) -> Vec<MessageRow> {
    let before: u64 = bill.rows.iter().map(|row| row.ns).sum();
    assert!(divide(&mut bill, moments, events, 0));
    assert_eq!(bill.rows.iter().map(|row| row.ns).sum::<u64>(), before);
    bill.rows
}

#[test]
fn a_thread_of_napi_below_a_real_time_thread_is_named_with_it() {
    let napi = task(40, "napi/eth0-7", 120, 0);
    let events = [
        switch(DUE - MS, 1, &idle(), &fifo_hog()),
        waking(DUE + MS, 40),
        switch(DUE + 19 * MS, 1, &fifo_hog(), &napi),
        switch(DUE + 21 * MS, 1, &napi, &idle()),
    ];
    let rows = divided(on_the_way(), &moments(), &events);
    let cause = Cause::NapiThread {
        thread: named("napi/eth0-7", "SCHED_OTHER", 0, 40),
        by: Some(named("rt-hog", "SCHED_FIFO", 90, 77)),
    };
    let expected = [
        (Stage::Way, Cause::Usual, MS),
        (Stage::Way, Cause::Way, MS),
        (Stage::Receive, cause, 18 * MS),
    ];
    let found: Vec<_> = rows
        .iter()
        .map(|it| (it.stage, it.cause.clone(), it.ns))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn a_thread_of_napi_that_ran_at_once_delayed_nothing() {
    let napi = task(40, "napi/eth0-7", 120, 0);
    let events = [
        switch(DUE - MS, 1, &idle(), &fifo_hog()),
        waking(DUE + 19 * MS, 40),
        switch(DUE + 19 * MS + 5_000, 1, &fifo_hog(), &napi),
    ];
    assert_eq!(
        divided(on_the_way(), &moments(), &events),
        on_the_way().rows
    );
}

#[test]
fn a_softirq_that_was_busy_or_ran_before_is_named() {
    let softirq = |entry_ns: u64, exit_ns: u64, number| {
        [
            event(entry_ns, 0, Kind::SoftirqEntry { number }),
            event(exit_ns, 0, Kind::SoftirqExit { number }),
        ]
    };
    let end_ns = DUE + 20 * MS + 1_000;
    // A flood in the same softirq.
    let rows = divided(on_the_way(), &moments(), &softirq(DUE + 5 * MS, end_ns, 3));
    let by = |name: &str| Some(named(name, "", 0, 0));
    let cause = Cause::Softirq {
        by: by("softirq NET_RX"),
    };
    assert_eq!((&rows[2].cause, rows[2].ns), (&cause, 15 * MS));
    // Another softirq before it.
    let events = [
        softirq(DUE + MS, DUE + 19 * MS, 6),
        softirq(DUE + 19 * MS, end_ns, 3),
    ];
    let mut events = events.concat();
    events[2].at_ns = DUE + 20 * MS - 10_000;
    let rows = divided(on_the_way(), &moments(), &events);
    let cause = Cause::Softirq {
        by: by("softirq TASKLET"),
    };
    assert_eq!((&rows[2].cause, rows[2].ns), (&cause, 18 * MS));
}

#[test]
fn who_ran_instead_of_the_sender_and_of_the_receiver_is_named() {
    let asleep = || Cause::NotScheduled { by: None };
    let made = bill(vec![
        row(Stage::Start, asleep(), 8 * MS),
        row(Stage::Way, Cause::Usual, MS),
        row(Stage::WakeUp, asleep(), 11 * MS),
    ]);
    let moments = Moments {
        call_ns: DUE + 8 * MS,
        call_end_ns: DUE + 8 * MS,
        sent_ns: Some(DUE + 8 * MS),
        received_ns: Some(DUE + 9 * MS),
        woke_ns: DUE + 20 * MS,
        ..moments()
    };
    let sender = task(SENDER, "send", 19, 1);
    let receiver = task(RECEIVER, "receive", 19, 1);
    let events = [
        switch(DUE - MS, 1, &idle(), &fifo_hog()),
        waking(DUE, SENDER),
        switch(DUE + 8 * MS, 1, &fifo_hog(), &sender),
        switch(DUE + 8 * MS + 500, 1, &sender, &hog()),
        waking(DUE + 9 * MS, RECEIVER),
        switch(DUE + 20 * MS, 1, &hog(), &receiver),
    ];
    let rows = divided(made, &moments, &events);
    let by = |it: &MessageRow| match &it.cause {
        Cause::NotScheduled { by } => by.as_ref().map(|it| it.task.clone()),
        _ => None,
    };
    assert_eq!(by(&rows[0]).as_deref(), Some("rt-hog"));
    assert_eq!(by(&rows[2]).as_deref(), Some("stress-ng"));
}

#[test]
fn lost_events_divide_nothing() {
    let mut bill = on_the_way();
    let events = [waking(DUE, 40)];
    assert!(!divide(&mut bill, &moments(), &events, 1));
    assert!(!divide(&mut bill, &moments(), &[], 0));
    assert_eq!(bill, on_the_way());
}

fn instants() -> impl Strategy<Value = u64> {
    prop_oneof![4 => DUE - MS..DUE + 30 * MS, 1 => any::<u64>()]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let tasks = (0u32..4, 0usize..3).prop_map(|(number, name)| {
        let name = ["napi/eth0-1", "ksoftirqd/0", "other"][name];
        task(10 + number, name, 120, 0)
    });
    let kind = prop_oneof![
        (10u32..14).prop_map(|tid| Kind::Waking { tid, by: None }),
        (tasks.clone(), any::<bool>(), tasks).prop_map(|(from, preempted, to)| Kind::Switch {
            from,
            from_state: 1,
            preempted,
            to,
        }),
        (0u32..12).prop_map(|number| Kind::SoftirqEntry { number }),
        (0u32..12).prop_map(|number| Kind::SoftirqExit { number }),
    ];
    let event = (instants(), 0u32..2, kind).prop_map(|(at_ns, cpu, kind)| event(at_ns, cpu, kind));
    proptest::collection::vec(event, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn rows_still_sum_whatever_the_events_are(
        events in events(),
        times in proptest::collection::vec(instants(), 6),
        rows in proptest::collection::vec(0usize..4, 1..4),
    ) {
        let moments = Moments {
            requested_ns: times[0],
            call_ns: times[1],
            call_end_ns: times[2],
            sent_ns: Some(times[3]),
            received_ns: Some(times[4]),
            woke_ns: times[5],
            sender: SENDER,
            receiver: RECEIVER,
        };
        let asleep = || Cause::NotScheduled { by: None };
        let of = |index: &usize| match index {
            0 => row(Stage::Start, asleep(), MS),
            1 => row(Stage::Way, Cause::Way, 10 * MS),
            2 => row(Stage::Receive, Cause::Softirq { by: None }, MS),
            _ => row(Stage::WakeUp, asleep(), 2 * MS),
        };
        let mut bill = bill(rows.iter().map(of).collect());
        divide(&mut bill, &moments, &events, 0);
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        prop_assert_eq!(sum, bill.latency_ns);
    }
}
