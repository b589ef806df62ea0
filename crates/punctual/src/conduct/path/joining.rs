//! The thread that brings together what both threads report, without real-time priority.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use punctual_network::room;
use punctual_network::sender::Readers;
use punctual_network::sender::join::{Fate, Joiner};
use punctual_record::TracerCost;
use punctual_record::path::Transport;
use punctual_rt::clock;
use punctual_rt::ring::Producer;

use super::tracing::Tracing;
use crate::conduct::error::ConductError;
use crate::conduct::housekeeper::Housekeeper;
use crate::conduct::run::pace::Pace;
use crate::probe::cycle::Sample;

/// How long it sleeps between two rounds. The rings hold seconds.
const NAP: Duration = Duration::from_millis(50);

/// What is joined, and where it goes.
pub struct Joined {
    /// What both threads report.
    pub readers: Readers,
    /// Their joint account.
    pub joiner: Joiner,
    /// To the collector.
    samples: Producer<Sample>,
    /// The kernel's events, if they are recorded.
    tracing: Option<Tracing>,
    /// What the rings of earlier sessions refused.
    lost_before: u64,
    /// The messages are UDP's: the kernel says for how many datagrams there was no room.
    udp: bool,
}

impl Joined {
    /// Messages and replies of which nothing is known.
    pub fn lost(&self) -> u64 {
        let lost = self.lost_before.saturating_add(self.readers.lost());
        lost.saturating_add(self.joiner.given_up())
    }

    /// Goes on with the messages of another session, of which those before `from_ns` are a warm-up.
    /// What is outstanding of the session before is lost.
    pub fn next_session(&mut self, readers: Readers, from_ns: u64) {
        self.finish();
        self.lost_before = self.lost_before.saturating_add(self.readers.lost());
        self.readers = readers;
        self.joiner.begin_session();
        self.joiner.count_from(from_ns);
        self.look_for_room();
    }

    fn look_for_room(&mut self) {
        if self.udp {
            self.joiner.no_room(room::no_room());
        }
    }

    /// Takes what was reported since the last round.
    pub fn take(&mut self) {
        // The instant first: every reply that came before it is among those taken.
        let now_ns = clock::now_ns();
        let (mut replies, mut stamps, mut readings) = (Vec::new(), Vec::new(), Vec::new());
        self.readers.replies.drain(|it| replies.push(it));
        self.readers.stamps.drain(|it| stamps.push(it));
        self.readers.readings.drain(|it| readings.push(it));
        // Messages last: those of the replies are there by now.
        let joiner = &mut self.joiner;
        self.readers.sent.drain(|sent| joiner.sent(&sent));
        stamps.iter().for_each(|it| joiner.stamped(it));
        readings.iter().for_each(|it| joiner.read(it));
        // Before any message is judged by what the socket dropped. A run without drops reads nothing.
        if joiner.has_unexplained_drops() {
            self.look_for_room();
        }
        let joiner = &mut self.joiner;
        replies.iter().for_each(|it| joiner.received(it));
        // After the replies: events up to these are known.
        if let Some(tracing) = &self.tracing {
            tracing.round();
        }
        let samples = &mut self.samples;
        joiner.settle(now_ns, |fate| {
            if let Some(sample) = sample(&fate) {
                samples.push(sample);
            }
        });
    }

    /// Nothing more comes.
    pub fn finish(&mut self) {
        self.take();
        let samples = &mut self.samples;
        self.joiner.finish(|fate| {
            if let Some(sample) = sample(&fate) {
                samples.push(sample);
            }
        });
    }
}

/// What the verdict counts of a message; what this machine dropped is no miss of the path, but what was skipped
/// after it is.
fn sample(fate: &Fate) -> Option<Sample> {
    let skipped = fate.skipped_after;
    match fate.replied_ns {
        Some(replied_ns) => Some(Sample {
            requested_ns: fate.requested_ns,
            late_ns: replied_ns.wrapping_sub(fate.requested_ns).cast_signed(),
            missed: skipped,
        }),
        None if fate.dropped_here => {
            let others = skipped.checked_sub(1)?;
            Some(Sample::lost(fate.requested_ns, others))
        }
        None => Some(Sample::lost(fate.requested_ns, skipped)),
    }
}

/// The running thread.
pub struct Joining {
    joined: Arc<Mutex<Joined>>,
    thread: Housekeeper,
}

impl Joining {
    /// Starts it, on the housekeeping CPU if there is one.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn begin(
        readers: Readers,
        mut joiner: Joiner,
        samples: Producer<Sample>,
        tracing: Option<Tracing>,
        transport: Transport,
        housekeeping: Option<usize>,
        pace: &Arc<Pace>,
    ) -> Result<Self, ConductError> {
        if let Some(tracing) = &tracing {
            joiner.refine_by(tracing.refine());
        }
        let mut joined = Joined {
            readers,
            joiner,
            samples,
            tracing,
            lost_before: 0,
            udp: transport == Transport::Udp,
        };
        joined.look_for_room();
        let joined = Arc::new(Mutex::new(joined));
        let (shared, pace) = (Arc::clone(&joined), Arc::clone(pace));
        let round = move |last: bool| {
            if last {
                lock(&shared).finish();
            } else {
                lock(&shared).take();
                pace.nap(NAP);
            }
        };
        let thread = Housekeeper::begin("joiner", 256 << 10, housekeeping, round)
            .map_err(ConductError::Collector)?;
        Ok(Self { joined, thread })
    }

    /// Locks the account. The rings continue to fill.
    pub fn look(&self) -> MutexGuard<'_, Joined> {
        lock(&self.joined)
    }

    /// What the recording has cost so far, if there is one.
    pub fn tracer_cost(&self) -> Option<TracerCost> {
        lock(&self.joined).tracing.as_ref().map(Tracing::cost)
    }

    /// The account, for a thread that changes the session.
    pub fn shared(&self) -> Arc<Mutex<Joined>> {
        Arc::clone(&self.joined)
    }

    /// Processor time that it has taken, in ns.
    pub fn cpu_ns(&self) -> u64 {
        self.thread.cpu_ns()
    }

    /// Decides what is undecided, and ends the thread.
    pub fn end(&mut self) {
        self.thread.end();
    }
}

/// Locks the account.
pub fn lock(joined: &Mutex<Joined>) -> MutexGuard<'_, Joined> {
    joined.lock().unwrap_or_else(PoisonError::into_inner)
}
