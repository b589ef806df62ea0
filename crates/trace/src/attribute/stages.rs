//! The course of a wake-up: who woke the probe, where, and when it passed from
//! one stage to the next.

use super::event::{Event, FUTEX, Kind, Task, Window};
use super::naming;
use super::timeline::{CpuTimeline, Frame, Lock};
use punctual_record::explanation::{Instants, Stage};

/// Events of the wake-up itself, found before any CPU is examined.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WakeUpEvents {
    /// The probe's timer expired: when, on which CPU.
    pub callback: Option<(u64, u32)>,
    /// A thread or an interrupt woke the probe: when, on which CPU.
    pub waking: Option<(u64, u32)>,
    /// The first switch to the probe after that: when, on which CPU.
    pub switch: Option<(u64, u32)>,
}

impl WakeUpEvents {
    pub(super) fn from_events(window: &Window, events: &[&Event]) -> Self {
        let (due, woken) = (window.due_ns, window.woken_ns);
        let earliest = window.waiting_ns.min(due);
        let within = |event: &&&Event| event.at_ns >= earliest && event.at_ns <= woken;
        let expiries = || {
            events
                .iter()
                .filter(within)
                .filter_map(|event| match event.kind {
                    Kind::TimerExpire {
                        of_probe: true,
                        expires_ns,
                        ..
                    } => Some((event.at_ns, event.cpu, expires_ns)),
                    _ => None,
                })
        };
        let callback = expiries()
            .find(|(_, _, expires)| *expires == due)
            .or_else(|| expiries().find(|(at, _, _)| *at >= due))
            .map(|(at, cpu, _)| (at, cpu));
        let wakings = || {
            events
                .iter()
                .filter(within)
                .filter_map(|event| match event.kind {
                    Kind::Waking { tid, .. } if tid == window.probe.tid => {
                        Some((event.at_ns, event.cpu))
                    }
                    _ => None,
                })
        };
        let from = callback.map_or(due, |(at, _)| at);
        let waking = wakings()
            .find(|(at, _)| *at >= from)
            // Woken before it was due: it was ready all the time.
            .or_else(|| wakings().rfind(|_| callback.is_none()));
        let ready = waking.or(callback).map_or(due, |(at, _)| at);
        let switch = events
            .iter()
            .filter(within)
            .find_map(|event| match &event.kind {
                Kind::Switch { to, .. } if to.tid == window.probe.tid && event.at_ns >= ready => {
                    Some((event.at_ns, event.cpu))
                }
                _ => None,
            });
        Self {
            callback,
            waking,
            switch,
        }
    }

    /// The CPU on which the probe was woken.
    pub(super) fn waking_cpu(&self, window: &Window) -> u32 {
        self.callback
            .or(self.waking)
            .map_or(window.cpu, |(_, cpu)| cpu)
    }

    /// The CPU on which the probe then ran.
    pub(super) fn running_cpu(&self, window: &Window) -> u32 {
        self.switch.map_or(window.cpu, |(_, cpu)| cpu)
    }
}

/// The wake-up's stages, and the interrupt that caused it.
#[derive(Debug, Clone, Copy)]
pub(super) struct WakeUpStages<'w> {
    pub instants: Instants,
    /// The interrupt in which the probe was woken, or that raised the softirq in which it was.
    pub interrupt: Option<Frame<'w>>,
    /// The thread in which that softirq ran, and from when on it was to run.
    pub server: Option<(&'w Task, u64)>,
    /// From here on the CPU that the probe runs on is the relevant one.
    pub handed_over: u64,
    /// The end of each stage, in ascending order.
    ends: [u64; 6],
}

