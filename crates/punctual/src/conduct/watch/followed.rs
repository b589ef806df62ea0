//! What is known of one thread that is watched: its wake-ups as samples, its rhythm, and the
//! periods that it missed.

use std::collections::{BTreeMap, VecDeque};

use punctual_stats::histogram::Histogram;

use crate::probe::cycle::Sample;
use crate::probe::tally::Tally;
use crate::trace::watch::rhythm::Rhythm;
use crate::trace::watch::{Call, Sleeper, Wake};

/// Wake-ups that wait until the thread's period is known, and that of the next is.
const PENDING: usize = 128;
/// Calls that have a rhythm of their own.
const RHYTHMS: usize = 16;

/// One thread.
pub struct Followed {
    /// Its counts, as they were read last.
    pub sleeper: Sleeper,
    /// What it slept in, as it was read last.
    pub calls: Vec<Call>,
    /// Its wake-ups.
    pub tally: Tally,
    /// Those by a timer.
    pub by_timer: Histogram,
    /// The others.
    pub by_others: Histogram,
    /// Waits that began when their instant had passed.
    pub overruns: u64,
    /// The most that one of them was begun late by.
    pub worst_overrun_ns: u64,
    /// Wake-ups that came here.
    pub received: u64,
    /// Whether it has ended, and nothing more comes.
    pub gone: bool,
    rhythms: BTreeMap<u32, Paced>,
    pending: VecDeque<Pending>,
    last_end_ns: u64,
}

/// The instants that one call waits for.
#[derive(Default)]
struct Paced {
    rhythm: Rhythm,
    instants: u64,
    last_due_ns: u64,
}

struct Pending {
    sample: Sample,
    /// By which call, for a wait for an instant.
    call: Option<u32>,
}

impl Followed {
    /// A thread that was seen for the first time.
    #[must_use]
    pub fn new(sleeper: Sleeper, tally: Tally) -> Self {
        Self {
            sleeper,
            calls: Vec::new(),
            tally,
            by_timer: Histogram::new(),
            by_others: Histogram::new(),
            overruns: 0,
            worst_overrun_ns: 0,
            received: 0,
            gone: false,
            rhythms: BTreeMap::new(),
            pending: VecDeque::new(),
            last_end_ns: 0,
        }
    }

    /// Whether it is the thread of this number that lives.
    #[must_use]
    pub fn is(&self, tid: u32) -> bool {
        self.sleeper.task.tid == tid && !self.gone
    }

    /// Takes its next wake-up, and says whether that is one of those that are measured: a
    /// wait for an instant that had passed when the thread last woke is a missed period.
    pub fn take(&mut self, wake: &Wake) -> bool {
        self.received += 1;
        let last_end_ns = std::mem::replace(&mut self.last_end_ns, wake.end_ns);
        let from_ns = wake.from_ns();
        if wake.due_ns.is_some() {
            let known = self.rhythms.len() < RHYTHMS || self.rhythms.contains_key(&wake.call);
            if known {
                let paced = self.rhythms.entry(wake.call).or_default();
                if from_ns <= paced.last_due_ns {
                    // It asks for what it had before: a wait that is to be none.
                    return false;
                }
                paced.last_due_ns = from_ns;
                paced.instants += 1;
                paced.rhythm.take(from_ns);
            }
            if let Some(late_ns) = wake.armed_ns.and_then(|at| at.checked_sub(from_ns)) {
                self.overruns += 1;
                self.worst_overrun_ns = self.worst_overrun_ns.max(late_ns);
            }
            if from_ns <= last_end_ns {
                return false;
            }
        }
        let late_ns = i64::try_from(wake.end_ns.saturating_sub(from_ns)).unwrap_or(i64::MAX);
        let sample = Sample {
            asked_ns: from_ns,
            late_ns,
            missed: 0,
        };
        let by = if wake.due_ns.is_some() {
            &mut self.by_timer
        } else {
            &mut self.by_others
        };
        by.record(sample.latency_ns());
        let call = wake.due_ns.map(|_| wake.call);
        self.pending.push_back(Pending { sample, call });
        true
    }

    /// Counts those wake-ups of which all is known by now: whether periods passed before the
    /// next one. At the end, all of them.
    pub fn settle(&mut self, end: bool) {
        while let Some(first) = self.pending.front() {
            let next = |call: u32| {
                let later = self.pending.iter().skip(1);
                later
                    .filter(|other| other.call == Some(call))
                    .map(|other| other.sample.asked_ns)
                    .next()
            };
            let forced = end || self.pending.len() > PENDING;
            let missed = match first
                .call
                .and_then(|call| self.rhythms.get(&call).zip(Some(call)))
            {
                None => 0,
                Some((paced, call)) => match (paced.rhythm.period_ns(), next(call)) {
                    (Some(_), Some(due_ns)) => paced.rhythm.passed(first.sample.asked_ns, due_ns),
                    _ if forced => 0,
                    _ => return,
                },
            };
            let Some(first) = self.pending.pop_front() else {
                return;
            };
            let sample = Sample {
                missed,
                ..first.sample
            };
            self.tally.record_all(&[sample]);
        }
    }

