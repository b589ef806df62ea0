//! Checks every second whether a load continues to work.
//!
//! The counts of a generator must grow. A generator that counts rarely (an exit of a process with
//! much memory) works as long as its processes use CPU time. A command has only its CPU time, and may
//! come in bursts: it is checked twice a second, so that a pause of a second is seen whenever it begins.
//!
//! If some of a load's processes are stopped while others work, their share counts as without work:
//! an interval counts in that proportion if they were stopped at its start and at its end.

use crate::board::Board;
use crate::job::COMMAND;
use crate::tree;
use punctual_record::WorkCheck;

/// The interval that is judged.
const STRETCH_NS: u64 = 1_000_000_000;
/// That of a command.
const OF_COMMAND_NS: u64 = STRETCH_NS / 2;
/// The most time between two checks that counts against a load. Checks are more frequent while this
/// program runs; a longer gap is a stop of this program or of the machine, or a wait for a CPU.
const MOST_BETWEEN_NS: u64 = 300_000_000;
/// The least CPU time per second of a generator that counts rarely; also the default for a command.
pub const LEAST_CPU_NS: u64 = 1_000_000;
/// In loads with more processes than this, single processes are not checked: that would cost more
/// than a stopped process matters.
const MOST_PROCESSES: u64 = 64;
/// The most times without work that are reported per load.
const MOST_TOLD: usize = 100;

/// A time without work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The load's name.
    pub load: String,
    /// When it began, in CLOCK_MONOTONIC nanoseconds.
    pub begin_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// How many of how many processes were stopped, if the others worked.
    pub stopped: Option<(usize, usize)>,
}

/// What a load did in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Did {
    /// It worked.
    Work,
    /// It worked, but some of its processes were stopped: how many of how many.
    Part(usize, usize),
    /// It did nothing.
    Nothing,
}

impl Did {
    fn stopped(self) -> Option<(usize, usize)> {
        match self {
            Did::Part(stopped, all) => Some((stopped, all)),
            Did::Work | Did::Nothing => None,
        }
    }

    /// The share of the time without work.
    fn idle_of(self, ns: u64) -> u64 {
        match self {
            Did::Work => 0,
            Did::Part(stopped, all) => (ns as f64 * stopped as f64 / all.max(1) as f64) as u64,
            Did::Nothing => ns,
        }
    }
}

/// A time without work that has not ended: its start, its length, and the stopped processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Idle {
    begin_ns: u64,
    length_ns: u64,
    stopped: Option<(usize, usize)>,
}

impl Idle {
    fn of(self, load: &str) -> Pause {
        Pause {
            load: load.to_owned(),
            begin_ns: self.begin_ns,
            length_ns: self.length_ns,
            stopped: self.stopped,
        }
    }
}

/// A load, as far as it is checked.
pub(crate) struct Seen<'a> {
    pub name: &'a str,
    pub board: &'a Board,
    /// Its supervisor's process ID, as long as it exists.
    pub supervisor: Option<i32>,
}

impl Seen<'_> {
    /// Which of its processes are stopped now.
    fn stopped(&self) -> tree::Stopped {
        let few = self.board.expected() <= MOST_PROCESSES;
        let supervisor = self.supervisor.filter(|_| few);
        supervisor.map_or_else(tree::Stopped::default, tree::stopped)
    }

    fn used(&self) -> tree::Used {
        let supervisor = self.supervisor;
        supervisor.map_or_else(tree::Used::default, tree::used)
    }
}

/// Splits time into intervals, and keeps what was seen in them.
#[derive(Debug)]
pub(crate) struct Look {
    pub check: WorkCheck,
    stretch_ns: u64,
    last_ns: Option<u64>,
    /// The start of the interval, and how much of it would count against the load.
    begin_ns: u64,
    seen_ns: u64,
    idle: Option<Idle>,
    told: usize,
    /// The counts at the last check, and whether they did not grow at a check in this interval: then
    /// the CPU time is read, in case the next interval has no counts at all.
    counts: u64,
    seldom: bool,
    before: Before,
}

/// What was read at the start of an interval.
#[derive(Debug, Default)]
struct Before {
    counts: u64,
    used: Option<tree::Used>,
    stopped: tree::Stopped,
}

impl Look {
    /// `least_cpu_ns` is that of a command; `pause_ns` the longest time without work that
    /// belongs to the load.
    pub fn new(least_cpu_ns: Option<u64>, pause_ns: u64) -> Self {
        let least = least_cpu_ns.map_or(STRETCH_NS, |_| OF_COMMAND_NS);
        Look {
            check: WorkCheck {
                least_cpu_ns,
                ..WorkCheck::default()
            },
            stretch_ns: least.max(pause_ns.saturating_mul(2)),
            last_ns: None,
            begin_ns: 0,
            seen_ns: 0,
            idle: None,
            told: 0,
            counts: 0,
            seldom: false,
            before: Before::default(),
        }
    }

