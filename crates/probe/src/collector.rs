//! Empties the rings of all probe threads into their tallies.

use punctual_rt::clock;
use punctual_rt::ring::Consumer;

use super::cycle::Sample;
use super::stops::{self, Excluded, Lateness, SeenStopped, StopEvidence, StopWindow, Waiting};
use super::tally::Tally;
use punctual_record::{StopCause, Stops};

/// A thread without samples for this long plus two intervals is checked for a stop.
const SILENT_NS: u64 = 200_000_000;
/// For this long plus two intervals after a stop, a thread's sample may still be missing.
const RECENT_NS: u64 = 5_000_000_000;
/// The same for a polling thread: it has no sample while nothing happens.
const POLLING_NS: u64 = 500_000_000;

/// One probe thread's ring and tally.
pub struct Lane {
    /// Its CPU.
    pub cpu: usize,
    /// Its thread id.
    pub tid: i32,
    ring: Consumer<Sample>,
    /// Its figures so far.
    pub tally: Tally,
    /// What was removed before it was counted.
    pub sifted: Sifted,
    /// What was within stops of the process.
    pub stopped: Excluded,
    /// Samples that may be within a stop: that isn't known yet.
    waiting: Vec<Sample>,
    /// The nominal interval; 0 for a polling thread.
    interval_ns: u64,
    /// By how much less than it took each may say that it was late.
    more_ns: u64,
    /// Whether its samples are passed to the sinks.
    has_sinks: bool,
    /// When it last made progress, or was checked.
    seen_ns: u64,
    /// It was seen stopped, in a wait that has not ended yet.
    seen_stopped: Option<SeenStopped>,
}

/// Samples that were removed before they were counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sifted {
    /// How many.
    pub set_aside: u64,
    /// Their total length.
    pub set_aside_ns: u64,
    /// Those of them that could not be distinguished from others.
    pub undecided: u64,
    /// The longest of these, in ns.
    pub longest_undecided_ns: u64,
}

/// What happens to a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Classification {
    /// It counts.
    Keep,
    /// It belongs elsewhere.
    SetAside,
    /// That can't be decided, so it doesn't count.
    Undecided,
}

/// Classifies samples before they are counted.
pub trait Classifier: Send {
    /// Called when samples were taken from all rings, before they are classified.
    fn prepare(&mut self);
    /// Classifies one sample of the thread on a CPU.
    fn classify(&mut self, cpu: usize, sample: &Sample) -> Classification;
}

impl Lane {
    /// A ring's consumer and the tally that its samples go into.
    #[must_use]
    pub fn new(cpu: usize, tid: i32, ring: Consumer<Sample>, tally: Tally) -> Self {
        Self {
            cpu,
            tid,
            ring,
            tally,
            sifted: Sifted::default(),
            stopped: Excluded::default(),
            waiting: Vec::new(),
            interval_ns: 1_000_000,
            more_ns: 0,
            has_sinks: true,
            seen_ns: 0,
            seen_stopped: None,
        }
    }

    /// Sets the length of its interval; 0 for a polling thread.
    #[must_use]
    pub fn with_interval(mut self, interval_ns: u64) -> Self {
        self.interval_ns = interval_ns;
        self
    }

    /// Sets by how much less than it took a sample may say that it was late: jobs of phases that are allowed more.
    #[must_use]
    pub fn with_more(mut self, more_ns: u64) -> Self {
        self.more_ns = more_ns;
        self
    }

    /// Sets whether its samples are passed to the sinks.
    #[must_use]
    pub fn with_sinks(mut self, has_sinks: bool) -> Self {
        self.has_sinks = has_sinks;
        self
    }

    fn lateness(&self) -> Lateness {
        Lateness {
            interval_ns: self.interval_ns,
            certain_ns: self.interval_ns.min(self.tally.deadline_ns()).max(1),
            more_ns: self.more_ns,
            deadline_ns: self.tally.deadline_ns(),
        }
    }

    /// Samples that were lost because the ring was full.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.ring.refused()
    }
}

