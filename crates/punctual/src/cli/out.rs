//! Writing to the terminal. A reader that has gone away is no error.

use std::io::{self, IsTerminal, Write};

use crate::report::style::Style;

/// Writes to standard output; what can't be written is let go, for the record is
/// on disk and the exit status tells the rest.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes a line to standard error.
pub fn complain(line: &str) {
    let mut out = io::stderr().lock();
    let _ = writeln!(out, "punctual: {line}");
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
