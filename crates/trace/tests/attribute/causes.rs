//! Each cause alone, and several at once.

use punctual_record::explanation::RowNote;
use punctual_trace::attribute::Stage::{Exit, Interrupt, Switch, User};
use punctual_trace::attribute::event::{Kind, Task, Vector};
use punctual_trace::attribute::{Cause, Stage};

use super::build::*;

/// The causes in a stage other than the wake-up's own path.
pub fn others(made: &Made, stage: Stage) -> Vec<(Cause, u64)> {
    made.rows()
        .into_iter()
        .filter(|(of, cause, _)| *of == stage && !cause.is_path())
        .map(|(_, cause, ns)| (cause, ns))
        .collect()
}

pub fn text(text: &str) -> String {
    text.to_owned()
}

#[test]
fn an_interrupt_and_its_softirq_are_named() {
    let mut made = asleep(&hog(), 400_000);
    made.timer(500, 3_000, USER)
        .at(
            3_500,
            Kind::HandlerEntry {
                irq: 36,
                name: text("virtio0-input.0"),
            },
        )
        .at(44_500, Kind::HandlerExit { irq: 36 })
        .at(45_000, Kind::SoftirqEntry { number: 3 })
        .at(372_000, Kind::SoftirqExit { number: 3 })
        .switch(373_000, &hog(), &probe());
    assert_eq!(
        others(&made, Switch),
        [
            (Cause::Softirq { number: 3 }, 327_000),
            (
                Cause::Interrupt {
                    irq: 36,
                    name: text("virtio0-input.0")
                },
                41_000
            ),
        ]
    );
}

#[test]
fn interrupts_disabled_until_the_timer_came_are_the_cause() {
    let mut made = asleep(&hog(), 600_000);
    made.timer(586_000, 588_000, KERNEL)
        .switch(590_000, &hog(), &probe());
    let cause = Cause::IrqsOff {
        function: text("_raw_spin_unlock_irqrestore"),
        task: text("stress-ng"),
    };
    assert_eq!(others(&made, Interrupt), [(cause, 586_000)]);
    let note = RowNote::InterruptAt {
        place: text("_raw_spin_unlock_irqrestore+0x15"),
    };
    assert_eq!(made.bill().rows[0].notes, [note]);
}

#[test]
fn a_late_timer_over_any_kernel_code_may_be_the_platforms_delay() {
    let over = |name: &str| {
        let mut made = asleep(&hog(), 600_000);
        made.window.symbols.insert(0xb0, name.to_owned());
        made.at(-100, Kind::Stolen { total_ns: 0 })
            .timer(586_000, 588_000, KERNEL)
            .at(587_900, Kind::Stolen { total_ns: 500_000 })
            .switch(590_000, &hog(), &probe());
        others(&made, Interrupt)
    };
    let task = text("stress-ng");
    assert_eq!(
        over("_copy_to_iter+0x80"),
        [
            (Cause::Steal, 500_000),
            (Cause::LateInterrupt { task: task.clone() }, 86_000)
        ]
    );
    // 100 ns of the account's interval are before the wake-up: they may be among the stolen time.
    let function = text("_raw_spin_unlock_irqrestore");
    assert_eq!(
        over("_raw_spin_unlock_irqrestore+0x15"),
        [
            (Cause::Steal, 499_900),
            (Cause::IrqsOff { function, task }, 86_100)
        ]
    );
}

#[test]
fn interrupts_disabled_in_another_cpus_function_call_are_the_cause() {
    let mut made = asleep(&hog(), 600_000);
    made.called();
    assert_eq!(
        others(&made, Interrupt),
        [
            (
                Cause::Call {
                    function: text("do_flush_tlb_all")
                },
                583_600
            ),
            (
                Cause::CpuInterrupt {
                    vector: text("call function single")
                },
                400
            ),
            (Cause::Platform, 200),
        ]
    );
}

#[test]
fn a_late_timer_over_unknown_code_names_no_function() {
    let mut made = asleep(&hog(), 90_000);
    made.timer(80_000, 82_000, None)
        .switch(84_000, &hog(), &probe());
    let task = text("stress-ng");
    assert_eq!(
        others(&made, Interrupt),
        [(Cause::LateInterrupt { task }, 80_000)]
    );
}

#[test]
fn a_worker_is_named_with_its_work_item() {
    let worker = task(33, "kworker/1:2", 120, 0);
    let mut made = asleep(&hog(), 100_000);
    made.switch(-50_000, &hog(), &worker)
        .at(-40_000, Kind::WorkStart { function: 0xe0 })
        .timer(500, 3_000, KERNEL)
        .switch(93_000, &worker, &probe());
    let cause = Cause::PreemptOff {
        task: text("kworker/1:2"),
        work: Some(text("vmstat_update")),
    };
    assert_eq!(others(&made, Switch), [(cause, 90_000)]);
}

