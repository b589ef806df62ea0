//! The kernel side: what the kernel does while probes wait is recorded all the time, and examined
//! when one of them was late.
//!
//! A BPF program writes each event into the ring of its CPU, which is overwritten
//! continuously. The probe's thread does nothing for that. [`Capture::drain`] copies the rings on
//! another CPU; [`Capture::chain`] and [`Capture::window`] examine the copy.

mod between;
pub mod chain;
mod gaps;
pub mod history;
mod jobs;
#[cfg(feature = "kernel")]
pub(crate) mod kernel;
pub mod layout;
pub mod messages;
mod middle;
pub mod numbers;
mod origins;
#[cfg(feature = "kernel")]
mod recorder;
#[cfg(feature = "kernel")]
pub(crate) mod rings;
#[cfg(feature = "kernel")]
pub(crate) mod shared;
pub mod slot;
pub mod smi;
pub mod stacks;
pub mod stalls;
mod stops;
pub mod symbols;
pub mod unavailable;
mod used;
mod waits;

#[cfg(not(feature = "kernel"))]
#[path = "recorder_absent.rs"]
mod recorder;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use punctual_rt::clock;

use self::chain::Chains;
use self::history::History;
use self::middle::{WINDOW, leave_out_middle};
use self::recorder::Recorder;
use self::slot::{Slot, ThreadNames, TracingPreemptCount, kind};
use self::smi::SmiCounts;
use self::stacks::Stacks;
use self::symbols::Symbols;
pub use self::unavailable::Unavailable;
use crate::attribute::event::{Event, Interrupted, Kind, Task, Window};
use crate::attribute::groups;
use punctual_record::explanation::{Instants, NoKernelNames, NotSeen};

/// What to record.
#[derive(Debug, Clone)]
pub struct Options {
    /// Threads whose wake-ups are followed, by the kernel's thread numbers ([`numbers`]), each with
    /// the CPU that it runs on. Empty if they come later, by
    /// [`Capture::follow`].
    pub targets: Vec<(u32, u32)>,
    /// Further threads, which may run on several CPUs.
    pub roaming: Vec<u32>,
    /// Record which thread wakes which, for all threads: [`Capture::wait`] needs it.
    pub all_wakings: bool,
    /// How late a target must be before a timer interrupts what runs instead and takes its stack, in
    /// ns; 0 for never. That delays the target further.
    pub interrupt_above_ns: u64,
    /// CPUs that are recorded.
    pub cpus: Vec<u32>,
    /// Events that each CPU's ring holds; rounded up to a power of two. 64 bytes each, and the
    /// same again for the copy.
    pub ring_events: usize,
}

/// Where a wake-up took place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WakeUpPlace {
    /// The CPU on which the thread was made ready.
    pub waking: u32,
    /// The CPU that it then ran on.
    pub running: u32,
}

impl WakeUpPlace {
    /// All on one CPU.
    #[must_use]
    pub fn on_cpu(cpu: u32) -> Self {
        Self {
            waking: cpu,
            running: cpu,
        }
    }
}

/// Events of a CPU's ring: a third of a second at the 200,000 a second of a flood of packets, six
/// times as long as the collector sleeps.
pub const RING_EVENTS: usize = 1 << 16;
/// Events that are kept of all CPUs together, at most: 64 MiB, and only during a flood.
const KEPT_EVENTS: usize = 1 << 20;

/// How many events a ring should hold if this many CPUs are recorded: together they
/// stay below 64 MiB.
#[must_use]
pub fn ring_events(cpus: usize) -> usize {
    let each = (1_usize << 20) / cpus.max(1);
    each.clamp(1 << 13, RING_EVENTS)
}

/// A recording in progress. When it is dropped, or this process is killed, all of it is removed from
/// the kernel.
pub struct Capture {
    recorder: Recorder,
    options: Options,
    histories: Vec<History>,
    /// Copied, but an earlier event of another CPU may still follow.
    fresh: Vec<Slot>,
    chains: Chains,
    names: ThreadNames,
    own: TracingPreemptCount,
    stacks: Stacks,
    symbols: Result<Arc<Symbols>, NoKernelNames>,
    smi: Option<SmiCounts>,
    /// The stolen time of each CPU: at the start, and at the last reading.
    stolen: BTreeMap<u32, (u64, u64)>,
    stolen_from_ns: u64,
    preempt_rt: bool,
    /// The last reading of the rings, and the longest time before one that found some overwritten.
    read_ns: u64,
    unread_ns: u64,
}

