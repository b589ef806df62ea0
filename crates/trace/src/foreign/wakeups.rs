//! The wake-ups of a recording: when each was due, and when its thread ran.

use std::collections::{BTreeMap, VecDeque};

use super::super::attribute::event::{Event, Kind, Task, Window};
use super::Recording;
use super::lines::Timerlat;

/// Wake-ups that are kept: the last ones, as with events.
pub(super) const MOST: usize = 1 << 20;
/// Threads and timers that are kept at one time.
const KNOWN: usize = 1 << 16;
/// Threads whose kernel priority is at most this are real-time.
const REAL_TIME: i32 = 99;
/// A window begins this long before its wake-up was due.
const BEFORE_NS: u64 = 10_000_000;
/// Events of a window.
const EVENTS: usize = 1 << 17;

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
    pub fn rank(&self) -> (std::cmp::Reverse<u64>, u64) {
        (std::cmp::Reverse(self.latency_ns()), self.due_ns)
    }

    /// What was recorded around it.
    #[must_use]
    pub fn window(&self, recording: &Recording) -> Window {
        let (events, _) = recording.events.as_slices();
        let from = self.due_ns.saturating_sub(BEFORE_NS);
        let first = events.partition_point(|event| event.at_ns < from);
        let end = events.partition_point(|event| event.at_ns <= self.woken_ns);
        let first = first.max(end.saturating_sub(EVENTS));
        // The thread that ran on each CPU as the window begins.
        let mut before: BTreeMap<u32, &Event> = BTreeMap::new();
        let early = first.saturating_sub(EVENTS);
        for event in &events[early..first] {
            if matches!(event.kind, Kind::Switch { .. }) {
                before.insert(event.cpu, event);
            }
        }
        let inside = events[first..end].iter();
        let mut events: Vec<Event> = before.into_values().chain(inside).cloned().collect();
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

/// State while a recording is read.
#[derive(Debug, Default)]
pub struct Wakers {
    /// Expiries of armed timers, by their addresses.
    armed: BTreeMap<u64, u64>,
    /// The timer whose callback runs on a CPU, with its expiry on the recording's clock.
    running: BTreeMap<u32, (u64, u64)>,
    /// Threads that were woken and have not run yet: when they were due, and by which timer.
    ready: BTreeMap<u32, (u64, Option<u64>)>,
    /// timerlat's interrupts: the activation and its latency, by CPU.
    timerlat: BTreeMap<u32, (u64, u64)>,
    /// timerlat's latest activation on a CPU whose thread ran.
    activations: BTreeMap<u32, u64>,
    /// Whether timerlat measures: then only its threads count.
    is_timerlat: bool,
    found: VecDeque<WakeUp>,
    /// Earlier ones that are not kept.
    without_room: u64,
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
        self.running.insert(cpu, (timer, due));
        Some(due)
    }

    pub(super) fn timer_done(&mut self, cpu: u32) {
        self.running.remove(&cpu);
    }

    pub(super) fn woken(&mut self, at: u64, cpu: u32, thread: &Task) {
        if thread.priority > REAL_TIME - 1 || self.ready.len() >= KNOWN {
            return;
        }
        let timer = self.running.get(&cpu).copied();
        let due = timer.map_or((at, None), |(timer, due)| (due.min(at), Some(timer)));
        self.ready.entry(thread.tid).or_insert(due);
    }

    /// A thread leaves a CPU: a waking while it still ran is settled, and so is any
    /// timer's callback there.
    pub(super) fn left(&mut self, cpu: u32, tid: u32) {
        self.ready.remove(&tid);
        self.running.remove(&cpu);
    }

    /// Events were lost: what was in progress isn't known any more.
    pub(super) fn lost(&mut self) {
        self.ready.clear();
        self.running.clear();
    }

    pub(super) fn switched(&mut self, at: u64, cpu: u32, to: &Task) {
        let Some((due_ns, timer)) = self.ready.remove(&to.tid) else {
            return;
        };
        self.keep(WakeUp {
            thread: to.clone(),
            cpu,
            due_ns,
            woken_ns: at.max(due_ns),
            timer,
        });
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
            self.without_room = 0;
        }
        let wake_up = WakeUp {
            thread: thread.clone(),
            cpu,
            due_ns: at.saturating_sub(said.ns),
            woken_ns: at,
            timer: Some(1),
        };
        self.push(wake_up);
        self.activations.insert(cpu, said.number);
        let irq = self.timerlat.get(&cpu);
        irq.filter(|(number, _)| *number == said.number)
            .map(|(_, ns)| *ns)
    }

    /// timerlat's thread in user space returned there: whether that ends the wake-up that its thread
    /// stated.
    pub(super) fn timerlat_returned(&mut self, cpu: u32, said: &Timerlat) -> bool {
        if self.activations.get(&cpu) != Some(&said.number) {
            return false;
        }
        let mut latest = self.found.iter_mut().rev();
        let Some(wake_up) = latest.find(|it| it.cpu == cpu) else {
            return false;
        };
        wake_up.woken_ns = wake_up.due_ns.saturating_add(said.ns).max(wake_up.woken_ns);
        true
    }

    fn keep(&mut self, wake_up: WakeUp) {
        if !self.is_timerlat {
            self.push(wake_up);
        }
    }

    fn push(&mut self, wake_up: WakeUp) {
        if self.found.len() >= MOST {
            self.found.pop_front();
            self.without_room += 1;
        }
        self.found.push_back(wake_up);
    }

    /// The wake-ups, and how many earlier ones are not kept.
    pub(super) fn done(self) -> (Vec<WakeUp>, u64) {
        (self.found.into(), self.without_room)
    }
}
