//! A thread that takes the row of one that has ended.

use super::Followed;
use punctual_record::Faults;
use punctual_record::watch::WatchedThread;
use punctual_trace::watch::Sleeper;

/// Threads that ended, of one name, as far as no tally has it.
pub struct Ended {
    pub watched: WatchedThread,
    pub faults: Faults,
    pub preempted: u64,
    pub(super) lost: u64,
}

/// A name without its numbers.
fn letters(name: &str) -> impl Iterator<Item = &str> {
    let parts = name.split(|it: char| it.is_ascii_digit());
    parts.filter(|it| !it.is_empty())
}

impl Followed {
    /// A thread that takes the row of this one, which has ended: for want of room, its figures are added to it.
    #[must_use]
    pub fn succeed(mut self, watched: WatchedThread, sleeper: Sleeper, met_on: u32) -> Self {
        debug_assert!(self.sleeper.has_ended(), "its figures are final");
        let others = watched.others + 1;
        let before = Ended {
            watched: WatchedThread { others, ..watched },
            faults: self.faults(),
            preempted: self.preempted(),
            lost: self.lost(),
        };
        self.stops.forget();
        Self {
            before: Some(Box::new(before)),
            stops: self.stops,
            ..Self::new(sleeper, met_on, self.tally, self.limits)
        }
    }

    /// Page faults in its row.
    pub fn faults(&self) -> Faults {
        let before = self.before.as_ref().map(|it| it.faults);
        let (minor, major) = before.map_or((0, 0), |it| (it.minor, it.major));
        Faults {
            minor: self.sleeper.minor_faults.saturating_add(minor),
            major: self.sleeper.major_faults.saturating_add(major),
        }
    }

    /// Involuntary switches in its row.
    pub fn preempted(&self) -> u64 {
        let before = self.before.as_ref().map_or(0, |it| it.preempted);
        self.sleeper.preempted.saturating_add(before)
    }

    /// Whether a thread may take its row: it has ended, and is of that name but for numbers, and of that policy.
    #[must_use]
    pub fn makes_room_for(&self, sleeper: &Sleeper) -> bool {
        let (own, other) = (&self.sleeper, sleeper);
        let kind = |it: &Sleeper| (it.program, it.task.policy, it.task.priority);
        self.gone
            && kind(own) == kind(other)
            && letters(&own.task.name).eq(letters(&other.task.name))
    }
}
