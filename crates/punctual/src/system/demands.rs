//! What was requested of the kernel, compared with what was read back: pure functions that say how
//! each demand stands and what fixes it.
//!
//! What was requested and is not in force makes a run invalid ([`Standing::NotInForce`]);
//! what was not requested, but a reader must know, is stated ([`Standing::Stated`]).

use punctual_machine::survey::memory::LockedMemory;
use punctual_machine::survey::thread::{Policy, ReadBackError, ThreadScheduling};
use punctual_record::condition::{Astray, FoundScheduling, IdleBoundError};
use punctual_record::system::SystemState;
use punctual_record::{Condition, Demand, Standing};

pub mod fixes;
mod stated;

pub use stated::{rt_throttling, stated, stated_of_machine};

/// What a run asks of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// Policy of the probe threads.
    pub policy: Policy,
    /// Their real-time priority; 0 where the policy has none.
    pub priority: u32,
    /// Whether all memory is to be locked.
    pub lock_memory: bool,
    /// The bound on idle wake-up time; absent where it is left alone.
    pub dma_latency_us: Option<i32>,
    /// Whether late wake-ups are to be explained, which takes rights of its own.
    pub explain: bool,
    /// Path of our own program, for the commands in the fixes: see
    /// [`executable`](super::executable).
    pub executable: String,
}

/// One probe thread as it was read back.
#[derive(Debug, Clone)]
pub struct ProbeFound {
    /// The CPU that it was to be pinned to.
    pub cpu: usize,
    /// What [`read_back`](punctual_machine::survey::read_back) said, or why it could not.
    pub scheduling: Result<ThreadScheduling, ReadBackError>,
    /// The error number with which the priority was refused, if it was.
    pub priority_refused: Option<i32>,
    /// The error number with which the affinity was refused, if it was.
    pub affinity_refused: Option<i32>,
}

/// Everything that was read back.
#[derive(Debug, Clone, Default)]
pub struct Found {
    /// The probe threads.
    pub threads: Vec<ProbeFound>,
    /// The process's memory; absent where it was not looked at.
    pub memory: Option<LockedMemory>,
    /// The error number with which `mlockall` failed, if it did.
    pub memory_refused: Option<i32>,
    /// The bound of `/dev/cpu_dma_latency` in force, or why it is not held.
    pub dma_latency_us: Option<Result<i32, IdleBoundError>>,
    /// Whether the kernel is known to have throttled a probe thread.
    pub throttled: bool,
}

impl Found {
    /// Whether the bound is not held because this user may not open the device.
    fn may_not_open_device(&self) -> bool {
        matches!(self.dma_latency_us, Some(Err(IdleBoundError::Forbidden)))
    }
}

/// How every demand stands, and what else a reader must know: those not in force
/// first, then those in force, then the statements.
#[must_use]
pub fn judge(requested: &Requested, found: &Found, system: &SystemState) -> Vec<Demand> {
    let of_threads = vec![
        priority(requested, &found.threads, system),
        affinity(&found.threads, system),
    ];
    completed(of_threads, requested, found, system)
}

/// The same where the threads are judged elsewhere: each has its own policy and CPUs.
#[must_use]
pub fn judge_machine(requested: &Requested, found: &Found, system: &SystemState) -> Vec<Demand> {
    completed(Vec::new(), requested, found, system)
}

fn completed(
    mut demands: Vec<Demand>,
    requested: &Requested,
    found: &Found,
    system: &SystemState,
) -> Vec<Demand> {
    if requested.lock_memory {
        demands.push(locked_memory(requested, found, system));
    }
    if let Some(microseconds) = requested.dma_latency_us {
        let found_us = found.dma_latency_us.as_ref();
        demands.push(dma_latency(microseconds, found_us, system));
    }
    fixes::combine(&mut demands, requested, found, system);
    demands.push(timers(system));
    demands.extend(rt_throttling(system, found.throttled));
    demands.extend(stated(requested, &found.threads, system));
    demands.sort_by_key(|demand| match demand.standing {
        Standing::NotInForce => 0,
        Standing::InForce => 1,
        Standing::Stated => 2,
    });
    demands
}

