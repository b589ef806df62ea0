//! What an error of the kernel means, and how to fix it.
//!
//! The kernel returns EPERM for six different reasons. Each explanation is a static string, so a
//! real-time thread may request it.

#![expect(unsafe_code, reason = "getrlimit, for the advice on a refusal")]

use std::ffi::{CStr, c_int};

use crate::affinity;
use crate::cpulist::CpuListError;
use crate::sched::Policy;

/// What failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    /// Setting or reading a scheduling policy.
    Policy(Policy),
    /// Parsing a CPU list, or setting the CPUs of a thread.
    Affinity,
    /// Locking memory.
    Lock,
    /// Preparing the heap.
    Heap,
    /// Allocating a stack.
    Stack,
    /// Starting a thread.
    Thread,
}

/// What `errno` means after `attempt`, and how to fix it. Real-time safe, but for EPERM under
/// SCHED_DEADLINE, which reads the caller's CPUs.
#[must_use]
pub fn advice(attempt: Attempt, errno: c_int) -> &'static CStr {
    if errno == libc::ESRCH {
        return c"no such thread: it has ended, or the ID is wrong";
    }
    match attempt {
        Attempt::Policy(policy) => of_policy(policy, errno),
        Attempt::Affinity => of_affinity(errno),
        Attempt::Lock => of_lock(errno),
        Attempt::Heap => of_heap(errno),
        Attempt::Stack => of_stack(errno),
        Attempt::Thread => of_thread(errno),
    }
}

/// What is wrong with a CPU list, and how to fix it. Real-time safe.
#[must_use]
pub fn cpu_list(error: CpuListError) -> &'static CStr {
    match error {
        CpuListError::Empty => {
            c"the CPU list is empty: expected a list like 3, 0-2,5, 0-7:2, !1-2 or all"
        }
        CpuListError::Malformed => {
            c"not a CPU list: expected a list like 3, 0-2,5, 0-7:2, !1-2 or all"
        }
        CpuListError::Backwards => {
            c"a range of the CPU list ends before it begins: write the smaller number first"
        }
        CpuListError::TooLarge => c"the CPU list has a number above 8191, the last possible CPU",
        CpuListError::TooLong => c"the CPU list is too long: combine numbers to ranges",
        CpuListError::NoneLeft => {
            c"the CPU list selects none of the CPUs that this process may use"
        }
        CpuListError::NotAllowed(_) => {
            c"the CPU list names a CPU that is offline, or outside the cpuset of this process"
        }
        CpuListError::NoMemory => c"no memory for the CPU list",
    }
}

fn of_policy(policy: Policy, errno: c_int) -> &'static CStr {
    match (policy, errno) {
        (
            Policy::Deadline {
                runtime_ns,
                deadline_ns,
                ..
            },
            libc::EINVAL,
        ) if runtime_ns > deadline_ns => c"SCHED_DEADLINE: the runtime is longer than the deadline",
        (
            Policy::Deadline {
                deadline_ns,
                period_ns,
                ..
            },
            libc::EINVAL,
        ) if period_ns != 0 && deadline_ns > period_ns => {
            c"SCHED_DEADLINE: the deadline is longer than the period"
        }
        (Policy::Deadline { .. }, libc::EINVAL) => {
            c"SCHED_DEADLINE needs 1024 ns <= runtime <= deadline <= period, and a period between \
              kernel.sched_deadline_period_min_us and _max_us (100 us and 4 s)"
        }
        (Policy::Deadline { .. }, libc::EBUSY) => {
            c"SCHED_DEADLINE: not admitted, because the CPUs have less than runtime/period left; \
              request less, or raise kernel.sched_rt_runtime_us"
        }
        (Policy::Deadline { .. }, libc::EPERM) if is_partly_placed() => {
            c"SCHED_DEADLINE: the affinity of the thread lacks some CPUs; allow all of them, or \
              move it to a cpuset partition"
        }
        (Policy::Deadline { .. }, libc::EPERM) => {
            c"SCHED_DEADLINE needs CAP_SYS_NICE, and a thread whose affinity has all CPUs"
        }
        (Policy::Deadline { .. }, libc::ENOTSUP) => {
            c"POSIX attributes do not support SCHED_DEADLINE: use punctual_thread_create(), or \
              punctual_sched_set() in the thread itself"
        }
        (_, libc::EPERM) => {
            c"a real-time priority needs CAP_SYS_NICE or a limit (ulimit -r, RLIMIT_RTPRIO) at \
              least as high; in a cgroup with RT_GROUP_SCHED also cpu.rt_runtime_us"
        }
        (Policy::Fifo(_) | Policy::RoundRobin(_), libc::EINVAL) => {
            c"expected a real-time priority between 1 and 99"
        }
        (_, libc::EINVAL) => {
            c"expected a policy that is one of OTHER, FIFO, RR and DEADLINE; OTHER and DEADLINE have no \
              priority, and FIFO and RR have no times"
        }
        _ => c"the kernel refused the scheduling policy",
    }
}

