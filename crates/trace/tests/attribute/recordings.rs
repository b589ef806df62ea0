//! Recordings of other tools, from their text to the bill: each says which wake-up is right.

use punctual_record::explanation::{Cause, NotSeen, Stage};
use punctual_trace::attribute::plain_bill;
use punctual_trace::foreign::Recording;

/// A line of tracefs: on which CPU, in which context, when, in µs since 1 s, and what.
fn line(thread: &str, cpu: u32, context: &str, at_us: i64, event: &str) -> String {
    let at = 1_000_000 + at_us;
    let (seconds, us) = (at / 1_000_000, at % 1_000_000);
    format!(" {thread} [{cpu:03}] {context} {seconds}.{us:06}: {event}\n")
}

/// `from` and `to`: name, number, priority.
fn switch(
    cpu: u32,
    at_us: i64,
    from: (&str, u32, i32),
    state: &str,
    to: (&str, u32, i32),
) -> String {
    let thread = format!("{}-{}", from.0, from.1);
    let event = format!(
        "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={state} ==> \
         next_comm={} next_pid={} next_prio={}",
        from.0, from.1, from.2, to.0, to.1, to.2
    );
    line(&thread, cpu, "d..2.", at_us, &event)
}

/// How a thread of this name and number wakes [`RT`], on CPU 0.
fn wakes(how: &str, at_us: i64) -> String {
    let event = format!("{how}: comm=rt pid=7 prio=49 target_cpu=001");
    line("server-20", 0, "d..2.", at_us, &event)
}

fn read(text: &str) -> Recording {
    Recording::read(text.as_bytes()).unwrap()
}

/// The rows of a bill, in µs.
type Rows = Vec<(Stage, Cause, u64)>;

/// The wake-ups of a thread: its latency in µs, and the rows of its bill.
fn bills(text: &str, tid: u32) -> Vec<(u64, Rows)> {
    let recording = read(text);
    let its = recording.wake_ups.iter().filter(|it| it.thread.tid == tid);
    its.map(|wake_up| {
        let bill = plain_bill(&wake_up.window(&recording));
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, bill.latency_ns, "{bill:#?}");
        assert_eq!(wake_up.latency_ns(), bill.latency_ns);
        let mut rows = bill.rows;
        rows.sort_by_key(|row| row.stage);
        let rows = rows
            .into_iter()
            .map(|row| (row.stage, row.cause, row.ns / 1_000));
        (bill.latency_ns / 1_000, rows.collect())
    })
    .collect()
}

const RT: (&str, u32, i32) = ("rt", 7, 49);
const SERVER: (&str, u32, i32) = ("server", 20, 120);
const HOG: (&str, u32, i32) = ("hog", 9, 9);
const IDLE: (&str, u32, i32) = ("swapper/1", 0, 120);

/// A callback on CPU 0, 1 µs after its timer was due; `ends` are the lines that end it. Then a thread
/// there wakes another, 3 ms later.
fn after_a_callback(ends: &str) -> String {
    let timer = |cpu_at: i64, event: &str| {
        let event = format!("{event} function=tick_nohz_handler");
        line("server-20", 0, "d.h1.", cpu_at, &event)
    };
    switch(1, -10_000, RT, "S", IDLE)
        + &switch(0, -9_500, ("swapper/0", 0, 120), "R", SERVER)
        + &timer(-4_000, "hrtimer_start: hrtimer=bb expires=5000000000")
        + &timer(1, "hrtimer_expire_entry: hrtimer=bb now=5000001000")
        + ends
        + &wakes("sched_waking", 3_000)
        + &switch(1, 3_005, IDLE, "R", RT)
}

