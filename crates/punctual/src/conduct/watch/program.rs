//! The threads of one or several programs: wake-ups from the kernel's rings, counts from its maps.

use std::collections::BTreeMap;
use std::time::Duration;

use super::followed::Followed;
use super::marks::Marks;
use super::members::Members;
use super::off_cpu::Aways;
use super::paced::Served;
use super::queues::{Apart, Queues};
use super::runtime::RuntimeWatch;
use super::stopped::ProgramStops;
use super::{Breached, Length, Scope, Target, Watched, compose};
use crate::conduct::blocks::Stretches;
use crate::conduct::compose::{PEAKS, leave_out_stopped_seconds, stop_event};
use crate::conduct::error::ConductError;
use crate::conduct::explain::{Explaining, Feed, Wake};
use crate::probe::collector::SampleSink as _;
use crate::probe::tally::{Halves, Tally};
use crate::probe::timeline;
use crate::system::dma_latency;
use punctual_machine::Root;
use punctual_machine::survey::thread::last_cpu;
use punctual_record::event::{Gone, Halted};
use punctual_record::invalid::has_measured;
use punctual_record::live::{LiveSubject, LiveWatch, Note, RowsAre};
use punctual_record::watch::{Watch, WatchedThread};
use punctual_record::{
    Condition, Demand, Event, Fix, Happening, RecordError, Run, RunDirectory, StopCause, condition,
};
use punctual_trace::attribute::event::Window;
use punctual_trace::capture::WakeUpPlace;
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::watch::marks::{Mark, MarkPass};
use punctual_trace::watch::{ActiveWatch, Options, ProgramEvent, Sleeper, Timer};

/// Wake-ups that each CPU's ring holds: more than one second of 10,000 per second.
const RING: usize = 1 << 14;
/// Threads whose wake-ups are kept separately; the existence of others is noted.
const THREADS: usize = 256;
/// Timers of which it is kept who served them last.
const TIMERS: usize = 1 << 14;
/// Further threads that are counted.
const BEYOND: usize = 1 << 16;

pub(super) struct Program<'a> {
    length: Length,
    /// Also threads without real-time priority.
    every: bool,
    target: &'a Target,
    members: Members<'a>,
    root: Root,
    watching: ActiveWatch,
    /// The IDs of the program's threads, in a container.
    numbers: Numbers,
    threads: Vec<Followed>,
    stops: ProgramStops,
    served: BTreeMap<u32, Served>,
    /// Threads for which there was no room: by ID and start.
    beyond: Vec<(u32, u64)>,
    stretches: Stretches,
    marks: Option<Marks<'a>>,
    runtime: Option<RuntimeWatch>,
    explaining: Option<Explaining>,
    feed: Option<Feed>,
    breach: Option<Breached>,
    aways: Option<Aways>,
    queues: Option<Queues>,
    start_ns: u64,
}

impl<'a> Program<'a> {
    /// Starts to count its wake-ups; each of its `marks` may have a limit, and tracing has already
    /// started. An event says what is not available.
    pub(super) fn begin(
        target: &'a Target,
        scope: Scope,
        length: Length,
        (marks, limits): (&'a [Mark], &'a [Option<u64>]),
        runtime: Option<RuntimeWatch>,
        explaining: Option<(Explaining, Feed)>,
        events: &mut Vec<Event>,
    ) -> Result<Self, ConductError> {
        let (explaining, feed) = explaining.unzip();
        let mut numbers = Numbers::of_proc().map_err(ConductError::Watch)?;
        let mut members = Members::new(target);
        let options = Options {
            programs: members.programs(&numbers),
            every: scope.every,
            off_cpu: scope.off_cpu,
            run_queue: scope.run_queue,
            ring: RING,
        };
        let mut watching = ActiveWatch::start(&options).map_err(ConductError::Watch)?;
        members.begin(&mut watching, &mut numbers);
        let marked = target.program();
        let numbers_of = |pid| (pid, numbers.kernels(pid));
        let marks = marked
            .and_then(|it| Marks::begin(marks, limits, numbers_of(it.pid), scope.every, events));
        let start_ns = punctual_rt::clock::now_ns();
        let symbols = explaining.as_ref().map(Explaining::symbols);
        let aways = scope
            .off_cpu
            .then(|| Aways::new(symbols, watching.away_frames(), events));
        Ok(Self {
            length,
            every: scope.every,
            target,
            members,
            root: Root::live(),
            watching,
            numbers,
            marks,
            runtime,
            threads: Vec::new(),
            served: BTreeMap::new(),
            beyond: Vec::new(),
            stretches: Stretches::new(),
            explaining,
            feed,
            breach: None,
            aways,
            queues: scope.run_queue.then(|| Queues::new(Apart::Threads)),
            stops: ProgramStops::new(start_ns),
            start_ns,
        })
    }

