//! Where in the kernel a culprit was: stacks and system calls.

use punctual_record::explanation::RowNote;
use punctual_trace::attribute::Cause;
use punctual_trace::attribute::Stage::Switch;
use punctual_trace::attribute::event::{Kind, Vector};

use super::build::*;
use super::causes::{others, text};

#[test]
fn preemption_disabled_has_the_stack_that_was_taken() {
    let mut made = asleep(&hog(), 580_000);
    made.timer(500, 3_000, USER)
        .irq(100_000, Vector::LocalTimer)
        .at(
            106_700,
            Kind::Stack {
                tid: 200,
                cost_ns: 6_000,
                frames: vec![0xc0, 0xc1],
            },
        )
        .irq_exit(107_000, Vector::LocalTimer)
        .switch(569_700, &hog(), &probe());
    assert_eq!(
        others(&made, Switch),
        [
            (
                Cause::PreemptOff {
                    task: text("stress-ng"),
                    work: None
                },
                569_700 - 3_000 - 7_000
            ),
            (Cause::Tracer, 6_000),
            (
                Cause::CpuInterrupt {
                    vector: text("local timer")
                },
                1_000
            ),
        ]
    );
    let bill = made.bill();
    let row = bill
        .rows
        .iter()
        .find(|row| matches!(row.cause, Cause::PreemptOff { .. }));
    assert_eq!(
        row.unwrap().stack,
        ["free_pcppages_bulk+0x1a", "exit_mmap+0x2f0"]
    );
}

#[test]
fn a_thread_that_released_the_cpu_has_the_stack_of_that_moment() {
    let left = |tid, frames: &[u64]| Kind::Left {
        tid,
        call: Some(libc::SYS_munmap as u32),
        frames: frames.to_vec(),
    };
    let bill = |kind: Kind| {
        let mut made = asleep(&hog(), 580_000);
        made.timer(500, 3_000, KERNEL)
            .switch(569_700, &hog(), &probe())
            .at(569_700, kind);
        let rows = made.bill().rows.into_iter();
        let row = rows.filter(|row| matches!(row.cause, Cause::PreemptOff { .. }));
        row.map(|row| (row.stack, row.notes)).next().unwrap()
    };
    let call = RowNote::SystemCall {
        call: "munmap".into(),
    };
    let (stack, notes) = bill(left(200, &[0xc0, 0xc1]));
    assert_eq!(stack, ["free_pcppages_bulk+0x1a", "exit_mmap+0x2f0"]);
    assert_eq!(notes, [call.clone(), RowNote::StackOfRelease]);
    // On its way to user mode it has no useful stack.
    let (stack, notes) = bill(left(200, &[]));
    assert!(stack.is_empty());
    assert_eq!(notes, [call]);
    // The stack of another thread says nothing about this one.
    assert_eq!(bill(left(201, &[0xc0])), (Vec::new(), Vec::new()));
}

#[test]
fn interrupts_disabled_has_the_stack_of_a_thread_that_was_preempted_there() {
    let stack = |frames: &[u64]| {
        let frames = frames.to_vec();
        let mut made = asleep(&hog(), 590_000);
        let left = Kind::Left {
            tid: 200,
            call: None,
            frames,
        };
        made.timer(586_000, 588_000, KERNEL)
            .switch(589_000, &hog(), &probe())
            .at(589_000, left);
        let mut rows = made.bill().rows.into_iter();
        let row = rows.find(|row| matches!(row.cause, Cause::IrqsOff { .. }));
        row.unwrap().stack
    };
    let there = [
        "_raw_spin_unlock_irqrestore+0x15",
        "free_pcppages_bulk+0x1a",
    ];
    assert_eq!(stack(&[0xb0, 0xc0]), there);
    assert!(stack(&[0xc0]).is_empty(), "it went on before it let go");
}

#[test]
fn a_thread_that_a_softirq_interrupted_is_not_blamed() {
    let mut made = asleep(&hog(), 600_000);
    made.at(-50_000, Kind::SoftirqEntry { number: 3 })
        .timer(586_000, 588_000, KERNEL)
        .at(588_500, Kind::SoftirqExit { number: 3 })
        .switch(590_000, &hog(), &probe());
    let rows = made.bill().rows;
    let of_softirq =
        |cause: &Cause| matches!(cause, Cause::IrqsOff { task, .. } if task == "softirq NET_RX");
    let row = rows.iter().find(|row| of_softirq(&row.cause));
    assert_eq!(row.map(|row| row.by.as_slice()), Some(&[][..]), "{rows:#?}");
}