#[test]
fn threads_of_higher_and_equal_priority_interfere() {
    let higher = task(201, "irq/36-virtio0", 9, 1);
    let equal = task(202, "rival", 19, 2);
    let deadline = task(203, "dl", -1, 6);
    let mut made = asleep(&higher, 500_000);
    made.timer(500, 3_000, USER)
        .switch(103_000, &higher, &equal)
        .switch(203_000, &equal, &deadline)
        .switch(453_000, &deadline, &probe());
    let thread = |task: &str, policy: &str, priority| Cause::Thread {
        task: text(task),
        policy: text(policy),
        priority,
    };
    assert_eq!(
        others(&made, Switch),
        [
            (thread("dl", "SCHED_DEADLINE", 0), 250_000),
            (thread("irq/36-virtio0", "SCHED_FIFO", 90), 100_000),
            (thread("rival", "SCHED_RR", 80), 100_000),
        ]
    );
}

#[test]
fn a_lower_thread_that_ran_while_the_probe_was_ready_shows_throttling() {
    let other = task(204, "cc1", 120, 0);
    let higher = task(201, "spinner", 9, 1);
    let mut made = asleep(&higher, 60_000_000);
    made.timer(500, 3_000, USER)
        .switch(10_003_000, &higher, &other)
        .switch(50_003_000, &other, &idle())
        .switch(55_003_000, &idle(), &probe());
    assert_eq!(
        others(&made, Switch)[..1],
        [(Cause::Throttled { task: text("cc1") }, 40_000_000)]
    );
    assert!(others(&made, Switch).contains(&(
        Cause::Throttled {
            task: String::new()
        },
        5_000_000
    )));
}

#[test]
fn a_lower_real_time_thread_that_runs_although_the_probe_is_ready_had_a_higher_priority() {
    // Under a lock with a ceiling no event shows it; the limit of real-time threads would stop both.
    let lower = task(204, "logger", 89, 1);
    let thread = Cause::Thread {
        task: text("logger"),
        policy: text("SCHED_FIFO"),
        priority: 10,
    };
    let note = |made: &Made| {
        let rows = made.bill().rows;
        let row = rows.into_iter().find(|row| row.cause == thread);
        row.expect("its row").notes
    };
    // It ran already, and an interrupt found it in user mode.
    let mut ran = asleep(&lower, 3_000_000);
    ran.timer(500, 3_000, USER)
        .timer(1_000_000, 1_002_000, USER)
        .switch(2_900_000, &lower, &probe());
    assert_eq!(note(&ran), [RowNote::PriorityRaised]);
    // It came while the probe was ready.
    let higher = task(201, "spinner", 9, 1);
    let mut came = asleep(&higher, 9_000_000);
    came.timer(500, 3_000, USER)
        .switch(1_003_000, &higher, &lower)
        .switch(8_900_000, &lower, &probe());
    assert_eq!(note(&came), [RowNote::PriorityRaised]);
    // Under SCHED_DEADLINE a budget may be used up.
    came.window.probe.priority = -1;
    assert!(
        others(&came, Switch)
            .iter()
            .all(|(cause, _)| *cause != thread)
    );
}

#[test]
fn a_preemption_before_the_clock_is_read_is_billed() {
    let higher = task(201, "spinner", 9, 1);
    let mut made = asleep(&idle(), 110_000);
    made.timer(500, 3_000, KERNEL)
        .switch(5_000, &idle(), &probe())
        .switch(6_000, &probe(), &higher)
        .switch(106_000, &higher, &probe());
    assert_eq!(made.bill().stages.get(User), Some(105_000));
    let cause = Cause::Thread {
        task: text("spinner"),
        policy: text("SCHED_FIFO"),
        priority: 90,
    };
    assert_eq!(others(&made, User), [(cause, 100_000)]);
}

/// The probe takes a lock that `holder` has.
fn locked(holder: &Task) -> Made {
    let mut made = asleep(&idle(), 200_000);
    made.timer(500, 3_000, KERNEL)
        .switch(5_000, &idle(), &probe())
        .at(
            6_000,
            Kind::LockWait {
                lock: 0xf0,
                flags: 32,
                holder: Some(holder.clone()),
            },
        )
        .leaves(7_000, &probe(), 2, holder)
        .irq(50_000, Vector::IrqWork)
        .irq_exit(52_000, Vector::IrqWork)
        .at(180_000, Kind::Waking { tid: 100, by: None })
        .switch(182_000, holder, &probe())
        .at(183_000, Kind::LockDone { lock: 0xf0 });
    made
}