    /// Whether the program limits idle states itself: it may start to at any time; once seen, this
    /// stays true.
    fn look_at_idle_states(&self, run: &mut Run) {
        let known = &mut run.system.power.cpu_dma_latency_watched;
        if known.as_ref().is_some_and(|known| known.open) {
            return;
        }
        let program = self.target.program();
        if let Some(found) = program.and_then(|it| dma_latency::watched(&self.root, it.pid)) {
            *known = Some(found);
        }
    }

    fn meet(&mut self, sleeper: Sleeper) {
        let full = self.threads.len() >= THREADS;
        let mut ended = self.threads.iter();
        let ended = match full {
            true => ended.position(|it| it.makes_room_for(&sleeper)),
            false => None,
        };
        if full && ended.is_none() {
            let one = (sleeper.task.tid, sleeper.started_ns);
            if self.beyond.len() < BEYOND && !self.beyond.contains(&one) {
                self.beyond.push(one);
            }
            if sleeper.has_ended() {
                self.watching.forget(one.0);
            }
            return;
        }
        let tid = sleeper.task.tid;
        self.numbers.add_thread(tid);
        let in_proc = || last_cpu(&self.root, self.numbers.in_proc(tid)?);
        // Without a CPU it has not run yet: it is added after it has run.
        let Some(met_on) = sleeper.cpu.or_else(in_proc) else {
            return;
        };
        if let Some(at) = ended {
            self.continue_row(at, sleeper, met_on);
            return;
        }
        let halves = match self.length.duration_ns {
            Some(length_ns) => Halves::At((length_ns / 2).max(1)),
            None => Halves::Doubling(1_000_000_000),
        };
        let deadline_ns = self.length.deadline_ns.unwrap_or(u64::MAX);
        let tally = Tally::new(self.start_ns, deadline_ns, halves, PEAKS / 16);
        let limits = self.length.limits.clone();
        self.threads
            .push(Followed::new(sleeper, met_on, tally, limits));
    }

    /// A thread gets the row of one that has ended: the next one gets another.
    fn continue_row(&mut self, at: usize, sleeper: Sleeper, met_on: u32) {
        let mut ended = self.threads.remove(at);
        ended.end(u64::MAX);
        let watched = self.watched_of(&ended);
        self.threads
            .insert(at, ended.succeed(watched, sleeper, met_on));
    }

    /// A thread came for a timer: if several do in turn, none of them skips what the others take.
    fn serves(&mut self, place: usize, timer: u32, wake: &punctual_trace::watch::Wake) {
        if self.served.len() >= TIMERS {
            self.count_left(wake.end_ns, false);
        }
        let limit_ns = self.length.limits.strictest_ns();
        let served = self
            .served
            .entry(timer)
            .or_insert_with(|| Served::by(place));
        served.instants.add_wake_up(wake, limit_ns, self.start_ns);
        if served.place == place {
            return;
        }
        served.turns += 1;
        // Once may be a new timer in the memory of an old one.
        if served.is_shared() {
            self.threads[served.place].share(timer);
            self.threads[place].share(timer);
        }
        served.place = place;
    }

    /// What nobody took of a timer that several threads serve, until then or the end of the last of them, may have been
    /// late.
    fn count_left(&mut self, at_ns: u64, is_end: bool) {
        for (timer, served) in std::mem::take(&mut self.served) {
            if served.is_shared() {
                let serve = self.threads.iter().filter(|it| it.shares(timer));
                let over_ns = serve.filter_map(|it| it.over_ns(at_ns)).max();
                let last = &mut self.threads[served.place];
                last.count_left(&served.instants, over_ns.unwrap_or(0), is_end);
            }
        }
    }

    fn watched_of(&self, thread: &Followed) -> WatchedThread {
        let program = self
            .members
            .program_of(thread.sleeper.program, &self.numbers);
        compose::watched(thread, program, &self.numbers)
    }