impl Capture {
    /// Starts recording.
    ///
    /// # Errors
    /// What is missing here, and what to do.
    pub fn start(options: &Options) -> Result<Self, Unavailable> {
        // A build without tracing reports that first.
        #[cfg(feature = "kernel")]
        unavailable::check()?;
        // Before the recorder starts, because a flood fills its rings meanwhile; and not when the
        // first window is cut: the kernel can't be preempted while it prints a part of its table,
        // for 0.2 ms on some.
        let symbols = Symbols::load().map(Arc::new);
        let recorder = Recorder::start(options)?;
        let mut smi = SmiCounts::open(&options.cpus);
        if let Some(smi) = &mut smi {
            smi.read(0);
        }
        let most = KEPT_EVENTS / options.cpus.len().max(1);
        let history = |_| History::new(options.ring_events / 2, most);
        let histories = (0..recorder.lanes()).map(history).collect();
        Ok(Self {
            recorder,
            histories,
            fresh: Vec::new(),
            chains: Chains::following(options.targets.iter().map(|(tid, _)| *tid)),
            options: options.clone(),
            names: ThreadNames::default(),
            own: TracingPreemptCount::default(),
            stacks: Stacks::default(),
            symbols,
            smi,
            stolen: BTreeMap::new(),
            stolen_from_ns: u64::MAX,
            preempt_rt: is_preempt_rt(),
            read_ns: clock::now_ns(),
            unread_ns: 0,
        })
    }

    /// Copies the new events. Call it several times a second, from a thread that is not real-time.
    pub fn drain(&mut self) {
        let until_ns = clock::now_ns();
        let mut lost_any = false;
        for (index, history) in self.histories.iter_mut().enumerate() {
            let fresh = &mut self.fresh;
            let from = fresh.len();
            let taken = self.recorder.stacks(index);
            let lost = self.recorder.drain(index, |slot| fresh.push(slot));
            lost_any |= lost > 0;
            if lost > 0 {
                history.count_lost(lost);
            }
            for slot in &self.fresh[from..] {
                history.push(*slot);
                if matches!(slot.kind(), kind::STACK | kind::LEFT) {
                    let frames = self.recorder.stack(slot.a(), slot.b());
                    self.stacks.keep(slot, frames);
                }
            }
            self.recorder.stacks_read(index, taken);
        }
        self.fresh.sort_by_key(Slot::at_ns);
        // Events later than the beginning of this copy may still be preceded by another CPU's.
        let settled = self.fresh.partition_point(|slot| slot.at_ns() < until_ns);
        if lost_any {
            self.chains.forget();
            self.unread_ns = self.unread_ns.max(until_ns.saturating_sub(self.read_ns));
        }
        self.read_ns = until_ns;
        for slot in self.fresh.drain(..settled) {
            match slot.kind() {
                kind::SWITCH | kind::RENAME => self.names.learn(&slot),
                kind::VECTOR_ENTRY => {
                    self.own.learn(&slot);
                    if let Some(total_ns) = slot.stolen_ns() {
                        let before = slot.at_ns() < self.stolen_from_ns;
                        let (first, last) = self
                            .stolen
                            .entry(slot.cpu())
                            .or_insert((total_ns, total_ns));
                        *last = total_ns;
                        if before {
                            *first = total_ns;
                        }
                    }
                }
                _ => {}
            }
            self.chains.add_event(&slot);
        }
    }

    /// Counts stolen time from this instant on.
    pub fn count_stolen_from(&mut self, start_ns: u64) {
        self.stolen_from_ns = start_ns;
    }

    /// Time stolen from a CPU since then, by the hypervisor's account, up to the last drained
    /// event: its resolution is a tick. Absent if there is no account.
    #[must_use]
    pub fn stolen_ns(&self, cpu: u32) -> Option<u64> {
        let (first, last) = self.stolen.get(&cpu)?;
        Some(last.saturating_sub(*first))
    }

    /// Reads how many system management interrupts each CPU has had, if the last reading is at
    /// least this long ago; returns whether it did. A reading interrupts each of the CPUs for some
    /// µs, so call it only if its result is used.
    pub fn count_smis(&mut self, apart_ns: u64) -> bool {
        self.smi.as_mut().is_some_and(|smi| smi.read(apart_ns))
    }

