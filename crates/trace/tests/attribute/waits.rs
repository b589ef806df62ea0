//! Chains of waits: each hop a row, and rows sum.

use punctual_record::explanation::{Cause, Doing, WaitRow};
use punctual_record::watch::TickRow;
use punctual_trace::attribute::event::{Kind, Task, Vector};
use punctual_trace::attribute::waits::{Chain, chain, common_ns, tick};

use crate::build::{DUE, Made, idle, probe, task};

const US: i64 = 1_000;

/// A window in which the probe leaves CPU 1 for `then` at 0 and runs again at `to`.
fn waits(then: &Task, to: i64) -> Made {
    let mut made = crate::build::asleep(&idle(), 0);
    made.window.events.clear();
    made.window.waiting_ns = DUE;
    made.window.woken_ns = DUE + to.unsigned_abs();
    made.switch(-300 * US, &idle(), &probe());
    made.leaves(0, &probe(), 1, then);
    made
}

fn wakes(made: &mut Made, at: i64, tid: u32, by: Option<&Task>) {
    let by = by.cloned();
    made.at(at, Kind::Waking { tid, by });
}

fn of(made: &Made) -> Chain {
    let chain = chain(&made.window, 0);
    let sum: u64 = chain.rows.iter().map(|row| row.ns).sum();
    assert_eq!(sum, chain.to_ns - chain.from_ns, "{:#?}", chain.rows);
    chain
}

/// Depth, TID and ns of what a thread did.
fn row(chain: &Chain, tid: u32, is: impl Fn(&Doing) -> bool) -> Option<(u32, u64)> {
    let of_it = |row: &&WaitRow| row.thread.as_ref().is_some_and(|it| it.tid == tid);
    let row = chain.rows.iter().filter(of_it).find(|row| is(&row.doing))?;
    Some((row.depth, row.ns))
}

fn ran(chain: &Chain, tid: u32) -> Option<(u32, u64)> {
    row(chain, tid, |doing| *doing == Doing::Ran)
}

fn behind(tid: u32) -> impl Fn(&Doing) -> bool {
    move |doing| matches!(doing, Doing::Ready { behind: Some(it) } if it.tid == tid)
}

#[test]
fn a_pipe_of_three_processes_has_a_row_for_each() {
    let (second, third) = (task(201, "second", 120, 0), task(202, "third", 120, 0));
    let mut made = waits(&third, 1_000 * US);
    // The third computes for 700 µs and wakes the second, which computes for 250 and wakes the probe.
    wakes(&mut made, 700 * US, 201, Some(&third));
    made.leaves(710 * US, &third, 1, &second);
    wakes(&mut made, 960 * US, 100, Some(&second));
    made.switch(1_000 * US, &second, &probe());
    let chain = of(&made);
    assert_eq!((chain.from_ns, chain.to_ns), (DUE, DUE + 1_000_000));
    assert_eq!(chain.ended_by.as_deref(), Some("second"));
    assert_eq!(ran(&chain, 202), Some((2, 700_000)));
    assert_eq!(row(&chain, 201, behind(202)), Some((1, 10_000)));
    assert_eq!(ran(&chain, 201), Some((1, 250_000)));
    assert_eq!(row(&chain, 100, behind(201)), Some((0, 40_000)));
    assert_eq!(chain.rows.len(), 4);
    let depths: Vec<u32> = chain.rows.iter().map(|row| row.depth).collect();
    assert_eq!(depths, [0, 1, 1, 2]);
    let named = chain.rows[3].thread.as_ref().unwrap();
    assert_eq!(named.name.as_deref(), Some("third"));
    assert_eq!((named.policy.as_str(), named.ns), ("SCHED_OTHER", 700_000));
}

