//! Gaps in a thread that polls the clock: windows made by hand, with the complete bill.

use punctual_trace::attribute::event::{Kind, Task, Vector, Window};
use punctual_trace::attribute::{Cause, plain_bill};

use super::build::*;

/// A gap of a polling thread, still without events.
fn gap(probe: Task, length: u64) -> Made {
    let mut made = asleep(&hog(), length);
    made.window = Window {
        probe,
        waiting_ns: DUE,
        gap: true,
        job: false,
        events: Vec::new(),
        ..made.window
    };
    made
}

/// A polling thread of ordinary priority.
fn ordinary() -> Task {
    task(100, "probe/1", 120, 0)
}

fn causes(made: &Made) -> Vec<(Cause, u64)> {
    let rows = made.rows();
    let plain = plain_bill(&made.window);
    assert_eq!(plain.picture, None);
    assert_eq!(plain.rows, made.bill().rows);
    rows.into_iter().map(|(_, cause, ns)| (cause, ns)).collect()
}

#[test]
fn a_gap_without_kernel_activity_is_billed_to_the_platform_to_the_nanosecond() {
    for length in [1_001, 2_000, 80_000, 30_000_000] {
        let mut made = gap(probe(), length);
        assert_eq!(causes(&made), [(Cause::Platform, length)]);
        // Events outside the gap have no effect.
        made.switch(-5_000, &hog(), &probe())
            .irq(length as i64 + 10, Vector::LocalTimer);
        assert_eq!(causes(&made), [(Cause::Platform, length)]);
    }
}

#[test]
fn an_interrupt_has_its_time_and_the_path_to_it_a_row_of_its_own() {
    let mut made = gap(probe(), 30_000);
    made.irq(1_200, Vector::LocalTimer)
        .irq_exit(9_200, Vector::LocalTimer)
        .at(9_300, Kind::SoftirqEntry { number: 3 })
        .at(28_300, Kind::SoftirqExit { number: 3 });
    let vector = "local timer".to_owned();
    assert_eq!(
        causes(&made),
        [
            (Cause::Softirq { number: 3 }, 19_000),
            (Cause::CpuInterrupt { vector }, 8_000),
            (Cause::Crossing, 3_000),
        ]
    );
}

#[test]
fn a_path_into_the_kernel_that_is_too_long_is_the_platforms() {
    let mut made = gap(probe(), 30_000);
    made.irq(20_000, Vector::Reschedule)
        .irq_exit(29_000, Vector::Reschedule);
    let vector = "reschedule".to_owned();
    assert_eq!(
        causes(&made),
        [
            (Cause::Platform, 20_000),
            (Cause::CpuInterrupt { vector }, 9_000),
            (Cause::Crossing, 1_000),
        ]
    );
}

#[test]
fn a_timer_during_a_gap_is_not_the_probes_own() {
    let mut made = gap(probe(), 8_000);
    made.irq(1_000, Vector::LocalTimer)
        .callback(2_000)
        .irq_exit(7_000, Vector::LocalTimer);
    let function = "hrtimer_wakeup".to_owned();
    assert_eq!(causes(&made)[0], (Cause::TimerCallback { function }, 5_000));
}

#[test]
fn a_thread_that_takes_the_cpu_is_named() {
    let high = task(300, "fifo99-hog", 0, 1);
    let by = |thread: &Task, policy: &str, priority| Cause::Thread {
        task: thread.name.clone(),
        policy: policy.to_owned(),
        priority,
    };
    let mut made = gap(probe(), 500_000);
    made.switch(1_000, &probe(), &high)
        .switch(499_000, &high, &probe());
    let named = by(&high, "SCHED_FIFO", 99);
    assert_eq!(causes(&made), [(named, 498_000), (Cause::Crossing, 2_000)]);

    // A thread of lower priority runs before a real-time poller only if that is throttled.
    let mut made = gap(probe(), 50_000_000);
    made.switch(1_000, &probe(), &hog())
        .switch(49_999_000, &hog(), &probe());
    let task = hog().name;
    assert_eq!(causes(&made)[0], (Cause::Throttled { task }, 49_998_000));
    let mut made = gap(probe(), 50_000);
    made.switch(1_000, &probe(), &idle())
        .switch(49_000, &idle(), &probe());
    let task = String::new();
    assert_eq!(causes(&made)[0], (Cause::Throttled { task }, 48_000));

    // Ordinary threads take turns, whatever their nice values.
    let nice = self::task(301, "nice", 139, 0);
    let mut made = gap(ordinary(), 4_000_000);
    made.switch(1_000, &ordinary(), &nice)
        .switch(3_999_000, &nice, &ordinary());
    let named = by(&nice, "SCHED_OTHER", 0);
    assert_eq!(causes(&made)[0], (named, 3_998_000));
}

#[test]
fn a_poller_that_was_stopped_or_had_a_fault_lost_the_time_itself() {
    let mut made = gap(probe(), 900_000);
    made.leaves(1_000, &probe(), 4, &idle())
        .at(890_000, Kind::Waking { tid: 100, by: None })
        .switch(899_000, &idle(), &probe());
    let state = "stopped".to_owned();
    let rows = causes(&made);
    assert_eq!(rows[0], (Cause::Blocked { state }, 889_000));
    let mut made = gap(probe(), 4_000);
    made.at(500, Kind::Fault { address: 0x1000 });
    assert_eq!(causes(&made)[0], (Cause::Fault, 3_500));
}

#[test]
fn time_that_the_hypervisor_or_smis_account_for_is_billed_to_them() {
    let mut made = gap(probe(), 100_000);
    made.at(-400_000, Kind::Stolen { total_ns: 7 })
        .at(300_000, Kind::Stolen { total_ns: 90_007 });
    assert_eq!(
        causes(&made),
        [(Cause::Steal, 90_000), (Cause::Platform, 10_000)]
    );
    let mut made = gap(probe(), 100_000);
    made.at(-400_000, Kind::SmiCount { total: 41 })
        .at(300_000, Kind::SmiCount { total: 42 });
    assert_eq!(causes(&made), [(Cause::Smi, 100_000)]);
    // The count of another CPU says nothing about this one.
    let mut made = gap(probe(), 100_000);
    made.on(CPU + 1)
        .at(-400_000, Kind::SmiCount { total: 41 })
        .at(300_000, Kind::SmiCount { total: 42 });
    assert_eq!(causes(&made), [(Cause::Platform, 100_000)]);
}

#[test]
fn where_events_are_missing_no_thread_is_blamed() {
    let mut made = gap(probe(), 80_000);
    made.window.lost = 3;
    assert_eq!(causes(&made), [(Cause::Blind, 80_000)]);
    made.irq(10_000, Vector::LocalTimer)
        .irq_exit(12_000, Vector::LocalTimer);
    let vector = "local timer".to_owned();
    let rows = causes(&made);
    assert!(rows.contains(&(Cause::CpuInterrupt { vector }, 2_000)));
    assert!(rows.iter().all(|(cause, _)| *cause != Cause::Platform));
}

#[test]
fn events_of_other_cpus_do_not_matter() {
    let mut made = gap(probe(), 20_000);
    made.on(CPU + 1)
        .irq(1_000, Vector::LocalTimer)
        .irq_exit(19_000, Vector::LocalTimer);
    assert_eq!(causes(&made), [(Cause::Platform, 20_000)]);
}
