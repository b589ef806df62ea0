//! Watches a program that runs already: its wake-ups come out of the kernel's rings, its
//! counts out of the kernel's maps. Nothing about it is changed.

mod compose;
mod followed;

use std::time::{Duration, Instant, SystemTime};

use punctual_rt::clock;
use punctual_rt::sys::task;
use punctual_stats::requirement::Requirement;

use super::blocks::Stretches;
use super::error::ConductError;
use super::explain::{Explaining, Feed, Wake, Wanted};
use super::gather::NICE;
use super::session::{Observer, PEAKS, SAVE_EVERY, TICK, WATCH_EVERY, not_explained, save};
use super::signals::Signals;
use crate::probe::collector::SampleSink as _;
use crate::probe::tally::{Halves, Tally};
use crate::record::{Event, Run, RunDirectory, State, time};
use crate::system::process::Process;
use crate::system::watch::{self, Watch};
use crate::system::{self, Root, SurveyRequest};
use crate::trace::capture::Place;
use crate::trace::watch::{Options, Sleeper, Watching};
use followed::Followed;

/// How often the kernel's rings are emptied.
const NAP: Duration = Duration::from_millis(50);
/// Wake-ups that each CPU's ring holds: more than a second of 10,000 a second.
const RING: usize = 1 << 14;
/// Threads whose wake-ups are kept apart; of others that there were is said.
const THREADS: usize = 256;

/// A watch that can be begun.
#[derive(Debug, Clone)]
pub struct WatchPlan {
    /// The command line as it was given.
    pub command: Vec<String>,
    /// What is watched.
    pub program: Process,
    /// Its threads of ordinary priority too.
    pub every: bool,
    /// Length of the watch in ns; absent: until it is interrupted, or the program ends.
    pub duration_ns: Option<u64>,
    /// What must hold.
    pub requirements: Vec<Requirement>,
    /// Level of confidence, in (0, 1).
    pub confidence: f64,
    /// Explain late wake-ups.
    pub explain: bool,
    /// Those later than this, in ns; absent for the deadline.
    pub explain_above_ns: Option<u64>,
}

impl WatchPlan {
    fn deadline_ns(&self) -> Option<u64> {
        self.requirements.first().map(Requirement::limit_ns)
    }
}

/// Watches until the end, and returns the record, judged and saved.
///
/// # Errors
/// When the watch could not be begun; what comes up later stands in the record.
pub fn watch(
    plan: &WatchPlan,
    directory: &RunDirectory,
    observer: &mut dyn Observer,
) -> Result<Run, ConductError> {
    let signals = Signals::listen().map_err(ConductError::Signals)?;
    let root = Root::live();
    observer.stage("looking at the machine");
    let cpus = system::online(&root);
    let request = SurveyRequest {
        probed_cpus: cpus.clone(),
        priority: 0,
    };
    let started = time::rfc3339(SystemTime::now());
    let mut run = compose::begun(plan, &cpus, started, system::survey(&root, &request));
    observer.stage("setting up tracing");
    // Its programs are to see each event before ours, so that what ends a wake-up is in its
    // window.
    let (explaining, feed) = explain(plan, &cpus, &mut run).unzip();
    let options = Options {
        pid: plan.program.pid,
        every: plan.every,
        ring: RING,
    };
    let watching = Watching::start(&options).map_err(ConductError::Watch)?;
    save(directory, &run)?;
    // A wish: what is overwritten before it is read is counted.
    let _ = task::set_nice(NICE);
    let probed = cpus.iter().map(|&cpu| watch::Probe { cpu, tid: 0 });
    let conditions = Watch::start(&root, &probed.collect::<Vec<_>>());
    let mut session = Session {
        plan,
        directory,
        observer,
        run,
        root,
        start_ns: clock::now_ns(),
        watching,
        threads: Vec::new(),
        beyond: Vec::new(),
        stretches: Stretches::new(),
        conditions,
        explaining,
        feed,
        signals,
        ended: false,
        save_failed: false,
    };
    let state = session.go();
    Ok(session.close(state))
}