/// Whether the caller is restricted to some of the CPUs that are online.
fn is_partly_placed() -> bool {
    // SAFETY: sysconf takes no pointer and has no precondition.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let online = usize::try_from(online).unwrap_or(0);
    affinity::count(0).is_ok_and(|may_use| may_use < online)
}

fn of_affinity(errno: c_int) -> &'static CStr {
    match errno {
        libc::EINVAL => c"none of these CPUs may be used: they are offline, or outside the cpuset",
        libc::EPERM => c"setting the CPUs of another user's thread needs CAP_SYS_NICE",
        libc::EBUSY => {
            c"a SCHED_DEADLINE thread needs the CPUs for which it was admitted: set another policy \
              first"
        }
        _ => c"the kernel refused the CPUs",
    }
}

fn of_lock(errno: c_int) -> &'static CStr {
    match errno {
        libc::EPERM => c"locking memory needs CAP_IPC_LOCK or a limit (ulimit -l, RLIMIT_MEMLOCK)",
        libc::ENOMEM | libc::EAGAIN => {
            c"the limit of locked memory (ulimit -l, RLIMIT_MEMLOCK) is below what the program \
              has mapped, or memory ran out"
        }
        _ => c"the kernel refused to lock memory",
    }
}

fn of_heap(errno: c_int) -> &'static CStr {
    match errno {
        libc::ENOTSUP => {
            c"this malloc has no setting to keep its memory: use glibc's malloc, not replaced"
        }
        _ => {
            c"no memory for the heap: check free memory, the memory cgroup, RLIMIT_DATA and \
              RLIMIT_MEMLOCK"
        }
    }
}

fn of_stack(errno: c_int) -> &'static CStr {
    match errno {
        libc::EINVAL => c"stack size: expected at most 2 MB",
        libc::EAGAIN => {
            c"no stack: the limit of locked memory is reached (ulimit -l, RLIMIT_MEMLOCK)"
        }
        _ => c"no memory for a stack: check free memory, RLIMIT_AS and vm.max_map_count",
    }
}

fn of_thread(errno: c_int) -> &'static CStr {
    match errno {
        libc::EAGAIN => {
            c"no more threads: check RLIMIT_NPROC, kernel.threads-max and pids.max; a \
              SCHED_DEADLINE thread may not start threads"
        }
        libc::EINVAL => {
            c"the stack is too small for the thread-local storage of the program, which is on \
              the stack: request a larger one (at most 2 MB)"
        }
        libc::EBUSY => c"a thread already runs on this stack: join it first",
        libc::EDEADLK => c"a thread must not join itself",
        _ => c"the thread could not be started",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_of_a_refused_deadline_policy_has_its_own_text() {
        let deadline = |runtime_ns, deadline_ns, period_ns| {
            Attempt::Policy(Policy::Deadline {
                runtime_ns,
                deadline_ns,
                period_ns,
            })
        };
        let said = |attempt, errno| advice(attempt, errno).to_str().unwrap();
        assert!(said(deadline(2, 1, 3), libc::EINVAL).contains("longer than the deadline"));
        assert!(said(deadline(1, 3, 2), libc::EINVAL).contains("longer than the period"));
        assert!(said(deadline(1, 2, 3), libc::EINVAL).contains("1024 ns"));
        assert!(said(deadline(1, 2, 3), libc::EBUSY).contains("not admitted"));
        assert!(said(deadline(1, 2, 3), libc::EPERM).contains("all CPUs"));
        assert!(said(Attempt::Policy(Policy::Fifo(1)), libc::EPERM).contains("ulimit -r"));
    }

    #[test]
    fn every_advice_is_one_nonempty_line() {
        for attempt in [
            Attempt::Policy(Policy::Fifo(1)),
            Attempt::Policy(Policy::Other),
            Attempt::Affinity,
            Attempt::Lock,
            Attempt::Heap,
            Attempt::Stack,
            Attempt::Thread,
        ] {
            for errno in 1..134 {
                let text = advice(attempt, errno).to_str().unwrap();
                assert!(!text.is_empty() && !text.contains('\n') && !text.contains("  "));
            }
        }
    }
}
