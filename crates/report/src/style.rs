//! How text for a terminal is dressed: colour, width, characters.

use super::words;

/// What the terminal can do and how wide it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Style {
    /// ANSI colours and weights.
    pub colour: bool,
    /// Columns.
    pub width: usize,
    /// Lines; a live block keeps within them.
    pub height: usize,
    /// Characters beyond ASCII.
    pub unicode: bool,
    /// Where the report was written, to be named at the end.
    pub report: Option<String>,
    /// All of a summary, not only what comes first.
    pub verbose: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self::plain()
    }
}

/// What a piece of text is, as far as it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// As it is.
    Plain,
    /// Headings.
    Bold,
    /// What matters less.
    Dim,
    /// Good news.
    Good,
    /// Bad news.
    Bad,
    /// Neither good nor bad.
    Unsure,
    /// Not to be relied on.
    Void,
}

impl Style {
    /// 80 columns, no colour, Unicode.
    #[must_use]
    pub fn plain() -> Self {
        Self {
            colour: false,
            width: 80,
            height: 24,
            unicode: true,
            report: None,
            verbose: false,
        }
    }

    /// The same for all of a summary.
    #[must_use]
    pub fn verbose(mut self, verbose: bool) -> Self {
        self.verbose = verbose;
        self
    }

    /// The same with the place of the report.
    #[must_use]
    pub fn with_report(mut self, place: Option<String>) -> Self {
        self.report = place;
        self
    }

    /// A text in its tone; control characters in it are made harmless.
    #[must_use]
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        let text = words::clean(text);
        let text = if self.unicode {
            text
        } else {
            words::ascii(&text)
        };
        let code = match tone {
            Tone::Plain => "",
            Tone::Bold => "1",
            Tone::Dim => "2",
            Tone::Good => "1;32",
            Tone::Bad => "1;31",
            Tone::Unsure => "1;33",
            Tone::Void => "1;35",
        };
        if self.colour && !code.is_empty() {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text
        }
    }

    /// The usable width: nobody reads lines longer than this.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.width.clamp(40, 120)
    }

    /// The width for tables: their rows are no running text, and have all of the terminal.
    #[must_use]
    pub fn table_columns(&self) -> usize {
        self.width.max(self.columns())
    }
}

/// Cuts a painted line to `width` visible characters: a redrawn line that wraps
/// would spoil the block.
#[must_use]
pub fn cut(line: &str, width: usize) -> String {
    let mut out = String::with_capacity(line.len());
    let (mut visible, mut escape) = (0, false);
    for c in line.chars() {
        if c == '\x1b' {
            escape = true;
        }
        if escape {
            out.push(c);
            escape = c != 'm';
        } else if visible < width {
            out.push(c);
            visible += 1;
        }
    }
    out
}

/// Breaks a text into lines of at most `width` characters at its spaces; a
/// longer word is cut. The spaces of figures with a unit are kept together.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    fill(text, width, false)
}

/// Words of a text; a number stays with its unit.
fn glue(text: &str) -> Vec<String> {
    const UNITS: [&str; 9] = ["ns", "µs", "ms", "s", "min", "h", "d", "%", "million"];
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let bare = word.trim_end_matches(|c: char| ".,;:)".contains(c));
        match words.last_mut() {
            Some(last)
                if UNITS.contains(&bare)
                    && last
                        .trim_start_matches('(')
                        .starts_with(|c: char| c.is_ascii_digit())
                    && last.ends_with(|c: char| c.is_ascii_digit()) =>
            {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// [`wrap`], but what stands between backquotes is still one command where it goes on in the next line:
/// pasted without its end it would be another one.
#[must_use]
pub fn wrap_commands(text: &str, width: usize) -> Vec<String> {
    fill(text, width.saturating_sub(2), true)
}

fn fill(text: &str, width: usize, has_commands: bool) -> Vec<String> {
    let width = width.max(8);
    let mut lines = Vec::new();
    let (mut line, mut used, mut is_command) = (String::new(), 0, false);
    for word in glue(text) {
        let marks = if has_commands {
            word.matches('`').count()
        } else {
            0
        };
        let word: Vec<char> = word.chars().collect();
        // A word of a command is one, however long it is.
        let most = match is_command || marks > 0 {
            true => word.len().max(1),
            false => width,
        };
        for part in word.chunks(most) {
            if used > 0 && used + 1 + part.len() > width {
                let end = if is_command { " \\" } else { "" };
                lines.push(std::mem::take(&mut line) + end);
                used = 0;
            }
            if used > 0 {
                line.push(' ');
                used += 1;
            }
            used += part.len();
            line.extend(part);
        }
        is_command ^= marks % 2 == 1;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_break_at_spaces_but_not_before_a_unit() {
        let lines = wrap("no wake-up was later than 100 µs here", 29);
        assert_eq!(lines, ["no wake-up was later than", "100 µs here"]);
        assert_eq!(wrap("", 20), [""]);
        assert_eq!(wrap("abcdefghijklmnop", 8), ["abcdefgh", "ijklmnop"]);
    }

    #[test]
    fn a_cut_line_keeps_its_colours_closed() {
        assert_eq!(cut("\x1b[1mabcdef\x1b[0m", 3), "\x1b[1mabc\x1b[0m");
        assert_eq!(cut("abc", 80), "abc");
    }

    #[test]
    fn colour_is_only_there_when_asked_for() {
        let mut style = Style::plain();
        assert_eq!(style.paint(Tone::Bad, "x"), "x");
        style.colour = true;
        assert_eq!(style.paint(Tone::Bad, "x"), "\x1b[1;31mx\x1b[0m");
        style.unicode = false;
        assert_eq!(style.paint(Tone::Plain, "5 µs\x1b"), "5 us?");
    }
}
