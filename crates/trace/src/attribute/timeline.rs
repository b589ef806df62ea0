//! One CPU's events in order: what ran at each instant, and what it interrupted.
//!
//! A non-maskable interrupt interrupts an interrupt, that a softirq, and that a
//! thread. Where events are missing, a stretch whose owner isn't known is blind.

use std::collections::BTreeMap;

use super::event::{Event, FUTEX, Interrupted, Kind, Task, Vector, Window};
use super::overlay::{lay_over, tracers_timers};

/// What ran on top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layer<'w> {
    Nmi,
    Tracer,
    Vector(Vector),
    Handler(u32, &'w str),
    Call(u64),
    Timer { function: u64, of_probe: bool },
    Softirq(u32),
    Thread,
}

impl Layer<'_> {
    /// Runs with interrupts disabled, so that no switch can happen beneath it.
    pub(super) fn is_hard(self) -> bool {
        !matches!(self, Self::Softirq(_) | Self::Thread)
    }

    /// Ends with the context it runs in: its own end need not be recorded.
    fn ends_by_itself(self) -> bool {
        matches!(self, Self::Timer { .. })
    }
}

/// A stretch of time with one owner.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice<'w> {
    pub from: u64,
    pub to: u64,
    pub cpu: u32,
    /// From when on the probe was on this CPU or in its queue.
    pub queued: u64,
    pub layer: Layer<'w>,
    /// The thread beneath, if it is known.
    pub thread: Option<&'w Task>,
    /// When that thread began to run.
    pub since: u64,
    /// The idle state that the CPU was in last.
    pub idle: Option<u32>,
    /// The work item that the thread began last.
    pub work: Option<u64>,
    /// The lock that the probe waits for, if it runs.
    pub lock: Option<Lock<'w>>,
    /// The probe's last recorded event was a page fault.
    pub fault: bool,
    pub blind: bool,
}

impl Slice<'_> {
    /// No event was seen.
    pub(super) const UNKNOWN: Self = Self {
        from: 0,
        to: 0,
        cpu: 0,
        queued: 0,
        layer: Layer::Thread,
        thread: None,
        since: 0,
        idle: None,
        work: None,
        lock: None,
        fault: false,
        blind: true,
    };
}

/// A lock that the probe waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lock<'w> {
    pub address: u64,
    pub holder: Option<&'w Task>,
    /// A futex: a thread that waits for it sleeps.
    pub of_program: bool,
}

/// Something that began and ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'w> {
    pub from: u64,
    /// `None` if its end wasn't recorded.
    pub to: Option<u64>,
    pub layer: Layer<'w>,
    /// The number of frames beneath it.
    pub depth: usize,
    /// What a timer's interrupt interrupted.
    pub interrupted: Option<Interrupted>,
}

/// A thread's time on the CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadRun<'w> {
    pub from: u64,
    pub to: u64,
    pub thread: &'w Task,
}

/// A stack that was taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct InterruptedStack<'w> {
    pub at: u64,
    pub tid: u32,
    pub frames: &'w [u64],
}

/// How a thread released the CPU for the probe.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReleaseStack<'w> {
    pub at: u64,
    pub tid: u32,
    pub call: Option<u32>,
    pub frames: &'w [u64],
}

/// What one CPU did.
#[derive(Debug, Default)]
pub(super) struct CpuTimeline<'w> {
    pub slices: Vec<Slice<'w>>,
    pub frames: Vec<Frame<'w>>,
    pub thread_runs: Vec<ThreadRun<'w>>,
    pub stacks: Vec<InterruptedStack<'w>>,
    pub releases: Vec<ReleaseStack<'w>>,
}

