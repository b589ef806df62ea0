//! CPUs that stand still at once: the time is the host's, whatever ran there. And time that the
//! hypervisor took is drawn as its own.

use punctual_record::explanation::{Cause, Lane, RowNote};
use punctual_trace::attribute;
use punctual_trace::attribute::event::{Kind, Stall, Task, Vector};

use super::build::{CPU, DUE, Made, USER, asleep, hog, idle, probe, task};
use super::data::window;

const MS: i64 = 1_000_000;

fn stood_still(made: &mut Made, from: i64, to: i64) {
    made.window.stalls.push(Stall {
        cpu: 0,
        from_ns: DUE.checked_add_signed(from).expect("small"),
        to_ns: DUE.checked_add_signed(to).expect("small"),
        in_kernel: false,
    });
}

/// As recorded if kernel code may have delayed the other CPU.
fn stood_still_in_kernel(made: &mut Made, from: i64, to: i64) {
    stood_still(made, from, to);
    made.window.stalls.last_mut().expect("pushed").in_kernel = true;
}

fn sum(made: &Made, is: impl Fn(&Cause) -> bool) -> u64 {
    let rows = made.rows();
    let its = rows.iter().filter(|(_, cause, _)| is(cause));
    its.map(|(_, _, ns)| ns).sum()
}

fn of_host(made: &Made) -> u64 {
    sum(
        made,
        |cause| matches!(cause, Cause::Host { cpus } if *cpus == [0, 1]),
    )
}

fn tick(made: &mut Made, at: i64, expires: i64) {
    made.at(
        at,
        Kind::VectorEntry {
            vector: Vector::LocalTimer,
            interrupted: USER,
        },
    )
    .at(
        at + 1_000,
        Kind::TimerExpire {
            timer: 0x55,
            function: 0xa0,
            expires_ns: DUE.checked_add_signed(expires).expect("small"),
            of_probe: false,
        },
    );
}

/// The interrupt that woke the probe runs the tick's callback as well, and stays there for 9.8 ms;
/// the other CPU stood still until the same instant.
fn in_a_callback(still: Option<(i64, i64)>) -> Made {
    let mut made = asleep(&idle(), 9_900_000);
    made.irq(500, Vector::LocalTimer)
        .callback(1_500)
        .at(1_800, Kind::Waking { tid: 100, by: None });
    made.at(
        2_500,
        Kind::TimerExpire {
            timer: 0x55,
            function: 0xa0,
            expires_ns: DUE,
            of_probe: false,
        },
    )
    .irq_exit(9_850_000, Vector::LocalTimer)
    .switch(9_860_000, &idle(), &probe());
    if let Some((from, to)) = still {
        stood_still(&mut made, from, to);
    }
    made
}

fn callback(made: &Made) -> u64 {
    sum(made, |cause| matches!(cause, Cause::TimerCallback { .. }))
}

#[test]
fn a_callback_that_stood_still_with_the_other_cpu_is_billed_to_the_host() {
    let alone = in_a_callback(None);
    assert_eq!((of_host(&alone), callback(&alone)), (0, 9_847_500));
    let both = in_a_callback(Some((40_000, 9_820_000)));
    assert_eq!(of_host(&both), 9_850_000 - 40_000);
    assert_eq!(callback(&both), 40_000 - 2_500);
    // The other CPU resumed long before: that was another standstill.
    let other = in_a_callback(Some((40_000, 5_000_000)));
    assert_eq!(of_host(&other), 0);
}

/// A thread above the probe runs from 5 µs to 30 ms, and from 10 ms to 30 ms there is no event of the
/// CPU: the tick that was due at 12 ms came at 30.
fn over_a_thread(ends: impl Fn(&mut Made, &Task)) -> Made {
    let mut made = asleep(&idle(), 31 * MS as u64);
    let hog = task(300, "stress-ng-vm", 9, 1);
    made.timer(500, 3_000, USER)
        .switch(5_000, &idle(), &hog)
        .at(10 * MS, Kind::Idle { state: None });
    ends(&mut made, &hog);
    made.switch(30 * MS + 20_000, &hog, &probe());
    stood_still(&mut made, 11 * MS, 30 * MS);
    made
}

#[test]
fn a_thread_that_did_not_run_is_not_billed() {
    let made = over_a_thread(|made, _| {
        tick(made, 30 * MS, 12 * MS);
        made.irq_exit(30 * MS + 9_000, Vector::LocalTimer);
    });
    let thread = |made: &Made| {
        sum(
            made,
            |cause| matches!(cause, Cause::Thread { task, .. } if task == "stress-ng-vm"),
        )
    };
    assert_eq!(of_host(&made), 19 * MS as u64, "{:#?}", made.rows());
    assert!(thread(&made) <= 11 * MS as u64 + 20_000);
    // Its own timer came in time, or the other CPU's request ended the silence: it ran.
    let in_time = over_a_thread(|made, _| {
        tick(made, 30 * MS, 30 * MS - 2_000);
        made.irq_exit(30 * MS + 9_000, Vector::LocalTimer);
    });
    let asked = over_a_thread(|made, _| {
        made.irq(30 * MS, Vector::Reschedule)
            .irq_exit(30 * MS + 9_000, Vector::Reschedule);
    });
    for made in [in_time, asked] {
        assert_eq!(of_host(&made), 0);
        assert!(thread(&made) > 29 * MS as u64, "{:#?}", made.rows());
    }
}

