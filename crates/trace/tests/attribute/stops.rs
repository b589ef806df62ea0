//! A stopped probe: which part of its wake-up belongs to the stop, to the probe, and to the machine.
//! The recorded windows are from a virtual machine whose interrupts take 10 to 60 µs; their bills
//! were made by hand.

use punctual_record::explanation::RowNote;
use punctual_trace::attribute::Stage::{Callback, Exit, Interrupt, Switch, User, Waking};
use punctual_trace::attribute::event::{Kind, Vector};
use punctual_trace::attribute::{Cause, Stage, bill};

use super::build::*;
use super::data::window;

/// The kernel's number for a thread that a signal stopped.
const STOPPED: u64 = 0x104;

fn stopped() -> Cause {
    let state = "stopped".to_owned();
    Cause::Blocked { state }
}

fn late(task: &str) -> Cause {
    let task = task.to_owned();
    Cause::LateInterrupt { task }
}

fn unpreempted(task: &str) -> Cause {
    let (task, work) = (task.to_owned(), None);
    Cause::PreemptOff { task, work }
}

fn recorded(name: &str) -> Vec<(Stage, Cause, u64)> {
    let rows = bill(&window(name)).rows.into_iter();
    rows.map(|row| (row.stage, row.cause, row.ns)).collect()
}

/// Stopped half a millisecond before it was due, on a busy CPU, and continued by another CPU: the
/// switch in which it left is before the window. The stop cancelled its timer, which was armed
/// again when it continued.
#[test]
fn a_stop_that_began_before_the_window_has_all_of_its_time() {
    assert_eq!(window("stopped-0").left, Some(STOPPED));
    assert_eq!(
        recorded("stopped-0"),
        [
            (Interrupt, stopped(), 213_956),
            // It had called the kernel again, and its timer took this long to arrive.
            (Interrupt, Cause::Probe, 36_167),
            (Interrupt, late("rustc"), 29_170),
            (Interrupt, Cause::Tracer, 11_201),
            (Interrupt, unpreempted("rustc"), 5_671),
            (Interrupt, Cause::WakePath, 1_402),
            (Callback, Cause::Tracer, 31_850),
            (Callback, Cause::WakePath, 1_743),
            (Waking, Cause::WakePath, 1_232),
            (Exit, Cause::WakePath, 11_862),
            (User, Cause::WakePath, 1_673),
        ]
    );
}

/// The same events, but how it left is unknown: no stop is invented.
#[test]
fn an_unknown_departure_is_not_guessed() {
    let mut window = window("stopped-0");
    window.left = None;
    let blocked = |cause: &Cause| *cause == stopped();
    assert!(
        !bill(&window)
            .causes()
            .iter()
            .any(|(cause, _)| blocked(cause))
    );
}

/// The signal woke it 14 µs before it was due, and the virtual CPU had halted: it ran again 60 µs
/// later, before the probe could stop. None of that time belongs to the stop, nor does the path
/// back when it was continued.
#[test]
fn the_path_into_a_stop_and_out_of_it_is_not_billed_to_the_stop() {
    let idle = Cause::IdleExit { state: Some(1) };
    let disk = Cause::Interrupt {
        irq: 36,
        name: "virtio1-req.0".to_owned(),
    };
    let rows = recorded("stopped-1");
    let of = |stage: Stage, cause: &Cause| {
        let row = rows.iter().find(|row| row.0 == stage && row.1 == *cause);
        row.map_or(0, |row| row.2)
    };
    assert_eq!(of(Interrupt, &idle), 63_732, "{rows:#?}");
    assert_eq!(of(Callback, &Cause::Tracer), 34_704);
    assert_eq!(of(Callback, &Cause::WakePath), 972);
    assert_eq!(of(Waking, &idle), 23_174);
    assert_eq!(of(Waking, &disk), 4_458);
    // From its switch until it left its CPU.
    assert_eq!(of(Waking, &Cause::Probe), 10_600);
    assert_eq!(of(Waking, &stopped()), 98_951);
    assert_eq!(of(Waking, &Cause::Softirq { number: 4 }), 11_161);
    assert_eq!(of(Switch, &idle), 38_765);
    assert_eq!(of(Switch, &stopped()), 0);
    assert_eq!(of(User, &Cause::WakePath), 6_292);
    let bill = bill(&window("stopped-1"));
    let row = bill.rows.iter().find(|row| row.cause == Cause::Probe);
    assert_eq!(row.expect("a row").notes, [RowNote::AwakeAlready]);
}