    /// Its period: that of the call by which it waits for instants most often.
    #[must_use]
    pub fn period_ns(&self) -> Option<u64> {
        let most = self.rhythms.values().max_by_key(|paced| paced.instants)?;
        most.rhythm.period_ns()
    }

    /// Wake-ups that were overwritten before they were read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sleeper.wake_ups.saturating_sub(self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::tally::Halves;
    use crate::trace::watch::Other;

    const PERIOD: u64 = 1_000_000;
    const BEGIN: u64 = 1_000_000_000;

    fn followed() -> Followed {
        let sleeper = Sleeper {
            task: Other {
                tid: 7,
                name: "rt-loop".to_owned(),
                policy: 1,
                priority: 39,
            },
            started_ns: 1,
            cpu: Some(0),
            ended: false,
            wake_ups: 0,
            switches: 0,
            preempted: 0,
            migrations: 0,
            minor_faults: 0,
            major_faults: 0,
            jobs: 0,
            late_jobs: 0,
            worst_job_ns: 0,
            postponed: 0,
            beyond: 0,
        };
        let tally = Tally::new(BEGIN, 100_000, Halves::At(u64::MAX), 16);
        Followed::new(sleeper, tally)
    }

    /// A wait for an instant, armed and ended so long after it.
    fn wait(period: u64, armed_after_ns: i64, latency_ns: u64) -> Wake {
        let due_ns = BEGIN + period * PERIOD;
        Wake {
            tid: 7,
            end_ns: due_ns + latency_ns,
            cpu: 0,
            due_ns: Some(due_ns),
            waking_ns: due_ns + latency_ns / 2,
            waking_cpu: 0,
            armed_ns: due_ns.checked_add_signed(armed_after_ns),
            left_ns: None,
            call: 230,
            slept: true,
        }
    }

    fn after(wakes: impl IntoIterator<Item = Wake>) -> Followed {
        let mut thread = followed();
        for wake in wakes {
            thread.take(&wake);
            thread.settle(false);
        }
        thread.settle(true);
        thread
    }

    #[test]
    fn periods_that_are_left_out_are_missed_also_before_the_period_is_known() {
        let periods = (1..100).filter(|period| !matches!(period, 3 | 50..=54));
        let thread = after(periods.map(|period| wait(period, -500_000, 10_000)));
        assert_eq!(thread.period_ns(), Some(PERIOD));
        assert_eq!((thread.tally.count(), thread.tally.missed), (93, 6));
        assert_eq!((thread.overruns, thread.tally.late), (0, 0));
        assert_eq!(thread.tally.missed_late, 0, "it left them out itself");
    }

    #[test]
    fn a_thread_that_catches_up_is_late_once_and_misses_the_instants_that_had_passed() {
        let stall = |period: u64| match period {
            // 3.5 periods of work after instant 50.
            51 => wait(51, 2_500_000, 2_510_000),
            52 => wait(52, 1_520_000, 1_530_000),
            53 => wait(53, 540_000, 550_000),
            other => wait(other, -500_000, 10_000),
        };
        let thread = after((1..100).map(stall));
        assert_eq!((thread.overruns, thread.worst_overrun_ns), (3, 2_500_000));
        assert_eq!((thread.tally.count(), thread.tally.missed), (97, 2));
        assert_eq!((thread.tally.late, thread.tally.missed_late), (1, 2));
        assert_eq!(thread.by_timer.max(), Some(2_510_000));
    }

    #[test]
    fn other_wake_ups_are_samples_of_their_own_kind_and_the_order_stays() {
        let wakes = (1..60).flat_map(|period| {
            let timed = wait(period, -500_000, 10_000);
            let other = Wake {
                due_ns: None,
                armed_ns: None,
                waking_ns: timed.end_ns + 200_000,
                end_ns: timed.end_ns + 230_000,
                call: 0,
                ..timed
            };
            [timed, other]
        });
        let thread = after(wakes);
        assert_eq!(
            (thread.by_timer.count(), thread.by_others.count()),
            (59, 59)
        );
        assert_eq!((thread.tally.count(), thread.tally.missed), (118, 0));
        assert_eq!(thread.by_others.max(), Some(30_000));
    }

    #[test]
    fn a_wait_for_what_it_had_before_is_none_and_memory_stays_bounded() {
        let mut thread = followed();
        for _ in 0..10_000 {
            thread.take(&wait(1, -1, 10_000));
            thread.settle(false);
        }
        assert!(thread.pending.len() <= PENDING);
        thread.settle(true);
        assert_eq!((thread.tally.count(), thread.received), (1, 10_000));
        for number in 0..1000 {
            let mut wake = wait(2 + number, -1, 10_000);
            wake.call = number as u32;
            thread.take(&wake);
            thread.settle(false);
        }
        assert!(thread.rhythms.len() <= RHYTHMS && thread.pending.len() <= PENDING);
    }
}
