//! Stops of a watched program (a stop signal, a debugger, a freezer), which the kernel reports for each
//! thread: what happened in them, and which of them are one stop of several threads.

use std::collections::VecDeque;

use crate::probe::cycle::Sample;
use crate::probe::stops::{Lateness, RESUME_NS, exclude, recorded};
use punctual_record::{Stop, StopCause, Stops};

/// Stops of a thread that are kept: events that arrive late may be in one of them.
const KEPT: usize = 256;
/// Stops of the program to which a thread's stop may still belong.
const OPEN: usize = 1024;

/// The stops of one thread.
pub struct ThreadStops {
    start_ns: u64,
    lateness: Lateness,
    kept: VecDeque<(u64, u64)>,
    /// The number of stops.
    pub count: u64,
    /// Wake-ups and periods in them.
    pub cycles: u64,
}

/// Instants that follow each other.
#[derive(Clone, Copy)]
pub struct Instants {
    pub at_ns: u64,
    pub count: u64,
    pub period_ns: u64,
}

/// A part of them: the first, the number, and the following stop, if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub first: u64,
    pub count: u64,
    pub until_ns: Option<u64>,
}

impl ThreadStops {
    /// No stops; what was before the start does not count. A wake-up later than the deadline is late.
    pub fn new(start_ns: u64, deadline_ns: u64) -> Self {
        Self {
            start_ns,
            lateness: Lateness {
                interval_ns: 0,
                certain_ns: deadline_ns.min(RESUME_NS),
                more_ns: 0,
                deadline_ns,
            },
            kept: VecDeque::new(),
            count: 0,
            cycles: 0,
        }
    }

    /// Another thread follows: what was counted stays.
    pub fn forget(&mut self) {
        self.kept.clear();
        self.count = 0;
    }

    /// Adds the next stop.
    pub fn add(&mut self, from_ns: u64, to_ns: u64) {
        if self.kept.len() >= KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back((from_ns, to_ns));
        self.count += 1;
    }

    /// Whether a stop overlaps the time between two instants.
    pub fn between(&self, from_ns: u64, to_ns: u64) -> bool {
        let lies = |(begin, end): &(u64, u64)| *begin < to_ns && *end > from_ns;
        self.kept.iter().any(lies)
    }

    /// Whether an instant that had passed when the thread came for it was in a stop, which is counted then.
    pub fn took(&mut self, due_ns: u64) -> bool {
        let took = due_ns >= self.start_ns && self.between(due_ns, due_ns.saturating_add(1));
        self.cycles += u64::from(took);
        took
    }

    /// The part of a wake-up outside stops: all of it, some, or nothing.
    pub fn left_of(&mut self, sample: Sample) -> Option<Sample> {
        if !self.between(sample.requested_ns, sample.woke_ns()) {
            return Some(sample);
        }
        let mut left = vec![sample];
        for stop in &self.kept {
            exclude(&mut left, *stop, self.lateness, self.start_ns);
        }
        let left = left.first().copied();
        self.cycles += u64::from(left.is_none());
        left
    }

    /// The skipped instants that are not in a stop. A thread that continues at `resumed_ns`, soon after
    /// a stop, had no time for those that were due in between.
    pub fn outside(&mut self, instants: Instants, resumed_ns: u64) -> Vec<Part> {
        let Instants {
            at_ns,
            count,
            period_ns,
        } = instants;
        let first_from = |ns: u64| {
            let ahead = ns.saturating_sub(at_ns).div_ceil(period_ns.max(1));
            ahead.min(count)
        };
        let started = first_from(self.start_ns);
        let mut next = 0;
        let mut parts = Vec::new();
        let mut push = |first: u64, end: u64, until_ns| {
            if end > first {
                let count = end - first;
                parts.push(Part {
                    first,
                    count,
                    until_ns,
                });
            }
        };
        for &(from_ns, to_ns) in &self.kept {
            let over_ns = to_ns.saturating_add(RESUME_NS);
            let over_ns = if resumed_ns > over_ns { to_ns } else { over_ns };
            if over_ns <= at_ns || from_ns >= resumed_ns {
                continue;
            }
            let (within, after) = (first_from(from_ns), first_from(over_ns).max(next));
            push(next, within, Some(from_ns));
            let counted = after.saturating_sub(within.max(next).max(started));
            self.cycles = self.cycles.saturating_add(counted);
            next = after;
        }
        push(next, count, None);
        parts
    }
}

/// The stops of the whole program: overlapping stops of several threads are one.
#[derive(Clone)]
pub struct ProgramStops {
    start_ns: u64,
    open: VecDeque<Joined>,
    closed: Stops,
}

#[derive(Clone, Copy)]
struct Joined {
    from_ns: u64,
    to_ns: u64,
    cause: StopCause,
    /// The only thread.
    tid: Option<u32>,
}

impl Joined {
    fn stop(&self, start_ns: u64) -> Stop {
        Stop {
            // A stop signal stops every thread, also those that are not watched.
            tid: self.tid.filter(|_| self.cause != StopCause::Signal),
            ..recorded((self.from_ns, self.to_ns), self.cause, None, start_ns)
        }
    }
}

impl ProgramStops {
    /// No stops.
    pub fn new(start_ns: u64) -> Self {
        Self {
            start_ns,
            open: VecDeque::new(),
            closed: Stops::default(),
        }
    }

