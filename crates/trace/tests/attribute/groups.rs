//! Throttling by control groups: the probe is ready and its group may not run. Windows with a known
//! answer; `punctual`'s test run::throttled checks that the kernel behaves so.

use punctual_record::explanation::{Cause, GroupLimit, GroupThrottling, RowNote};
use punctual_trace::attribute::event::{Kind, Task};

use super::build::{CPU, Made, USER, asleep, hog, idle, probe, task};

const GROUP: &str = "/sys/fs/cgroup/app";
const MS: i64 = 1_000_000;

fn quota(ns: u64) -> GroupLimit {
    GroupLimit {
        group: GROUP.to_owned(),
        file: "cpu.max".to_owned(),
        runtime_us: 20_000,
        period_us: 100_000,
        room_us: None,
        throttled: Some(GroupThrottling {
            periods: u64::from(ns > 0),
            ns,
        }),
    }
}

fn real_time() -> GroupLimit {
    GroupLimit {
        file: "cpu.rt_runtime_us".to_owned(),
        room_us: Some(1_000),
        throttled: None,
        ..quota(0)
    }
}

fn ordinary() -> Task {
    task(100, "probe/1", 120, 0)
}

/// A timer's callback on another CPU.
fn expires(made: &mut Made, at: i64, function: &str) {
    let address = 0x5000;
    let symbols = &mut made.window.symbols;
    symbols.insert(address, function.to_owned());
    let kind = Kind::TimerExpire {
        timer: 0x66,
        function: address,
        expires_ns: 0,
        of_probe: false,
    };
    made.on(CPU + 1).at(at, kind).on(CPU);
}

/// An ordinary probe that is woken while another ordinary thread has its CPU from 0.005 to
/// 81 ms; the group's quota is replenished at 79 ms.
fn shares(limit: GroupLimit, ends: Option<&str>) -> Made {
    let (other, probe) = (task(300, "rustfmt", 120, 0), ordinary());
    let mut made = asleep(&idle(), 82_000_000);
    made.window.probe = probe.clone();
    made.window.limits = vec![limit];
    made.timer(500, 3_000, USER)
        .switch(5_000, &idle(), &other)
        .switch(81 * MS, &other, &probe);
    if let Some(function) = ends {
        expires(&mut made, 79 * MS, function);
    }
    made
}

fn sum(made: &Made, is: impl Fn(&Cause) -> bool) -> u64 {
    let rows = made.rows();
    let its = rows.iter().filter(|(_, cause, _)| is(cause));
    its.map(|(_, _, ns)| ns).sum()
}

fn of_group(made: &Made, name: &str) -> u64 {
    let its = |cause: &Cause| matches!(cause, Cause::GroupThrottled { group, file } if group == GROUP && file == name);
    sum(made, its)
}

fn shared(made: &Made) -> u64 {
    sum(made, |cause| matches!(cause, Cause::FairShare { .. }))
}

#[test]
fn a_quota_has_the_time_until_its_replenishment_and_the_fair_share_the_rest() {
    for ends in [
        "sched_cfs_period_timer",
        "sched_cfs_slack_timer",
        "sched_cfs_period_timer+0x0",
    ] {
        let made = shares(quota(79_000_000), Some(ends));
        // Its own time is not cut there.
        let (throttled, shared) = (of_group(&made, "cpu.max"), shared(&made));
        assert_eq!(throttled + shared, 81_000_000 - 5_000, "{ends}");
        assert_eq!(throttled, 79_000_000 - 5_000, "{ends}");
    }
}

