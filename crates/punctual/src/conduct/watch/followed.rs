//! One watched thread: its wake-ups as samples, its period if it has one, and the periods that it
//! skipped.

use std::collections::{BTreeMap, VecDeque};

use punctual_stats::histogram::Histogram;
use punctual_stats::skips::Skips;

use super::budgets::Budgets;
use super::skipped::{Instant, overran_ns, skipped};
use super::stopped::ThreadStops;
use crate::probe::cycle::Sample;
use crate::probe::tally::Tally;
use punctual_record::watch::Timing;
use punctual_trace::watch::rhythm::{Rhythm, TimerPattern};
use punctual_trace::watch::{Call, Job, Sleeper, StoppedThread, Timer, Wake};

/// Pairs of instants that are kept until it is known whether there is a period.
const GAPS: usize = 64;
/// Timers of a thread that are tracked.
const RHYTHMS: usize = 16;

/// One thread.
pub struct Followed {
    /// Its counts at the last reading.
    pub sleeper: Sleeper,
    /// The CPU on which it was first seen.
    met_on: u32,
    /// The system call in which it slept, at the last reading.
    pub calls: Vec<Call>,
    /// Its wake-ups.
    pub tally: Tally,
    /// Wake-ups by a timer.
    pub by_timer: Histogram,
    /// The other wake-ups.
    pub by_others: Histogram,
    /// Waits that began after their instant.
    pub overruns: u64,
    /// The largest delay of such a start.
    pub worst_overrun_ns: u64,
    /// The periods that it skipped.
    pub skips: Skips,
    /// How many of them it skipped although it was woken in time: it was busy, or waited for something
    /// else.
    pub skipped_itself: u64,
    /// How much of their budgets its SCHED_DEADLINE jobs used.
    pub budgets: Budgets,
    /// Its stops, and what happened in them.
    pub stops: ThreadStops,
    /// The number of received wake-ups and stops.
    pub received: u64,
    /// Whether it has ended and no more data comes.
    pub gone: bool,
    rhythms: BTreeMap<Key, Paced>,
    last_end_ns: u64,
}

/// A timer of the thread: the system call of its own sleep, or the number of another timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Length(u32),
    Instant(u32),
    Object(u32),
}

/// The instants of one timer.
#[derive(Default)]
struct Paced {
    rhythm: Rhythm,
    instants: u64,
    last: Option<Instant>,
    gaps: VecDeque<(Instant, Instant)>,
    /// How many of these came before the period was known.
    early: usize,
}

impl Followed {
    /// A thread that is seen for the first time, on a CPU.
    #[must_use]
    pub fn new(sleeper: Sleeper, met_on: u32, tally: Tally) -> Self {
        Self {
            sleeper,
            met_on,
            calls: Vec::new(),
            stops: ThreadStops::new(tally.start_ns(), tally.deadline_ns()),
            tally,
            by_timer: Histogram::new(),
            by_others: Histogram::new(),
            overruns: 0,
            worst_overrun_ns: 0,
            skips: Skips::default(),
            skipped_itself: 0,
            budgets: Budgets::default(),
            received: 0,
            gone: false,
            rhythms: BTreeMap::new(),
            last_end_ns: 0,
        }
    }

    /// The CPU on which it ran last.
    #[must_use]
    pub fn cpu(&self) -> u32 {
        self.sleeper.cpu.unwrap_or(self.met_on)
    }

    /// Whether it is the living thread with this ID.
    #[must_use]
    pub fn is(&self, tid: u32) -> bool {
        self.sleeper.task.tid == tid && !self.gone
    }

    /// Counts a stop that has ended.
    pub fn add_stop(&mut self, stop: &StoppedThread) {
        self.received += 1;
        self.stops.add(stop.from_ns, stop.to_ns);
    }

    /// Counts a job that ended.
    pub fn add_job(&mut self, job: &Job) {
        self.received += 1;
        self.budgets.add(job, self.tally.start_ns());
    }

