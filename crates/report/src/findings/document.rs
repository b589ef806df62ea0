//! The page that lists the findings, made from their texts.

use std::fmt::Write as _;

use punctual_record::finding::FindingId;

use super::{group_title, text};

/// The table of all findings, in Markdown.
#[must_use]
pub fn document() -> String {
    let mut out = "# Findings\n\n\
        What [punctual check](check.md) looks for. \"By hand\" is what to do where no setting of the\n\
        running machine and no boot parameter fixes it; the other fixes are printed with the values of\n\
        the machine. This page is made from the texts of the program.\n"
        .to_owned();
    let mut group = None;
    for id in FindingId::ALL {
        if group != Some(id.group()) {
            group = Some(id.group());
            let _ = write!(
                out,
                "\n## {}\n\n| finding | title | why | by hand | source |\n|---|---|---|---|---|\n",
                group_title(id.group())
            );
        }
        let words = text(*id);
        let cells = [words.title, words.why, words.by_hand, words.source].map(cell);
        let _ = writeln!(out, "| `{}` | {} |", id.name(), cells.join(" | "));
    }
    out
}

/// Text as a cell of a table.
fn cell(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if "|*_<>[]`".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}
