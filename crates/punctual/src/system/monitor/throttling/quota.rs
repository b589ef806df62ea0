//! The CPU quota of a control group, and for how long it throttled threads during a run.

use super::window::ms;
use crate::system::cgroup::throttling;
use crate::system::root::Root;
use punctual_record::explanation::GroupThrottling;
use punctual_record::run::Event;

/// What the kernel counted by the first look.
#[derive(Debug)]
pub(super) struct Quota {
    directory: String,
    first: GroupThrottling,
    /// The event as it was told last.
    told: Option<Event>,
}

impl Quota {
    /// Absent where the kernel doesn't count.
    pub(super) fn begin(root: &Root, directory: &str) -> Option<Self> {
        Some(Self {
            directory: directory.to_owned(),
            first: throttling(root, directory)?,
            told: None,
        })
    }

    /// Tells of it the first time, and then keeps that event up to date. It stays at the instant
    /// at which it was noticed.
    pub(super) fn look(&mut self, root: &Root, at_ns: u64, events: &mut Vec<Event>) {
        let Some(now) = throttling(root, &self.directory) else {
            return;
        };
        let periods = now.periods.saturating_sub(self.first.periods);
        if periods == 0 {
            return;
        }
        let text = format!(
            "the CPU quota of {} throttled the threads that are not real-time in {periods} \
             period{}, {} in all, summed over the CPUs: the load was weaker than requested, and a \
             probe at SCHED_OTHER was throttled too",
            self.directory,
            if periods == 1 { "" } else { "s" },
            ms(now.ns.saturating_sub(self.first.ns)),
        );
        let event = Event {
            at_ns: self.told.as_ref().map_or(at_ns, |told| told.at_ns),
            kind: "quota".to_owned(),
            text,
            invalidates: false,
        };
        let told = self.told.replace(event.clone());
        match events
            .iter_mut()
            .find(|known| Some(&**known) == told.as_ref())
        {
            Some(known) => *known = event,
            None => events.push(event),
        }
    }
}
