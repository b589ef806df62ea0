//! The wake-ups of a recording: when each was due, and when its thread ran.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use punctual_stats::histogram::Histogram;

use super::super::attribute::event::{Event, Kind, Task, Window};
use super::super::attribute::track::CROSSING_NS;
use super::lines::Timerlat;
use super::{Recording, bounded};

/// Wake-ups that are kept: those of the highest latencies.
pub const BILLS: usize = 1000;
/// Bytes of a name that the kernel keeps.
const COMM: usize = 15;
/// Threads and timers that are kept at one time.
const KNOWN: usize = 1 << 16;
/// Threads whose kernel priority is at most this are real-time.
const REAL_TIME: i32 = 99;
/// Wake-ups by timers without a callback's end: after so many none is expected any more.
const UNSURE: usize = 64;
/// A window begins this long before its wake-up was due.
const BEFORE_NS: u64 = 10_000_000;
/// Events of a window.
pub(super) const EVENTS: usize = 1 << 17;

/// The threads whose wake-ups are examined: all, unless numbers or names are given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadFilter {
    /// Threads with any of these numbers.
    pub tids: Vec<u32>,
    /// Threads with any of these names.
    pub names: Vec<String>,
}

impl ThreadFilter {
    /// Whether all threads are examined.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tids.is_empty() && self.names.is_empty()
    }

    fn selects(&self, thread: &Task) -> bool {
        let is_its = |name: &String| bounded(name, COMM) == bounded(&thread.name, COMM);
        self.is_empty() || self.tids.contains(&thread.tid) || self.names.iter().any(is_its)
    }
}

/// One wake-up of a real-time thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WakeUp {
    /// The thread.
    pub thread: Task,
    /// Where it ran.
    pub cpu: u32,
    /// When it was due: its timer's expiry if that is known, else when it was woken.
    pub due_ns: u64,
    /// When it ran.
    pub woken_ns: u64,
    /// Its timer.
    timer: Option<u64>,
}

impl WakeUp {
    /// Its latency.
    #[must_use]
    pub fn latency_ns(&self) -> u64 {
        self.woken_ns.saturating_sub(self.due_ns)
    }

    /// Orders by latency, the highest first; of equal ones the earlier first.
    #[must_use]
    pub fn rank(&self) -> Rank {
        (Reverse(self.latency_ns()), self.due_ns, self.cpu)
    }

    /// The first instant of its window.
    fn first_ns(&self) -> u64 {
        self.due_ns.saturating_sub(BEFORE_NS)
    }

    /// Its events, among all by time.
    fn range(&self, events: &[Event]) -> Range<usize> {
        let first = events.partition_point(|event| event.at_ns < self.first_ns());
        let end = events.partition_point(|event| event.at_ns <= self.woken_ns);
        first.max(end.saturating_sub(EVENTS))..end
    }

    /// The events of its window, with the switches to the threads that ran on each CPU as it begins.
    pub(super) fn needs(
        &self,
        events: &[Event],
        switches: &Switches,
    ) -> impl Iterator<Item = usize> {
        let range = self.range(events);
        last_before(switches, range.start).chain(range)
    }

    /// What was recorded around it.
    #[must_use]
    pub fn window(&self, recording: &Recording) -> Window {
        let from = self.first_ns();
        let needed = self.needs(&recording.events, &recording.switches);
        let mut events: Vec<Event> = needed
            .map(|index| recording.events[index].clone())
            .collect();
        for event in &mut events {
            if let Kind::TimerExpire {
                timer,
                expires_ns,
                of_probe,
                ..
            } = &mut event.kind
                && (Some(*timer), *expires_ns) == (self.timer, self.due_ns)
            {
                *of_probe = true;
            }
        }
        let lost = recording.lost.iter();
        let lost = lost
            .filter(|(_, at)| (from..=self.woken_ns).contains(at))
            .count();
        Window {
            cpu: self.cpu,
            probe: self.thread.clone(),
            waiting_ns: from,
            due_ns: self.due_ns,
            woken_ns: self.woken_ns,
            lost: lost as u64,
            preempt_rt: recording.preempt_rt,
            gap: false,
            job: false,
            cut: false,
            left: None,
            limits: Vec::new(),
            stalls: Vec::new(),
            origins: BTreeMap::new(),
            symbols: names(recording, &events),
            events,
        }
    }
}

