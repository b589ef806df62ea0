//! Inside the guest: this binary is the first process. It prepares the guest, runs the work in a child
//! process, writes the results to the host, and ends the guest.

mod files;
mod modules;

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::panic;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::board::Board;
use super::channel::{self, BEGIN, END};
use super::job::{
    End, IN_ROOT, JOB_FILE, Job, JobResult, LIBRARIES, OURSELVES, OUT, ROOT, ROOT_PATH,
    SEED_VARIABLE,
};
use super::sys::outlet::Outlet;
use super::sys::{self, Ended};
use punctual_record::lab::{GuestFault, GuestProcess};
use punctual_record::laboratory::Architecture;

/// The verb with which the tool starts itself in the laboratory.
pub const VERB: &str = "__lab";
/// Its argument for the first process.
pub const INIT: &str = "init";
/// Its argument for the process that keeps a processor busy.
pub const SPIN: &str = "spin";

/// PATH in a guest without a root file system given by the user.
const PATH: &str = "/lab/bin:/bin:/sbin:/usr/bin:/usr/sbin";
/// The files of the work's output.
const STDOUT: &str = "/run/stdout";
const STDERR: &str = "/run/stderr";
const LOADS: &str = "/run/loads";
/// The environment of a first process without unknown words.
const KERNELS_OWN: [(&str, &str); 2] = [("HOME", "/"), ("TERM", "linux")];
/// How long the loads of a program may take to start, in virtual time.
const LOADS_SETTLE: Duration = Duration::from_secs(1);
/// How long loads may take to end.
const LOADS_END: Duration = Duration::from_secs(60);

/// The entry of `__lab`, with the arguments after the verb.
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match arguments.next() {
        Some(word) if word == SPIN && std::process::id() != 1 => spin(),
        _ => {
            // A user who types the verb must not lose the machine.
            ExitCode::from(64)
        }
    }
}

/// Whether these are the arguments of a guest's first process. The kernel puts unknown words of its
/// command line before them.
#[must_use]
pub fn is_first_process(arguments: &[OsString]) -> bool {
    std::process::id() == 1
        && matches!(arguments, [_, .., verb, word] if verb == VERB && word == INIT)
}

/// The first process; never returns.
pub fn init() -> ! {
    // Not open during the work, which pays for it.
    if let Ok(mut outlet) = Outlet::open() {
        outlet.write(&channel::frame(BEGIN, b""));
    }
    let (result, own) = panic::catch_unwind(work).unwrap_or_else(|_| {
        let end = End::Failed {
            fault: GuestFault::Panicked,
        };
        (JobResult { end, ..blank() }, true)
    });
    if let Ok(mut outlet) = Outlet::open() {
        outlet.write(&channel::frame(
            "result",
            &serde_json::to_vec(&result).unwrap_or_default(),
        ));
        hand_out(&mut outlet, own);
        outlet.write(&channel::frame(END, b""));
        outlet.end();
    }
    sys::power_off()
}

fn blank() -> JobResult {
    JobResult {
        end: End::Failed {
            fault: GuestFault::Panicked,
        },
        release: String::new(),
        boot_ns: punctual_rt::clock::now_ns(),
        virtual_ns: punctual_rt::clock::now_ns(),
        lacking: std::collections::BTreeMap::new(),
        loads: None,
        unknown: Vec::new(),
    }
}

