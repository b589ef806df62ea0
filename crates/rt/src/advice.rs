//! What a refusal means, and how to fix it.
//!
//! The kernel says EPERM for six different reasons. These are sentences for people, static
//! ones, so that a real-time thread may ask for them.

use std::ffi::{CStr, c_int};

use crate::affinity;
use crate::cpulist::CpuListError;
use crate::sched::Policy;

/// What was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Attempt {
    /// A scheduling policy, or reading it.
    Policy(Policy),
    /// A CPU list, or placing a thread.
    Affinity,
    /// Locking memory.
    Lock,
    /// Preparing the heap.
    Heap,
    /// Making a stack.
    Stack,
    /// Starting a thread.
    Thread,
}

/// What `errno` means after `attempt`, and how to fix it. Real-time safe, but for EPERM under
/// SCHED_DEADLINE, which reads the caller's CPUs.
#[must_use]
pub fn advice(attempt: Attempt, errno: c_int) -> &'static CStr {
    if errno == libc::ESRCH {
        return c"there is no such thread any more";
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

/// What is wrong with a CPU list. Real-time safe.
#[must_use]
pub fn of_list(error: CpuListError) -> &'static CStr {
    match error {
        CpuListError::Empty => c"the CPU list is empty: write it like 3, 0-2,5, 0-7:2, !1-2 or all",
        CpuListError::Malformed => {
            c"that is no CPU list: write it like 3, 0-2,5, 0-7:2, !1-2 or all"
        }
        CpuListError::Backwards => c"a range of the CPU list ends before it begins",
        CpuListError::TooLarge => c"the CPU list goes beyond the last possible CPU, 8191",
        CpuListError::TooLong => c"the CPU list is too long",
        CpuListError::NoneLeft => c"the CPU list leaves none of the CPUs that may be used",
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
            c"SCHED_DEADLINE wants 1024 ns <= runtime <= deadline <= period, and a period between \
              kernel.sched_deadline_period_min_us and _max_us (100 us and 4 s)"
        }
        (Policy::Deadline { .. }, libc::EBUSY) => {
            c"SCHED_DEADLINE: not admitted, the CPUs have less than runtime/period left; ask for \
              less, or raise kernel.sched_rt_runtime_us"
        }
        (Policy::Deadline { .. }, libc::EPERM) if is_partly_placed() => {
            c"SCHED_DEADLINE: the thread may not use all CPUs; give it back all of them, or a \
              cpuset partition of its own"
        }
        (Policy::Deadline { .. }, libc::EPERM) => {
            c"SCHED_DEADLINE needs CAP_SYS_NICE and a thread that may use all CPUs"
        }
        (Policy::Deadline { .. }, libc::ENOTSUP) => {
            c"POSIX attributes know no SCHED_DEADLINE: punctual_thread_create() does, and \
              punctual_sched_set() in the thread itself"
        }
        (_, libc::EPERM) => {
            c"a real-time priority needs CAP_SYS_NICE or a limit (ulimit -r, RLIMIT_RTPRIO) as \
              high as it; in a cgroup with RT_GROUP_SCHED also its cpu.rt_runtime_us"
        }
        (Policy::Fifo(_) | Policy::RoundRobin(_), libc::EINVAL) => {
            c"a real-time priority is between 1 and 99"
        }
        (_, libc::EINVAL) => {
            c"the policy is one of OTHER, FIFO, RR and DEADLINE; OTHER and DEADLINE have no \
              priority, and FIFO and RR have no times"
        }
        _ => c"the kernel refused the scheduling policy",
    }
}

/// Whether the caller may not use all CPUs that are online.
fn is_partly_placed() -> bool {
    // SAFETY: sysconf takes no pointer and has no precondition.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
    let online = usize::try_from(online).unwrap_or(0);
    affinity::count(0).is_ok_and(|may_use| may_use < online)
}

fn of_affinity(errno: c_int) -> &'static CStr {
    match errno {
        libc::EINVAL => c"none of these CPUs may be used: offline, or outside the cpuset",
        libc::EPERM => c"another user's thread is placed with CAP_SYS_NICE alone",
        libc::EBUSY => {
            c"a SCHED_DEADLINE thread can't be narrowed to fewer CPUs than it was admitted for"
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
        libc::ENOTSUP => c"this malloc can't be told to keep its memory (not glibc's, or replaced)",
        _ => {
            c"no memory for the heap: look at free memory, the memory cgroup, RLIMIT_DATA and \
              RLIMIT_MEMLOCK"
        }
    }
}

fn of_stack(errno: c_int) -> &'static CStr {
    match errno {
        libc::EINVAL => c"stacks have at most 2 MB",
        libc::EAGAIN => {
            c"no stack: the limit of locked memory is reached (ulimit -l, RLIMIT_MEMLOCK)"
        }
        _ => c"no stack: look at free memory, RLIMIT_AS and vm.max_map_count",
    }
}

fn of_thread(errno: c_int) -> &'static CStr {
    match errno {
        libc::EAGAIN => {
            c"no more threads: look at RLIMIT_NPROC, kernel.threads-max and pids.max, and whether \
              a SCHED_DEADLINE thread starts it, which may not"
        }
        libc::EINVAL => {
            c"the stack is too small for the thread-local storage of the program, which lies on \
              it: ask for a larger one (at most 2 MB)"
        }
        libc::EBUSY => c"a thread runs on this stack already",
        libc::EDEADLK => c"a thread can't join itself",
        _ => c"the thread could not be started",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_of_deadline_has_its_own_words() {
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
    fn every_answer_is_a_sentence_on_one_line() {
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