/// The names of the addresses in a window.
fn names(recording: &Recording, events: &[Event]) -> BTreeMap<u64, String> {
    let of = |event: &Event| match event.kind {
        Kind::TimerExpire { function, .. } | Kind::WorkStart { function } => {
            let name = recording.symbols.get(&function)?;
            Some((function, name.clone()))
        }
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// The places of each CPU's context switches among the events by time.
pub(super) type Switches = BTreeMap<u32, Vec<usize>>;

pub(super) fn switches(events: &[Event]) -> Switches {
    let mut switches = Switches::new();
    for (index, event) in events.iter().enumerate() {
        if matches!(event.kind, Kind::Switch { .. }) {
            switches.entry(event.cpu).or_default().push(index);
        }
    }
    switches
}

/// Each CPU's last context switch before a place, however long before: that thread runs there.
pub(super) fn last_before(switches: &Switches, place: usize) -> impl Iterator<Item = usize> {
    switches.values().filter_map(move |of_cpu| {
        let count = of_cpu.partition_point(|index| *index < place);
        of_cpu.get(count.checked_sub(1)?).copied()
    })
}

/// A timer's callback.
#[derive(Debug, Clone, Copy)]
struct Callback {
    timer: u64,
    /// When it was due, on the recording's clock.
    due_ns: u64,
    /// Interrupts that began in it.
    nested: u32,
}

/// How a thread was woken.
#[derive(Debug, Clone, Copy)]
struct Woken {
    at_ns: u64,
    due_ns: u64,
    timer: Option<u64>,
    /// On which CPU.
    by_cpu: u32,
    /// Its end was seen.
    is_done: bool,
    /// The thread has left its CPU since.
    is_crossed: bool,
}

/// State while a recording is read.
#[derive(Debug, Default)]
pub struct Wakers {
    /// Expiries of armed timers, by their addresses.
    armed: BTreeMap<u64, u64>,
    /// The callback that runs on each CPU.
    running: BTreeMap<u32, Callback>,
    /// Threads that were woken and have not run yet.
    ready: BTreeMap<u32, Woken>,
    /// Whether the ends of wakings are recorded beside their beginnings.
    has_wakeups: bool,
    /// Whether an event ever ended a callback: its own end, or that of what it ran in.
    has_ends: bool,
    /// Wake-ups by timers before the first such event, each with the instant of its waking.
    unsure: Vec<(u64, WakeUp)>,
    /// timerlat's interrupts: the activation and its latency, by CPU.
    timerlat: BTreeMap<u32, (u64, u64)>,
    /// timerlat's latest activation on a CPU whose thread ran, and its wake-up: the return to user
    /// space may follow.
    returning: BTreeMap<u32, (u64, WakeUp)>,
    /// Whether timerlat measures: then only its threads count.
    is_timerlat: bool,
    pub(super) found: Found,
}

impl Wakers {
    pub(super) fn started(&mut self, timer: u64, expires_ns: u64) {
        if self.armed.len() < KNOWN || self.armed.contains_key(&timer) {
            self.armed.insert(timer, expires_ns);
        }
    }

    /// A timer's callback begins; returns when it was due on the recording's clock.
    pub(super) fn expired(&mut self, at: u64, cpu: u32, timer: u64, now: u64) -> Option<u64> {
        // If the end of the previous one wasn't recorded, it ends here.
        self.running.remove(&cpu);
        let expires = self.armed.remove(&timer)?;
        // `now` is the same instant as `at`, on the timers' clock.
        let due = at.checked_sub(now.checked_sub(expires)?)?;
        let callback = Callback {
            timer,
            due_ns: due,
            nested: 0,
        };
        self.running.insert(cpu, callback);
        Some(due)
    }

    pub(super) fn timer_done(&mut self, cpu: u32) {
        self.running.remove(&cpu);
        self.found_end();
    }

    /// An interrupt begins.
    pub(super) fn interrupted(&mut self, cpu: u32) {
        if let Some(callback) = self.running.get_mut(&cpu) {
            callback.nested = callback.nested.saturating_add(1);
        }
    }

    /// An interrupt ends, and with it the callback that ran in it.
    pub(super) fn interrupt_done(&mut self, cpu: u32) {
        match self.running.get_mut(&cpu) {
            Some(callback) if callback.nested > 0 => callback.nested -= 1,
            Some(_) => self.timer_done(cpu),
            None => {}
        }
    }

    /// A softirq begins or ends: none does so within a callback.
    pub(super) fn softirq(&mut self, cpu: u32) {
        if self.running.contains_key(&cpu) {
            self.timer_done(cpu);
        }
    }

    /// Callbacks have ends in this recording, so the timers of earlier ones are known as well.
    fn found_end(&mut self) {
        self.has_ends = true;
        for (_, wake_up) in std::mem::take(&mut self.unsure) {
            self.found.add(wake_up);
        }
    }

    /// No callback has an end in this recording: whether a waking after one was in it is unknown.
    fn found_no_end(&mut self) {
        for (at_ns, wake_up) in std::mem::take(&mut self.unsure) {
            self.found.add(WakeUp {
                due_ns: at_ns,
                timer: None,
                ..wake_up
            });
        }
    }

    /// A thread is woken. `is_done`: this is the end of its waking.
    pub(super) fn woken(&mut self, at: u64, cpu: u32, thread: &Task, is_done: bool) {
        if thread.priority > REAL_TIME - 1 || self.ready.len() >= KNOWN {
            return;
        }
        let callback = self.running.get(&cpu);
        let woken = Woken {
            at_ns: at,
            due_ns: callback.map_or(at, |callback| callback.due_ns.min(at)),
            timer: callback.map(|callback| callback.timer),
            by_cpu: cpu,
            is_done,
            is_crossed: false,
        };
        let known = self.ready.entry(thread.tid).or_insert(woken);
        // A ready thread is not woken: the previous waking did not end this sleep.
        if known.is_crossed {
            *known = woken;
        }
    }

    /// A waking has ended: if the thread still runs then, it is not to sleep.
    pub(super) fn waking_done(&mut self, tid: u32) {
        self.has_wakeups = true;
        if let Some(woken) = self.ready.get_mut(&tid) {
            woken.is_done = true;
        }
    }

    /// A thread leaves a CPU: a waking while it still ran is settled, and so is any timer's callback
    /// there. Unless it goes to sleep, and another CPU has begun to wake it and waits for that.
    pub(super) fn left(&mut self, at: u64, cpu: u32, tid: u32, sleeps: bool) {
        self.running.remove(&cpu);
        let until = match self.has_wakeups {
            true => u64::MAX,
            false => CROSSING_NS,
        };
        if let Some(woken) = self.ready.get_mut(&tid) {
            let waits = sleeps && !woken.is_done && !woken.is_crossed && woken.by_cpu != cpu;
            if waits && at <= woken.at_ns.saturating_add(until) {
                woken.is_crossed = true;
            } else {
                self.ready.remove(&tid);
            }
        }
    }

    /// Events were lost: what was in progress isn't known any more.
    pub(super) fn lost(&mut self) {
        self.ready.clear();
        self.running.clear();
    }

    pub(super) fn switched(&mut self, at: u64, cpu: u32, to: &Task) {
        let Some(woken) = self.ready.remove(&to.tid) else {
            return;
        };
        if self.is_timerlat {
            return;
        }
        let wake_up = WakeUp {
            thread: to.clone(),
            cpu,
            due_ns: woken.due_ns,
            woken_ns: at.max(woken.at_ns),
            timer: woken.timer,
        };
        if woken.timer.is_none() || self.has_ends {
            self.found.add(wake_up);
            return;
        }
        self.unsure.push((woken.at_ns, wake_up));
        if self.unsure.len() >= UNSURE {
            self.found_no_end();
        }
    }

    /// Nothing follows any more; returns whether callbacks have ends.
    pub(super) fn finish(&mut self) -> bool {
        self.settle(u64::MAX);
        self.found_no_end();
        self.has_ends
    }

    pub(super) fn timerlat(&mut self, cpu: u32, number: u64, ns: u64) {
        self.timerlat.insert(cpu, (number, ns));
    }

    /// timerlat's thread ran; returns the latency that its interrupt stated.
    pub(super) fn timerlat_thread(
        &mut self,
        at: u64,
        cpu: u32,
        said: &Timerlat,
        thread: &Task,
    ) -> Option<u64> {
        if !self.is_timerlat {
            self.is_timerlat = true;
            self.found.clear();
            self.unsure.clear();
        }
        let wake_up = WakeUp {
            thread: thread.clone(),
            cpu,
            due_ns: at.saturating_sub(said.ns),
            woken_ns: at,
            timer: Some(1),
        };
        if let Some((_, before)) = self.returning.insert(cpu, (said.number, wake_up)) {
            self.found.add(before);
        }
        let irq = self.timerlat.get(&cpu);
        irq.filter(|(number, _)| *number == said.number)
            .map(|(_, ns)| *ns)
    }

    /// timerlat's thread in user space returned there: whether that ends the wake-up that its thread
    /// stated.
    pub(super) fn timerlat_returned(&mut self, cpu: u32, said: &Timerlat) -> bool {
        let latest = self.returning.get_mut(&cpu);
        let Some((_, wake_up)) = latest.filter(|(number, _)| *number == said.number) else {
            return false;
        };
        wake_up.woken_ns = wake_up.due_ns.saturating_add(said.ns).max(wake_up.woken_ns);
        true
    }

    /// Nothing follows any more of those of timerlat's wake-ups whose threads ran up to this instant.
    pub(super) fn settle(&mut self, until_ns: u64) {
        self.returning.retain(|_, (_, wake_up)| {
            let is_young = wake_up.woken_ns > until_ns;
            if !is_young {
                self.found.add(wake_up.clone());
            }
            is_young
        });
    }
}

/// Rounds latencies down to the buckets of a histogram, which are fewer than [`KNOWN`]; the lowest
/// and the highest remain exact.
fn round(latencies: &mut BTreeMap<u64, u64>) {
    let highest = latencies.pop_last();
    let lowest = latencies.first_key_value().map_or(0, |(ns, _)| *ns);
    let mut histogram = Histogram::new();
    for (ns, times) in &*latencies {
        histogram.record_n(*ns, *times);
    }
    let buckets = histogram.buckets();
    *latencies = buckets
        .map(|bucket| (bucket.low_ns.max(lowest), bucket.count))
        .chain(highest)
        .collect();
}

/// The order by latency.
type Rank = (Reverse<u64>, u64, u32);

/// Wake-ups: all are counted, and the worst are kept.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) threads: ThreadFilter,
    pub(super) kept: Vec<WakeUp>,
    /// From this rank on none is kept.
    end: Option<Rank>,
    /// How often each latency occurred on each CPU, in ns: rounded, if they are too many.
    pub(super) latencies: BTreeMap<u32, BTreeMap<u64, u64>>,
    /// Those of threads that are not examined.
    pub(super) others: u64,
}

impl Found {
    fn clear(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        *self = Self {
            threads,
            ..Self::default()
        };
    }

    fn add(&mut self, wake_up: WakeUp) {
        if !self.threads.selects(&wake_up.thread) {
            self.others += 1;
            return;
        }
        let on_cpu = self.latencies.entry(wake_up.cpu).or_default();
        *on_cpu.entry(wake_up.latency_ns()).or_default() += 1;
        if on_cpu.len() > KNOWN {
            round(on_cpu);
        }
        if self.end.is_none_or(|end| wake_up.rank() < end) {
            self.kept.push(wake_up);
        }
        if self.kept.len() >= 2 * BILLS {
            self.keep_worst(BILLS);
        }
    }

    /// Keeps so many at most, and leaves them by rank.
    pub(super) fn keep_worst(&mut self, most: usize) {
        self.kept.sort_by_key(WakeUp::rank);
        if let Some(first) = self.kept.get(most) {
            self.end = Some(first.rank());
        }
        self.kept.truncate(most);
    }
}
