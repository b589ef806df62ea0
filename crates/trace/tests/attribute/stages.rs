//! Stages: where each begins and ends, and what happens if one does not exist.

use punctual_trace::attribute::Stage::{Callback, Exit, Interrupt, Switch, User, Waking};
use punctual_trace::attribute::event::{Kind, Vector};
use punctual_trace::attribute::{Cause, Instants, StageTimes};

use super::build::*;

#[test]
fn an_undisturbed_wake_up_from_idle_has_all_its_stages() {
    let mut made = asleep(&idle(), 9_000);
    made.at(-499_000, Kind::Idle { state: Some(2) })
        .timer(1_200, 4_000, KERNEL)
        .at(4_500, Kind::Idle { state: None })
        .switch(6_000, &idle(), &probe());
    assert_eq!(
        made.bill().stages.ns,
        [
            Some(1_200),
            Some(1_000),
            Some(300),
            Some(1_500),
            Some(2_000),
            Some(3_000)
        ]
    );
    let from_idle = Cause::IdleExit { state: Some(2) };
    assert_eq!(
        made.rows(),
        [
            (Interrupt, from_idle.clone(), 1_200),
            (Callback, Cause::WakePath, 1_000),
            (Waking, Cause::WakePath, 300),
            (Exit, Cause::WakePath, 1_500),
            (Switch, from_idle, 2_000),
            (User, Cause::WakePath, 3_000),
        ]
    );
}

#[test]
fn a_timer_that_expires_in_a_running_interrupt_has_no_first_stage() {
    let mut made = asleep(&hog(), 9_000);
    made.irq(-2_000, Vector::LocalTimer)
        .at(
            -1_500,
            Kind::TimerExpire {
                timer: 1,
                function: 0xa0,
                expires_ns: DUE - 3_000,
                of_probe: false,
            },
        )
        .at(500, Kind::TimerDone { timer: 1 })
        .callback(700)
        .at(900, Kind::Waking { tid: 100, by: None })
        .irq_exit(2_000, Vector::LocalTimer)
        .switch(3_000, &hog(), &probe());
    assert_eq!(
        made.bill().stages.ns,
        [
            Some(0),
            Some(700),
            Some(200),
            Some(1_100),
            Some(1_000),
            Some(6_000)
        ]
    );
    assert_eq!(
        made.rows()[..2],
        [
            (
                Callback,
                Cause::TimerCallback {
                    function: "tick_nohz_handler".to_owned()
                },
                500
            ),
            (Callback, Cause::WakePath, 200),
        ]
    );
}

#[test]
fn a_wake_up_by_another_thread_has_no_timer_stages() {
    let waker = task(300, "sender", 29, 1);
    let mut made = asleep(&idle(), 12_000);
    made.on(0)
        .switch(-400_000, &hog(), &waker)
        .at(3_000, Kind::Waking { tid: 100, by: None })
        .switch(900_000, &waker, &hog())
        .on(CPU)
        .irq(5_000, Vector::Reschedule)
        .irq_exit(6_000, Vector::Reschedule)
        .switch(8_000, &idle(), &probe());
    assert_eq!(
        made.bill().stages.ns,
        [None, None, Some(3_000), None, Some(5_000), Some(4_000)]
    );
    let task = "sender".to_owned();
    assert_eq!(
        made.rows(),
        [
            (Waking, Cause::Waker { task }, 3_000),
            (Switch, Cause::IdleExit { state: None }, 4_000),
            (Switch, Cause::WakePath, 1_000),
            (User, Cause::WakePath, 4_000),
        ]
    );
}

#[test]
fn a_timer_on_another_cpu_is_followed_there() {
    let mut made = asleep(&hog(), 20_000);
    made.on(0)
        .switch(-400_000, &hog(), &idle())
        .timer(5_000, 8_000, USER)
        .on(CPU)
        .irq(9_000, Vector::Reschedule)
        .irq_exit(10_000, Vector::Reschedule)
        .switch(12_000, &hog(), &probe());
    assert_eq!(
        made.bill().stages.ns,
        [
            Some(5_000),
            Some(1_000),
            Some(300),
            None,
            Some(5_700),
            Some(8_000)
        ]
    );
    assert_eq!(made.rows()[0], (Interrupt, Cause::Platform, 5_000));
}

#[test]
fn an_early_or_punctual_wake_up_has_an_empty_bill() {
    for latency in [0i64, -5_000] {
        let mut made = asleep(&idle(), 0);
        made.window.woken_ns = DUE.checked_add_signed(latency).unwrap();
        made.timer(-20_000, -10_000, None)
            .switch(-8_000, &idle(), &probe());
        let bill = made.bill();
        assert_eq!((bill.latency_ns, bill.rows.len()), (0, 0));
    }
}

#[test]
fn instants_out_of_order_or_range_are_clamped() {
    let times = StageTimes::between(&Instants {
        due_ns: 100,
        irq_ns: Some(90),
        callback_ns: Some(500),
        waking_ns: Some(300),
        exit_ns: Some(u64::MAX),
        switch_ns: Some(0),
        woken_ns: 600,
    });
    assert_eq!(
        times.ns,
        [Some(0), Some(400), Some(0), Some(100), Some(0), Some(0)]
    );
    assert_eq!(times.total_ns(), 500);
    let none = StageTimes::between(&Instants {
        due_ns: 100,
        woken_ns: 90,
        ..Instants::default()
    });
    assert_eq!(none.total_ns(), 0);
}

/// The timer's CPU runs a thread that does not let it on; another CPU takes it over.
#[test]
fn a_timers_cpu_counts_until_another_takes_the_thread_over() {
    let moved = |lost, left: i64| {
        let mut made = asleep(&hog(), 320_000);
        made.window.lost = lost;
        made.timer(1_000, 4_000, USER)
            .on(0)
            .switch(left, &hog(), &task(300, "other", 120, 0))
            .at(
                300_000,
                Kind::Migrate {
                    tid: 100,
                    to_cpu: 0,
                    from_cpu: None,
                },
            )
            .switch(310_000, &task(300, "other", 120, 0), &probe());
        made.rows()
    };
    let kept = |name: &str, us: u64| {
        let (task, work) = (name.to_owned(), None);
        (Switch, Cause::PreemptOff { task, work }, us * 1_000)
    };
    // Whenever the thread there came: it is not to blame for what was before the move.
    for left in [-400_000, 200_000] {
        let rows = moved(0, left);
        let both = [kept("stress-ng", 296), kept("other", 10)];
        assert!(both.iter().all(|row| rows.contains(row)), "{rows:?}");
    }
    // If events were lost, others of its moves may be among them.
    assert!(!moved(1, -400_000).contains(&kept("stress-ng", 296)));
}
