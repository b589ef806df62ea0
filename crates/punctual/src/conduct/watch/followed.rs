//! One watched thread: its wake-ups as samples, its period if it has one, and the periods that it
//! skipped.

use std::collections::{BTreeMap, BTreeSet};

use punctual_stats::histogram::Histogram;
use punctual_stats::skips::Skips;

use self::row::Ended;
use super::budgets::Budgets;
use super::limits::Limits;
use super::paced::{Anew, CameBack, Key, Paced, key_of};
use super::skipped::{Instant, overran_ns, skipped, split_untaken, taken_at_once, unsure};
use super::stopped::ThreadStops;
use crate::probe::cycle::Sample;
use crate::probe::tally::Tally;
use punctual_record::watch::Timing;
use punctual_trace::calls;
use punctual_trace::watch::rhythm::{Rhythm, TimerPattern};
use punctual_trace::watch::{Call, Job, RepeatingTimer, Sleeper, StoppedThread, Timer, Wake};

/// Pairs of instants that are kept until it is known whether there is a period.
const GAPS: usize = 64;
/// Timers of a thread that are tracked.
const RHYTHMS: usize = 16;
/// Intervals that are kept.
const INTERVALS: usize = 64;

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
    limits: Limits,
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
    /// Instants that passed while it was awake, for which it may have come back later than the deadline.
    pub perhaps_late: u64,
    /// How many of these were late by no more than a time, and the longest such time.
    bounded: (u64, u64),
    /// Since when its program is not watched any more.
    left_ns: Option<u64>,
    /// Its stops, and what happened in them.
    pub stops: ThreadStops,
    /// The number of received wake-ups and stops, and how many had been written before the rings were last emptied.
    pub received: u64,
    written: u64,
    /// Whether it has ended and no more data comes.
    pub gone: bool,
    /// The threads of its name that ended and whose row it continues.
    pub before: Option<Box<Ended>>,
    rhythms: BTreeMap<Key, Paced>,
    /// The instants of timers that the program makes anew for each.
    anew: Anew,
    /// At which distance the kernel arms timers.
    intervals: BTreeMap<u32, u64>,
    /// Timers that other threads serve too: what one does not come for, another may.
    shared: BTreeSet<u32>,
    last_end_ns: u64,
    /// How long it slept, in all waits.
    rested_ns: u64,
    /// Wake-ups that went unseen before the received ones.
    unseen: u64,
}