#[test]
fn a_preempted_holder_names_the_thread_that_preempts_it() {
    let (holder, hog) = (task(201, "holder", 89, 1), task(300, "hog", 49, 1));
    let mut made = waits(&holder, 9_000 * US);
    made.switch(1_000 * US, &holder, &hog);
    made.switch(8_000 * US, &hog, &holder);
    wakes(&mut made, 8_500 * US, 100, Some(&holder));
    made.switch(9_000 * US, &holder, &probe());
    let chain = of(&made);
    assert_eq!(row(&chain, 201, behind(300)), Some((1, 7_000_000)));
    assert_eq!(ran(&chain, 201), Some((1, 1_500_000)));
    let kept = chain
        .rows
        .iter()
        .find(|row| behind(300)(&row.doing))
        .unwrap();
    let Doing::Ready { behind: Some(by) } = &kept.doing else {
        panic!("{kept:?}");
    };
    assert_eq!((by.policy.as_str(), by.priority), ("SCHED_FIFO", 50));
    assert_eq!(by.name.as_deref(), Some("hog"));
}

#[test]
fn time_before_the_wait_is_in_no_row() {
    let (second, third) = (task(201, "second", 120, 0), task(202, "third", 120, 0));
    let mut made = waits(&idle(), 500 * US);
    // The second slept for the third long before the probe waited for it.
    made.on(2);
    made.leaves(-200 * US, &second, 1, &third);
    wakes(&mut made, 300 * US, 201, Some(&third));
    made.leaves(310 * US, &third, 1, &second);
    wakes(&mut made, 490 * US, 100, Some(&second));
    made.on(1).switch(500 * US, &idle(), &probe());
    let chain = of(&made);
    assert_eq!(ran(&chain, 202), Some((2, 300_000)), "{:#?}", chain.rows);
    assert_eq!(ran(&chain, 201), Some((1, 180_000)));
}

#[test]
fn a_sleep_ended_by_a_timer_is_distinguished_from_one_ended_by_a_device() {
    let (second, third) = (task(201, "second", 120, 0), task(202, "third", 120, 0));
    let mut made = waits(&idle(), 1_000 * US);
    made.on(2);
    made.leaves(-100 * US, &third, 1, &idle());
    // A disk wakes the third at 400 µs; its work takes 100 µs, and then the second waits for its
    // own timer.
    made.at(
        395 * US,
        Kind::HandlerEntry {
            irq: 36,
            name: "virtio1".to_owned(),
        },
    );
    wakes(&mut made, 400 * US, 202, None);
    made.at(405 * US, Kind::HandlerExit { irq: 36 });
    made.switch(410 * US, &idle(), &third);
    wakes(&mut made, 500 * US, 201, Some(&third));
    made.leaves(510 * US, &third, 1, &second);
    made.leaves(520 * US, &second, 1, &idle());
    made.irq(898 * US, Vector::LocalTimer);
    made.callback(899 * US);
    wakes(&mut made, 900 * US, 201, None);
    made.irq_exit(902 * US, Vector::LocalTimer);
    made.switch(910 * US, &idle(), &second);
    wakes(&mut made, 990 * US, 100, Some(&second));
    made.on(1).switch(1_000 * US, &idle(), &probe());
    let chain = of(&made);
    let disk = |doing: &Doing| {
        matches!(
            doing,
            Doing::Device {
                cause: Cause::Interrupt { irq: 36, .. }
            }
        )
    };
    assert_eq!(
        row(&chain, 202, disk),
        Some((2, 400_000)),
        "{:#?}",
        chain.rows
    );
    assert_eq!(ran(&chain, 202), Some((2, 90_000)));
    let slept = row(&chain, 201, |doing| *doing == Doing::Timer);
    assert_eq!(slept, Some((1, 380_000)));
}

