//! What was asked of the kernel, held against what was read back: pure functions
//! that say how each demand stands and what mends it.
//!
//! What was asked for and not got makes a run invalid ([`Standing::NotInForce`]);
//! what nobody asked for, but a reader must know, is stated ([`Standing::Stated`]).

use std::collections::BTreeMap;

use super::cpus;
use super::memory::LockedMemory;
use super::thread::{Policy, ThreadScheduling};
use punctual_record::run::{Demand, Standing};
use punctual_record::system::SystemState;

pub mod mends;
mod stated;

pub use stated::{rt_throttling, stated, stated_of_machine};

/// What a run asks of the kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
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
    /// Path of our own program, for the commands in the mends: see
    /// [`executable`](super::executable).
    pub executable: String,
}

/// One probe thread as it was read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeFound {
    /// The CPU that it was to be pinned to.
    pub cpu: usize,
    /// What [`read_back`](super::read_back) said, or why it could not.
    pub scheduling: Result<ThreadScheduling, String>,
    /// The error number with which the priority was refused, if it was.
    pub priority_refused: Option<i32>,
    /// The error number with which the affinity was refused, if it was.
    pub affinity_refused: Option<i32>,
}

/// Everything that was read back.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// The probe threads.
    pub threads: Vec<ProbeFound>,
    /// The process's memory; absent where it was not looked at.
    pub memory: Option<LockedMemory>,
    /// The error number with which `mlockall` failed, if it did.
    pub memory_refused: Option<i32>,
    /// The bound of `/dev/cpu_dma_latency` in force, or why it is not held.
    pub dma_latency_us: Option<Result<i32, String>>,
    /// Whether the bound is not held because this user may not open the device.
    pub dma_latency_forbidden: bool,
    /// Whether the kernel is known to have throttled a probe thread.
    pub throttled: bool,
}

/// How every demand stands, and what else a reader must know: those not in force
/// first, then those in force, then the statements.
#[must_use]
pub fn judge(asked: &Asked, found: &Found, system: &SystemState) -> Vec<Demand> {
    let mut demands = vec![
        priority(asked, &found.threads, system),
        affinity(&found.threads, system),
    ];
    if asked.lock_memory {
        demands.push(locked_memory(asked, found, system));
    }
    if let Some(microseconds) = asked.dma_latency_us {
        let found_us = found.dma_latency_us.as_ref();
        demands.push(dma_latency(microseconds, found_us, system));
    }
    mends::combine(&mut demands, asked, found, system);
    demands.push(timers(system));
    demands.extend(rt_throttling(system, found.throttled));
    demands.extend(stated(asked, &found.threads, system));
    demands.sort_by_key(|demand| match demand.standing {
        Standing::NotInForce => 0,
        Standing::InForce => 1,
        Standing::Stated => 2,
    });
    demands
}

/// Policy and priority of the probe threads.
#[must_use]
pub fn priority(asked: &Asked, threads: &[ProbeFound], system: &SystemState) -> Demand {
    let wanted = scheduling_words(asked.policy, asked.priority);
    let found = by_words(threads, |scheduling| {
        scheduling_words(scheduling.policy, scheduling.priority)
    });
    let in_force = !threads.is_empty()
        && threads.iter().all(|thread| {
            thread.scheduling.as_ref().is_ok_and(|scheduling| {
                scheduling.policy == asked.policy && scheduling.priority == asked.priority
            })
        });
    let refused = threads.iter().find_map(|thread| thread.priority_refused);
    Demand {
        name: "priority".to_owned(),
        asked: wanted,
        found: with_refusal(found, refused, in_force),
        standing: standing(in_force),
        mend: (!in_force).then(|| mends::priority(asked, refused, system)),
    }
}

/// Each probe thread on its CPU alone.
#[must_use]
pub fn affinity(threads: &[ProbeFound], system: &SystemState) -> Demand {
    let wanted: Vec<usize> = threads.iter().map(|thread| thread.cpu).collect();
    let pinned = |thread: &ProbeFound| {
        thread
            .scheduling
            .as_ref()
            .is_ok_and(|scheduling| scheduling.cpus == [thread.cpu])
    };
    let in_force = !threads.is_empty() && threads.iter().all(pinned);
    let astray: Vec<&ProbeFound> = threads.iter().filter(|thread| !pinned(thread)).collect();
    let found = if in_force {
        format!("one thread each, pinned to CPU {}", cpus::format(&wanted))
    } else if threads.is_empty() {
        "no probe thread".to_owned()
    } else {
        let words = astray
            .iter()
            .take(8)
            .map(|thread| match &thread.scheduling {
                Ok(scheduling) => format!(
                    "the thread for CPU {} may run on {}",
                    thread.cpu,
                    cpus::format(&scheduling.cpus)
                ),
                Err(reason) => format!("the thread for CPU {}: {reason}", thread.cpu),
            });
        words.collect::<Vec<_>>().join("; ")
    };
    let refused = threads.iter().find_map(|thread| thread.affinity_refused);
    Demand {
        name: "affinity".to_owned(),
        asked: format!("one thread each on CPU {}", cpus::format(&wanted)),
        found: with_refusal(found, refused, in_force),
        standing: standing(in_force),
        mend: (!in_force).then(|| {
            let cpus: Vec<usize> = astray.iter().map(|thread| thread.cpu).collect();
            mends::affinity(&cpus, system)
        }),
    }
}