#[test]
fn a_lock_that_a_lower_thread_holds_is_an_inversion() {
    let cause = Cause::Inversion {
        lock: text("mmap_lock"),
        holder: text("stress-ng"),
        meanwhile: None,
    };
    // 1 µs spinning, 173 µs asleep minus the interrupt, 1 µs until it is taken; the switch
    // back belongs to the wake-up's own path.
    assert_eq!(
        others(&locked(&hog()), User),
        [
            (cause, 173_000),
            (
                Cause::CpuInterrupt {
                    vector: text("irq work")
                },
                2_000
            )
        ]
    );
    let peer = task(205, "rt-peer", 9, 1);
    let rows = others(&locked(&peer), User);
    let lock = Cause::Lock {
        lock: text("mmap_lock"),
        holder: Some(text("rt-peer")),
        meanwhile: None,
    };
    assert_eq!(rows[0], (lock, 173_000));
}

#[test]
fn a_page_fault_in_the_probe_is_billed() {
    let mut made = asleep(&idle(), 30_000);
    made.timer(500, 3_000, KERNEL)
        .switch(5_000, &idle(), &probe())
        .at(6_000, Kind::Fault { address: 0x7f00 });
    assert_eq!(others(&made, User), [(Cause::Fault, 24_000)]);
}

#[test]
fn a_page_fault_that_waits_for_the_disk_is_billed() {
    let mut made = asleep(&idle(), 9_000_000);
    made.timer(500, 3_000, KERNEL)
        .switch(5_000, &idle(), &probe())
        .at(6_000, Kind::Fault { address: 0x7f00 })
        .leaves(8_000, &probe(), 2, &idle())
        .at(8_900_000, Kind::Waking { tid: 100, by: None })
        .switch(8_903_000, &idle(), &probe());
    assert_eq!(others(&made, User)[0], (Cause::Fault, 8_894_000));
}

#[test]
fn a_stop_by_a_signal_is_billed() {
    let mut made = asleep(&idle(), 50_000_000);
    made.window.events.clear();
    made.leaves(-500_000, &probe(), 4, &idle())
        .at(49_990_000, Kind::Waking { tid: 100, by: None })
        .switch(49_993_000, &idle(), &probe());
    let state = text("stopped");
    assert_eq!(
        others(&made, Stage::Waking),
        [(Cause::Blocked { state }, 49_990_000)]
    );
}

#[test]
fn a_storm_of_timers_within_the_interrupt_is_billed_by_callback() {
    let mut made = asleep(&hog(), 200_000);
    made.at(
        500,
        Kind::VectorEntry {
            vector: Vector::LocalTimer,
            interrupted: USER,
        },
    )
    .callback(1_000)
    .at(1_300, Kind::Waking { tid: 100, by: None });
    for n in 0..10 {
        let timer = 0x1000 + n as u64;
        made.at(
            2_000 + n * 15_000,
            Kind::TimerExpire {
                timer,
                function: 0xa0,
                expires_ns: DUE,
                of_probe: false,
            },
        );
    }
    made.irq_exit(152_000, Vector::LocalTimer)
        .switch(155_000, &hog(), &probe());
    let function = text("tick_nohz_handler");
    assert_eq!(
        others(&made, Exit),
        [(Cause::TimerCallback { function }, 150_000)]
    );
}

#[test]
fn on_preempt_rt_a_softirq_belongs_to_its_thread() {
    let softirqd = task(15, "ksoftirqd/1", 120, 0);
    let mut made = asleep(&softirqd, 60_000);
    made.window.preempt_rt = true;
    made.at(-90_000, Kind::SoftirqEntry { number: 3 })
        .timer(500, 3_000, USER)
        .switch(43_000, &softirqd, &probe());
    let task = text("ksoftirqd/1");
    assert_eq!(
        others(&made, Switch),
        [(Cause::PreemptOff { task, work: None }, 40_000)]
    );
}

/// A late wake-up delays the next one before that has armed its timer.
#[test]
fn the_wait_for_the_previous_wake_up_is_not_billed_as_a_sleep() {
    let late = |expires_ns| {
        let mut made = asleep(&idle(), 66_000_000);
        made.window.waiting_ns = DUE + 65_000_000;
        made.irq(44_850_000, Vector::LocalTimer)
            .at(
                44_951_000,
                Kind::TimerExpire {
                    timer: 0x55,
                    function: 0x99,
                    expires_ns,
                    of_probe: false,
                },
            )
            .at(44_953_000, Kind::Waking { tid: 100, by: None })
            .irq_exit(45_000_000, Vector::LocalTimer)
            .switch(45_010_000, &idle(), &probe())
            .leaves(65_010_000, &probe(), 1, &idle())
            .timer(65_020_000, 65_030_000, None)
            .switch(65_990_000, &idle(), &probe());
        let bill = made.bill();
        let mut rows = bill.rows.into_iter();
        rows.find(|row| matches!(row.cause, Cause::Blocked { .. }))
            .unwrap()
    };
    let row = late(DUE - 50_000_000);
    let state = text("earlier-timer");
    assert_eq!(row.cause, Cause::Blocked { state });
    let note = RowNote::PreviousWakeUp {
        late_ns: 94_951_000,
    };
    assert_eq!(row.notes, [note]);
}

