//! Before the measurement: locks memory, sets idle states, and reads back every requested condition.

use punctual_rt::sched::Policy;
use punctual_rt::{heap, memory};

use super::plan::ConditionsPlan;
use super::probes::Probes;
use crate::conduct::error::ConductError;
use crate::probe::thread::Ready;
use crate::system::demands::{self, Found, ProbeFound, Requested};
use crate::system::dma_latency::HoldError;
use crate::system::{self, DmaLatency};
use punctual_machine::Root;
use punctual_machine::survey;
use punctual_record::{Demand, Standing, SystemState};

/// What was changed for the run; restored when dropped.
pub struct Held {
    dma_latency: Option<DmaLatency>,
    memory_locked: bool,
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.memory_locked {
            let _ = memory::unlock_all();
        }
    }
}

/// Locks memory and disables idle states as the plan requests, reads everything back from the
/// kernel, and judges it; `explain`: whether the rights for tracing are needed.
pub fn hold(
    plan: &ConditionsPlan,
    explain: bool,
    probes: &Probes,
    root: &Root,
    state: &mut SystemState,
) -> (Held, Vec<Demand>) {
    hold_threads(plan, explain, (&probes.ready, probes.policy), root, state)
}

/// The same for any threads: the CPU of each and what it reported, and the policy of all.
pub fn hold_threads(
    plan: &ConditionsPlan,
    explain: bool,
    (ready, policy): (&[(usize, Ready)], Policy),
    root: &Root,
    state: &mut SystemState,
) -> (Held, Vec<Demand>) {
    let (held, mut found) = change(plan, root, state);
    found.threads = ready
        .iter()
        .map(|(cpu, ready)| ProbeFound {
            cpu: *cpu,
            scheduling: survey::read_back(ready.tid),
            priority_refused: refused(ready, "policy"),
            affinity_refused: refused(ready, "affinity"),
        })
        .collect();
    let asked = requested(plan, explain, policy);
    (held, demands::judge(&asked, &found, state))
}

/// The same for threads of which each has its own policy and CPUs: of the machine alone.
/// `priority` is the highest of them, 0 for none.
pub fn hold_machine(
    plan: &ConditionsPlan,
    explain: bool,
    priority: u32,
    root: &Root,
    state: &mut SystemState,
) -> (Held, Vec<Demand>) {
    let (held, found) = change(plan, root, state);
    let policy = match priority {
        0 => Policy::Other,
        priority => Policy::Fifo(priority),
    };
    let asked = requested(plan, explain, policy);
    (held, demands::judge_machine(&asked, &found, state))
}

/// Changes what the plan requests, and reads it back.
fn change(plan: &ConditionsPlan, root: &Root, state: &mut SystemState) -> (Held, Found) {
    let mut held = Held {
        dma_latency: None,
        memory_locked: false,
    };
    let mut found = Found::default();
    if plan.lock_memory {
        match lock_memory(state) {
            Ok(()) => held.memory_locked = true,
            Err(error) => found.memory_refused = error.raw_os_error(),
        }
        found.memory = Some(survey::memory::locked_memory(root));
    }
    if !plan.as_deployed {
        found.dma_latency_us = Some(match DmaLatency::hold(0) {
            Ok(bound) => {
                let in_force = bound.in_force_us().map_err(HoldError::Failed);
                held.dma_latency = Some(bound);
                in_force.map_err(|error| error.to_record())
            }
            Err(error) => Err(error.to_record()),
        });
    }
    state.power.cpu_dma_latency_held_us = held.dma_latency.as_ref().map(DmaLatency::asked_us);
    (held, found)
}

fn requested(plan: &ConditionsPlan, explain: bool, policy: Policy) -> Requested {
    Requested {
        policy: match policy {
            Policy::Other => survey::Policy::Other,
            Policy::Fifo(_) => survey::Policy::Fifo,
            Policy::RoundRobin(_) => survey::Policy::RoundRobin,
            Policy::Deadline { .. } => survey::Policy::Deadline,
        },
        priority: policy.priority(),
        lock_memory: plan.lock_memory,
        dma_latency_us: (!plan.as_deployed).then_some(0),
        explain,
        executable: system::executable(),
    }
}

/// Refuses a run that would be INVALID from its first moment, if the plan says so.
///
/// # Errors
/// A requested condition is not in force.
pub fn refuse_unmet(plan: &ConditionsPlan, demands: &[Demand]) -> Result<(), ConductError> {
    let unmet = demands
        .iter()
        .filter(|it| it.standing == Standing::NotInForce);
    let unmet: Vec<Demand> = unmet.cloned().collect();
    if plan.measure_unmet || unmet.is_empty() {
        return Ok(());
    }
    Err(ConductError::NotInForce(unmet))
}

fn refused(ready: &Ready, step: &str) -> Option<i32> {
    let (_, error) = ready.refused.iter().find(|(refused, _)| *refused == step)?;
    error.raw_os_error()
}

/// Bytes of heap that a run of some seconds allocates.
const HEAP_ROOM: usize = 3 << 20;

/// Locks future memory only if nothing limits it: under a limit, the next large allocation of this
/// program would fail instead.
fn lock_memory(state: &SystemState) -> std::io::Result<()> {
    let free = state.limits.memlock_bytes.is_none()
        || state
            .limits
            .capabilities
            .iter()
            .any(|name| name == "cap_ipc_lock");
    // The kernel disables preemption while it locks and unlocks the pages that malloc maps and unmaps,
    // also when the heap grows while probes run: so the heap gets room now. Another malloc may differ.
    let _ = heap::keep(HEAP_ROOM);
    if free {
        memory::lock_all()
    } else {
        memory::lock_present()
    }
}
