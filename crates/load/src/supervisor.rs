//! The process above each load. It waits until the load or the controller ends, in whatever way, and
//! then leaves no process and no file behind.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;
use std::{fs, process};

use punctual_record::text::clean;

use crate::board::{Board, state};
use crate::context::Context;
use crate::error::WorkError;
use crate::job::{COMMAND, Job};
use crate::{command, registry, sys, tree};

/// Bytes of a load's standard error that are kept.
const TAIL_BYTES: usize = 2048;

/// Wrong usage, as in sysexits.h.
const USAGE: u8 = 64;

/// The error of a user who types the hidden verb.
pub(crate) fn refuse(why: &str) -> ExitCode {
    let _ = writeln!(
        io::stderr(),
        "punctual: __load is for punctual itself ({why}): use 'punctual load'"
    );
    ExitCode::from(USAGE)
}

/// Runs the supervisor of one load.
pub(crate) fn main(job: &Job) -> ExitCode {
    let (board, control) = match inherit() {
        Ok(inherited) => inherited,
        Err(error) => return refuse(&error.to_string()),
    };
    if let Err(error) = supervise(job, &board, &control) {
        board.fail(&error);
    }
    if job.name == COMMAND {
        board.slot(0).set(tree::usage().1);
    }
    tree::kill_descendants();
    board.set_alive(0);
    if let Some(scratch) = &job.scratch {
        let _ = fs::remove_dir_all(scratch);
    }
    // Only now does the controller see the end of the socket.
    drop(control);
    ExitCode::SUCCESS
}

/// Takes the board and the socket from standard input and output.
fn inherit() -> io::Result<(Board, UnixStream)> {
    let board = Board::open(io::stdin().as_fd().try_clone_to_owned()?)?;
    let control = UnixStream::from(io::stdout().as_fd().try_clone_to_owned()?);
    control.set_nonblocking(true)?;
    let null = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    sys::redirect_all(null.as_fd())?;
    Ok((board, control))
}

fn supervise(job: &Job, board: &Board, control: &UnixStream) -> Result<(), WorkError> {
    // A process group of its own, so that Ctrl-C reaches only the controller. Not a session of its
    // own: that would also be an autogroup of its own, and on Linux 6.18 an autogroup of tasks that
    // only use loopback TCP occupied both CPUs of a machine for up to 30 s, while no other SCHED_OTHER
    // task ran, the controller included. In the controller's autogroup this does not happen.
    let _ = sys::new_process_group();
    sys::set_name(&format!("load-{}", job.name));
    sys::become_subreaper().map_err(WorkError::system("becoming a subreaper failed"))?;
    let wanted = [libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP];
    let signals = sys::signals(&wanted).map_err(WorkError::system("opening a signalfd failed"))?;
    settle(job)?;
    if let Some(scratch) = &job.scratch {
        let what = || format!("creating {} failed", scratch.display());
        fs::create_dir(scratch).map_err(|error| {
            WorkError::advised(what(), "name a writable scratch directory")(error)
        })?;
    }
    let (mut errors, error_writer) =
        io::pipe().map_err(WorkError::system("opening a pipe failed"))?;
    let parent = process::id() as i32;
    let worker = sys::fork_child(|| {
        sys::die_with(parent);
        let _ = sys::redirect_errors(error_writer.as_fd());
        work(job, board)
    });
    let worker = worker.map_err(WorkError::advised(
        "forking the worker failed",
        "raise the limit of processes (ulimit -u, pids.max)",
    ))?;
    drop(error_writer);

    let mut tail = Vec::new();
    let tick = (job.name == COMMAND).then_some(Duration::from_millis(500));
    let mut errors_open = true;
    loop {
        // After its end the pipe would be readable for ever: the signals replace it.
        let third = if errors_open {
            errors.as_fd()
        } else {
            signals.as_fd()
        };
        let fds = [control.as_fd(), signals.as_fd(), third];
        let ready = sys::poll(fds, tick).map_err(WorkError::system("poll failed"))?;
        if ready[2] && errors_open {
            errors_open = keep_tail(&mut errors, &mut tail);
        }
        if ready[0] {
            return Ok(());
        }
        if ready[1] && told_to_stop(&signals) {
            return Err(WorkError::ToldToStop);
        }
        if job.name == COMMAND {
            let (alive, milliseconds) = tree::usage();
            board.slot(0).set(milliseconds);
            board.set_alive(alive);
        }
        while let Ok(Some(ended)) = sys::wait(None, false) {
            if ended.pid != worker {
                continue;
            }
            if board.state() == state::FINISHED && ended.success() {
                return Ok(());
            }
            if errors_open {
                drain(&mut errors, &mut tail);
            }
            return Err(WorkError::Broken {
                end: ended,
                said: last_line(&tail),
            });
        }
    }
}