impl<'w> WakeUpStages<'w> {
    pub(super) fn from_events(
        window: &Window,
        traces: &WakeUpEvents,
        waker: &CpuTimeline<'w>,
    ) -> Self {
        let (due, woken) = (window.due_ns, window.woken_ns.max(window.due_ns));
        let at = |trace: Option<(u64, u32)>| trace.map(|(at, _)| at);
        let interrupt = at(traces.callback)
            .or(at(traces.waking))
            .and_then(|at| waker.interrupt_at(at))
            .copied();
        let in_softirq = at(traces.callback)
            .filter(|callback| interrupt.is_none() && waker.is_in_softirq(*callback));
        let raised = in_softirq.and_then(|callback| waker.raised_by(due, callback).copied());
        let serves = in_softirq.and_then(|callback| waker.thread_at(callback));
        // Where interrupts aren't recorded, the waking of its thread shows that one came.
        let roused = serves
            .zip(in_softirq)
            .and_then(|(thread, callback)| waking_of(window, thread.tid, (due, callback)));
        let server = serves.zip(raised.and_then(|frame| frame.to).or(roused));
        let interrupt = interrupt.or(raised);
        let here = traces.waking_cpu(window) == traces.running_cpu(window);
        let waking = at(traces.waking);
        let exit = interrupt
            .and_then(|frame| frame.to)
            .filter(|to| here && waking.is_some_and(|waking| waking <= *to));
        let instants = Instants {
            due_ns: due,
            irq_ns: interrupt.map(|frame| frame.from).or(roused),
            callback_ns: at(traces.callback),
            waking_ns: waking,
            exit_ns: exit,
            switch_ns: at(traces.switch),
            woken_ns: window.woken_ns,
        };
        let mut before = due;
        let ends = [
            instants.irq_ns,
            instants.callback_ns,
            instants.waking_ns,
            instants.exit_ns,
            instants.switch_ns,
            Some(woken),
        ]
        .map(|end| {
            before = end.map_or(before, |end| end.clamp(before, woken));
            before
        });
        Self {
            instants,
            interrupt,
            server,
            handed_over: waking.unwrap_or(due).clamp(due, woken),
            ends,
        }
    }

    /// The stage at an instant, and its end.
    pub(super) fn stage_at(&self, at: u64) -> (Stage, u64) {
        let index = self.ends.iter().position(|end| at < *end).unwrap_or(5);
        (Stage::ALL[index], self.ends[index])
    }
}

/// What the probe thread did, from all CPUs' events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProbeState<'w> {
    /// It waits for something.
    Asleep(Sleep<'w>),
    /// It was ready since this instant.
    Ready(u64),
    Running,
}

/// How the probe went to sleep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sleep<'w> {
    /// The kernel's number for its state, if that was recorded.
    pub state: Option<u64>,
    /// It waited for this lock.
    pub lock: Option<Lock<'w>>,
    /// It had a page fault.
    pub fault: bool,
}

/// The callback of a thread that sleeps for a time: it only wakes the thread.
const SLEEPERS: &str = "hrtimer_wakeup";

/// When a thread was first woken between two instants.
fn waking_of(window: &Window, tid: u32, (from, to): (u64, u64)) -> Option<u64> {
    let within = |event: &&Event| (from..=to).contains(&event.at_ns) && is_waking(event, tid);
    let wakings = window.events.iter().filter(within);
    wakings.map(|event| event.at_ns).min()
}

fn is_waking(event: &Event, tid: u32) -> bool {
    matches!(event.kind, Kind::Waking { tid: woken, .. } if woken == tid)
}

