//! Bills of late messages, divided by events made by hand.

use proptest::prelude::*;
use punctual_record::path::bill::{
    Certainty, MessageBill, MessageCause as Cause, MessageRow, MessageStage as Stage, Runner,
};
use punctual_trace::attribute::event::{Event, Kind, Task, Window};
use punctual_trace::attribute::message::{Activity, Moments, Recording, divide};

use crate::build::{KERNEL, USER, asleep, hog, idle, probe, task};

pub const MS: u64 = 1_000_000;
pub const DUE: u64 = 1_000 * MS;
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
        sent_ns: Some(DUE),
        received_ns: Some(DUE + 20 * MS),
        woke_ns: DUE + 20 * MS,
        read_with_later: false,
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

pub fn switch(at_ns: u64, cpu: u32, from: &Task, to: &Task) -> Event {
    let kind = Kind::Switch {
        from: from.clone(),
        from_state: 1,
        preempted: false,
        to: to.clone(),
    };
    event(at_ns, cpu, kind)
}

pub fn waking(at_ns: u64, tid: u32) -> Event {
    event(at_ns, 0, Kind::Waking { tid, by: None })
}

pub fn softirq(entry_ns: u64, exit_ns: u64, number: u32) -> [Event; 2] {
    [
        event(entry_ns, 0, Kind::SoftirqEntry { number }),
        event(exit_ns, 0, Kind::SoftirqExit { number }),
    ]
}

pub fn fifo_hog() -> Task {
    task(77, "rt-hog", 9, 1)
}

pub fn named(task: &str, policy: &str, priority: u32, tid: u32) -> Runner {
    Runner {
        task: task.to_owned(),
        policy: policy.to_owned(),
        priority,
        tid,
    }
}

/// All events are known, or some were lost.
pub struct Recorded<'a> {
    events: &'a [Event],
    pub lost: u64,
    pub device: Option<&'a str>,
    activity: Option<Activity>,
}

pub fn recorded(events: &[Event]) -> Recorded<'_> {
    Recorded {
        events,
        lost: 0,
        device: None,
        activity: None,
    }
}

impl Recorded<'_> {
    /// On the CPU where the thread began to run.
    fn window(&self, tid: u32, due_ns: u64, woken_ns: u64) -> Option<Window> {
        let came = self.events.iter().find_map(|event| match &event.kind {
            Kind::Switch { to, .. } if to.tid == tid => Some((event.cpu, to.clone())),
            _ => None,
        });
        let (cpu, probe) = came.unwrap_or_else(|| (1, task(tid, "ours", 19, 1)));
        let made = asleep(&hog(), 0).window;
        Some(Window {
            cpu,
            probe,
            waiting_ns: due_ns,
            due_ns,
            woken_ns,
            lost: self.lost,
            // Of other CPUs only the waking is part of it.
            events: self
                .events
                .iter()
                .filter(|event| event.cpu == cpu || matches!(event.kind, Kind::Waking { .. }))
                .cloned()
                .collect(),
            ..made
        })
    }
}

impl Recording for Recorded<'_> {
    fn wake_up(&self, tid: u32, due_ns: u64, woken_ns: u64) -> Option<Window> {
        self.window(tid, due_ns, woken_ns)
    }

    fn call(&self, tid: u32, from_ns: u64, to_ns: u64) -> Option<Window> {
        let window = self.window(tid, from_ns, to_ns)?;
        Some(Window {
            gap: true,
            job: true,
            ..window
        })
    }

    fn activity(&mut self, _: u64, _: u64) -> Option<&Activity> {
        let activity = Activity::of(self.events);
        let known = self.lost == 0 && !self.events.is_empty();
        known.then(|| &*self.activity.insert(activity))
    }

    fn device(&self) -> Option<&str> {
        self.device
    }
}