    /// Puts the stops into the record; a stop that has not ended lasts until now.
    fn put_stops(&self, run: &mut Run, elapsed_ns: u64) {
        let mut all = self.stops.clone();
        let now_ns = self.start_ns.saturating_add(elapsed_ns);
        let alive = self.threads.iter().filter(|it| !it.gone);
        for sleeper in alive.map(|it| &it.sleeper) {
            if let Some((from_ns, cause)) = sleeper.stopped {
                all.add(sleeper.task.tid, (from_ns, now_ns), cause);
            }
        }
        let mut stops = all.stops();
        stops.cycles = self.threads.iter().map(|it| it.stops.cycles).sum();
        // A stop may have become longer since.
        run.events
            .retain(|event| !matches!(event.what, Happening::Stopped { .. }));
        for stop in &mut stops.list {
            let who = match (stop.tid, stop.cause) {
                (Some(tid), _) => {
                    let of = |it: &&Followed| it.sleeper.task.tid == tid;
                    let name = self.threads.iter().rfind(of);
                    let name = name.map_or("", |it| &*it.sleeper.task.name);
                    let tid = self.numbers.visible_number(tid);
                    stop.tid = Some(tid);
                    Halted::Thread {
                        name: name.to_owned(),
                        tid,
                    }
                }
                (None, cause) => {
                    let program = self.target.name().to_owned();
                    match cause {
                        StopCause::Signal => Halted::Program { program },
                        _ => Halted::Threads { program },
                    }
                }
            };
            run.events.push(stop_event(stop, who));
        }
        run.stops = (stops.count > 0).then_some(stops);
        leave_out_stopped_seconds(run);
    }

    /// Finds which programs have started, left and ended.
    fn look_who_is_there(&mut self) {
        let tasks = || self.threads.iter().rev().map(|it| &it.sleeper.task);
        let named = |tid| tasks().find(|it| it.tid == tid).map(|it| it.name.clone());
        self.members
            .look(&mut self.watching, &mut self.numbers, named);
    }

    /// Adds the pauses among the passes of marks; ticks that they made late are explained.
    fn follow_runtime(&mut self, passes: &[MarkPass], end: bool) {
        let Some(runtime) = &mut self.runtime else {
            return;
        };
        runtime.add_passes(passes);
        let ticks = runtime.settle(punctual_rt::clock::now_ns(), end);
        if let Some(feed) = &mut self.feed {
            ticks.into_iter().for_each(|tick| feed.push_tick(tick));
        }
    }

    fn read_counts(&mut self) {
        for sleeper in self.watching.threads() {
            let (tid, started_ns) = (sleeper.task.tid, sleeper.started_ns);
            let same = |it: &&mut Followed| it.is(tid) && it.sleeper.started_ns == started_ns;
            match self.threads.iter_mut().find(same) {
                Some(thread) => thread.sleeper = sleeper,
                None => self.meet(sleeper),
            }
        }
        for (tid, call) in self.watching.calls() {
            let Some(thread) = self.threads.iter_mut().find(|it| it.is(tid)) else {
                continue;
            };
            match thread
                .calls
                .iter_mut()
                .find(|known| known.call == call.call)
            {
                Some(known) => *known = call,
                None => thread.calls.push(call),
            }
        }
        if let Some(aways) = &mut self.aways {
            aways.look(&self.watching, &self.threads, &self.numbers);
        }
        if let Some(queues) = &mut self.queues {
            queues.look(self.watching.run_queues());
        }
        // A thread that has ended makes room after its last wake-ups have arrived.
        for thread in &mut self.threads {
            if thread.sleeper.has_ended() && !thread.gone && thread.has_arrived() {
                thread.gone = true;
                self.watching.forget(thread.sleeper.task.tid);
            }
        }
        if let Some(marks) = &mut self.marks {
            let gone = self.threads.iter().filter(|it| it.gone);
            let gone = gone.map(|it| (it.sleeper.task.tid, it.sleeper.started_ns));
            marks.forget(&gone.collect());
        }
    }

