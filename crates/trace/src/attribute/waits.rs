//! What a thread waited for: from its wake-up back in time, from waker to waker.
//!
//! Switches and wakings show what a thread did before it ran again. If it slept and another thread
//! woke it, that thread's time counts, from the waking back to when the sleep began; and so on.
//! Each instant of the wait has one thread and one activity of it, so the rows sum to the wait.

mod histories;

use std::collections::BTreeMap;

use super::event::{Event, Task, Window};
use super::naming;
use super::timeline::{CpuTimeline, Frame, Layer, Slice};
use histories::{SleepEnd, ThreadHistories, ThreadState};
use punctual_record::explanation::{Cause, Culprit, Doing, Wait, WaitRow};
use punctual_record::watch::TickRow;

/// The longest chain of wakers that is followed.
const DEEPEST: u32 = 32;
/// A softirq that begins this soon after an interrupt was deferred by it.
const AT_ONCE_NS: u64 = 2_000;

/// The start of the wait and the switch are at most this far apart.
const APART_NS: u64 = 100_000;

/// What the time of a wait was spent on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// The thread that waited.
    pub waiter: Culprit,
    /// When the thread left its CPU.
    pub from_ns: u64,
    /// When it ran again.
    pub to_ns: u64,
    /// What ended the wait; absent if an interrupt did, or if it was not recorded.
    pub ended_by: Option<String>,
    /// They sum to the time between the two.
    pub rows: Vec<WaitRow>,
}

/// Follows a wait of the window's probe, from `due_ns` to `woken_ns`, back through the threads that it
/// waited for. The window has the events of all CPUs; before `known_from_ns` some may be missing.
/// It is total: whatever the window holds, the rows sum to the wait.
#[must_use]
pub fn chain(window: &Window, known_from_ns: u64) -> Chain {
    let events = ordered(window);
    let mut walk = ChainWalk::new(window, &events, known_from_ns, &[]);
    let waiter = window.probe.tid;
    let (mut from, mut to) = (window.due_ns, window.woken_ns.max(window.due_ns));
    // One clock for all: the switches themselves, if they were recorded.
    if let Some(came) = walk.histories.came(waiter, to) {
        to = came.max(from);
    }
    if let Some(left) = walk.histories.asleep_since(waiter, to)
        && left.abs_diff(from) <= APART_NS
    {
        from = left.min(to);
    }
    walk.follow(waiter, from, to, 0);
    Chain {
        waiter: Culprit {
            ns: to - from,
            name: Some(naming::bounded(&window.probe.name)),
            ..naming::thread(&window.probe, window)
        },
        from_ns: from,
        to_ns: to,
        rows: rows(&walk).into_iter().map(|it| it.row).collect(),
        ended_by: walk.ended_by.map(|task| naming::bounded(&task.name)),
    }
}

/// The time from a tick's instant, the window's `due_ns`, to its beginning, `woken_ns`, by what the
/// thread did and what it waited for; apart what lay in `pauses`, which are in order and don't
/// overlap. The rows sum to that time.
#[must_use]
pub fn tick(window: &Window, known_from_ns: u64, pauses: &[(u64, u64)]) -> Vec<TickRow> {
    let events = ordered(window);
    let mut walk = ChainWalk::new(window, &events, known_from_ns, pauses);
    let to = window.woken_ns.max(window.due_ns);
    walk.follow(window.probe.tid, window.due_ns, to, 0);
    rows(&walk)
}

fn ordered(window: &Window) -> Vec<&Event> {
    let mut events: Vec<&Event> = window.events.iter().collect();
    events.sort_unstable();
    events
}

/// A stretch of the wait.
struct WaitPart<'w> {
    tid: u32,
    depth: u32,
    doing: Doing,
    ns: u64,
    behind: Option<&'w Task>,
    paused: bool,
}

struct ChainWalk<'w> {
    window: &'w Window,
    /// What is in them stands apart.
    pauses: &'w [(u64, u64)],
    timelines: BTreeMap<u32, CpuTimeline<'w>>,
    histories: ThreadHistories<'w>,
    known_from_ns: u64,
    amounts: Vec<WaitPart<'w>>,
    ended_by: Option<&'w Task>,
}