/// The words of the command line that the kernel didn't know: it passes them to the first process,
/// `NAME=VALUE` in its environment and others before its arguments (`unknown_bootoption` in
/// init/main.c). A value that the handler of a parameter refuses makes it unknown as well. Words
/// with a dot before any `=` are for modules, and are never passed.
fn unknown_words(
    arguments: impl ExactSizeIterator<Item = OsString>,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Vec<String> {
    // The first argument is this program, the last two are the verb and its word.
    let between = arguments.len().saturating_sub(3);
    let words = arguments.skip(1).take(between);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    let text = |word: OsString| word.to_string_lossy().into_owned();
    let set = environment.map(|(name, value)| (text(name), text(value)));
    // These two the kernel sets itself.
    let set = set.filter(|pair| !KERNELS_OWN.iter().any(|own| (&*pair.0, &*pair.1) == *own));
    words
        .chain(set.map(|(name, value)| format!("{name}={value}")))
        .collect()
}

/// Keeps a processor from halting: one of several, or one whose kernel can't wait in a loop. Others have
/// `idle=poll` or `nohlt` instead: a new task waits for the spinner until the next tick.
fn spin() -> ExitCode {
    if sys::become_idle_class().is_err() {
        return ExitCode::FAILURE;
    }
    loop {
        sys::pass_time();
    }
}

/// The work's result, and whether this program itself did the work.
fn work() -> (JobResult, bool) {
    let mut result = blank();
    result.lacking = files::prepare();
    result.release = fs::read_to_string("/proc/sys/kernel/osrelease")
        .unwrap_or_default()
        .trim()
        .to_owned();
    let job: Result<Job, GuestFault> = fs::read(JOB_FILE)
        .map_err(|source| file(JOB_FILE, source))
        .and_then(|bytes| {
            serde_json::from_slice(&bytes).map_err(|error| GuestFault::Job {
                path: JOB_FILE.to_owned(),
                error: error.to_string(),
            })
        });
    let own = job.as_ref().is_ok_and(|job| job.program == OURSELVES);
    result.end = match job.and_then(|job| run(&job, &mut result)) {
        Ok(end) => end,
        Err(fault) => End::Failed { fault },
    };
    result.virtual_ns = punctual_rt::clock::now_ns();
    // Now, so that it delays nothing.
    result.unknown = unknown_words(std::env::args_os(), std::env::vars_os());
    (result, own)
}

/// Waits until the kernel has its final clock: until then timers expire with the tick. It measures the
/// processor's counter for a second, and a fast boot takes less. Some have none: then it waits for nothing.
fn await_clock() {
    const CURRENT: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    const MOST: Duration = Duration::from_secs(3);
    let begin = punctual_rt::clock::now_ns();
    let is_final = || {
        fs::read_to_string(CURRENT)
            .is_ok_and(|name| !matches!(name.trim(), "tsc-early" | "jiffies"))
    };
    if is_final() {
        return;
    }
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        // The emulator passes over this thread's no-ops many times faster than over the idle loop.
        scope.spawn(|| {
            if sys::become_idle_class().is_ok() {
                while !done.load(Ordering::Relaxed) {
                    sys::pass_time();
                }
            }
        });
        while !is_final() && Duration::from_nanos(punctual_rt::clock::now_ns() - begin) < MOST {
            thread::sleep(Duration::from_millis(10));
        }
        done.store(true, Ordering::Relaxed);
    });
}

fn run(job: &Job, result: &mut JobResult) -> Result<End, GuestFault> {
    await_clock();
    for module in &job.modules {
        modules::load(module)?;
    }
    if job.rooted {
        files::enter(ROOT)?;
    }
    let polls = !Board::of(Architecture::OWN).poll.is_empty();
    if !polls || thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        let mut spinner = Command::new(OURSELVES);
        spinner.arg0("punctual").args([VERB, SPIN]);
        start(&mut spinner, "/dev/null", GuestProcess::Busy)?;
    }
    let loads = match &job.load {
        Some(load) => {
            let mut command = inside(OURSELVES, job);
            command.arg0("punctual").args(["load", load, "--json"]);
            environment(&mut command, job);
            let child = start(&mut command, LOADS, GuestProcess::Loads)?;
            thread::sleep(LOADS_SETTLE);
            Some(child.id())
        }
        None => None,
    };
    let mut command = inside(&job.program, job);
    if let Some((name, rest)) = job.words.split_first() {
        command.arg0(name).args(rest);
    }
    environment(&mut command, job);
    // Relative to the kernel's ticks and to the loads.
    thread::sleep(phase(job.seed));
    let path = job.program.clone();
    let child = start(&mut command, STDOUT, GuestProcess::Program { path })?;
    let mut reaper = Reaper::begin();
    let left = job
        .virtual_limit_ns
        .saturating_sub(punctual_rt::clock::now_ns());
    let end = match reaper.wait(child.id(), Duration::from_nanos(left)) {
        Some(Ended::Status(status)) => End::Exited { status },
        Some(Ended::Signal(signal)) => End::Signalled { signal },
        None => End::TimeOver,
    };
    if let Some(loads) = loads {
        let _ = sys::interrupt(loads);
        let ended = reaper.wait(loads, LOADS_END);
        let text = fs::read(LOADS).unwrap_or_default();
        result.loads = serde_json::from_slice(&text).ok();
        if ended != Some(Ended::Status(0)) {
            let output = last_line(STDERR);
            return Err(GuestFault::Loads { output });
        }
    }
    Ok(end)
}