/// Counts samples of one probe, CPU and thread, in order, and passes the measured ones to the sinks.
fn count(
    tally: &mut Tally,
    (cpu, tid): (usize, i32),
    samples: &[Sample],
    start_ns: u64,
    sinks: &mut [Box<dyn SampleSink>],
) {
    tally.record_all(samples);
    if sinks.is_empty() {
        return;
    }
    // Samples of the warm-up come first.
    let first = samples.partition_point(|sample| sample.requested_ns < start_ns);
    for sink in sinks {
        sink.take(cpu, tid, &samples[first..]);
    }
}

/// How many of these samples were due before an instant.
fn known(samples: &[Sample], settled_ns: u64) -> usize {
    match samples.last() {
        Some(last) if last.woke_ns() > settled_ns => {
            samples.partition_point(|sample| sample.woke_ns() <= settled_ns)
        }
        _ => samples.len(),
    }
}

/// Receives all measured samples with the CPU of their thread.
pub trait SampleSink: Send {
    /// Receives samples of the thread on a CPU, in order.
    fn take(&mut self, cpu: usize, tid: i32, samples: &[Sample]);

    /// Called when all samples so far were passed.
    fn collected(&mut self) {}
}

/// All lanes of a run.
pub struct Collector {
    /// One for each probe thread.
    pub lanes: Vec<Lane>,
    start_ns: u64,
    sinks: Vec<Box<dyn SampleSink>>,
    classifier: Option<Box<dyn Classifier>>,
    evidence: Option<Box<dyn StopEvidence>>,
    /// Stops of the process so far.
    pub stops: Stops,
    /// The last of them: a thread that got its CPU late has its sample still to come.
    recent: Vec<(u64, u64)>,
    /// When each stop began and ended: the record keeps the first of them.
    stop_instants: Vec<(u64, u64)>,
}

impl Collector {
    /// A collector of samples from `start_ns` on; each sample is also passed to
    /// the sinks.
    #[must_use]
    pub fn new(lanes: Vec<Lane>, start_ns: u64, sinks: Vec<Box<dyn SampleSink>>) -> Self {
        Self {
            lanes,
            start_ns,
            sinks,
            classifier: None,
            evidence: None,
            stops: Stops::default(),
            recent: Vec::new(),
            stop_instants: Vec::new(),
        }
    }

    /// Holds samples back until it is known whether they are within a stop of the process.
    #[must_use]
    pub fn with_evidence(mut self, evidence: Option<Box<dyn StopEvidence>>) -> Self {
        self.evidence = evidence;
        self
    }

    /// Classifies every sample before it is counted.
    #[must_use]
    pub fn with_classifier(mut self, classifier: Option<Box<dyn Classifier>>) -> Self {
        self.classifier = classifier;
        self
    }

    /// Moves the start to a later instant before anything was measured, and
    /// returns the one in force.
    pub fn start_at(&mut self, start_ns: u64) -> u64 {
        self.start_ns = start_ns;
        for lane in &mut self.lanes {
            lane.tally.start_at(start_ns);
        }
        start_ns
    }

    /// Drops the sinks: they have received every sample.
    pub fn end_sinks(&mut self) {
        self.sinks.clear();
        self.classifier = None;
    }

    /// Takes the samples since the last call, and returns their number.
    pub fn collect(&mut self) -> usize {
        let (settled_ns, windows) = match &mut self.evidence {
            // The instant first: samples that began before it are among those taken afterwards.
            Some(evidence) => (evidence.settled_ns(), evidence.take()),
            None => (u64::MAX, Vec::new()),
        };
        let at_rest = self.recent.is_empty() && !self.any_stopped();
        if self.classifier.is_some() || !windows.is_empty() || !at_rest {
            return self.collect_slowly(settled_ns, &windows);
        }
        let mut taken = 0;
        for lane in &mut self.lanes {
            let tally = &mut lane.tally;
            let (probe, start_ns) = ((lane.cpu, lane.tid), self.start_ns);
            let sinks: &mut [_] = match lane.has_sinks {
                true => &mut self.sinks,
                false => &mut [],
            };
            let waiting = &mut lane.waiting;
            if !waiting.is_empty() {
                let known = known(waiting, settled_ns);
                count(tally, probe, &waiting[..known], start_ns, sinks);
                waiting.drain(..known);
            }
            taken += lane.ring.drain_slices(|samples| {
                let known = match waiting.is_empty() {
                    true => known(samples, settled_ns),
                    false => 0,
                };
                count(tally, probe, &samples[..known], start_ns, sinks);
                waiting.extend_from_slice(&samples[known..]);
            });
        }
        self.look_at_silent();
        for sink in &mut self.sinks {
            sink.collected();
        }
        taken
    }