/// Its timer expired, and it slept on: since 6.1 the kernel freezes a sleeping thread without
/// waking it (`__freeze_task`), and no timer wakes it until it is thawed.
fn freeze(turns: &mut Vec<(u64, ProbeState<'_>)>, left: Option<u64>, at_ns: u64) {
    let sleep = match turns.last() {
        Some((_, ProbeState::Asleep(sleep))) => *sleep,
        None if left.is_some_and(|state| state != 0) => Sleep::default(),
        _ => return,
    };
    if sleep.lock.is_none() && !sleep.fault {
        let state = Some(naming::FROZEN);
        turns.push((at_ns, ProbeState::Asleep(Sleep { state, ..sleep })));
    }
}

/// The states of the probe through the window.
#[derive(Debug, Default)]
pub(super) struct ProbeHistory<'w> {
    /// From when on, and what; in order.
    turns: Vec<(u64, ProbeState<'w>)>,
}

impl<'w> ProbeHistory<'w> {
    pub(super) fn from_events(window: &Window, events: &[&'w Event]) -> Self {
        let probe = &window.probe;
        let is_probe = |task: &Task| task.tid == probe.tid;
        // The thread of the first switch away was running before.
        let mut on_cpu = events
            .iter()
            .find_map(|event| match &event.kind {
                Kind::Switch { from, .. } if is_probe(from) => Some(Some(event.cpu)),
                Kind::Switch { to, .. } if is_probe(to) => Some(None),
                _ => None,
            })
            .flatten();
        let mut turns: Vec<(u64, ProbeState<'w>)> = Vec::new();
        if on_cpu.is_some() {
            turns.push((0, ProbeState::Running));
        }
        // It left before the first event, and was ready all the time; or it ran without a waking,
        // and armed its timer after that: it was woken before the first event.
        let first = events.iter().find_map(|event| match &event.kind {
            Kind::Waking { tid, .. } if *tid == probe.tid => Some(None),
            Kind::Switch { to, .. } if is_probe(to) => Some(Some(event.at_ns)),
            _ => None,
        });
        let unwoken = first.flatten().is_some_and(|at| at <= window.waiting_ns);
        let woken_before = unwoken && (window.left.is_none() || window.lost == 0);
        if turns.is_empty() && (window.left == Some(0) || woken_before) {
            turns.push((0, ProbeState::Ready(0)));
        }
        let mut sleep = Sleep::default();
        // Another CPU began to wake it while it had the CPU, and then waits until it has left it.
        let mut crossing = false;
        // Its timer expired there, and no other thread ran on that CPU since.
        let mut expired: Option<&Event> = None;
        for event in events {
            if let Some(expiry) = expired.filter(|expiry| expiry.cpu == event.cpu) {
                expired = None;
                if !is_waking(event, probe.tid) && window.lost == 0 {
                    freeze(&mut turns, window.left, expiry.at_ns);
                }
            }
            let runs_here = on_cpu == Some(event.cpu);
            match &event.kind {
                Kind::Switch { to, .. } if is_probe(to) => {
                    on_cpu = Some(event.cpu);
                    // No other waking ended this sleep, so that one did, at once.
                    if let Some((left, ProbeState::Asleep(_))) = turns.last().copied()
                        && crossing
                        && window.lost == 0
                    {
                        turns.push((left, ProbeState::Ready(left)));
                    }
                    crossing = false;
                    sleep.fault = false;
                    // No event reports the end of a futex wait; this is its end.
                    sleep.lock = sleep.lock.filter(|lock| !lock.of_program);
                    turns.push((event.at_ns, ProbeState::Running));
                }
                Kind::Switch {
                    from,
                    from_state,
                    preempted,
                    ..
                } if is_probe(from) => {
                    on_cpu = None;
                    turns.push(if *preempted || *from_state == 0 {
                        (event.at_ns, ProbeState::Ready(event.at_ns))
                    } else {
                        let state = Some(*from_state);
                        (event.at_ns, ProbeState::Asleep(Sleep { state, ..sleep }))
                    });
                }
                Kind::Waking { tid, by } if *tid == probe.tid => match turns.last_mut() {
                    None => {
                        let state = window.left;
                        turns.push((0, ProbeState::Asleep(Sleep { state, ..sleep })));
                        turns.push((event.at_ns, ProbeState::Ready(event.at_ns)));
                    }
                    Some((_, ProbeState::Asleep(slept))) => {
                        // A thread that unlocks a futex wakes the thread that waits for it.
                        if let Some(lock) = &mut slept.lock
                            && lock.of_program
                        {
                            lock.holder = lock.holder.or(by.as_ref());
                        }
                        turns.push((event.at_ns, ProbeState::Ready(event.at_ns)));
                    }
                    Some((_, ProbeState::Running)) => {
                        crossing = on_cpu.is_some_and(|cpu| cpu != event.cpu);
                    }
                    Some(_) => {}
                },
                Kind::LockWait {
                    lock,
                    holder,
                    flags,
                } if runs_here => {
                    sleep.lock = Some(Lock {
                        address: *lock,
                        holder: holder.as_ref(),
                        of_program: flags & FUTEX != 0,
                    });
                }
                Kind::LockDone { lock }
                    if runs_here && sleep.lock.is_some_and(|l| l.address == *lock) =>
                {
                    sleep.lock = None;
                }
                Kind::Fault { .. } if runs_here => sleep.fault = true,
                Kind::TimerExpire {
                    of_probe: true,
                    function,
                    ..
                } if naming::function(window, *function) == SLEEPERS => expired = Some(event),
                _ => {}
            }
        }
        Self { turns }
    }

    /// Whether it went to sleep between two instants.
    pub(super) fn slept(&self, from: u64, to: u64) -> bool {
        let mut turns = self.turns.iter();
        turns.any(|(at, doing)| (from..=to).contains(at) && matches!(doing, ProbeState::Asleep(_)))
    }

    /// What it did at an instant, and when that changes next.
    pub(super) fn state_at(&self, at: u64) -> (Option<ProbeState<'w>>, u64) {
        let index = self.turns.partition_point(|turn| turn.0 <= at);
        let until = self.turns.get(index).map_or(u64::MAX, |turn| turn.0);
        let doing = index.checked_sub(1).map(|index| self.turns[index].1);
        (doing, until)
    }
}