/// The delay of the work's start for a seed, relative to seed 1: less than 4.2 ms, a tick of most
/// kernels. Even a few seeds are spread over this range.
fn phase(seed: u64) -> Duration {
    let spread = seed.wrapping_sub(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Duration::from_nanos(spread >> 42)
}

/// A command in the environment of the work: in the user's root file system, if there is one.
fn inside(program: &str, job: &Job) -> Command {
    if !job.rooted {
        return Command::new(program);
    }
    let mut command = Command::new(if program == OURSELVES {
        IN_ROOT
    } else {
        program
    });
    sys::change_root(&mut command, ROOT, OUT);
    command
}

fn environment(command: &mut Command, job: &Job) {
    command
        .env_clear()
        .env("PATH", if job.rooted { ROOT_PATH } else { PATH })
        .env("HOME", "/root")
        .env("TMPDIR", "/tmp")
        .env("LC_ALL", "C.UTF-8")
        .env(SEED_VARIABLE, job.seed.to_string())
        .env("PUNCTUAL_LAB_OUT", OUT);
    // Another userspace has its own libraries.
    if !job.rooted && fs::metadata(LIBRARIES).is_ok() {
        command.env("LD_LIBRARY_PATH", LIBRARIES);
    }
}

fn file(path: &str, error: std::io::Error) -> GuestFault {
    let path = path.to_owned();
    let error = error.to_string();
    GuestFault::File { path, error }
}

fn start(command: &mut Command, stdout: &str, process: GuestProcess) -> Result<Child, GuestFault> {
    let open = |path: &str| {
        File::options()
            .append(true)
            .create(true)
            .open(path)
            .map_err(|source| file(path, source))
    };
    command
        .stdin(Stdio::null())
        .stdout(open(stdout)?)
        .stderr(open(STDERR)?)
        .current_dir(OUT)
        .spawn()
        .map_err(|error| GuestFault::Start {
            process,
            error: error.to_string(),
        })
}

fn last_line(path: &str) -> String {
    let text = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    text.lines().last().unwrap_or_default().trim().to_owned()
}

/// Waits for children in a separate thread, so that waiting with a limit needs no timer; also reaps
/// orphaned processes. It ends when there are none: it begins when the last child was started.
struct Reaper {
    told: mpsc::Receiver<(u32, Ended)>,
    gone: Vec<(u32, Ended)>,
}

impl Reaper {
    fn begin() -> Self {
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            while let Ok(ended) = sys::wait_any() {
                if tell.send(ended).is_err() {
                    return;
                }
            }
        });
        Self {
            told,
            gone: Vec::new(),
        }
    }

    fn wait(&mut self, child: u32, limit: Duration) -> Option<Ended> {
        let end = std::time::Instant::now() + limit;
        loop {
            if let Some((_, ended)) = self.gone.iter().find(|(id, _)| *id == child) {
                return Some(*ended);
            }
            let left = end.saturating_duration_since(std::time::Instant::now());
            match self.told.recv_timeout(left) {
                Ok((id, ended)) if id == child => return Some(ended),
                Ok(other) => self.gone.push(other),
                Err(_) => return None,
            }
        }
    }
}

/// Everything that the work left: its output and its files.
fn hand_out(outlet: &mut Outlet, own: bool) {
    for (name, path) in [("stdout", STDOUT), ("stderr", STDERR)] {
        outlet.write(&channel::frame(name, &fs::read(path).unwrap_or_default()));
    }
    for (name, bytes) in files::left_in(OUT, own) {
        outlet.write(&channel::frame(&format!("out/{name}"), &bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_does_not_know_comes_as_arguments_and_environment() {
        let unknown = |arguments: &[&str], environment: &[(&str, &str)]| {
            let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
            let pair = |(name, value): &(&str, &str)| (name.into(), value.into());
            unknown_words(arguments.into_iter(), environment.iter().map(pair))
        };
        let own = [("HOME", "/"), ("TERM", "linux")];
        assert!(unknown(&["/init", "__lab", "init"], &own).is_empty());
        assert!(unknown(&[], &[]).is_empty());
        let set = [own[0], own[1], ("preempt", "ful")];
        assert_eq!(
            unknown(&["/init", "thredirqs", "__lab", "init"], &set),
            ["thredirqs", "preempt=ful"]
        );
        assert_eq!(
            unknown(&["/init", "__lab", "init"], &[("HOME", "/root")]),
            ["HOME=/root"]
        );
    }

    #[test]
    fn the_first_seed_moves_nothing_and_the_others_are_spread_over_a_tick() {
        assert_eq!(phase(1), Duration::ZERO);
        let tick = Duration::from_millis(4);
        let mut phases: Vec<Duration> = (1..=8).map(phase).collect();
        phases.sort();
        assert!(phases.iter().all(|phase| *phase < tick + tick / 16));
        assert!(phases.windows(2).all(|two| two[1] - two[0] > tick / 20));
    }
}
