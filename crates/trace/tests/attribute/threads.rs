//! Threads related to the probe: they hold its lock, or their priority rises.

use punctual_record::explanation::Cause;
use punctual_trace::attribute::event::{FUTEX, Kind};

use super::build::{KERNEL, USER, asleep, idle, probe, task};

/// A lock of the program's own: the kernel knows no holder, but the thread that released it woke
/// the probe.
#[test]
fn a_futexs_holder_is_the_thread_that_wakes_the_probe() {
    let low = task(300, "logger", 120, 0);
    let mut made = asleep(&idle(), 200_000);
    made.timer(500, 3_000, KERNEL)
        .switch(5_000, &idle(), &probe())
        .at(
            7_000,
            Kind::LockWait {
                lock: 0x7f00_0000_1000,
                flags: FUTEX,
                holder: None,
            },
        )
        .leaves(7_001, &probe(), 1, &low)
        .at(
            180_000,
            Kind::Waking {
                tid: 100,
                by: Some(low.clone()),
            },
        )
        .switch(182_000, &low, &probe());
    let rows = made.rows();
    let of = |is: fn(&Cause) -> bool| -> u64 {
        let its = rows.iter().filter(|(_, cause, _)| is(cause));
        its.map(|(_, _, ns)| ns).sum()
    };
    let inversion =
        of(|cause| matches!(cause, Cause::Inversion { holder, .. } if holder == "logger"));
    assert_eq!(inversion, 180_000 - 7_001, "{rows:#?}");
    // It is over when the probe runs again: the rest is the wake-up's own path.
    assert!(of(Cause::is_path) >= 18_000, "{rows:#?}");
    assert_eq!(of(Cause::is_residue), 0, "{rows:#?}");
}

/// At ordinary priority when it was switched to, above the probe when it left: its priority rose
/// before the probe was ready, otherwise it would have been preempted.
#[test]
fn a_thread_whose_priority_rose_is_billed_with_the_higher_one() {
    let before = task(300, "riser", 120, 0);
    let after = task(300, "riser", 0, 1);
    let mut made = asleep(&before, 200_000);
    made.timer(500, 3_000, USER)
        .switch(190_000, &after, &probe());
    let rows = made.rows();
    let its = |cause: &Cause| matches!(cause, Cause::Thread { task, priority: 99, .. } if task == "riser");
    let ns: u64 = rows
        .iter()
        .filter(|(_, cause, _)| its(cause))
        .map(|(_, _, ns)| ns)
        .sum();
    assert_eq!(ns, 190_000 - 3_000, "{rows:#?}");
}

/// `chrt -f 99 taskset -c 1 hog`: the thread starts as one program and is another by the time that
/// the probe waits for it. There is no switch.
#[test]
fn a_thread_that_executed_another_program_has_its_new_name() {
    let before = task(300, "taskset", 0, 1);
    let after = task(300, "hog", 0, 1);
    let renamed = |at: i64| {
        let task = after.clone();
        let mut made = asleep(&before, 200_000);
        made.timer(500, 3_000, USER)
            .at(at, Kind::Rename { task })
            .switch(190_000, &after, &probe());
        let rows = made.rows();
        let of = |name: &str| -> u64 {
            let its = |cause: &Cause| matches!(cause, Cause::Thread { task, .. } if task == name);
            let rows = rows.iter().filter(|(_, cause, _)| its(cause));
            rows.map(|(_, _, ns)| ns).sum()
        };
        (of("taskset"), of("hog"))
    };
    let (no, all) = renamed(-300_000);
    assert_eq!(no, 0);
    assert!(all > 170_000, "{all}");
    assert_eq!(renamed(100_000), (all - 90_000, 90_000), "each its part");
    let other = Kind::Rename {
        task: task(301, "else", 120, 0),
    };
    let mut made = asleep(&before, 200_000);
    made.timer(500, 3_000, USER)
        .at(-300_000, other)
        .switch(190_000, &before, &probe());
    let names = made
        .rows()
        .into_iter()
        .filter(|(_, cause, _)| matches!(cause, Cause::Thread { task, .. } if task != "taskset"));
    assert_eq!(names.count(), 0, "what is not the running thread's");
}

/// `chrt -f 99 hog`: the policy changes within the program that executes the other one. Nothing but its
/// exec shows it, and it had kept the CPU before.
#[test]
fn a_thread_that_raised_its_priority_and_executed_a_program_was_above_before() {
    let before = task(300, "chrt", 120, 0);
    let after = task(300, "hog", 0, 1);
    let mut made = asleep(&before, 200_000);
    let renamed = Kind::Rename {
        task: after.clone(),
    };
    made.timer(500, 3_000, USER)
        .at(100_000, renamed)
        .switch(190_000, &after, &probe());
    let rows = made.rows();
    let above = |cause: &Cause| matches!(cause, Cause::Thread { priority: 99, .. });
    let its = rows.iter().filter(|(_, cause, _)| above(cause));
    let ns: u64 = its.map(|(_, _, ns)| ns).sum();
    assert_eq!(ns, 190_000 - 3_000, "{rows:#?}");
}

/// Both are ordinary: whatever their nice values, the scheduler shares the CPU among them, and neither
/// is throttled. A real-time thread that runs before an ordinary one is a different case.
#[test]
fn an_ordinary_thread_before_an_ordinary_probe_is_fair_sharing() {
    for (nice, of) in [(100, 0), (120, 0), (139, 0), (120, 3), (120, 5)] {
        let other = task(300, "cc1", nice, of);
        let mut made = asleep(&idle(), 9_000_000);
        made.window.probe = task(100, "probe/1", 120, 0);
        let ordinary = made.window.probe.clone();
        made.timer(500, 3_000, USER)
            // It runs while the probe is ready, as no thread of lower priority may.
            .switch(5_000, &idle(), &other)
            .timer(4_000_000, 4_003_000, USER)
            .switch(8_990_000, &other, &ordinary);
        let rows = made.rows();
        let shared: u64 = rows
            .iter()
            .filter(|(_, cause, _)| matches!(cause, Cause::FairShare { task } if task == "cc1"))
            .map(|(_, _, ns)| ns)
            .sum();
        assert!(shared > 8_900_000, "{nice} {of}: {rows:#?}");
        let wrong = |cause: &Cause| {
            matches!(
                cause,
                Cause::Throttled { .. } | Cause::Thread { .. } | Cause::PreemptOff { .. }
            )
        };
        assert!(!rows.iter().any(|(_, cause, _)| wrong(cause)), "{rows:#?}");
    }
    let mut made = asleep(&idle(), 9_000_000);
    made.window.probe = task(100, "probe/1", 120, 0);
    let ordinary = made.window.probe.clone();
    let hog = task(300, "hog", 89, 1);
    made.timer(500, 3_000, USER)
        .switch(5_000, &idle(), &hog)
        .switch(8_990_000, &hog, &ordinary);
    let first =
        |cause: &Cause| matches!(cause, Cause::Thread { task, priority: 10, .. } if task == "hog");
    assert!(made.rows().iter().any(|(_, cause, _)| first(cause)));
}
