//! Time that nothing in this kernel used, and time of which nothing is known.

use punctual_record::explanation::RowNote;
use punctual_trace::attribute::Cause;
use punctual_trace::attribute::Stage::{Callback, Interrupt, Switch, User, Waking};
use punctual_trace::attribute::event::{Kind, Vector};

use super::build::*;

#[test]
fn a_gap_over_a_program_is_billed_to_the_platform() {
    let mut made = asleep(&hog(), 90_000);
    made.timer(80_000, 82_000, USER)
        .switch(84_000, &hog(), &probe());
    assert_eq!(made.rows()[0], (Interrupt, Cause::Platform, 80_000));
}

#[test]
fn an_idle_exit_longer_than_any_states_is_billed_to_the_platform() {
    let mut made = asleep(&idle(), 30_000_000);
    made.timer(29_990_000, 29_993_000, KERNEL)
        .switch(29_995_000, &idle(), &probe());
    assert_eq!(made.rows()[0], (Interrupt, Cause::Platform, 29_990_000));
}

#[test]
fn time_in_the_hypervisors_account_is_billed_to_it() {
    let mut made = asleep(&hog(), 100_000);
    made.at(
        -100,
        Kind::Stolen {
            total_ns: 5_000_000,
        },
    )
    .timer(80_000, 82_000, USER)
    .at(
        81_900,
        Kind::Stolen {
            total_ns: 5_060_000,
        },
    )
    .switch(84_000, &hog(), &probe());
    assert_eq!(
        made.rows()[..2],
        [
            (Interrupt, Cause::Steal, 60_000),
            (Interrupt, Cause::Platform, 20_000),
        ]
    );
}

#[test]
fn a_named_cause_gives_up_only_time_that_was_certainly_stolen() {
    // The account rose by 300 µs between two readings that are 400 µs apart; 100 µs of
    // these are before the wake-up, so at least 200 µs were stolen within it.
    let stolen = |before: i64| {
        let mut made = asleep(&hog(), 320_000);
        made.at(before, Kind::Stolen { total_ns: 0 })
            .timer(500, 3_000, USER)
            .at(300_000, Kind::Stolen { total_ns: 300_000 })
            .switch(313_000, &hog(), &probe());
        let rows = made.rows();
        let sum = |cause: &Cause| -> u64 {
            rows.iter()
                .filter(|row| row.1 == *cause)
                .map(|row| row.2)
                .sum()
        };
        sum(&Cause::Steal)
    };
    // All of the gap before the interrupt, which is 500 ns, is among them.
    assert_eq!(stolen(-100_000), 200_000);
    assert_eq!(stolen(0), 300_000);
}

#[test]
fn no_more_than_the_gap_is_billed_as_stolen() {
    let mut made = asleep(&hog(), 100_000);
    made.at(-100, Kind::Stolen { total_ns: 0 })
        .timer(80_000, 82_000, USER)
        .at(90_000, Kind::Stolen { total_ns: u64::MAX })
        .switch(84_000, &hog(), &probe());
    let stolen: u64 = made
        .rows()
        .iter()
        .filter(|row| row.1 == Cause::Steal)
        .map(|row| row.2)
        .sum();
    assert_eq!(stolen, 90_000);
}

#[test]
fn the_platforms_gap_is_an_smi_if_the_count_rose() {
    let mut made = asleep(&hog(), 100_000);
    made.at(-100, Kind::SmiCount { total: 7 })
        .timer(80_000, 82_000, USER)
        .switch(84_000, &hog(), &probe())
        .at(100_500, Kind::SmiCount { total: 8 });
    assert_eq!(made.rows()[0], (Interrupt, Cause::Smi, 80_000));
    let note = |within_ns| RowNote::SmiCount {
        count: 1,
        within_ns,
    };
    assert_eq!(made.bill().rows[0].notes, [note(None)]);
    // Over more than a second the count says that there were some, and not that this was one.
    let mut made = asleep(&hog(), 100_000);
    made.at(-900_000_000, Kind::SmiCount { total: 7 })
        .timer(80_000, 82_000, USER)
        .switch(84_000, &hog(), &probe())
        .at(600_000_000, Kind::SmiCount { total: 8 });
    let row = &made.bill().rows[0];
    assert_ne!(row.cause, Cause::Smi);
    assert_eq!(row.notes, [note(Some(1_500_000_000))]);
}

