//! Measures the path to another machine, step by step; and answers as its other end.

mod clocks;
mod compose;
mod delays;
mod joining;
mod launch;
mod plan;
mod respond;
mod sessions;
mod threads;
mod tracing;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use punctual_network::bill::Context;
use punctual_network::sender::connect::{Control, Session, resolve};
use punctual_network::sender::join::{Joiner, Rules};
use punctual_network::sender::{Ended, rings};
use punctual_network::wire::PORT;
use punctual_network::wire::session::Request;
use punctual_rt::clock;
use punctual_rt::ring::try_ring;

use super::blocks::Stretches;
use super::compose::{PEAKS, empty, stop_event};
use super::error::ConductError;
use super::experiment::Experimenting;
use super::keeping::{Keeping, save};
use super::observer::{Observed, Observer};
use super::run::Companion;
use super::run::gather::Gathering;
use super::run::in_force::{self, Held};
use super::run::pace::Pace;
use super::run::setup;
use super::run::stops::StopDetector;
use super::signals::Signals;
use super::under_way::{Measured, UnderWay};
use crate::probe::collector::{Collector, Lane};
use crate::probe::tally::{Halves, Tally};
use crate::system::monitor::{Monitor, Monitored};
use joining::Joining;
pub use plan::PathPlan;
use punctual_load::LoadSet;
use punctual_machine::Root;
use punctual_machine::survey::{self, SurveyRequest};
use punctual_record::event::{Halted, PeerGone};
use punctual_record::live::Step;
use punctual_record::path::{LaunchTimes, PathCounts, PathRun, Peer, Stamps, Transport};
use punctual_record::{Ending, Event, Happening, RecordError, Run, RunDirectory, State, time};
use punctual_trace::attribute::event::Window;
pub use respond::{Responding, notice_of, respond};
use sessions::{Left, Live, Sessions};
use threads::Threads;
use tracing::Tracing;

/// How often the end of the measurement is checked.
const NAP: Duration = Duration::from_millis(100);
/// Fates that may wait for the collector.
const WAITING: usize = 1 << 18;
/// How long the responder may take to report: a link that was down comes back.
const REPORT_WITHIN: Duration = Duration::from_secs(10);

/// Measures a path until the end, and returns the record, judged and saved.
///
/// # Errors
/// The measurement could not start; later problems are in the record.
pub fn measure(
    plan: &PathPlan,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
) -> Result<Run, ConductError> {
    measure_with(plan, directory, progress, None)
}

/// [`measure`], while an experiment switches settings: each block is a session of its own.
///
/// # Errors
/// As [`measure`].
pub(super) fn measure_with(
    plan: &PathPlan,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
    experiment: Option<Experimenting>,
) -> Result<Run, ConductError> {
    let signals = Signals::listen().map_err(ConductError::Signals)?;
    let root = Root::live();
    progress.observe(Observed::Step(&Step::ReadSettings));
    let run = survey(plan, &root);
    progress.observe(Observed::Step(&Step::Connect {
        host: plan.host.clone(),
    }));
    let (session, launch) = connect(plan)?;
    let path = path_of(plan, &session, launch);
    let outputs = (progress, signals);
    let begun = (run, path, session, experiment);
    start(plan, directory, &root, begun, outputs)
}

/// A record of the machine, before anything runs.
fn survey(plan: &PathPlan, root: &Root) -> Run {
    let request = SurveyRequest {
        probed_cpus: plan.probed_cpus(),
        priority: plan.policy.priority(),
    };
    let started = time::rfc3339(SystemTime::now());
    let machine = survey::survey(root, &request);
    let command = plan.command.clone();
    Run {
        placement: Some(plan.placement.clone()),
        ..empty(&plan.verb, command, plan.request(), started, machine)
    }
}

