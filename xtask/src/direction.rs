//! Who may know whom: between the crates, and between the rooms of the tool.

use std::collections::BTreeSet;

use crate::source::{Token, Tracked, tokens};

/// The crates and those that each may depend on.
const CRATES: &[(&str, &[&str])] = &[
    ("stats", &[]),
    ("rt", &["stats"]),
    ("capi", &["rt"]),
    ("preload", &["rt"]),
    ("record", &["stats"]),
    ("report", &["stats", "record", "trace"]),
    ("load", &["record"]),
    ("trace", &["stats", "rt", "record"]),
    ("lab", &["stats", "rt", "record"]),
    (
        "punctual",
        &["stats", "rt", "record", "report", "load", "trace", "lab"],
    ),
];

/// The rooms of the tool, and what each may name beside itself: a room, or one module of a
/// room. The first that fits a module holds.
const ROOMS: &[Room] = &[
    Room::plain(
        "probe",
        &[],
        &["punctual_record", "punctual_stats", "punctual_rt"],
    ),
    Room::plain(
        "system",
        &[],
        &["punctual_record", "punctual_stats", "punctual_rt"],
    ),
    Room::plain("launch", &[], &["punctual_rt"]),
    Room::plain("conduct", &["probe", "system"], CONDUCTED),
    Room::plain("cli", &["probe", "system", "conduct", "launch"], EVERYTHING),
];
/// It prints nothing, and has no words and pictures made.
const CONDUCTED: &[&str] = &[
    "punctual_stats",
    "punctual_rt",
    "punctual_record",
    "punctual_load",
    "punctual_trace",
    "punctual_lab",
];
const EVERYTHING: &[&str] = &[
    "punctual_stats",
    "punctual_rt",
    "punctual_record",
    "punctual_report",
    "punctual_load",
    "punctual_trace",
    "punctual_lab",
];

/// Where the tool's rooms are.
const TOOL: &str = "crates/punctual/src/";

struct Room {
    of: &'static str,
    sees: &'static [&'static str],
    crates: &'static [&'static str],
}

impl Room {
    const fn plain(
        of: &'static str,
        sees: &'static [&'static str],
        crates: &'static [&'static str],
    ) -> Self {
        Self { of, sees, crates }
    }
}

/// What is wrong with the direction of imports, a line each.
pub fn faults(files: &[Tracked]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files {
        if let Some(manifest) = file
            .path
            .strip_prefix("crates/")
            .and_then(|path| path.strip_suffix("/Cargo.toml"))
        {
            faults.extend(of_crate(manifest, file));
        } else if let Some(module) = file
            .path
            .strip_prefix(TOOL)
            .and_then(|path| path.strip_suffix(".rs"))
        {
            faults.extend(of_module(module, file));
        }
    }
    faults
}

fn of_crate(name: &str, manifest: &Tracked) -> Vec<String> {
    let path = &manifest.path;
    let Some((_, allowed)) = CRATES.iter().find(|(known, _)| *known == name) else {
        return vec![format!(
            "{path}: xtask/src/direction.rs doesn't know this crate"
        )];
    };
    manifest
        .text
        .lines()
        .enumerate()
        .filter_map(|(at, line)| Some((at + 1, line.strip_prefix("punctual-")?)))
        .filter_map(|(at, line)| Some((at, line.split(['.', ' ', '=']).next()?)))
        .filter(|(_, dependency)| !allowed.contains(dependency))
        .map(|(at, dependency)| format!("{path}:{at}: {name} may not depend on {dependency}"))
        .collect()
}

