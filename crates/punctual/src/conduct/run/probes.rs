//! Starts the probe threads and ends them.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use punctual_rt::ring::{Consumer, ring};
use punctual_rt::sched::Policy;
use punctual_rt::thread::StartLine;

use super::plan::ProbePlan;
use crate::conduct::error::ConductError;
use crate::probe::collector::Collector;
use crate::probe::cycle::{Bounds, Halt, Sample};
use crate::probe::gaps::{Account, GapFeed, Polling};
use crate::probe::tally::Tally;
use crate::probe::thread::{Outcome, Probe, ProbeRequest, Ready};
use crate::system::monitor::Monitored;

/// How long a probe thread may take to end after the request, in addition to its interval.
const END_WITHIN: Duration = Duration::from_secs(2);

/// The probe threads of a run.
pub struct Probes {
    /// Lets them go.
    pub line: Arc<StartLine>,
    /// Ends them.
    pub halt: Arc<Halt>,
    /// The progress of each, if it polls.
    pub accounts: Vec<Arc<Account>>,
    /// The CPU of each, and what it reported, in their order.
    pub ready: Vec<(usize, Ready)>,
    /// As requested.
    pub policy: Policy,
    threads: Vec<Probe>,
    interval: Duration,
    /// The shortest interval in ns; 0 for threads that poll.
    shortest_ns: u64,
}

/// Starts the probe threads and waits until each is ready. `feed` finds gaps instead of threads that
/// poll. Also returns the reading end of each ring.
///
/// # Errors
/// A thread cannot be started, or was not ready in time.
pub fn start_probes(
    plan: &ProbePlan,
    feed: Option<Arc<dyn GapFeed>>,
) -> Result<(Probes, Vec<Consumer<Sample>>), ConductError> {
    let line = Arc::new(StartLine::default());
    let halt = Arc::new(Halt::at(u64::MAX));
    let (tell, told) = mpsc::channel();
    let capacity = match plan.gaps {
        // The number of gaps is not known beforehand.
        Some(_) => Collector::ring_capacity(0),
        None => Collector::ring_capacity(plan.interval.nominal_ns()),
    };
    let (mut threads, mut rings, mut accounts) = (Vec::new(), Vec::new(), Vec::new());
    for (index, &cpu) in plan.cpus.iter().enumerate() {
        let polling = plan.gaps.as_ref().map(|gaps| Polling {
            above_ns: gaps.above_ns,
            runtime_ns: gaps.runtime_ns,
            period_ns: gaps.period_ns,
            account: Arc::default(),
            feed: feed.clone(),
        });
        let account = polling.as_ref().map(|polling| Arc::clone(&polling.account));
        accounts.extend(account);
        let request = ProbeRequest {
            index,
            cpu,
            kind: plan.kind,
            interval: plan.interval.clone(),
            policy: plan.policy,
            bounds: Bounds {
                cycles: plan.loops.unwrap_or(u64::MAX),
                break_ns: plan.break_ns.unwrap_or(u64::MAX),
            },
            polling,
        };
        let (producer, consumer) = ring(capacity);
        match Probe::start(request, producer, &line, &halt, tell.clone()) {
            Ok(probe) => threads.push(probe),
            Err(source) => return Err(ConductError::Probe { cpu, source }),
        }
        rings.push(consumer);
    }
    drop(tell);
    let mut ready = Vec::new();
    for _ in &threads {
        match told.recv_timeout(Duration::from_secs(30)) {
            Ok(one) => ready.push(one),
            Err(_) => return Err(ConductError::NotReady { ready: ready.len() }),
        }
    }
    ready.sort_by_key(|ready| ready.index);
    let probes = Probes {
        line,
        halt,
        accounts,
        ready: plan.cpus.iter().copied().zip(ready).collect(),
        policy: plan.policy,
        threads,
        interval: Duration::from_nanos(plan.interval.nominal_ns()),
        shortest_ns: match plan.gaps {
            Some(_) => 0,
            None => plan.interval.shortest_ns(),
        },
    };
    Ok((probes, rings))
}

impl Probes {
    /// Whether each of them has ended.
    pub fn are_over(&self) -> bool {
        self.threads.iter().all(Probe::is_over)
    }

    /// Ends them, and waits a while for each; returns their outcomes, in their order.
    pub fn end(&mut self) -> Vec<Option<Outcome>> {
        self.halt.now();
        let patience = Instant::now() + END_WITHIN + self.interval.min(END_WITHIN);
        while !self.are_over() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.threads.drain(..).map(Probe::finish).collect()
    }

    /// Whether the thread of a tally waits for an instant that is still to come: if it did not end, it owes no sample.
    pub fn owes_nothing(&self, tally: &Tally, now_ns: u64) -> bool {
        is_before_next(tally, self.shortest_ns, now_ns)
    }

    /// The CPU of each, in their order.
    pub fn cpus(&self) -> impl Iterator<Item = usize> {
        self.ready.iter().map(|(cpu, _)| *cpu)
    }

    /// The thread ID of each, with its CPU.
    pub fn tids(&self) -> impl Iterator<Item = (i32, usize)> {
        self.ready.iter().map(|(cpu, ready)| (ready.tid, *cpu))
    }

    /// For the monitor of the conditions.
    pub fn monitored(&self) -> Vec<Monitored> {
        let tids = self.tids();
        tids.map(|(tid, cpu)| Monitored {
            cpu,
            tid,
            raised: None,
        })
        .collect()
    }
}

/// Whether the instant after the last sample of a tally is later than now, at the shortest interval.
fn is_before_next(tally: &Tally, shortest_ns: u64, now_ns: u64) -> bool {
    tally.count() > 0 && tally.last_requested_ns.saturating_add(shortest_ns) > now_ns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tally::Halves;

    #[test]
    fn a_thread_that_sleeps_until_a_later_instant_owes_no_sample() {
        const SECOND: u64 = 1_000_000_000;
        let mut tally = Tally::new(SECOND, u64::MAX, Halves::At(u64::MAX), 16);
        // The first instant may have passed without a sample.
        assert!(!is_before_next(&tally, 10 * SECOND, 5 * SECOND));
        let on_time = |requested_ns| Sample {
            requested_ns,
            late_ns: 5_000,
            missed: 0,
        };
        tally.record_all(&[on_time(SECOND), on_time(11 * SECOND)]);
        assert!(is_before_next(&tally, 10 * SECOND, 20 * SECOND));
        // The next one has passed: it may be late.
        assert!(!is_before_next(&tally, 10 * SECOND, 21 * SECOND));
        // A thread that polls waits for none.
        assert!(!is_before_next(&tally, 0, 12 * SECOND));
    }
}