impl<'w> CpuTimeline<'w> {
    /// What the CPU did, from its events in order. `runs_at`: the probe is known to run
    /// here at this instant, whatever the events say. `settled`: the thread that runs while no
    /// switch says otherwise.
    pub(super) fn from_events(
        window: &Window,
        events: &[&'w Event],
        runs_at: Option<u64>,
        settled: Option<&'w Task>,
    ) -> Self {
        let first = events.first().map_or(u64::MAX, |event| event.at_ns);
        let last = events.last().map_or(0, |event| event.at_ns);
        let begin = window.due_ns.min(window.waiting_ns).min(first);
        let end = window.woken_ns.max(window.due_ns).max(last);
        let mut builder = Builder::new(window, events, begin);
        builder.thread = builder.thread.or(settled);
        // Without an event up to the end of the wake-up nothing is known of this CPU.
        let unknown = (window.lost > 0 && first > begin) || first > window.woken_ns;
        if unknown && !window.gap {
            builder.advance(first.min(end));
            builder.blind_all.push((0, builder.timeline.slices.len()));
        }
        let mut seen = runs_at.is_none();
        for event in events {
            if let (false, Some(at)) = (seen, runs_at.filter(|at| *at < event.at_ns)) {
                builder.probe_runs_at(at);
                seen = true;
            }
            builder.add_event(event);
        }
        if let (false, Some(at)) = (seen, runs_at) {
            builder.probe_runs_at(at);
        }
        builder.finish(window, end, events)
    }

    /// The slices between two instants, clipped to them.
    pub(super) fn between(&self, from: u64, to: u64) -> impl Iterator<Item = Slice<'w>> + '_ {
        let first = self.slices.partition_point(|slice| slice.to <= from);
        self.slices[first..]
            .iter()
            .take_while(move |slice| slice.from < to)
            .map(move |slice| Slice {
                from: slice.from.max(from),
                to: slice.to.min(to),
                ..*slice
            })
            .filter(|slice| slice.from < slice.to)
    }

    /// The outermost interrupt at an instant. A timer's callback stands for its interrupt where that
    /// wasn't recorded, but not within a softirq: that runs after the interrupt, perhaps much later.
    pub(super) fn interrupt_at(&self, at: u64) -> Option<&Frame<'w>> {
        let in_softirq = self.is_in_softirq(at);
        self.frames
            .iter()
            .filter(|frame| match frame.layer {
                Layer::Timer { .. } => !in_softirq,
                layer => layer.is_hard(),
            })
            .filter(|frame| frame.from <= at && frame.to.is_some_and(|to| at <= to))
            .min_by_key(|frame| frame.depth)
    }

    /// Whether the timer's callback that runs at an instant does so in a softirq. The woken thread may
    /// preempt that: then its end is not in the window.
    pub(super) fn is_in_softirq(&self, at: u64) -> bool {
        let is_open = |frame: &Frame<'_>| frame.from <= at && frame.to.is_none_or(|to| at <= to);
        let is_timer = |frame: &Frame<'_>| matches!(frame.layer, Layer::Timer { .. });
        let mut before = self.frames.iter().rev();
        let timer = before.find(|frame| is_timer(frame) && is_open(frame));
        let Some(beneath) = timer.and_then(|timer| timer.depth.checked_sub(1)) else {
            return false;
        };
        let beneath = before.find(|frame| frame.depth == beneath && is_open(frame));
        beneath.is_some_and(|frame| matches!(frame.layer, Layer::Softirq(_)))
    }

    /// The interrupt that raised the softirq of a timer: the first one of the timer hardware that ends
    /// after the timer was due and before its callback. Later ones find the softirq raised.
    pub(super) fn raised_by(&self, due: u64, callback: u64) -> Option<&Frame<'w>> {
        let is_timers = |frame: &&Frame<'_>| match frame.layer {
            Layer::Vector(vector) => vector == Vector::LocalTimer,
            Layer::Handler(_, name) => name.contains("timer"),
            _ => false,
        };
        let ends = |frame: &&Frame<'_>| frame.to.is_some_and(|to| due < to && to <= callback);
        let mut frames = self.frames.iter().filter(is_timers);
        frames.find(ends)
    }

    /// The thread that ran at an instant, or was interrupted.
    pub(super) fn thread_at(&self, at: u64) -> Option<&'w Task> {
        self.between(at, at.saturating_add(1)).next()?.thread
    }
}