    /// Adds its next wake-up, and returns the instant from which its latency counts, if the wake-up is
    /// measured: a wait for an instant that had passed when the thread last woke is a skipped period,
    /// and wake-ups in a stop do not count.
    pub fn add_wake_up(&mut self, wake: &Wake) -> Option<u64> {
        self.received += 1;
        let last_end_ns = std::mem::replace(&mut self.last_end_ns, wake.end_ns);
        let from_ns = wake.from_ns();
        if wake.due_ns.is_some() {
            let passed = from_ns <= last_end_ns;
            // Otherwise it waits for the same instant again: not a new wait.
            if let Some(late_ns) = self.pace(wake, passed)? {
                self.overruns += 1;
                self.worst_overrun_ns = self.worst_overrun_ns.max(late_ns);
            }
            if passed {
                return None;
            }
        }
        let late_ns = i64::try_from(wake.end_ns.saturating_sub(from_ns)).unwrap_or(i64::MAX);
        let sample = self.stops.left_of(Sample {
            requested_ns: from_ns,
            late_ns,
            missed: 0,
        })?;
        let by = if wake.due_ns.is_some() {
            &mut self.by_timer
        } else {
            &mut self.by_others
        };
        by.record(sample.latency_ns());
        self.tally.record_all(&[sample]);
        Some(sample.requested_ns)
    }

    /// Updates the thread's period from a timer, and returns how late the wait began because of the
    /// thread itself; `None` for an instant that is not new.
    fn pace(&mut self, wake: &Wake, passed: bool) -> Option<Option<u64>> {
        let key = match wake.timer {
            Timer::Length => Key::Length(wake.call),
            Timer::Instant => Key::Instant(wake.call),
            Timer::Object(number) => Key::Object(number),
        };
        let due_ns = wake.from_ns();
        // What began late because of a stop is not the thread's own: nor is that of the waits after it
        // by which it catches up.
        let stopped = (self.stops).between(due_ns, wake.armed_ns.unwrap_or(due_ns));
        let overran_ns = |last| overran_ns(last, due_ns, wake.armed_ns).filter(|_| !stopped);
        if self.rhythms.len() >= RHYTHMS && !self.rhythms.contains_key(&key) {
            return Some(overran_ns(None));
        }
        let paced = self.rhythms.entry(key).or_insert_with(|| Paced {
            rhythm: match key {
                Key::Length(_) => Rhythm::of_lengths(),
                Key::Instant(_) | Key::Object(_) => Rhythm::default(),
            },
            ..Paced::default()
        });
        let instant = Instant {
            due_ns,
            begun_ns: wake.armed_ns,
            end_ns: wake.end_ns,
            passed,
            overran_ns: overran_ns(paced.last.as_ref()),
            unseen: wake.unseen,
        };
        if let Some(last) = paced.last {
            if instant.due_ns <= last.due_ns {
                return None;
            }
            paced.gaps.push_back((last, instant));
        }
        paced.last = Some(instant);
        paced.instants += 1;
        paced.rhythm.add_instant(due_ns, wake.armed_ns);
        self.settle(key, false);
        Some(instant.overran_ns)
    }

    /// Counts the periods that were skipped before the last instants of a timer, if it is known whether
    /// it has a period.
    fn settle(&mut self, key: Key, end: bool) {
        let Some(paced) = self.rhythms.get_mut(&key) else {
            return;
        };
        let period_ns = match paced.rhythm.pattern() {
            // They are kept: if a period is found later, they may be on its grid.
            TimerPattern::Unknown | TimerPattern::Irregular => {
                paced.gaps.drain(..paced.gaps.len().saturating_sub(GAPS));
                paced.early = paced.gaps.len();
                return;
            }
            TimerPattern::Lost => {
                paced.gaps.clear();
                paced.early = 0;
                return;
            }
            TimerPattern::Period(period_ns) => period_ns,
        };
        while let Some((from, to)) = paced.gaps.front().copied() {
            let rhythm = &paced.rhythm;
            let on_grid = rhythm.periods(from.due_ns, to.due_ns).is_some();
            // A new grid, if it continues; otherwise there is no period any more.
            let goes_on = || {
                let mut later = paced.gaps.iter().skip(1);
                later.any(|(from, to)| rhythm.periods(from.due_ns, to.due_ns) == Some(1))
            };
            if !on_grid && paced.early > 0 {
                // Instants before the grid do not count.
                paced.gaps.pop_front();
                paced.early -= 1;
                continue;
            }
            if !on_grid && !end && paced.gaps.len() < GAPS && !goes_on() {
                return;
            }
            paced.early = paced.early.saturating_sub(1);
            let count = rhythm.skipped(from.due_ns, to.due_ns, to.begun_ns);
            let count = count.saturating_sub(to.unseen);
            paced.gaps.pop_front();
            for (skip, itself) in skipped(&mut self.stops, from, to, period_ns, count) {
                if self.tally.skip(&skip) {
                    self.skips.push(skip);
                    self.skipped_itself += if itself { skip.count } else { 0 };
                }
            }
        }
    }

