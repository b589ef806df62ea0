//! From events to causes. Pure: takes a window of events, returns a bill.
//!
//! The rules are in docs/attribution.md. In short: on each CPU one thing runs on top at
//! any instant, and that instant is assigned to it; an instant belongs to one stage of the wake-up.
//! So every nanosecond from the requested instant to the reading of the clock is in exactly one
//! row. Where events are missing, the time is blind; where they are complete and explain
//! nothing, it is unexplained.

mod amounts;

mod classify;
pub mod event;
mod gap;
pub mod groups;
mod helpers;
pub mod host;
mod job;
pub mod message;
mod naming;
mod overlay;
mod path;
mod picture;
mod place;
mod queue;
mod request;
mod senders;
mod stages;
mod timeline;
pub(crate) mod track;
pub mod waits;

use std::collections::BTreeMap;

pub use punctual_record::Ledger;
use punctual_record::explanation::Picture;
pub use punctual_record::explanation::{
    Bill, BillRow, Cause, Culprit, Explanation, Instants, Stage, StageTimes,
};

pub use job::{JobInstants, job_bill, job_picture};
pub use naming::culprit_of;
pub(crate) use naming::is_stopped;

use amounts::Amount;
use classify::Context;
use event::{Event, Kind, Task, Window};
use groups::Groups;
use path::{On, Stretch};
use picture::{PictureSource, Shown};
use senders::Senders;
use stages::{ProbeHistory, WakeUpEvents, WakeUpStages};
use timeline::{CpuTimeline, Layer, Slice};

/// The bill of one wake-up. It is total: whatever the window holds, the rows sum to the
/// latency, and so do the stages. Its picture is limited to what a record takes.
#[must_use]
pub fn bill(window: &Window) -> Bill {
    let seen = WindowView::from_window(window);
    let amounts = seen.amounts();
    let picture = seen.picture(&amounts, Some((Picture::SPANS, Picture::MARKS)));
    Bill {
        picture: Some(picture),
        ..seen.bill(amounts)
    }
}

/// The same bill without its picture, for wake-ups that are only counted.
#[must_use]
pub fn plain_bill(window: &Window) -> Bill {
    let seen = WindowView::from_window(window);
    seen.bill(seen.amounts())
}

/// Everything that the window shows of all its CPUs, without a limit.
#[must_use]
pub fn picture(window: &Window) -> Picture {
    let seen = WindowView::from_window(window);
    let amounts = seen.amounts();
    seen.picture(&amounts, None)
}

/// A stretch of a wake-up with exactly one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// From when.
    pub from_ns: u64,
    /// To when.
    pub to_ns: u64,
    /// How much of it belongs to this cause; the hypervisor took the rest of the stretch, which
    /// has a [`Share`] of its own.
    pub ns: u64,
    /// The stage of the wake-up.
    pub stage: Stage,
    /// The cause it belongs to.
    pub cause: Cause,
    /// The thread that took it, where the cause is about one.
    pub by: Option<Culprit>,
}

/// The owner of each moment of the wake-up, in order: the rows of its bill are the sums of these.
#[must_use]
pub fn account(window: &Window) -> Vec<Share> {
    let held = |amount: Amount| Share {
        from_ns: amount.from,
        to_ns: amount.to,
        ns: amount.ns,
        stage: amount.stage,
        cause: amount.cause,
        by: amount.by,
    };
    let mut account: Vec<Share> = WindowView::from_window(window)
        .amounts()
        .into_iter()
        .map(held)
        .collect();
    account.sort_by_key(|held| (held.from_ns, held.to_ns));
    account
}

/// What is seen in a window.
struct WindowView<'w> {
    window: &'w Window,
    events: Vec<&'w Event>,
    timelines: BTreeMap<u32, CpuTimeline<'w>>,
    waking_cpu: u32,
    running_cpu: u32,
    stages: WakeUpStages<'w>,
    history: ProbeHistory<'w>,
    /// Where its time is looked for.
    path: Vec<Stretch<'w>>,
    groups: Groups<'w>,
}

/// A stretch of time on a CPU that is classified at once.
struct Piece<'w> {
    cpu: u32,
    slice: Slice<'w>,
    on: On<'w>,
}