#[test]
fn a_probe_that_was_not_asleep_yet_delays_itself() {
    let mut made = asleep(&idle(), 30_000);
    made.window.events.clear();
    made.window.waiting_ns = DUE - 5_000;
    made.irq(20_000, Vector::IrqWork)
        .irq_exit(21_000, Vector::IrqWork);
    // No event says that it ever slept.
    let rows = made.rows();
    assert_eq!(
        rows[1],
        (
            User,
            Cause::CpuInterrupt {
                vector: text("irq work")
            },
            1_000
        )
    );
    assert_eq!(rows[0], (User, Cause::WakePath, 29_000));
}

#[test]
fn several_causes_at_once_share_the_time_and_none_is_billed_twice() {
    let mut made = asleep(&hog(), 1_000_000);
    made.at(
        -1_000,
        Kind::HandlerEntry {
            irq: 24,
            name: text("nvme0q1"),
        },
    )
    .at(30_000, Kind::HandlerExit { irq: 24 })
    .timer(31_000, 33_000, KERNEL)
    .at(34_000, Kind::SoftirqEntry { number: 4 })
    .irq(40_000, Vector::CallFunction)
    .at(
        41_000,
        Kind::CallEntry {
            function: 0xd0,
            request: 0xe1,
        },
    )
    .at(60_000, Kind::Nmi { duration_ns: 5_000 })
    .at(70_000, Kind::CallExit { function: 0xd0 })
    .irq_exit(71_000, Vector::CallFunction)
    .at(134_000, Kind::SoftirqExit { number: 4 })
    .switch(634_000, &hog(), &probe())
    .at(700_000, Kind::Fault { address: 1 });
    let name = text("nvme0q1");
    assert_eq!(
        others(&made, Interrupt),
        [
            (Cause::Interrupt { irq: 24, name }, 30_000),
            (Cause::Platform, 1_000),
        ]
    );
    assert_eq!(
        others(&made, Switch),
        [
            (
                Cause::PreemptOff {
                    task: text("stress-ng"),
                    work: None
                },
                501_000
            ),
            (Cause::Softirq { number: 4 }, 69_000),
            (
                Cause::Call {
                    function: text("do_flush_tlb_all")
                },
                24_000
            ),
            (Cause::Nmi, 5_000),
            (
                Cause::CpuInterrupt {
                    vector: text("call function")
                },
                2_000
            ),
        ]
    );
    assert_eq!(
        others(&made, User),
        [(Cause::Fault, 300_000), (Cause::Unexplained, 66_000)]
    );
}

#[test]
fn the_tracers_own_timer_is_billed_to_the_tracer() {
    let made = |callback: &str| {
        let mut made = asleep(&hog(), 100_000);
        made.window.symbols.insert(0x88, callback.to_owned());
        made.timer(500, 3_000, USER)
            .irq(50_000, Vector::LocalTimer)
            .irq_exit(52_000, Vector::LocalTimer)
            .at(53_000, Kind::SoftirqEntry { number: 8 })
            .at(
                53_200,
                Kind::TimerExpire {
                    timer: 9,
                    function: 0x88,
                    expires_ns: DUE,
                    of_probe: false,
                },
            )
            .at(53_700, Kind::TimerDone { timer: 9 })
            .at(54_000, Kind::SoftirqExit { number: 8 })
            .switch(93_000, &hog(), &probe());
        others(&made, Switch)
    };
    let hog = (
        Cause::PreemptOff {
            task: text("stress-ng"),
            work: None,
        },
        87_000,
    );
    assert_eq!(
        made("bpf_timer_cb+0x4"),
        [hog.clone(), (Cause::Tracer, 3_000)]
    );
    assert_eq!(
        made("tcp_pace_kick"),
        [
            hog,
            (
                Cause::CpuInterrupt {
                    vector: text("local timer")
                },
                2_000
            ),
            (
                Cause::TimerCallback {
                    function: text("tcp_pace_kick")
                },
                500
            ),
            (Cause::Softirq { number: 8 }, 500),
        ]
    );
}
