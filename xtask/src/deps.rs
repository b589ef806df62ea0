//! The crates we depend on: licences, versions twice, compilers too new.
//!
//! cargo-deny would check the first two. No distribution of ours has it as a package, and to
//! compile its 143 crates takes a fresh machine longer than all other checks together; `cargo tree`
//! answers the same questions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::suite;

/// What may be linked into the tool and the library.
const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    // Whole expressions with AND.
    "(MIT OR Apache-2.0) AND Unicode-3.0",
];

/// What may be used by tests besides, and is not shipped.
const OF_TESTS: &[&str] = &["MPL-2.0"];

/// Crates that are shipped in two versions, and why nothing can be done.
const TWICE: &[(&str, &str)] = &[];

/// The systems that we build for.
const TARGETS: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "riscv64gc-unknown-linux-gnu",
];

/// What is wrong with the dependencies, a line each.
///
/// # Errors
/// cargo's words, where it can't tell them.
pub fn faults() -> Result<Vec<String>, String> {
    let mut faults = compilers(&metadata(&[])?);
    faults.extend(judge(
        &tree(&["--exclude", "xtask", "-e", "normal"])?,
        &tree(&["-e", "normal,build,dev"])?,
    ));
    Ok(faults)
}

/// What `cargo metadata` says of the workspace.
///
/// # Errors
/// cargo's words, where it can't tell them.
pub fn metadata(more: &[&str]) -> Result<Value, String> {
    let mut command = suite::cargo(&["metadata", "--locked", "--format-version", "1"]);
    let output = suite::stdout(command.args(more))?;
    serde_json::from_str(&output).map_err(|error| error.to_string())
}

/// A line for each crate: `name vVERSION`, a tab, its licence.
fn tree(more: &[&str]) -> Result<String, String> {
    let mut command = suite::cargo(&["tree", "--locked", "--workspace", "--prefix", "none"]);
    command.args(["--format", "{p}\t{l}"]).args(more);
    for target in TARGETS {
        command.args(["--target", target]);
    }
    suite::stdout(&mut command)
}

fn judge(shipped: &str, all: &str) -> Vec<String> {
    let mut faults = BTreeSet::new();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (lines, is_shipped) in [(shipped, true), (all, false)] {
        for line in lines.lines().filter(|line| !line.is_empty()) {
            let (package, licence) = line.split_once('\t').unwrap_or((line, ""));
            // A crate that was listed before.
            let licence = licence.trim_end_matches(" (*)");
            let mut words = package.split(' ');
            let (name, version) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let known = OF_TESTS.contains(&licence) && !is_shipped;
            if !known && !may(licence) {
                faults.insert(format!(
                    "{name} {version}: its licence is not allowed: {licence:?}"
                ));
            }
            if is_shipped {
                versions.entry(name).or_default().insert(version);
            }
        }
    }
    for (name, found) in versions {
        if found.len() > 1 && TWICE.iter().all(|(known, _)| *known != name) {
            let found: Vec<&str> = found.into_iter().collect();
            faults.insert(format!("{name}: shipped as {}", found.join(" and ")));
        }
    }
    faults.into_iter().collect()
}

/// Whether the expression, or one of those that it offers, is listed.
fn may(expression: &str) -> bool {
    let simple = !expression.contains(['(', ')']) && !expression.contains(" AND ");
    LICENCES.contains(&expression)
        || simple
            && expression
                .replace('/', " OR ")
                .split(" OR ")
                .any(|licence| LICENCES.contains(&licence))
}

fn compilers(metadata: &Value) -> Vec<String> {
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let (ours, others): (Vec<&Value>, Vec<&Value>) =
        packages.partition(|package| package["source"].is_null());
    let promised = ours
        .iter()
        .map(|package| word(&package["rust_version"]))
        .max_by_key(|version| numbers(version))
        .unwrap_or("");
    others
        .iter()
        .filter(|package| numbers(word(&package["rust_version"])) > numbers(promised))
        .map(|package| {
            let (name, version) = (word(&package["name"]), word(&package["version"]));
            let wanted = word(&package["rust_version"]);
            format!("{name} v{version}: wants Rust {wanted}; the workspace promises {promised}")
        })
        .collect()
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// `1.85.0` and `1.85` are the same.
fn numbers(version: &str) -> (u32, u32, u32) {
    let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
    let mut next = || parts.next().unwrap_or(0);
    (next(), next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_offer_a_choice() {
        for fine in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(may(fine), "{fine}");
        }
        for not in [
            "",
            "GPL-3.0-only",
            "MIT AND GPL-3.0-only",
            "(MIT OR Apache-2.0",
            "MIT MIT",
            "GPL-2.0 WITH LLVM-exception",
            "MPL-2.0",
        ] {
            assert!(!may(not), "{not}");
        }
    }

    #[test]
    fn every_fault_is_named() {
        let shipped = "ours v0.1.0 (/src)\tMIT\nleft v1.0.0\tGPL-3.0-only\n\
                       twice v1.0.0\tMIT\ntwice v2.0.0\tMIT\ntwice v1.0.0\tMIT (*)\n\n\
                       file v3.0.0\tMPL-2.0\n";
        let all = "ours v0.1.0 (/src)\tMIT\ntests v1.0.0\tMPL-2.0\ntests v2.0.0\tMPL-2.0 (*)\n\
                   none v1.0.0\t\n";
        assert_eq!(
            judge(shipped, all),
            [
                "file v3.0.0: its licence is not allowed: \"MPL-2.0\"",
                "left v1.0.0: its licence is not allowed: \"GPL-3.0-only\"",
                "none v1.0.0: its licence is not allowed: \"\"",
                "twice: shipped as v1.0.0 and v2.0.0",
            ]
        );
    }

    #[test]
    fn a_compiler_that_is_too_new_is_found() {
        let package = |name: &str, source: Option<&str>, rust: &str| {
            serde_json::json!({
                "name": name, "version": "1.0.0", "source": source, "rust_version": rust,
            })
        };
        let metadata = serde_json::json!({ "packages": [
            package("ours", None, "1.91"),
            package("late", Some("registry+x"), "1.92.0"),
            package("same", Some("registry+x"), "1.91.0"),
        ]});
        assert_eq!(
            compilers(&metadata),
            ["late v1.0.0: wants Rust 1.92.0; the workspace promises 1.91"]
        );
    }
}
