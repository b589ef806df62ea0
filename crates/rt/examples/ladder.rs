//! A periodic loop of 1 kHz, with as many of the five steps as you ask for.
//!
//! `ladder [STEPS [CYCLES [CPU]]]`: 0 is a loop around a sleep; each number up to 5 takes one step
//! more. It prints how late the work of a cycle was done, and how many page faults it took. Exit
//! status 77: not permitted here, with a message that says how to fix it.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result"
)]

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use punctual_rt::irq::Interrupts;
use punctual_rt::memory::Disturbances;
use punctual_rt::sched::Policy;
use punctual_rt::thread::Builder;
use punctual_rt::{affinity, clock, heap};

const PERIOD_NS: u64 = 1_000_000;
/// Where the old affinities of interrupts are kept until they are restored.
const JOURNAL: &str = "/run/punctual-ladder-example.irqs";

struct Outcome {
    /// How late the work of each cycle was done, in ns.
    late_ns: Vec<u64>,
    faults: u64,
}

/// The loop. Its work is a line in a log: memory that it touches for the first time.
fn control(steps: u32, mut log: Vec<[u64; 8]>, mut late_ns: Vec<u64>) -> std::io::Result<Outcome> {
    let before = Disturbances::of_this_thread()?;
    let mut due_ns = clock::now_ns();
    while log.len() < log.capacity() {
        if steps == 0 {
            // relative-sleep: the period grows by all that is not sleep.
            due_ns = clock::now_ns() + PERIOD_NS;
            clock::sleep_for(PERIOD_NS)?;
        } else {
            // absolute-sleep: the period is kept, and lateness does not add up.
            due_ns += PERIOD_NS;
            clock::sleep_until(due_ns)?;
        }
        log.push([clock::now_ns(); 8]);
        late_ns.push(clock::now_ns() - due_ns);
    }
    let since = Disturbances::of_this_thread()?.since(&before);
    Ok(Outcome {
        late_ns,
        faults: since.minor_faults + since.major_faults,
    })
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let steps: u32 = words.next().map_or(Ok(4), |word| word.parse())?;
    let cycles: usize = words.next().map_or(Ok(1000), |word| word.parse())?;
    let cpu: usize = words.next().map_or(Ok(0), |word| word.parse())?;

    let mut thread = Builder::new().name("control");
    if steps >= 2 {
        // priority: it runs before all ordinary threads, and its timers have no slack.
        thread = thread.policy(Policy::Fifo(80));
    }
    if steps >= 3 {
        // locked-memory: all memory is present, and stays so; what is allocated later too.
        heap::prepare(1 << 20, 64 << 10)?;
    }
    if steps >= 4 {
        // affinity: it never waits for a busy CPU to take it over, and its caches stay warm.
        thread = thread.cpus(&[cpu]);
    }
    if steps >= 5 {
        let allowed = affinity::get(0)?.into_iter();
        let rest: Vec<usize> = allowed.filter(|it| *it != cpu).collect();
        // quiet-interrupts: no device interrupts its CPU.
        Interrupts::of_this_machine().steer(&[], &rest, Path::new(JOURNAL))?;
    }
    // Mapped, and without step 3 not yet present. What the statistics need is touched.
    let log = Vec::with_capacity(cycles);
    let mut late_ns = vec![u64::MAX; cycles];
    late_ns.clear();
    let thread = thread.start(move || control(steps, log, late_ns));
    let outcome = thread.map(|thread| thread.join());
    if steps >= 5 {
        Interrupts::of_this_machine().restore(Path::new(JOURNAL))?;
    }
    let Outcome {
        mut late_ns,
        faults,
    } = outcome?.map_err(|_| "the thread panicked")??;
    late_ns.sort_unstable();
    let at = |share: f64| {
        late_ns
            .get((late_ns.len() as f64 * share) as usize)
            .unwrap_or(&0)
    };
    println!(
        "{} cycles, {faults} faults, p50 {} ns, p99 {} ns, worst {} ns",
        late_ns.len(),
        at(0.5),
        at(0.99),
        late_ns.last().unwrap_or(&0)
    );
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(77)
        }
    }
}
