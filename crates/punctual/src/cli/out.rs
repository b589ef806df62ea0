//! Writing to the terminal. A reader that has gone away is no error.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use punctual_report::style::Style;
use punctual_report::words;

/// Why standard output did not take what was written.
static TROUBLE: OnceLock<String> = OnceLock::new();

/// Writes to standard output. What can't be written is let go, so that a run that
/// goes on is not lost; [`trouble`] says at the end that it was.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let done = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = done
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = TROUBLE.set(format!("standard output: {error}"));
    }
}

/// Why not everything could be written to standard output, a reader that has gone
/// away apart.
#[must_use]
pub fn trouble() -> Option<&'static str> {
    TROUBLE.get().map(String::as_str)
}

/// Writes a line to standard error: one, and fit for a terminal, whatever the name of a file
/// or a word from one that it repeats.
pub fn complain(line: &str) {
    let line = words::clean(line);
    let mut out = io::stderr().lock();
    let _ = writeln!(out, "punctual: {line}");
}

/// Hands on what another program said on its standard error.
pub fn pass_on(text: &str) {
    let mut out = io::stderr().lock();
    let _ = out.write_all(text.as_bytes());
}

/// What standard output can show. NO_COLOR is honoured (<https://no-color.org>).
#[must_use]
pub fn style() -> Style {
    let terminal = io::stdout().is_terminal();
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    let (width, height) = terminal_size::terminal_size().map_or((80, 24), |(width, height)| {
        (usize::from(width.0), usize::from(height.0))
    });
    Style {
        colour: terminal && !no_colour && !dumb,
        width: if terminal { width } else { 80 },
        height: if terminal { height } else { 24 },
        unicode: speaks_utf8(),
        ..Style::plain()
    }
}

/// Whether the locale says UTF-8; where it says nothing, as over many an ssh
/// connection, it is taken for granted, but not for the plain C locale.
fn speaks_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    match set("LC_ALL")
        .or_else(|| set("LC_CTYPE"))
        .or_else(|| set("LANG"))
    {
        None => true,
        Some(locale) => {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        }
    }
}