    /// Adds a stop of one thread.
    pub fn add(&mut self, tid: u32, (from_ns, to_ns): (u64, u64), cause: StopCause) {
        let mut new = Joined {
            from_ns: from_ns.max(self.start_ns),
            to_ns,
            cause,
            tid: Some(tid),
        };
        if new.to_ns <= new.from_ns {
            return;
        }
        self.open.retain(|other| {
            let apart = other.from_ns >= new.to_ns || other.to_ns <= new.from_ns;
            if !apart {
                if other.from_ns < new.from_ns {
                    (new.from_ns, new.cause) = (other.from_ns, other.cause);
                }
                new.to_ns = new.to_ns.max(other.to_ns);
                new.tid = new.tid.filter(|tid| other.tid == Some(*tid));
            }
            apart
        });
        let at = self.open.partition_point(|it| it.from_ns < new.from_ns);
        self.open.insert(at, new);
        if self.open.len() > OPEN
            && let Some(first) = self.open.pop_front()
        {
            self.closed.add(first.stop(self.start_ns));
        }
    }

    /// All stops, for the record.
    pub fn stops(&self) -> Stops {
        let mut stops = self.closed.clone();
        for joined in &self.open {
            stops.add(joined.stop(self.start_ns));
        }
        stops
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn stopped(stops: &[(u64, u64)]) -> ThreadStops {
        let mut thread = ThreadStops::new(5 * MS, u64::MAX);
        for (from_ms, to_ms) in stops {
            thread.add(from_ms * MS, to_ms * MS);
        }
        thread
    }

    fn instants(at_ms: u64, count: u64) -> Instants {
        Instants {
            at_ns: at_ms * MS,
            count,
            period_ns: MS,
        }
    }

    fn part(first: u64, count: u64, until_ms: Option<u64>) -> Part {
        Part {
            first,
            count,
            until_ns: until_ms.map(|ms| ms * MS),
        }
    }

    #[test]
    fn skipped_instants_within_a_stop_are_no_skipped_periods() {
        // From 10 to 59; stopped from 20 to 30, and so late after it that the rest is its own.
        let mut thread = stopped(&[(20, 30)]);
        let parts = thread.outside(instants(10, 50), 60 * MS);
        assert_eq!(parts, [part(0, 10, Some(20)), part(20, 30, None)]);
        assert_eq!(thread.cycles, 10);
        // Back within 10 ms: those until then, too.
        let mut thread = stopped(&[(20, 30)]);
        let parts = thread.outside(instants(10, 25), 36 * MS);
        assert_eq!((parts, thread.cycles), (vec![part(0, 10, Some(20))], 15));
        // A stop that is over, and one that is still ahead.
        let mut thread = stopped(&[(20, 30), (90, 95)]);
        let parts = thread.outside(instants(50, 9), 60 * MS);
        assert_eq!((parts, thread.cycles), (vec![part(0, 9, None)], 0));
        // Two, one after the other, and nothing before the start is counted.
        let mut thread = stopped(&[(0, 12), (14, 20)]);
        let parts = thread.outside(instants(1, 40), 41 * MS);
        assert_eq!(parts, [part(11, 2, Some(14)), part(19, 21, None)]);
        assert_eq!(thread.cycles, 7 + 6);
    }

    #[test]
    fn a_wake_up_that_a_stop_lies_over_counts_from_its_end() {
        let wait = |asked_ms: u64, woke_ms: u64| Sample {
            requested_ns: asked_ms * MS,
            late_ns: ((woke_ms - asked_ms) * MS) as i64,
            missed: 0,
        };
        let mut thread = stopped(&[(20, 30), (31, 40)]);
        assert_eq!(thread.left_of(wait(25, 41)), None);
        assert_eq!(thread.left_of(wait(10, 19)), Some(wait(10, 19)));
        assert_eq!(thread.left_of(wait(41, 80)), Some(wait(41, 80)));
        // The 1 ms between the two stops, and the 40 ms after them.
        assert_eq!(thread.left_of(wait(25, 80)), Some(wait(39, 80)));
        // The 12 ms before them, and that 1 ms.
        assert_eq!(thread.left_of(wait(8, 41)), Some(wait(18, 31)));
        assert_eq!(thread.cycles, 1);
        assert!(thread.between(35, 36 * MS) && !thread.between(41 * MS, 80 * MS));
    }

    #[test]
    fn threads_that_are_stopped_together_are_one_stop_and_one_alone_is_named() {
        let mut program = ProgramStops::new(10 * MS);
        program.add(2, (20 * MS, 30 * MS), StopCause::Signal);
        program.add(1, (19 * MS, 29 * MS), StopCause::Signal);
        program.add(3, (50 * MS, 60 * MS), StopCause::Debugger);
        program.add(3, (70 * MS, 71 * MS), StopCause::Debugger);
        program.add(4, (1, 12 * MS), StopCause::Freezer);
        program.add(5, (1, 9 * MS), StopCause::Freezer);
        let stops = program.stops();
        let found = stops
            .list
            .iter()
            .map(|it| (it.at_ns / MS, it.length_ns / MS, it.tid));
        let found: Vec<_> = found.collect();
        assert_eq!(
            found,
            [
                (0, 2, Some(4)),
                (9, 11, None),
                (40, 10, Some(3)),
                (60, 1, Some(3))
            ]
        );
        assert_eq!((stops.count, stops.total_ns), (4, 24 * MS));
    }

    #[test]
    fn many_stops_take_no_more_memory_and_none_is_lost() {
        let mut program = ProgramStops::new(0);
        for number in 1..5000 {
            program.add(1, (number * MS, number * MS + 10), StopCause::Debugger);
        }
        assert!(program.open.len() <= OPEN);
        assert_eq!(
            (program.stops().count, program.stops().total_ns),
            (4999, 49_990)
        );
    }
}
