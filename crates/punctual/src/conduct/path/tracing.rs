//! The kernel's events of this machine, which divide the bills of late messages further.
//!
//! The thread that joins the messages copies the events out; those that send and receive take no part.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use punctual_machine::{Root, survey};
use punctual_network::bill::{Refine, Standing};
use punctual_network::exchange::Exchange;
use punctual_record::path::bill::MessageBill;
use punctual_record::{Event, Happening, TracerCost};
use punctual_rt::sys::time::clock_now;
use punctual_trace::attribute::message::{Moments, divide};
use punctual_trace::capture::messages::MessageRecording;
use punctual_trace::capture::numbers::Numbers;
use punctual_trace::capture::{self, Capture, Options, Unavailable};

use super::threads::Threads;
use crate::conduct::explain::number;

/// The longest time for which bills are divided before the rings are copied again; and in one round.
const AT_ONCE: Duration = Duration::from_millis(25);
const IN_A_ROUND: Duration = Duration::from_millis(100);

/// The recording, and what it took.
struct State {
    recording: MessageRecording,
    /// The sending and the receiving thread, as the kernel numbers them.
    threads: [u32; 2],
    cpu_ns: u64,
    /// Events that were lost before the measurement, while nothing copied them out.
    lost_before: u64,
    /// When the rings were copied last, and when this round began.
    copied: Instant,
    round: Instant,
}

/// A recording under way.
#[derive(Clone)]
pub struct Tracing(Arc<Mutex<State>>);

impl Tracing {
    /// Begins to record; where that can't be, an event says why.
    pub fn begin(threads: &Threads, root: &Root, events: &mut Vec<Event>) -> Option<Self> {
        Self::start(threads, root)
            .map_err(|why| {
                let what = Happening::NotExplained {
                    why,
                    gaps: false,
                    messages: true,
                };
                events.push(Event::new(0, what));
            })
            .ok()
    }

    fn start(threads: &Threads, root: &Root) -> Result<Self, Unavailable> {
        let threads: Vec<(usize, i32)> = threads
            .ready
            .iter()
            .map(|(cpu, ready)| (*cpu, ready.tid))
            .collect();
        let (capture, threads) = start(&threads, root)?;
        let [sender, receiver] = [0, 1].map(|index| threads.get(index).copied().unwrap_or(0));
        let now = Instant::now();
        Ok(Self(Arc::new(Mutex::new(State {
            recording: MessageRecording::new(capture),
            threads: [sender, receiver],
            cpu_ns: 0,
            lost_before: 0,
            copied: now,
            round: now,
        }))))
    }

    /// The measurement begins.
    pub fn count_from_now(&self) {
        let mut state = self.state();
        state.copy();
        state.lost_before = state.recording.capture().lost();
    }

    /// Copies the new events, before messages whose replies came before now are examined.
    pub fn round(&self) {
        let mut state = self.state();
        state.round = Instant::now();
        state.measured(State::copy);
    }

    /// Divides the bills of late messages.
    pub fn refine(&self) -> Refine {
        let shared = self.clone();
        Box::new(move |exchange, standing, bill| shared.state().divide(exchange, standing, bill))
    }

    /// What it has cost so far.
    pub fn cost(&self) -> TracerCost {
        let state = self.state();
        let capture = state.recording.capture();
        TracerCost {
            cpu_ns: state.cpu_ns,
            events: capture.events(),
            lost: capture.lost().saturating_sub(state.lost_before),
            unread_ns: capture.unread_ns(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records what the kernel does on all CPUs, for threads that are bound to a CPU each; returns how the
/// kernel numbers them.
///
/// # Errors
/// Why the kernel can't be asked.
pub fn start(threads: &[(usize, i32)], root: &Root) -> Result<(Capture, Vec<u32>), Unavailable> {
    let numbers = Numbers::read()?;
    let targets: Vec<(u32, u32)> = threads
        .iter()
        .map(|(cpu, tid)| (numbers.kernels(tid.unsigned_abs()), number(*cpu)))
        .collect();
    let kernels = targets.iter().map(|(thread, _)| *thread).collect();
    // A packet may be received on any CPU.
    let mut cpus: Vec<u32> = survey::online(root).into_iter().map(number).collect();
    cpus.extend(targets.iter().map(|(_, cpu)| *cpu));
    cpus.sort_unstable();
    cpus.dedup();
    let capture = Capture::start(&Options {
        targets,
        roaming: Vec::new(),
        all_wakings: true,
        interrupt_above_ns: 0,
        ring_events: capture::ring_events(cpus.len()),
        cpus,
    })?;
    Ok((capture, kernels))
}

impl State {
    fn measured<R>(&mut self, work: impl FnOnce(&mut Self) -> R) -> R {
        let before_ns = clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
        let result = work(self);
        let after_ns = clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
        self.cpu_ns += after_ns.saturating_sub(before_ns);
        result
    }

    fn copy(&mut self) {
        self.recording.drain();
        self.copied = Instant::now();
    }

    fn divide(&mut self, exchange: &Exchange, standing: Standing, bill: &mut MessageBill) -> bool {
        // The bills of very many messages take longer than the rings hold, and more than their share.
        if self.round.elapsed() > IN_A_ROUND && !standing.is_kept {
            return false;
        }
        let Some(reply) = exchange.reply else {
            return false;
        };
        let [sender, receiver] = self.threads;
        let moments = Moments {
            requested_ns: exchange.requested_ns,
            call_ns: exchange.sent.call_begin_ns,
            sent_ns: exchange.sent.software.last(),
            received_ns: reply.rx_software_ns,
            woke_ns: reply.woke_ns,
            read_with_later: standing.replies_together,
            sender,
            receiver,
        };
        self.measured(|state| {
            if state.copied.elapsed() > AT_ONCE {
                state.copy();
            }
            divide(bill, &moments, &mut state.recording)
        })
    }
}