fn of_module(module: &str, file: &Tracked) -> Vec<String> {
    let path = &file.path;
    let module: Vec<&str> = module.split('/').filter(|part| *part != "mod").collect();
    let name = module.join("::");
    // They put the rooms together.
    if name == "lib" || name == "main" {
        return Vec::new();
    }
    let Some(room) = ROOMS.iter().find(|room| within(&name, room.of)) else {
        return vec![format!(
            "{path}: xtask/src/direction.rs doesn't know the room {}",
            module[0]
        )];
    };
    let mut faults = Vec::new();
    for (line, used) in paths(&module, &file.text) {
        let shown = used.join("::");
        let allowed = if let Some(other) = used[0].strip_prefix("punctual_") {
            let _ = other;
            room.crates.contains(&used[0].as_str())
        } else {
            // Of modules named without one of their own, rooms alone matter.
            let inner = used[1..].join("::");
            within(&inner, room.of) || room.sees.iter().any(|seen| within(&inner, seen))
        };
        if !allowed {
            let shown = shown.trim_end_matches("::*");
            faults.push(format!("{path}:{line}: {} may not use {shown}", room.of));
        }
    }
    faults
}

/// Whether a path is a module or lies within it.
fn within(path: &str, module: &str) -> bool {
    path.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The paths from the root of the crate, as `crate::room::module`, and those into our other
/// crates, that a source names in `use` or in passing.
fn paths(module: &[&str], source: &str) -> BTreeSet<(usize, Vec<String>)> {
    let tokens = tokens(source);
    let mut found = BTreeSet::new();
    // Modules within the file, with the depth of braces that they end at.
    let mut inner: Vec<(&str, usize)> = Vec::new();
    let mut depth = 0_usize;
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].text {
            "{" => depth += 1,
            "}" => {
                depth = depth.saturating_sub(1);
                if inner.last().is_some_and(|(_, end)| *end == depth) {
                    inner.pop();
                }
            }
            "mod" if text(&tokens, at + 2) == "{" => {
                inner.push((tokens[at + 1].text, depth));
                depth += 1;
                at += 2;
            }
            root if (root == "crate" || root == "super" || root.starts_with("punctual_"))
                && text(&tokens, at + 1) == "::"
                && !continues(&tokens, at) =>
            {
                let mut here: Vec<&str> = module.to_vec();
                here.extend(inner.iter().map(|(name, _)| *name));
                let mut tree = Vec::new();
                let begin = at;
                let prefix = match root {
                    "crate" => vec!["crate".to_owned()],
                    "super" => {
                        here.pop();
                        while text(&tokens, at + 1) == "::" && text(&tokens, at + 2) == "super" {
                            here.pop();
                            at += 2;
                        }
                        let mut prefix = vec!["crate".to_owned()];
                        prefix.extend(here.into_iter().map(str::to_owned));
                        prefix
                    }
                    other => vec![other.to_owned()],
                };
                let line = tokens[begin].line;
                branches(&tokens, &mut at, &prefix, &mut tree);
                found.extend(tree.into_iter().map(|path| (line, path)));
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

fn text<'a>(tokens: &[Token<'a>], at: usize) -> &'a str {
    tokens.get(at).map_or("", |token| token.text)
}

