//! Writing to the terminal. A closed pipe is not an error.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use punctual_report::style::Style;
use punctual_report::words;

/// The first error of standard output.
static TROUBLE: OnceLock<String> = OnceLock::new();

/// Writes to standard output. An error does not end the run; [`trouble`] returns it at the end.
pub fn print(text: &str) {
    let mut out = io::stdout().lock();
    let done = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = done
        && error.kind() != io::ErrorKind::BrokenPipe
    {
        let _ = TROUBLE.set(format!("standard output: {error}"));
    }
}

/// Why something could not be written to standard output; a closed pipe does not count.
#[must_use]
pub fn trouble() -> Option<&'static str> {
    TROUBLE.get().map(String::as_str)
}

/// Writes one line to standard error. Control characters, as in the name of a file, are replaced.
pub fn complain(line: &str) {
    let line = words::clean(line);
    let mut out = io::stderr().lock();
    let _ = writeln!(out, "punctual: {line}");
}

/// Writes another program's error output to standard error.
pub fn print_stderr(text: &str) {
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
        unicode: is_utf8(),
        ..Style::plain()
    }
}

/// Whether the locale is UTF-8. If none is set, as over many ssh connections, UTF-8 is assumed;
/// the plain C locale is not UTF-8.
fn is_utf8() -> bool {
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