/// A busy host resumes one CPU after the other, and the first requests something of the second before
/// that one's own timer comes, which is as late as everything else.
#[test]
fn cpus_that_resume_one_after_the_other_stood_still_together() {
    let idle_for = |ms: i64, apart: i64, request: bool| {
        let end = ms * MS;
        let mut made = asleep(&idle(), end as u64 + 200_000);
        if request {
            made.irq(end, Vector::CallFunctionSingle)
                .irq_exit(end + 10_000, Vector::CallFunctionSingle);
        }
        made.timer(end + 30_000, end + 60_000, None)
            .switch(end + 80_000, &idle(), &probe());
        stood_still(&mut made, 0, end - apart);
        of_host(&made)
    };
    assert_eq!(idle_for(30, 2_500_000, false), 30_030_000);
    assert_eq!(idle_for(30, 2_500_000, true), 30 * MS as u64);
    assert_eq!(idle_for(30, -2_500_000, true), 30 * MS as u64);
    // Too far apart for such a short time.
    assert_eq!(idle_for(30, 3_500_000, true), 0);
    assert_eq!(idle_for(8, 2_500_000, true), 0);
}

/// 99 ms that the hypervisor took from a thread below the timer are drawn as the hypervisor's, and
/// not as the thread's.
#[test]
fn time_that_the_hypervisor_took_is_drawn_as_its_own() {
    let mut made = asleep(&hog(), 100 * MS as u64);
    made.at(-100, Kind::Stolen { total_ns: 0 })
        .timer(99 * MS + 500_000, 99 * MS + 503_000, USER)
        .at(
            99 * MS + 500_500,
            Kind::Stolen {
                total_ns: 99_000_000,
            },
        )
        .switch(99 * MS + 505_000, &hog(), &probe());
    let bill = made.bill();
    let stolen: u64 = bill
        .rows
        .iter()
        .filter(|row| row.cause == Cause::Steal)
        .map(|row| row.ns)
        .sum();
    assert_eq!(stolen, 99_000_000);
    let picture = bill.picture.expect("a picture");
    let length = |lane: Lane| -> i64 {
        let spans = picture.spans.iter().filter(|span| span.lane == lane);
        let within = spans.map(|span| span.to_ns.min(100 * MS) - span.from_ns.max(0));
        within.filter(|ns| *ns > 0).sum()
    };
    assert_eq!(length(Lane::Host), 99 * MS);
    assert!(length(Lane::Thread) < MS, "{:#?}", picture.spans);
    let host = picture.spans.iter().find(|span| span.lane == Lane::Host);
    assert!(host.is_some_and(|span| span.in_the_way && span.cpu == CPU));
}

/// As many spans as a record takes, including the hypervisor's.
#[test]
fn a_picture_with_the_hypervisors_spans_is_no_larger() {
    let other = task(300, "cc1", 120, 0);
    let mut made = asleep(&hog(), 20 * MS as u64);
    made.at(-100, Kind::Stolen { total_ns: 0 })
        .timer(500, 3_000, USER);
    for at in 0..400 {
        let at = 10_000 + at * 20_000;
        made.switch(at, &hog(), &other)
            .switch(at + 10_000, &other, &hog());
    }
    made.at(
        19 * MS,
        Kind::Stolen {
            total_ns: 18 * MS as u64,
        },
    )
    .switch(19 * MS + 100_000, &hog(), &probe());
    let picture = made.bill().picture.expect("a picture");
    assert!(picture.spans.len() <= punctual_record::explanation::Picture::SPANS);
    assert!(picture.spans.iter().any(|span| span.lane == Lane::Host));
}

/// A thread that SIGSTOP has stopped would not have run, whatever the host does: the stop has the
/// time.
#[test]
fn a_stop_keeps_its_time_where_the_host_stands_still() {
    let made = |still: bool| {
        let mut made = asleep(&idle(), 31 * MS as u64);
        made.window.events.clear();
        made.leaves(-300_000, &probe(), 4, &idle());
        tick(&mut made, 20 * MS, 12 * MS);
        made.irq_exit(20 * MS + 9_000, Vector::LocalTimer)
            .at(30 * MS, Kind::Waking { tid: 100, by: None })
            .switch(30 * MS + 5_000, &idle(), &probe());
        if still {
            stood_still(&mut made, MS, 20 * MS);
        }
        made
    };
    let stopped = |made: &Made| {
        sum(
            made,
            |cause| matches!(cause, Cause::Blocked { state } if state == "stopped"),
        )
    };
    let alone = stopped(&made(false));
    assert!(alone > 29 * MS as u64, "{:#?}", made(false).rows());
    assert_eq!(stopped(&made(true)), alone);
    assert_eq!(of_host(&made(true)), 0);
}