/// While the thread shares the CPU afterwards, its own next period begins, and those of other groups: they end no
/// throttling.
#[test]
fn a_period_that_begins_while_the_cpu_is_shared_hides_no_throttling() {
    for later in [&[40][..], &[40, 79], &[26, 27, 60]] {
        let mut made = shares(quota(24_000_000), Some("sched_cfs_period_timer"));
        made.window
            .events
            .retain(|event| !matches!(event.kind, Kind::TimerExpire { .. }));
        for at in [10, 20, 24].iter().chain(later) {
            expires(&mut made, at * MS, "sched_cfs_period_timer");
        }
        let ended = if later[0] == 26 { 26 } else { 24 };
        assert_eq!(
            of_group(&made, "cpu.max"),
            ended * 1_000_000 - 5_000,
            "{later:?}"
        );
        assert_eq!(shared(&made), (81 - ended) * 1_000_000, "{later:?}");
    }
}

#[test]
fn a_thread_that_shares_the_cpu_is_not_billed_as_throttling() {
    // The group was not throttled; not for as long; or no reading shows that it was until then.
    for made in [
        shares(quota(0), Some("sched_cfs_period_timer")),
        shares(quota(30_000_000), Some("sched_cfs_period_timer")),
        shares(quota(79_000_000), None),
        shares(quota(79_000_000), Some("tick_nohz_handler")),
        shares(real_time(), Some("sched_rt_period_timer")),
    ] {
        assert_eq!(shared(&made), 81_000_000 - 5_000);
        let throttled = |cause: &Cause| matches!(cause, Cause::GroupThrottled { .. });
        assert_eq!(sum(&made, throttled), 0);
    }
}

#[test]
fn an_account_that_cannot_be_read_is_noted() {
    let mut limit = quota(1);
    limit.throttled = None;
    let made = shares(limit, Some("sched_cfs_period_timer"));
    let rows = made.bill().rows;
    let row = rows
        .iter()
        .find(|row| matches!(row.cause, Cause::FairShare { .. }))
        .expect("a share");
    let note = RowNote::QuotaUnread {
        group: "/sys/fs/cgroup/app".to_owned(),
    };
    assert_eq!(row.notes, [note]);
}

/// No thread runs although one is ready: whether the CPU was idle when it was woken, or became
/// idle then.
#[test]
fn an_idle_cpu_although_a_thread_is_ready_is_billed_to_its_group() {
    for (limit, probe, file) in [
        (quota(40_000_000), ordinary(), "cpu.max"),
        (real_time(), probe(), "cpu.rt_runtime_us"),
    ] {
        let mut made = asleep(&idle(), 40_000_000);
        made.window.probe = probe.clone();
        made.window.limits = vec![limit.clone()];
        // The tick interrupts the idle CPU.
        made.timer(500, 3_000, None);
        for at in 1..39 {
            made.irq(
                at * MS,
                punctual_trace::attribute::event::Vector::LocalTimer,
            )
            .irq_exit(
                at * MS + 2_000,
                punctual_trace::attribute::event::Vector::LocalTimer,
            );
        }
        made.switch(39 * MS, &idle(), &probe);
        let throttled = of_group(&made, file);
        assert!(throttled > 38_000_000, "{:#?}", made.rows());

        let mut went = asleep(&hog(), 40_000_000);
        went.window.probe = probe.clone();
        went.window.limits = vec![limit];
        went.timer(500, 3_000, USER)
            .switch(5_000, &hog(), &idle())
            .switch(39 * MS, &idle(), &probe);
        assert_eq!(of_group(&went, file), 39_000_000 - 5_000);
    }
    // A short time is the idle state's.
    let mut made = asleep(&idle(), 200_000);
    made.window.limits = vec![real_time()];
    made.timer(500, 3_000, None)
        .switch(180_000, &idle(), &probe());
    assert_eq!(of_group(&made, "cpu.rt_runtime_us"), 0);
}