impl Followed {
    /// A thread that is seen for the first time, on a CPU.
    #[must_use]
    pub fn new(sleeper: Sleeper, met_on: u32, tally: Tally, limits: Limits) -> Self {
        Self {
            sleeper,
            met_on,
            calls: Vec::new(),
            stops: ThreadStops::new(tally.start_ns(), limits.strictest_ns()),
            tally,
            limits,
            by_timer: Histogram::new(),
            by_others: Histogram::new(),
            overruns: 0,
            worst_overrun_ns: 0,
            skips: Skips::default(),
            skipped_itself: 0,
            budgets: Budgets::default(),
            perhaps_late: 0,
            bounded: (0, 0),
            left_ns: None,
            received: 0,
            written: 0,
            gone: false,
            before: None,
            rhythms: BTreeMap::new(),
            anew: Anew::default(),
            intervals: BTreeMap::new(),
            shared: BTreeSet::new(),
            last_end_ns: 0,
            rested_ns: 0,
            unseen: 0,
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

    /// Other threads serve a timer of it too.
    pub fn share(&mut self, timer: u32) {
        self.shared.insert(timer);
    }

    /// Whether they do.
    #[must_use]
    pub fn shares(&self, timer: u32) -> bool {
        self.shared.contains(&timer)
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

    /// Takes the interval of a timer that the kernel arms.
    pub fn add_interval(&mut self, timer: &RepeatingTimer) {
        self.received += 1;
        // The periods of more timers are found from their instants.
        if self.intervals.len() >= INTERVALS {
            self.intervals.clear();
        }
        self.intervals.insert(timer.timer, timer.interval_ns);
    }

    /// Adds its next wake-up, or its return for an instant that passed while it was awake; returns what is counted of
    /// it, if it is measured. Wake-ups in a stop do not count.
    pub fn add_wake_up(&mut self, wake: &Wake) -> Option<Sample> {
        self.received += 1;
        self.unseen += wake.unseen;
        self.rested_ns += wake.slept_ns();
        if wake.unsure {
            self.add_unsure(wake);
            return None;
        }
        if wake.afresh {
            self.rhythms
                .values_mut()
                .for_each(|paced| paced.last = None);
        }
        if let Some(perhaps) = self.begins_anew(wake) {
            self.perhaps_late += perhaps;
            if wake.next_ns.is_some() {
                return None;
            }
        }
        // A step of CLOCK_REALTIME put its instant before the machine's start.
        if wake.from_ns() > wake.end_ns {
            self.perhaps_late += 1;
            return None;
        }
        let mut from_ns = wake.from_ns();
        let mut measured = true;
        let mut counted = 0;
        if let Some(next_ns) = wake.next_ns {
            let came = self.came_back_for(wake, next_ns)?;
            (from_ns, measured) = (came.due_ns, came.measured);
            if let Some(period_ns) = came.period_ns {
                counted = self.left_out(wake, from_ns, period_ns);
            }
        }
        let passed = wake.next_ns.is_some() || from_ns <= self.last_end_ns;
        self.last_end_ns = wake.end_ns;
        if wake.due_ns.is_some() {
            // Otherwise it waits for the same instant again: not a new wait.
            if let Some(late_ns) = self.pace(wake, from_ns, passed, counted)? {
                self.overruns += 1;
                self.worst_overrun_ns = self.worst_overrun_ns.max(late_ns);
            }
        }
        if !measured {
            return None;
        }
        // What a stop made it miss, it catches up with afterwards.
        if passed && self.stops.took(from_ns) {
            return None;
        }
        let mut late_ns = wake.end_ns.saturating_sub(from_ns);
        let strictest_ns = self.limits.strictest_ns();
        if wake.next_ns.is_some() && !wake.rearmed && late_ns > strictest_ns {
            // It came at some time between: not before it had armed the timer.
            let least_ns = wake.armed_ns.map_or(0, |it| it.saturating_sub(from_ns));
            let undecided = self.limits.are_undecided(least_ns, late_ns);
            self.may_be_late(u64::from(undecided), late_ns);
            if least_ns <= strictest_ns {
                return None;
            }
            late_ns = least_ns;
        }
        let sample = self.stops.left_of(Sample {
            requested_ns: from_ns,
            late_ns: i64::try_from(late_ns).unwrap_or(i64::MAX),
            missed: 0,
        })?;
        self.count(sample, wake.due_ns.is_some());
        Some(sample)
    }

    fn count(&mut self, sample: Sample, by_timer: bool) {
        let by = match by_timer {
            true => &mut self.by_timer,
            false => &mut self.by_others,
        };
        by.record(sample.latency_ns());
        self.tally.record_all(&[sample]);
    }

    /// A timer that the kernel arms for each period, and that the program now armed itself, had been stopped: what
    /// would have been its instants meanwhile were none. Returns how many may have been, because the first had passed
    /// and nobody saw whether that was before it was stopped; `None` for another timer.
    fn begins_anew(&mut self, wake: &Wake) -> Option<u64> {
        let (Timer::Object(number) | Timer::Length(number)) = wake.timer else {
            return None;
        };
        // Who armed it is not known of each.
        wake.due_ns.and(wake.armed_ns)?;
        let paced = self.rhythms.get_mut(&Key::Object(number))?;
        let again = paced.by_kernel && !wake.rearmed;
        paced.by_kernel |= wake.rearmed;
        if !again {
            return None;
        }
        paced.last = None;
        let passed_ns = wake.end_ns.saturating_sub(wake.from_ns());
        let in_time = wake.next_ns.is_none() || passed_ns <= self.limits.strictest_ns();
        if in_time || self.stops.between(wake.from_ns(), wake.end_ns) {
            return Some(0);
        }
        let more = paced
            .rhythm
            .period_ns()
            .map_or(0, |it| passed_ns / it.max(1));
        Some(1 + more)
    }

    /// For which instant of those that passed while it was awake it came back: the last one; and whether that
    /// is certain. A timeout of its own sleep that is on no grid was no instant of the program.
    fn came_back_for(&mut self, wake: &Wake, next_ns: u64) -> Option<CameBack> {
        let due_ns = wake.from_ns();
        let mut paced = self.rhythms.get_mut(&key_of(wake));
        let pattern = (paced.as_ref()).map_or(TimerPattern::Unknown, |it| it.rhythm.pattern());
        if matches!(wake.timer, Timer::Instant | Timer::Length(0)) {
            let (paced, last) = paced.as_ref().and_then(|it| Some((it, it.last?)))?;
            match pattern {
                TimerPattern::Unknown => return Some(CameBack::of(due_ns, false)),
                _ => paced.rhythm.periods(last.due_ns, due_ns)?,
            };
        }
        let period_ns = match (pattern, &mut paced) {
            (TimerPattern::Period(period_ns), _) => period_ns,
            // Until that is known: the kernel arms it some periods later.
            (_, Some(paced)) if wake.rearmed => {
                let length_ns = next_ns.saturating_sub(due_ns);
                let least_ns = paced.least_ns.unwrap_or(length_ns).min(length_ns);
                *paced.least_ns.insert(least_ns)
            }
            _ => return Some(CameBack::of(due_ns, true)),
        };
        let last_ns = next_ns.saturating_sub(period_ns);
        let on_grid = last_ns > due_ns.saturating_add(period_ns / 2) && last_ns <= wake.end_ns;
        Some(CameBack {
            due_ns: if on_grid { last_ns } else { due_ns },
            measured: true,
            period_ns: (!matches!(pattern, TimerPattern::Period(_))).then_some(period_ns),
        })
    }

    /// Counts the instants that got no cycle because the thread came back for a later one, while it is not known
    /// whether there is a period: the gaps of a timer count only when it is. Returns their number.
    fn left_out(&mut self, wake: &Wake, due_ns: u64, period_ns: u64) -> u64 {
        let first_ns = wake.from_ns();
        let count = due_ns.saturating_sub(first_ns) / period_ns.max(1);
        let bound = |due_ns: u64| Instant {
            due_ns,
            begun_ns: Some(wake.end_ns),
            end_ns: wake.end_ns,
            passed: true,
            ..Instant::default()
        };
        let (from, to) = (bound(first_ns.saturating_sub(period_ns)), bound(due_ns));
        self.count_skipped(from, to, period_ns, count);
        count
    }

    /// Counts so many instants after one as skipped.
    fn count_skipped(&mut self, from: Instant, to: Instant, period_ns: u64, count: u64) {
        for (skip, itself) in skipped(&mut self.stops, from, to, period_ns, count) {
            if self.tally.skip(&skip) {
                self.skips.push(skip);
                self.skipped_itself += if itself { skip.count } else { 0 };
            }
        }
    }

    /// Updates the thread's period from a timer, and returns how late the wait began because of the
    /// thread itself; `None` for an instant that is not new.
    fn pace(
        &mut self,
        wake: &Wake,
        due_ns: u64,
        passed: bool,
        counted: u64,
    ) -> Option<Option<u64>> {
        let key = key_of(wake);
        // It comes back for what passed while it was awake when it arms the timer for the next.
        let begun_ns = match wake.next_ns {
            Some(_) => Some(wake.end_ns),
            None => wake.armed_ns,
        };
        // What began late because of a stop is not the thread's own: nor is that of the waits after it
        // by which it catches up.
        let stopped = (self.stops).between(due_ns, begun_ns.unwrap_or(due_ns));
        if !self.rhythms.contains_key(&key) {
            self.meet(key, begun_ns);
        }
        if matches!(key, Key::Object(_)) && !wake.rearmed && !stopped {
            let least_ns = self.tally.start_ns();
            let limit_ns = self.limits.strictest_ns();
            self.anew.add(due_ns, begun_ns, limit_ns, least_ns);
        }
        let overran_ns = |last| overran_ns(last, due_ns, begun_ns).filter(|_| !stopped);
        let paced = self.rhythms.entry(key).or_insert_with(|| Paced {
            rhythm: match key {
                Key::Length(_) | Key::ObjectLength(_) => Rhythm::of_lengths(),
                Key::Instant(_) | Key::Object(_) => Rhythm::default(),
            },
            ..Paced::default()
        });
        // It was armed after it had passed, or its clock was set: it is late, and nothing lies between.
        let is_earlier = paced.last.is_some_and(|last| due_ns < last.due_ns);
        let instant = Instant {
            due_ns,
            begun_ns,
            rearmed: wake
                .armed_ns
                .filter(|_| wake.rearmed)
                .map(|at_ns| (at_ns, wake.from_ns())),
            end_ns: wake.end_ns,
            rested_ns: self.rested_ns,
            slept_ns: wake.slept_ns(),
            polled: calls::polls(wake.call),
            passed,
            overran_ns: overran_ns(paced.last.as_ref()).filter(|_| !is_earlier),
            counted,
            // Also those before other wake-ups since its last instant.
            unseen: self.unseen - paced.unseen_before,
        };
        paced.unseen_before = self.unseen;
        if let Some(last) = paced.last.filter(|_| !is_earlier) {
            if due_ns == last.due_ns {
                return None;
            }
            let waited = !wake.rearmed && wake.armed_ns > Some(due_ns) && !stopped;
            paced.catch_ups += u64::from(waited);
            paced.gaps.push_back((last, instant));
        }
        paced.last = Some(instant);
        paced.left = 0;
        paced.instants += 1;
        if let Key::Object(timer) = key {
            let interval_ns = self.intervals.get(&timer).copied();
            paced
                .rhythm
                .set_interval(interval_ns.filter(|_| wake.rearmed));
        }
        paced.rhythm.add_instant(due_ns, begun_ns);
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
            TimerPattern::Unknown
                if end && !matches!(key, Key::Length(_) | Key::ObjectLength(_)) =>
            {
                self.perhaps_late += unsure(paced.gaps.iter());
                paced.gaps.clear();
                return;
            }
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
        paced.learn(period_ns);
        let (mut settled, mut perhaps) = (Vec::new(), Vec::new());
        while let Some((from, to)) = paced.gaps.front().copied() {
            let rhythm = &paced.rhythm;
            let periods = rhythm.periods(from.due_ns, to.due_ns);
            let on_grid = periods.is_some();
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
                break;
            }
            paced.early = paced.early.saturating_sub(1);
            let count = rhythm.skipped(from.due_ns, to.due_ns, to.begun_ns);
            let mut count = count.saturating_sub(to.unseen).saturating_sub(to.counted);
            paced.gaps.pop_front();
            paced.leaps += u64::from(count > 0);
            let catches_up = paced.catch_ups > 2 && paced.catch_ups * 4 >= paced.leaps;
            if catches_up || paced.is_planned((&from, &to), period_ns, periods) {
                self.perhaps_late += count;
                count = 0;
            }
            if matches!(key, Key::Object(timer) if self.shared.contains(&timer)) {
                count = 0;
            }
            let unarmed = match key {
                // A program that computes its sleeps from the clock serves those whose time is up without a call.
                Key::Length(_) | Key::ObjectLength(_) => {
                    (to.begun_ns).is_some_and(|begun_ns| !self.stops.between(from.due_ns, begun_ns))
                }
                // What another thread arms, a busy one takes without a wait.
                Key::Object(_) => to.begun_ns.is_none(),
                Key::Instant(_) => false,
            };
            if unarmed && from.due_ns >= self.tally.start_ns() {
                let (certain, others) = split_untaken(
                    &mut self.stops,
                    (&from, &to),
                    period_ns,
                    count,
                    &self.limits,
                );
                perhaps.push(others);
                count = certain;
            }
            settled.push((from, to, period_ns, count));
        }
        for (count, most_ns) in perhaps {
            self.may_be_late(count, most_ns);
        }
        for (from, to, period_ns, count) in settled {
            let woken_late = from.end_ns.saturating_sub(from.due_ns) > self.limits.strictest_ns();
            let taken = taken_at_once(&from, &to, period_ns, count);
            // Woken on time it worked, and then took them: that was no cycle of the last one.
            let Some(taken) = taken.filter(|it| !it.in_between || woken_late) else {
                self.count_skipped(from, to, period_ns, count);
                continue;
            };
            let last = taken.last;
            self.count_skipped(from, last, period_ns, taken.count - 1);
            self.count_skipped(last, to, period_ns, count - taken.count);
            if taken.in_between {
                self.perhaps_late += 1;
                continue;
            }
            let sample = self.stops.left_of(Sample {
                requested_ns: last.due_ns,
                late_ns: i64::try_from(last.end_ns - last.due_ns).unwrap_or(i64::MAX),
                missed: 0,
            });
            if let Some(sample) = sample {
                self.count(sample, true);
            }
        }
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
            Some((Key::Length(_) | Key::ObjectLength(_), _)) => Timing::Lengths,
            Some((_, TimerPattern::Unknown)) => Timing::Unknown,
            Some((_, TimerPattern::Irregular | TimerPattern::Period(_))) => Timing::Irregular,
        }
    }

    /// The rings are emptied now: what was written before must arrive.
    pub fn await_written(&mut self) {
        self.written = self.sleeper.wake_ups;
    }

    /// Whether everything that was written has arrived.
    #[must_use]
    pub fn has_arrived(&self) -> bool {
        self.received >= self.sleeper.wake_ups
    }

    /// Wake-ups that were overwritten before they were read.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let before = self.before.as_ref().map_or(0, |it| it.lost);
        (self.written.saturating_sub(self.received)).saturating_add(before)
    }
}

mod ends;
mod row;

#[cfg(test)]
mod tests;
