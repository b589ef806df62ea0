//! Decides which cause a stretch of time has: exactly one, by the rules in docs/attribution.md.

use std::collections::{BTreeMap, BTreeSet};

use super::WindowView;
use super::event::{Event, Interrupted, Kind, Task, Vector, Window};
use super::gap;
use super::groups::{Groups, ready_span};
use super::naming;
use super::request::Requests;
use super::stages::{ProbeHistory, ProbeState, Sleep, WakeUpStages};
use super::timeline::{Layer, Slice};
use punctual_record::explanation::{Cause, EARLIER_TIMER, RowNote, Stage, softirq_name};

/// A stage of an undisturbed wake-up is shorter than this on any machine used for real-time
/// work. A longer one has another cause.
const PATH_MOST_NS: u64 = 50_000;
/// From the end of the interrupt to the switch, if nothing delays it.
const SWITCH_MOST_NS: u64 = 5_000;
/// From the instant a timer is due to its interrupt, if nothing delays it.
const DELIVERY_MOST_NS: u64 = 3_000;
/// Parts of the names of functions that enable interrupts again. A delayed interrupt arrives
/// there; one that arrives anywhere else may be the platform's as well.
const ENABLES: [&str; 7] = [
    "unlock_irq",
    "irqrestore",
    "irq_restore",
    "irq_enable",
    "enable_irq",
    "finish_task_switch",
    "finish_lock_switch",
];
/// A request to switch may take this long to arrive from another CPU.
const REQUEST_MOST_NS: u64 = 100_000;
/// No processor takes longer to leave an idle state.
const IDLE_EXIT_MOST_NS: u64 = 1_000_000;

/// A softirq's name.
pub(super) fn softirq_label(number: u32) -> String {
    format!("softirq {}", softirq_name(number))
}

/// A cause, and notes for the reader.
pub(super) type Attribution = (Cause, Vec<RowNote>);

/// What is known of the whole wake-up while its stretches are classified.
pub(super) struct Context<'a, 'w> {
    pub window: &'w Window,
    pub stages: &'a WakeUpStages<'w>,
    pub history: &'a ProbeHistory<'w>,
    /// The probe was woken on another CPU than it ran on.
    pub remote: bool,
    /// For a gap: whether the kernel did anything in it.
    pub busy: bool,
    /// Each thread's time between waking and switch, by its CPU and the instant at which it came.
    thread_runs: BTreeMap<(u32, u64), u64>,
    requests: Requests,
    /// The limits of the probe's control groups.
    pub groups: &'a Groups<'w>,
    /// The CPU and the beginning of threads that ran in user mode although the probe was ready.
    let_run: BTreeSet<(u32, u64)>,
}

