//! Whether a load went on working, looked at every second.

use serde::{Deserialize, Serialize};

use super::run::Load;

/// The share of the time looked at that a load may spend without work.
pub const IDLE_SHARE: f64 = 0.1;

/// The work of a load, looked at in stretches of at least a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkCheck {
    /// Time in the stretches that were looked at. Time in which this program itself did not
    /// run (it was stopped, or the whole machine was) is not in it.
    pub looked_ns: u64,
    /// Of it, in stretches without work. Where a part of its processes was stopped and others
    /// worked, that part of the stretch.
    pub idle_ns: u64,
    /// The longest time without work.
    pub longest_idle_ns: u64,
    /// CPU time that the load's processes had to use in each second to count as working; 0
    /// where this was not checked. Absent for a generator, whose counts have to grow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_cpu_ns: Option<u64>,
}

impl WorkCheck {
    /// Share of the time looked at without work; 0 where it was not checked.
    #[must_use]
    pub fn idle_share(&self) -> f64 {
        if self.looked_ns == 0 {
            return 0.0;
        }
        self.idle_ns as f64 / self.looked_ns as f64
    }

    /// Whether nobody was to look.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.least_cpu_ns == Some(0)
    }

    /// Adds what was seen in another run.
    pub fn merge(&mut self, other: &Self) {
        self.looked_ns = self.looked_ns.saturating_add(other.looked_ns);
        self.idle_ns = self.idle_ns.saturating_add(other.idle_ns);
        self.longest_idle_ns = self.longest_idle_ns.max(other.longest_idle_ns);
    }
}

/// Why a run beside this load is not valid.
pub(super) fn invalid(load: &Load) -> Option<String> {
    let name = &load.name;
    if let Some(reason) = &load.failed {
        return Some(format!("the load {name} failed: {reason}"));
    }
    let off = load.check.is_some_and(|check| check.is_off());
    if load.work == 0 && !off {
        return Some(format!("the load {name} did nothing"));
    }
    idle(load).map(|what| format!("the load {name} {what}"))
}

/// That it was without work for too long, if it was.
pub(super) fn idle(load: &Load) -> Option<String> {
    let check = load.check?;
    if check.idle_share() <= IDLE_SHARE {
        return None;
    }
    let why = match check.least_cpu_ns {
        None => format!(
            "the number of its {} did not grow, or processes of it were stopped",
            load.unit
        ),
        Some(least_ns) => format!(
            "its processes used less than {} ms of CPU time per second, or some were stopped; \
             --load-work sets that least, and 0 turns the check off",
            least_ns as f64 / 1e6
        ),
    };
    Some(format!(
        "did no work in {:.1} of {:.1} s, where {:.0} % of the time is allowed ({why})",
        check.idle_ns as f64 / 1e9,
        check.looked_ns as f64 / 1e9,
        IDLE_SHARE * 100.0
    ))
}