    /// Counts the remaining instants at the end.
    pub fn end(&mut self) {
        let keys: Vec<Key> = self.rhythms.keys().copied().collect();
        keys.into_iter().for_each(|key| self.settle(key, true));
    }

    /// Its period: that of the periodic timer for which it waits most often.
    #[must_use]
    pub fn period_ns(&self) -> Option<u64> {
        let periods = self.rhythms.values().filter_map(|paced| {
            let period_ns = paced.rhythm.period_ns()?;
            Some((paced.instants, period_ns))
        });
        periods.max().map(|(_, period_ns)| period_ns)
    }

    /// How it waits for timers.
    #[must_use]
    pub fn timing(&self) -> Timing {
        if self.period_ns().is_some() {
            return Timing::Periodic;
        }
        let most = self.rhythms.iter().max_by_key(|(_, paced)| paced.instants);
        match most.map(|(key, paced)| (key, paced.rhythm.pattern())) {
            None => Timing::None,
            Some((_, TimerPattern::Lost)) => Timing::Lost,
            Some((Key::Length(_), _)) => Timing::Lengths,
            Some((_, TimerPattern::Unknown)) => Timing::Unknown,
            Some((_, TimerPattern::Irregular | TimerPattern::Period(_))) => Timing::Irregular,
        }
    }

