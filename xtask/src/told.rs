//! What test programs print: counted, shown where a person wants to see it, and kept whole in a file.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::suite;
use crate::tally::Tally;

/// Where programs tell what they said: one at a time.
pub struct Told<'a> {
    tally: &'a mut Tally,
    /// All that they print, also where they pass.
    log: File,
}

pub type Shared<'s, 'a> = &'s Mutex<Told<'a>>;

impl<'a> Told<'a> {
    /// # Errors
    /// The log can't be written.
    pub fn new(tally: &'a mut Tally) -> Result<Self, String> {
        let path = log();
        let made = std::fs::create_dir_all(suite::target()).and_then(|()| File::create(&path));
        let log = made.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { tally, log })
    }

    /// What a program said, a line each.
    pub fn lines<'l>(&mut self, lines: impl Iterator<Item = &'l [u8]>) {
        lines.for_each(|line| self.line(line));
    }

    fn line(&mut self, line: &[u8]) {
        // A full disk is no reason to lose the results.
        let _ = self
            .log
            .write_all(line)
            .and_then(|()| self.log.write_all(b"\n"));
        let line = String::from_utf8_lossy(line);
        if self.tally.line(&line) {
            println!("{line}");
        }
    }

    /// What was said is all that there is of a program: without a result it has died.
    pub fn end(&mut self) {
        self.tally.end();
    }

    /// The same of a run of cargo: its failure counts where no test explains it. `failed` had before.
    pub fn ended(&mut self, what: &str, status: ExitStatus, failed: usize) {
        self.end();
        if !status.success() && self.failed() == failed {
            self.fail(format!("{what}: {status}"));
        }
    }

    pub fn failed(&self) -> usize {
        self.tally.failed()
    }

    pub fn fail(&mut self, what: String) {
        println!("{what}");
        self.tally.fail(what);
    }

    /// The tests of a suite that failed.
    pub fn failed_in(&self, suite: &str) -> Vec<String> {
        self.tally.failed_in(suite)
    }

    /// A failed test of a suite passed when it ran again by itself.
    pub fn passed_again(&mut self, suite: &str, test: &str) {
        self.tally.passed_again(&format!("{suite}: {test}"));
    }

    /// A part of the work has ended.
    pub fn took(&mut self, part: &str, begin: Instant) {
        self.tally.took(part, begin);
    }

    /// Something else that counts.
    pub fn with(&mut self, counts: impl FnOnce(&mut Tally)) {
        counts(self.tally);
    }

    pub fn skip_check(&mut self, check: &str, reason: &str) {
        self.tally.skip_check(check, reason);
    }
}

/// Does something with it while no other lane does.
pub fn locked<'a, T>(told: Shared<'_, 'a>, does: impl FnOnce(&mut Told<'a>) -> T) -> T {
    does(&mut told.lock().unwrap_or_else(PoisonError::into_inner))
}

/// The file of all that was printed.
pub fn log() -> PathBuf {
    suite::target().join("test.log")
}

/// Runs a command and hands over each line that it prints.
///
/// # Errors
/// It can't be run.
pub fn each_line(
    mut command: Command,
    mut takes: impl FnMut(&[u8]),
) -> std::io::Result<ExitStatus> {
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // Its ends of the pipe are closed with it, and then the lines end.
    drop(command);
    for line in BufReader::new(reader).split(b'\n') {
        takes(&line?);
    }
    child.wait()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_hands_over_the_lines_of_both_its_streams_and_its_status() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; printf cut; exit 3"]);
        let mut lines = Vec::new();
        let status = each_line(command, |line| {
            lines.push(String::from_utf8_lossy(line).into_owned());
        });
        assert_eq!(status.expect("it ran").code(), Some(3));
        assert_eq!(lines, ["one", "two", "cut"]);
    }
}
