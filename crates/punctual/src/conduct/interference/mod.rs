//! Which operations of a real-time thread wait while other threads of its program map memory: a
//! process of its own makes them, and a watch of it says for which lock, and for whom.

mod work;

use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::thread;

use super::error::ConductError;
use super::observer::{Observed, Observer};
use super::plan::{Claim, TracingPlan};
use super::signals::Signals;
use super::watch::{Scope, Target, WatchPlan, watch_with};
use punctual_machine::Root;
use punctual_machine::survey::process;
use punctual_record::explanation::NoKernelNames;
use punctual_record::interference::{Interference, Operation};
use punctual_record::watch::{OffCpu, OffCpuPlace, Watch};
use punctual_record::{Event, Happening, KernelCall, Run, RunDirectory};

/// What the process prints before it waits.
const READY: &str = "READY";
/// The most that it prints.
const MOST_BYTES: u64 = 1 << 24;
/// Functions of the kernel that sleep for a read-write semaphore, which `mmap_lock` is, as they
/// begin: on a standard kernel, and on PREEMPT_RT. In these operations there is no other.
const WAITS_FOR_LOCK: [&str; 4] = ["rwsem_down_", "rwbase_", "__rwbase_", "rwbase_rt"];

/// The plan of such an experiment.
#[derive(Debug, Clone)]
pub struct InterferencePlan {
    /// The command line as it was given.
    pub command: Vec<String>,
}

/// Why there is no result.
#[derive(Debug)]
pub enum InterferenceError {
    /// The experiment's process can't be started, or ended too early.
    Process(io::Error),
    /// It failed, and said why.
    Failed(String),
    /// A signal ended the watch before the process was done.
    Interrupted,
    /// It can't be watched.
    Watch(ConductError),
    /// Functions of the kernel have no names: which operations waited for the lock is not known.
    Unnamed(NoKernelNames),
}

impl fmt::Display for InterferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process(error) => write!(f, "the measured process: {error}"),
            Self::Failed(why) => write!(f, "the measured process: {why}"),
            Self::Interrupted => f.write_str("a signal ended it before it was done"),
            Self::Watch(error) => error.fmt(f),
            Self::Unnamed(_) => f.write_str("functions of the kernel have no names"),
        }
    }
}

impl std::error::Error for InterferenceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Process(error) => Some(error),
            Self::Failed(_) | Self::Interrupted | Self::Unnamed(_) => None,
            Self::Watch(error) => Some(error),
        }
    }
}

/// Makes the experiment; the watch of it is saved in the directory.
///
/// # Errors
/// See [`InterferenceError`].
pub fn interference(
    plan: &InterferencePlan,
    worker: &mut Command,
    directory: &RunDirectory,
    progress: &mut dyn Observer,
) -> Result<Interference, InterferenceError> {
    // Before there is a process: it is to end with this one, and the empty directory with it.
    let signals = Signals::listen()
        .map_err(|error| InterferenceError::Watch(ConductError::Signals(error)))?;
    let mut worker = Worker::start(worker).map_err(InterferenceError::Process)?;
    if signals.end().is_some() {
        return Err(InterferenceError::Interrupted);
    }
    let pid = worker.child.id().to_string();
    let process = process::find(&Root::live(), &pid)
        .map_err(|error| InterferenceError::Failed(error.to_string()))?;
    let of_it = WatchPlan {
        command: plan.command.clone(),
        target: Some(Target::Program {
            process,
            children: false,
        }),
        scope: Scope {
            every: true,
            off_cpu: true,
            run_queue: false,
        },
        duration_ns: None,
        break_ns: None,
        claim: Claim {
            requirements: Vec::new(),
            confidence: 0.95,
        },
        runtime: None,
        marks: Vec::new(),
        limits: Vec::new(),
        tracing: TracingPlan {
            explain: true,
            above_ns: None,
            stack_above_ns: None,
        },
    };
    let output = worker.output.take();
    let reads = thread::spawn(move || {
        let mut text = String::new();
        let output = output.map(|output| output.take(MOST_BYTES));
        output.map_or(Ok(0), |mut output| output.read_to_string(&mut text))?;
        Ok::<String, io::Error>(text)
    });
    let mut begins = Begins {
        progress,
        go: worker.input.take(),
        begun: false,
    };
    let run =
        watch_with(signals, &of_it, directory, &mut begins).map_err(InterferenceError::Watch)?;
    let ended = |event: &Event| matches!(event.what, Happening::ProgramEnded { .. });
    if !run.events.iter().any(ended) {
        return Err(InterferenceError::Interrupted);
    }
    worker.child.wait().map_err(InterferenceError::Process)?;
    let lost = |_| io::Error::other("its output was not read");
    let text = reads.join().map_err(lost).and_then(|text| text);
    let text = text.map_err(InterferenceError::Process)?;
    let failed = || match text.trim() {
        "" => "it ended before it was done".to_owned(),
        why => why.to_owned(),
    };
    let done: Result<Interference, _> = serde_json::from_str(&text);
    let mut done = done.map_err(|_| InterferenceError::Failed(failed()))?;
    if let Some(why) = run.events.iter().find_map(unnamed) {
        return Err(InterferenceError::Unnamed(why.clone()));
    }
    let found = run.watch.as_ref();
    let found = found.and_then(|watch| Some((watch, watch.off_cpu.as_ref()?)));
    let Some((watch, off_cpu)) = found else {
        let why = "the watch has no off-CPU times".to_owned();
        return Err(InterferenceError::Failed(why));
    };
    done.unplaced = unplaced(&done, watch, off_cpu);
    explain(&mut done, watch, &run);
    Ok(done)
}

