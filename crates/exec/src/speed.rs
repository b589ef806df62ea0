//! How fast a CPU turns the loop by which tasks execute for a time.
//!
//! The fastest of many trials is the speed: what disturbs a trial makes it longer, never shorter. On
//! a busy machine it repeats to less than a thousandth, if the trials are spread: a neighbour on the
//! same core (of a virtual machine's host, too) takes 1.6 times the time for tens of milliseconds.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use punctual_rt::clock;
use punctual_rt::thread::{Builder, SpawnError};

use crate::sys::spin;

/// Trials of a calibration.
const TRIALS: usize = 40;
/// Trials without a pause between them,
const AT_ONCE: usize = 4;
/// and the pause before them,
const PAUSE: Duration = Duration::from_millis(25);
/// which is shorter where many CPUs are measured: all pauses take no longer than this.
const PAUSES: Duration = Duration::from_secs(2);
/// A trial takes about this long: short enough that some are not disturbed by a tick.
const TRIAL_NS: u64 = 200_000;
/// Turns of the first guess.
const GUESS: u64 = 20_000;

/// The speed of a CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// Turns of the loop of the fastest trial,
    pub turns: u64,
    /// and the time that it took.
    pub ns: u64,
    /// How much longer the trial took that is longer than half of them, as a share.
    pub spread: f64,
}

/// Why a CPU's speed isn't known.
#[derive(Debug)]
pub enum SpeedError {
    /// No thread could be started.
    Thread(SpawnError),
    /// It could not be moved to the CPU.
    Refused(io::Error),
    /// The clock stood still.
    Clock,
}

impl std::fmt::Display for SpeedError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Thread(error) => write!(f, "{error}"),
            Self::Refused(error) => write!(f, "{error}"),
            Self::Clock => f.write_str("its clock stands still"),
        }
    }
}

impl std::error::Error for SpeedError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Thread(error) => Some(error),
            Self::Refused(error) => Some(error),
            Self::Clock => None,
        }
    }
}

impl Speed {
    /// Measures the speed of a CPU of so many, in a thread of its own; some 250 ms, for many CPUs
    /// together some 2 s, and 10 ms each.
    ///
    /// # Errors
    /// Why it isn't known.
    pub fn of_cpu(cpu: usize, of: usize) -> Result<Self, SpeedError> {
        let groups = u32::try_from(of.max(1) * (TRIALS / AT_ONCE)).unwrap_or(u32::MAX);
        let pause = PAUSE.min(PAUSES / groups);
        let measured = Builder::new()
            .name("speed")
            .stack_size(64 << 10)
            .cpus(&[cpu])
            .spawn(move |setup| match setup.refused.into_iter().next() {
                Some(refusal) => Err(SpeedError::Refused(refusal.error)),
                None => Self::measure(pause),
            })
            .map_err(SpeedError::Thread)?;
        measured.join().unwrap_or(Err(SpeedError::Clock))
    }

    fn measure(pause: Duration) -> Result<Self, SpeedError> {
        let trial = |turns: u64| {
            let begun_ns = clock::now_ns();
            spin::spin(turns);
            clock::now_ns().saturating_sub(begun_ns)
        };
        let guess_ns = (0..TRIALS).map(|_| trial(GUESS)).min().unwrap_or(0);
        if guess_ns == 0 {
            return Err(SpeedError::Clock);
        }
        let turns = (GUESS * TRIAL_NS / guess_ns).max(GUESS);
        let mut took: Vec<u64> = (0..TRIALS)
            .map(|number| {
                if number % AT_ONCE == 0 {
                    sleep(pause);
                }
                trial(turns)
            })
            .collect();
        took.sort_unstable();
        let (ns, median) = (took[0].max(1), took[TRIALS / 2]);
        Ok(Self {
            turns,
            ns,
            spread: (median - ns.min(median)) as f64 / ns as f64,
        })
    }

    /// The turns that take a time.
    #[must_use]
    pub fn turns(&self, ns: u64) -> u64 {
        let turns = u128::from(ns) * u128::from(self.turns) / u128::from(self.ns.max(1));
        u64::try_from(turns).unwrap_or(u64::MAX)
    }
}

/// The turns that execute so many instructions.
#[must_use]
pub fn turns_of(instructions: u64) -> u64 {
    instructions / spin::INSTRUCTIONS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_turned_into_turns_and_back() {
        let speed = Speed {
            turns: 400_000,
            ns: 200_000,
            spread: 0.0,
        };
        assert_eq!(speed.turns(50_000), 100_000);
        assert_eq!(speed.turns(0), 0);
        assert_eq!(speed.turns(u64::MAX), u64::MAX);
    }

    #[test]
    fn the_fastest_of_many_executions_takes_the_time_that_was_asked_for() {
        let cpu = punctual_rt::affinity::get(0).unwrap()[0];
        let fastest = || {
            let turns = Speed::of_cpu(cpu, 1).unwrap().turns(100_000);
            let once = || {
                let begun_ns = clock::now_ns();
                spin::spin(turns);
                clock::now_ns() - begun_ns
            };
            (0..200).map(|_| once()).min().unwrap()
        };
        // A host's clock and its other guests change the speed meanwhile, sometimes; a wrong loop
        // is off each time.
        let found: Vec<u64> = (0..10).map(|_| fastest()).collect();
        let right = found.iter().filter(|it| (80_000..130_000).contains(*it));
        assert!(right.count() >= 3, "{found:?}");
    }
}
