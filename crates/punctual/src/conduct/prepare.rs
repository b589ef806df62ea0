//! Before time counts: threads, memory, idle states, and all of it read back.

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use punctual_rt::ring::{Consumer, ring};
use punctual_rt::sched::Policy;
use punctual_rt::{heap, memory};

use super::error::ConductError;
use super::plan::Plan;
use crate::probe::collector::Collector;
use crate::probe::cycle::{Bounds, Halt, Sample};
use crate::probe::gaps::{Account, GapFeed, Polling};
use crate::probe::thread::{Probe, ProbeRequest, Ready, StartLine};
use crate::system::demands::{self, Asked, Found, ProbeFound};
use crate::system::dma_latency::HoldError;
use crate::system::{self, DmaLatency, Root};
use punctual_record::{Demand, Standing, SystemState};

/// Probe threads at the start line.
pub struct Lined {
    /// Lets them go.
    pub line: Arc<StartLine>,
    /// Ends them.
    pub halt: Arc<Halt>,
    /// The threads.
    pub probes: Vec<Probe>,
    /// What each said of itself, in their order.
    pub ready: Vec<Ready>,
    /// The reading end of each ring.
    pub rings: Vec<Consumer<Sample>>,
    /// Where each says how far it has come, if it polls.
    pub accounts: Vec<Arc<Account>>,
}

/// Starts the probe threads and waits until each has set itself up. `feed` finds gaps in place
/// of threads that poll.
pub fn line_up(plan: &Plan, feed: Option<Arc<dyn GapFeed>>) -> Result<Lined, ConductError> {
    let line = Arc::new(StartLine::default());
    let halt = Arc::new(Halt::at(u64::MAX));
    let (tell, told) = mpsc::channel();
    let capacity = match plan.gaps {
        // How many gaps come is not known beforehand.
        Some(_) => Collector::ring_capacity(0),
        None => Collector::ring_capacity(plan.interval.nominal_ns()),
    };
    let mut lined = Lined {
        line,
        halt,
        probes: Vec::new(),
        ready: Vec::new(),
        rings: Vec::new(),
        accounts: Vec::new(),
    };
    for (index, &cpu) in plan.cpus.iter().enumerate() {
        let polling = plan.gaps.as_ref().map(|gaps| Polling {
            above_ns: gaps.above_ns,
            runtime_ns: gaps.runtime_ns,
            period_ns: gaps.period_ns,
            account: Arc::default(),
            feed: feed.clone(),
        });
        let account = polling.as_ref().map(|polling| Arc::clone(&polling.account));
        lined.accounts.extend(account);
        let request = ProbeRequest {
            index,
            cpu,
            kind: plan.kind,
            interval: plan.interval.clone(),
            policy: plan.policy,
            bounds: Bounds {
                cycles: plan.loops.unwrap_or(u64::MAX),
                break_ns: plan.break_ns.unwrap_or(u64::MAX),
            },
            polling,
        };
        let (producer, consumer) = ring(capacity);
        match Probe::start(request, producer, &lined.line, &lined.halt, tell.clone()) {
            Ok(probe) => lined.probes.push(probe),
            Err(error) => {
                return Err(ConductError::Probe {
                    cpu,
                    reason: error.to_string(),
                });
            }
        }
        lined.rings.push(consumer);
    }
    drop(tell);
    for _ in &lined.probes {
        match told.recv_timeout(Duration::from_secs(30)) {
            Ok(ready) => lined.ready.push(ready),
            Err(_) => {
                return Err(ConductError::NotReady {
                    ready: lined.ready.len(),
                });
            }
        }
    }
    lined.ready.sort_by_key(|ready| ready.index);
    Ok(lined)
}

/// What was changed for the run; put back when dropped.
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

/// Locks memory and holds off idle states as the plan asks, reads everything back
/// from the kernel, and judges it.
pub fn hold(
    plan: &Plan,
    lined: &Lined,
    root: &Root,
    state: &mut SystemState,
) -> (Held, Vec<Demand>) {
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
        found.memory = Some(system::memory::locked_memory(root));
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
    found.threads = plan
        .cpus
        .iter()
        .zip(&lined.ready)
        .map(|(&cpu, ready)| ProbeFound {
            cpu,
            scheduling: system::read_back(ready.tid).map_err(|error| error.to_string()),
            priority_refused: refused(ready, "policy"),
            affinity_refused: refused(ready, "affinity"),
        })
        .collect();
    let asked = Asked {
        policy: match plan.policy {
            Policy::Other => system::Policy::Other,
            Policy::Fifo(_) => system::Policy::Fifo,
            Policy::RoundRobin(_) => system::Policy::RoundRobin,
            Policy::Deadline { .. } => system::Policy::Deadline,
        },
        priority: plan.policy.priority(),
        lock_memory: plan.lock_memory,
        dma_latency_us: (!plan.as_deployed).then_some(0),
        explain: plan.explain,
        executable: system::executable(),
    };
    (held, demands::judge(&asked, &found, state))
}

/// Tells a run that would be INVALID from its first moment before it is made, where the plan
/// has it so.
///
/// # Errors
/// What is requested and not in force.
pub fn refuse_unmet(plan: &Plan, demands: &[Demand]) -> Result<(), ConductError> {
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

/// Bytes that a run of some seconds takes of the heap beside what was there when it began.
const HEAP_ROOM: usize = 3 << 20;

/// Locks the future as well only where nothing limits it: under a limit, the next
/// large allocation of this program would fail instead.
fn lock_memory(state: &SystemState) -> std::io::Result<()> {
    let free = state.limits.memlock_bytes.is_none()
        || state
            .limits
            .capabilities
            .iter()
            .any(|name| name == "cap_ipc_lock");
    // What malloc maps and unmaps by itself is then locked and unlocked page by page, for which
    // a kernel holds preemption off; and so is what the heap grows by while probes run, unless it
    // has room. Where malloc is another's it does as it does.
    let _ = heap::keep(HEAP_ROOM);
    if free {
        memory::lock_all()
    } else {
        memory::lock_present()
    }
}
