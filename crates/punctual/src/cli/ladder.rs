//! `ladder`: how much does each step of a real-time program gain here?

use std::process::ExitCode;
use std::time::Duration;

use punctual_report::ladder as words;
use punctual_stats::format::duration;

use super::failure::Failure;
use super::flags::LadderFlags;
use super::line::StatusLine;
use super::measuring::{end, failed, make_directory, save_page};
use super::{out, plan};
use crate::conduct::ladder::{LadderError, ladder};
use crate::conduct::{Observed, Observer};

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
    let line = StatusLine::or_every(flags.quiet || flags.json, PLAIN_EVERY);
    let mut screen = LadderScreen(line);
    let made = ladder(&plan, &directory, &mut screen);
    drop(screen);
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

/// The display of a ladder: one line.
struct LadderScreen(StatusLine);

impl Observer for LadderScreen {
    fn observe(&mut self, event: Observed<'_>) {
        match event {
            Observed::Block(ladder, rung, done, all) => {
                self.0.draw(&words::progress(ladder, rung, done, all));
            }
            Observed::LadderSaved(ladder, directory) => {
                // The directory keeps any error.
                let _ = save_page(ladder, directory);
            }
            _ => {}
        }
    }
}
