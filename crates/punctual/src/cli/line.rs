//! A line that says how far something is.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use super::out;

/// A line that is redrawn in place, if standard error is a terminal; else one that is printed now and then, where
/// that is wanted.
#[derive(Debug)]
pub struct StatusLine {
    shown: bool,
    is_drawn: bool,
    /// How often it is printed, and when next.
    plain: Option<(Duration, Instant)>,
}

impl StatusLine {
    /// `quiet`: the line is never drawn.
    pub fn new(quiet: bool) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            shown: !quiet && !dumb && io::stderr().is_terminal(),
            is_drawn: false,
            plain: None,
        }
    }

    /// As [`StatusLine::new`]; where it can't be redrawn, it is printed so often.
    pub fn or_every(quiet: bool, every: Duration) -> Self {
        let mut line = Self::new(quiet);
        let next = (every, Instant::now() + every);
        line.plain = (!quiet && !line.shown).then_some(next);
        line
    }

    /// Draws it, cut to the terminal's width: a line that wraps cannot be redrawn.
    pub fn draw(&mut self, text: &str) {
        if let Some((every, next)) = &mut self.plain
            && Instant::now() >= *next
        {
            *next = Instant::now() + *every;
            out::complain(text);
        }
        if !self.shown {
            return;
        }
        let width = terminal_size::terminal_size_of(io::stderr()).map_or(80, |(width, _)| width.0);
        let text: String = text
            .chars()
            .take(usize::from(width).saturating_sub(1))
            .collect();
        self.write(&format!("\r{text}\x1b[K"));
        self.is_drawn = true;
    }

    /// Clears it, so that a line that stays can be printed.
    pub fn clear(&mut self) {
        if self.is_drawn {
            self.write("\r\x1b[K");
            self.is_drawn = false;
        }
    }

    fn write(&self, text: &str) {
        let mut err = io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}