/// All memory locked: nothing that is resident could be taken away.
#[must_use]
pub fn locked_memory(asked: &Asked, found: &Found, system: &SystemState) -> Demand {
    let memory = found.memory.unwrap_or_default();
    let in_force = found.memory_refused.is_none()
        && memory.locked_bytes > 0
        && match memory.loose_bytes {
            Some(loose) => loose == 0,
            // Locked mappings are counted whole, also what is not resident.
            None => memory.locked_bytes >= memory.resident_bytes,
        };
    // The resident size: locked mappings also count address space that is merely
    // set aside, as the C library does for each thread.
    let mut words = format!("all of {} resident", bytes(memory.resident_bytes));
    if found.memory.is_none() {
        words = "not read back".to_owned();
    } else if let Some(loose) = memory.loose_bytes.filter(|loose| *loose > 0) {
        words = format!(
            "{} of {} resident not locked",
            bytes(loose),
            bytes(memory.resident_bytes)
        );
    }
    Demand {
        name: "locked-memory".to_owned(),
        asked: "all memory locked".to_owned(),
        found: match (found.memory_refused, mends::memory_limit(system)) {
            // ENOMEM and EPERM speak of the limit then.
            (Some(_), Some(limit)) if !in_force => {
                format!("{words} (this user may lock {})", bytes(limit))
            }
            (refused, _) => with_refusal(words, refused, in_force),
        },
        standing: standing(in_force),
        mend: (!in_force).then(|| mends::locked_memory(asked, system)),
    }
}

/// High-resolution timers: without them every wake-up waits for a tick.
#[must_use]
pub fn timers(system: &SystemState) -> Demand {
    let resolution = system.clock.resolution_ns;
    let in_force = resolution == 1;
    Demand {
        name: "timers".to_owned(),
        asked: "high-resolution timers".to_owned(),
        found: if resolution == 0 {
            "resolution of CLOCK_MONOTONIC not read".to_owned()
        } else {
            format!("resolution of CLOCK_MONOTONIC {resolution} ns")
        },
        standing: standing(in_force),
        mend: (!in_force).then(|| mends::timers(system)),
    }
}

/// The bound on idle wake-up time. `found` is absent where nothing was read back.
#[must_use]
pub fn dma_latency(
    asked_us: i32,
    found: Option<&Result<i32, String>>,
    system: &SystemState,
) -> Demand {
    let (words, in_force, mend) = match found {
        // The lowest of all that programs hold is in force: lower serves as well.
        Some(Ok(now)) if *now <= asked_us => (format!("{now} µs"), true, None),
        Some(Ok(now)) => (format!("{now} µs"), false, Some(mends::dma_latency(system))),
        Some(Err(reason)) => (reason.clone(), false, Some(mends::dma_latency(system))),
        None => (
            "not read back".to_owned(),
            false,
            Some(mends::dma_latency(system)),
        ),
    };
    Demand {
        name: "cpu-dma-latency".to_owned(),
        asked: format!("held at {asked_us} µs"),
        found: words,
        standing: standing(in_force),
        mend,
    }
}

fn standing(in_force: bool) -> Standing {
    if in_force {
        Standing::InForce
    } else {
        Standing::NotInForce
    }
}

/// `fifo 80`, or `other` where there is no priority.
pub(super) fn scheduling_words(policy: Policy, priority: u32) -> String {
    match policy {
        Policy::Unknown(number) => format!("policy {number}"),
        Policy::Fifo | Policy::RoundRobin => format!("{} {priority}", policy.name()),
        _ => policy.name().to_owned(),
    }
}

/// What was found of all threads, equal findings together:
/// `fifo 80 on CPU 0-2; other on CPU 3`.
fn by_words(threads: &[ProbeFound], words: impl Fn(&ThreadScheduling) -> String) -> String {
    let mut groups: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for thread in threads {
        let key = match &thread.scheduling {
            Ok(scheduling) => words(scheduling),
            Err(reason) => reason.clone(),
        };
        groups.entry(key).or_default().push(thread.cpu);
    }
    if groups.is_empty() {
        return "no probe thread".to_owned();
    }
    groups
        .iter()
        .map(|(words, cpus)| format!("{words} on CPU {}", cpus::format(cpus)))
        .collect::<Vec<_>>()
        .join("; ")
}

fn with_refusal(found: String, refused: Option<i32>, in_force: bool) -> String {
    match refused {
        Some(number) if !in_force => {
            let error = std::io::Error::from_raw_os_error(number);
            format!("{found} (refused: {})", super::root::plain(&error))
        }
        _ => found,
    }
}

/// Bytes in the unit that fits.
fn bytes(count: u64) -> String {
    const KI: u64 = 1024;
    if count >= 10 * KI * KI {
        format!("{} MiB", count / KI / KI)
    } else {
        format!("{} KiB", count / KI)
    }
}
