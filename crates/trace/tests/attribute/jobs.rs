//! Jobs of task sets: windows made by hand, with the complete bill.

use punctual_record::explanation::Picture;
use punctual_record::explanation::{Lane, Meanwhile, SpanLabel};
use punctual_trace::attribute::event::{FUTEX, Kind, Task, Vector, Window};
use punctual_trace::attribute::{Cause, JobInstants, job_bill, job_picture};

use super::build::*;

/// The address of the lock m.
const LOCK: u64 = 0x7f00_1000;

fn high() -> Task {
    task(100, "high", 29, 1)
}

fn middle() -> Task {
    task(101, "middle", 39, 1)
}

fn low() -> Task {
    task(102, "low", 49, 1)
}

/// The execution of a job of `high` on the CPU, still without events.
fn job(length: u64) -> Made {
    let mut made = asleep(&hog(), length);
    made.window = Window {
        probe: high(),
        waiting_ns: DUE,
        gap: true,
        job: true,
        events: Vec::new(),
        ..made.window
    };
    made.window.symbols.insert(LOCK, "m".to_owned());
    made
}

fn waits(made: &mut Made, at: i64, holder: Option<Task>) -> &mut Made {
    waits_for(made, at, LOCK, holder)
}

fn waits_for(made: &mut Made, at: i64, lock: u64, holder: Option<Task>) -> &mut Made {
    made.at(
        at,
        Kind::LockWait {
            lock,
            flags: FUTEX,
            holder,
        },
    )
}

fn wakes(made: &mut Made, at: i64, tid: u32, by: Task) -> &mut Made {
    made.at(at, Kind::Waking { tid, by: Some(by) })
}

/// Cause and time, the dearest first; the sum is the length of the job.
fn causes(made: &Made) -> Vec<(Cause, u64)> {
    let rows = made.rows();
    let sum: u64 = rows.iter().map(|(_, _, ns)| ns).sum();
    assert_eq!(sum, made.window.woken_ns - made.window.due_ns);
    rows.into_iter().map(|(_, cause, ns)| (cause, ns)).collect()
}

fn held(did: Option<Meanwhile>) -> Cause {
    Cause::Inversion {
        lock: "m".to_owned(),
        holder: "low".to_owned(),
        meanwhile: did,
    }
}

fn preempted_by(task: &str, priority: u32) -> Option<Meanwhile> {
    Some(Meanwhile::Preempted {
        task: task.to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority,
    })
}

/// A plain lock: while low holds what high waits for, middle takes the CPU from low.
#[test]
fn a_priority_inversion_names_the_lock_its_holder_and_the_thread_in_between() {
    let mut made = job(4_000_000);
    waits(&mut made, 199_000, None)
        .leaves(200_000, &high(), 1, &low())
        .switch(500_000, &low(), &middle())
        .leaves(2_000_000, &middle(), 1, &low());
    // A tick delays the holder, and so the job.
    made.irq(3_000_000, Vector::LocalTimer)
        .irq_exit(3_010_000, Vector::LocalTimer);
    wakes(&mut made, 3_790_000, 100, low()).switch(3_800_000, &low(), &high());
    let vector = "local timer".to_owned();
    assert_eq!(
        causes(&made),
        [
            (held(Some(Meanwhile::Ran)), 300_000 + 1_790_000 - 10_000),
            (held(preempted_by("middle", 60)), 1_500_000),
            (Cause::Work, 400_000),
            (Cause::WakePath, 10_000),
            (Cause::CpuInterrupt { vector }, 10_000),
        ]
    );
}

/// With priority inheritance nothing comes between: only the section of the holder.
#[test]
fn a_lock_that_inherits_costs_the_section_of_its_holder() {
    let mut made = job(1_000_000);
    waits(&mut made, 199_000, Some(low())).leaves(200_000, &high(), 1, &low());
    wakes(&mut made, 690_000, 100, low()).switch(700_000, &low(), &high());
    assert_eq!(
        causes(&made),
        [
            (Cause::Work, 500_000),
            (held(Some(Meanwhile::Ran)), 490_000),
            (Cause::WakePath, 10_000),
        ]
    );
}

/// The holder runs on another CPU: what the job's own CPU does meanwhile is no cause.
#[test]
fn the_cpu_of_the_holder_is_looked_at_and_not_that_of_the_job() {
    let mut made = job(1_000_000);
    waits(&mut made, 99_000, None).leaves(100_000, &high(), 1, &hog());
    made.irq(200_000, Vector::LocalTimer)
        .irq_exit(300_000, Vector::LocalTimer);
    made.on(0).switch(-50_000, &idle(), &low());
    made.switch(400_000, &low(), &middle())
        .leaves(600_000, &middle(), 1, &low());
    wakes(&mut made, 899_000, 100, low());
    made.on(CPU).switch(900_000, &hog(), &high());
    assert_eq!(
        causes(&made),
        [
            (held(Some(Meanwhile::Ran)), 300_000 + 299_000),
            (held(preempted_by("middle", 60)), 200_000),
            (Cause::Work, 200_000),
            (Cause::WakePath, 1_000),
        ]
    );
}