#[test]
fn an_interrupt_over_the_awaited_thread_has_its_own_row() {
    let second = task(201, "second", 120, 0);
    let mut made = waits(&second, 500 * US);
    made.irq(100 * US, Vector::LocalTimer);
    made.irq_exit(160 * US, Vector::LocalTimer);
    wakes(&mut made, 490 * US, 100, Some(&second));
    made.switch(500 * US, &second, &probe());
    let chain = of(&made);
    assert_eq!(ran(&chain, 201), Some((1, 430_000)));
    let over = row(&chain, 201, |doing| {
        matches!(doing, Doing::Interrupted { .. })
    });
    assert_eq!(over, Some((1, 60_000)));
}

#[test]
fn data_of_another_process_is_billed_to_the_sender_and_data_of_a_card_is_not() {
    let sender = task(201, "sender", 120, 0);
    for from_card in [false, true] {
        let mut made = waits(&sender, 500 * US);
        if from_card {
            made.irq(470 * US, Vector::Other(40));
            made.irq_exit(479 * US, Vector::Other(40));
        }
        made.at(480 * US, Kind::SoftirqEntry { number: 3 });
        wakes(&mut made, 485 * US, 100, None);
        made.at(490 * US, Kind::SoftirqExit { number: 3 });
        made.switch(500 * US, &sender, &probe());
        let chain = of(&made);
        let device = row(&chain, 100, |doing| matches!(doing, Doing::Device { .. }));
        if from_card {
            assert_eq!((device, &chain.ended_by), (Some((0, 485_000)), &None));
        } else {
            assert_eq!((device, chain.ended_by.as_deref()), (None, Some("sender")));
            assert_eq!(ran(&chain, 201), Some((1, 480_000)));
        }
    }
}

#[test]
fn two_threads_that_wake_each_other_are_followed_to_an_end() {
    let (second, third) = (task(201, "second", 120, 0), task(202, "third", 120, 0));
    let mut made = waits(&second, 100_000 * US);
    let mut pair = [&second, &third];
    for turn in 0..9_999 {
        let at = (turn + 1) * 10 * US;
        wakes(&mut made, at - 2 * US, pair[1].tid, Some(pair[0]));
        made.leaves(at, pair[0], 1, pair[1]);
        pair.swap(0, 1);
    }
    wakes(&mut made, 99_995 * US, 100, Some(pair[0]));
    made.switch(100_000 * US, pair[0], &probe());
    let chain = of(&made);
    // Each pings for 10 µs while the other sleeps.
    for tid in [201, 202] {
        let (_, ns) = ran(&chain, tid).unwrap();
        assert!((35_000_000..=51_000_000).contains(&ns), "{:#?}", chain.rows);
    }
    assert!(row(&chain, 201, |doing| *doing == Doing::Unseen).is_none());
}

#[test]
fn a_thread_may_be_woken_while_going_to_sleep_or_without_a_record() {
    let second = task(201, "second", 120, 0);
    let mut made = waits(&idle(), 500 * US);
    made.on(2).switch(-100 * US, &idle(), &second);
    // The waking was recorded 2 µs before the switch away.
    wakes(&mut made, -2 * US, 100, Some(&second));
    made.on(1).switch(500 * US, &idle(), &probe());
    let chain = of(&made);
    let idle_cpu = row(&chain, 100, |doing| *doing == Doing::Ready { behind: None });
    assert_eq!(idle_cpu, Some((0, 500_000)), "{:#?}", chain.rows);

    let mut made = waits(&idle(), 500 * US);
    made.switch(500 * US, &idle(), &probe());
    let chain = of(&made);
    let unseen = row(&chain, 100, |doing| *doing == Doing::Unseen);
    assert_eq!(unseen, Some((0, 500_000)));
}

#[test]
fn an_earlier_waking_does_not_end_a_later_sleep() {
    let second = task(201, "second", 120, 0);
    let mut made = waits(&idle(), 500 * US);
    made.on(2).switch(-100 * US, &idle(), &second);
    // It was still awake, and that waking ended no sleep; then it sleeps.
    wakes(&mut made, -50 * US, 100, Some(&second));
    wakes(&mut made, 450 * US, 100, Some(&second));
    made.on(1).switch(500 * US, &idle(), &probe());
    let chain = of(&made);
    assert_eq!(ran(&chain, 201), Some((1, 450_000)), "{:#?}", chain.rows);
    assert_eq!(chain.ended_by.as_deref(), Some("second"));
}