    /// Checks the load; returns a time without work that has ended.
    pub fn at(&mut self, now_ns: u64, load: &Seen<'_>) -> Option<Pause> {
        let first = self.last_ns.is_none();
        let due = self.pass(now_ns);
        let counts = load.board.counts();
        if first {
            self.before = Before {
                counts,
                used: Some(load.used()),
                stopped: load.stopped(),
            };
        } else {
            self.seldom |= counts == self.counts;
        }
        self.counts = counts;
        if !due {
            return None;
        }
        let (worked, used) = self.worked(load);
        if !worked && !self.is_idle() {
            return None;
        }
        let stopped = load.stopped();
        let did = match stopped.since(&self.before.stopped) {
            _ if !worked => Did::Nothing,
            0 => Did::Work,
            still => Did::Part(still, stopped.all),
        };
        self.before = Before {
            counts,
            used,
            stopped,
        };
        self.seldom = false;
        let ended = self.judge(did)?;
        Some(ended.of(load.name))
    }

    /// The current time without work.
    pub fn last(&mut self, load: &str) -> Option<Pause> {
        Some(self.over()?.of(load))
    }

    /// Whether there was work in this interval, and the CPU time so far, if it was read.
    fn worked(&self, load: &Seen<'_>) -> (bool, Option<tree::Used>) {
        let command = load.name == COMMAND;
        let used = (command || self.seldom).then(|| load.used());
        if !command && self.counts != self.before.counts {
            return (true, used);
        }
        let least_ns = u128::from(self.check.least_cpu_ns.unwrap_or(LEAST_CPU_NS));
        let least_ns = least_ns * u128::from(self.seen_ns) / 1_000_000_000;
        let worked = match (&self.before.used, &used) {
            (Some(before), Some(now)) => u128::from(now.since(before)) >= least_ns,
            // It counted before, and now it does not.
            _ => false,
        };
        (worked, used)
    }

    /// Advances to `now_ns`; returns true if the interval may be long enough to judge.
    fn pass(&mut self, now_ns: u64) -> bool {
        let last_ns = self.last_ns.replace(now_ns).unwrap_or(now_ns);
        if self.seen_ns == 0 {
            self.begin_ns = last_ns;
        }
        self.seen_ns += now_ns.saturating_sub(last_ns).min(MOST_BETWEEN_NS);
        now_ns.saturating_sub(self.begin_ns) >= self.stretch_ns
    }

    /// Whether the interval was long enough to judge a load that did nothing.
    fn is_idle(&self) -> bool {
        self.seen_ns >= self.stretch_ns
    }

    /// Ends an interval. Returns the time without work that ended with it.
    fn judge(&mut self, did: Did) -> Option<Idle> {
        let seen_ns = std::mem::take(&mut self.seen_ns);
        let looked_ns = match did {
            Did::Nothing => seen_ns,
            Did::Work | Did::Part(..) => {
                let end_ns = self.last_ns.unwrap_or(self.begin_ns);
                end_ns.saturating_sub(self.begin_ns)
            }
        };
        self.check.looked_ns += looked_ns;
        if did == Did::Work {
            return self.over();
        }
        self.check.idle_ns += did.idle_of(seen_ns);
        // Another part of the load is another time without work.
        let stopped = did.stopped();
        let goes_on = self.idle.filter(|idle| idle.stopped == stopped);
        let ended = if goes_on.is_none() { self.over() } else { None };
        let before = goes_on.unwrap_or(Idle {
            begin_ns: self.begin_ns,
            length_ns: 0,
            stopped,
        });
        let length_ns = before.length_ns + seen_ns;
        self.idle = Some(Idle {
            length_ns,
            ..before
        });
        self.check.longest_idle_ns = self.check.longest_idle_ns.max(length_ns);
        ended
    }