    /// [`Collector::collect`] with stops or a classifier. Samples are taken from all rings first: the
    /// search for stops and the preparation of the classifier must see all of them.
    fn collect_slowly(&mut self, settled_ns: u64, windows: &[StopWindow]) -> usize {
        let mut taken = 0;
        // The stops so far were taken out of what waits already.
        let mut examined = Vec::with_capacity(self.lanes.len());
        let known_stops = self.recent.len();
        for lane in &mut self.lanes {
            let waiting = &mut lane.waiting;
            examined.push(waiting.len());
            taken += lane
                .ring
                .drain_slices(|samples| waiting.extend_from_slice(samples));
        }
        for window in windows {
            self.find(window);
        }
        self.exclude(&examined, known_stops);
        self.exclude_single();
        let mut batches: Vec<Vec<Sample>> = Vec::with_capacity(self.lanes.len());
        for lane in &mut self.lanes {
            let stopped_ns = match settled_ns {
                u64::MAX => u64::MAX,
                _ => lane.seen_stopped.map_or(u64::MAX, |seen| seen.at_ns),
            };
            let known = known(&lane.waiting, settled_ns.min(stopped_ns));
            batches.push(lane.waiting.drain(..known).collect());
        }
        self.classify(&mut batches);
        for (lane, batch) in self.lanes.iter_mut().zip(&batches) {
            let probe = (lane.cpu, lane.tid);
            let sinks: &mut [_] = match lane.has_sinks {
                true => &mut self.sinks,
                false => &mut [],
            };
            count(&mut lane.tally, probe, batch, self.start_ns, sinks);
        }
        self.look_at_silent();
        for sink in &mut self.sinks {
            sink.collected();
        }
        taken
    }

    fn classify(&mut self, batches: &mut [Vec<Sample>]) {
        let Some(classifier) = &mut self.classifier else {
            return;
        };
        classifier.prepare();
        for (lane, batch) in self.lanes.iter_mut().zip(batches) {
            let (cpu, start_ns) = (lane.cpu, self.start_ns);
            let sifted = &mut lane.sifted;
            batch.retain(|sample| {
                let class = match sample.requested_ns < start_ns {
                    true => Classification::Keep,
                    false => classifier.classify(cpu, sample),
                };
                if class != Classification::Keep {
                    sifted.set_aside += 1;
                    sifted.set_aside_ns += sample.latency_ns();
                    if class == Classification::Undecided {
                        let longest = &mut sifted.longest_undecided_ns;
                        *longest = sample.latency_ns().max(*longest);
                        sifted.undecided += 1;
                    }
                }
                class == Classification::Keep
            });
        }
    }

    /// When each stop that was located began and ended.
    #[must_use]
    pub fn stop_instants(&self) -> &[(u64, u64)] {
        &self.stop_instants
    }

    /// Locates the stop of the whole process in a window.
    fn find(&mut self, window: &StopWindow) {
        // Where jobs are allowed more, their ends are not known from their samples.
        let known = self.lanes.iter().filter(|lane| lane.more_ns == 0);
        let lanes: Vec<Waiting<'_>> = known
            .map(|lane| Waiting {
                samples: &lane.waiting,
                polls: lane.interval_ns == 0,
            })
            .collect();
        let shortest = self.lanes.iter().map(|lane| lane.interval_ns).min();
        // The evidence for stops checks at intervals itself.
        let usual_ns = shortest.unwrap_or(0).min(stops::LOOK_NS);
        let Some(stop) = stops::standstill(window, &lanes, usual_ns) else {
            return;
        };
        if stop.1 <= self.start_ns {
            return;
        }
        self.stops
            .add(stops::recorded(stop, window.cause, None, self.start_ns));
        self.recent.push(stop);
        self.stop_instants.push(stop);
    }