/// Begins to record what happens around wake-ups, where that was asked for.
fn explain(plan: &WatchPlan, cpus: &[usize], run: &mut Run) -> Option<(Explaining, Feed)> {
    if !plan.explain {
        return None;
    }
    let wanted = Wanted {
        cpus: cpus.to_vec(),
        threads: Vec::new(),
        above_ns: plan.explain_above_ns.or(plan.deadline_ns()),
        housekeeping: None,
    };
    match Explaining::begin(&wanted) {
        Ok(begun) => Some(begun),
        Err(why) => {
            run.events.push(not_explained(&why));
            None
        }
    }
}

/// A watch under way.
struct Session<'a> {
    plan: &'a WatchPlan,
    directory: &'a RunDirectory,
    observer: &'a mut dyn Observer,
    run: Run,
    root: Root,
    start_ns: u64,
    watching: Watching,
    threads: Vec<Followed>,
    /// Threads that there was no room for: by number and beginning.
    beyond: Vec<(u32, u64)>,
    stretches: Stretches,
    conditions: Watch,
    explaining: Option<Explaining>,
    feed: Option<Feed>,
    signals: Signals,
    /// Whether the program is no more.
    ended: bool,
    save_failed: bool,
}

impl Session<'_> {
    /// Waits for the end, whatever brings it, and keeps the record meanwhile.
    fn go(&mut self) -> State {
        let begin = Instant::now();
        let (mut next_tick, mut next_look, mut next_save) =
            (begin, begin + WATCH_EVERY, begin + SAVE_EVERY);
        loop {
            self.collect();
            if let Some(reason) = self.signals.end() {
                return State::Stopped {
                    reason: reason.to_owned(),
                };
            }
            let elapsed_ns = self.elapsed_ns();
            if self.plan.duration_ns.is_some_and(|length| elapsed_ns >= length) {
                return State::Finished;
            }
            let now = Instant::now();
            if now >= next_tick {
                next_tick = now + TICK;
                self.count();
                self.stretches.look_at(self.threads.iter().map(|thread| &thread.tally), elapsed_ns);
                if self.observer.looks() {
                    let view = compose::view(self.plan, &self.threads, elapsed_ns, &self.run);
                    self.observer.watched(&view);
                }
                if !self.plan.program.runs(&self.root) {
                    self.ended = true;
                    let text = format!("the program {} ended", self.plan.program.name);
                    self.event("program-ended", text);
                    return State::Finished;
                }
            }
            if now >= next_look {
                next_look = now + WATCH_EVERY;
                let events = self.conditions.poll(elapsed_ns);
                self.run.events.extend(events);
            }
            if now >= next_save {
                next_save = now + SAVE_EVERY;
                self.save_under_way();
            }
            std::thread::sleep(NAP.min(self.until_end()));
        }
    }

    fn elapsed_ns(&self) -> u64 {
        clock::now_ns().saturating_sub(self.start_ns)
    }

    fn until_end(&self) -> Duration {
        let left = self.plan.duration_ns.map_or(u64::MAX, |length_ns| {
            length_ns.saturating_sub(self.elapsed_ns())
        });
        Duration::from_nanos(left).max(Duration::from_millis(1))
    }

    fn event(&mut self, kind: &str, text: String) {
        let at_ns = self.elapsed_ns();
        self.run.events.push(Event {
            at_ns,
            kind: kind.to_owned(),
            text,
            invalidates: false,
        });
    }

    /// Takes the wake-ups that have come.
    fn collect(&mut self) {
        let wakes = self.watching.drain();
        if wakes.is_empty() {
            return;
        }
        let known = |threads: &[Followed], tid| threads.iter().any(|it| it.is(tid));
        if wakes.iter().any(|wake| !known(&self.threads, wake.tid)) {
            self.count();
        }
        for wake in &wakes {
            let Some(thread) = self.threads.iter_mut().find(|it| it.is(wake.tid)) else {
                continue;
            };
            let measured = thread.take(wake);
            if let Some(feed) = self.feed.as_mut().filter(|_| measured) {
                feed.push(Wake {
                    tid: wake.tid,
                    at: Place {
                        waking: wake.waking_cpu,
                        running: wake.cpu,
                    },
                    due_ns: wake.from_ns(),
                    woken_ns: wake.end_ns,
                    at_switch: true,
                });
            }
        }
        if let Some(feed) = &mut self.feed {
            feed.collected();
        }
        for thread in &mut self.threads {
            thread.settle(false);
        }
    }

    /// Reads the kernel's counts.
    fn count(&mut self) {
        for sleeper in self.watching.threads() {
            let same = |it: &&mut Followed| it.is(sleeper.task.tid) && it.sleeper.started_ns == sleeper.started_ns;
            if let Some(thread) = self.threads.iter_mut().find(same) {
                thread.sleeper = sleeper;
            } else {
                self.meet(sleeper);
            }
        }
        for (tid, call) in self.watching.calls() {
            if let Some(thread) = self.threads.iter_mut().find(|it| it.is(tid)) {
                match thread.calls.iter_mut().find(|known| known.call == call.call) {
                    Some(known) => *known = call,
                    None => thread.calls.push(call),
                }
            }
        }
        // Who has ended counts no more, and makes room once its last wake-ups have come.
        for thread in &mut self.threads {
            if thread.sleeper.ended && !thread.gone && thread.lost() == 0 {
                thread.gone = true;
                self.watching.forget(thread.sleeper.task.tid);
            }
        }
    }

    fn meet(&mut self, sleeper: Sleeper) {
        if self.threads.len() >= THREADS {
            let one = (sleeper.task.tid, sleeper.started_ns);
            if self.beyond.len() < 1 << 16 && !self.beyond.contains(&one) {
                self.beyond.push(one);
            }
            if sleeper.ended {
                self.watching.forget(one.0);
            }
            return;
        }
        let halves = match self.plan.duration_ns {
            Some(length_ns) => Halves::At((length_ns / 2).max(1)),
            None => Halves::Doubling(1_000_000_000),
        };
        let deadline_ns = self.plan.deadline_ns().unwrap_or(u64::MAX);
        let tally = Tally::new(self.start_ns, deadline_ns, halves, PEAKS / 16);
        self.threads.push(Followed::new(sleeper, tally));
    }

    /// Saves what there is so far; a disk that is full for a while does not end the watch,
    /// but stands in the record.
    fn save_under_way(&mut self) {
        self.compose();
        match self.save_all() {
            Ok(()) => {
                self.save_failed = false;
                self.observer.saved(&self.run, self.directory);
            }
            Err(why) => {
                if !self.save_failed {
                    self.event("save-failed", why);
                }
                self.save_failed = true;
            }
        }
    }

    fn save_all(&self) -> Result<(), String> {
        let windows = self.explaining.as_ref().map(|it| it.save(self.directory));
        windows
            .unwrap_or(Ok(()))
            .and(self.directory.save(&self.run))
            .map_err(|error| error.to_string())
    }

    fn compose(&mut self) {
        let elapsed_ns = self.elapsed_ns();
        compose::fill(&mut self.run, self.start_ns, elapsed_ns, &self.threads);
        compose::fill_watch(&mut self.run, self.plan, &self.threads, self.beyond.len(), self.ended);
        self.run.blocks = self.stretches.blocks();
        if let Some(explaining) = &self.explaining {
            self.run.explanation = Some(explaining.explanation());
            self.run.own_cost.tracer = Some(explaining.cost());
        }
    }

    /// Ends everything in order, judges, and saves.
    fn close(mut self, state: State) -> Run {
        if let State::Stopped { reason } = &state {
            self.event("signal", format!("ended by a signal ({reason})"));
        }
        self.observer.stage("ending the watch");
        // Counted first: of what was counted by now, every wake-up must come.
        self.count();
        let counted: Vec<u64> = self.threads.iter().map(|it| it.sleeper.wake_ups).collect();
        self.collect();
        self.collect();
        for (thread, counted) in self.threads.iter_mut().zip(counted) {
            thread.sleeper.wake_ups = counted;
            thread.settle(true);
        }
        self.feed = None;
        if let Some(explaining) = &mut self.explaining {
            explaining.end();
        }
        let elapsed_ns = self.elapsed_ns();
        let events = self.conditions.poll(elapsed_ns);
        self.run.events.extend(events);
        if let Some(stolen) = self.conditions.stolen() {
            self.run.system.virtualisation.stolen_ns = Some(stolen.total_ns);
            self.run.system.virtualisation.stolen_share = Some(stolen.share);
        }
        self.compose();
        self.run.demands = compose::demands(self.plan, &self.run);
        self.run.state = state;
        self.observer.stage("analysing");
        super::compose::judge(&mut self.run);
        if let Err(why) = self.save_all() {
            self.event("save-failed", why);
        }
        self.observer.saved(&self.run, self.directory);
        self.run
    }
}
