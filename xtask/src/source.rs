//! Rust source as tokens: names and signs, without comments, strings and numbers.

use std::fs;
use std::path::Path;
use std::process::Command;

/// A name or a sign, and the line that it stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// `crate`, `::`, `{`.
    pub text: &'a str,
    /// From 1.
    pub line: usize,
}

/// The tokens of a source. What isn't Rust comes out as some tokens or other.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut lexer = Lexer {
        rest: source,
        line: 1,
    };
    let mut tokens = Vec::new();
    while !lexer.rest.is_empty() {
        let line = lexer.line;
        let (length, keep) = lexer.next();
        let text = lexer.take(length);
        if keep {
            tokens.push(Token { text, line });
        }
    }
    tokens
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Lexer<'a> {
    fn take(&mut self, length: usize) -> &'a str {
        let (text, rest) = self.rest.split_at(length.max(1).min(self.rest.len()));
        self.line += text.bytes().filter(|byte| *byte == b'\n').count();
        self.rest = rest;
        text
    }

    /// How long the next piece is, and whether it is a token.
    fn next(&self) -> (usize, bool) {
        let rest = self.rest;
        let first = rest.chars().next().expect("something is left");
        if rest.starts_with("//") {
            return (rest.find('\n').unwrap_or(rest.len()), false);
        }
        if rest.starts_with("/*") {
            return (block_comment(rest), false);
        }
        if let Some(length) = literal(rest) {
            return (length, false);
        }
        if first.is_alphabetic() || first == '_' {
            let raw = if rest.starts_with("r#") { 2 } else { 0 };
            return (raw + word(&rest[raw..]), true);
        }
        if first.is_ascii_digit() {
            return (word(rest), false);
        }
        if first == '\'' {
            return (quote(rest), false);
        }
        if rest.starts_with("::") {
            return (2, true);
        }
        (first.len_utf8(), !first.is_whitespace())
    }
}

fn word(rest: &str) -> usize {
    rest.find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len())
}

/// They nest.
fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        if here.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if here.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += 1;
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// The length of a string, if one begins here, with its prefix.
fn literal(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        let after = rest.strip_prefix(*prefix);
        after.is_some_and(|after| after.starts_with(['"', '#']))
    })?;
    let after = &rest[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
        let text = after[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(hashes));
        let begin = prefix.len() + hashes + 1;
        return Some(
            text.find(&end)
                .map_or(rest.len(), |at| begin + at + end.len()),
        );
    }
    let text = after.strip_prefix('"')?;
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(prefix.len() + at + 2),
            _ => {}
        }
    }
    Some(rest.len())
}

/// A character, or else a lifetime.
fn quote(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    let Some((_, first)) = characters.next() else {
        return 1;
    };
    if first == '\\' {
        // What is escaped may be a quote itself.
        characters.next();
        let end = characters.find(|(_, c)| *c == '\'');
        return end.map_or(rest.len(), |(at, _)| at + 1);
    }
    match characters.next() {
        Some((at, '\'')) => at + 1,
        _ => 1 + word(&rest[1..]),
    }
}

/// A file that the repository keeps.
#[derive(Debug)]
pub struct Tracked {
    /// Its path from the root of the workspace.
    pub path: String,
    /// What it holds; nothing where that is no text.
    pub text: String,
}

/// Every file that is tracked or would be: what is ignored is left out.
pub fn tracked(root: &Path) -> Vec<Tracked> {
    let listed = Command::new("git")
        .current_dir(root)
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .output();
    let paths: Vec<String> = match listed {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout)
            .split_terminator('\0')
            .map(str::to_owned)
            .collect(),
        // An unpacked archive has no history.
        _ => below(root, root),
    };
    paths
        .into_iter()
        .filter_map(|path| {
            let bytes = fs::read(root.join(&path)).ok()?;
            let text = String::from_utf8(bytes).unwrap_or_default();
            Some(Tracked { path, text })
        })
        .collect()
}

fn below(root: &Path, directory: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() {
            if name != "target" && name != ".git" {
                paths.extend(below(root, &path));
            }
        } else if let Ok(path) = path.strip_prefix(root) {
            paths.push(path.display().to_string());
        }
    }
    paths.sort();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        tokens(source).iter().map(|token| token.text).collect()
    }

    #[test]
    fn names_and_signs_are_left() {
        assert_eq!(
            texts("use crate::a::{B, c}; let r#type = b + 12_u8;"),
            [
                "use", "crate", "::", "a", "::", "{", "B", ",", "c", "}", ";", "let", "r#type",
                "=", "b", "+", ";"
            ]
        );
    }

    #[test]
    fn comments_and_strings_are_not() {
        for source in [
            "a // crate::b\n z",
            "a /* crate::b /* c */ d */ z",
            "a \"crate::b \\\" c\" z",
            "a \"two\nlines\\\\\" z",
            "a r\"\\\" z",
            "a r#\"crate \" b\"# z",
            "a br##\"\"#\"## z",
            "a b\"x\" c\"x\" z",
            "a '\"' '\\'' '\\u{7f}' 'ä' z",
            "a 'static z",
        ] {
            assert_eq!(texts(source), ["a", "z"], "{source}");
        }
        assert_eq!(texts("\"never ends"), [""; 0]);
        assert_eq!(texts("/* never ends"), [""; 0]);
        assert_eq!(texts("'"), [""; 0]);
    }

    #[test]
    fn lines_are_counted() {
        let tokens = tokens("a\n/* \n */ \"\n\" b");
        assert_eq!(tokens[1], Token { text: "b", line: 4 });
    }
}