/// A thread is woken shortly before its group's quota is replenished: the CPU is idle for less than
/// an idle state may take to leave, and the replenishment shows that it was not the idle state.
#[test]
fn a_short_throttling_on_an_idle_cpu_ends_with_the_replenishment() {
    let made = |limit: GroupLimit, renewed: Option<i64>| {
        let mut made = asleep(&idle(), 700_000);
        made.window.probe = ordinary();
        made.window.limits = vec![limit];
        made.timer(500, 3_000, None);
        if let Some(at) = renewed {
            expires(&mut made, at, "sched_cfs_period_timer");
        }
        made.switch(680_000, &idle(), &ordinary());
        made
    };
    let idle_exit = |made: &Made| sum(made, |cause| matches!(cause, Cause::IdleExit { .. }));
    let with = made(quota(660_000), Some(670_000));
    let without = made(quota(660_000), None);
    let throttled = of_group(&with, "cpu.max");
    assert!(throttled > 660_000, "{:#?}", with.rows());
    assert_eq!(throttled + idle_exit(&with), idle_exit(&without));
    // Without a replenishment, or a group that was throttled for so long, it is the idle state's.
    for made in [
        without,
        made(quota(0), Some(670_000)),
        made(quota(300_000), Some(670_000)),
    ] {
        assert_eq!(of_group(&made, "cpu.max"), 0);
        assert!(idle_exit(&made) > 660_000, "{:#?}", made.rows());
    }
}

/// A real-time probe and a thread of lower priority: the group is throttled if its runtime is
/// replenished as the thread leaves; otherwise it may be the global limit, and the note says so.
#[test]
fn a_real_time_groups_limit_is_distinguished_from_the_global_one() {
    let kthread = task(20, "migration/1", -1, 1);
    let irq = task(21, "irq/9-acpi", 9, 1);
    for (renewed, mine) in [
        (Some(38 * MS + 900_000), true),
        (Some(20 * MS), false),
        (None, false),
    ] {
        let mut made = asleep(&hog(), 40_000_000);
        made.window.limits = vec![real_time()];
        made.timer(500, 3_000, USER)
            .timer(4 * MS, 4 * MS + 2_000, USER)
            // Some threads of higher priority run for a moment, and belong to no group.
            .switch(10 * MS, &hog(), &kthread)
            .switch(10 * MS + 9_000, &kthread, &irq)
            .switch(10 * MS + 12_000, &irq, &hog());
        if let Some(at) = renewed {
            expires(&mut made, at, "sched_rt_period_timer");
        }
        made.switch(39 * MS, &hog(), &probe());
        let throttled = of_group(&made, "cpu.rt_runtime_us");
        let other = sum(&made, |cause| matches!(cause, Cause::Throttled { .. }));
        if mine {
            assert!(
                throttled > 38 * MS as u64 && other == 0,
                "{:#?}",
                made.rows()
            );
        } else {
            assert!(
                throttled == 0 && other > 28 * MS as u64,
                "{:#?}",
                made.rows()
            );
            let rows = made.bill().rows;
            let row = rows
                .iter()
                .rev()
                .find(|row| matches!(row.cause, Cause::Throttled { .. }));
            let notes = row.map_or(&[][..], |row| &row.notes);
            assert!(matches!(notes, [RowNote::LimitNotSeen { .. }]), "{notes:?}");
        }
    }
}

/// It was preempted before the first known event, and has been ready ever since: interrupts are not
/// disabled, although the rule for a late timer would say so.
#[test]
fn a_probe_that_was_ready_before_the_first_event_still_is() {
    let probe = ordinary();
    let mut made = asleep(&hog(), 40_000_000);
    made.window.events.clear();
    made.window.probe = probe.clone();
    made.window.left = Some(0);
    made.window.waiting_ns = made.window.woken_ns - 10_000;
    made.switch(-1_000, &idle(), &hog())
        .switch(39 * MS, &hog(), &probe)
        .at(
            39 * MS + 990_000,
            Kind::TimerStart {
                timer: 0x77,
                expires_ns: super::build::DUE,
            },
        )
        .timer(39 * MS + 992_000, 39 * MS + 998_000, USER);
    let shared = shared(&made);
    assert!(shared > 38 * MS as u64, "{:#?}", made.rows());
    let late = |cause: &Cause| matches!(cause, Cause::LateInterrupt { .. });
    assert_eq!(sum(&made, late), 0);
}

