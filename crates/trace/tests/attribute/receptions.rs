//! What kept a packet from its time stamp, by events made by hand.

use proptest::prelude::*;
use punctual_record::path::bill::MessageCause as Cause;
use punctual_trace::attribute::event::{Event, Kind, Task};
use punctual_trace::attribute::message::received_late;

use crate::build::{idle, task};
use crate::messages::{
    DUE, MS, Recorded, events, fifo_hog, instants, named, recorded, softirq, switch, waking,
};

const US: u64 = 1_000;
/// The time stamp of the packet.
const RECEIVED: u64 = DUE + 20 * MS;
/// Of thread 77, which has the CPU until then.
const FROM: u64 = RECEIVED - 10 * US;

/// What kept the packet, that came at `since_ns` at the earliest, and for how long.
fn found(since_ns: u64, recorded: &mut Recorded<'_>) -> Option<(Cause, u64)> {
    received_late(since_ns, RECEIVED, recorded)
}

/// By whom, and for how long.
fn hogged(since_ns: u64, events: &[Event]) -> Option<(String, u64)> {
    match found(since_ns, &mut recorded(events))? {
        (Cause::NapiThread { thread, by }, ns) => {
            assert_eq!(by, Some(named("rt-hog", "SCHED_FIFO", 90, 77)));
            Some((thread.task, ns))
        }
        other => panic!("{other:?}"),
    }
}

fn napi() -> Task {
    task(40, "napi/eth0-7", 120, 0)
}

/// Ready since the first instant, below the hog until the second, asleep at the third.
fn waited(thread: &Task, ready_ns: u64, ran_ns: u64, slept_ns: u64) -> Vec<Event> {
    vec![
        switch(DUE - MS, 1, &idle(), &fifo_hog()),
        waking(ready_ns, thread.tid),
        switch(ran_ns, 1, &fifo_hog(), thread),
        switch(slept_ns, 1, thread, &idle()),
    ]
}

#[test]
fn the_wait_of_the_thread_that_receives_is_the_most_that_a_packet_waited() {
    let events = waited(&napi(), DUE + 5 * MS, FROM, RECEIVED + 20 * US);
    let whole = Some(("napi/eth0-7".to_owned(), 15 * MS - 10 * US));
    assert_eq!(hogged(DUE, &events), whole);
    // It came during the wait at the earliest.
    let part = Some(("napi/eth0-7".to_owned(), 3 * MS - 10 * US));
    assert_eq!(hogged(RECEIVED - 3 * MS, &events), part);
    assert_eq!(hogged(RECEIVED - 50 * US, &events), None);
    let short = waited(&napi(), FROM - 50 * US, FROM, RECEIVED + 20 * US);
    assert_eq!(hogged(DUE, &short), None);
}

#[test]
fn a_wait_that_had_ended_is_no_cause() {
    // The thread has received others since, without a pause: this packet may be the last of them.
    let ran_ns = RECEIVED - 1_900 * US;
    let busy = waited(&napi(), DUE, ran_ns, RECEIVED + 20 * US);
    assert_eq!(hogged(DUE, &busy).map(|it| it.1), Some(ran_ns - DUE));
    let ran_ns = RECEIVED - 2_100 * US;
    let long_ago = waited(&napi(), DUE, ran_ns, RECEIVED + 20 * US);
    assert_eq!(hogged(DUE, &long_ago), None);
    // It had received everything: this packet came later, and it ran at once.
    let ran_ns = RECEIVED - 900 * US;
    let mut done = waited(&napi(), DUE, ran_ns, ran_ns + 30 * US);
    done.push(waking(RECEIVED - 5 * US, 40));
    done.push(switch(RECEIVED - 3 * US, 1, &idle(), &napi()));
    done.push(switch(RECEIVED + 20 * US, 1, &napi(), &idle()));
    assert_eq!(hogged(DUE, &done), None);
}

#[test]
fn a_thread_that_was_preempted_still_had_to_receive_what_it_waited_for() {
    let preempted = |at_ns| {
        let kind = Kind::Switch {
            from: napi(),
            from_state: 0,
            preempted: true,
            to: fifo_hog(),
        };
        Event {
            at_ns,
            cpu: 1,
            kind,
        }
    };
    let ran_ns = RECEIVED - 500 * US;
    let mut events = waited(&napi(), DUE + MS, ran_ns, RECEIVED + 20 * US);
    events.insert(3, preempted(ran_ns + 20 * US));
    events.insert(4, switch(FROM, 1, &fifo_hog(), &napi()));
    assert_eq!(hogged(DUE, &events).map(|it| it.1), Some(ran_ns - DUE - MS));
}