    /// Takes what the rings have.
    fn drain(&mut self) {
        let happened = self.watching.drain();
        let known = |tid| self.threads.iter().any(|it| it.is(tid));
        if happened.iter().any(|it| !known(it.tid())) {
            self.read_counts();
        }
        for happened in &happened {
            let place = self.threads.iter().position(|it| it.is(happened.tid()));
            let Some(place) = place else {
                continue;
            };
            let thread = &mut self.threads[place];
            let wake = match happened {
                ProgramEvent::Woke(wake) => wake,
                ProgramEvent::JobEnded(job) => {
                    thread.add_job(job);
                    continue;
                }
                ProgramEvent::Stopped(stop) => {
                    thread.add_stop(stop);
                    let bounds = (stop.from_ns, stop.to_ns);
                    self.stops.add(stop.tid, bounds, stop.cause);
                    continue;
                }
                ProgramEvent::Repeats(timer) => {
                    thread.add_interval(timer);
                    continue;
                }
            };
            if let Timer::Object(timer) = wake.timer
                && wake.due_ns.is_some()
                && !wake.unsure
            {
                self.serves(place, timer, wake);
            }
            let thread = &mut self.threads[place];
            let sample = thread.add_wake_up(wake);
            if wake.next_ns.is_some() && sample.is_none() {
                continue;
            }
            if let Some(runtime) = &mut self.runtime {
                runtime.add_wake_up((place, thread), wake, sample.map(|it| it.requested_ns));
            }
            let Some(sample) = sample else {
                continue;
            };
            let (from_ns, latency_ns) = (sample.requested_ns, sample.latency_ns());
            if self.breach.is_none() && self.length.break_ns.is_some_and(|it| latency_ns > it) {
                self.breach = Some(Breached {
                    task: thread.sleeper.task.clone(),
                    cpu: wake.cpu,
                    from_ns,
                    woken_ns: sample.woke_ns(),
                });
            }
            // What it came back for by itself has no wake-up to explain.
            let feed = self.feed.as_mut().filter(|_| wake.next_ns.is_none());
            if let Some(feed) = feed {
                feed.push(Wake {
                    tid: wake.tid,
                    at: WakeUpPlace {
                        waking: wake.waking_cpu,
                        running: wake.cpu,
                    },
                    waiting_ns: wake.left_ns.filter(|_| wake.due_ns.is_none()),
                    due_ns: from_ns,
                    woken_ns: wake.end_ns,
                    slept_in: (wake.slept && wake.due_ns.is_none()).then_some(wake.call),
                    at_switch: true,
                });
            }
        }
        let passes = self.marks.as_mut().map(Marks::collect);
        self.follow_runtime(&passes.unwrap_or_default(), false);
        if let Some(feed) = &mut self.feed {
            feed.collected();
        }
    }
}

