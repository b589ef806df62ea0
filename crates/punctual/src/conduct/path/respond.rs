//! The responder, with what it needs of this machine.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use punctual_network::responder::privileges::{Further, give_up};
use punctual_network::responder::{Config, Explain, Machine, Notice, serve};
use punctual_rt::memory;
use punctual_rt::sched::Policy;
use punctual_rt::sys::task;
use punctual_rt::thread::Refusal;

use super::clocks;
use super::delays::Delays;
use crate::conduct::housekeeper::NICE;
use crate::conduct::signals::Signals;
use crate::system::dma_latency;
use punctual_machine::Root;
use punctual_machine::survey;
use punctual_record::path::{ClockState, PeerConditions};
use punctual_record::{Scheduling, Unavailable};

/// How the responder serves, and what it changes on its machine for a session.
#[derive(Debug, Clone)]
pub struct Responding {
    /// How it serves.
    pub config: Config,
    /// Leave the machine as it is: do not set cpu_dma_latency.
    pub as_deployed: bool,
}

/// Serves until a signal, or until the first session has ended if that was asked for.
///
/// # Errors
/// It cannot listen, or receive signals.
pub fn respond(plan: Responding, say: impl FnMut(Notice)) -> io::Result<()> {
    let device = match plan.as_deployed {
        true => None,
        // Opened now: once a session begins, this program may have fewer rights.
        false => OpenOptions::new()
            .read(true)
            .write(true)
            .open(dma_latency::PATH)
            .ok(),
    };
    // Before there is a second thread.
    let further = Further {
        raw: plan.config.raw,
        explain: plan.config.explain,
    };
    give_up(plan.config.address.port(), further)?;
    let signals = Signals::listen()?;
    let here = Arc::new(Here {
        device,
        cpus: plan.config.cpus.clone(),
        state: Mutex::new(State::default()),
    });
    let is_over = || signals.end().is_some();
    serve(plan.config, here, is_over, say)
}

/// What a notice says of a session, for scripts: the name of its kind.
#[must_use]
pub fn notice_of(notice: &Notice) -> &'static str {
    match notice {
        Notice::Listening(_) => "listening",
        Notice::Rejected(..) => "rejected",
        Notice::Dropped(_) => "dropped",
        Notice::Began(..) => "began",
        Notice::NotExplained(..) => "not-explained",
        Notice::Ended(..) => "ended",
    }
}

#[derive(Default)]
struct State {
    memory_refused: Option<i32>,
    held: bool,
}

/// This machine.
struct Here {
    device: Option<File>,
    /// Of the replying thread.
    cpus: Vec<usize>,
    state: Mutex<State>,
}

impl Here {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the bound on idle wake-up time, in us.
    fn bound(&self, us: i32) -> bool {
        let device = self.device.as_ref();
        device.is_some_and(|mut device| device.write_all(&us.to_ne_bytes()).is_ok())
    }
}

impl Machine for Here {
    fn identity(&self) -> (String, String) {
        let root = Root::live();
        let line = |path: &str| {
            let text = root.text(path).unwrap_or_default();
            text.trim().to_owned()
        };
        (
            line("/proc/sys/kernel/hostname"),
            line("/proc/sys/kernel/osrelease"),
        )
    }

    fn clock(&self) -> ClockState {
        clocks::state(&Root::live())
    }

    fn begin(&self) {
        let mut state = self.state();
        state.memory_refused = memory::lock_all().err().and_then(|it| it.raw_os_error());
        state.held = self.bound(0);
    }

    fn conditions(&self, tid: i32, policy: Policy, refused: &[Refusal]) -> PeerConditions {
        let root = Root::live();
        let state = self.state();
        let found = survey::read_back(tid).ok();
        let memory = survey::memory::locked_memory(&root);
        let locked = state.memory_refused.is_none()
            && memory.locked_bytes > 0
            && memory.loose_bytes.unwrap_or(0) == 0;
        let policy_refused = refused.iter().find(|it| it.step == "policy");
        PeerConditions {
            requested: Some(requested(policy)),
            scheduling: found.as_ref().map(|it| it.to_record()),
            priority_refused: policy_refused.and_then(|it| it.error.raw_os_error()),
            cpu: found.and_then(|it| match it.cpus[..] {
                [cpu] => u32::try_from(cpu).ok(),
                _ => None,
            }),
            locked_memory: locked,
            memory_refused: state.memory_refused,
            cpu_dma_latency_us: state.held.then_some(0),
            ..PeerConditions::default()
        }
    }

    fn end(&self) {
        let mut state = self.state();
        let _ = memory::unlock_all();
        if std::mem::take(&mut state.held) {
            // The value that stands for no request.
            self.bound(i32::MAX);
        }
    }

    fn explain(&self, tid: i32, device: Option<String>) -> Result<Box<dyn Explain>, Unavailable> {
        let cpu = self.cpus.first().copied().unwrap_or(0);
        let delays = Delays::begin(tid, cpu, device, &Root::live())?;
        // This thread examines them as the session goes on. Optional: what it can't examine in time, it
        // does not explain.
        let _ = task::set_nice(NICE);
        Ok(Box::new(delays))
    }
}

fn requested(policy: Policy) -> Scheduling {
    match policy {
        Policy::Fifo(priority) => Scheduling::Fifo { priority },
        Policy::RoundRobin(priority) => Scheduling::Rr { priority },
        Policy::Other => Scheduling::Other,
        Policy::Deadline { .. } => Scheduling::Deadline,
    }
}