#[test]
fn a_waking_after_the_interrupt_of_a_callback_is_not_that_timers() {
    let event = |at: i64, event: &str| line("server-20", 0, "d.h1.", at, event);
    let vector = event(6, "local_timer_exit: vector=236");
    let handler = event(6, "irq_handler_exit: irq=11 ret=handled");
    let softirq = event(6, "softirq_exit: vec=8 [action=HRTIMER]");
    // What interrupts the softirq does not end its callback; what comes then does.
    let nested = event(2, "reschedule_entry: vector=253")
        + &event(3, "reschedule_exit: vector=253")
        + &softirq;
    let own = event(5, "hrtimer_expire_exit: hrtimer=bb");
    for ends in [vector, handler, softirq, nested, own, String::new()] {
        let bills = bills(&after_a_callback(&ends), 7);
        let idle = Cause::IdleExit { state: None };
        assert_eq!(bills, [(5, vec![(Stage::Switch, idle, 5)])], "{ends}");
    }
}

#[test]
fn an_interrupt_of_a_softirqs_callback_does_not_end_it() {
    let event = |at: i64, event: &str| line("server-20", 0, "d.s1.", at, event);
    let text = switch(1, -10_000, RT, "S", IDLE)
        + &event(-4_000, "hrtimer_start: hrtimer=bb expires=5000000000")
        + &event(0, "softirq_entry: vec=8 [action=HRTIMER]")
        + &event(1, "hrtimer_expire_entry: hrtimer=bb now=5000001000")
        + &event(2, "reschedule_entry: vector=253")
        + &event(3, "reschedule_exit: vector=253")
        + &event(4, "sched_waking: comm=rt pid=7 prio=49 target_cpu=001")
        + &event(6, "softirq_exit: vec=8 [action=HRTIMER]")
        + &switch(1, 9, IDLE, "R", RT);
    // Due at 0, not when it was woken.
    assert_eq!(bills(&text, 7)[0].0, 9);
}

#[test]
fn callbacks_without_any_end_are_reported_and_have_no_time() {
    let lack = NotSeen::RecordedEnd {
        begins: "hrtimer_expire_entry".to_owned(),
        ends: "hrtimer_expire_exit".to_owned(),
    };
    assert!(read(&after_a_callback("")).missing.contains(&lack));
    let own = line(
        "server-20",
        0,
        "d.h1.",
        5,
        "hrtimer_expire_exit: hrtimer=bb",
    );
    assert!(!read(&after_a_callback(&own)).missing.contains(&lack));
    // The hog had the CPU, and not the callback that interrupted it.
    let tick = |at: i64, event: &str| line("hog-9", 1, "d.h1.", at, event);
    let text = switch(1, -9_000, RT, "S", HOG)
        + &tick(-4_000, "hrtimer_start: hrtimer=bb expires=5000000000")
        + &tick(1, "hrtimer_expire_entry: hrtimer=bb now=5000001000")
        + &wakes("sched_waking", 1_000)
        + &switch(1, 3_000, HOG, "S", RT);
    assert_eq!(
        bills(&text, 7),
        [(2_000, vec![(Stage::Switch, hog(), 2_000)])]
    );
}

/// The first wake-up may come before the first end of a callback: the other CPU is faster.
#[test]
fn the_first_callbacks_end_may_follow_the_first_switch() {
    let event = |at: i64, event: &str| line("server-20", 0, "d.h1.", at, event);
    let text = switch(1, -10_000, RT, "S", IDLE)
        + &event(-4_000, "hrtimer_start: hrtimer=bb expires=5000000000")
        + &event(4, "hrtimer_expire_entry: hrtimer=bb now=5000004000")
        + &event(5, "sched_waking: comm=rt pid=7 prio=49 target_cpu=001")
        + &switch(1, 7, IDLE, "R", RT);
    assert_eq!(bills(&text, 7)[0].0, 2);
    let text = text + &event(9, "hrtimer_expire_exit: hrtimer=bb");
    assert_eq!(bills(&text, 7)[0].0, 7);
}

/// The thread has the CPU, and a hog above it comes next.
fn leaving(away_us: i64, state: &str) -> String {
    switch(1, away_us, RT, state, HOG)
}