/// A frame that has not ended.
#[derive(Clone, Copy)]
struct Open<'w> {
    layer: Layer<'w>,
    /// Its index in the timeline's frames.
    frame: usize,
    /// The number of slices when it began.
    slices: usize,
}

struct Builder<'w> {
    timeline: CpuTimeline<'w>,
    at: u64,
    cpu: u32,
    rt: bool,
    probe: u32,
    thread: Option<&'w Task>,
    since: u64,
    stack: Vec<Open<'w>>,
    /// Softirqs of threads that were preempted while serving them.
    stowed: BTreeMap<u32, Vec<Open<'w>>>,
    works: BTreeMap<u32, u64>,
    idle: Option<u32>,
    lock: Option<Lock<'w>>,
    fault: bool,
    /// The number of slices at the last switch.
    switched: usize,
    /// No start or end was recorded yet.
    fresh: bool,
    blind_all: Vec<(usize, usize)>,
    blind_threads: Vec<(usize, usize)>,
}

impl<'w> Builder<'w> {
    fn new(window: &Window, events: &[&'w Event], begin: u64) -> Self {
        let thread = events.iter().find_map(|event| match &event.kind {
            Kind::Switch { from, .. } => Some(from),
            _ => None,
        });
        Self {
            timeline: CpuTimeline::default(),
            at: begin,
            cpu: events.first().map_or(window.cpu, |event| event.cpu),
            rt: window.preempt_rt,
            probe: window.probe.tid,
            thread,
            since: begin,
            stack: Vec::new(),
            stowed: BTreeMap::new(),
            works: BTreeMap::new(),
            idle: None,
            lock: None,
            fault: false,
            switched: 0,
            fresh: true,
            blind_all: Vec::new(),
            blind_threads: Vec::new(),
        }
    }

    /// Time advances to `at`, and is assigned to what ran on top.
    fn advance(&mut self, at: u64) {
        if at <= self.at {
            return;
        }
        let tid = self.thread.map(|thread| thread.tid);
        let probe_runs = tid == Some(self.probe);
        self.timeline.slices.push(Slice {
            from: self.at,
            to: at,
            cpu: self.cpu,
            queued: 0,
            layer: self.stack.last().map_or(Layer::Thread, |open| open.layer),
            thread: self.thread,
            since: self.since,
            idle: self.idle,
            work: tid.and_then(|tid| self.works.get(&tid).copied()),
            lock: self.lock.filter(|_| probe_runs),
            fault: self.fault && probe_runs,
            blind: false,
        });
        self.at = at;
    }

    fn add_event(&mut self, event: &'w Event) {
        self.advance(event.at_ns);
        match &event.kind {
            Kind::VectorEntry {
                vector,
                interrupted,
            } => self.open(Layer::Vector(*vector), *interrupted),
            Kind::VectorExit { vector } => self.close(Layer::Vector(*vector)),
            Kind::HandlerEntry { irq, name } => self.open(Layer::Handler(*irq, name), None),
            Kind::HandlerExit { irq } => self.close(Layer::Handler(*irq, "")),
            Kind::SoftirqEntry { number } => self.open(Layer::Softirq(*number), None),
            Kind::SoftirqExit { number } => self.close(Layer::Softirq(*number)),
            Kind::CallEntry { function, .. } => self.open(Layer::Call(*function), None),
            Kind::CallExit { function } => self.close(Layer::Call(*function)),
            Kind::TimerExpire {
                function, of_probe, ..
            } => {
                // Callbacks follow each other; the end of one may not be recorded.
                self.end_timer();
                let (function, of_probe) = (*function, *of_probe);
                self.open(Layer::Timer { function, of_probe }, None);
            }
            Kind::TimerDone { .. } => self.end_timer(),
            Kind::Switch { from, to, .. } => self.switch(from, to),
            Kind::Rename { task } => self.rename(task),
            Kind::Idle { state } => self.idle = state.or(self.idle),
            Kind::WorkStart { function } => {
                if let Some(thread) = self.thread {
                    self.works.insert(thread.tid, *function);
                }
            }
            Kind::LockWait {
                lock,
                holder,
                flags,
            } if flags & FUTEX == 0 && self.probe_runs() => {
                self.lock = Some(Lock {
                    address: *lock,
                    holder: holder.as_ref(),
                    of_program: false,
                });
            }
            Kind::LockDone { lock }
                if self.probe_runs() && self.lock.is_some_and(|l| l.address == *lock) =>
            {
                self.lock = None;
            }
            Kind::Fault { .. } if self.probe_runs() => self.fault = true,
            Kind::Stack { tid, frames, .. } => self.timeline.stacks.push(InterruptedStack {
                at: event.at_ns,
                tid: *tid,
                frames,
            }),
            Kind::Left { tid, call, frames } => self.timeline.releases.push(ReleaseStack {
                at: event.at_ns,
                tid: *tid,
                call: *call,
                frames,
            }),
            _ => {}
        }
    }

    fn probe_runs(&self) -> bool {
        self.thread.is_some_and(|thread| thread.tid == self.probe)
    }

    fn open(&mut self, layer: Layer<'w>, interrupted: Option<Interrupted>) {
        self.fresh = false;
        self.stack.push(Open {
            layer,
            frame: self.timeline.frames.len(),
            slices: self.timeline.slices.len(),
        });
        self.timeline.frames.push(Frame {
            from: self.at,
            to: None,
            layer,
            depth: self.stack.len() - 1,
            interrupted,
        });
    }

    fn end_timer(&mut self) {
        if let Some(open) = self.stack.pop_if(|open| open.layer.ends_by_itself()) {
            self.timeline.frames[open.frame].to = Some(self.at);
        }
    }

    fn close(&mut self, layer: Layer<'w>) {
        let same = |open: &Open<'w>| match (open.layer, layer) {
            (Layer::Handler(a, _), Layer::Handler(b, _)) => a == b,
            (a, b) => a == b,
        };
        match self.stack.iter().rposition(same) {
            Some(index) => {
                self.timeline.frames[self.stack[index].frame].to = Some(self.at);
                self.discard_frames(index + 1);
                self.stack.truncate(index);
            }
            // It began before the first event.
            None if self.fresh => {
                for slice in &mut self.timeline.slices {
                    slice.layer = layer;
                }
                self.timeline.frames.push(Frame {
                    from: self
                        .timeline
                        .slices
                        .first()
                        .map_or(self.at, |slice| slice.from),
                    to: Some(self.at),
                    layer,
                    depth: 0,
                    interrupted: None,
                });
            }
            // Its start is missing: it lies after the previous event.
            None => self.blind_last(),
        }
        self.fresh = false;
    }