impl<'a, 'w> Context<'a, 'w> {
    pub(super) fn new(seen: &'a WindowView<'w>, remote: bool, pieces: &[Slice<'w>]) -> Self {
        let WindowView {
            window,
            stages,
            history,
            groups,
            ..
        } = seen;
        let requests = Requests::from_window(window, stages, history);
        let mut thread_runs: BTreeMap<(u32, u64), u64> = BTreeMap::new();
        for slice in pieces {
            let stage = stages.stage_at(slice.from).0;
            let late =
                matches!(stage, Stage::Switch | Stage::User) || is_before_armed(slice, window);
            // A softirq waits for the CPU, on behalf of the probe.
            let served = matches!(stage, Stage::Callback | Stage::Waking)
                && stages.server.is_some_and(|(server, since)| {
                    since <= slice.from && slice.thread.is_some_and(|it| it.tid != server.tid)
                });
            let of_thread = match slice.layer {
                Layer::Thread => true,
                Layer::Softirq(_) => window.preempt_rt,
                _ => false,
            };
            let waits = match history.state_at(slice.from).0 {
                Some(ProbeState::Asleep(_)) => true,
                Some(ProbeState::Ready(since)) => requests.is_on_its_way(slice, since),
                _ => requests.is_on_its_way(slice, stages.handed_over),
            };
            if of_thread && (late && !waits || served) {
                let sum = thread_runs.entry((slice.cpu, slice.since)).or_default();
                *sum = sum.saturating_add(slice.to - slice.from);
            }
        }
        Self {
            window,
            stages,
            history,
            remote,
            busy: window.gap && gap::is_busy(window, pieces),
            thread_runs,
            requests,
            groups,
            let_run: preemptible_threads(window, stages, pieces),
        }
    }

    /// The cause of this stretch. It lies within one stage, and the probe does one thing in it.
    pub(super) fn classify(&self, slice: &Slice<'w>) -> Attribution {
        let stage = self.stages.stage_at(slice.from).0;
        if let Some(state) = self.stopped(slice)
            && self.window.lost == 0
            && (slice.blind || self.remote && stage == Stage::Waking)
        {
            // Independent of what its CPU does, and of the CPU that continues it.
            return (Cause::Blocked { state }, Vec::new());
        }
        if slice.blind {
            // Blames no thread: it shows where to look.
            let seen = slice.thread.filter(|thread| thread.tid != 0);
            let note = seen.map(|thread| RowNote::LastSeen {
                thread: naming::bounded(&thread.name),
                tid: thread.tid,
            });
            return (Cause::Blind, note.into_iter().collect());
        }
        match slice.layer {
            Layer::Timer { of_probe: true, .. } if !self.window.gap => path(slice, stage),
            Layer::Vector(vector) => self.vector(slice, vector, stage),
            Layer::Softirq(number) if self.window.preempt_rt => {
                let (cause, mut notes) = self.thread(slice, stage);
                if notes.is_empty() {
                    notes.push(RowNote::InSoftirq { number });
                }
                (cause, notes)
            }
            Layer::Softirq(number) => match (stage, self.late_timer(slice)) {
                (Stage::Interrupt, Some(found)) if !found.user => {
                    self.irqs_off(found, softirq_label(number))
                }
                _ => (Cause::Softirq { number }, Vec::new()),
            },
            Layer::Thread => self.thread(slice, stage),
            layer => match naming::interrupt(self.window, layer) {
                Some(cause) => (cause, Vec::new()),
                None => self.thread(slice, stage),
            },
        }
    }

    fn vector(&self, slice: &Slice<'w>, vector: Vector, stage: Stage) -> Attribution {
        let own = self.stages.interrupt.is_some_and(|frame| {
            frame.from <= slice.from && frame.to.is_some_and(|to| slice.to <= to)
        });
        // The CPU that woke the probe requests a switch from this one.
        let asked = vector == Vector::Reschedule
            && (self.remote && stage == Stage::Switch || self.requests.is_request(slice));
        if own || asked {
            return path(slice, stage);
        }
        let vector = naming::vector(vector);
        (Cause::CpuInterrupt { vector }, Vec::new())
    }

    /// The state of a probe that was stopped by a signal or a debugger.
    fn stopped(&self, slice: &Slice<'w>) -> Option<String> {
        match self.history.state_at(slice.from).0 {
            Some(ProbeState::Asleep(sleep)) if sleep.state.is_some_and(naming::is_stopped) => {
                Some(naming::sleep(sleep.state))
            }
            _ => None,
        }
    }

    /// The probe slept and had not armed its timer for this wake-up yet: it was still in the previous
    /// wait, and an earlier timer woke it.
    fn asleep_before(&self, slice: &Slice<'w>, sleep: Sleep<'w>) -> Attribution {
        let asleep = asleep(sleep, self.window);
        if sleep.lock.is_some() || sleep.fault {
            return asleep;
        }
        let Some((expired_ns, expires_ns)) = woken_by_timer(self.window, slice.to) else {
            return asleep;
        };
        let late_ns = expired_ns.saturating_sub(expires_ns);
        let state = EARLIER_TIMER.to_owned();
        let note = RowNote::PreviousWakeUp { late_ns };
        (Cause::Blocked { state }, vec![note])
    }

    /// What the probe's own timer interrupt interrupted, for a stretch that ends with it.
    fn late_timer(&self, slice: &Slice<'w>) -> Option<Interrupted> {
        let frame = self.stages.interrupt?;
        (slice.to <= frame.from && !is_before_armed(slice, self.window))
            .then_some(frame.interrupted)
            .flatten()
    }

    fn irqs_off(&self, found: Interrupted, task: String) -> Attribution {
        let place = naming::symbol(self.window, found.address);
        let notes = vec![RowNote::InterruptAt { place }];
        let function = naming::function(self.window, found.address);
        if !ENABLES.iter().any(|part| function.contains(part)) {
            return (Cause::LateInterrupt { task }, notes);
        }
        (Cause::IrqsOff { function, task }, notes)
    }

    fn thread(&self, slice: &Slice<'w>, stage: Stage) -> Attribution {
        if self.window.gap {
            return gap::classify(self, slice);
        }
        let Some(thread) = slice.thread else {
            return (Cause::Blind, vec![RowNote::UnknownThread]);
        };
        let doing = self.history.state_at(slice.from).0;
        let is_probe = thread.tid == self.window.probe.tid;
        match stage {
            Stage::Interrupt | Stage::Callback | Stage::Waking | Stage::Exit => {
                if let Some(state) = self.stopped(slice) {
                    return (Cause::Blocked { state }, Vec::new());
                }
                let by_timer =
                    self.stages.interrupt.is_some() || self.stages.instants.callback_ns.is_some();
                if is_probe {
                    let slept = self.history.slept(self.window.waiting_ns, slice.from);
                    let note = if slept {
                        RowNote::AwakeAlready
                    } else {
                        RowNote::NotAsleepYet
                    };
                    (Cause::Probe, vec![note])
                } else if by_timer && is_before_armed(slice, self.window) {
                    match doing {
                        Some(ProbeState::Asleep(sleep)) => self.asleep_before(slice, sleep),
                        Some(ProbeState::Ready(since)) => self.ready(slice, since),
                        _ => self.before_timer(slice, stage),
                    }
                } else if by_timer {
                    self.before_timer(slice, stage)
                } else {
                    let task = if thread.tid == 0 {
                        String::new()
                    } else {
                        naming::bounded(&thread.name)
                    };
                    (Cause::Waker { task }, Vec::new())
                }
            }
            Stage::Switch | Stage::User if is_probe => running(slice, stage, self.window),
            Stage::Switch | Stage::User => match doing {
                Some(ProbeState::Asleep(sleep)) => asleep(sleep, self.window),
                Some(ProbeState::Ready(since)) => self.ready(slice, since),
                _ => self.ready(slice, self.stages.handed_over),
            },
        }
    }

    /// The timer was due, and its interrupt had not arrived.
    fn before_timer(&self, slice: &Slice<'w>, stage: Stage) -> Attribution {
        let idle = slice.thread.is_some_and(|thread| thread.tid == 0);
        let found = self.late_timer(slice);
        match found {
            Some(found) if found.user => (Cause::Platform, Vec::new()),
            _ if idle => idle_exit(slice),
            // No longer than over a program: kernel code need not be the reason.
            Some(_) if slice.to - slice.from <= DELIVERY_MOST_NS => (Cause::Platform, Vec::new()),
            Some(found) => self.irqs_off(found, naming::task(slice.thread)),
            None if stage != Stage::Interrupt => match self.stages.server {
                Some((server, since)) => self.softirq_waits(slice, stage, server, since),
                // Whether an interrupt came is not known.
                None if self.stages.interrupt.is_none() => {
                    let task = naming::task(slice.thread);
                    (Cause::LateInterrupt { task }, Vec::new())
                }
                None => path(slice, stage),
            },
            None => {
                let task = naming::task(slice.thread);
                (Cause::LateInterrupt { task }, Vec::new())
            }
        }
    }

    /// The probe's callback runs in a softirq. That was to run in a thread from an instant on: what ran
    /// instead is judged as if that thread were the late one.
    fn softirq_waits(
        &self,
        slice: &Slice<'w>,
        stage: Stage,
        server: &Task,
        since: u64,
    ) -> Attribution {
        let Some(thread) = slice.thread else {
            return (Cause::Blind, vec![RowNote::UnknownThread]);
        };
        let task = naming::bounded(&thread.name);
        let work = slice
            .work
            .map(|address| naming::function(self.window, address));
        if thread.tid == server.tid {
            // It is about to, or serves others first; without such a thread softirqs were disabled.
            return match self.window.preempt_rt {
                _ if slice.to - slice.from <= PATH_MOST_NS => path(slice, stage),
                true => (naming::interference(thread), Vec::new()),
                false => (Cause::PreemptOff { task, work }, Vec::new()),
            };
        }
        if thread.is_ordinary() && server.is_ordinary() {
            return (Cause::FairShare { task }, Vec::new());
        }
        if thread.priority <= server.priority {
            return (naming::interference(thread), Vec::new());
        }
        if slice.since > since {
            return (Cause::Throttled { task }, Vec::new());
        }
        let key = (slice.cpu, slice.since);
        match self.thread_runs.get(&key) {
            Some(run) if *run > SWITCH_MOST_NS => (Cause::PreemptOff { task, work }, Vec::new()),
            _ => path(slice, stage),
        }
    }

    /// The probe was ready from an instant on, and another thread had the CPU.
    fn ready(&self, slice: &Slice<'w>, since: u64) -> Attribution {
        let Some(thread) = slice.thread else {
            return (Cause::Blind, Vec::new());
        };
        // A thread that ran already when the probe was moved there did not come.
        let came_after = slice.since > since.max(slice.queued);
        let probe = &self.window.probe;
        let end = self.stages.instants.woken_ns;
        let from = since.max(self.stages.instants.due_ns);
        let span = ready_span(self.history, slice.from, from, end);
        if thread.tid == 0 {
            return match self
                .groups
                .idle(probe, came_after, (slice.from, slice.to), span)
            {
                Some(verdict) => verdict,
                None if came_after => idle_though_ready(),
                None => idle_exit(slice),
            };
        }
        let task = naming::bounded(&thread.name);
        // Between ordinary threads, priorities don't decide who runs, nor for how long.
        if thread.is_ordinary() && probe.is_ordinary() {
            let shared = || (Cause::FairShare { task }, self.groups.note_of_doubt(probe));
            return self.groups.ordinary(slice.to, span).unwrap_or_else(shared);
        }
        if thread.priority <= self.window.probe.priority {
            return (naming::interference(thread), Vec::new());
        }
        if self.requests.is_on_its_way(slice, since) {
            if slice.to - slice.from <= DELIVERY_MOST_NS {
                return (Cause::WakePath, Vec::new());
            }
            return (Cause::LateInterrupt { task }, vec![RowNote::LateRequest]);
        }
        if let Some(verdict) = self.groups.below(slice.to) {
            return verdict;
        }
        if (came_after || self.let_run.contains(&(slice.cpu, slice.since)))
            && self.groups.only_if_raised(thread, probe)
        {
            return (naming::interference(thread), vec![RowNote::PriorityRaised]);
        }
        if came_after {
            return (Cause::Throttled { task }, self.groups.note_of_doubt(probe));
        }
        let key = (slice.cpu, slice.since);
        let run = self.thread_runs.get(&key).copied().unwrap_or(0);
        if run <= SWITCH_MOST_NS {
            return path(slice, self.stages.stage_at(slice.from).0);
        }
        if self.let_run.contains(&key) {
            let mut notes = vec![RowNote::LetRunOn];
            notes.extend(self.groups.note_of_doubt(probe));
            return (Cause::Throttled { task }, notes);
        }
        let work = slice
            .work
            .map(|address| naming::function(self.window, address));
        (Cause::PreemptOff { task, work }, Vec::new())
    }
}

/// The timer that was to wake the probe was not armed yet, so it could not be late.
fn is_before_armed(slice: &Slice<'_>, window: &Window) -> bool {
    slice.to <= window.waiting_ns
}

/// When the threads began to run that an interrupt found in user mode although the probe was
/// ready. Before it returns to user mode the kernel checks whether it must switch. It did not, so
/// real-time threads are throttled, or others have a share of their own.
fn preemptible_threads(
    window: &Window,
    stages: &WakeUpStages<'_>,
    pieces: &[Slice<'_>],
) -> BTreeSet<(u32, u64)> {
    let in_user_mode = window.events.iter().filter(|event| {
        let Kind::VectorEntry { interrupted, .. } = &event.kind else {
            return false;
        };
        interrupted.is_some_and(|it| it.user)
    });
    let at = |event: &Event| {
        let piece = pieces.partition_point(|piece| piece.to <= event.at_ns);
        let piece = pieces.get(piece).filter(|piece| piece.cpu == event.cpu)?;
        let from = stages.handed_over.max(piece.queued);
        let is_late = event.at_ns > from.saturating_add(REQUEST_MOST_NS);
        (is_late && piece.from <= event.at_ns).then_some((piece.cpu, piece.since))
    };
    in_user_mode.filter_map(at).collect()
}

/// The wake-up's own path, unless it took longer than that can.
fn path(slice: &Slice<'_>, stage: Stage) -> Attribution {
    if slice.to - slice.from <= PATH_MOST_NS {
        return (Cause::WakePath, Vec::new());
    }
    let note = match stage {
        Stage::User => RowNote::HadCpu,
        _ => RowNote::InWakingInterrupt,
    };
    (Cause::Unexplained, vec![note])
}

/// An idle CPU although a thread is ready.
pub(super) fn idle_though_ready() -> Attribution {
    let task = String::new();
    (Cause::Throttled { task }, vec![RowNote::IdleThoughReady])
}

fn idle_exit(slice: &Slice<'_>) -> Attribution {
    if slice.to - slice.from > IDLE_EXIT_MOST_NS {
        return (Cause::Platform, vec![RowNote::IdleTooLong]);
    }
    (Cause::IdleExit { state: slice.idle }, Vec::new())
}

/// The probe has the CPU and has not read the clock yet.
fn running(slice: &Slice<'_>, stage: Stage, window: &Window) -> Attribution {
    if let Some(lock) = slice.lock {
        return (lock_cause(lock.address, lock.holder, window), Vec::new());
    }
    if slice.fault {
        return (Cause::Fault, Vec::new());
    }
    path(slice, stage)
}

pub(super) fn lock_cause(address: u64, holder: Option<&Task>, window: &Window) -> Cause {
    let lock = naming::symbol(window, address);
    match holder {
        Some(holder) if holder.priority > window.probe.priority => Cause::Inversion {
            lock,
            holder: naming::bounded(&holder.name),
            meanwhile: None,
        },
        holder => Cause::Lock {
            lock,
            holder: holder.map(|holder| naming::bounded(&holder.name)),
            meanwhile: None,
        },
    }
}

/// The first timer whose expiry woke the probe from this instant on: when it expired, and when
/// it was due.
fn woken_by_timer(window: &Window, from: u64) -> Option<(u64, u64)> {
    // Events are not in order; equal instants are.
    let events = || window.events.iter().enumerate();
    let key = |(index, event): &(usize, &Event)| (event.at_ns, *index);
    let is_waking =
        |event: &Event| matches!(event.kind, Kind::Waking { tid, .. } if tid == window.probe.tid);
    let waking = events()
        .filter(|(_, event)| event.at_ns >= from && is_waking(event))
        .min_by_key(key)?;
    // Only its callback lies between.
    let before = events()
        .filter(|other| other.1.cpu == waking.1.cpu && key(other) < key(&waking))
        .max_by_key(key)?;
    match before.1.kind {
        Kind::TimerExpire { expires_ns, .. } => Some((before.1.at_ns, expires_ns)),
        _ => None,
    }
}

/// The probe itself went to sleep in this stage.
pub(super) fn asleep(sleep: Sleep<'_>, window: &Window) -> Attribution {
    if let Some(lock) = sleep.lock {
        return (lock_cause(lock.address, lock.holder, window), Vec::new());
    }
    if sleep.fault {
        return (Cause::Fault, vec![RowNote::WaitedForPage]);
    }
    let state = naming::sleep(sleep.state);
    (Cause::Blocked { state }, Vec::new())
}
