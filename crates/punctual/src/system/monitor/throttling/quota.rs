//! The CPU quota of a control group, and how long it throttled threads during a run.

use punctual_machine::root::Root;
use punctual_machine::survey::cgroup::throttling;
use punctual_record::explanation::GroupThrottling;
use punctual_record::{Event, Happening};

/// The counters at the first look.
#[derive(Debug)]
pub(super) struct Quota {
    directory: String,
    first: GroupThrottling,
    /// The event as last reported.
    told: Option<Event>,
}

impl Quota {
    /// Absent if the kernel doesn't count.
    pub(super) fn begin(root: &Root, directory: &str) -> Option<Self> {
        Some(Self {
            directory: directory.to_owned(),
            first: throttling(root, directory)?,
            told: None,
        })
    }

    /// Reports it the first time, and then updates that event. Its instant remains
    /// that of the first report.
    pub(super) fn look(&mut self, root: &Root, at_ns: u64, events: &mut Vec<Event>) {
        let Some(now) = throttling(root, &self.directory) else {
            return;
        };
        let periods = now.periods.saturating_sub(self.first.periods);
        if periods == 0 {
            return;
        }
        let event = Event::new(
            self.told.as_ref().map_or(at_ns, |told| told.at_ns),
            Happening::Quota {
                group: self.directory.clone(),
                periods,
                throttled_ns: now.ns.saturating_sub(self.first.ns),
            },
        );
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