    fn blind_last(&mut self) {
        let count = self.timeline.slices.len();
        self.blind_all.push((count.saturating_sub(1), count));
    }

    /// The ends of the frames from `index` on were not recorded: the owner of their time is unknown.
    fn discard_frames(&mut self, index: usize) {
        let mut first = None;
        for open in &self.stack[index..] {
            let frame = &mut self.timeline.frames[open.frame];
            if open.layer.ends_by_itself() {
                frame.to = Some(self.at);
            } else if first.is_none() {
                first = Some(open.slices);
            }
        }
        if let Some(first) = first {
            self.blind_all.push((first, self.timeline.slices.len()));
        }
    }

    fn switch(&mut self, from: &'w Task, to: &'w Task) {
        self.raise_priority(from);
        if self.thread.is_some_and(|thread| thread.tid != from.tid) {
            self.blind_threads
                .push((self.switched, self.timeline.slices.len()));
        }
        let kept = if self.rt {
            self.stack
                .iter()
                .position(|open| open.layer.is_hard())
                .unwrap_or(self.stack.len())
        } else {
            0
        };
        self.discard_frames(kept);
        self.stack.truncate(kept);
        if !self.stack.is_empty() {
            self.stowed
                .insert(from.tid, std::mem::take(&mut self.stack));
        }
        self.stack = self.stowed.remove(&to.tid).unwrap_or_default();
        for open in &mut self.stack {
            open.slices = self.timeline.slices.len();
        }
        self.start_thread(to);
        self.fresh = false;
    }

