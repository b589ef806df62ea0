//! What the crates we depend on bring along: licences, versions twice, compilers too new.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::root;

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
];

/// What may be used by tests besides, and reaches nobody.
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
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command
        .current_dir(root())
        .args(["metadata", "--locked", "--format-version", "1"]);
    for target in TARGETS {
        command.args(["--filter-platform", target]);
    }
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let metadata = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
    Ok(judge(&metadata))
}

fn judge(metadata: &Value) -> Vec<String> {
    let (used, shipped) = graph(metadata);
    let members = ids(&metadata["workspace_members"]);
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let packages: Vec<&Value> = packages
        .filter(|package| package["id"].as_str().is_some_and(|id| used.contains(id)))
        .collect();
    let ours = packages
        .iter()
        .filter(|package| members.contains(word(&package["id"])))
        .map(|package| word(&package["rust_version"]))
        .max_by_key(|version| numbers(version))
        .unwrap_or("");

    let mut faults = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let (id, name, version) = (
            word(&package["id"]),
            word(&package["name"]),
            word(&package["version"]),
        );
        if members.contains(id) {
            continue;
        }
        let who = format!("{name} {version}");
        let is_shipped = shipped.contains(id);
        if is_shipped {
            versions.entry(name).or_default().push(version);
        }
        let licence = word(&package["license"]);
        if !may(licence, is_shipped) {
            let why = if is_shipped { "shipped" } else { "for tests" };
            faults.push(format!(
                "{who}: its licence is not allowed ({why}): {licence:?}"
            ));
        }
        let wants = word(&package["rust_version"]);
        if numbers(wants) > numbers(ours) {
            faults.push(format!(
                "{who}: wants Rust {wants}; the workspace promises {ours}"
            ));
        }
        if !word(&package["source"]).starts_with("registry+") {
            faults.push(format!("{who}: is no released crate"));
        }
    }
    for (name, found) in versions {
        if found.len() > 1 && TWICE.iter().all(|(known, _)| *known != name) {
            faults.push(format!("{name}: shipped as {}", found.join(" and ")));
        }
    }
    faults
}

/// Every package in use, and those that are linked into what is shipped.
fn graph(metadata: &Value) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut normal: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in metadata["resolve"]["nodes"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let from = word(&node["id"]);
        for edge in node["deps"].as_array().into_iter().flatten() {
            let to = word(&edge["pkg"]);
            all.entry(from).or_default().push(to);
            let kinds = edge["dep_kinds"].as_array().into_iter().flatten();
            if kinds.into_iter().any(|kind| kind["kind"].is_null()) {
                normal.entry(from).or_default().push(to);
            }
        }
    }
    let members = ids(&metadata["workspace_members"]);
    let shipped = members.iter().copied().filter(|id| {
        let packages = metadata["packages"].as_array().into_iter().flatten();
        let mut packages = packages.into_iter();
        packages.any(|package| word(&package["id"]) == *id && word(&package["name"]) != "xtask")
    });
    (
        reached(members.clone(), &all),
        reached(shipped.collect(), &normal),
    )
}

fn reached<'a>(
    roots: BTreeSet<&'a str>,
    edges: &BTreeMap<&'a str, Vec<&'a str>>,
) -> BTreeSet<&'a str> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&str> = roots.into_iter().collect();
    while let Some(id) = open.pop() {
        if found.insert(id) {
            open.extend(edges.get(id).into_iter().flatten());
        }
    }
    found
}

fn ids(list: &Value) -> BTreeSet<&str> {
    let list = list.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).collect()
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

/// Whether one of the ways that an SPDX expression offers is allowed.
fn may(expression: &str, is_shipped: bool) -> bool {
    let spaced = expression
        .replace('/', " OR ")
        .replace('(', " ( ")
        .replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let allowed = either(&words, &mut at, is_shipped);
    allowed && at == words.len()
}

fn either(words: &[&str], at: &mut usize, is_shipped: bool) -> bool {
    let mut allowed = both(words, at, is_shipped);
    while words.get(*at) == Some(&"OR") {
        *at += 1;
        allowed |= both(words, at, is_shipped);
    }
    allowed
}

fn both(words: &[&str], at: &mut usize, is_shipped: bool) -> bool {
    let mut allowed = one(words, at, is_shipped);
    while words.get(*at) == Some(&"AND") {
        *at += 1;
        allowed &= one(words, at, is_shipped);
    }
    allowed
}

fn one(words: &[&str], at: &mut usize, is_shipped: bool) -> bool {
    let Some(first) = words.get(*at) else {
        return false;
    };
    *at += 1;
    if *first == "(" {
        let allowed = either(words, at, is_shipped);
        let closed = words.get(*at) == Some(&")");
        *at += 1;
        return allowed && closed;
    }
    let mut licence = (*first).to_owned();
    if words.get(*at) == Some(&"WITH") {
        licence = format!("{licence} WITH {}", words.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    LICENCES.contains(&licence.as_str()) || !is_shipped && OF_TESTS.contains(&licence.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_are_expressions() {
        for fine in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0-only OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-2.0",
        ] {
            assert!(may(fine, true), "{fine}");
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
            assert!(!may(not, true), "{not}");
        }
        assert!(may("MPL-2.0", false));
    }

    fn package(id: &str, version: &str, licence: &str, rust: &str) -> Value {
        let source = (id != "ours" && id != "xtask").then_some("registry+x");
        serde_json::json!({
            "id": format!("{id}@{version}"), "name": id, "version": version,
            "license": licence, "rust_version": rust, "source": source,
        })
    }

    fn edge(to: &str, kind: Option<&str>) -> Value {
        serde_json::json!({"pkg": to, "dep_kinds": [{"kind": kind}]})
    }

    #[test]
    fn every_fault_is_named() {
        let metadata = serde_json::json!({
            "workspace_members": ["ours@1", "xtask@1"],
            "packages": [
                package("ours", "1", "MIT", "1.91"),
                package("xtask", "1", "MIT", "1.91"),
                package("late", "1", "MIT", "1.92.0"),
                package("left", "1", "GPL-3.0-only", "1.91.0"),
                package("twice", "1", "MIT", "1.60"),
                package("twice", "2", "MIT", "1.60"),
                package("tests", "1", "MPL-2.0", "1.60"),
                package("tests", "2", "MPL-2.0", "1.60"),
                package("elsewhere", "1", "GPL-3.0-only", "1.99"),
            ],
            "resolve": {"nodes": [
                {"id": "ours@1", "deps": [
                    edge("late@1", None), edge("left@1", None), edge("twice@1", None),
                    edge("tests@1", Some("dev")),
                ]},
                {"id": "xtask@1", "deps": [edge("tests@2", None)]},
                {"id": "late@1", "deps": [edge("twice@2", None)]},
            ]},
        });
        assert_eq!(
            judge(&metadata),
            [
                "late 1: wants Rust 1.92.0; the workspace promises 1.91",
                "left 1: its licence is not allowed (shipped): \"GPL-3.0-only\"",
                "twice: shipped as 1 and 2",
            ]
        );
    }
}
