//! What the kernel did on this machine while a message was under way.

use punctual_rt::clock;

use super::history::{AGE_NS, History, LEAD_NS};
use super::slot::{Slot, kind};
use super::{Capture, Task, Window};
use crate::attribute::event::Kind;
use crate::attribute::message::{Activity, Recording};

/// How much time beyond a message is examined with it: those after it need it too.
const AHEAD_NS: u64 = 50_000_000;
/// Events of all CPUs that are examined at once.
const MOST: usize = 1 << 17;

/// A recording around the messages of the threads that are its targets.
pub struct MessageRecording {
    capture: Capture,
    /// What all CPUs did, and in which time.
    examined: Option<(u64, u64, Activity)>,
    /// All events before this were copied.
    copied_ns: u64,
    /// By which the messages come.
    device: Option<String>,
}

impl MessageRecording {
    /// Of a recording whose targets are the sending and the receiving thread, on their CPUs.
    #[must_use]
    pub fn new(mut capture: Capture) -> Self {
        // A message is examined up to that long after it was sent: its stages come with later ones.
        for history in &mut capture.histories {
            history.keep_for(2 * AGE_NS);
        }
        Self {
            capture,
            examined: None,
            copied_ns: 0,
            device: None,
        }
    }

    /// Of messages that come by this network device.
    #[must_use]
    pub fn with_device(self, device: Option<String>) -> Self {
        Self { device, ..self }
    }

    /// The recording itself.
    #[must_use]
    pub fn capture(&self) -> &Capture {
        &self.capture
    }

    /// Since when a thread was ready that was ready at an instant, but did not run; `None` if it ran or
    /// slept then.
    #[must_use]
    pub fn ready_before(&self, tid: u32, at_ns: u64) -> Option<u64> {
        self.capture.ready_before(tid, at_ns)
    }

    /// Copies the new events.
    pub fn drain(&mut self) {
        let now_ns = clock::now_ns();
        self.capture.drain();
        self.copied_ns = now_ns;
    }
}

impl Recording for MessageRecording {
    fn wake_up(&self, tid: u32, due_ns: u64, woken_ns: u64) -> Option<Window> {
        let from_ns = self.capture.ready_before(tid, due_ns).unwrap_or(due_ns);
        self.capture.window(tid, from_ns, woken_ns)
    }

    fn call(&self, tid: u32, from_ns: u64, to_ns: u64) -> Option<Window> {
        let cpu = self.capture.cpu_of(tid)?;
        let task = self.capture.running_at(tid, cpu, from_ns);
        self.capture.job(task, Some(cpu), from_ns, to_ns)
    }

    fn activity(&mut self, from_ns: u64, to_ns: u64) -> Option<&Activity> {
        let known = self.examined.as_ref();
        if known.is_none_or(|(begin_ns, end_ns, _)| from_ns < *begin_ns || to_ns > *end_ns) {
            self.examined = None;
            let ahead_ns = to_ns.saturating_add(AHEAD_NS).min(self.copied_ns);
            let end_ns = to_ns.max(ahead_ns);
            let capture = &self.capture;
            let (end_ns, found) = match capture.activity(from_ns, end_ns) {
                Some(found) => (end_ns, found),
                // What follows may be too much, or missing.
                None => (to_ns, capture.activity(from_ns, to_ns)?),
            };
            self.examined = Some((from_ns, end_ns, found));
        }
        self.examined.as_ref().map(|(_, _, found)| found)
    }

    fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }
}

impl Capture {
    /// What all recorded CPUs did between two instants; `None` if some of it is lost, or if it is too
    /// much.
    #[must_use]
    pub fn activity(&self, from_ns: u64, to_ns: u64) -> Option<Activity> {
        let count = |history: &History| history.count(from_ns, to_ns);
        if self.histories.iter().map(count).sum::<usize>() > MOST {
            return None;
        }
        let is_used = |slot: &Slot| {
            let used = [
                kind::WAKING,
                kind::SWITCH,
                kind::SOFTIRQ_ENTRY,
                kind::SOFTIRQ_EXIT,
            ];
            used.contains(&slot.kind())
        };
        let mut slots = Vec::new();
        for history in &self.histories {
            let (cut, lost) = history.cut(from_ns, to_ns);
            if lost > 0 {
                return None;
            }
            slots.extend(cut.into_iter().filter(is_used));
        }
        let events = self.events_of(&slots, [None; 2], None, (from_ns, to_ns));
        (!events.is_empty()).then(|| Activity::since(from_ns.saturating_sub(LEAD_NS), &events))
    }

    /// The CPU of a target that is bound to one.
    fn cpu_of(&self, tid: u32) -> Option<u32> {
        let mut targets = self.options.targets.iter();
        targets
            .find(|(known, _)| *known == tid)
            .map(|(_, cpu)| *cpu)
    }

    /// Since when a target was ready that was ready at an instant, but did not run.
    fn ready_before(&self, tid: u32, at_ns: u64) -> Option<u64> {
        let waking = |slot: &Slot| slot.kind() == kind::WAKING && slot.a() as u32 == tid;
        let lanes = self.histories.iter();
        let wakings = lanes.filter_map(|history| history.last_before(at_ns, waking));
        let woken_ns = wakings.map(Slot::at_ns).max()?;
        let cpu = self.cpu_of(tid)?;
        let own = self.options.cpus.iter().position(|known| *known == cpu)?;
        let switch = |slot: &Slot| {
            slot.kind() == kind::SWITCH && (slot.to_tid() == tid || slot.from_tid() == tid)
        };
        let last = self.histories.get(own)?.last_before(at_ns, switch)?;
        let slept = last.from_tid() == tid && last.b() != 0 && !last.is_preempted();
        (slept && last.at_ns() <= woken_ns).then_some(woken_ns)
    }

    /// A target as it was when it began to run, before an instant.
    fn running_at(&self, tid: u32, cpu: u32, at_ns: u64) -> Task {
        let came = |slot: &Slot| slot.kind() == kind::SWITCH && slot.to_tid() == tid;
        let own = self.options.cpus.iter().position(|known| *known == cpu);
        let history = own.and_then(|own| self.histories.get(own));
        let came = history.and_then(|history| history.last_before(at_ns, came));
        let what = came.and_then(|slot| slot.event_kind(&self.names, self.own, |_| false));
        match what {
            Some(Kind::Switch { to, .. }) => to,
            _ => Task {
                tid,
                name: self.names.name_of(tid),
                priority: 120,
                policy: 0,
            },
        }
    }
}