/// The hog ends.
fn back(at_us: i64) -> String {
    switch(1, at_us, HOG, "S", RT)
}

fn hog() -> Cause {
    Cause::Thread {
        task: "hog".to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 90,
    }
}

/// The kernel reports a waking before it waits for the thread to have left its CPU.
#[test]
fn a_waking_while_its_thread_leaves_the_cpu_is_a_wake_up() {
    let before =
        switch(0, -1_000, ("swapper/0", 0, 120), "R", SERVER) + &switch(1, -900, IDLE, "R", RT);
    let rows = vec![
        (Stage::Switch, hog(), 5_000),
        (Stage::Switch, Cause::WakePath, 1),
    ];
    let crossing = before.clone() + &wakes("sched_waking", 0) + &leaving(1, "S");
    assert_eq!(
        bills(&(crossing.clone() + &back(5_001)), 7),
        [(5_001, rows.clone())]
    );
    let complete = crossing.clone() + &wakes("sched_wakeup", 2) + &back(5_001);
    assert_eq!(bills(&complete, 7), [(5_001, rows)]);
    // Where the ends of wakings are recorded too, the waker may wait for long.
    let other = "sched_wakeup: comm=other pid=8 prio=120 target_cpu=000";
    let slow = before
        + &line(
            "server-20",
            0,
            "d..2.",
            -500,
            "sched_waking: comm=other pid=8 prio=120",
        )
        + &line("server-20", 0, "d..2.", -499, other)
        + &wakes("sched_waking", 0)
        + &leaving(400, "S")
        + &wakes("sched_wakeup", 401)
        + &back(5_000);
    let rows = &bills(&slow, 7)[0];
    assert_eq!(rows.0, 5_000);
    assert_eq!(rows.1[0], (Stage::Switch, hog(), 4_600));
}

#[test]
fn a_waking_of_a_thread_that_goes_on_is_none() {
    let before =
        switch(0, -1_000, ("swapper/0", 0, 120), "R", SERVER) + &switch(1, -900, IDLE, "R", RT);
    let own = line(
        "hog-9",
        1,
        "d.h1.",
        0,
        "sched_waking: comm=rt pid=7 prio=49 target_cpu=001",
    );
    for (waking, state) in [
        // It was still to be run when the waking ended.
        (wakes("sched_waking", 0) + &wakes("sched_wakeup", 1), "S"),
        // It was preempted.
        (wakes("sched_waking", 0), "R"),
        // It had gone on for long.
        (wakes("sched_waking", -200), "S"),
        // An interrupt of its own CPU finds it before it begins to leave, or after it has left.
        (own, "S"),
    ] {
        let text = before.clone() + &waking + &leaving(2, state);
        assert!(
            bills(&(text.clone() + &back(5_000)), 7).is_empty(),
            "{waking}"
        );
        if state == "S" {
            let later = text + &wakes("sched_waking", 3_000) + &back(5_000);
            let rows = vec![(Stage::Switch, hog(), 2_000)];
            assert_eq!(bills(&later, 7), [(2_000, rows)], "{waking}");
        }
    }
    // A thread that was woken is not woken again before it ran: the first waking ended no sleep.
    let text = before + &wakes("sched_waking", 0) + &leaving(2, "S");
    let text = text + &wakes("sched_waking", 3_000) + &back(5_000);
    assert_eq!(
        bills(&text, 7),
        [(2_000, vec![(Stage::Switch, hog(), 2_000)])]
    );
}

fn moved(at_us: i64, by: (&str, u32), from_cpu: u32, to_cpu: u32) -> String {
    let event =
        format!("sched_migrate_task: comm=rt pid=7 prio=49 orig_cpu={from_cpu} dest_cpu={to_cpu}");
    line(by.0, by.1, "d..2.", at_us, &event)
}