/// Agrees on a session with the responder, and says what gives its messages launch times, if they have
/// any.
fn connect(plan: &PathPlan) -> Result<(Session, Option<LaunchTimes>), ConductError> {
    let addresses = resolve(&plan.host, PORT).map_err(ConductError::Connect)?;
    let control = Control::open(&addresses, &plan.token, env!("CARGO_PKG_VERSION"));
    let control = control.map_err(ConductError::Connect)?;
    let to = control.peer().ip().to_canonical();
    let launch = plan.lead_ns.map(|lead_ns| launch::to(to, lead_ns));
    let launch = launch.transpose()?;
    let request = Request {
        transport: plan.transport,
        sizes: plan.sizes.clone(),
        burst: plan.burst,
        interval_ns: plan.interval.shortest_ns(),
        duration_ns: plan.duration_ns,
        stamps: plan.stamps,
        port: 0,
        ethernet: [0; 6],
    };
    let mut session = control.agree(request).map_err(ConductError::Connect)?;
    if let Some(launch) = &launch {
        let begun = session.launch_by(launch::of(launch));
        begun.map_err(ConductError::Connect)?;
    }
    Ok((session, launch))
}

/// What the record says of a session before any message.
fn path_of(plan: &PathPlan, session: &Session, launch: Option<LaunchTimes>) -> PathRun {
    let ready = &session.ready;
    PathRun {
        transport: plan.transport,
        peer: Peer {
            address: session.control.peer().to_string(),
            hostname: punctual_record::text::shortened(&ready.hostname, 64),
            version: session.control.version.clone(),
            kernel: punctual_record::text::shortened(&ready.kernel, 64),
            conditions: ready.conditions.clone(),
            clock: ready.clock.clone(),
        },
        sizes: plan.sizes.clone(),
        burst: plan.burst,
        timeout_ns: plan.timeout_ns,
        launch,
        counts: PathCounts::default(),
        stamps: Stamps {
            rx_software: session.rx_stamps,
            tx_software: session.line.tx_stamps,
            hardware: false,
        },
        clock: clocks::state(&Root::live()),
        send_lateness: None,
        responder: None,
        one_way: None,
        bills: None,
    }
}

/// By what messages are judged.
fn rules(plan: &PathPlan, path: &PathRun, session: &Session) -> Rules {
    let both_known = path.clock.is_known() && path.peer.clock.is_known();
    let error_ns = path
        .clock
        .max_error_ns
        .saturating_add(path.peer.clock.max_error_ns);
    Rules {
        timeout_ns: (plan.transport != Transport::Tcp).then_some(plan.timeout_ns),
        late_ns: plan.late_ns.unwrap_or(u64::MAX),
        peer_clock: both_known.then_some((session.ready.real_offset_ns, error_ns)),
        launch: session.line.launch,
        connection: connection(plan, &Root::live()),
    }
}

/// What holds for every message, for the bills of late ones.
fn connection(plan: &PathPlan, root: &Root) -> Context {
    let setting = |name: &str| root.text(&format!("/proc/sys/net/ipv4/{name}")).ok();
    let congestion = setting("tcp_congestion_control").unwrap_or_default();
    Context {
        tcp: plan.transport == Transport::Tcp,
        // Both sides set TCP_NODELAY.
        nagle: false,
        paced: congestion.trim() == "bbr",
        slow_start_after_idle: setting("tcp_slow_start_after_idle").map(|it| it.trim() != "0"),
        interval_ns: plan.interval.nominal_ns(),
        ..Context::default()
    }
}