/// Two threads wait: the first one in the queue has the lock before the job gets it.
#[test]
fn a_lock_that_is_handed_over_has_one_holder_after_the_other() {
    let mut made = job(1_000_000);
    let other = task(103, "other", 34, 1);
    // Other waits for low, then high does.
    made.on(0);
    waits(&mut made, -90_000, None).leaves(-89_000, &other, 1, &idle());
    made.window.events.swap(0, 1);
    made.on(CPU);
    waits(&mut made, 99_000, None).leaves(100_000, &high(), 1, &low());
    wakes(&mut made, 400_000, 103, low());
    made.on(0).switch(401_000, &idle(), &other);
    wakes(&mut made, 700_000, 100, other.clone());
    made.on(CPU).switch(701_000, &low(), &high());
    let by_other = Cause::Inversion {
        lock: "m".to_owned(),
        holder: "other".to_owned(),
        meanwhile: Some(Meanwhile::Ran),
    };
    let ready = Cause::Inversion {
        lock: "m".to_owned(),
        holder: "other".to_owned(),
        meanwhile: None,
    };
    // Between the waking of the other and its start, its CPU was idle.
    assert_eq!(
        causes(&made),
        [
            (Cause::Work, 399_000),
            (held(Some(Meanwhile::Ran)), 300_000),
            (by_other, 299_000),
            (Cause::WakePath, 1_000),
            (ready, 1_000),
        ]
    );
}

#[test]
fn a_holder_that_sleeps_or_waits_itself_is_said_to() {
    let mut made = job(1_000_000);
    waits(&mut made, 99_000, Some(low())).leaves(100_000, &high(), 1, &low());
    made.leaves(200_000, &low(), 1, &idle())
        .at(500_000, Kind::Waking { tid: 102, by: None })
        .switch(500_000, &idle(), &low());
    waits_for(&mut made, 599_000, 0x7f00_2000, Some(middle())).leaves(
        600_000,
        &low(),
        1,
        &middle(),
    );
    wakes(&mut made, 800_000, 102, middle()).leaves(800_000, &middle(), 1, &low());
    wakes(&mut made, 900_000, 100, low()).switch(900_000, &low(), &high());
    let slept = Meanwhile::Slept {
        state: "asleep".to_owned(),
    };
    let blocked = Meanwhile::Blocked {
        lock: "0x7f002000".to_owned(),
        holder: Some("middle".to_owned()),
    };
    let rows = causes(&made);
    assert_eq!(rows.len(), 4, "{rows:?}");
    for (cause, ns) in [
        (held(Some(slept)), 300_000),
        (held(Some(Meanwhile::Ran)), 300_000),
        (held(Some(blocked)), 200_000),
        (Cause::Work, 200_000),
    ] {
        assert!(rows.contains(&(cause.clone(), ns)), "{cause:?} {rows:?}");
    }
}

/// The holder has slept since before the window, perhaps for another lock: for what is not known. What it sleeps for
/// within the window is.
#[test]
fn a_holder_that_slept_before_the_window_is_not_said_to_just_sleep() {
    let mut made = job(1_000_000);
    waits(&mut made, 99_000, None).leaves(100_000, &high(), 1, &idle());
    wakes(&mut made, 500_000, 102, middle()).switch(500_000, &idle(), &low());
    waits_for(&mut made, 599_000, 0x7f00_2000, Some(middle())).leaves(600_000, &low(), 1, &idle());
    wakes(&mut made, 800_000, 102, middle()).switch(800_000, &idle(), &low());
    wakes(&mut made, 900_000, 100, low()).switch(900_000, &low(), &high());
    let earlier = Meanwhile::Slept {
        state: "earlier".to_owned(),
    };
    let blocked = Meanwhile::Blocked {
        lock: "0x7f002000".to_owned(),
        holder: Some("middle".to_owned()),
    };
    let rows = causes(&made);
    for (cause, ns) in [
        (held(Some(earlier)), 400_000),
        (held(Some(blocked)), 200_000),
    ] {
        assert!(rows.contains(&(cause.clone(), ns)), "{cause:?} {rows:?}");
    }
}