/// Woken for CPU 1, where a hog runs, and taken over by CPU 2 after 3 ms.
#[test]
fn a_thread_that_another_cpu_takes_over_waited_for_the_first_one() {
    let innocent = ("innocent", 31, 120);
    let other = ("swapper/2", 0, 120);
    let begin = |before: i64| {
        switch(0, -99_000, ("swapper/0", 0, 120), "R", SERVER)
            + &switch(1, -before, RT, "S", HOG)
            + &wakes("sched_waking", 0)
    };
    let end = || moved(3_000, ("innocent-31", 2), 1, 2) + &switch(2, 3_002, innocent, "S", RT);
    let rows = vec![
        (Stage::Switch, hog(), 3_000),
        (Stage::Switch, Cause::WakePath, 2),
    ];
    // However long the thread there had run, and whether it came before the waking or after it.
    for came in [-90_000, 1_000] {
        let came = switch(2, came, other, "R", innocent);
        let text = begin(1_000) + &came + &end() + &back(9_000);
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_by_key(|line| line.split(' ').nth(4).map(str::to_owned));
        assert_eq!(bills(&lines.join("\n"), 7), [(3_002, rows.clone())]);
    }
    // It went to sleep before what is kept of the recording: the event of the move says where.
    let text = switch(2, -90_000, other, "R", innocent) + &begin(50_000) + &end();
    assert_eq!(bills(&text, 7), [(3_002, rows)]);
    // The thread that wakes it chooses a CPU: there it is from the beginning on.
    let text = switch(2, -90_000, other, "R", innocent)
        + &begin(1_000)
        + &moved(1, ("server-20", 0), 1, 2)
        + &switch(2, 40, innocent, "S", RT);
    let innocent = Cause::PreemptOff {
        task: "innocent".to_owned(),
        work: None,
    };
    assert_eq!(bills(&text, 7), [(40, vec![(Stage::Switch, innocent, 40)])]);
}

const KTIMERS: (&str, u32, i32) = ("ktimers/1", 18, 98);
/// The thread that a soft timer wakes: SCHED_FIFO 50.
const SOFT: (&str, u32, i32) = RT;

/// On PREEMPT_RT: a soft timer due at 0; its interrupt comes `irq` µs later and wakes the thread in which
/// its softirq runs, 5 ms after it was due. Until then `x` runs, with a tick each ms.
fn soft_timer(x: (&str, u32, i32), irq: i64) -> String {
    let on_x = |at: i64, event: &str| line(&format!("{}-{}", x.0, x.1), 1, "d.h1.", at, event);
    let soft = |at: i64, event: &str| line("ktimers/1-18", 1, "d.s1.", at, event);
    let mut text = line(
        "rt-7",
        1,
        "d..2.",
        -1_000,
        "hrtimer_start: hrtimer=aa expires=5000000000",
    ) + &switch(1, -990, SOFT, "S", x)
        + &on_x(irq, "local_timer_entry: vector=236")
        + &on_x(
            irq + 2,
            "sched_waking: comm=ktimers/1 pid=18 prio=98 target_cpu=001",
        )
        + &on_x(irq + 4, "local_timer_exit: vector=236");
    for tick in (irq + 1_000..4_900).step_by(1_000) {
        text += &on_x(tick, "local_timer_entry: vector=236");
        text += &on_x(tick + 2, "local_timer_exit: vector=236");
    }
    text + &switch(1, 5_000, x, if x.1 == 0 { "R" } else { "S" }, KTIMERS)
        + &soft(5_002, "softirq_entry: vec=8 [action=HRTIMER]")
        + &soft(
            5_003,
            "hrtimer_expire_entry: hrtimer=aa function=timerfd_tmrproc now=5005003000",
        )
        + &soft(5_005, "sched_waking: comm=rt pid=7 prio=49 target_cpu=001")
        + &soft(5_006, "hrtimer_expire_exit: hrtimer=aa")
        + &soft(5_007, "softirq_exit: vec=8 [action=HRTIMER]")
        + &switch(1, 5_009, KTIMERS, "R", SOFT)
}