    /// The time without work that has ended. Only some are reported; the check has the sum of all.
    fn over(&mut self) -> Option<Idle> {
        let over = self.idle.take()?;
        self.told += 1;
        (self.told <= MOST_TOLD).then_some(over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: u64 = 250_000_000;

    /// Ticks with the load's work, `true` where there is some in the stretch.
    fn run(look: &mut Look, from_ns: u64, ticks: u64, worked: bool) -> Vec<(u64, u64)> {
        let did = if worked { Did::Work } else { Did::Nothing };
        let ended = ticks_of(look, from_ns, ticks, did);
        ended
            .iter()
            .map(|idle| (idle.begin_ns, idle.length_ns))
            .collect()
    }

    fn ticks_of(look: &mut Look, from_ns: u64, ticks: u64, did: Did) -> Vec<Idle> {
        let mut ended = Vec::new();
        for tick in 0..ticks {
            if look.pass(from_ns + tick * TICK) && (did != Did::Nothing || look.is_idle()) {
                ended.extend(look.judge(did));
            }
        }
        ended
    }

    #[test]
    fn a_part_that_is_stopped_counts_as_that_part() {
        let mut look = Look::new(None, 0);
        run(&mut look, 0, 9, true);
        let part = |stopped| Did::Part(stopped, 4);
        assert_eq!(ticks_of(&mut look, 9 * TICK, 8, part(1)), []);
        // Another part, then all, then none.
        let idle = |begin, length, stopped| Idle {
            begin_ns: begin * TICK,
            length_ns: length * TICK,
            stopped,
        };
        let ended = ticks_of(&mut look, 17 * TICK, 4, part(2));
        assert_eq!(ended, [idle(8, 8, Some((1, 4)))]);
        let ended = ticks_of(&mut look, 21 * TICK, 4, Did::Nothing);
        assert_eq!(ended, [idle(16, 4, Some((2, 4)))]);
        let ended = ticks_of(&mut look, 25 * TICK, 4, Did::Work);
        assert_eq!(ended, [idle(20, 4, None)]);
        assert_eq!(look.check.looked_ns, 28 * TICK);
        assert_eq!(look.check.idle_ns, (8 / 4 + 4 / 2 + 4) * TICK);
        assert_eq!(look.check.longest_idle_ns, 8 * TICK);
    }

    #[test]
    fn seconds_without_work_are_summed_and_told_when_they_are_over() {
        let mut look = Look::new(None, 0);
        assert_eq!(run(&mut look, 0, 9, true), []);
        assert_eq!(run(&mut look, 9 * TICK, 12, false), []);
        assert_eq!(run(&mut look, 21 * TICK, 4, true), [(8 * TICK, 12 * TICK)]);
        let check = look.check;
        assert_eq!(check.looked_ns, 24 * TICK);
        assert_eq!(check.idle_ns, 12 * TICK);
        assert_eq!(check.longest_idle_ns, 12 * TICK);
        assert_eq!(check.idle_share(), 0.5);
    }

    #[test]
    fn a_stall_of_the_whole_machine_is_not_the_loads() {
        let mut look = Look::new(None, 0);
        run(&mut look, 0, 3, false);
        // Nothing ran for 20 s, this program neither: the load has time to go on.
        let after = 3 * TICK + 20_000_000_000;
        assert!(look.pass(after) && !look.is_idle());
        assert!(look.pass(after + TICK) && look.is_idle());
        look.judge(Did::Nothing);
        let counted = 3 * TICK + MOST_BETWEEN_NS;
        assert_eq!(look.check.idle_ns, counted);
        assert_eq!(look.check.looked_ns, counted);
        assert_eq!(look.idle.map(|idle| idle.length_ns), Some(counted));
    }

    #[test]
    fn a_program_that_seldom_runs_still_sees_that_there_was_work() {
        let mut look = Look::new(None, 0);
        let mut now_ns = 0;
        for _ in 0..5 {
            if look.pass(now_ns) {
                look.judge(Did::Work);
            }
            now_ns += 4_000_000_000;
        }
        assert_eq!(look.check.looked_ns, 16_000_000_000);
    }

    #[test]
    fn a_command_that_works_half_of_the_time_is_told_from_one_that_works() {
        // A second of work and a second of sleep, checked at any time within: of each pause at
        // least one stretch lies in it as a whole.
        for shift in 0..8 {
            let mut look = Look::new(Some(LEAST_CPU_NS), 0);
            let mut worked = false;
            for tick in 0..80 {
                worked |= (tick + shift) % 8 < 4;
                if look.pass(tick * TICK) && (worked || look.is_idle()) {
                    let did = if worked { Did::Work } else { Did::Nothing };
                    look.judge(did);
                    worked = false;
                }
            }
            assert!(look.check.idle_share() > 0.2, "{shift}: {:?}", look.check);
            assert!(look.check.is_idle());
        }
    }

    #[test]
    fn rare_work_has_a_longer_stretch() {
        let mut look = Look::new(None, 3_000_000_000);
        assert_eq!(run(&mut look, 0, 24, false), []);
        assert_eq!(look.check.looked_ns, 0);
        run(&mut look, 24 * TICK, 1, true);
        assert_eq!(look.check.looked_ns, 6_000_000_000);
        assert_eq!(look.check.idle_ns, 0);
    }
}