/// Policy and priority of the probe threads.
#[must_use]
pub fn priority(requested: &Requested, threads: &[ProbeFound], system: &SystemState) -> Demand {
    let in_force = !threads.is_empty()
        && threads.iter().all(|thread| {
            thread.scheduling.as_ref().is_ok_and(|scheduling| {
                scheduling.policy == requested.policy && scheduling.priority == requested.priority
            })
        });
    let refused = threads.iter().find_map(|thread| thread.priority_refused);
    let condition = Condition::Priority {
        requested: requested.policy.with_priority(requested.priority),
        found: grouped(threads),
        refused,
    };
    Demand::requested(condition, in_force, || {
        fixes::priority(requested, refused, system)
    })
}

/// Each probe thread on its CPU alone.
#[must_use]
pub fn affinity(threads: &[ProbeFound], system: &SystemState) -> Demand {
    let astray: Vec<Astray> = threads.iter().filter_map(astray).collect();
    let in_force = !threads.is_empty() && astray.is_empty();
    let cpus: Vec<usize> = astray.iter().map(|thread| thread.cpu).collect();
    let condition = Condition::Affinity {
        requested: threads.iter().map(|thread| thread.cpu).collect(),
        astray,
        refused: threads.iter().find_map(|thread| thread.affinity_refused),
    };
    Demand::requested(condition, in_force, || fixes::affinity(&cpus, system))
}

/// Where a thread may run that is not pinned to its CPU alone.
fn astray(thread: &ProbeFound) -> Option<Astray> {
    let (allowed, error) = match &thread.scheduling {
        Ok(scheduling) if scheduling.cpus == [thread.cpu] => return None,
        Ok(scheduling) => (Some(scheduling.cpus.clone()), None),
        Err(error) => (None, Some(error.to_string())),
    };
    Some(Astray {
        cpu: thread.cpu,
        allowed,
        error,
    })
}

/// All memory locked: nothing that is resident could be taken away.
#[must_use]
pub fn locked_memory(requested: &Requested, found: &Found, system: &SystemState) -> Demand {
    let memory = found.memory.unwrap_or_default();
    let in_force = found.memory_refused.is_none()
        && memory.locked_bytes > 0
        && match memory.loose_bytes {
            Some(loose) => loose == 0,
            // Locked mappings are counted whole, also what is not resident.
            None => memory.locked_bytes >= memory.resident_bytes,
        };
    let condition = Condition::LockedMemory {
        resident_bytes: found.memory.map(|memory| memory.resident_bytes),
        locked_bytes: found.memory.map(|memory| memory.locked_bytes),
        loose_bytes: memory.loose_bytes,
        refused: found.memory_refused,
        limit_bytes: fixes::memory_limit(system),
    };
    Demand::requested(condition, in_force, || {
        fixes::locked_memory(requested, system)
    })
}

/// High-resolution timers: without them every wake-up waits for a tick.
#[must_use]
pub fn timers(system: &SystemState) -> Demand {
    let resolution_ns = system.clock.resolution_ns;
    let condition = Condition::Timers { resolution_ns };
    Demand::requested(condition, resolution_ns == 1, || fixes::timers(system))
}

/// The bound on idle wake-up time. `found` is absent where nothing was read back.
#[must_use]
pub fn dma_latency(
    requested_us: i32,
    found: Option<&Result<i32, IdleBoundError>>,
    system: &SystemState,
) -> Demand {
    let found_us = found.and_then(|found| found.as_ref().ok()).copied();
    // The lowest of all that programs hold is in force: lower serves as well.
    let in_force = found_us.is_some_and(|now| now <= requested_us);
    let condition = Condition::CpuDmaLatency {
        requested_us,
        found_us,
        why: found.and_then(|found| found.as_ref().err()).cloned(),
    };
    Demand::requested(condition, in_force, || fixes::dma_latency(system))
}

/// What was read back of all threads, equal findings together.
fn grouped(threads: &[ProbeFound]) -> Vec<FoundScheduling> {
    let mut groups: Vec<FoundScheduling> = Vec::new();
    for thread in threads {
        let found = thread.scheduling.as_ref();
        let scheduling = found.map(ThreadScheduling::to_record).ok();
        let error = found.err().map(ToString::to_string);
        let same =
            |group: &&mut FoundScheduling| group.scheduling == scheduling && group.error == error;
        match groups.iter_mut().find(same) {
            Some(group) => group.cpus.push(thread.cpu),
            None => groups.push(FoundScheduling {
                cpus: vec![thread.cpu],
                scheduling,
                error,
            }),
        }
    }
    groups
}
