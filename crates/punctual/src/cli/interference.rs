//! `interference`: which operations wait while other threads of the program map memory?

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitCode};

use super::failure::{Failure, SETUP};
use super::flags::InterferenceFlags;
use super::measuring::{failed, make_directory, saved_or};
use super::out;
use super::screen::Screen;
use crate::conduct::interference::{InterferenceError, InterferencePlan, interference, work};
use punctual_report::summary_json::printed;
use punctual_report::{facts, interference as words};

/// Where the figures stand, beside the record of the watch.
const FILE: &str = "interference.json";

/// The first word of the measured process's command line: not for users.
pub const WORKER: &str = "interference-worker";

/// The measured process: makes the operations, with so many bytes, for so many ns.
pub fn worker(words: &[OsString]) -> ExitCode {
    let number = |at: usize| words.get(at)?.to_str()?.parse().ok();
    let done = match (number(0), number(1)) {
        (Some(bytes), Some(ns)) => work(bytes, ns, |line| out::print(&format!("{line}\n"))),
        _ => Err(io::Error::other(
            "expected BYTES NS: `punctual interference` starts this",
        )),
    };
    // The other process reads why.
    let _ = done.map_err(|error| out::print(&(refusal(&error) + "\n")));
    ExitCode::from(SETUP)
}

/// Makes the experiment, and prints what it shows.
///
/// # Errors
/// What it takes is not there.
pub fn run(flags: &InterferenceFlags) -> Result<ExitCode, Failure> {
    let directory = make_directory(flags.output.as_deref(), "interference")?;
    let mut screen = Screen::new(!flags.verbose, false, flags.verbose, false);
    let plan = InterferencePlan {
        command: std::env::args_os()
            .map(|word| word.to_string_lossy().into_owned())
            .collect(),
    };
    let program = std::env::current_exe().map_err(Failure::setup)?;
    let mut worker = Command::new(program);
    worker.args([WORKER, &flags.map.to_string(), &flags.duration.to_string()]);
    let done = interference(&plan, &mut worker, &directory, &mut screen);
    screen.clear();
    let done = done.map_err(|error| {
        directory.discard_if_empty();
        match error {
            InterferenceError::Watch(error) => failed(error),
            InterferenceError::Unnamed(why) => Failure::setup(facts::no_kernel_names(&why)),
            error => Failure::setup(error),
        }
    })?;
    let text = printed(&done, &[]);
    // What can't be saved is said below.
    let _ = directory.save_file(FILE, text.as_bytes());
    if flags.json {
        out::print(&text);
    } else {
        let place = directory.path().display().to_string();
        out::print(&words::summary(&done, &place, &out::style()));
    }
    Ok(saved_or(&directory, Some(0)))
}

/// Why the operations can't be made, and what to do.
fn refusal(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => format!("no real-time priority ({error}): run as root"),
        Some(libc::ENOMEM) => format!("too little memory ({error}): choose a smaller --map"),
        _ => error.to_string(),
    }
}
