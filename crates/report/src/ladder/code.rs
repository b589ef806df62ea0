//! The lines of code that take each step, from the example programs that are compiled and tested.

use punctual_record::ladder::Rung;

/// The example in Rust.
const RUST: &str = include_str!("../../../rt/examples/ladder.rs");
/// The example in C.
const C: &str = include_str!("../../../capi/examples/ladder.c");

/// A language of the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// `punctual_rt`.
    Rust,
    /// `punctual.h`.
    C,
}

impl Language {
    /// All.
    pub const ALL: [Self; 2] = [Self::Rust, Self::C];

    /// As text names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::C => "C",
        }
    }
}

/// The whole program.
#[must_use]
pub fn example(language: Language) -> &'static str {
    match language {
        Language::Rust => RUST,
        Language::C => C,
    }
}

/// The lines that take the step of a rung: those between the comment that names it and the end
/// of its block.
#[must_use]
pub fn lines(language: Language, rung: Rung) -> Vec<&'static str> {
    let named = format!("{}: ", rung.name());
    let is_comment = |line: &&str| {
        let words = line.trim_start().trim_start_matches(['/', '*', ' ']);
        words.starts_with(&named)
    };
    let rest = example(language)
        .lines()
        .skip_while(|line| !is_comment(line));
    let block = rest
        .skip(1)
        .take_while(|line| !line.trim_start().starts_with('}'));
    let block: Vec<&str> = block.collect();
    let indent = |line: &&str| line.len() - line.trim_start().len();
    let least = block.iter().map(indent).min().unwrap_or(0);
    block.iter().map(|line| &line[least..]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_a_few_lines_in_each_language() {
        for language in Language::ALL {
            for rung in Rung::ALL {
                let lines = lines(language, rung);
                let of = format!("{} {}", language.name(), rung.name());
                assert!((1..=4).contains(&lines.len()), "{of}: {lines:?}");
                assert!(lines.iter().all(|it| it.len() <= 96), "{of}: {lines:?}");
                assert!(!lines[0].starts_with(' '), "{of}: {lines:?}");
            }
        }
        let priority = lines(Language::Rust, Rung::Priority);
        assert_eq!(priority, ["thread = thread.policy(Policy::Fifo(80));"]);
        let priority = lines(Language::C, Rung::Priority);
        assert_eq!(
            priority,
            ["attr.policy = PUNCTUAL_FIFO;", "attr.priority = 80;"]
        );
    }
}
