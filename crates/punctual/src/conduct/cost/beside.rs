//! What runs beside the command: the probe, and the real-time load.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use punctual_record::Interval;
use punctual_record::cost::CostWakeUps;
use punctual_rt::clock;
use punctual_rt::periodic::{Fixed, Schedule};
use punctual_rt::ring::{Consumer, ring};
use punctual_rt::sched::Policy;
use punctual_rt::sys::time::clock_now;
use punctual_rt::thread::{Builder, Handle, StartLine};
use punctual_stats::Histogram;

use super::error::{CostError, PROBE};
use crate::probe::cycle::{Bounds, Halt, Sample};
use crate::probe::kinds::KINDS;
use crate::probe::thread::{Probe, ProbeRequest, run_up_ns};

/// Wake-ups that the ring holds: two seconds of 10,000 per second; it is emptied 20 times a second.
const RING: usize = 1 << 15;
/// How long to wait until a thread has set itself up.
const PATIENCE: Duration = Duration::from_secs(10);

/// A wake-up that is later than this after the end of a run counts as lost.
const LATE: Duration = Duration::from_secs(5);

/// A probe beside a run.
pub struct Beside {
    probe: Probe,
    halt: Arc<Halt>,
    samples: Consumer<Sample>,
    kept: Vec<Sample>,
}

impl Beside {
    /// Starts the probe, and returns when it measures.
    ///
    /// # Errors
    /// Its scheduling is refused.
    pub fn begin(
        cpu: usize,
        policy: Policy,
        interval_ns: u64,
        seed: u64,
    ) -> Result<Self, CostError> {
        let failed = |step: String, source: io::Error| CostError::Thread {
            what: PROBE,
            step,
            source,
        };
        let (line, halt) = (Arc::<StartLine>::default(), Arc::new(Halt::at(u64::MAX)));
        let (producer, samples) = ring(RING);
        let (tell, told) = mpsc::channel();
        let request = ProbeRequest {
            index: 0,
            cpu,
            kind: KINDS[0],
            interval: Interval::Primes {
                interval_ns,
                seed,
                table_ns: Vec::new(),
            },
            policy,
            bounds: Bounds {
                cycles: u64::MAX,
                break_ns: u64::MAX,
            },
            polling: None,
        };
        let probe = Probe::start(request, producer, &line, &halt, tell).map_err(|error| {
            failed(
                "starting a thread".to_owned(),
                io::Error::other(error.to_string()),
            )
        })?;
        let ready = told
            .recv_timeout(PATIENCE)
            .map_err(|_| failed("starting".to_owned(), io::ErrorKind::TimedOut.into()))?;
        if let Some((step, error)) = ready.refused.into_iter().next() {
            return Err(failed(step.to_owned(), error));
        }
        let start_ns = clock::now_ns() + run_up_ns();
        line.go(start_ns);
        while clock::sleep_until(start_ns).is_err() {}
        Ok(Self {
            probe,
            halt,
            samples,
            kept: Vec::new(),
        })
    }

    /// Takes the wake-ups so far.
    pub fn collect(&mut self) {
        let kept = &mut self.kept;
        self.samples.drain(|sample| kept.push(sample));
    }

    /// Ends the probe; its wake-ups that were due within the run.
    pub fn end(mut self, started_ns: u64, elapsed_ns: u64) -> CostWakeUps {
        let end_ns = started_ns.saturating_add(elapsed_ns);
        // The last one of the run may be late, and that is the one that matters.
        let begun = Instant::now();
        let is_beyond = |it: &Self| it.kept.last().is_some_and(|it| it.requested_ns >= end_ns);
        while !is_beyond(&self) && !self.probe.is_over() && begun.elapsed() < LATE {
            std::thread::sleep(Duration::from_millis(1));
            self.collect();
        }
        let missing = u64::from(!is_beyond(&self));
        self.halt.now();
        let lost = self.samples.refused() + missing;
        let mut latency = Histogram::new();
        let mut skipped = 0_u64;
        for sample in &self.kept {
            if (started_ns..end_ns).contains(&sample.requested_ns) {
                latency.record(sample.latency_ns());
                skipped = skipped.saturating_add(sample.missed);
            }
        }
        drop(self.probe);
        CostWakeUps::of(&latency, skipped, lost)
    }
}