impl Watched for Program<'_> {
    const NAP: Duration = Duration::from_millis(50);

    fn start_ns(&self) -> u64 {
        self.start_ns
    }

    fn collect(&mut self, _: u64) {
        // Not what is written after that, until the counts are read.
        self.threads.iter_mut().for_each(Followed::await_written);
        self.drain();
    }

    fn count(&mut self, elapsed_ns: u64) {
        self.read_counts();
        self.look_who_is_there();
        if let Some(marks) = &mut self.marks {
            marks.count();
        }
        let tallies = self.threads.iter().map(|thread| &thread.tally);
        self.stretches.look_at(tallies, elapsed_ns);
    }

    fn is_over(&self) -> Option<Gone> {
        self.members.is_over()
    }

    fn view(&self, run: &Run, elapsed_ns: u64) -> LiveWatch {
        let mut notes = Vec::new();
        if self.threads.is_empty() {
            notes.push(Note::NothingRan { every: self.every });
        }
        notes.extend(run.events.last().cloned().map(Note::Happened));
        LiveWatch {
            subject: match self.target.program() {
                Some(process) => LiveSubject::Program {
                    name: process.name.clone(),
                    pid: process.pid,
                },
                None => LiveSubject::Several {
                    name: self.target.name().to_owned(),
                },
            },
            elapsed_ns,
            total_ns: self.length.duration_ns,
            deadline_ns: self.length.deadline_ns,
            rows_are: RowsAre::Threads,
            rows: self
                .threads
                .iter()
                .map(|it| compose::row(it, &self.numbers))
                .collect(),
            marks: self.marks.as_ref().map_or_else(Vec::new, Marks::live),
            notes,
        }
    }

    fn compose(&mut self, run: &mut Run, elapsed_ns: u64) {
        self.members.look_beside(self.every);
        let (children, ordinary) = self.members.beside();
        let threads = &self.threads;
        // Of a program that a signal ends, each thread ends by it.
        let killed_by = |program: Option<u32>| {
            let of = threads.iter().map(|it| &it.sleeper);
            let mut of = of.filter(|it| program.is_none_or(|program| program == it.program));
            of.find_map(|it| it.killed_by)
        };
        run.threads = threads
            .iter()
            .map(|it| compose::thread(self.start_ns, it, &self.numbers))
            .collect();
        run.timeline = timeline::merged(threads.iter().map(|it| it.tally.rows()), elapsed_ns);
        self.look_at_idle_states(run);
        run.watch = Some(Watch {
            subject: (self.members).subject(self.every, self.watching.refused(), killed_by),
            children,
            ordinary,
            threads: threads.iter().map(|it| self.watched_of(it)).collect(),
            beyond: self.beyond.len() as u64,
            unfollowed: self.watching.unfollowed(),
            worst: Vec::new(),
            waiting: Vec::new(),
            reading_ns: 0,
            cost: None,
            off_cpu: self.aways.as_ref().map(|it| it.to_record(&self.threads)),
            run_queue: self.queues.as_ref().map(|it| it.to_record(&self.numbers)),
            breach: self
                .breach
                .as_ref()
                .map(|it| compose::breach(it, &self.numbers)),
            marks: self
                .marks
                .as_ref()
                .map_or_else(Vec::new, |marks| marks.compose(&self.numbers)),
            runtime: self
                .runtime
                .as_ref()
                .map(|it| it.compose(threads, self.explaining.as_ref(), &self.numbers)),
        });
        self.put_stops(run, elapsed_ns);
        run.blocks = self.stretches.blocks();
        if let Some(explaining) = &self.explaining {
            explaining.put_into(run);
        }
    }

    fn save_beside(&self, directory: &RunDirectory) -> Result<(), RecordError> {
        let windows = self.explaining.as_ref().map(|it| it.save(directory));
        windows.unwrap_or(Ok(()))
    }

    fn finish(&mut self, elapsed_ns: u64) {
        let end_ns = self.start_ns.saturating_add(elapsed_ns);
        // Counts first: every wake-up counted so far must arrive.
        self.read_counts();
        self.collect(elapsed_ns);
        // Wake-ups that came while the rings were emptied are read the next time.
        self.drain();
        self.look_who_is_there();
        for thread in &mut self.threads {
            // One that has left is followed no longer, and may have run.
            let program = thread.sleeper.program;
            if self.members.has_left(program) {
                thread.leave(self.watching.departed_ns(program));
            }
        }
        let passes = self.marks.as_mut().map(Marks::finish);
        self.follow_runtime(&passes.unwrap_or_default(), true);
        if let Some(feed) = &mut self.feed {
            feed.collected();
        }
        self.count_left(end_ns, true);
        for thread in &mut self.threads {
            thread.end(end_ns);
        }
        self.feed = None;
        if let Some(explaining) = &mut self.explaining {
            explaining.end();
        }
    }

    fn breach(&self) -> Option<&Breached> {
        self.breach.as_ref()
    }

    fn ring(&self) -> Option<Window> {
        let (explaining, late) = (self.explaining.as_ref()?, self.breach.as_ref()?);
        let tid = i32::try_from(late.task.tid).ok()?;
        Some(explaining.ring(tid, late.cpu as usize, late.from_ns, late.woken_ns))
    }

    fn demand(&self, run: &Run) -> Demand {
        let woken = run.threads.iter().filter(|it| it.latency.count > 0).count();
        let target = match self.target {
            Target::Program { process, children } => condition::Target::Program {
                program: process.name.clone(),
                pid: process.pid,
                children: *children,
            },
            Target::Named(name) => condition::Target::Named {
                program: name.to_string(),
            },
            Target::Group { group, .. } => condition::Target::Group {
                directory: group.directory.clone(),
            },
        };
        let condition = Condition::Watched {
            target,
            every: self.every,
            seen: run.threads.len() as u64,
            woken: woken as u64,
        };
        let children = run.watch.as_ref().map_or(0, |watch| watch.children);
        Demand::requested(condition, has_measured(run), || match children {
            1.. => Fix::WatchChildren,
            0 if self.every => Fix::WatchLonger,
            0 => Fix::WatchOrdinary,
        })
    }
}