/// The time of a cause in a stage, in µs.
fn sum(rows: &Rows, stage: Stage, cause: &Cause) -> u64 {
    let its = rows.iter().filter(|row| (row.0, &row.1) == (stage, cause));
    its.map(|row| row.2).sum()
}

/// The interrupt was on time; the softirq waited for a thread above its own.
#[test]
fn a_timer_whose_softirq_waits_for_the_cpu_was_not_late() {
    let (task, policy) = ("X".to_owned(), "SCHED_FIFO".to_owned());
    let late = Cause::LateInterrupt { task: task.clone() };
    let thread = |priority| Cause::Thread {
        task: task.clone(),
        policy: policy.clone(),
        priority,
    };
    let work = None;
    let kept = Cause::PreemptOff {
        task: task.clone(),
        work,
    };
    for (priority, cause) in [(89, thread(10)), (9, thread(90)), (120, kept)] {
        for irq in [2, 300] {
            let bills = bills(&soft_timer(("X", 30, priority), irq), 7);
            let (latency, rows) = &bills[0];
            assert_eq!(*latency, 5_009);
            assert_eq!(sum(rows, Stage::Interrupt, &late), irq as u64, "{rows:?}");
            // Without its own interrupt and four ticks.
            let expected = 5_000 - irq as u64 - 4 - 4 * 2;
            assert_eq!(sum(rows, Stage::Callback, &cause), expected, "{rows:?}");
            let own: u64 = Stage::ALL
                .iter()
                .map(|stage| sum(rows, *stage, &Cause::WakePath))
                .sum();
            assert_eq!(own, 4 + 9, "{rows:?}");
            // Without the events of interrupts the waking of the softirq's thread tells the same.
            let text = soft_timer(("X", 30, priority), irq);
            let lines = text.lines().filter(|line| !line.contains("local_timer"));
            let text: String = lines.map(|line| format!("{line}\n")).collect();
            let rows = &self::bills(&text, 7)[0].1;
            let irq = irq as u64 + 2;
            assert_eq!(sum(rows, Stage::Interrupt, &late), irq, "{rows:?}");
            assert_eq!(sum(rows, Stage::Callback, &cause), 5_000 - irq, "{rows:?}");
        }
    }
}

/// The woken thread takes the CPU before the callback and its softirq have ended.
#[test]
fn a_softirq_that_the_woken_thread_preempts_is_one_as_well() {
    let whole = soft_timer(("X", 30, 89), 2);
    let (ends, others): (Vec<&str>, Vec<&str>) = whole
        .lines()
        .partition(|line| line.contains("hrtimer_expire_exit") || line.contains("softirq_exit"));
    let ends: Vec<String> = ends
        .iter()
        .map(|end| end.replace("1.005", "1.007"))
        .collect();
    let sleeps = switch(1, 6_000, SOFT, "S", KTIMERS);
    let text = others.join("\n") + "\n" + &sleeps + &ends.join("\n");
    let found = bills(&text, 7);
    let (latency, rows) = &found[0];
    assert_eq!(*latency, 5_009);
    let late = Cause::LateInterrupt {
        task: "X".to_owned(),
    };
    assert_eq!(sum(rows, Stage::Interrupt, &late), 2, "{rows:?}");
    let x = Cause::Thread {
        task: "X".to_owned(),
        policy: "SCHED_FIFO".to_owned(),
        priority: 10,
    };
    assert_eq!(sum(rows, Stage::Callback, &x), 4_986, "{rows:?}");
}

#[test]
fn an_idle_cpu_on_its_way_to_a_softirq_leaves_its_idle_state() {
    let text = soft_timer(IDLE, 4_800);
    let rows = &bills(&text, 7)[0].1;
    let idle = Cause::IdleExit { state: None };
    assert_eq!(sum(rows, Stage::Callback, &idle), 5_000 - 4_804, "{rows:?}");
}
