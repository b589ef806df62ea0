//! Refused requests return the documented errno: memory limits, and SCHED_DEADLINE.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use std::sync::Barrier;

use crate::needs::{Absent, skip};
use crate::stack_support::{End, alone, in_child};
use punctual_rt::advice::{Attempt, advice};
use punctual_rt::sched::{self, Policy};
use punctual_rt::stack::{self, Class, StackError};
use punctual_rt::{affinity, memory};

const MB: u64 = 1 << 20;

/// Sets a limit, unless the current one is lower.
fn limit(which: libc::__rlimit_resource_t, bytes: u64) {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call fills the struct.
    assert_eq!(unsafe { libc::getrlimit(which, &mut limit) }, 0);
    limit.rlim_max = limit.rlim_max.min(bytes);
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: the call reads the struct.
    assert_eq!(unsafe { libc::setrlimit(which, &limit) }, 0);
}

/// Allocates stacks until one is refused; then frees them, after which allocating works again.
fn error_at_the_limit() -> StackError {
    let class = Class::exact(256 << 10).unwrap();
    let mut held = Vec::with_capacity(200);
    let error = loop {
        match stack::alloc(class) {
            Ok(base) => held.push(base.as_ptr() as usize),
            Err(error) => break error,
        }
        assert!(held.len() < 200, "no limit was met");
    };
    assert_eq!(stack::reserve(class, 200), Err(error));
    for _ in 0..2 {
        for &address in &held {
            // SAFETY: nothing uses the stacks.
            unsafe { stack::free(address, class) }.unwrap();
        }
        for address in &mut held {
            *address = stack::alloc(class).unwrap().as_ptr() as usize;
        }
    }
    error
}

#[test]
fn the_limit_of_address_space_gives_enomem() {
    let _alone = alone();
    stack::init();
    let end = in_child(|| {
        limit(libc::RLIMIT_AS, 32 * MB);
        error_at_the_limit().errno()
    });
    assert_eq!(end, End::Exit(libc::ENOMEM));
}

/// Bytes that this process has locked.
fn locked() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let kilobytes = line.unwrap().trim().trim_end_matches(" kB");
    kilobytes.parse::<u64>().unwrap() << 10
}

#[test]
fn the_limit_of_locked_memory_gives_eagain() {
    let _alone = alone();
    const NOT_TRIED: i32 = 177;
    stack::init();
    let end = in_child(|| {
        // Locked as root, without a limit; the limit applies to later mappings.
        if memory::lock_all().is_err() {
            return NOT_TRIED;
        }
        limit(libc::RLIMIT_MEMLOCK, locked() + 16 * MB);
        // SAFETY: only the test runs in this process. The limit applies only without CAP_IPC_LOCK.
        unsafe { libc::setuid(65534) };
        error_at_the_limit().errno()
    });
    if end == End::Exit(NOT_TRIED) {
        skip!(crate::needs::not_permitted(
            "memory could not be locked under the limit"
        ));
    }
    assert_eq!(end, End::Exit(libc::EAGAIN));
}

/// Sets the policy in a separate thread, which then ends.
fn errno_of(policy: Policy, cpus: Option<&[usize]>) -> Option<i32> {
    let answer = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            if let Some(cpus) = cpus {
                affinity::set_current(cpus).unwrap();
            }
            sched::set_current(policy)
        });
        thread.join().unwrap()
    });
    answer.err().and_then(|error| error.raw_os_error())
}

#[test]
fn impossible_deadline_parameters_are_refused() {
    let _alone = alone();
    const MS: u64 = 1_000_000;
    let policy = |runtime_ns, deadline_ns, period_ns| Policy::Deadline {
        runtime_ns,
        deadline_ns,
        period_ns,
    };
    let longer = policy(6 * MS, 5 * MS, 20 * MS);
    assert_eq!(errno_of(longer, None), Some(libc::EINVAL));
    let said = advice(Attempt::Policy(longer), libc::EINVAL).to_string_lossy();
    assert!(said.contains("longer than the deadline"), "{said}");
    if errno_of(policy(MS, 100 * MS, 100 * MS), None) == Some(libc::EPERM) {
        // Also with the capability, where control groups have real-time budgets.
        skip!(Absent::right("SCHED_DEADLINE"));
    }
    let cpus = affinity::get(0).unwrap();
    if cpus.len() > 1 {
        let some = errno_of(policy(MS, 100 * MS, 100 * MS), Some(&cpus[..1]));
        assert_eq!(some, Some(libc::EPERM), "some of the CPUs alone");
    }
    // Nine tenths of each CPU, and two more: one is not admitted.
    let most = policy(90 * MS, 100 * MS, 100 * MS);
    let everybody = Barrier::new(cpus.len() + 2);
    let answers: Vec<Option<i32>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cpus.len() + 2)
            .map(|_| {
                scope.spawn(|| {
                    let answer = sched::set_current(most);
                    everybody.wait();
                    answer.err().and_then(|error| error.raw_os_error())
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(answers.contains(&Some(libc::EBUSY)), "{answers:?}");
    assert!(
        answers.iter().flatten().all(|&errno| errno == libc::EBUSY),
        "{answers:?}"
    );
}
