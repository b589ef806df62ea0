//! The hidden verb `__cost`: the process above one run of a command. It runs the command under the
//! conditions of its arm, ends what the command leaves running, and prints what all of that used.
//!
//! It is a process of its own so that nothing but the command's processes is in its figures, and so
//! that they end with punctual, however that ends: the kernel closes the pipe that is its standard
//! input.
#![expect(unsafe_code, reason = "getrusage, which nothing else offers")]

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use punctual_machine::{Root, root, survey};
use punctual_rt::sched::{self, Policy};
use punctual_rt::{clock, sys::perf};
use punctual_stats::cost::Usage;
use serde::{Deserialize, Serialize};

use crate::launch::{Launch, Lock, Stacks};

/// The hidden verb.
pub const VERB: &str = "__cost";
/// Wrong usage, as in sysexits.h.
const USAGE: u8 = 64;
/// `PERF_TYPE_HARDWARE` and its `PERF_COUNT_HW_INSTRUCTIONS`.
const INSTRUCTIONS: (u32, u64) = (0, 1);

/// The conditions of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunJob {
    /// The command's CPUs; empty keeps ours.
    pub cpus: Vec<usize>,
    /// Its priority, SCHED_FIFO.
    pub priority: Option<u32>,
    /// Whether its memory is locked.
    pub locked: bool,
    /// Whether standard input is no pipe of punctual's: in a guest, everything ends with the guest.
    #[serde(default)]
    pub in_guest: bool,
}

/// What a run gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunAnswer {
    /// The command ended.
    Ended {
        /// When it was started, CLOCK_MONOTONIC in ns.
        started_ns: u64,
        /// What it used, with all of its processes.
        usage: Usage,
        /// Its exit status, unless a signal ended it.
        status: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
        /// Processes that it left running.
        left: usize,
        /// Why instructions were not counted.
        no_instructions: Option<String>,
    },
    /// It was not started.
    Refused {
        /// Why not, in one line.
        line: String,
        /// The exit status for that.
        status: u8,
    },
}

/// The entry of `__cost JOB COMMAND...`, with the arguments after the verb.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let job = arguments.next().and_then(|it| it.into_string().ok());
    let job = job.and_then(|it| serde_json::from_str::<RunJob>(&it).ok());
    let command: Vec<OsString> = arguments.collect();
    let (Some(job), Some((name, rest))) = (job, command.split_first()) else {
        let _ = writeln!(
            io::stderr(),
            "punctual: __cost is for punctual itself: use 'punctual cost'"
        );
        return ExitCode::from(USAGE);
    };
    let answer = run(&job, name, rest).unwrap_or_else(|error| RunAnswer::Refused {
        line: format!("running {} failed: {error}", name.to_string_lossy()),
        status: 1,
    });
    let text = serde_json::to_string(&answer).unwrap_or_default();
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Whether nobody waits for the run any more; held while a process is started.
type Over = Arc<Mutex<bool>>;

fn held(over: &Over) -> MutexGuard<'_, bool> {
    over.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run(job: &RunJob, name: &OsString, arguments: &[OsString]) -> io::Result<RunAnswer> {
    punctual_load::become_subreaper()?;
    let over = Over::default();
    // Above the command, which may use all CPUs at its priority.
    let above = job
        .priority
        .map_or(Policy::Other, |it| Policy::Fifo((it + 1).min(99)));
    if !job.in_guest {
        end_with_punctual(&over, above)?;
    }
    let launch = Launch {
        stacks: Stacks::None,
        stack_debug: None,
        stack_size: 1 << 20,
        lock: job.locked.then_some(Lock::All),
        user_namespace: survey::user_namespace(&Root::live()) == Some(true),
        cpus: job.cpus.clone(),
        policy: job.priority.map(Policy::Fifo),
        report: false,
    };
    let refused = |refusal: crate::launch::Refusal| RunAnswer::Refused {
        line: refusal.to_string(),
        status: refusal.status(),
    };
    let mut command = match launch.prepare(name, arguments) {
        Ok(command) => command,
        Err(refusal) => return Ok(refused(refusal)),
    };
    // Standard output carries the answer.
    let output: OwnedFd = io::stderr().as_fd().try_clone_to_owned()?;
    command
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    // What it took to look at the program's file is not the program's.
    let before = children()?;
    let (kind, config) = INSTRUCTIONS;
    let counter = perf::count_with_children(kind, config);
    let started_ns;
    let mut child = {
        let over = held(&over);
        if *over {
            return Err(io::ErrorKind::Interrupted.into());
        }
        started_ns = clock::now_ns();
        match command.spawn() {
            Ok(child) => child,
            Err(source) => {
                let name = name.to_string_lossy().into_owned();
                return Ok(refused(crate::launch::Refusal::NotRun { name, source }));
            }
        }
    };
    if above != Policy::Other {
        // Below what it waits for, it would see the end late.
        let _ = sched::set_current(above);
    }
    let status = child.wait()?;
    let elapsed_ns = clock::now_ns().saturating_sub(started_ns);
    let left = punctual_load::end_descendants();
    let instructions = counter.and_then(|counter| perf::hits(&counter));
    let used = children()?;
    Ok(RunAnswer::Ended {
        started_ns,
        usage: Usage {
            elapsed_ns,
            instructions: instructions.as_ref().ok().copied(),
            ..since(used, before)
        },
        status: status.code(),
        signal: status.signal(),
        left,
        no_instructions: instructions.err().map(|error| root::plain(&error)),
    })
}

