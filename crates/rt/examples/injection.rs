//! Fuel injection: reads the angle of the crankshaft, computes the time until the next injection,
//! waits, and injects. Prints the largest error of the angle.
//!
//! After Paul McKenney's example of a real-time program. `injection [SECONDS [RPM]]`; exit status
//! 77: not permitted here.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result"
)]

use std::error::Error;
use std::process::ExitCode;

use punctual_rt::clock;
use punctual_rt::heap::{self, FaultMark};
use punctual_rt::sched::Policy;
use punctual_rt::thread::Builder;

/// Degrees after top dead centre.
const INJECT_AT: f64 = 340.0;

/// A shaft that turns at constant speed.
struct Engine {
    begun_ns: u64,
    degrees_per_ns: f64,
}

impl Engine {
    /// Reads the sensor.
    fn angle(&self, now_ns: u64) -> f64 {
        ((now_ns - self.begun_ns) as f64 * self.degrees_per_ns).rem_euclid(360.0)
    }
}

#[derive(Default)]
struct Injections {
    count: u64,
    bad: u64,
    worst: f64,
    faults: u64,
}

fn inject(engine: &Engine, until_ns: u64) -> std::io::Result<Injections> {
    let mark = FaultMark::now()?;
    let mut done = Injections::default();
    loop {
        let now = clock::now_ns();
        if now >= until_ns {
            break;
        }
        let mut ahead = INJECT_AT - engine.angle(now);
        if ahead <= 0.0 {
            ahead += 360.0;
        }
        // A signal ends the sleep early: the angle is read again.
        if clock::sleep_until(now + (ahead / engine.degrees_per_ns) as u64).is_err() {
            continue;
        }
        // The valve opens here.
        let mut off = engine.angle(clock::now_ns()) - INJECT_AT;
        if off < -180.0 {
            off += 360.0;
        }
        done.count += 1;
        done.worst = done.worst.max(off);
        // An error of more than a degree is a bad injection.
        done.bad += u64::from(off > 1.0);
    }
    let since = mark.since()?;
    done.faults = since.minor_faults + since.major_faults;
    Ok(done)
}

fn run() -> Result<ExitCode, Box<dyn Error>> {
    heap::prepare(1 << 20, 64 << 10)?;
    let mut words = std::env::args().skip(1);
    let seconds: u64 = words.next().map_or(Ok(5), |word| word.parse())?;
    let rpm: f64 = words.next().map_or(Ok(1500.0), |word| word.parse())?;
    let begun_ns = clock::now_ns();
    let engine = Engine {
        begun_ns,
        degrees_per_ns: rpm * 360.0 / 60e9,
    };
    let thread = Builder::new()
        .name("injector")
        .policy(Policy::Fifo(90))
        .start(move || inject(&engine, begun_ns + seconds * 1_000_000_000))?;
    let done = thread.join().map_err(|_| "the thread panicked")??;
    println!(
        "{} injections, {} bad, {} faults, at most {:.3} degrees late",
        done.count, done.bad, done.faults, done.worst
    );
    Ok(ExitCode::from(u8::from(done.faults != 0)))
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::from(77)
    })
}