/// The measured process's part: makes the operations when a line comes, says what it measured, and
/// ends the process.
///
/// # Errors
/// What the system refuses, or the other process is gone.
pub fn work(map_bytes: u64, duration_ns: u64, say: impl Fn(&str)) -> io::Result<()> {
    // However the other process ends, this one does not stay.
    let (begin, may_begin) = mpsc::sync_channel(1);
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || {
            let mut byte = [0];
            while io::stdin().read(&mut byte).is_ok_and(|count| count > 0) {
                let _ = begin.try_send(());
            }
            std::process::exit(1);
        })?;
    let start = || {
        say(READY);
        may_begin.recv().map_err(io::Error::other)
    };
    let finish = |done: &Interference| {
        let text = serde_json::to_string(done).map_err(io::Error::other)?;
        say(&text);
        // The threads end with the process: alone, they would unmap their stacks, and wait.
        std::process::exit(0)
    };
    work::run(map_bytes, duration_ns, start, finish).map(drop)
}

/// The experiment's process; killed when dropped.
struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts it, and waits until it is ready.
    fn start(command: &mut Command) -> io::Result<Self> {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take();
        let output = child.stdout.take().map(BufReader::new);
        let mut worker = Self {
            child,
            input,
            output,
        };
        let mut line = String::new();
        if let Some(output) = &mut worker.output {
            output.read_line(&mut line)?;
        }
        match line.trim() {
            READY => Ok(worker),
            "" => Err(io::Error::other("it ended at once")),
            why => Err(io::Error::other(why.to_owned())),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Lets the process begin when the watch has.
struct Begins<'a> {
    progress: &'a mut dyn Observer,
    go: Option<ChildStdin>,
    begun: bool,
}

impl Observer for Begins<'_> {
    fn observe(&mut self, event: Observed<'_>) {
        if let Observed::Watched(_) = event
            && let Some(go) = self.go.as_mut().filter(|_| !self.begun)
        {
            // A process that has ended is seen as one.
            let _ = go.write_all(b"\n");
            self.begun = true;
        }
        self.progress.observe(event);
    }
}

/// Why the watch has no names for functions of the kernel.
fn unnamed(event: &Event) -> Option<&NoKernelNames> {
    match &event.what {
        Happening::OffCpuNames { why } => Some(why),
        _ => None,
    }
}

/// Sleeps of operations of which the watch doesn't know where in the kernel they were.
fn unplaced(done: &Interference, watch: &Watch, off_cpu: &OffCpu) -> u64 {
    let slept = off_cpu.places.iter().filter(|place| place.why.is_sleep());
    let beyond = match slept.clone().count() < OffCpu::MOST / 2 {
        // Half of the room is for sleeps before all else.
        true => 0,
        false => off_cpu.beyond.count,
    };
    let without_stack = slept.filter(|place| {
        let name = thread_name(watch, place);
        place.kernel.is_empty() && operation(done, name).is_some()
    });
    let without_stack: u64 = without_stack.map(|place| place.count).sum();
    let untold = beyond.saturating_add(off_cpu.no_room.count);
    untold.saturating_add(without_stack)
}

fn thread_name<'w>(watch: &'w Watch, place: &OffCpuPlace) -> &'w str {
    let thread = watch.threads.get(place.thread as usize);
    thread.map_or("", |it| &*it.task.name)
}

/// Adds what the watch saw: which operations slept for the lock, and for whom.
fn explain(done: &mut Interference, watch: &Watch, run: &Run) {
    let places = watch.off_cpu.iter().flat_map(|it| &it.places);
    for place in places.filter(|place| is_for_lock(place)) {
        if let Some(of) = operation(done, thread_name(watch, place)) {
            let waits = &mut done.operations[of].waits;
            waits.count += place.count;
            waits.total_ns = waits.total_ns.saturating_add(place.total_ns);
            waits.longest_ns = waits.longest_ns.max(place.longest_ns);
        }
    }
    let waits = run.explanation.iter().flat_map(|it| &it.waits);
    let end_ns = done.begin_ns.saturating_add(done.measured_ns);
    for wait in waits {
        // Between two operations it sleeps until the next one; before the first it waits for the
        // start, and after the last for the end.
        let sleeps = matches!(&wait.call, KernelCall::Name(name) if name == "clock_nanosleep");
        let to_ns = wait.from_ns.saturating_add(wait.wait_ns);
        let within = wait.from_ns >= done.begin_ns && to_ns <= end_ns;
        let name = wait.thread.name.as_deref().unwrap_or("");
        let Some(of) = operation(done, name).filter(|_| within && !sleeps) else {
            continue;
        };
        let longest = &mut done.operations[of].longest;
        if longest
            .as_ref()
            .is_none_or(|known| known.wait_ns < wait.wait_ns)
        {
            *longest = Some(wait.clone());
        }
    }
}

fn operation(done: &Interference, thread: &str) -> Option<usize> {
    let is_it = |operation: Operation| operation.to_string() == thread;
    done.operations.iter().position(|of| is_it(of.operation))
}

/// Whether a thread slept there for the lock.
fn is_for_lock(place: &OffCpuPlace) -> bool {
    let waits = |name: &String| WAITS_FOR_LOCK.iter().any(|begin| name.starts_with(begin));
    place.kernel.iter().any(waits)
}