/// The steps after the session was agreed on: threads, the first save, load, read-back, and the
/// measurement.
fn start(
    plan: &PathPlan,
    directory: &RunDirectory,
    root: &Root,
    (mut run, path, session, mut experiment): (Run, PathRun, Session, Option<Experimenting>),
    (progress, signals): (&mut dyn Observer, Signals),
) -> Result<Run, ConductError> {
    progress.observe(Observed::Step(&Step::SetUpProbes));
    let rules = rules(plan, &path, &session);
    let peer_demands = compose::peer_demands(&path.peer.conditions);
    run.path = Some(path);
    let interval_ns = plan.interval.shortest_ns();
    let (writers, readers) = rings(interval_ns, plan.burst).map_err(ConductError::Collector)?;
    let threads = threads::start(plan, &session.line, writers)?;
    save(directory, &run)?;
    directory.reserve::<Run>();
    // Without a deadline no message is late. The threads that are recorded are those of one session.
    let is_late = plan.claim.deadline_ns().is_some();
    let explains = plan.explain && is_late && experiment.is_none();
    let begin = || Tracing::begin(&threads, root, &mut run.events);
    let tracing = explains.then(begin).flatten();
    setup::refuse_if_signalled(&signals)?;
    let loads = setup::start_loads(&plan.load, &signals, progress)?;
    let housekeeping = plan.placement.housekeeping;
    let pace = Arc::new(Pace::of(&plan.interval));
    let stops = StopDetector::begin(&signals, housekeeping, &pace)?;
    let (samples, fates) = try_ring(WAITING).map_err(ConductError::Collector)?;
    let lane = lane(plan, &threads, fates);
    let sinks = experiment.as_ref().map(Companion::samples);
    let collector = Collector::new(vec![lane], u64::MAX, sinks.into_iter().collect())
        .with_evidence(Some(stops.evidence()));
    let gathering = Gathering::begin(collector, housekeeping, &pace)?;
    let mut joiner = Joiner::new(rules);
    if session.ready.explains {
        joiner.await_peer();
    }
    let joining = Joining::begin(
        readers,
        joiner,
        samples,
        tracing.clone(),
        plan.transport,
        housekeeping,
        &pace,
    )?;
    let (held, mut demands) = in_force::hold_threads(
        &plan.conditions,
        false,
        (&threads.ready, plan.policy),
        root,
        &mut run.system,
    );
    demands.extend(peer_demands);
    in_force::refuse_unmet(&plan.conditions, &demands)?;
    run.demands = demands;
    let monitored = threads.ready.iter().map(|(cpu, ready)| Monitored {
        cpu: *cpu,
        tid: ready.tid,
        raised: None,
    });
    let monitor = Monitor::start(root, &monitored.collect::<Vec<_>>());
    if let Some(tracing) = &tracing {
        tracing.count_from_now();
    }
    let starting = || {
        let (start_ns, warm_up_ns) = Threads::next_start_ns(&plan.interval);
        gathering.look().start_at(start_ns);
        joining.look().joiner.count_from(start_ns);
        pace.begin(start_ns);
        (start_ns, warm_up_ns)
    };
    let (mut start_ns, mut warm_up_ns) = starting();
    let left = Arc::new(Mutex::new(Left::default()));
    let live = Live { session, threads };
    let live = match &mut experiment {
        Some(experiment) => {
            let (plan, joined) = (plan.clone(), joining.shared());
            let settle_ns = experiment.settle_ns();
            let sessions = Sessions::new(plan, joined, live, settle_ns, Arc::clone(&left));
            experiment.begin_anew(Box::new(sessions));
            experiment.begin(start_ns, housekeeping);
            None
        }
        None => {
            let end_ns = |start_ns: u64| Some(start_ns.saturating_add(plan.duration_ns?));
            while !live.threads.go(warm_up_ns, start_ns, end_ns(start_ns)) {
                (start_ns, warm_up_ns) = starting();
            }
            Some(live)
        }
    };
    let mut kept = Keeping::new(run, directory, monitor, start_ns);
    kept.switches_settings = experiment.is_some();
    let throttling_every = kept.throttling_check_interval();
    let measuring = Measuring {
        start_ns,
        timeout_ns: plan.timeout_ns,
        break_ns: plan.break_ns,
        live,
        experiment,
        left,
        joining,
        gathering,
        stops,
        stops_told: 0,
        stretches: Stretches::new(),
        loads,
        held: Some(held),
        sent_all: None,
        called_off_ns: None,
        is_gone: false,
        throttling_every,
        next_throttling: Instant::now() + throttling_every,
    };
    let under_way = UnderWay::new(kept, progress, signals);
    Ok(under_way.until_judged(measuring))
}

/// What the collector keeps of the messages. A message that was skipped or lost misses any deadline:
/// it never arrives.
fn lane(
    plan: &PathPlan,
    threads: &Threads,
    fates: punctual_rt::ring::Consumer<crate::probe::cycle::Sample>,
) -> Lane {
    let halves = match plan.duration_ns {
        Some(length_ns) => Halves::At((length_ns / 2).max(1)),
        None => Halves::Doubling(1_000_000_000),
    };
    let deadline_ns = plan.late_ns.unwrap_or(u64::MAX);
    let tally = Tally::new(u64::MAX, deadline_ns, halves, PEAKS)
        .with_shortest_interval(1)
        .with_interval(u64::MAX);
    let (cpu, tid) = threads
        .ready
        .last()
        .map_or((0, 0), |(cpu, ready)| (*cpu, ready.tid));
    Lane::new(cpu, tid, fates, tally).with_interval(plan.interval.nominal_ns())
}