/// A periodic load of real-time priority.
pub struct RtLoad {
    over: Arc<AtomicBool>,
    threads: Vec<Handle<Result<f64, (String, io::Error)>>>,
}

impl RtLoad {
    /// Starts a thread on each CPU.
    ///
    /// # Errors
    /// Its scheduling is refused.
    pub fn begin(
        cpus: &[usize],
        priority: u32,
        period_ns: u64,
        utilisation: f64,
    ) -> Result<Self, CostError> {
        let over = Arc::new(AtomicBool::new(false));
        let mut load = Self {
            over,
            threads: Vec::new(),
        };
        let (tell, told) = mpsc::channel();
        for cpu in cpus {
            let (over, tell) = (Arc::clone(&load.over), tell.clone());
            let work_ns = (period_ns as f64 * utilisation) as u64;
            let spawned = Builder::new()
                .name(&format!("rt-load/{cpu}"))
                .cpus(&[*cpu])
                .policy(Policy::Fifo(priority))
                .spawn(move |setup| {
                    if let Some(refused) = setup.refused.into_iter().next() {
                        let step = refused.step.to_string();
                        let _ = tell.send(false);
                        return Err((step, refused.error));
                    }
                    let _ = tell.send(true);
                    drop(tell);
                    Ok(work(&over, period_ns, work_ns))
                });
            match spawned {
                Ok(thread) => load.threads.push(thread),
                Err(error) => {
                    return Err(refused(
                        "starting a thread".to_owned(),
                        io::Error::other(error.to_string()),
                    ));
                }
            }
        }
        drop(tell);
        for _ in cpus {
            match told.recv_timeout(PATIENCE) {
                Ok(true) => {}
                Ok(false) => return load.end().and(Err(refused_without_reason())),
                Err(_) => {
                    return Err(refused(
                        "starting".to_owned(),
                        io::ErrorKind::TimedOut.into(),
                    ));
                }
            }
        }
        Ok(load)
    }

    /// Ends it; the part of its CPUs that it used.
    ///
    /// # Errors
    /// A thread was refused its scheduling.
    pub fn end(mut self) -> Result<f64, CostError> {
        self.over.store(true, Ordering::Release);
        let count = self.threads.len().max(1) as f64;
        let mut sum = 0.0;
        for thread in self.threads.drain(..) {
            match thread.join() {
                Ok(Ok(part)) => sum += part,
                Ok(Err((step, error))) => return Err(refused(step, error)),
                Err(_) => return Err(refused_without_reason()),
            }
        }
        Ok(sum / count)
    }
}

impl Drop for RtLoad {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
    }
}

fn refused(step: String, source: io::Error) -> CostError {
    CostError::Thread {
        what: "the real-time load",
        step,
        source,
    }
}

fn refused_without_reason() -> CostError {
    refused("running".to_owned(), io::ErrorKind::Other.into())
}

/// Works in each period until the end; the part of the time that it had a CPU.
fn work(over: &AtomicBool, period_ns: u64, work_ns: u64) -> f64 {
    let cpu_ns = || clock_now(libc::CLOCK_THREAD_CPUTIME_ID);
    let (begin_ns, cpu_before_ns) = (clock::now_ns(), cpu_ns());
    let mut schedule = Schedule::new(begin_ns, Fixed(period_ns));
    while !over.load(Ordering::Acquire) {
        if clock::sleep_until(schedule.due_ns()).is_err() {
            continue;
        }
        let end_ns = clock::now_ns() + work_ns;
        while clock::now_ns() < end_ns {
            std::hint::spin_loop();
        }
        schedule.skip_until(clock::now_ns());
        schedule.advance();
    }
    // Whole periods alone: it is up to the next one that has not begun.
    let elapsed_ns = schedule.due_ns().saturating_sub(begin_ns).max(1);
    cpu_ns().saturating_sub(cpu_before_ns) as f64 / elapsed_ns as f64
}
