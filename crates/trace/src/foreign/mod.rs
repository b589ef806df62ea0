//! Recordings of other tools: the text of tracefs' `trace`, of `trace-cmd report` and of `perf
//! script`. Their events give the same windows as those of our own recorder.

pub mod damage;
pub mod events;
pub mod lines;
pub mod open;
pub mod wakeups;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Read};

use super::attribute::event::{Event, Kind, Task};
use lines::{Line, TimerlatContext};
use punctual_record::explanation::{NotSeen, RecordedEvents};
use wakeups::Wakers;
pub use wakeups::{BILLS, ThreadFilter, WakeUp};

/// Events in memory, about 200 MB: beyond them those go that the worst wake-ups so far don't need.
const EVENTS: usize = 1 << 20;
/// Events of the worst wake-ups among them: the worst whose events find room are kept.
const WORST_EVENTS: usize = EVENTS / 2;
/// The last events, for what is in progress: a window and the time before it.
const LAST_EVENTS: usize = 2 * wakeups::EVENTS;
/// Bytes of a line.
const LINE: u64 = 1 << 12;
/// Names of functions and devices.
const NAMES: usize = 1 << 16;
/// Bytes of a thread's or a device's name: each of a million events may have a different one.
const NAME: usize = 64;
/// Bytes of a function's name.
const FUNCTION: usize = 128;
/// Interrupts of the timer that are kept of one wake-up.
const FRAMES: usize = 64;
/// By how much an instant that is computed from the times of two lines, in µs, may be wrong, in ns.
const ROUNDED_NS: u64 = 20_000;
/// How much earlier than the one before it an event may be: each CPU has a buffer of its own, and who prints
/// them merges them.
const DISORDER_NS: u64 = 10_000_000;
/// Threads and timers that are kept.
const KNOWN: usize = 1 << 16;

/// A recording, up to the limits.
#[derive(Debug, Default)]
pub struct Recording {
    /// Its events in the order of time, after [`Recording::read`]: those of the wake-ups.
    pub events: Vec<Event>,
    /// Wake-ups whose latency the recording states or implies, by time: the worst, at most [`BILLS`].
    pub wake_ups: Vec<WakeUp>,
    /// How often each latency occurred on each CPU, in ns, of all wake-ups: rounded, if they are too
    /// many.
    pub latencies: BTreeMap<u32, BTreeMap<u64, u64>>,
    /// Wake-ups of real-time threads that the filter leaves out.
    pub left_out: u64,
    /// Names for the addresses in its events.
    pub symbols: BTreeMap<u64, String>,
    /// Instants at which events were lost, with their CPU.
    pub lost: Vec<(u32, u64)>,
    /// What it lacks.
    pub missing: Vec<NotSeen>,
    /// From its first event to its last, including those that are not kept.
    pub span_ns: u64,
    /// Whether its kernel is a `PREEMPT_RT` one.
    pub preempt_rt: bool,
    switches: wakeups::Switches,
    names: BTreeMap<String, u64>,
    seen: BTreeSet<&'static str>,
    lines: u64,
    /// Those that come after much later ones.
    disordered: u64,
    /// The earliest and the latest instant.
    ends_ns: Option<(u64, u64)>,
    /// Threads by number, as last seen.
    tasks: BTreeMap<u32, Task>,
    on_cpu: BTreeMap<u32, Task>,
    /// The timer's interrupts on a CPU since timerlat's last one.
    frames: BTreeMap<u32, Vec<(u64, u64)>>,
    wakers: Wakers,
}

impl Recording {
    /// Reads a text to its end; total, with bounded memory.
    ///
    /// # Errors
    /// A read error; `InvalidData` if no line is an event.
    pub fn read(text: impl BufRead) -> io::Result<Self> {
        Self::read_threads(text, &ThreadFilter::default())
    }