fn divided(mut bill: MessageBill, moments: &Moments, events: &[Event]) -> Vec<MessageRow> {
    let before: u64 = bill.rows.iter().map(|row| row.ns).sum();
    assert!(divide(&mut bill, moments, &mut recorded(events)));
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
    let rows = divided(on_the_way(), &moments(), &events.concat());
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

/// Received at once, and read 19 ms later.
fn read_late() -> (MessageBill, Moments) {
    let asleep = Cause::NotScheduled { by: None };
    let made = bill(vec![
        row(Stage::Way, Cause::Usual, MS),
        row(Stage::WakeUp, asleep, 19 * MS + 10_000),
    ]);
    let moments = Moments {
        received_ns: Some(DUE + MS),
        woke_ns: DUE + 20 * MS + 10_000,
        ..moments()
    };
    (made, moments)
}

#[test]
fn a_thread_that_nothing_had_woken_was_not_in_the_way() {
    let receiver = task(RECEIVER, "receive", 19, 1);
    // The reply has its time stamp, and waits in the queue of CPU 2, behind a packet that takes long.
    let (made, moments) = read_late();
    let slept = switch(DUE - MS, 1, &receiver, &idle());
    let mut events = softirq(DUE, DUE + 21 * MS, 3).to_vec();
    events.push(slept.clone());
    events.push(waking(DUE + 20 * MS, RECEIVER));
    events.push(switch(DUE + 20 * MS + 5_000, 1, &idle(), &receiver));
    events.sort_by_key(|event| event.at_ns);
    let rows = divided(made.clone(), &moments, &events);
    let by = Some(named("softirq NET_RX", "", 0, 0));
    let of_softirq = |it: &&MessageRow| it.cause == Cause::Softirq { by: by.clone() };
    let kept = rows.iter().find(of_softirq);
    let kept = kept.unwrap_or_else(|| panic!("{rows:#?}"));
    assert_eq!(kept.stage, Stage::Receive);
    assert!(kept.ns > 18 * MS, "{rows:?}");
    // Without a softirq that was busy nobody is blamed.
    let quiet = [
        slept,
        waking(DUE + 20 * MS, RECEIVER),
        switch(DUE + 20 * MS + 5_000, 1, &idle(), &receiver),
    ];
    let rows = divided(made, &moments, &quiet);
    let unknown = |it: &&MessageRow| it.cause == Cause::Unexplained;
    let ns = rows.iter().find(unknown).map(|row| row.ns);
    assert!(ns.is_some_and(|ns| ns > 18 * MS), "{rows:?}");
    let blamed = |it: &MessageRow| matches!(it.cause, Cause::NotScheduled { .. });
    assert!(!rows.iter().any(blamed), "{rows:?}");
}

/// A wake-up that is known, and nothing else.
struct Known(Window);

impl Recording for Known {
    fn wake_up(&self, _: u32, _: u64, _: u64) -> Option<Window> {
        Some(self.0.clone())
    }

    fn call(&self, _: u32, _: u64, _: u64) -> Option<Window> {
        None
    }

    fn activity(&mut self, _: u64, _: u64) -> Option<&Activity> {
        None
    }
}

#[test]
fn what_is_no_thread_is_named_too() {
    const LATENCY: u64 = 600_000;
    let mut called = asleep(&hog(), LATENCY);
    called.called();
    // The account of stolen time rose meanwhile.
    let mut stolen = asleep(&hog(), LATENCY);
    stolen
        .at(-600_000, Kind::Stolen { total_ns: 0 })
        .timer(590_000, 593_000, USER)
        .switch(595_000, &hog(), &probe())
        .at(700_000, Kind::Stolen { total_ns: 550_000 });
    let mut interrupted = asleep(&hog(), LATENCY);
    let name = "eth0".to_owned();
    interrupted
        .at(-10_000, Kind::HandlerEntry { irq: 24, name })
        .at(580_000, Kind::HandlerExit { irq: 24 })
        .timer(584_200, 587_000, KERNEL)
        .switch(590_000, &hog(), &probe());
    for (made, expected) in [
        (called, "IPI: do_flush_tlb_all"),
        (stolen, "hypervisor"),
        (interrupted, "interrupt 24 (eth0)"),
    ] {
        let asleep = Cause::NotScheduled { by: None };
        let mut bill = bill(vec![
            row(Stage::Start, asleep, LATENCY),
            row(Stage::Way, Cause::Usual, MS),
        ]);
        assert!(divide(&mut bill, &moments(), &mut Known(made.window)));
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, bill.latency_ns);
        let by = Some(named(expected, "", 0, 0));
        let of_it = |it: &&MessageRow| it.cause == Cause::NotScheduled { by: by.clone() };
        let ns = bill.rows.iter().find(of_it).map(|row| row.ns);
        assert!(ns.is_some_and(|ns| ns > 500_000), "{expected}: {bill:#?}");
        // The way of every wake-up is no cause.
        let usual = bill
            .rows
            .iter()
            .any(|it| it.stage == Stage::Start && it.cause == Cause::Usual);
        assert!(usual, "{expected}: {bill:#?}");
    }
}