    /// Whether it slept all the time, and ran only because it was stopped and continued.
    #[must_use]
    pub fn slept_but_for_stops(&self) -> bool {
        let sleeper = &self.sleeper;
        // A stop wakes it, and so does the end of the stop.
        let by_stops = self.stops.count.saturating_mul(2);
        let by_itself = sleeper.switches.saturating_sub(sleeper.preempted);
        sleeper.asleep && self.tally.count() == 0 && by_itself <= by_stops
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
    use punctual_record::StopCause;
    use punctual_trace::watch::Other;

    const PERIOD: u64 = 1_000_000;
    const BEGIN: u64 = 1_000_000_000;
    const DEADLINE: u64 = 100_000;

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
            throttles: 0,
            throttled_ns: 0,
            worst_throttle_ns: 0,
            no_room: 0,
            unseen: 0,
            program: 7,
            asleep: false,
            stopped: None,
        };
        let tally = Tally::new(BEGIN, DEADLINE, Halves::At(u64::MAX), 16);
        Followed::new(sleeper, 0, tally)
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
            unseen: 0,
            armed_ns: due_ns.checked_add_signed(armed_after_ns),
            left_ns: None,
            timer: Timer::Instant,
            call: 230,
            slept: true,
        }
    }

    fn after(wakes: impl IntoIterator<Item = Wake>) -> Followed {
        let mut thread = followed();
        for wake in wakes {
            thread.add_wake_up(&wake);
        }
        thread.end();
        assert_eq!(thread.skips.count(), thread.tally.missed);
        let late = thread.skips.later(DEADLINE);
        assert_eq!(late, (thread.tally.missed_late, thread.tally.missed_late));
        thread
    }

    #[test]
    fn periods_that_are_skipped_are_not_on_time_also_before_the_period_is_known() {
        let periods = (1..100).filter(|period| !matches!(period, 3 | 50..=54));
        let thread = after(periods.map(|period| wait(period, -500_000, 10_000)));
        assert_eq!(thread.period_ns(), Some(PERIOD));
        assert_eq!((thread.tally.count(), thread.tally.missed), (93, 6));
        assert_eq!((thread.overruns, thread.tally.late), (0, 0));
        // It was woken in time, and began the next cycle so much later.
        assert_eq!((thread.tally.missed_late, thread.skipped_itself), (6, 6));
        let five = thread.skips.iter().nth(1).expect("two runs of them");
        assert_eq!((five.count, five.most_ns), (5, 5 * PERIOD + 10_000));
        assert_eq!(five.least_ns, PERIOD + 10_000);
        assert_eq!(thread.skips.later(3 * PERIOD), (3, 3));
        assert_eq!(thread.skips.later(5 * PERIOD + 10_000), (0, 0));
    }

    #[test]
    fn a_thread_that_catches_up_is_late_once_and_skips_the_instants_that_had_passed() {
        let stall = |period: u64| match period {
            // 3.5 periods of work after instant 50.
            51 => wait(51, 2_500_000, 2_510_000),
            52 => wait(52, 1_520_000, 1_530_000),
            53 => wait(53, 540_000, 550_000),
            other => wait(other, -500_000, 10_000),
        };
        let thread = after((1..100).map(stall));
        assert_eq!((thread.overruns, thread.worst_overrun_ns), (3, 2_490_000));
        assert_eq!((thread.tally.count(), thread.tally.missed), (97, 2));
        assert_eq!((thread.tally.late, thread.tally.missed_late), (1, 2));
        assert_eq!(
            (thread.skipped_itself, thread.by_timer.max()),
            (2, Some(2_510_000))
        );
    }

    #[test]
    fn a_wait_that_begins_late_after_a_late_wake_up_has_not_overrun() {
        // Woken 1.8 periods late, it makes up for it in two cycles of half a period's work.
        let late = |period: u64| match period {
            50 => wait(50, -500_000, 1_800_000),
            51 => wait(51, 1_300_000, 1_310_000),
            52 => wait(52, 810_000, 820_000),
            53 => wait(53, 320_000, 330_000),
            other => wait(other, -500_000, 10_000),
        };
        let thread = after((1..100).map(late));
        assert_eq!((thread.overruns, thread.skipped_itself), (0, 0));
        // As late, and then it works for two periods: one of them made it late by itself, and the
        // cycle after would have caught up with that.
        let both = |period: u64| match period {
            50 => wait(50, -500_000, 1_800_000),
            51 => wait(51, 2_800_000, 2_810_000),
            52 => wait(52, 1_900_000, 1_910_000),
            53 => wait(53, 1_000_000, 1_010_000),
            54 => wait(54, 100_000, 110_000),
            other => wait(other, -500_000, 10_000),
        };
        let thread = after((1..100).map(both));
        assert_eq!((thread.overruns, thread.worst_overrun_ns), (2, 1_000_000));
    }

    #[test]
    fn a_wait_that_begins_late_after_a_stop_has_not_overrun() {
        // Stopped from 0.2 periods after instant 50 on for 300, then each wait takes 0.05: those for the next
        // 315 instants begin late.
        let mut thread = followed();
        let (from_ns, to_ns) = (BEGIN + 50_200_000, BEGIN + 350_200_000);
        for period in 1..500 {
            if period == 51 {
                thread.add_stop(&StoppedThread {
                    tid: 7,
                    from_ns,
                    to_ns,
                    end_ns: to_ns + 1_000,
                    cause: StopCause::Signal,
                });
            }
            let late = 300_200_000 - 950_000 * (period as i64 - 50);
            thread.add_wake_up(&match late {
                1.. if period > 50 => wait(period, late, late.unsigned_abs() + 40_000),
                _ => wait(period, -500_000, 10_000),
            });
        }
        thread.end();
        // Instants that were due after the stop were skipped because of it, and not by the thread.
        assert!(thread.tally.missed > 10, "{}", thread.tally.missed);
        assert_eq!(thread.stops.cycles + thread.tally.missed, 315);
        assert_eq!((thread.overruns, thread.skipped_itself), (0, 0));
        assert_eq!(thread.worst_overrun_ns, 0);
    }

    #[test]
    fn a_late_wake_up_skips_periods_that_the_thread_is_not_to_blame_for() {
        let periods = (1..100).filter(|period| !matches!(period, 51..=54));
        let late = |period| match period {
            50 => wait(50, -500_000, 4_300_000),
            other => wait(other, -500_000, 10_000),
        };
        let thread = after(periods.map(late));
        assert_eq!((thread.tally.late, thread.tally.missed), (1, 4));
        assert_eq!(thread.skipped_itself, 0);
        // As late as it woke: 3.3, 2.3, 1.3 and 0.3 ms.
        assert_eq!(thread.skips.later(2 * PERIOD), (2, 2));
        assert_eq!(thread.tally.missed_late, 4);
    }

    #[test]
    fn a_period_whose_wake_up_went_unseen_is_not_skipped() {
        let periods = (1..100).filter(|period| !matches!(period, 50 | 60 | 61));
        let thread = after(periods.map(|period| Wake {
            // Of the two before 62 one went unseen.
            unseen: u64::from(matches!(period, 51 | 62)),
            ..wait(period, -500_000, 10_000)
        }));
        assert_eq!((thread.period_ns(), thread.tally.missed), (Some(PERIOD), 1));
    }

    #[test]
    fn sleeps_for_a_length_of_time_have_no_period_though_they_repeat() {
        let wakes = (1..200).map(|period| {
            let long = if period > 150 { 40 } else { 0 };
            Wake {
                timer: Timer::Length,
                ..wait(period + long, -900_000, 10_000)
            }
        });
        let thread = after(wakes);
        assert_eq!(
            (thread.period_ns(), thread.timing()),
            (None, Timing::Lengths)
        );
        assert_eq!((thread.tally.count(), thread.tally.missed), (199, 0));
    }

    #[test]
    fn instants_on_no_grid_have_no_period_and_none_is_skipped() {
        // Until a length after the clock's reading: absolute, and no rhythm.
        let mut at = 0;
        let wakes = (1..400_u64).map(|turn| {
            at += 1_050_000 + turn * turn % 2_003 + if turn % 50 == 7 { 30_000_000 } else { 0 };
            let due_ns = BEGIN + at;
            Wake {
                due_ns: Some(due_ns),
                end_ns: due_ns + 10_000,
                armed_ns: Some(due_ns - 1_000_000),
                ..wait(1, 0, 0)
            }
        });
        let thread = after(wakes.collect::<Vec<_>>());
        assert_eq!(
            (thread.period_ns(), thread.timing()),
            (None, Timing::Irregular)
        );
        assert_eq!(thread.tally.missed, 0);
    }

    #[test]
    fn a_thread_that_rests_on_purpose_skips_nothing() {
        // 1 ms while there is work, and 100 ms while there is none.
        let resting = (0..50).map(|turn| wait(200 + 100 * turn, -99_500_000, 10_000));
        let thread = after((1..101).map(|it| wait(it, -500_000, 10_000)).chain(resting));
        assert_eq!((thread.period_ns(), thread.tally.missed), (Some(PERIOD), 0));
    }

    #[test]
    fn two_timers_that_one_call_waits_for_are_told_apart() {
        let each = |number: u32, every: u64| {
            let due = move |turn: u64| wait(turn * every, -1, 10_000 + u64::from(number));
            (1..400 / every).map(move |turn| Wake {
                timer: Timer::Object(number),
                armed_ns: None,
                ..due(turn)
            })
        };
        let mut wakes: Vec<Wake> = each(1, 3).chain(each(2, 7)).collect();
        wakes.sort_by_key(|wake| wake.end_ns);
        wakes.dedup_by_key(|wake| wake.due_ns);
        wakes.retain(|wake| wake.due_ns.is_some_and(|it| it % 21 != 0));
        let thread = after(wakes);
        assert_eq!(thread.period_ns(), Some(3 * PERIOD));
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
            thread.add_wake_up(&wait(1, -1, 10_000));
        }
        thread.end();
        assert_eq!((thread.tally.count(), thread.received), (1, 10_000));
        for number in 0..1000 {
            let mut wake = wait(2 + number, -1, 10_000);
            wake.call = number as u32;
            thread.add_wake_up(&wake);
        }
        assert!(thread.rhythms.len() <= RHYTHMS);
        assert!(thread.rhythms.values().all(|it| it.gaps.len() <= GAPS));
    }
}