#[test]
fn before_the_known_events_no_thread_is_blamed() {
    let second = task(201, "second", 120, 0);
    let mut made = waits(&second, 500 * US);
    wakes(&mut made, 490 * US, 100, Some(&second));
    made.switch(500 * US, &second, &probe());
    let chain = chain(&made.window, DUE + 200_000);
    let unseen = row(&chain, 100, |doing| *doing == Doing::Unseen);
    assert_eq!(unseen, Some((0, 200_000)));
    assert_eq!(ran(&chain, 201), Some((1, 290_000)));
}

#[test]
fn a_ticks_rows_stand_apart_by_pause_and_name_who_had_the_cpu_of_the_thread_that_ran_it() {
    let (vm, hog) = (task(201, "VM Thread", 120, 0), task(300, "hog", 49, 1));
    let mut made = waits(&vm, 9_000 * US);
    // A pause from before the instant to 8 ms: the VM thread runs, waits 5 ms behind the hog, runs on.
    made.switch(1_000 * US, &vm, &hog);
    made.switch(6_000 * US, &hog, &vm);
    wakes(&mut made, 7_900 * US, 100, Some(&vm));
    made.switch(9_000 * US, &vm, &probe());
    let pauses = [(DUE - 700_000, DUE + 8_000_000)];
    let rows = tick(&made.window, 0, &pauses);
    let ns = |paused, tid, is: &dyn Fn(&Doing) -> bool| {
        let of_it = |it: &&TickRow| {
            let thread = it.row.thread.as_ref().expect("a thread");
            (it.paused, thread.tid) == (paused, tid) && is(&it.row.doing)
        };
        let found: Vec<u64> = rows.iter().filter(of_it).map(|it| it.row.ns).collect();
        found.iter().sum::<u64>()
    };
    let ran = |doing: &Doing| *doing == Doing::Ran;
    assert_eq!(ns(true, 201, &behind(300)), 5_000_000);
    assert_eq!(ns(true, 201, &ran), 1_000_000 + 1_900_000);
    // It was ready from 7.9 to 9 ms: 0.1 of it in the pause.
    assert_eq!(ns(true, 100, &behind(201)), 100_000);
    assert_eq!(ns(false, 100, &behind(201)), 1_000_000);
    let sum: u64 = rows.iter().map(|it| it.row.ns).sum();
    assert_eq!(sum, 9_000_000);
    let paused: u64 = rows.iter().filter(|it| it.paused).map(|it| it.row.ns).sum();
    assert_eq!(paused, common_ns((DUE, DUE + 9_000_000), &pauses));
}

#[test]
fn the_rows_of_a_tick_sum_to_it_whatever_the_pauses_and_events_are() {
    for pauses in [
        &[][..],
        &[(0, u64::MAX)],
        &[(DUE, DUE)],
        &[(0, 1), (DUE + 100, DUE + 200), (u64::MAX - 1, u64::MAX)],
    ] {
        for (known, to) in [(0, 500 * US), (u64::MAX, 500 * US), (DUE + 150, 1), (0, 0)] {
            let made = waits(&idle(), to);
            let rows = tick(&made.window, known, pauses);
            let sum: u64 = rows.iter().map(|it| it.row.ns).sum();
            assert_eq!(sum, to.unsigned_abs(), "{pauses:?} {known}");
            let paused: u64 = rows.iter().filter(|it| it.paused).map(|it| it.row.ns).sum();
            assert_eq!(paused, common_ns((DUE, DUE + to.unsigned_abs()), pauses));
        }
    }
}