    /// Sets how late a target must be for the stack of the thread that released its CPU to be
    /// taken, in ns. It is taken once the target sleeps again and that thread runs again, so it
    /// costs the target nothing.
    pub fn stacks_above(&self, above_ns: u64) {
        self.recorder.stacks_above(above_ns);
    }

    /// The instants of the wake-up that ended with this reading of the clock.
    /// Ask for the samples of a thread in their order.
    pub fn chain(&mut self, tid: u32, due_ns: u64, woken_ns: u64) -> Option<Instants> {
        self.chains.take_wake_up(tid, due_ns, woken_ns)
    }

    /// Follows the wake-ups of one more thread.
    ///
    /// # Errors
    /// What the kernel refused, or that the map is full.
    pub fn follow(&mut self, tid: u32) -> Result<(), Unavailable> {
        self.recorder.follow(tid)?;
        self.chains.follow(tid);
        Ok(())
    }

    /// Stops following a thread.
    pub fn forget(&mut self, tid: u32) {
        self.recorder.forget(tid);
        self.chains.drop(tid);
    }

    /// What happened around a late wake-up of a target; `None` if it is not one of the first targets.
    /// Best called some ms after the wake-up: the hypervisor has reported its stolen time by then.
    #[must_use]
    pub fn window(&self, tid: u32, due_ns: u64, woken_ns: u64) -> Option<Window> {
        let (_, cpu) = *self
            .options
            .targets
            .iter()
            .find(|(known, _)| *known == tid)?;
        Some(self.window_at(tid, WakeUpPlace::on_cpu(cpu), due_ns, woken_ns))
    }

    /// The same for any target: on the CPU that it ran on, and on the one where
    /// it was made ready.
    #[must_use]
    pub fn window_at(&self, tid: u32, at: WakeUpPlace, due_ns: u64, woken_ns: u64) -> Window {
        let cpu = at.running;
        let mut lost = 0;
        let mut slots = Vec::new();
        let mut stolen = [None; 2];
        for (index, history) in self.histories.iter().enumerate() {
            // From the other CPUs' lanes only what concerns the target.
            let here = self.options.cpus.get(index);
            let own = here == Some(&cpu) || here == Some(&at.waking);
            let (cut, lost_here) = history.cut(due_ns, woken_ns);
            let concerns = |slot: &Slot| {
                matches!(slot.kind(), kind::WAKING | kind::MIGRATE) && slot.a() as u32 == tid
                    || slot.kind() == kind::TIMER_EXPIRE && self.ends_throttling(slot.b())
            };
            slots.extend(cut.into_iter().filter(|slot| own || concerns(slot)));
            if own {
                lost += lost_here;
            }
            if here == Some(&cpu) {
                let account = |slot: &Slot| slot.stolen_ns().is_some();
                stolen = [
                    history.last_before(due_ns, account).copied(),
                    history.first_after(woken_ns, account).copied(),
                ];
            }
        }
        slots.sort_by_key(Slot::at_ns);
        let left_out = leave_out_middle(&mut slots, tid);
        let timer = slots
            .iter()
            .rev()
            .find(|slot| {
                slot.kind() == kind::TIMER_START
                    && slot.at_ns() <= woken_ns
                    && slot.c() as u32 == tid
            })
            .copied()
            .or_else(|| self.armed(at, tid, due_ns));
        let begin_ns = slots.first().map_or(due_ns, Slot::at_ns);
        let left = self.sleep_state_before(at, tid, begin_ns);
        let stop = stops::stop_before(self.lanes_of(at), &slots, tid, begin_ns, left);
        slots.extend(stop);
        self.add_senders(&mut slots);
        let mut events = self.events_of(&slots, stolen, timer, (due_ns, woken_ns));
        events.extend(self.left_for(cpu, due_ns, woken_ns));
        let mut window = Window {
            cpu,
            probe: self.probe(tid, &events),
            waiting_ns: timer.map_or(due_ns, |timer| timer.at_ns().min(woken_ns)),
            due_ns,
            woken_ns,
            lost: lost + left_out,
            cut: left_out > 0,
            preempt_rt: self.preempt_rt,
            gap: false,
            job: false,
            limits: Vec::new(),
            stalls: self.stalls(at, due_ns, woken_ns),
            left,
            events,
            symbols: BTreeMap::new(),
            origins: BTreeMap::new(),
        };
        self.complete(&mut window);
        window
    }