/// Idle for seconds, but after it was stopped: no idle state is the reason.
#[test]
fn an_idle_cpu_is_the_stops_while_it_lasts_and_the_idle_states_after() {
    let mut made = asleep(&idle(), 2_000_060_000);
    made.window.events.clear();
    made.window.left = Some(STOPPED);
    made.switch(-300_000, &hog(), &idle())
        .at(-299_000, Kind::Idle { state: Some(1) })
        .on(0)
        .at(2_000_000_000, Kind::Waking { tid: 100, by: None })
        .on(CPU)
        .irq(2_000_040_000, Vector::CallFunctionSingle)
        .irq_exit(2_000_041_000, Vector::CallFunctionSingle)
        .switch(2_000_045_000, &idle(), &probe());
    let state = Some(1);
    let vector = "call function single".to_owned();
    assert_eq!(
        made.rows(),
        [
            (Waking, stopped(), 2_000_000_000),
            (Switch, Cause::IdleExit { state }, 44_000),
            (Switch, Cause::CpuInterrupt { vector }, 1_000),
            (User, Cause::WakePath, 15_000),
        ]
    );
}

/// Who stopped it, before the window or within it; whoever stopped another thread, or later, did not.
#[test]
fn a_stop_names_the_sender_of_its_signal_or_the_debugger() {
    let notes = |state: u64, stops: &[(i64, u32, Option<i32>, &str)]| {
        let mut made = asleep(&idle(), 300_000);
        made.window.events.clear();
        made.window.left = Some(state);
        for (at, tid, signal, name) in stops {
            let stop = Kind::Stop {
                tid: *tid,
                signal: *signal,
                by: Some(task(4711, name, 120, 0)).filter(|by| !by.name.is_empty()),
            };
            made.at(*at, stop);
        }
        made.switch(-300_000, &hog(), &idle())
            .at(200_000, Kind::Waking { tid: 100, by: None })
            .switch(204_000, &idle(), &probe());
        let rows = made.bill().rows.into_iter();
        let mut rows = rows.filter(|row| matches!(row.cause, Cause::Blocked { .. }));
        let row = rows.next().expect("a stop");
        assert_eq!((row.ns, rows.next()), (200_000, None));
        let notes = row.notes.into_iter().map(|note| match note {
            RowNote::StoppedBy { signal, thread } => {
                (signal, thread.and_then(|it| it.name).unwrap_or_default())
            }
            note => panic!("{note:?}"),
        });
        notes.collect::<Vec<_>>()
    };
    let stops = [
        (-400_000, 100, Some(19), "pkill"),
        (-390_000, 101, Some(19), "other"),
        (-380_000, 100, None, "gdb"),
        (-370_000, 100, Some(19), "pkill"),
        (310_000, 100, Some(20), "later"),
    ];
    assert_eq!(notes(STOPPED, &stops), [(Some(19), "pkill".to_owned())]);
    assert_eq!(notes(0x108, &stops), [(None, "gdb".to_owned())]);
    assert_eq!(notes(STOPPED, &stops[1..3]), []);
    // Ctrl-Z: the terminal sends it. Who sent SIGSTOP instead is not known.
    let unsent = [(-400_000, 100, Some(20), ""), (-390_000, 100, Some(19), "")];
    assert_eq!(notes(STOPPED, &unsent), [(Some(20), String::new())]);
}

/// While it is stopped none of its timers runs: what interrupts do then isn't delayed by it.
#[test]
fn a_softirq_during_a_stop_delays_no_timer() {
    let mut made = asleep(&hog(), 400_000);
    made.window.events.clear();
    made.window.left = Some(STOPPED);
    made.window.waiting_ns = DUE + 310_000;
    made.switch(-300_000, &idle(), &hog())
        .at(100_000, Kind::SoftirqEntry { number: 9 })
        .at(120_000, Kind::SoftirqExit { number: 9 })
        .on(0)
        .at(300_000, Kind::Waking { tid: 100, by: None })
        .on(CPU)
        .irq(302_000, Vector::Reschedule)
        .irq_exit(303_000, Vector::Reschedule)
        .switch(304_000, &hog(), &probe())
        .timer(330_000, 340_000, KERNEL);
    assert_eq!(
        made.rows()[..4],
        [
            (Interrupt, stopped(), 280_000),
            (Interrupt, Cause::Probe, 26_000),
            (Interrupt, Cause::Softirq { number: 9 }, 20_000),
            (Interrupt, Cause::WakePath, 4_000),
        ]
    );
}

/// Woken by another CPU: until its request arrives, no thread has disabled preemption.
#[test]
fn a_request_to_switch_on_its_way_blames_no_thread() {
    let mut made = asleep(&hog(), 100_000);
    made.on(0)
        .at(-1_000, Kind::Waking { tid: 100, by: None })
        .on(CPU)
        .irq(40_000, Vector::Reschedule)
        .irq_exit(41_000, Vector::Reschedule)
        .switch(90_000, &hog(), &probe());
    assert_eq!(
        made.rows(),
        [
            (Switch, unpreempted("stress-ng"), 49_000),
            (Switch, late("stress-ng"), 40_000),
            (Switch, Cause::WakePath, 1_000),
            (User, Cause::WakePath, 10_000),
        ]
    );
    // A request that comes for another reason, while its own CPU woke it.
    let mut made = asleep(&hog(), 100_000);
    made.at(-1_000, Kind::Waking { tid: 100, by: None })
        .irq(40_000, Vector::Reschedule)
        .irq_exit(41_000, Vector::Reschedule)
        .switch(90_000, &hog(), &probe());
    assert_eq!(made.rows()[0], (Switch, unpreempted("stress-ng"), 89_000));
}