    /// Removes what is within the last stops of the whole process: each can be taken out of a sample once.
    /// The first of each lane were `examined` for those that were known.
    fn exclude(&mut self, examined: &[usize], known_stops: usize) {
        if self.recent.is_empty() {
            return;
        }
        for (lane, examined) in self.lanes.iter_mut().zip(examined) {
            let lateness = lane.lateness();
            let mut fresh = lane.waiting.split_off(*examined);
            for (number, stop) in self.recent.iter().enumerate() {
                let mut excluded = stops::exclude(&mut fresh, *stop, lateness, self.start_ns);
                if number >= known_stops {
                    let before = &mut lane.waiting;
                    let of_others = stops::exclude(before, *stop, lateness, self.start_ns);
                    excluded = excluded.and(of_others);
                }
                lane.stopped = lane.stopped.and(excluded);
                self.stops.cycles += excluded.cycles;
                // Its end is known now.
                lane.seen_stopped = lane.seen_stopped.filter(|seen| seen.at_ns > stop.1);
            }
            lane.waiting.append(&mut fresh);
        }
        let longest_ns = self.lanes.iter().map(|lane| lane.interval_ns).max();
        let patience_ns = RECENT_NS.saturating_add(longest_ns.unwrap_or(0).saturating_mul(2));
        let now_ns = clock::now_ns();
        self.recent
            .retain(|(_, to_ns)| now_ns.saturating_sub(*to_ns) < patience_ns);
    }

    fn any_stopped(&self) -> bool {
        self.lanes.iter().any(|lane| lane.seen_stopped.is_some())
    }

    /// Removes the wake-ups in which single threads were seen stopped.
    fn exclude_single(&mut self) {
        for lane in &mut self.lanes {
            let Some(seen) = lane.seen_stopped else {
                continue;
            };
            let Some(stop) = stops::of_thread(&lane.waiting, &seen) else {
                if lane
                    .waiting
                    .last()
                    .is_some_and(|last| last.requested_ns > seen.at_ns)
                {
                    lane.seen_stopped = None;
                }
                continue;
            };
            lane.seen_stopped = None;
            if stop.1 <= self.start_ns {
                continue;
            }
            let (lateness, start_ns) = (lane.lateness(), self.start_ns);
            let excluded = stops::exclude(&mut lane.waiting, stop, lateness, start_ns);
            lane.stopped = lane.stopped.and(excluded);
            self.stops.cycles += excluded.cycles;
            let cpu = Some(lane.cpu);
            self.stops
                .add(stops::recorded(stop, StopCause::Debugger, cpu, start_ns));
            self.stop_instants.push(stop);
        }
    }

    /// A thread without new samples may be stopped by a debugger.
    fn look_at_silent(&mut self) {
        let Some(evidence) = &mut self.evidence else {
            return;
        };
        let now_ns = clock::now_ns();
        if now_ns < self.start_ns {
            return;
        }
        for lane in &mut self.lanes {
            let woke_ns = lane.waiting.last().map_or(0, Sample::woke_ns);
            let counted_ns = lane.tally.last_requested_ns;
            lane.seen_ns = lane.seen_ns.max(woke_ns).max(counted_ns);
            let patience_ns = match lane.interval_ns {
                0 => POLLING_NS,
                ns => SILENT_NS.saturating_add(ns.saturating_mul(2)),
            };
            if let Some(seen) = &mut lane.seen_stopped {
                if seen.to_ns == u64::MAX && !evidence.is_stopped(lane.tid) {
                    seen.to_ns = clock::now_ns();
                }
                continue;
            }
            if now_ns.saturating_sub(lane.seen_ns) < patience_ns {
                continue;
            }
            // Time passes between the two, so the thread was stopped at this instant.
            let at_ns = clock::now_ns();
            if evidence.is_stopped(lane.tid) {
                lane.seen_stopped = Some(SeenStopped {
                    from_ns: lane.seen_ns,
                    at_ns,
                    to_ns: u64::MAX,
                });
            }
            lane.seen_ns = at_ns;
        }
    }

    /// The number of values that a ring should hold: half a minute of samples, because the
    /// collector runs at ordinary priority and may have to wait for a CPU
    /// (loads on the loopback network have kept threads off their CPU for as long).
    #[must_use]
    pub fn ring_capacity(interval_ns: u64) -> usize {
        let wanted = 32_000_000_000 / interval_ns.max(1);
        usize::try_from(wanted)
            .unwrap_or(usize::MAX)
            .clamp(1 << 12, 1 << 18)
    }
}

#[cfg(test)]
mod tests;