    /// Adds the senders of a window's calls, if these were sent before it begins.
    fn add_senders(&self, slots: &mut Vec<Slot>) {
        let lanes = self.options.cpus.iter().zip(&self.histories);
        let sent = lanes.flat_map(|(cpu, history)| {
            let here: Vec<Slot> = slots
                .iter()
                .filter(|it| it.cpu() == *cpu)
                .copied()
                .collect();
            history.sent_before(&here)
        });
        let sent: Vec<Slot> = sent.collect();
        slots.splice(0..0, sent);
        slots.sort_by_key(Slot::at_ns);
    }

    /// Everything that is still kept of all CPUs, around a wake-up of a target.
    #[must_use]
    pub fn ring(&self, tid: u32, cpu: u32, due_ns: u64, woken_ns: u64) -> Window {
        let mut window = self.window_at(tid, WakeUpPlace::on_cpu(cpu), due_ns, woken_ns);
        let all = self.histories.iter().flat_map(History::all);
        let mut slots: Vec<Slot> = all.copied().collect();
        slots.sort_by_key(Slot::at_ns);
        let armed = |slot: &&Slot| slot.kind() == kind::TIMER_START && slot.c() as u32 == tid;
        let timer = slots
            .iter()
            .rev()
            .filter(armed)
            .find(|slot| slot.at_ns() <= woken_ns)
            .copied();
        window.events = self.events_of(&slots, [None; 2], timer, (due_ns, woken_ns));
        self.complete(&mut window);
        window
    }

    /// The events of slots, and what was counted around them: stolen time if the account
    /// rose, and system management interrupts.
    fn events_of(
        &self,
        slots: &[Slot],
        stolen: [Option<Slot>; 2],
        timer: Option<Slot>,
        (from_ns, to_ns): (u64, u64),
    ) -> Vec<Event> {
        let of_probe = |address: u64| timer.is_some_and(|timer| timer.a() == address);
        let mut events = Vec::with_capacity(slots.len() + 8);
        let mut account = None;
        for slot in stolen[0].iter().chain(slots).chain(&stolen[1]) {
            if let Some(total_ns) = slot.stolen_ns()
                && account != Some(total_ns)
            {
                account = Some(total_ns);
                events.push(event(slot, Kind::Stolen { total_ns }));
            }
        }
        events.extend(slots.iter().filter_map(|slot| {
            let kind = match slot.kind() {
                kind::STACK => self.stacks.caught(slot),
                kind::LEFT => Some(stacks::cost(slot)),
                _ => slot.event_kind(&self.names, self.own, of_probe),
            };
            Some(event(slot, kind?))
        }));
        for cpu in self.options.cpus.iter().copied() {
            let readings = self
                .smi
                .as_ref()
                .map(|smi| smi.readings_around(cpu, from_ns, to_ns));
            if let Some([Some((before, first)), Some((after, last))]) = readings
                && first != last
            {
                for (at_ns, total) in [(before, first), (after, last)] {
                    let kind = Kind::SmiCount { total };
                    events.push(Event { at_ns, cpu, kind });
                }
            }
        }
        events.sort_by_key(|event| event.at_ns);
        events
    }

    /// The stack of the thread that released a CPU for a late wake-up: it was taken later.
    fn left_for(&self, cpu: u32, due_ns: u64, woken_ns: u64) -> Option<Event> {
        let lanes = self.options.cpus.iter().zip(&self.histories);
        let (_, history) = lanes.into_iter().find(|(known, _)| **known == cpu)?;
        let left_now = |slot: &Slot| {
            slot.kind() == kind::LEFT && (due_ns..=woken_ns).contains(&slot.left_ns())
        };
        // It is taken once the target sleeps again.
        self.stacks.left(history.first_after(woken_ns, left_now)?)
    }

    /// Whether the start of a wake-up's window is no longer kept.
    #[must_use]
    pub fn has_forgotten(&self, at: WakeUpPlace, due_ns: u64) -> bool {
        self.lanes_of(at).any(|it| it.has_forgotten(due_ns))
    }

    /// Whether a timer's callback replenishes the time of control groups, on any CPU.
    fn ends_throttling(&self, function: u64) -> bool {
        let name = self.symbols.as_ref().ok().and_then(|it| it.name(function));
        name.is_some_and(|name| groups::ends_throttling(&name))
    }