/// The load's own process.
fn work(job: &Job, board: &Board) -> i32 {
    let context = Context { board, job };
    let begin = || -> Result<(), WorkError> {
        let _ = sys::new_process_group();
        sys::unmask_signals().map_err(WorkError::system("unmasking the signals failed"))?;
        sys::raise_file_limit();
        // When memory is short, the loads are killed first, never the measured program. Raising the
        // value needs no privilege.
        let _ = fs::write("/proc/self/oom_score_adj", "1000");
        set_class(job)?;
        if job.name == COMMAND {
            return command::run(&context);
        }
        sys::leave_no_core();
        let generator = registry::find(&job.name).ok_or(WorkError::Unknown)?;
        (generator.run)(&context)
    };
    match begin() {
        Ok(()) => 0,
        Err(error) => {
            board.fail(&error);
            1
        }
    }
}

/// Resets what may be inherited from the caller: real-time policy, CPUs, nice value, timer slack.
fn settle(job: &Job) -> Result<(), WorkError> {
    sys::set_policy(libc::SCHED_OTHER).map_err(WorkError::system("setting SCHED_OTHER failed"))?;
    sys::set_nice(0).map_err(WorkError::advised(
        "setting nice 0 failed",
        "start punctual without nice, or as root",
    ))?;
    sys::set_timer_slack(Duration::from_micros(50));
    let wanted = job.cpus.as_deref();
    let got = sys::set_affinity(wanted).and_then(|()| sys::affinity());
    let got = got.map_err(|error| match wanted {
        Some(cpus) => WorkError::advised(
            format!("running on CPUs {cpus:?} failed"),
            "are they online and allowed?",
        )(error),
        None => WorkError::system("running on all CPUs failed")(error),
    })?;
    match wanted {
        Some(cpus) if !cpus.iter().all(|cpu| got.contains(cpu)) => Err(WorkError::Cpus {
            wanted: cpus.to_vec(),
            got,
        }),
        _ => Ok(()),
    }
}

fn set_class(job: &Job) -> Result<(), WorkError> {
    let class = job.class;
    let policy = class.policy();
    sys::set_policy(policy)
        .map_err(|error| WorkError::system(format!("setting the class {class} failed"))(error))?;
    match sys::policy() {
        Ok(got) if got == policy => Ok(()),
        Ok(got) => Err(WorkError::Class { wanted: class, got }),
        Err(error) => Err(WorkError::system("reading the class back failed")(error)),
    }
}

/// Reads the available bytes; false at the end.
fn keep_tail(from: &mut PipeReader, tail: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 4096];
    let read = from.read(&mut buffer).unwrap_or(0);
    tail.extend_from_slice(&buffer[..read]);
    tail.drain(..tail.len().saturating_sub(TAIL_BYTES));
    read > 0
}

/// Reads while bytes are available at once: other processes may hold the pipe open.
fn drain(from: &mut PipeReader, tail: &mut Vec<u8>) {
    while sys::poll([from.as_fd()], Some(Duration::ZERO)).is_ok_and(|[ready]| ready) {
        if !keep_tail(from, tail) {
            break;
        }
    }
}

fn last_line(tail: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(tail);
    let line = text.lines().rev().map(str::trim).find(|l| !l.is_empty())?;
    Some(clean(line))
}

/// Reads all pending signals; true if one of them is not SIGCHLD.
fn told_to_stop(signals: &OwnedFd) -> bool {
    let mut told = false;
    while let Some(signal) = sys::read_signal(signals.as_fd()) {
        told |= signal != libc::SIGCHLD;
    }
    told
}