/// System management mode stops all CPUs at once, as a host does: if the SMI count rose, it is
/// billed instead.
#[test]
fn a_system_management_interrupt_is_not_billed_to_the_host() {
    let mut made = in_a_callback(Some((-100_000, 9_800_000)));
    assert!(of_host(&made) > 9 * MS as u64);
    made.at(-400_000, Kind::SmiCount { total: 41 })
        .at(9_950_000, Kind::SmiCount { total: 42 });
    assert_eq!(of_host(&made), 0);
    assert!(sum(&made, |cause| *cause == Cause::Smi) > 9 * MS as u64);
}

/// The timer of a probe on an idle CPU comes 30 ms late: no kernel code does that. The other CPU was
/// in the kernel for as long, until the same instant.
#[test]
fn a_late_timer_over_an_idle_cpu_shows_that_the_other_ones_standstill_is_the_hosts() {
    let idle_for = |from: i64, to: i64| {
        let mut made = asleep(&idle(), 30 * MS as u64 + 200_000);
        made.at(-900_000, Kind::Idle { state: Some(1) })
            .timer(30 * MS, 30 * MS + 30_000, None)
            .switch(30 * MS + 80_000, &idle(), &probe());
        stood_still_in_kernel(&mut made, from, to);
        of_host(&made)
    };
    assert_eq!(idle_for(-600_000, 29_500_000), 30 * MS as u64);
    assert_eq!(idle_for(3_500_000, 29_500_000), 26_500_000);
    // Kernel code that ends at that time by chance is not a standstill of the host.
    assert_eq!(idle_for(16 * MS, 29_500_000), 0);
    assert_eq!(idle_for(-600_000, 25 * MS), 0);
}

/// An idle CPU switches to the probe, which its interrupt has woken, and there is no event of it
/// for 29 ms.
fn on_its_way(rests: bool) -> Made {
    let mut made = asleep(&idle(), 30 * MS as u64 + 50_000);
    made.timer(860_000, 870_000, None);
    if rests {
        made.at(875_000, Kind::Idle { state: Some(1) });
    }
    made.switch(30 * MS, &idle(), &probe());
    made
}

#[test]
fn a_cpu_on_its_way_to_the_probe_stood_still_if_another_certainly_did() {
    let mut both = on_its_way(false);
    stood_still(&mut both, 1_060_000, 31 * MS);
    assert_eq!(of_host(&both), 30 * MS as u64 - 1_060_000);
    let mut alone = on_its_way(false);
    stood_still(&mut alone, 1_060_000, 12 * MS);
    assert_eq!(of_host(&alone), 0);
    // It entered an idle state, and another CPU's request woke it.
    let mut rests = on_its_way(true);
    stood_still(&mut rests, 1_060_000, 31 * MS);
    assert_eq!(of_host(&rests), 0);
}

/// Both CPUs were in the kernel: one may have waited for the other with interrupts disabled. No
/// cause is blamed, and the row says what is likely.
#[test]
fn where_both_cpus_were_in_the_kernel_no_cause_is_blamed() {
    let mut made = in_a_callback(None);
    stood_still_in_kernel(&mut made, 40_000, 9_820_000);
    assert_eq!((of_host(&made), callback(&made)), (0, 40_000 - 2_500));
    let unexplained = sum(&made, |cause| *cause == Cause::Unexplained);
    assert_eq!(unexplained, 9_850_000 - 40_000);
    let bill = made.bill();
    let row = bill.rows.iter().max_by_key(|row| row.ns).expect("rows");
    let note = RowNote::LikelyHost { cpus: vec![0, 1] };
    assert_eq!(row.notes, [note]);
    // Kernel code that is seen to end long before is unrelated.
    let mut other = in_a_callback(None);
    stood_still_in_kernel(&mut other, 40_000, 8 * MS);
    assert_eq!(callback(&other), 9_847_500);
}

/// The emulated CPUs of a machine that its host stopped for 30 ms, both in the kernel: the timer's
/// interrupt on the probe's CPU had run for 8 us. Before the stop the other CPU was idle for 3 ms. The
/// row consists of several stretches, and its note is that of the longest.
#[test]
fn a_row_has_the_note_of_its_longest_stretch() {
    let bill = attribute::plain_bill(&window("host-0"));
    let row = bill.rows.iter().max_by_key(|row| row.ns).expect("rows");
    assert_eq!((&row.cause, row.ns), (&Cause::Unexplained, 33_284_330));
    assert!(
        matches!(row.notes[..], [RowNote::LikelyHost { .. }]),
        "{:?}",
        row.notes
    );
}