/// Whether the name is the middle of a path, as in `a::super::b`.
fn continues(tokens: &[Token<'_>], at: usize) -> bool {
    at > 0 && text(tokens, at - 1) == "::"
}

/// From a name at `at`: what follows it in `::` and in braces; `at` is left behind it.
fn branches(tokens: &[Token<'_>], at: &mut usize, prefix: &[String], found: &mut Vec<Vec<String>>) {
    *at += 1;
    let mut path = prefix.to_vec();
    while text(tokens, *at) == "::" {
        *at += 1;
        match text(tokens, *at) {
            "{" => {
                *at += 1;
                while !matches!(text(tokens, *at), "}" | "") {
                    let name = text(tokens, *at);
                    if name == "," {
                        *at += 1;
                        continue;
                    }
                    let mut longer = path.clone();
                    if name != "self" {
                        longer.push(name.to_owned());
                    }
                    branches(tokens, at, &longer, found);
                    // `as` and the new name.
                    while !matches!(text(tokens, *at), "," | "}" | "") {
                        *at += 1;
                    }
                }
                *at += 1;
                return;
            }
            name if name.starts_with(|c: char| c.is_alphabetic() || c == '_') || name == "*" => {
                path.push(name.to_owned());
                *at += 1;
            }
            // `::<T>` ends a path.
            _ => break,
        }
    }
    found.push(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(path: &str, text: &str) -> Vec<String> {
        faults(&[Tracked {
            path: path.to_owned(),
            text: text.to_owned(),
        }])
    }

    fn named(module: &[&str], source: &str) -> Vec<String> {
        paths(module, source)
            .into_iter()
            .map(|(line, path)| format!("{line} {}", path.join("::")))
            .collect()
    }

    #[test]
    fn trees_of_use_are_followed() {
        assert_eq!(
            named(
                &["probe"],
                "use crate::{record::{Run, time::{self, Time as T}}, system::*};\n\
                 fn f() { crate::load::run::<u8>(punctual_rt::clock::now()) }"
            ),
            [
                "1 crate::record::Run",
                "1 crate::record::time",
                "1 crate::record::time::Time",
                "1 crate::system::*",
                "2 crate::load::run",
                "2 punctual_rt::clock::now",
            ]
        );
    }

    #[test]
    fn super_is_resolved_also_within_modules_of_a_file() {
        assert_eq!(
            named(
                &["load", "set"],
                "use super::units;\nuse super::super::record::Run;\n\
                 mod tests { use super::Set; use super::super::units; }\nuse super::late;"
            ),
            [
                "1 crate::load::units",
                "2 crate::record::Run",
                "3 crate::load::set::Set",
                "3 crate::load::units",
                "4 crate::load::late",
            ]
        );
    }

    #[test]
    fn visibility_is_no_path() {
        assert_eq!(
            named(&["load"], "pub(crate) fn f(); pub(super) fn g();"),
            [""; 0]
        );
    }

    #[test]
    fn forbidden_edges_are_found() {
        for (path, text, fault) in [
            (
                "crates/punctual/src/conduct/mod.rs",
                "fn f() { super::cli::main() }",
                "crates/punctual/src/conduct/mod.rs:1: conduct may not use crate::cli::main",
            ),
            (
                "crates/punctual/src/conduct/run/view.rs",
                "use punctual_report::live;",
                "crates/punctual/src/conduct/run/view.rs:1: conduct may not use \
                 punctual_report::live",
            ),
            (
                "crates/punctual/src/probe/tally.rs",
                "\nuse punctual_report::style;",
                "crates/punctual/src/probe/tally.rs:2: probe may not use punctual_report::style",
            ),
            (
                "crates/punctual/src/probe/mod.rs",
                "use crate::*;",
                "crates/punctual/src/probe/mod.rs:1: probe may not use crate",
            ),
            (
                "crates/punctual/src/attic/mod.rs",
                "",
                "crates/punctual/src/attic/mod.rs: xtask/src/direction.rs doesn't know the room \
                 attic",
            ),
            (
                "crates/stats/Cargo.toml",
                "[dependencies]\npunctual-rt.workspace = true\n",
                "crates/stats/Cargo.toml:2: stats may not depend on rt",
            ),
            (
                "crates/new/Cargo.toml",
                "",
                "crates/new/Cargo.toml: xtask/src/direction.rs doesn't know this crate",
            ),
        ] {
            assert_eq!(faults_of(path, text), [fault]);
        }
    }

    #[test]
    fn allowed_edges_are_not() {
        for (path, text) in [
            (
                "cli/out.rs",
                "use punctual_report::style; use crate::conduct::Plan;",
            ),
            (
                "probe/mod.rs",
                "// use crate::cli;\nlet a = \"crate::cli::main\";",
            ),
            ("probe/mod.rs", "mod tests { use super::system; }"),
            ("main.rs", "punctual_tool::cli::main()"),
        ] {
            let path = format!("{TOOL}{path}");
            assert_eq!(faults_of(&path, text), [""; 0]);
        }
        let sister = "[dependencies]\npunctual-stats.workspace = true\n";
        assert_eq!(faults_of("crates/rt/Cargo.toml", sister), [""; 0]);
    }
}