    /// The timer that the target armed before the window begins.
    fn armed(&self, at: WakeUpPlace, tid: u32, due_ns: u64) -> Option<Slot> {
        self.last_before(at, due_ns, |slot| {
            slot.kind() == kind::TIMER_START && slot.c() as u32 == tid
        })
    }

    /// The last event before an instant that satisfies a condition, where a wake-up took place.
    fn last_before(&self, at: WakeUpPlace, ns: u64, is: impl Fn(&Slot) -> bool) -> Option<Slot> {
        let last = self.lanes_of(at).filter_map(|it| it.last_before(ns, &is));
        last.max_by_key(|slot| slot.at_ns()).copied()
    }

    /// The events of the CPUs where a wake-up took place.
    fn lanes_of(&self, at: WakeUpPlace) -> impl Iterator<Item = &History> {
        let lanes = self.options.cpus.iter().zip(&self.histories);
        let here = lanes.filter(move |(cpu, _)| **cpu == at.running || **cpu == at.waking);
        here.map(|(_, history)| history)
    }

    /// The state in which a target slept already when its window begins.
    fn sleep_state_before(&self, at: WakeUpPlace, tid: u32, begin_ns: u64) -> Option<u64> {
        let (lanes, before_ns) = (self.lanes_of(at), begin_ns.saturating_sub(1));
        let left = lanes.filter_map(|it| it.left_cpu_at(tid, before_ns));
        left.max().map(|(_, state)| state)
    }

    /// The probe as it was switched to.
    fn probe(&self, tid: u32, events: &[Event]) -> Task {
        let came = events.iter().rev().find_map(|event| match &event.kind {
            Kind::Switch { to, .. } if to.tid == tid => Some(to.clone()),
            _ => None,
        });
        came.unwrap_or_else(|| Task {
            tid,
            name: self.names.name_of(tid),
            priority: 120,
            policy: 0,
        })
    }

    /// Adds the origins of threads, names the addresses in a window, and removes the frames of taking a
    /// stack from stacks.
    fn complete(&self, window: &mut Window) {
        self.add_origins(window);
        let Ok(symbols) = &self.symbols else {
            return;
        };
        stacks::trim(&mut window.events, symbols);
        let mut addresses = BTreeSet::new();
        for event in &window.events {
            match &event.kind {
                Kind::VectorEntry {
                    interrupted:
                        Some(Interrupted {
                            address,
                            user: false,
                            ..
                        }),
                    ..
                } => {
                    addresses.insert(*address);
                }
                Kind::TimerExpire { function, .. }
                | Kind::CallSent { function, .. }
                | Kind::CallEntry { function, .. }
                | Kind::WorkStart { function } => {
                    addresses.insert(*function);
                }
                Kind::Stack { frames, .. } | Kind::Left { frames, .. } => addresses.extend(frames),
                _ => {}
            }
        }
        window.symbols = symbols.names_of(addresses.into_iter());
    }

    /// Events that were overwritten before they were copied.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.histories.iter().map(History::lost).sum()
    }

    /// The longest time between two readings of which the second found events overwritten.
    #[must_use]
    pub fn unread_ns(&self) -> u64 {
        self.unread_ns
    }

    /// Events so far.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.recorder.events()
    }

    /// What can't be explained here: tracepoints that the kernel lacks, names that it hides.
    #[must_use]
    pub fn missing(&self) -> Vec<NotSeen> {
        let hidden = self.symbols.as_ref().err().cloned();
        let hidden = hidden.map(|why| NotSeen::KernelNames { why });
        self.recorder
            .missing()
            .iter()
            .cloned()
            .chain(hidden)
            .collect()
    }
}

fn event(slot: &Slot, kind: Kind) -> Event {
    Event {
        at_ns: slot.at_ns(),
        cpu: slot.cpu(),
        kind,
    }
}

fn is_preempt_rt() -> bool {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    read("/sys/kernel/realtime").trim() == "1"
        || read("/proc/sys/kernel/version").contains("PREEMPT_RT")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_of_many_cpus_stay_small_together() {
        assert_eq!(ring_events(1), RING_EVENTS);
        assert_eq!(ring_events(16), RING_EVENTS);
        assert_eq!(ring_events(32), 1 << 15);
        assert_eq!(ring_events(64), 1 << 14);
        assert_eq!(ring_events(100_000), 1 << 13);
        assert_eq!(ring_events(0), RING_EVENTS);
    }
}
