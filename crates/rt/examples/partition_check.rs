//! Isolates the last CPU in a processor set, moves a process into it and back, and checks the
//! kernel's result: a cgroup v2 partition if v2 has the cpuset controller, else v1.
//!
//! One static file, to be run as root on a spare machine, for example a guest. Exit status 77:
//! not possible here, with the reason.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "an example prints its result"
)]

use std::process::{Child, Command, ExitCode, Stdio};

use punctual_rt::affinity;
use punctual_rt::cpuset::{Cpuset, CpusetError, Cpusets};

type Error = Box<dyn std::error::Error>;

/// The process to move: this program, waiting for the end of its standard input.
struct Waiting(Child);

impl Waiting {
    fn start() -> Result<Self, Error> {
        let mut itself = Command::new(std::env::current_exe()?);
        Ok(Self(itself.arg("wait").stdin(Stdio::piped()).spawn()?))
    }

    fn process(&self) -> i32 {
        self.0.id().cast_signed()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, wanted: &T) -> Result<(), Error> {
    println!("{what}: {found:?}");
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{what}: {found:?} where {wanted:?} was to be").into())
    }
}

/// `all` are the CPUs from before the set existed: a partition takes its CPUs from all other
/// groups.
fn check(set: &Cpuset, cpu: usize, all: &Vec<usize>) -> Result<(), Error> {
    set.state()?;
    println!("isolated: the kernel says so");
    expect("its CPUs", &set.cpus()?, &cpu.to_string())?;
    let moved = Waiting::start()?;
    set.move_process(moved.process())?;
    expect(
        "CPUs of a process inside",
        &affinity::get(moved.process())?,
        &vec![cpu],
    )?;
    set.remove()?;
    let after = affinity::get(moved.process())?;
    expect("CPUs of the process outside again", &after, all)
}

fn run() -> Result<ExitCode, Error> {
    let sets = match Cpusets::of_this_machine() {
        Ok(sets) => sets,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(77));
        }
    };
    println!("cpuset controller: version {:?}", sets.version());
    let cpus = affinity::get(0)?;
    let [_, .., cpu] = cpus[..] else {
        eprintln!("one CPU alone can't be isolated");
        return Ok(ExitCode::from(77));
    };
    let name = format!("punctual-check-{}", std::process::id());
    let set = match sets.create(&name, &[cpu]) {
        Ok(set) => set,
        Err(error @ (CpusetError::NotIsolated(_) | CpusetError::System(..))) => {
            eprintln!("CPU {cpu}: {error}");
            return Ok(ExitCode::from(77));
        }
        Err(error) => return Err(error.into()),
    };
    let checked = check(&set, cpu, &cpus);
    let removed = set.remove();
    checked?;
    removed?;
    println!("removed: {}", sets.find(&name).is_err());
    Ok(ExitCode::SUCCESS)
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "wait") {
        let _ = std::io::read_to_string(std::io::stdin());
        return ExitCode::SUCCESS;
    }
    run().unwrap_or_else(|error| {
        eprintln!("{error}");
        ExitCode::FAILURE
    })
}