/// A measurement under way.
struct Measuring {
    start_ns: u64,
    timeout_ns: u64,
    break_ns: Option<u64>,
    /// Absent while an experiment has the sessions.
    live: Option<Live>,
    experiment: Option<Experimenting>,
    /// What the sessions leave for the record.
    left: Arc<Mutex<Left>>,
    joining: Joining,
    gathering: Gathering,
    stops: StopDetector,
    stops_told: usize,
    stretches: Stretches,
    loads: Option<LoadSet>,
    /// Restored before the run is judged.
    held: Option<Held>,
    /// When the last message was sent.
    sent_all: Option<u64>,
    /// When a signal, or a latency above the break value, ended the measurement.
    called_off_ns: Option<u64>,
    /// The responder has ended its connection of control.
    is_gone: bool,
    throttling_every: Duration,
    next_throttling: Instant,
}

impl Measured for Measuring {
    const ENDING: Step = Step::EndRun;
    const LEAST_NAP: Duration = Duration::from_millis(10);
    const INTERRUPT_FINISHES: bool = true;

    fn nap(&self) -> Duration {
        NAP.min(self.throttling_every)
    }

    fn collect(&mut self, _: u64) {
        let live = self.live.as_ref();
        if self.sent_all.is_none() && live.is_some_and(|it| it.threads.has_sent_all()) {
            self.sent_all = Some(clock::now_ns());
        }
    }

    fn has_breach(&self) -> bool {
        let limit_ns = self.break_ns.unwrap_or(u64::MAX);
        let lanes = &self.gathering.look().lanes;
        let worst = lanes.iter().filter_map(|lane| lane.tally.latency().max());
        worst.max().is_some_and(|worst_ns| worst_ns > limit_ns)
    }

    fn is_complete(&self, _: u64) -> bool {
        let Some(live) = &self.live else {
            return self.experiment.as_ref().is_some_and(Companion::is_over);
        };
        if self.is_gone || live.threads.has_received_all() {
            return true;
        }
        // What is outstanding may still come; a sender that waits for room is not waited for any longer.
        let now_ns = clock::now_ns();
        let Some(sent_ns) = self.sent_all else {
            let over_ns = live
                .threads
                .planned_end_ns()
                .saturating_add(self.timeout_ns);
            return now_ns > over_ns;
        };
        let waited_ns = now_ns.saturating_sub(sent_ns);
        // A round of the joiner, so that it has heard of the last message.
        let heard = waited_ns > 2 * u64::try_from(NAP.as_nanos()).unwrap_or(0);
        waited_ns > self.timeout_ns || (heard && self.joining.look().joiner.is_settled())
    }

    fn call_off(&mut self) {
        if let Some(live) = &self.live {
            live.threads.shared.end();
            self.called_off_ns = Some(clock::now_ns());
        }
    }

    fn has_settled(&self) -> bool {
        let waited_ns = |from_ns| clock::now_ns().saturating_sub(from_ns);
        // Messages under way are no lost ones.
        self.called_off_ns
            .is_none_or(|it| waited_ns(it) > self.timeout_ns || self.is_complete(0))
    }

    fn note(&mut self, kept: &mut Keeping<'_>) {
        self.tell_stops(kept);
        if let Some(live) = &self.live {
            self.is_gone |= live.session.control.has_ended();
        }
        if Instant::now() >= self.next_throttling {
            self.next_throttling = Instant::now() + self.throttling_every;
            kept.check_throttling();
        }
        if let Some(loads) = &mut self.loads {
            super::run::wake_ups::tell_pauses(&loads.look(), kept);
        }
        let collector = self.gathering.look();
        self.stretches.look(&collector, kept.elapsed_ns());
    }

    fn show(&self, run: &Run, elapsed_ns: u64, progress: &mut dyn Observer) {
        let status = self.loads.as_ref().map(LoadSet::status).unwrap_or_default();
        let view = super::run::view::of(run, &self.gathering.look(), &status, elapsed_ns);
        progress.observe(Observed::Tick(&view));
    }

