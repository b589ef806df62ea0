//! The instants of one timer of a watched thread.

use std::collections::{BTreeSet, VecDeque};

use super::skipped::{Instant, is_planned};
use punctual_trace::watch::rhythm::Rhythm;
use punctual_trace::watch::{Timer, Wake};

/// A timer of the thread: the system call of its own sleep, or the number of another timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Length(u32),
    ObjectLength(u32),
    Instant(u32),
    Object(u32),
}

/// The instants of one timer.
#[derive(Default)]
pub(super) struct Paced {
    pub(super) rhythm: Rhythm,
    pub(super) instants: u64,
    pub(super) last: Option<Instant>,
    /// The shortest time from an instant that passed while it was awake to the next.
    pub(super) least_ns: Option<u64>,
    /// Wake-ups of the thread that had gone unseen when its last instant came.
    pub(super) unseen_before: u64,
    pub(super) gaps: VecDeque<(Instant, Instant)>,
    /// How many of these came before the period was known.
    pub(super) early: usize,
    /// Whether the kernel armed it for a next period.
    pub(super) by_kernel: bool,
    /// How often the thread waited for the next instant although it had passed: it catches up, and skips none.
    pub(super) catch_ups: u64,
    /// Distances in which it may have skipped some.
    pub(super) leaps: u64,
    /// Distances, in periods, in which it left instants out that were to come: it does so by a plan.
    pub(super) planned: BTreeSet<u64>,
    /// Instants that passed after its last one before another timer was made, perhaps in its place.
    pub(super) left: u64,
}

/// Distances that are kept.
const PLANNED: usize = 16;

impl Paced {
    /// Learns from what is to be settled which distances are planned.
    pub(super) fn learn(&mut self, period_ns: u64) {
        for (from, to) in &self.gaps {
            let Some(periods) = self.rhythm.periods(from.due_ns, to.due_ns) else {
                continue;
            };
            if self.planned.len() < PLANNED && is_planned(from, to, period_ns, true) {
                self.planned.insert(periods);
            }
        }
    }

    /// Whether the program may have left instants out on purpose: in this distance of so many periods, or in another
    /// one as long.
    pub(super) fn is_planned(
        &self,
        (from, to): (&Instant, &Instant),
        period_ns: u64,
        periods: Option<u64>,
    ) -> bool {
        is_planned(from, to, period_ns, periods.is_some())
            || periods.is_some_and(|periods| self.planned.contains(&periods))
    }
}

/// The instants of timers that are armed by the program, one after the other, whichever timers these are. They
/// count for a program that makes a timer for each: no timer has a period then.
#[derive(Default)]
pub(super) struct Anew {
    rhythm: Rhythm,
    last_ns: u64,
    /// Instants that had passed by more than the strictest limit when the next timer was armed.
    pub(super) leaps: u64,
}

impl Anew {
    /// The same of a wake-up by a timer.
    pub(super) fn add_wake_up(&mut self, wake: &Wake, limit_ns: u64, least_ns: u64) {
        let begun_ns = wake.next_ns.map(|_| wake.end_ns).or(wake.armed_ns);
        self.add(wake.from_ns(), begun_ns, limit_ns, least_ns);
    }

    /// The last instant, and the period.
    pub(super) fn last(&self) -> Option<(u64, u64)> {
        Some((self.last_ns, self.rhythm.period_ns()?))
    }

    /// Takes the next instant, and when its timer was armed; before `least_ns` none counts.
    pub(super) fn add(&mut self, due_ns: u64, begun_ns: Option<u64>, limit_ns: u64, least_ns: u64) {
        if due_ns <= self.last_ns {
            return;
        }
        self.rhythm.add_instant(due_ns, begun_ns);
        let over_ns = begun_ns.map(|it| it.saturating_sub(limit_ns));
        if let Some(over_ns) = over_ns.filter(|_| self.last_ns >= least_ns) {
            self.leaps += self.rhythm.skipped(self.last_ns, due_ns, Some(over_ns));
        }
        self.last_ns = due_ns;
    }
}

/// The instant for which a thread came back.
pub(super) struct CameBack {
    pub(super) due_ns: u64,
    /// Whether it was one for certain.
    pub(super) measured: bool,
    /// The distance of its instants as far as it is known, while it is not known whether there is a period.
    pub(super) period_ns: Option<u64>,
}

impl CameBack {
    pub(super) fn of(due_ns: u64, measured: bool) -> Self {
        Self {
            due_ns,
            measured,
            period_ns: None,
        }
    }
}

/// Who serves a timer.
pub(super) struct Served {
    /// The thread that did so last, by its place.
    pub(super) place: usize,
    /// How often that was another one than before.
    pub(super) turns: u64,
    /// What all of them took.
    pub(super) instants: Anew,
}

impl Served {
    pub(super) fn by(place: usize) -> Self {
        Self {
            place,
            turns: 0,
            instants: Anew::default(),
        }
    }

    pub(super) fn is_shared(&self) -> bool {
        self.turns > 1
    }
}

pub(super) fn key_of(wake: &Wake) -> Key {
    match wake.timer {
        Timer::Length(0) => Key::Length(wake.call),
        Timer::Length(number) => Key::ObjectLength(number),
        Timer::Instant => Key::Instant(wake.call),
        Timer::Object(number) => Key::Object(number),
    }
}