    /// A thread whose priority rose while it ran had the higher one while others were ready:
    /// otherwise these would have run first.
    fn raise_priority(&mut self, from: &'w Task) {
        let rose = |thread: &Task| thread.tid == from.tid && from.priority < thread.priority;
        if self.thread.is_some_and(rose) && !from.name.is_empty() {
            for slice in &mut self.timeline.slices[self.switched..] {
                slice.thread = Some(from);
            }
            self.thread = Some(from);
        }
    }

    /// The thread continues under another name and keeps the CPU time of the former one. What raised
    /// its priority before (`chrt` and its exec) is seen here first.
    fn rename(&mut self, task: &'w Task) {
        self.raise_priority(task);
        if self.thread.is_some_and(|thread| thread.tid == task.tid) {
            self.thread = Some(task);
        }
    }

    fn start_thread(&mut self, to: &'w Task) {
        self.end_thread_run();
        self.thread = Some(to);
        self.since = self.at;
        self.switched = self.timeline.slices.len();
        self.fault = false;
    }

    fn end_thread_run(&mut self) {
        if let Some(thread) = self.thread.filter(|_| self.since < self.at) {
            self.timeline.thread_runs.push(ThreadRun {
                from: self.since,
                to: self.at,
                thread,
            });
        }
    }

    /// The probe read the clock here: if another thread seems to run, a switch is missing.
    fn probe_runs_at(&mut self, at: u64) {
        self.advance(at);
        self.discard_frames(0);
        if self.thread.is_some() && !self.probe_runs() {
            self.blind_threads
                .push((self.switched, self.timeline.slices.len()));
        }
    }

    fn finish(mut self, window: &Window, end: u64, events: &[&'w Event]) -> CpuTimeline<'w> {
        self.advance(end);
        self.end_thread_run();
        self.mark();
        let mut timeline = self.timeline;
        let own = tracers_timers(window, &timeline.frames);
        let overlay = |take: fn(&Kind) -> Option<u64>| {
            let spans = events.iter().filter_map(|event| {
                let length = take(&event.kind)?;
                Some((event.at_ns.saturating_sub(length), event.at_ns))
            });
            spans.collect::<Vec<_>>()
        };
        let tracer = overlay(|what| match what {
            Kind::Stack { cost_ns, .. } => Some(*cost_ns),
            _ => None,
        });
        lay_over(&mut timeline.slices, tracer, Layer::Tracer);
        lay_over(&mut timeline.slices, own, Layer::Tracer);
        let nmi = overlay(|what| match what {
            Kind::Nmi { duration_ns } => Some(*duration_ns),
            _ => None,
        });
        for (from, to) in &nmi {
            timeline.frames.push(Frame {
                from: *from,
                to: Some(*to),
                layer: Layer::Nmi,
                depth: usize::MAX,
                interrupted: None,
            });
        }
        lay_over(&mut timeline.slices, nmi, Layer::Nmi);
        timeline
    }

    /// Marks blind slices in one pass, however many marks overlap.
    fn mark(&mut self) {
        let count = self.timeline.slices.len();
        let mut edges = vec![(0i64, 0i64); count + 1];
        for (from, to) in &self.blind_all {
            edges[*from].0 += 1;
            edges[*to].0 -= 1;
        }
        for (from, to) in &self.blind_threads {
            edges[*from].1 += 1;
            edges[*to].1 -= 1;
        }
        let (mut all, mut threads) = (0, 0);
        for (slice, edge) in self.timeline.slices.iter_mut().zip(edges) {
            all += edge.0;
            threads += edge.1;
            slice.blind = all > 0 || (threads > 0 && !slice.layer.is_hard());
        }
    }
}
