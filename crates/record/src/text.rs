//! Text that others wrote (a program's name, a kernel's words, a file's content), made fit for a
//! message or a terminal.

/// Letters of foreign text in a message.
const MOST: usize = 300;

/// The text on one line: white space becomes a space, and what could move the cursor, colour the
/// screen or turn the direction of writing becomes `?`.
#[must_use]
pub fn clean(text: &str) -> String {
    let shown = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        c if c.is_control() || is_bidi(c) => '?',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// The text on one line, in at most `most` letters: of a longer one the beginning and `…`.
#[must_use]
pub fn shortened(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        None => clean(text),
        Some(_) => {
            let kept = text.char_indices().nth(most.saturating_sub(1));
            clean(&text[..kept.map_or(0, |(end, _)| end)]) + "…"
        }
    }
}

/// The text on one line, in at most `most` letters: of a longer one `…` and the end.
#[must_use]
pub fn ending(text: &str, most: usize) -> String {
    match text.char_indices().rev().nth(most) {
        None => clean(text),
        Some(_) => {
            let kept = most
                .checked_sub(2)
                .and_then(|n| text.char_indices().rev().nth(n));
            "…".to_owned() + &clean(&text[kept.map_or(text.len(), |(begin, _)| begin)..])
        }
    }
}

/// The text on one line, as long as a message takes it.
#[must_use]
pub fn one_line(text: &str) -> String {
    shortened(text, MOST)
}

fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_controls_a_terminal_or_ends_the_line() {
        assert_eq!(clean("a\x1b[31mb\u{202e}c\td\r\n"), "a?[31mb?c d  ");
        let all: String = (0..0x2100).filter_map(char::from_u32).collect();
        let shown = clean(&all);
        assert_eq!(shown.chars().count(), all.chars().count());
        assert!(!shown.contains(|c: char| c.is_control() || is_bidi(c)));
        assert_eq!(clean("größer als 5 µs"), "größer als 5 µs");
    }

    #[test]
    fn a_long_text_is_cut_and_says_so() {
        assert_eq!(shortened("äbc", 3), "äbc");
        assert_eq!(shortened("äbcd", 3), "äb…");
        assert_eq!(
            (shortened("", 0), shortened("x", 0)),
            ("".into(), "…".into())
        );
        assert_eq!(ending("äbc", 3), "äbc");
        assert_eq!(ending("äbcä", 3), "…cä");
        assert_eq!(
            (ending("", 0), ending("xy", 1), ending("xy", 0)),
            ("".into(), "…".into(), "…".into())
        );
        assert_eq!(ending("a\nbc", 3), "…bc");
        let long = one_line(&"\n".repeat(1000));
        assert_eq!(long.chars().count(), MOST);
        assert!(long.starts_with("  ") && long.ends_with('…'));
    }
}