impl<'w> ChainWalk<'w> {
    fn new(
        window: &'w Window,
        events: &[&'w Event],
        known_from_ns: u64,
        pauses: &'w [(u64, u64)],
    ) -> Self {
        let mut by_cpu: BTreeMap<u32, Vec<&Event>> = BTreeMap::new();
        for event in events {
            by_cpu.entry(event.cpu).or_default().push(event);
        }
        let mut timelines: BTreeMap<u32, CpuTimeline<'_>> = BTreeMap::new();
        for (cpu, events) in &by_cpu {
            timelines.insert(*cpu, CpuTimeline::from_events(window, events, None, None));
        }
        Self {
            window,
            pauses,
            timelines,
            histories: ThreadHistories::from_events(events),
            known_from_ns,
            amounts: Vec::new(),
            ended_by: None,
        }
    }

    /// Assigns the time between two instants while this thread was waited for.
    fn follow(&mut self, tid: u32, from: u64, to: u64, depth: u32) {
        let mut at = to;
        while at > from {
            let (begin, now, next) = self.histories.state_before(tid, at);
            let begin = begin.max(from);
            if at <= self.known_from_ns || depth > DEEPEST {
                self.add(tid, depth, Doing::Unseen, (from, at));
                return;
            }
            let begin = begin.max(self.known_from_ns);
            match now {
                ThreadState::On(cpu) => self.on_cpu(tid, cpu, (begin, at), depth, true),
                ThreadState::Ready => match next {
                    Some(ThreadState::On(cpu)) => self.on_cpu(tid, cpu, (begin, at), depth, false),
                    _ => self.add(tid, depth, Doing::Unseen, (begin, at)),
                },
                ThreadState::Stopped => self.add(tid, depth, Doing::Stopped, (begin, at)),
                ThreadState::Asleep => match self.histories.woken(tid, at) {
                    Some(woken) => self.slept(tid, woken, (begin, at), depth),
                    None => self.add(tid, depth, Doing::Unseen, (begin, at)),
                },
            }
            at = begin;
        }
    }

    /// It slept, and was woken at the end of that.
    fn slept(&mut self, tid: u32, woken: SleepEnd<'w>, (from, to): (u64, u64), depth: u32) {
        let (waker, doing) = match woken.by {
            Some(by) => (Some(by), Doing::Unseen),
            None => self.interrupt(woken.at, woken.cpu),
        };
        let waker = waker.filter(|waker| waker.tid != 0 && waker.tid != tid);
        if depth == 0 {
            self.ended_by = self.ended_by.or(waker);
        }
        match waker {
            Some(waker) => {
                self.histories.add_task(waker);
                self.follow(waker.tid, from, to, depth + 1);
            }
            None => self.add(tid, depth, doing, (from, to)),
        }
    }

    /// What kind of interrupt woke a thread; or the thread in whose time it ran, if that thread
    /// caused it: data for another process of this machine arrives by a softirq of the sender.
    fn interrupt(&self, at: u64, cpu: u32) -> (Option<&'w Task>, Doing) {
        let timeline = self.timelines.get(&cpu);
        let slice = timeline.and_then(|timeline| timeline.between(at, at + 1).next());
        let (Some(timeline), Some(slice)) = (timeline, slice) else {
            return (None, Doing::Unseen);
        };
        let doing = match slice.layer {
            _ if slice.blind => Doing::Unseen,
            Layer::Thread => return (slice.thread, Doing::Unseen),
            Layer::Softirq(number) => {
                let frame = timeline
                    .frames
                    .iter()
                    .rev()
                    .find(|frame| is_at(frame, &slice, at));
                if frame.is_some_and(|frame| !follows_interrupt(timeline, frame)) {
                    return (slice.thread, Doing::Unseen);
                }
                match naming::softirq_is_timer(number) {
                    true => Doing::Timer,
                    false => Doing::Device {
                        cause: Cause::Softirq { number },
                    },
                }
            }
            Layer::Timer { function, .. } => self.timer(function),
            layer => match naming::interrupt(self.window, layer) {
                Some(cause) => Doing::Device { cause },
                None => Doing::Unseen,
            },
        };
        (None, doing)
    }

    /// The callback ends a sleep; any other callback belongs to a driver.
    fn timer(&self, function: u64) -> Doing {
        const OF_SLEEPS: [&str; 4] = [
            "hrtimer_wakeup",
            "timerfd_tmrproc",
            "posix_timer_fn",
            "it_real_fn",
        ];
        let function = naming::function(self.window, function);
        if OF_SLEEPS.contains(&&*function) || function.starts_with("0x") {
            return Doing::Timer;
        }
        Doing::Device {
            cause: Cause::TimerCallback { function },
        }
    }

    /// It had a CPU, or was ready while another thread had the CPU that it then got.
    fn on_cpu(&mut self, tid: u32, cpu: u32, (from, to): (u64, u64), depth: u32, runs: bool) {
        let mut at = from;
        let slices: Vec<Slice<'w>> = match self.timelines.get(&cpu) {
            Some(timeline) => timeline.between(from, to).collect(),
            None => Vec::new(),
        };
        for slice in slices {
            self.add(tid, depth, Doing::Unseen, (at, slice.from));
            at = slice.to;
            let (doing, behind) = self.uppermost(tid, &slice, runs);
            self.push(tid, depth, doing, behind, (slice.from, slice.to));
        }
        self.add(tid, depth, Doing::Unseen, (at, to));
    }

    fn uppermost(&self, tid: u32, slice: &Slice<'w>, runs: bool) -> (Doing, Option<&'w Task>) {
        if slice.blind {
            return (Doing::Unseen, None);
        }
        let in_thread = match slice.layer {
            Layer::Thread => true,
            Layer::Softirq(_) => self.window.preempt_rt,
            _ => false,
        };
        if !in_thread {
            let cause = naming::interrupt(self.window, slice.layer);
            return match cause {
                Some(cause) => (Doing::Interrupted { cause }, None),
                None => (Doing::Unseen, None),
            };
        }
        match slice.thread {
            Some(thread) if thread.tid == tid => (Doing::Ran, None),
            // No switch says otherwise.
            None if runs => (Doing::Ran, None),
            None => (Doing::Unseen, None),
            Some(_) if runs => (Doing::Unseen, None),
            Some(thread) => (Doing::Ready { behind: None }, Some(thread)),
        }
    }

