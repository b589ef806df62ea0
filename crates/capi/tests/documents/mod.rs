//! docs/library.md lists each function of the header once, and the first program compiles.

use std::fs;
use std::process::Command;

use crate::declared;
use crate::support::{self, Build, succeeds};

fn document(name: &str) -> String {
    fs::read_to_string(support::here().join("../../docs").join(name)).expect("the document")
}

#[test]
fn the_reference_has_a_row_for_each_function_of_the_header() {
    let text = document("library.md");
    let (text, _) = text.split_once("## In C++").expect("a section on C++");
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let mut named: Vec<String> = rows
        .iter()
        .filter_map(|row| Some(row.strip_prefix("| `")?.split_once('(')?.0.to_owned()))
        .collect();
    named.sort();
    assert_eq!(named, declared());
    for row in rows {
        // What it does, its errors, and whether a real-time thread may call it.
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        assert_eq!(cells.len(), 4, "{row}");
        let safety = cells[3].trim();
        let known = ["**yes**", "**1 call**", "**2 calls**", "setup", "as `"];
        assert!(known.iter().any(|word| safety.starts_with(word)), "{row}");
    }
}

/// The reference has the same failure value for each function as the header.
#[test]
fn the_reference_and_the_header_agree_on_failures() {
    let header = fs::read_to_string(support::here().join("include/punctual.h"));
    let header = header.expect("the header");
    let text = document("library.md");
    for name in declared() {
        let call = format!("{name}(");
        let at = header.match_indices(&call).map(|(at, _)| at);
        // The declaration, not a mention in a comment.
        let line = |at: usize| header[..at].rsplit('\n').next().unwrap_or_default();
        let at = at.filter(|&at| !line(at).starts_with([' ', '/']) && !line(at).is_empty());
        let end = at.last().expect("declared");
        let comment = &header[header[..end].rfind("/*").unwrap_or(0)..end];
        let comment = comment.replace("\n * ", " ");
        let expected = [
            ("NULL with", "NULL: "),
            ("UINT64_MAX with", "UINT64_MAX: "),
            (" 0 with", "0: "),
            ("-1 with", "−1: "),
            ("never fails", "none"),
        ];
        let expected = expected.iter().find(|(words, _)| comment.contains(words));
        let (_, returned) = expected.expect("what it returns when it fails");
        let row = text
            .lines()
            .find(|line| line.starts_with(&format!("| `{name}(")));
        let failure = row.and_then(|row| row.trim_matches('|').split('|').nth(2));
        let failure = failure.expect("a row").trim();
        assert!(
            failure.starts_with(returned),
            "{name}: {failure}: {comment}"
        );
    }
}

/// The header documents each function's cost and its result on failure.
#[test]
fn the_header_documents_costs_and_failures() {
    const FAILURES: [&str; 5] = [
        "-1 with",
        "NULL with",
        "UINT64_MAX with",
        " 0 with",
        "never fails",
    ];
    const COSTS: [&str; 17] = [
        "system call",
        "arithmetic",
        "lock",
        "allocates",
        "maps",
        "reads",
        "writes",
        "waits",
        "one load",
        "few loads",
        "compare-and-swap",
        "wait-free",
        "walk",
        "malloc()",
        "touches",
        "costs the same",
        "makes everything present",
    ];
    let header = fs::read_to_string(support::here().join("include/punctual.h"));
    let header = header.expect("the header");
    let (mut comment, mut seen) = (String::new(), 0);
    for line in header.lines() {
        if let Some(words) = line.strip_prefix("/*").or_else(|| line.strip_prefix(" *")) {
            comment.push_str(words);
        } else if line.contains('(') && !line.starts_with([' ', '#', '/', '*']) {
            if line.starts_with("typedef") {
                comment.clear();
                continue;
            }
            seen += 1;
            let says = |words: &[&str]| words.iter().any(|words| comment.contains(words));
            assert!(says(&FAILURES), "{line}: {comment}");
            assert!(says(&COSTS), "{line}: {comment}");
            comment.clear();
        } else if !line.starts_with(' ') {
            comment.clear();
        }
    }
    assert_eq!(seen, declared().len());
}

/// The header documents for each function whether a real-time thread may call it.
#[test]
fn the_header_documents_real_time_safety() {
    let header = fs::read_to_string(support::here().join("include/punctual.h"));
    let header = header.expect("the header");
    for paragraph in header.split("\n\n").collect::<Vec<_>>().windows(2) {
        let comment = paragraph[1];
        let is_function = comment.starts_with("/*") && comment.trim_end().ends_with(");");
        let constants = comment.contains("#define") || comment.contains("struct punctual_loop {");
        if is_function && !constants {
            let said = ["real-time thread", "For setting up"];
            assert!(
                said.iter().any(|words| comment.contains(words)),
                "{comment}"
            );
        }
    }
}

#[test]
fn the_first_program_compiles() {
    let text = document("first-program.md");
    let program = text
        .split("```c\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let source = support::work().join("first.c");
    fs::write(&source, program.expect("a program")).expect("written");
    // An absolute path is used unchanged.
    let program = Build::PLAIN.compile(source.to_str().expect("a path"));
    succeeds(Command::new("test").arg("-x").arg(program));
}