#[test]
fn too_long_a_time_within_the_interrupt_is_unexplained() {
    let mut made = asleep(&hog(), 100_000);
    made.at(
        500,
        Kind::VectorEntry {
            vector: Vector::LocalTimer,
            interrupted: USER,
        },
    )
    .callback(80_500)
    .at(81_000, Kind::Waking { tid: 100, by: None })
    .irq_exit(82_000, Vector::LocalTimer)
    .switch(84_000, &hog(), &probe());
    assert!(
        made.rows()
            .contains(&(Callback, Cause::Unexplained, 80_000))
    );
    assert!(!made.bill().is_explained());
}

/// The callback did not wake the probe; a thread did, much later.
#[test]
fn too_long_a_time_from_the_callback_to_the_waking_is_unexplained() {
    let mut made = asleep(&hog(), 100_000);
    made.irq(500, Vector::LocalTimer)
        .at(
            700,
            Kind::TimerExpire {
                timer: 0x77,
                function: 0xe0,
                expires_ns: DUE,
                of_probe: true,
            },
        )
        .at(1_000, Kind::TimerDone { timer: 0x77 })
        .irq_exit(1_500, Vector::LocalTimer)
        .at(90_000, Kind::Waking { tid: 100, by: None })
        .switch(94_000, &hog(), &probe());
    let rows = made.rows();
    assert!(
        rows.contains(&(Waking, Cause::Unexplained, 88_500)),
        "{rows:?}"
    );
    let long = |row: &(_, Cause, u64)| row.1 == Cause::WakePath && row.2 > 50_000;
    assert!(!rows.iter().any(long), "{rows:?}");
}

#[test]
fn a_window_without_events_is_blind() {
    let mut made = asleep(&hog(), 70_000);
    made.window.events.clear();
    assert_eq!(made.rows(), [(User, Cause::Blind, 70_000)]);
    assert_eq!(
        made.bill().stages.ns,
        [None, None, None, None, None, Some(70_000)]
    );
}

#[test]
fn a_window_that_begins_after_the_wake_up_is_blind() {
    let mut made = asleep(&hog(), 70_000);
    made.window.events.clear();
    made.at(300_000_000, Kind::Stolen { total_ns: 9 });
    assert_eq!(made.rows(), [(User, Cause::Blind, 70_000)]);
    made.switch(300_001_000, &hog(), &idle());
    assert_eq!(made.rows(), [(User, Cause::Blind, 70_000)]);
}

#[test]
fn a_missing_switch_blinds_the_threads_and_not_the_interrupts() {
    let unseen = task(900, "unseen", 120, 0);
    let mut made = asleep(&hog(), 100_000);
    made.timer(500, 3_000, USER)
        .at(
            10_000,
            Kind::HandlerEntry {
                irq: 9,
                name: "acpi".to_owned(),
            },
        )
        .at(20_000, Kind::HandlerExit { irq: 9 })
        .switch(93_000, &unseen, &probe());
    let rows = made.rows();
    assert!(rows.contains(&(Interrupt, Cause::Blind, 500)));
    assert!(rows.contains(&(Switch, Cause::Blind, 80_000)));
    assert!(rows.contains(&(
        Switch,
        Cause::Interrupt {
            irq: 9,
            name: "acpi".to_owned()
        },
        10_000
    )));
}

#[test]
fn a_probe_without_a_switch_to_it_is_blind() {
    let mut made = asleep(&hog(), 100_000);
    made.timer(500, 3_000, USER);
    assert!(made.rows().contains(&(User, Cause::Blind, 97_000)));
}

#[test]
fn an_interrupt_without_an_end_is_blind() {
    let mut made = asleep(&hog(), 100_000);
    made.timer(500, 3_000, USER)
        .irq(10_000, Vector::IrqWork)
        .switch(93_000, &hog(), &probe());
    assert!(made.rows().contains(&(Switch, Cause::Blind, 83_000)));
}

#[test]
fn an_end_without_a_start_blinds_from_the_previous_event() {
    let mut made = asleep(&hog(), 100_000);
    made.timer(500, 3_000, USER)
        .irq_exit(50_000, Vector::IrqWork)
        .switch(93_000, &hog(), &probe());
    let rows = made.rows();
    assert!(rows.contains(&(Switch, Cause::Blind, 47_000)));
    let task = "stress-ng".to_owned();
    assert!(rows.contains(&(Switch, Cause::PreemptOff { task, work: None }, 43_000)));
}

#[test]
fn overwritten_events_are_blind_and_absent_ones_are_not() {
    let made = |lost| {
        let mut made = asleep(&hog(), 100_000);
        made.window.events.clear();
        made.window.lost = lost;
        made.timer(80_000, 83_000, USER)
            .switch(84_000, &hog(), &probe());
        made.rows()[0].clone()
    };
    assert_eq!(made(0), (Interrupt, Cause::Platform, 80_000));
    assert_eq!(made(1), (Interrupt, Cause::Blind, 80_000));
}