/// A job that moves: each CPU counts while the thread runs there or stands in its queue.
#[test]
fn a_job_is_followed_over_cpus() {
    let hog = task(300, "hog", 9, 1);
    let mut made = job(2_000_000);
    made.switch(500_000, &high(), &hog);
    // It waits behind the hog until it is pulled to the other CPU.
    made.on(0)
        .switch(-10_000, &idle(), &low())
        .at(
            1_200_000,
            Kind::Migrate {
                tid: 100,
                to_cpu: 0,
                from_cpu: None,
            },
        )
        .switch(1_210_000, &low(), &high())
        .irq(1_500_000, Vector::Reschedule)
        .irq_exit(1_504_000, Vector::Reschedule);
    // The CPU that it left does not count any more.
    made.on(CPU)
        .irq(1_600_000, Vector::LocalTimer)
        .irq_exit(1_900_000, Vector::LocalTimer);
    let by_hog = Cause::Thread {
        task: "hog".to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 90,
    };
    let vector = "reschedule".to_owned();
    let rows = causes(&made);
    for (cause, ns) in [
        (Cause::Work, 500_000 + 790_000 - 4_000),
        (by_hog, 700_000),
        (Cause::CpuInterrupt { vector }, 4_000),
    ] {
        assert!(rows.contains(&(cause.clone(), ns)), "{cause:?} {rows:?}");
    }
    assert_eq!(rows.iter().map(|row| row.1).sum::<u64>(), 2_000_000);
    assert_eq!(rows.len(), 4, "{rows:?}");
}

/// Where events are missing no thread is blamed for what it may not have done.
#[test]
fn with_lost_events_the_bill_still_sums() {
    let mut made = job(1_000_000);
    waits(&mut made, 99_000, None).leaves(100_000, &high(), 1, &low());
    made.switch(500_000, &middle(), &high());
    made.window.lost = 3;
    let rows = causes(&made);
    assert!(
        rows.iter().all(|(cause, _)| !matches!(
            cause,
            Cause::Inversion {
                meanwhile: Some(_),
                ..
            }
        )),
        "{rows:?}"
    );
}

#[test]
fn the_picture_of_a_job_shows_all_cpus_and_its_waits_for_locks() {
    let mut made = job(4_000_000);
    waits(&mut made, 199_000, None)
        .leaves(200_000, &high(), 1, &low())
        .switch(500_000, &low(), &middle())
        .leaves(2_000_000, &middle(), 1, &low());
    wakes(&mut made, 3_790_000, 100, low()).switch(3_800_000, &low(), &high());
    let mut around = made.window.clone();
    (around.gap, around.job) = (false, false);
    around.due_ns = DUE - 100_000;
    let mut other = asleep(&hog(), 4_000_000);
    other
        .on(0)
        .switch(-90_000, &idle(), &hog())
        .leaves(1_000_000, &hog(), 1, &idle());
    around.events.extend(other.window.events.split_off(1));
    let at = JobInstants {
        arrival_ns: around.due_ns,
        released_ns: around.due_ns,
        started_ns: DUE,
        ended_ns: DUE + 4_000_000,
        waited: true,
        more_ns: 0,
    };
    let bill = job_bill(&at, None, &made.window);
    let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
    assert_eq!(sum, bill.taken_ns());
    let picture = job_picture(&around, None, &made.window);
    let lock = SpanLabel::LockWait {
        lock: "m".to_owned(),
        holder: Some("low".to_owned()),
    };
    let of_locks = picture.spans.iter().filter(|span| span.label == lock);
    let of_locks: Vec<(i64, i64)> = of_locks.map(|span| (span.from_ns, span.to_ns)).collect();
    assert_eq!(of_locks, [(300_000, 3_890_000)]);
    let ran = |lane: Lane, cpu: u32| -> Vec<(i64, i64)> {
        let there = picture
            .spans
            .iter()
            .filter(|span| span.lane == lane && span.cpu == cpu && span.label != lock);
        there.map(|span| (span.from_ns, span.to_ns)).collect()
    };
    assert_eq!(ran(Lane::Thread, 0), [(10_000, 1_100_000)]);
    let middle_and_low = [
        (300_000, 600_000),
        (600_000, 2_100_000),
        (2_100_000, 3_900_000),
    ];
    assert_eq!(ran(Lane::Thread, CPU), middle_and_low);
    assert_eq!(ran(Lane::Probe, CPU).last().unwrap().0, 3_900_000);
    assert!(
        !picture
            .spans
            .iter()
            .any(|span| span.label == SpanLabel::Idle)
    );
    // Many interrupts leave room for it.
    for number in 0..300 {
        let at = 1_100_000 + number * 5_000;
        other
            .irq(at, Vector::LocalTimer)
            .irq_exit(at + 4_000, Vector::LocalTimer);
    }
    around.events.append(&mut other.window.events);
    let picture = job_picture(&around, None, &made.window);
    assert_eq!(picture.spans.len(), Picture::SPANS);
    assert!(picture.left_out > 40 && picture.spans.iter().any(|span| span.label == lock));
}