impl<'w> WindowView<'w> {
    fn from_window(window: &'w Window) -> Self {
        let mut events: Vec<&Event> = window.events.iter().collect();
        // The whole event is the key: the result doesn't depend on the order of the input.
        events.sort_unstable();
        let traces = if window.gap {
            WakeUpEvents::default()
        } else {
            WakeUpEvents::from_events(window, &events)
        };
        let history = match window.gap && !window.job {
            true => ProbeHistory::from_events(window, &gap::inside(window, &events)),
            // Who releases the lock of a job may run on another CPU.
            false => ProbeHistory::from_events(window, &events),
        };
        let mut path = match window.job {
            true => path::of_job(window, &events, &history),
            false => Vec::new(),
        };
        let waking_cpu = traces.waking_cpu(window);
        // A job may end on another CPU than it began on.
        let own = path.iter().rfind(|stretch| stretch.on == On::Itself);
        let running_cpu = own.map_or(traces.running_cpu(window), |stretch| stretch.cpu);
        let settled = settled(window, &events, &traces);
        let mut by_cpu: BTreeMap<u32, Vec<&Event>> = BTreeMap::new();
        if window.gap {
            by_cpu.insert(window.cpu, gap::inside(window, &events));
            for stretch in &path {
                let inside = || gap::inside_of_job(window, &events, stretch.cpu);
                by_cpu.entry(stretch.cpu).or_insert_with(inside);
            }
        } else {
            for event in &events {
                by_cpu.entry(event.cpu).or_default().push(event);
            }
        }
        let mut timelines: BTreeMap<u32, CpuTimeline<'w>> = BTreeMap::new();
        for (cpu, events) in &by_cpu {
            let here = *cpu == running_cpu;
            let runs_at = here.then_some(window.woken_ns);
            let settled = settled.filter(|_| match window.gap {
                true => *cpu == window.cpu,
                false => here,
            });
            timelines.insert(
                *cpu,
                CpuTimeline::from_events(window, events, runs_at, settled),
            );
        }
        let none = CpuTimeline::default();
        let waker = timelines.get(&waking_cpu).unwrap_or(&none);
        let stages = WakeUpStages::from_events(window, &traces, waker);
        if !window.job {
            let (from, to) = (window.due_ns, stages.handed_over);
            path.push(Stretch {
                from,
                to,
                cpu: waking_cpu,
                on: On::Itself,
            });
            path.extend(queue::of_wake_up(window, &events, &traces, to));
        }
        Self {
            window,
            stages,
            history,
            path,
            groups: Groups::from_window(window, running_cpu),
            events,
            timelines,
            waking_cpu,
            running_cpu,
        }
    }

    fn bill(&self, amounts: Vec<Amount>) -> Bill {
        let stages = StageTimes::between(&self.stages.instants);
        let mut rows = amounts::rows(amounts);
        senders::add_stoppers(&mut rows, self.window, &self.events);
        Bill {
            cpu: self.window.cpu,
            due_ns: self.window.due_ns,
            latency_ns: stages.total_ns(),
            lost: self.window.lost,
            stages,
            rows,
            picture: None,
        }
    }