/// An interrupt that only raises the tracer's softirq belongs to the tracer, whatever follows.
#[test]
fn the_tracers_interrupt_is_billed_to_it_before_another_timers() {
    let mut made = asleep(&hog(), 400_000);
    made.window.symbols.insert(0xbb, "bpf_timer_cb".to_owned());
    let timer = Kind::TimerExpire {
        timer: 5,
        function: 0xbb,
        expires_ns: DUE + 60_000,
        of_probe: false,
    };
    made.irq(61_000, Vector::LocalTimer)
        .irq_exit(70_000, Vector::LocalTimer)
        .at(71_000, Kind::SoftirqEntry { number: 8 })
        .at(71_500, timer)
        .at(73_000, Kind::SoftirqExit { number: 8 })
        .timer(380_000, 390_000, USER)
        .switch(395_000, &hog(), &probe());
    let tracer = (Interrupt, Cause::Tracer, 9_000 + 2_000);
    assert!(made.rows().contains(&tracer), "{:#?}", made.rows());
}

fn frozen() -> Cause {
    let state = "frozen".to_owned();
    Cause::Blocked { state }
}

/// Its control group was frozen while it slept. Since Linux 6.1 no event shows that: its timer
/// expires, wakes no thread, and another CPU wakes it once it thaws. The thread that ran meanwhile
/// did not delay it.
#[test]
fn a_timer_that_woke_no_thread_shows_a_freezer() {
    let above = task(300, "fifo99-hog", 0, 1);
    let made = |by: Vec<Kind>| {
        let mut made = asleep(&hog(), 400_000);
        made.irq(10_000, Vector::LocalTimer).callback(11_000);
        for (kind, at) in by.into_iter().zip(11_300..) {
            made.at(at, kind);
        }
        made.irq_exit(14_000, Vector::LocalTimer)
            .switch(100_000, &hog(), &above)
            .switch(200_000, &above, &hog())
            .on(0)
            .at(350_000, Kind::Waking { tid: 100, by: None })
            .on(CPU)
            .irq(352_000, Vector::Reschedule)
            .irq_exit(353_000, Vector::Reschedule)
            .switch(355_000, &hog(), &probe());
        made
    };
    let slept = made(Vec::new());
    let its = |made: &Made| -> u64 {
        let rows = made.rows().into_iter();
        let its = rows.filter(|(_, cause, _)| *cause == frozen());
        its.map(|(_, _, ns)| ns).sum()
    };
    assert_eq!(its(&slept), 350_000 - 14_000, "{:#?}", slept.rows());
    let accused = |cause: &Cause| {
        matches!(
            cause,
            Cause::Thread { .. } | Cause::Throttled { .. } | Cause::PreemptOff { .. }
        )
    };
    assert!(slept.rows().iter().all(|(_, cause, _)| !accused(cause)));
    // A thread that is woken by its timer, is already awake, or has lost events, is not frozen.
    let woken = made(vec![Kind::Waking { tid: 100, by: None }]);
    assert_eq!(its(&woken), 0, "{:#?}", woken.rows());
    let mut awake = made(Vec::new());
    awake.at(-1_000, Kind::Waking { tid: 100, by: None });
    assert_eq!(its(&awake), 0, "{:#?}", awake.rows());
    let mut lost = made(Vec::new());
    lost.window.lost = 1;
    assert_eq!(its(&lost), 0, "{:#?}", lost.rows());
    // Another kind of timer need not wake it.
    let mut other = made(Vec::new());
    other
        .window
        .symbols
        .insert(0x99, "posix_timer_fn".to_owned());
    assert_eq!(its(&other), 0, "{:#?}", other.rows());
}

/// Frozen by version 2 it leaves its CPU once more, like a stopped one, and the recorder reports it.
#[test]
fn a_frozen_thread_blames_no_other_thread() {
    let mut made = asleep(&hog(), 400_000);
    made.window.events.clear();
    made.window.left = Some(0x8001);
    made.window.waiting_ns = DUE + 360_000;
    made.switch(-300_000, &idle(), &hog())
        .on(0)
        .at(350_000, Kind::Waking { tid: 100, by: None })
        .on(CPU)
        .irq(352_000, Vector::Reschedule)
        .irq_exit(353_000, Vector::Reschedule)
        .switch(355_000, &hog(), &probe());
    assert_eq!(
        made.rows()[0],
        (Waking, frozen(), 350_000),
        "{:#?}",
        made.rows()
    );
}
