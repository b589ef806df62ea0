//! The instants of one timer of a watched thread.

use std::collections::VecDeque;

use super::skipped::Instant;
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

pub(super) fn key_of(wake: &Wake) -> Key {
    match wake.timer {
        Timer::Length(0) => Key::Length(wake.call),
        Timer::Length(number) => Key::ObjectLength(number),
        Timer::Instant => Key::Instant(wake.call),
        Timer::Object(number) => Key::Object(number),
    }
}