    fn compose(&mut self, run: &mut Run, _: u64) {
        let collector = self.gathering.look();
        if let Some(lane) = collector.lanes.first() {
            compose::fill(run, self.start_ns, lane, &self.joining.look());
        }
        drop(collector);
        if let Some(experiment) = &self.experiment {
            experiment.put_into(run);
        }
        run.blocks = self.stretches.blocks();
        run.own_cost.tracer = self.joining.tracer_cost();
        // The thread that joins the messages is the tracer, too.
        let tracer_ns = run.own_cost.tracer.map_or(0, |tracer| tracer.cpu_ns);
        let joining_ns = self.joining.cpu_ns().saturating_sub(tracer_ns);
        run.own_cost.collector_cpu_ns = self.gathering.cpu_ns() + joining_ns;
        if let Some(loads) = &self.loads {
            let status = loads.status();
            run.loads = status
                .iter()
                .map(super::run::compose::load_under_way)
                .collect();
        }
    }

    fn save_beside(&self, _: &RunDirectory) -> Result<(), RecordError> {
        Ok(())
    }

    fn finish(&mut self, kept: &mut Keeping<'_>) {
        kept.check_throttling();
        // Settings are restored first.
        if let Some(experiment) = &mut self.experiment {
            experiment.end();
        }
        if let Some(live) = &mut self.live {
            self.left().outcomes = live.threads.end();
        }
        self.stops.end();
        self.joining.end();
        self.gathering.end();
        self.tell_stops(kept);
        if let Some(mut loads) = self.loads.take() {
            super::run::wake_ups::tell_pauses(&loads.look_last(), kept);
            kept.run.loads = loads
                .stop()
                .into_iter()
                .map(super::run::compose::load)
                .collect();
        }
        super::run::wake_ups::tell_failed_loads(kept);
        self.tell_end(kept);
    }

    fn conclude(&mut self, kept: &mut Keeping<'_>, state: State) -> State {
        compose::finish(&mut kept.run, &self.left().outcomes);
        compose::replace_peer_demands(&mut kept.run);
        kept.run.demands.extend(launch::demand(&kept.run));
        let dropped = compose::dropped_here(&kept.run);
        kept.run.events.extend(dropped);
        self.held = None;
        match state {
            State::Finished if self.has_breach() => State::Stopped(Ending::BreakValue),
            other => other,
        }
    }

    fn ring(&self, _: &Run) -> Option<Window> {
        None
    }
}

impl Measuring {
    fn left(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the measurement ended before its time, if it did, and what the responder reports.
    fn tell_end(&mut self, kept: &mut Keeping<'_>) {
        let Some(mut live) = self.live.take() else {
            let report = self.left().report.take();
            if let Some(path) = &mut kept.run.path {
                path.responder = report;
            }
            return;
        };
        let left = self.left();
        let of_threads = left.outcomes.iter().flatten().find_map(|outcome| {
            Some(match &outcome.ended {
                Ended::Completed => return None,
                Ended::Closed => PeerGone::Closed,
                Ended::Garbled => PeerGone::Garbled,
                Ended::Failed(error) => PeerGone::Failed {
                    error: error.to_string(),
                },
            })
        });
        drop(left);
        let how = match (of_threads, self.is_gone) {
            (_, true) => Some(PeerGone::Vanished),
            (other, false) => other,
        };
        let tell = |kept: &mut Keeping<'_>, how| {
            let at_ns = kept.elapsed_ns();
            let event = Event::invalidating(at_ns, Happening::PeerGone { how });
            kept.run.events.push(event);
        };
        let is_gone = how.is_some();
        if let Some(how) = how {
            tell(kept, how);
        }
        match live.session.control.end(REPORT_WITHIN) {
            Ok((report, delays)) => {
                let mut joined = self.joining.look();
                joined.joiner.explain_peer(&delays);
                if let Some(path) = &mut kept.run.path {
                    path.responder = Some(report);
                }
            }
            Err(_) if is_gone => {}
            Err(error) => tell(
                kept,
                PeerGone::NoReport {
                    error: error.to_string(),
                },
            ),
        }
    }

    /// Stops of the process that were detected.
    fn tell_stops(&mut self, kept: &mut Keeping<'_>) {
        let stops = self.gathering.look().stops.clone();
        for stop in stops.list.iter().skip(self.stops_told) {
            let who = match stop.cpu {
                Some(cpu) => Halted::Probe { cpu },
                None => Halted::Process,
            };
            kept.run.events.push(stop_event(stop, who));
        }
        self.stops_told = stops.list.len();
        kept.run.stops = (stops.count > 0).then_some(stops);
    }
}