    /// The same, with the wake-ups of some threads only.
    ///
    /// # Errors
    /// As [`Recording::read`].
    pub fn read_threads(mut text: impl BufRead, threads: &ThreadFilter) -> io::Result<Self> {
        let mut recording = Self::default();
        recording.wakers.found.threads = threads.clone();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut text).take(LINE).read_until(b'\n', &mut line)?;
            if read == 0 {
                break;
            }
            // The remainder of an overlong line is ignored.
            if line.last() != Some(&b'\n') {
                text.skip_until(b'\n')?;
            }
            recording.add_text(&String::from_utf8_lossy(&line));
        }
        if recording.lines == 0 {
            let why = "no events of the kernel's tracers: docs/explain.md lists those to record";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        if recording.disordered > 0 {
            // A wake-up would end with the switch of a later one.
            let why = format!(
                "{} of its {} events come after later ones: give those of all CPUs in the order of \
                 time, as /sys/kernel/tracing/trace, `trace-cmd report` and `perf script` print them",
                recording.disordered, recording.lines
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        recording.events.sort_by_key(|event| event.at_ns);
        let mut wakers = std::mem::take(&mut recording.wakers);
        if !wakers.finish() {
            // How long they ran isn't known, so what they interrupted keeps the time.
            let of_recording = |event: &Event| match event.kind {
                Kind::TimerExpire { of_probe, .. } => !of_probe,
                _ => false,
            };
            recording.events.retain(|event| !of_recording(event));
        }
        let mut found = wakers.found;
        found.keep_worst(BILLS);
        found.kept.sort_by_key(|wake_up| wake_up.woken_ns);
        recording.wake_ups = found.kept;
        recording.switches = wakeups::switches(&recording.events);
        recording.latencies = found.latencies;
        recording.left_out = found.others;
        recording.span_ns = recording.ends_ns.map_or(0, |(first, last)| last - first);
        recording.report_missing();
        Ok(recording)
    }

    fn report_missing(&mut self) {
        let seen = |name: &str| self.seen.contains(name);
        let lacks = RecordedEvents::ALL
            .into_iter()
            .filter(|needed| !events::that_tell(*needed).iter().any(|name| seen(name)))
            .map(|lacks| NotSeen::Recorded { lacks });
        let without_end = events::with_ends()
            .filter(|(begins, ends)| seen(begins) && !seen(ends))
            .map(|(begins, ends)| NotSeen::RecordedEnd {
                begins: begins.to_owned(),
                ends: ends.to_owned(),
            });
        let lacks: Vec<NotSeen> = lacks.chain(without_end).collect();
        self.missing.extend(lacks);
        let all: u64 = self.latencies.values().flat_map(BTreeMap::values).sum();
        let bills = self.wake_ups.len() as u64;
        if all > bills {
            let wake_ups = all - bills;
            self.missing.push(NotSeen::WithoutBill { wake_ups, bills });
        }
        if !self.lost.is_empty() {
            self.missing.push(NotSeen::RecordingLost);
        }
    }

    fn add_text(&mut self, text: &str) {
        if let Some(cpu) = lines::lost_on(text) {
            let at = self.events.last().map_or(0, |event| event.at_ns);
            self.lost(cpu, at);
            return;
        }
        let Some(line) = Line::parse(text) else {
            return;
        };
        // perf's own: PERF_RECORD_LOST and, since 6.1, PERF_RECORD_LOST_SAMPLES.
        if line.event.starts_with("PERF_RECORD_LOST") {
            self.lost(line.cpu, line.at_ns);
            return;
        }
        self.lines += 1;
        let at_ns = line.at_ns;
        let latest_ns = self.ends_ns.map_or(0, |(_, latest)| latest);
        self.disordered += u64::from(at_ns.saturating_add(DISORDER_NS) < latest_ns);
        self.ends_ns = Some(match self.ends_ns {
            Some((first, last)) => (first.min(at_ns), last.max(at_ns)),
            None => (at_ns, at_ns),
        });
        self.know(line.tid, line.name);
        self.event(&line);
    }

    fn lost(&mut self, cpu: u32, at_ns: u64) {
        if self.lost.len() < KNOWN {
            self.lost.push((cpu, at_ns));
        }
        self.wakers.lost();
    }

    /// A thread's name, if nothing better is known.
    fn know(&mut self, tid: u32, name: &str) {
        if tid != 0 && self.tasks.len() < KNOWN && !self.tasks.contains_key(&tid) && name != "<...>"
        {
            self.tasks.insert(tid, task(tid, name, None));
        }
    }

    fn thread(&mut self, tid: u32, name: &str, priority: Option<i32>) -> Task {
        let found = task(tid, name, priority);
        if name.starts_with("ktimers/") || name.starts_with("rcuc/") {
            self.preempt_rt = true;
        }
        if self.tasks.len() < KNOWN || self.tasks.contains_key(&tid) {
            self.tasks.insert(tid, found.clone());
        }
        found
    }

    fn name(&mut self, text: &str) -> u64 {
        let text = bounded(text, FUNCTION);
        if let Some(known) = self.names.get(text) {
            return *known;
        }
        // No function of the kernel has such a low address.
        let address = 0x1000 + self.names.len() as u64;
        if self.names.len() < NAMES {
            self.names.insert(text.to_owned(), address);
            self.symbols.insert(address, text.to_owned());
        }
        address
    }

    fn push(&mut self, at_ns: u64, cpu: u32, kind: Kind) {
        if self.events.len() >= EVENTS {
            self.make_room();
        }
        self.events.push(Event { at_ns, cpu, kind });
    }

    /// Drops the events that neither the worst wake-ups so far nor what is in progress needs; if those
    /// of the worst are too many, the least of these wake-ups too.
    fn make_room(&mut self) {
        self.events.sort_by_key(|event| event.at_ns);
        let switches = wakeups::switches(&self.events);
        let first = EVENTS - LAST_EVENTS;
        let mut is_needed = vec![false; EVENTS];
        is_needed[first..].fill(true);
        wakeups::last_before(&switches, first).for_each(|index| is_needed[index] = true);
        let settled = &self.events[EVENTS - wakeups::EVENTS];
        self.wakers.settle(settled.at_ns);
        let found = &mut self.wakers.found;
        found.keep_worst(BILLS);
        let mut room = WORST_EVENTS;
        let has_room = |wake_up: &&WakeUp| {
            let mut needed: Vec<usize> = wake_up.needs(&self.events, &switches).collect();
            needed.retain(|index| !is_needed[*index]);
            let fits = needed.len() <= room;
            if fits {
                room -= needed.len();
                needed.iter().for_each(|index| is_needed[*index] = true);
            }
            fits
        };
        let fitting = found.kept.iter().take_while(has_room).count();
        found.keep_worst(fitting);
        let mut needed = is_needed.into_iter();
        self.events.retain(|_| needed.next() == Some(true));
    }

    fn event(&mut self, line: &Line<'_>) {
        let Some((system, name)) = events::all().find(|(_, name)| *name == line.event) else {
            return self.timerlat(line);
        };
        if matches!(system, "irq" | "irq_vectors") {
            self.seen.insert(name);
        }
        let (at, cpu) = (line.at_ns, line.cpu);
        let number = |key: &str| line.number(key);
        let small = |key: &str| {
            line.number(key)
                .and_then(|number| u32::try_from(number).ok())
        };
        if let Some((vector, is_entry)) = lines::vector(line.event) {
            self.seen.insert("irq_vectors");
            let kind = if is_entry {
                self.wakers.interrupted(cpu);
                Kind::VectorEntry {
                    vector,
                    interrupted: None,
                }
            } else {
                self.wakers.interrupt_done(cpu);
                Kind::VectorExit { vector }
            };
            return self.push(at, cpu, kind);
        }
        match line.event {
            "sched_switch" => self.switch(line),
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => self.waking(line),
            "sched_migrate_task" => {
                if let (Some(tid), Some(to_cpu)) = (small("pid"), small("dest_cpu")) {
                    let from_cpu = small("orig_cpu");
                    let kind = Kind::Migrate {
                        tid,
                        to_cpu,
                        from_cpu,
                    };
                    self.push(at, cpu, kind);
                }
            }
            "irq_handler_entry" => {
                let name = bounded(line.word("name").unwrap_or_default(), NAME).to_owned();
                self.wakers.interrupted(cpu);
                if let Some(irq) = small("irq") {
                    self.push(at, cpu, Kind::HandlerEntry { irq, name });
                }
            }
            "irq_handler_exit" => {
                self.wakers.interrupt_done(cpu);
                if let Some(irq) = small("irq") {
                    self.push(at, cpu, Kind::HandlerExit { irq });
                }
            }
            "softirq_entry" | "softirq_exit" => {
                self.wakers.softirq(cpu);
                if let Some(number) = small("vec") {
                    let is_entry = line.event == "softirq_entry";
                    self.push(
                        at,
                        cpu,
                        if is_entry {
                            Kind::SoftirqEntry { number }
                        } else {
                            Kind::SoftirqExit { number }
                        },
                    );
                }
            }
            "hrtimer_start" => {
                if let (Some(timer), Some(expires_ns)) =
                    (line.address("hrtimer"), number("expires"))
                {
                    self.seen.insert("hrtimer_start");
                    self.wakers.started(timer, expires_ns);
                }
            }
            "hrtimer_expire_entry" => self.expires(line),
            "hrtimer_expire_exit" => {
                if let Some(timer) = line.address("hrtimer") {
                    self.seen.insert("hrtimer_expire_exit");
                    self.wakers.timer_done(cpu);
                    self.push(at, cpu, Kind::TimerDone { timer });
                }
            }
            "workqueue_execute_start" => {
                // `work struct 0xffff888100: function vmstat_update`
                let name = line.payload.rsplit_once("function ");
                let function = self.name(name.map_or("", |(_, name)| name));
                self.push(at, cpu, Kind::WorkStart { function });
            }
            "nmi_handler" => {
                if let Some(duration_ns) = number("delta_ns:") {
                    self.push(at, cpu, Kind::Nmi { duration_ns });
                }
            }
            "cpu_idle" => {
                let state = small("state").filter(|state| *state != u32::MAX);
                self.push(at, cpu, Kind::Idle { state });
            }
            _ => self.noise(line),
        }
    }

    fn switch(&mut self, line: &Line<'_>) {
        let Some(switch) = lines::Switch::parse(line.payload) else {
            return;
        };
        self.seen.insert("sched_switch");
        let from = self.thread(switch.from.0, switch.from.1, Some(switch.from.2));
        let to = self.thread(switch.to.0, switch.to.1, Some(switch.to.2));
        let (from_state, preempted) = switch.state;
        let sleeps = from_state != 0 && !preempted;
        self.wakers
            .left(line.at_ns, line.cpu, switch.from.0, sleeps);
        self.wakers.switched(line.at_ns, line.cpu, &to);
        self.on_cpu.insert(line.cpu, to.clone());
        let kind = Kind::Switch {
            from,
            from_state,
            preempted,
            to,
        };
        self.push(line.at_ns, line.cpu, kind);
    }

    fn waking(&mut self, line: &Line<'_>) {
        let Some((tid, name, priority)) = lines::woken(line.payload) else {
            return;
        };
        // A recording often has both: the first one counts.
        let is_done = line.event != "sched_waking";
        if !is_done {
            self.seen.insert("sched_waking");
        } else if self.seen.contains("sched_waking") {
            // The first waking of a new thread has no beginning.
            if line.event == "sched_wakeup" {
                self.wakers.waking_done(tid);
            }
            return;
        } else {
            self.seen.insert("sched_wakeup");
        }
        let woken = self.thread(tid, name, Some(priority));
        self.wakers.woken(line.at_ns, line.cpu, &woken, is_done);
        let by = (line.tid != 0 && !line.in_interrupt)
            .then(|| self.tasks.get(&line.tid).cloned())
            .flatten();
        self.push(line.at_ns, line.cpu, Kind::Waking { tid, by });
    }

    fn expires(&mut self, line: &Line<'_>) {
        let (Some(timer), Some(now)) = (line.address("hrtimer"), line.number("now")) else {
            return;
        };
        self.seen.insert("hrtimer_expire_entry");
        let expires_ns = self.wakers.expired(line.at_ns, line.cpu, timer, now);
        let function = self.name(line.word("function").unwrap_or_default());
        let kind = Kind::TimerExpire {
            timer,
            function,
            expires_ns: expires_ns.unwrap_or(line.at_ns),
            of_probe: false,
        };
        self.push(line.at_ns, line.cpu, kind);
    }

    /// osnoise's own measurement: something ran from an instant on for so long.
    fn noise(&mut self, line: &Line<'_>) {
        let Some(noise) = lines::Noise::parse(line.payload) else {
            return;
        };
        let (cpu, from) = (line.cpu, noise.from_ns);
        let to = from.saturating_add(noise.ns);
        match line.event {
            "irq_noise" => {
                self.seen.insert("irq_noise");
                match lines::vector(&format!("{}_entry", noise.name)) {
                    Some((vector, _)) => {
                        let frames = self.frames.entry(cpu).or_default();
                        if noise.name == "local_timer" && frames.len() < FRAMES {
                            frames.push((from, to));
                        }
                        let kind = Kind::VectorEntry {
                            vector,
                            interrupted: None,
                        };
                        self.push(from, cpu, kind);
                        self.push(to, cpu, Kind::VectorExit { vector });
                    }
                    None => {
                        let (irq, name) = (noise.number, bounded(noise.name, NAME).to_owned());
                        self.push(from, cpu, Kind::HandlerEntry { irq, name });
                        self.push(to, cpu, Kind::HandlerExit { irq });
                    }
                }
            }
            "softirq_noise" => {
                self.seen.insert("softirq_noise");
                let number = noise.number;
                self.push(from, cpu, Kind::SoftirqEntry { number });
                self.push(to, cpu, Kind::SoftirqExit { number });
            }
            "thread_noise" => {
                self.seen.insert("thread_noise");
                let to = self.known(noise.number, noise.name);
                // The one that timerlat's interrupt found there has not come since.
                if self.on_cpu.get(&cpu).is_none_or(|on| on.tid != to.tid) {
                    self.switched_to(from, cpu, to);
                }
            }
            _ => {
                let duration_ns = noise.ns;
                self.push(to, cpu, Kind::Nmi { duration_ns });
            }
        }
    }

    /// timerlat's own thread waits for its next activation; what else leaves the CPU is preempted.
    fn switched_to(&mut self, at: u64, cpu: u32, to: Task) {
        let from = self.on_cpu.insert(cpu, to.clone());
        let from = from.unwrap_or_else(|| task(0, "swapper", None));
        let sleeps = from.tid == 0 || from.name.starts_with("timerlat");
        let kind = Kind::Switch {
            from,
            from_state: u64::from(sleeps),
            preempted: !sleeps,
            to,
        };
        self.push(at, cpu, kind);
    }

    /// `#123 context thread timer_latency 4567 ns`: the kernel's own measurement.
    fn timerlat(&mut self, line: &Line<'_>) {
        let Some(said) = lines::Timerlat::parse(line.rest) else {
            return;
        };
        self.seen.insert("timerlat");
        let (at, cpu) = (line.at_ns, line.cpu);
        let due = at.saturating_sub(said.ns);
        match said.context {
            TimerlatContext::Interrupt => {
                self.wakers.timerlat(cpu, said.number, said.ns);
                self.frames.remove(&cpu);
                // The line is of the thread that the interrupt found there, which ran before.
                let found = self.known(line.tid, line.name);
                let is_other = self.on_cpu.get(&cpu).is_none_or(|on| on.tid != found.tid);
                if is_other && !self.seen.contains("sched_switch") {
                    self.switched_to(due.saturating_sub(1), cpu, found);
                }
                return;
            }
            TimerlatContext::User if self.wakers.timerlat_returned(cpu, &said) => return,
            TimerlatContext::User | TimerlatContext::Thread => {}
        }
        let name = if line.name == "<...>" {
            format!("timerlat/{cpu}")
        } else {
            line.name.to_owned()
        };
        // rtla's default: SCHED_FIFO 95.
        let thread = task(line.tid, &name, Some(4));
        let irq = self.wakers.timerlat_thread(at, cpu, &said, &thread);
        if let Some(irq_ns) = irq {
            let function = self.name("timerlat_irq");
            let expires = Kind::TimerExpire {
                timer: 1,
                function,
                expires_ns: due,
                of_probe: true,
            };
            let woken = self.within_interrupt(cpu, due.saturating_add(irq_ns));
            self.push(woken, cpu, expires);
            let waking = Kind::Waking {
                tid: thread.tid,
                by: None,
            };
            self.push(woken, cpu, waking);
            self.push(woken, cpu, Kind::TimerDone { timer: 1 });
        }
        if !self.seen.contains("sched_switch") {
            self.switched_to(at, cpu, thread);
        }
    }

    /// An instant in the nearest of the timer's interrupts since timerlat's own: the times of lines are
    /// in µs.
    fn within_interrupt(&self, cpu: u32, at: u64) -> u64 {
        let frames = self.frames.get(&cpu).map_or(&[][..], Vec::as_slice);
        let away = |(from, to): &(u64, u64)| at.clamp(*from, *to).abs_diff(at);
        let nearest = frames.iter().min_by_key(|frame| away(frame));
        let near = nearest.filter(|frame| away(frame) <= ROUNDED_NS);
        near.map_or(at, |(from, to)| at.clamp(*from, *to))
    }

    /// A thread as it was last seen.
    fn known(&self, tid: u32, name: &str) -> Task {
        let known = self.tasks.get(&tid).filter(|_| tid != 0).cloned();
        known.unwrap_or_else(|| task(tid, name, None))
    }
}

/// A thread; without a stated priority it counts as an ordinary one.
fn task(tid: u32, name: &str, priority: Option<i32>) -> Task {
    let priority = priority.unwrap_or(120);
    // The policy is not stated: a real-time thread is taken as FIFO.
    let policy = match priority {
        ..=-1 => 6,
        0..=98 => 1,
        _ => 0,
    };
    Task {
        tid,
        name: if tid == 0 {
            "swapper".to_owned()
        } else {
            bounded(name, NAME).to_owned()
        },
        priority,
        policy,
    }
}

/// The beginning of a name, at most `most` bytes.
fn bounded(name: &str, most: usize) -> &str {
    &name[..name.floor_char_boundary(name.len().min(most))]
}
