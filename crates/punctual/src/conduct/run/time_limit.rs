//! RLIMIT_RTTIME: the kernel ends a real-time thread that runs longer than this without sleeping,
//! first with SIGXCPU (the soft limit), then with SIGKILL (the hard limit), which leaves no record.

use std::time::Duration;

use punctual_rt::sys::task::{rt_time_limit, set_rt_time_limit};

use super::plan::ProbePlan;
use crate::conduct::error::ConductError;

/// The limit in force during a run; restored when dropped.
#[derive(Debug, Default)]
pub struct TimeLimit {
    before: Option<(Option<u64>, Option<u64>)>,
    /// How often SIGXCPU must be checked.
    pub look: Option<Duration>,
}

impl TimeLimit {
    /// Raises the soft limit if the hard limit allows it; otherwise sets it to half of the hard limit,
    /// so that SIGXCPU comes in time to end the run.
    ///
    /// # Errors
    /// The limit would kill the probes.
    pub fn begin(plan: &ProbePlan) -> Result<Self, ConductError> {
        if plan.policy.priority() == 0 {
            return Ok(Self::default());
        }
        Self::unless(|limit_us, hard_us| {
            let gaps = plan.gaps.as_ref()?;
            let rests = gaps.runtime_ns < gaps.period_ns;
            let needs_us = rests.then(|| gaps.runtime_ns.div_ceil(1000));
            let killed = plan.polls() && needs_us.is_none_or(|needs_us| needs_us >= limit_us);
            killed.then_some(ConductError::TimeLimit { needs_us, hard_us })
        })
    }

    /// The same for threads that `refused` knows: it is told the limit that a run of theirs must stay below, and the
    /// hard limit, in µs.
    ///
    /// # Errors
    /// That of `refused`.
    pub fn unless(
        refused: impl FnOnce(u64, u64) -> Option<ConductError>,
    ) -> Result<Self, ConductError> {
        let Ok((soft_us, hard_us)) = rt_time_limit() else {
            return Ok(Self::default());
        };
        let wanted_us = hard_us.map(|us| us / 2);
        let limits = wanted_us.zip(hard_us);
        if let Some(error) = limits.and_then(|(limit_us, hard_us)| refused(limit_us, hard_us)) {
            return Err(error);
        }
        let set = soft_us != wanted_us && set_rt_time_limit(wanted_us, hard_us).is_ok();
        Ok(Self {
            before: set.then_some((soft_us, hard_us)),
            look: wanted_us.map(|us| Duration::from_micros(us / 4).max(Duration::from_millis(2))),
        })
    }
}

impl Drop for TimeLimit {
    fn drop(&mut self) {
        if let Some((soft_us, hard_us)) = self.before {
            let _ = set_rt_time_limit(soft_us, hard_us);
        }
    }
}