    fn add(&mut self, tid: u32, depth: u32, doing: Doing, between: (u64, u64)) {
        self.push(tid, depth, doing, None, between);
    }

    fn push(
        &mut self,
        tid: u32,
        depth: u32,
        doing: Doing,
        behind: Option<&'w Task>,
        between: (u64, u64),
    ) {
        let length = between.1.saturating_sub(between.0);
        let in_pauses = common_ns(between, self.pauses);
        for (paused, ns) in [(true, in_pauses), (false, length - in_pauses)] {
            self.amounts.push(WaitPart {
                tid,
                depth,
                doing: doing.clone(),
                ns,
                behind,
                paused,
            });
        }
    }
}

/// How much of a time lies in these, which are in order and don't overlap.
#[must_use]
pub fn common_ns((from, to): (u64, u64), pauses: &[(u64, u64)]) -> u64 {
    let first = pauses.partition_point(|pause| pause.1 <= from);
    let near = pauses[first..].iter().take_while(|pause| pause.0 < to);
    near.map(|pause| pause.1.min(to).saturating_sub(pause.0.max(from)))
        .sum()
}

/// Whether a frame is the softirq that a slice belongs to.
fn is_at(frame: &Frame<'_>, slice: &Slice<'_>, at: u64) -> bool {
    frame.layer == slice.layer && frame.from <= at && frame.to.is_none_or(|to| at <= to)
}

/// Whether a softirq began as an interrupt ended, and not where a thread enabled softirqs again.
fn follows_interrupt(timeline: &CpuTimeline<'_>, softirq: &Frame<'_>) -> bool {
    let before = timeline
        .slices
        .partition_point(|slice| slice.to <= softirq.from);
    let mut before = timeline.slices[..before].iter().rev();
    let near = |slice: &&Slice<'_>| softirq.from - slice.to <= AT_ONCE_NS;
    let mut near = before.by_ref().take_while(near);
    near.any(|slice| slice.layer.is_hard() || matches!(slice.layer, Layer::Softirq(_)))
}

/// One row for each activity of each thread; the first wakers first.
fn rows(walk: &ChainWalk<'_>) -> Vec<TickRow> {
    let mut rows: Vec<TickRow> = Vec::new();
    let mut places: BTreeMap<(u32, &Doing, Option<u32>, bool), usize> = BTreeMap::new();
    let culprit = |tid: u32| match walk.histories.task(tid) {
        Some(task) => Culprit {
            name: Some(naming::bounded(&task.name)),
            ..naming::thread(task, walk.window)
        },
        None => Culprit {
            tid,
            ..Culprit::default()
        },
    };
    for amount in walk.amounts.iter().filter(|amount| amount.ns > 0) {
        let behind = amount.behind.filter(|task| task.tid != 0);
        let behind_tid = behind.map(|task| task.tid);
        let key = (amount.tid, &amount.doing, behind_tid, amount.paused);
        let place = places.entry(key).or_insert(rows.len());
        if *place == rows.len() {
            let doing = match &amount.doing {
                Doing::Ready { .. } => Doing::Ready {
                    behind: behind.map(|task| culprit(task.tid)),
                },
                doing => doing.clone(),
            };
            rows.push(TickRow {
                paused: amount.paused,
                row: WaitRow {
                    ns: 0,
                    depth: amount.depth,
                    thread: Some(culprit(amount.tid)),
                    doing,
                },
            });
        }
        let row = &mut rows[*place].row;
        row.ns += amount.ns;
        row.depth = row.depth.min(amount.depth);
    }
    rows.sort_by_key(|it| std::cmp::Reverse(it.row.ns));
    if rows.len() > Wait::ROWS {
        let sums = if walk.pauses.is_empty() { 1 } else { 2 };
        let rest = rows.split_off(Wait::ROWS - sums);
        for paused in [true, false] {
            let of_these = rest.iter().filter(|it| it.paused == paused);
            let ns = of_these.map(|it| it.row.ns).sum();
            let row = WaitRow {
                ns,
                depth: u32::MAX,
                thread: None,
                doing: Doing::Other,
            };
            rows.extend((ns > 0).then_some(TickRow { paused, row }));
        }
    }
    for row in rows.iter_mut().map(|it| &mut it.row) {
        let ns = row.ns;
        let behind = match &mut row.doing {
            Doing::Ready { behind } => behind.as_mut(),
            _ => None,
        };
        for culprit in row.thread.iter_mut().chain(behind) {
            culprit.ns = ns;
        }
    }
    rows.sort_by_key(|it| (!it.paused, it.row.depth, std::cmp::Reverse(it.row.ns)));
    rows
}