/// It slept until another thread woke it before the first known event, and its group may not run:
/// what runs meanwhile does not delay a timer that is not armed yet.
#[test]
fn a_probe_that_was_woken_before_the_first_event_is_ready_since_then() {
    let woken = |left, lost| {
        let mut made = asleep(&hog(), 40_000_000);
        made.window.events.clear();
        made.window.limits = vec![real_time()];
        made.window.left = left;
        made.window.lost = lost;
        made.window.waiting_ns = made.window.woken_ns - 10_000;
        made.switch(-1_000, &idle(), &hog());
        expires(&mut made, 39 * MS - 5_000, "sched_rt_period_timer");
        made.switch(39 * MS, &hog(), &probe())
            .timer(39 * MS + 992_000, 39 * MS + 998_000, USER);
        made
    };
    for left in [Some(0), Some(1), Some(8193), None] {
        let made = woken(left, 0);
        let throttled = of_group(&made, "cpu.rt_runtime_us");
        assert_eq!(throttled, 39 * MS as u64, "{left:?} {:#?}", made.rows());
    }
    // Its waking may be among the lost events, and may have come late.
    assert_eq!(of_group(&woken(Some(1), 1), "cpu.rt_runtime_us"), 0);
}

/// Woken by another CPU while its group may not run, on a CPU whose thread runs on: the request to
/// switch comes with the end of the throttling, and was not on its way all the time.
#[test]
fn a_request_that_ends_throttling_is_not_a_late_interrupt() {
    let reschedule = punctual_trace::attribute::event::Vector::Reschedule;
    for limit in [None, Some(real_time())] {
        let mut made = asleep(&hog(), 40_000_000);
        made.window.limits = limit.iter().cloned().collect();
        made.on(CPU + 1).timer(500, 3_000, None).on(CPU);
        for at in 1..39 {
            let tick = punctual_trace::attribute::event::Vector::LocalTimer;
            let kind = Kind::VectorEntry {
                vector: tick,
                interrupted: USER,
            };
            made.at(at * MS, kind).irq_exit(at * MS + 2_000, tick);
        }
        expires(&mut made, 39 * MS - 9_000, "sched_rt_period_timer");
        made.irq(39 * MS - 4_000, reschedule)
            .irq_exit(39 * MS - 3_000, reschedule)
            .switch(39 * MS, &hog(), &probe());
        let late = sum(&made, |cause| matches!(cause, Cause::LateInterrupt { .. }));
        let group = of_group(&made, "cpu.rt_runtime_us");
        let global = sum(&made, |cause| matches!(cause, Cause::Throttled { .. }));
        let found = if limit.is_some() { group } else { global };
        assert!(late == 0 && found > 38 * MS as u64, "{:#?}", made.rows());
    }
}

/// The request itself was late: nothing else interrupted the CPU meanwhile, or the CPU that was to
/// send it did nothing either.
#[test]
fn a_request_that_arrives_late_remains_one() {
    use punctual_trace::attribute::event::Vector;
    for ticks in [false, true] {
        let mut made = asleep(&hog(), 6_000_000);
        made.on(CPU + 1)
            .at(1_500, Kind::Waking { tid: 100, by: None })
            .on(CPU);
        if ticks {
            let kind = Kind::VectorEntry {
                vector: Vector::LocalTimer,
                interrupted: USER,
            };
            made.at(2 * MS, kind)
                .irq_exit(2 * MS + 2_000, Vector::LocalTimer);
        }
        made.irq(5 * MS, Vector::Reschedule)
            .irq_exit(5 * MS + 1_000, Vector::Reschedule)
            .switch(5 * MS + 2_000, &hog(), &probe());
        let late = sum(&made, |cause| matches!(cause, Cause::LateInterrupt { .. }));
        assert!(late > 4 * MS as u64, "{ticks} {:#?}", made.rows());
    }
}