    /// The wake-up's time, cut so that each piece has one owner, lies in one stage, and the
    /// probe does one thing in it; with the CPU that it is on.
    fn pieces(&self) -> Vec<Piece<'w>> {
        let mut pieces = Vec::new();
        let over = self.stages.handed_over;
        for Stretch { from, to, cpu, on } in &self.path {
            let (from, to, cpu) = (*from, *to, *cpu);
            // Before it was woken it was in no queue.
            let queued = match !self.window.job && from > over {
                true => from,
                false => 0,
            };
            let mut at = from;
            if let On::Fixed(_) = on {
                let slice = Slice {
                    from,
                    to,
                    ..Slice::UNKNOWN
                };
                let on = on.clone();
                pieces.push(Piece { cpu, slice, on });
                continue;
            }
            let seen = self.timelines.get(&cpu).filter(|_| *on != On::Unseen);
            if let Some(timeline) = seen {
                for slice in timeline.between(from, to) {
                    let slice = Slice { queued, ..slice };
                    self.cut((cpu, on), slice, &mut pieces);
                    at = slice.to;
                }
            }
            // No event of that CPU was recorded.
            if at < to {
                let unknown = Slice {
                    from: at,
                    to,
                    cpu,
                    ..Slice::UNKNOWN
                };
                self.cut((cpu, on), unknown, &mut pieces);
            }
        }
        pieces
    }

    fn cut(&self, (cpu, on): (u32, &On<'w>), slice: Slice<'w>, pieces: &mut Vec<Piece<'w>>) {
        let mut at = slice.from;
        while at < slice.to {
            let (_, stage_end) = self.stages.stage_at(at);
            let (_, turn) = self.history.state_at(at);
            let mut to = slice.to;
            let renewed = self.groups.renewed_after(at).unwrap_or(u64::MAX);
            for end in [stage_end, turn, renewed] {
                if end > at {
                    to = to.min(end);
                }
            }
            pieces.push(Piece {
                cpu,
                slice: Slice {
                    from: at,
                    to,
                    ..slice
                },
                on: on.clone(),
            });
            at = to;
        }
    }

    fn amounts(&self) -> Vec<Amount> {
        let pieces = self.pieces();
        let slices: Vec<Slice<'w>> = pieces.iter().map(|piece| piece.slice).collect();
        let remote = self.waking_cpu != self.running_cpu;
        let context = Context::new(self, remote, &slices);
        let senders = Senders::from_events(&self.events);
        let mut amounts: Vec<Amount> = Vec::with_capacity(pieces.len());
        for Piece { cpu, slice, on } in pieces {
            let (cause, mut notes) = match on {
                On::Itself | On::Unseen => context.classify(&slice),
                On::Holder(held) => path::classify_held(&context, &slice, &held),
                On::Fixed(cause) => (cause, Vec::new()),
            };
            let seen = self.timelines.get(&cpu);
            let place = seen
                .and_then(|timeline| place::stack_and_note(self.window, timeline, &slice, &cause));
            let (stack, where_) = place.unwrap_or_default();
            notes.extend(where_);
            // What a softirq interrupted has no part in it.
            let own = match slice.layer {
                Layer::Softirq(_) => self.window.preempt_rt,
                _ => true,
            };
            let ran = slice
                .thread
                .filter(|_| own)
                .and_then(|thread| naming::culprit(&cause, thread, self.window));
            let sent =
                seen.and_then(|timeline| senders.sender_at(self.window, cpu, timeline, &slice));
            let (by, from) = sent.map_or((ran, None), |(by, from)| (by, Some(from)));
            notes.extend(from);
            amounts.push(Amount {
                by,
                stage: self.stages.stage_at(slice.from).0,
                cause,
                cpu,
                from: slice.from,
                to: slice.to,
                ns: slice.to - slice.from,
                stack,
                notes,
            });
        }
        amounts::take_stolen(&mut amounts, &self.events);
        host::assign_to_host(&mut amounts, self.window, &self.events);
        amounts::name_smi(&mut amounts, &self.events);
        amounts
    }

    fn picture(&self, amounts: &[Amount], most: Option<(usize, usize)>) -> Picture {
        let shown = match most {
            Some(_) => Shown::WakeUp,
            None => Shown::Everything,
        };
        self.draft(amounts, shown).picture(&self.timelines, most)
    }

    /// All CPUs around a job, in at most so many spans.
    fn job_picture(&self, amounts: &[Amount], spans: usize) -> Picture {
        let draft = self.draft(amounts, Shown::Job);
        draft.picture(&self.timelines, Some((spans, 0)))
    }

    fn draft<'a>(&'a self, amounts: &'a [Amount], shown: Shown) -> PictureSource<'a, 'w> {
        PictureSource {
            window: self.window,
            events: &self.events,
            stages: &self.stages,
            amounts,
            cpus: [self.waking_cpu, self.running_cpu]
                .into_iter()
                .chain(self.path.iter().map(|stretch| stretch.cpu))
                .collect(),
            shown,
        }
    }
}

/// The probe, if no event says that it ever left the CPU. At both ends of a gap it ran.
fn settled<'w>(window: &'w Window, events: &[&Event], traces: &WakeUpEvents) -> Option<&'w Task> {
    if window.gap {
        return Some(&window.probe);
    }
    let switched = events
        .iter()
        .any(|event| matches!(event.kind, Kind::Switch { .. }));
    let within = |event: &&Event| {
        event.cpu == traces.running_cpu(window)
            && event.at_ns >= window.due_ns
            && event.at_ns <= window.woken_ns
    };
    let seen = events.iter().any(within);
    let woken = traces.callback.is_some() || traces.waking.is_some();
    (window.lost == 0 && seen && !switched && !woken).then_some(&window.probe)
}
