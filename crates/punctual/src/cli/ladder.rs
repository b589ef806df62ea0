//! `ladder`: how much does each step of a real-time program gain here?

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use punctual_record::RunDirectory;
use punctual_record::ladder::{Ladder, Rung};
use punctual_report::ladder as words;
use punctual_report::style::cut;
use punctual_stats::format::duration;

use super::failure::Failure;
use super::flags::LadderFlags;
use super::measuring::{end, failed, make_directory, save_page};
use super::{out, plan};
use crate::conduct::ladder::{LadderError, LadderProgress, ladder};

/// How often a plain line is written.
const PLAIN_EVERY: Duration = Duration::from_secs(30);

/// Measures a ladder and shows it, or prints the example program.
///
/// # Errors
/// Wrong usage, or what could not be set up; then nothing is left changed.
pub fn run(flags: &LadderFlags) -> Result<ExitCode, Failure> {
    if let Some(language) = flags.code {
        out::print(words::example(language.into()));
        return Ok(ExitCode::SUCCESS);
    }
    let plan = plan::ladder::of_ladder(flags)?;
    let directory = make_directory(flags.output.as_deref(), "ladder")?;
    let mut screen = LadderScreen::new(flags);
    let made = ladder(&plan, &directory, &mut screen);
    screen.clear();
    let made = made.map_err(|error| {
        directory.discard_if_empty();
        of_ladder(error)
    })?;
    Ok(end(&made, (flags.json, flags.quiet), &directory))
}

fn of_ladder(error: LadderError) -> Failure {
    match error {
        LadderError::Conduct(error) => failed(error),
        LadderError::NotPossible(rung, why) => Failure::setup(format!(
            "--rung {}: not possible here: {}",
            rung.name(),
            words::why_not(&why)
        )),
        LadderError::TooShort {
            conditions,
            needed_ns,
        } => Failure::usage(format!(
            "-D is too short: 12 rounds of {conditions} blocks take {}; give -D {}m or a shorter \
             --block",
            duration(needed_ns),
            needed_ns.div_ceil(60_000_000_000)
        )),
    }
}

/// The display of a ladder: one line, redrawn on a terminal.
struct LadderScreen {
    is_silent: bool,
    is_terminal: bool,
    is_drawn: bool,
    next_line: Instant,
}

impl LadderScreen {
    fn new(flags: &LadderFlags) -> Self {
        Self {
            is_silent: flags.quiet || flags.json,
            is_terminal: io::stdout().is_terminal(),
            is_drawn: false,
            next_line: Instant::now() + PLAIN_EVERY,
        }
    }

    fn clear(&mut self) {
        if self.is_drawn {
            out::print("\r\x1b[K");
            self.is_drawn = false;
        }
    }
}

impl LadderProgress for LadderScreen {
    fn block(&mut self, ladder: &Ladder, rung: Rung, done: usize, all: usize) {
        if self.is_silent {
            return;
        }
        let line = words::progress(ladder, rung, done, all);
        if self.is_terminal {
            let line = cut(&line, out::style().columns());
            out::print(&format!("\r\x1b[K{line}"));
            self.is_drawn = true;
        } else if Instant::now() >= self.next_line {
            self.next_line = Instant::now() + PLAIN_EVERY;
            out::print(&(line + "\n"));
        }
    }

    fn saved(&mut self, ladder: &Ladder, directory: &RunDirectory) {
        // The directory keeps any error.
        let _ = save_page(ladder, directory);
    }
}