#[test]
fn the_thread_of_another_device_is_no_cause_where_that_of_the_device_ran() {
    let events = waited(&napi(), DUE, FROM, RECEIVED + 20 * US);
    let of_device = |events: &[Event], device: &'static str| {
        let mut recorded = recorded(events);
        recorded.device = Some(device);
        found(DUE, &mut recorded).map(|(_, ns)| ns)
    };
    assert_eq!(of_device(&events, "eth0"), Some(FROM - DUE));
    // A bridge, whose lower device has the thread, or softirqs.
    assert_eq!(of_device(&events, "br0"), Some(FROM - DUE));
    let own = task(41, "napi/eth1-9", 120, 0);
    let ran = [
        waking(RECEIVED - 5 * US, 41),
        switch(RECEIVED - 3 * US, 0, &idle(), &own),
        switch(RECEIVED + 5 * US, 0, &own, &idle()),
    ];
    let both = [&events[..], &ran[..]].concat();
    assert_eq!(of_device(&both, "eth1"), None);
    assert_eq!(of_device(&both, "eth0"), Some(FROM - DUE));
    // The kernel keeps 15 characters of a name.
    let cut = task(42, "napi/enp134s0f0", 120, 0);
    let cut = waited(&cut, DUE, FROM, RECEIVED + 20 * US);
    assert_eq!(of_device(&cut, "enp134s0f0np0"), Some(FROM - DUE));
}

#[test]
fn ksoftirqd_is_a_cause_where_it_received_and_no_thread_of_napi_waited() {
    let ksoftirqd = task(12, "ksoftirqd/1", 120, 0);
    let waited_for = waited(&ksoftirqd, DUE, FROM, RECEIVED + 20 * US);
    let with = |number| {
        let mut events = waited_for.clone();
        let mut ran = softirq(FROM + US, RECEIVED + 10 * US, number);
        ran.iter_mut().for_each(|event| event.cpu = 1);
        events.extend(ran);
        events
    };
    let whole = Some(("ksoftirqd/1".to_owned(), FROM - DUE));
    assert_eq!(hogged(DUE, &with(3)), whole);
    // For timers.
    assert_eq!(hogged(DUE, &with(1)), None);
    // Of both the thread of NAPI is the one that receives.
    let napi = waited(&napi(), DUE + 10 * MS, FROM + 2 * US, RECEIVED + 20 * US);
    let both = [with(3), napi[1..].to_vec()].concat();
    let thread = hogged(DUE, &both).map(|it| it.0);
    assert_eq!(thread.as_deref(), Some("napi/eth0-7"));
}

#[test]
fn softirqs_are_a_cause_as_long_as_they_are_busy_without_a_pause() {
    let by = |number: &str| Cause::Softirq {
        by: Some(named(number, "", 0, 0)),
    };
    let of = |parts: &[[Event; 2]]| found(DUE, &mut recorded(&parts.concat()));
    // Each packet of a usual load takes 20 us, and there are 10 a ms.
    let usual = |at: u64| softirq(DUE + at * 100 * US, DUE + at * 100 * US + 20 * US, 3);
    let mut load: Vec<[Event; 2]> = (0..200).map(usual).collect();
    load.push(softirq(RECEIVED - 5 * US, RECEIVED + 5 * US, 3));
    assert_eq!(of(&load), None);
    // What came before the packet had been received waits no longer.
    let last = softirq(RECEIVED - 5 * US, RECEIVED + 5 * US, 3);
    let block = softirq(DUE + 5 * MS, RECEIVED - 10 * US, 8);
    let blocked = Some((by("softirq HRTIMER"), 15 * MS - 10 * US));
    assert_eq!(of(&[block, last.clone()]), blocked);
    // ksoftirqd goes on after its wait.
    let ksoftirqd = task(12, "ksoftirqd/0", 120, 0);
    let mut parts = vec![
        softirq(DUE, DUE + 12 * MS, 3),
        [
            waking(DUE + 12 * MS - US, 12),
            switch(DUE + 16 * MS, 0, &fifo_hog(), &ksoftirqd),
        ],
        softirq(DUE + 16 * MS + US, RECEIVED + 5 * US, 3),
    ];
    let whole = Some((by("softirq NET_RX"), 16 * MS - US));
    assert_eq!(of(&parts), whole);
    // On another CPU it is another's.
    parts[1][1].cpu = 1;
    assert_eq!(of(&parts), Some((by("softirq NET_RX"), 4 * MS - US)));
}

#[test]
fn where_events_are_lost_nothing_is_a_cause() {
    let events = waited(&napi(), DUE, FROM, RECEIVED + 20 * US);
    let mut lost = recorded(&events);
    lost.lost = 1;
    assert_eq!(found(DUE, &mut lost), None);
    assert_eq!(found(DUE, &mut recorded(&[])), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_packet_waited_longer_than_since_it_came(
        events in events(),
        since_ns in instants(),
        received_ns in instants(),
    ) {
        if let Some((_, ns)) = received_late(since_ns, received_ns, &mut recorded(&events)) {
            prop_assert!(ns > 50 * US && ns <= received_ns.saturating_sub(since_ns));
        }
    }
}