#[test]
fn a_thread_that_was_ready_before_the_events_waited_from_their_beginning() {
    let napi = task(40, "napi/eth0-7", 120, 0);
    let events = [
        switch(DUE, 1, &idle(), &fifo_hog()),
        switch(DUE + 19 * MS, 1, &fifo_hog(), &napi),
        switch(DUE + 21 * MS, 1, &napi, &idle()),
    ];
    let rows = divided(on_the_way(), &moments(), &events);
    let of_hog = |it: &MessageRow| match &it.cause {
        Cause::NapiThread { by, .. } => by.as_ref().is_some_and(|by| by.task == "rt-hog"),
        _ => false,
    };
    let ns = rows.iter().find(|it| of_hog(it)).map(|it| it.ns);
    assert_eq!(ns, Some(19 * MS), "{rows:#?}");
    // One that had left, and whose waking is not known, was ready at an unknown instant.
    let left = switch(DUE - MS, 1, &napi, &idle());
    let events = [&[left][..], &events[..]].concat();
    assert_eq!(
        divided(on_the_way(), &moments(), &events),
        on_the_way().rows
    );
}

/// The time stamp is that of the last reply: those before it waited for the thread, too.
#[test]
fn a_reply_that_was_read_with_later_ones_waited_for_the_thread_while_that_was_ready() {
    let receiver = task(RECEIVER, "receive", 19, 1);
    let events = [
        switch(DUE - MS, 1, &receiver, &fifo_hog()),
        // An earlier reply.
        waking(DUE + 4 * MS, RECEIVER),
        switch(DUE + 20 * MS - 1_000, 1, &fifo_hog(), &receiver),
    ];
    let own = moments();
    assert_eq!(divided(on_the_way(), &own, &events), on_the_way().rows);
    let later = Moments {
        read_with_later: true,
        ..own
    };
    let rows = divided(on_the_way(), &later, &events);
    let by = Some(named("rt-hog", "SCHED_FIFO", 90, 77));
    let of_hog = |it: &&MessageRow| it.cause == Cause::NotScheduled { by: by.clone() };
    let hog = rows.iter().find(of_hog).expect("the hog");
    assert_eq!(
        (hog.stage, hog.certainty),
        (Stage::WakeUp, Certainty::Likely)
    );
    assert_eq!(hog.ns, 16 * MS - 1_000, "{rows:#?}");
}

#[test]
fn lost_events_divide_nothing() {
    let mut bill = on_the_way();
    let events = [waking(DUE, 40)];
    let mut lost = Recorded {
        lost: 1,
        ..recorded(&events)
    };
    assert!(!divide(&mut bill, &moments(), &mut lost));
    assert!(!divide(&mut bill, &moments(), &mut recorded(&[])));
    assert_eq!(bill, on_the_way());
    let asleep = vec![row(Stage::Start, Cause::NotScheduled { by: None }, 20 * MS)];
    let mut bill = self::bill(asleep.clone());
    assert!(!divide(&mut bill, &moments(), &mut lost));
    assert_eq!(bill.rows, asleep);
}

pub fn instants() -> impl Strategy<Value = u64> {
    prop_oneof![4 => DUE - MS..DUE + 30 * MS, 1 => any::<u64>()]
}

pub fn events() -> impl Strategy<Value = Vec<Event>> {
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
        times in proptest::collection::vec(instants(), 5),
        rows in proptest::collection::vec(0usize..6, 1..5),
        together in any::<bool>(),
    ) {
        let moments = Moments {
            requested_ns: times[0],
            call_ns: times[1],
            sent_ns: Some(times[2]),
            received_ns: Some(times[3]),
            woke_ns: times[4],
            read_with_later: together,
            sender: SENDER,
            receiver: RECEIVER,
        };
        let asleep = || Cause::NotScheduled { by: None };
        let of = |index: &usize| match index {
            0 => row(Stage::Start, asleep(), MS),
            4 => row(Stage::Send, asleep(), 3 * MS),
            5 => row(Stage::Queue, asleep(), 3 * MS),
            1 => row(Stage::Way, Cause::Way, 10 * MS),
            2 => row(Stage::Receive, Cause::Softirq { by: None }, MS),
            _ => row(Stage::WakeUp, asleep(), 2 * MS),
        };
        let mut bill = bill(rows.iter().map(of).collect());
        divide(&mut bill, &moments, &mut recorded(&events));
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        prop_assert_eq!(sum, bill.latency_ns);
    }
}
