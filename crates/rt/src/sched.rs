//! Scheduling policies: setting them and reading them back.

use std::io;

use crate::sys::task::{self, SchedAttr};

/// How a thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// SCHED_OTHER: the time-sharing class.
    Other,
    /// SCHED_FIFO at a priority of 1 to 99.
    Fifo(u32),
    /// SCHED_RR at a priority of 1 to 99.
    RoundRobin(u32),
    /// SCHED_DEADLINE, times in ns, runtime ≤ deadline ≤ period.
    Deadline {
        /// Processor time in each period.
        runtime_ns: u64,
        /// Relative deadline.
        deadline_ns: u64,
        /// Period.
        period_ns: u64,
    },
}

impl Policy {
    /// The policy's name: `other`, `fifo`, `rr` or `deadline`. Real-time safe.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Other => "other",
            Self::Fifo(_) => "fifo",
            Self::RoundRobin(_) => "rr",
            Self::Deadline { .. } => "deadline",
        }
    }

    /// The real-time priority, 0 where the policy has none.
    #[must_use]
    pub fn priority(&self) -> u32 {
        match self {
            Self::Fifo(priority) | Self::RoundRobin(priority) => *priority,
            Self::Other | Self::Deadline { .. } => 0,
        }
    }

    fn attributes(&self) -> SchedAttr {
        let mut attr = SchedAttr {
            size: size_of::<SchedAttr>() as u32,
            ..SchedAttr::default()
        };
        match *self {
            Self::Other => attr.policy = libc::SCHED_OTHER as u32,
            Self::Fifo(priority) => {
                attr.policy = libc::SCHED_FIFO as u32;
                attr.priority = priority;
            }
            Self::RoundRobin(priority) => {
                attr.policy = libc::SCHED_RR as u32;
                attr.priority = priority;
            }
            Self::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
            } => {
                attr.policy = libc::SCHED_DEADLINE as u32;
                attr.runtime = runtime_ns;
                attr.deadline = deadline_ns;
                attr.period = period_ns;
            }
        }
        attr
    }
}

/// Sets the policy of the calling thread. One system call; meant for setting up, although a
/// real-time thread may lower its own priority with it.
///
/// # Errors
/// EPERM without permission, EINVAL out of range, EBUSY when SCHED_DEADLINE's admission test
/// refuses.
pub fn set_current(policy: Policy) -> io::Result<()> {
    set(0, policy)
}

/// Sets the policy of a thread (0: the caller). One system call; meant for setting up.
/// [`crate::advice`] explains each error.
///
/// # Errors
/// EPERM without permission, or for SCHED_DEADLINE when the thread may not use all CPUs; EINVAL
/// out of range (e.g. runtime > deadline, deadline > period); EBUSY when SCHED_DEADLINE's
/// admission test refuses; ESRCH for a dead thread.
pub fn set(tid: i32, policy: Policy) -> io::Result<()> {
    task::set_scheduling(tid, &policy.attributes())
}

/// Whether a thread (0: the caller) has a real-time policy of any kind. One system call.
///
/// # Errors
/// ESRCH for a dead thread.
pub fn is_real_time(tid: i32) -> io::Result<bool> {
    let policy = task::scheduling(tid)?.policy as libc::c_int;
    Ok(matches!(
        policy,
        libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE
    ))
}

/// Returns the policy of a thread (0: the caller). `None` for a policy that [`Policy`] doesn't
/// contain (batch, idle, extensions). Real-time safe; one system call.
///
/// # Errors
/// ESRCH for a dead thread.
pub fn get(tid: i32) -> io::Result<Option<Policy>> {
    let attr = task::scheduling(tid)?;
    Ok(match attr.policy as libc::c_int {
        libc::SCHED_OTHER => Some(Policy::Other),
        libc::SCHED_FIFO => Some(Policy::Fifo(attr.priority)),
        libc::SCHED_RR => Some(Policy::RoundRobin(attr.priority)),
        libc::SCHED_DEADLINE => Some(Policy::Deadline {
            runtime_ns: attr.runtime,
            deadline_ns: attr.deadline,
            period_ns: attr.period,
        }),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_is_read_back() {
        assert_eq!(get(0).unwrap(), Some(Policy::Other));
        set_current(Policy::Other).unwrap();
        assert_eq!(get(0).unwrap(), Some(Policy::Other));
    }

    #[test]
    fn a_priority_out_of_range_is_refused_and_not_clamped() {
        assert_eq!(
            set_current(Policy::Fifo(100)).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        assert_eq!(
            set_current(Policy::Fifo(0)).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
        assert_eq!(get(0).unwrap(), Some(Policy::Other));
    }

    #[test]
    fn a_dead_thread_gives_esrch() {
        assert_eq!(get(i32::MAX).unwrap_err().raw_os_error(), Some(libc::ESRCH));
    }
}