/// Ends the command and this process when punctual has ended or wants no more.
fn end_with_punctual(over: &Over, policy: Policy) -> io::Result<()> {
    let over = Arc::clone(over);
    let wait = move || {
        // The priority is optional: it matters only where the command occupies all CPUs.
        let _ = sched::set_current(policy);
        // Nothing is ever written: it returns at the end of the pipe.
        let _ = io::stdin().lock().read(&mut [0]);
        *held(&over) = true;
        punctual_load::kill_descendants();
        std::process::exit(1);
    };
    std::thread::Builder::new()
        .name("until-the-end".to_owned())
        .stack_size(256 << 10)
        .spawn(wait)
        .map(|_| ())
}

/// Whose use of the machine is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// This process's own, all of its threads.
    Own,
    /// Of all children that were waited for, with theirs.
    Children,
}

/// What they have used until now.
///
/// # Errors
/// The system's.
pub fn used(whose: Whose) -> io::Result<Usage> {
    let whose = match whose {
        Whose::Own => libc::RUSAGE_SELF,
        Whose::Children => libc::RUSAGE_CHILDREN,
    };
    // SAFETY: a struct of integers, for which zero is a value.
    let mut used: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `used` is a live struct of the kernel's layout.
    if unsafe { libc::getrusage(whose, &mut used) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Ok(Usage {
        user_ns: ns(used.ru_utime),
        system_ns: ns(used.ru_stime),
        instructions: None,
        elapsed_ns: 0,
        voluntary_switches: used.ru_nvcsw as u64,
        involuntary_switches: used.ru_nivcsw as u64,
        minor_faults: used.ru_minflt as u64,
        major_faults: used.ru_majflt as u64,
    })
}

fn children() -> io::Result<Usage> {
    used(Whose::Children)
}

fn since(now: Usage, before: Usage) -> Usage {
    let of = |it: fn(&Usage) -> u64| it(&now).saturating_sub(it(&before));
    Usage {
        user_ns: of(|it| it.user_ns),
        system_ns: of(|it| it.system_ns),
        instructions: None,
        elapsed_ns: 0,
        voluntary_switches: of(|it| it.voluntary_switches),
        involuntary_switches: of(|it| it.involuntary_switches),
        minor_faults: of(|it| it.minor_faults),
        major_faults: of(|it| it.major_faults),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_and_theirs_is_counted() {
        let before = children().unwrap();
        // The grandchild works, and the child waits for it.
        let script = "sh -c 'i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done'; :";
        let ended = std::process::Command::new("sh")
            .args(["-c", script])
            .status();
        assert!(ended.unwrap().success());
        let used = since(children().unwrap(), before);
        assert!(used.cpu_ns() > 20_000_000, "{used:?}");
    }

    #[test]
    fn a_counter_counts_in_children_that_have_ended() {
        // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK: each machine has it.
        let Ok(counter) = perf::count_with_children(1, 1) else {
            // Not permitted here: the record says so instead of counting.
            return;
        };
        let before = perf::hits(&counter).unwrap();
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let ended = std::process::Command::new("sh")
            .args(["-c", script])
            .status();
        assert!(ended.unwrap().success());
        let counted_ns = perf::hits(&counter).unwrap() - before;
        assert!(counted_ns > 20_000_000, "{counted_ns}");
    }
}
