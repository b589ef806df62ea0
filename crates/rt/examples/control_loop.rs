//! A control loop: 1 kHz, SCHED_FIFO, no page fault. It controls the speed of a motor.
//!
//! `control_loop [SECONDS [CPUS]]`; exit status 77: not permitted here, with a message that says
//! how to fix it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result"
)]

use std::error::Error;
use std::process::ExitCode;

use punctual_rt::affinity;
use punctual_rt::cpulist::CpuList;
use punctual_rt::heap::{self, FaultMark};
use punctual_rt::log::{self, Logger};
use punctual_rt::memory::Disturbances;
use punctual_rt::periodic::{Loop, Overrun};
use punctual_rt::sched::Policy;
use punctual_rt::thread::Builder;

struct Outcome {
    missed: u64,
    longest_ns: u64,
    speed: f64,
    since: Disturbances,
}

/// One step of a motor whose speed follows its voltage with a delay.
fn motor(speed: f64, voltage: f64) -> f64 {
    speed + (voltage * 100.0 - speed) * 0.01
}

fn control(cycles: u64, log: &mut Logger) -> std::io::Result<Outcome> {
    let mark = FaultMark::now()?;
    let mut every = Loop::every(1_000_000, Overrun::Skip);
    let (mut speed, mut integral, mut longest_ns) = (0.0, 0.0, 0);
    while every.cycles() < cycles {
        // A signal ends the wait early; the period is still due.
        let Ok(cycle) = every.wait() else { continue };
        let error = 1000.0 - speed;
        integral += error * 0.001;
        speed = motor(speed, error * 0.02 + integral * 0.4);
        longest_ns = longest_ns.max(cycle.latency_ns());
        if every.cycles() % 100 == 1 {
            log.log(
                0,
                &[
                    every.cycles(),
                    speed.to_bits(),
                    cycle.latency_ns(),
                    cycle.missed,
                ],
            );
        }
    }
    Ok(Outcome {
        missed: every.missed(),
        longest_ns,
        speed,
        since: mark.since()?,
    })
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    // First: prefault and lock the heap and this thread's stack.
    heap::prepare(1 << 20, 64 << 10)?;

    let mut words = std::env::args().skip(1);
    let seconds: u64 = words.next().map_or(Ok(5), |word| word.parse())?;
    let list: CpuList = words.next().map_or(Ok(CpuList::All), |word| word.parse())?;
    let cpus = list.choose(&affinity::get(0)?)?;
    let formats = vec!["cycle %u: speed %f, late %u ns, missed %u".to_owned()];
    let (mut logger, writer) = log::open(1024, formats, std::io::stderr())?;
    let thread = Builder::new()
        .name("control")
        .stack_size(64 << 10)
        .cpus(&cpus)
        .policy(Policy::Fifo(80))
        .start(move || control(1000 * seconds, &mut logger))?;
    let outcome = thread.join().map_err(|_| "the thread panicked")??;
    writer.close()?;
    let faults = outcome.since.minor_faults + outcome.since.major_faults;
    println!(
        "{} cycles, {} missed, {faults} faults, at most {} ns late, speed {:.1}",
        1000 * seconds,
        outcome.missed,
        outcome.longest_ns,
        outcome.speed
    );
    Ok(ExitCode::from(u8::from(faults != 0)))
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(77)
    })
}
