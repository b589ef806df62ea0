//! The names in a bill. They come from the window and may be anything, so
//! they are cut to the length that a record takes.

use super::event::{Origin, Task, Vector, Window};
use super::timeline::Layer;
use punctual_record::explanation::{Ancestor, Cause, Culprit, Explanation};

/// Cuts a text to the length that a record takes.
pub(super) fn bounded(text: &str) -> String {
    let end = text.floor_char_boundary(text.len().min(Explanation::TEXT));
    text[..end].to_owned()
}

/// A function with its offset; an address without a name as a number.
pub(super) fn symbol(window: &Window, address: u64) -> String {
    match window.symbols.get(&address) {
        Some(name) => bounded(name),
        None => format!("{address:#x}"),
    }
}

/// A function without its offset, so that two places in it are one cause; or its address.
pub(super) fn function(window: &Window, address: u64) -> String {
    let name = symbol(window, address);
    match name.split_once('+') {
        Some((function, _)) if !function.is_empty() => function.to_owned(),
        _ => name,
    }
}

pub(super) fn task(task: Option<&Task>) -> String {
    task.map_or_else(String::new, |task| bounded(&task.name))
}

pub(super) fn policy(task: &Task) -> String {
    match task.policy {
        0 => "SCHED_OTHER",
        1 => "SCHED_FIFO",
        2 => "SCHED_RR",
        3 => "SCHED_BATCH",
        5 => "SCHED_IDLE",
        6 => "SCHED_DEADLINE",
        7 => "SCHED_EXT",
        _ => "unknown policy",
    }
    .to_owned()
}

/// The real-time priority that `sched_setscheduler` would name.
pub(super) fn priority(task: &Task) -> u32 {
    match task.priority {
        priority @ 0..=98 => 99 - priority.unsigned_abs(),
        _ => 0,
    }
}

pub(super) fn vector(vector: Vector) -> String {
    match vector {
        Vector::LocalTimer => "local timer".to_owned(),
        Vector::Reschedule => "reschedule".to_owned(),
        Vector::CallFunction => "call function".to_owned(),
        Vector::CallFunctionSingle => "call function single".to_owned(),
        Vector::IrqWork => "irq work".to_owned(),
        Vector::Platform => "platform".to_owned(),
        Vector::Thermal => "thermal".to_owned(),
        Vector::Threshold => "machine check threshold".to_owned(),
        Vector::Other(number) => format!("vector {number}"),
    }
}

/// The cause of what interrupts threads, and of a softirq that runs in a thread.
pub(super) fn interrupt(window: &Window, layer: Layer<'_>) -> Option<Cause> {
    Some(match layer {
        Layer::Nmi => Cause::Nmi,
        Layer::Tracer => Cause::Tracer,
        Layer::Handler(irq, name) => Cause::Interrupt {
            irq,
            name: bounded(name),
        },
        Layer::Call(address) => Cause::Call {
            function: function(window, address),
        },
        Layer::Timer {
            function: address, ..
        } => Cause::TimerCallback {
            function: function(window, address),
        },
        Layer::Vector(vector) => Cause::CpuInterrupt {
            vector: self::vector(vector),
        },
        Layer::Softirq(number) => Cause::Softirq { number },
        Layer::Thread => return None,
    })
}

/// Whether a softirq serves timers.
pub(super) fn softirq_is_timer(number: u32) -> bool {
    const TIMER: u32 = 1;
    const HRTIMER: u32 = 8;
    matches!(number, TIMER | HRTIMER)
}

/// The kernel's number for the state of a frozen thread (since 6.1); the recorder uses it for all
/// kernels.
pub(super) const FROZEN: u64 = 0x8000;

/// How a thread sleeps, from the kernel's number for its state.
pub(super) fn sleep(state: Option<u64>) -> String {
    match state {
        Some(state) if state & FROZEN != 0 => "frozen",
        Some(state) if state & 0x4 != 0 => "stopped",
        Some(state) if state & 0x8 != 0 => "traced",
        Some(state) if state & 0x2 != 0 => "disk",
        _ => "asleep",
    }
    .to_owned()
}

/// Whether a thread in this state waits to be continued: by a signal, a debugger, or the
/// freezer of its control group.
pub(crate) fn is_stopped(state: u64) -> bool {
    state & (0xc | FROZEN) != 0
}

/// A thread of higher or equal priority that interferes.
pub(super) fn interference(by: &Task) -> Cause {
    Cause::Thread {
        task: bounded(&by.name),
        policy: policy(by),
        priority: priority(by),
    }
}

/// The thread that a cause is about, if that is the one that ran.
pub(super) fn culprit(cause: &Cause, thread: &Task, window: &Window) -> Option<Culprit> {
    let ran = matches!(
        cause,
        Cause::IrqsOff { .. }
            | Cause::LateInterrupt { .. }
            | Cause::PreemptOff { .. }
            | Cause::Thread { .. }
            | Cause::FairShare { .. }
            | Cause::Throttled { .. }
    );
    (ran && thread.tid != 0).then(|| self::thread(thread, window))
}

/// A thread that ran for so long, with its name.
#[must_use]
pub fn culprit_of(task: &Task, ns: u64, origin: Option<&Origin>) -> Culprit {
    Culprit {
        ns,
        name: Some(bounded(&task.name)),
        ..described(task, origin)
    }
}

/// A thread as the events of a window describe it.
pub(super) fn thread(thread: &Task, window: &Window) -> Culprit {
    described(thread, window.origins.get(&thread.tid))
}

fn described(thread: &Task, origin: Option<&Origin>) -> Culprit {
    let mut culprit = Culprit {
        tid: thread.tid,
        policy: policy(thread),
        priority: priority(thread),
        nice: nice(thread),
        ..Culprit::default()
    };
    if let Some(origin) = origin {
        let parents = origin.parents.iter().take(Culprit::PARENTS);
        let named = |it: &Ancestor| Ancestor {
            name: bounded(&it.name),
            ..it.clone()
        };
        culprit.pid = Some(origin.pid);
        culprit.command = origin.command.as_deref().map(bounded);
        culprit.group = origin.group.as_deref().map(bounded);
        culprit.parents = parents.map(named).collect();
    }
    culprit
}

/// The nice value of an ordinary thread, but for that of most: the kernel counts their priorities from
/// 100 on.
fn nice(thread: &Task) -> Option<i32> {
    let nice = thread.priority - 120;
    let is_ordinary = (100..140).contains(&thread.priority) && matches!(thread.policy, 0 | 3);
    (is_ordinary && nice != 0).then_some(nice)
}
