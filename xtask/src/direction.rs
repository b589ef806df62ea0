//! Who may know whom. Cargo refuses cycles of crates; here is which crate may depend on which at
//! all, and which room of the tool may name which.

use serde_json::Value;

use crate::files::Tracked;

/// The crates and those that each may depend on, also for its tests.
const CRATES: &[(&str, &[&str])] = &[
    ("stats", &[]),
    ("sched", &[]),
    ("rt", &["stats"]),
    ("capi", &["rt"]),
    ("preload", &["rt"]),
    ("record", &["stats"]),
    ("report", &["stats", "record", "trace"]),
    ("load", &["record"]),
    ("fleet", &["stats", "record"]),
    ("exec", &["record", "rt"]),
    // Its tests record the kernel's events.
    ("network", &["stats", "record", "rt", "trace"]),
    ("trace", &["stats", "rt", "record"]),
    ("lab", &["stats", "rt", "record"]),
    ("machine", &["rt", "record"]),
    ("probe", &["stats", "rt", "record"]),
    // Itself: its tests take the schema, a feature.
    ("taskset", &["rt", "record", "sched", "taskset"]),
    (
        "punctual",
        &[
            "stats", "rt", "record", "report", "load", "trace", "lab", "machine", "sched",
            "taskset", "exec", "network", "fleet", "probe",
        ],
    ),
];

/// The rooms, and what each may name beside itself: rooms of the same crate, and crates.
const ROOMS: &[Room] = &[
    Room {
        folder: "crates/punctual/src/system/",
        rooms: &[],
        crates: &["record", "rt", "machine"],
    },
    Room {
        folder: "crates/punctual/src/launch/",
        rooms: &[],
        crates: &["rt"],
    },
    Room {
        folder: "crates/punctual/src/conduct/",
        rooms: &["probe", "system", "launch"],
        // It prints nothing, and makes no words and pictures.
        crates: &[
            "stats", "rt", "record", "load", "trace", "lab", "machine", "sched", "taskset", "exec",
            "network",
        ],
    },
    Room {
        folder: "crates/punctual/src/cli/",
        rooms: &["probe", "system", "conduct", "launch"],
        crates: &[
            "stats", "rt", "record", "report", "load", "trace", "lab", "machine", "sched",
            "taskset", "network", "fleet",
        ],
    },
    Room {
        folder: "crates/trace/src/attribute/",
        rooms: &["calls"],
        crates: &["record", "stats"],
    },
];

struct Room {
    folder: &'static str,
    rooms: &'static [&'static str],
    crates: &'static [&'static str],
}

/// What is wrong with the crates' dependencies, from `cargo metadata`, a line each.
pub fn of_crates(metadata: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let Some(manifest) = package["manifest_path"].as_str() else {
            continue;
        };
        // `crates/NAME/Cargo.toml`: xtask stands outside.
        let [.., "crates", name, _] = manifest.split('/').collect::<Vec<_>>()[..] else {
            continue;
        };
        let Some((_, allowed)) = CRATES.iter().find(|(known, _)| *known == name) else {
            faults.push(format!("{name}: xtask/src/direction.rs lacks this crate"));
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        for dependency in dependencies {
            // The tool's own name has no prefix.
            let full = dependency["name"].as_str().unwrap_or_default();
            let short = full.strip_prefix("punctual-").unwrap_or(full);
            let ours = CRATES.iter().any(|(known, _)| *known == short);
            if ours && !allowed.contains(&short) {
                faults.push(format!("{name} may not depend on {short}"));
            }
        }
    }
    faults
}

/// What is wrong with the names that rooms use, a line each.
pub fn of_rooms(files: &[Tracked]) -> Vec<String> {
    let mut faults = Vec::new();
    for room in ROOMS {
        if files.iter().all(|file| !file.path.starts_with(room.folder)) {
            faults.push(format!("{}: xtask/src/direction.rs lists it", room.folder));
        }
    }
    for file in files {
        if let Some(room) = ROOMS.iter().find(|room| file.path.starts_with(room.folder)) {
            faults.extend(of_file(room, file));
        } else if file.path.starts_with("crates/punctual/src/")
            && file.path["crates/punctual/src/".len()..].contains('/')
        {
            let path = &file.path;
            faults.push(format!("{path}: xtask/src/direction.rs lacks this room"));
        }
    }
    faults
}

/// A plain search: `crate::ROOM`, `super::ROOM` and `punctual_CRATE::` in lines that are no
/// comment. A name in a string counts too, which is rare and seen.
fn of_file(room: &Room, file: &Tracked) -> Vec<String> {
    let (parent, own) = room.folder.trim_end_matches('/').rsplit_once('/').unwrap();
    let own_crate = parent.split('/').nth(1).unwrap_or_default();
    let mut faults = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let mut fault = |name: &str| {
            let (path, at) = (&file.path, at + 1);
            faults.push(format!("{path}:{at}: {own} may not name {name}"));
        };
        for name in after(code, "crate::") {
            // `crate::{` hides what is named: each room has a `use` of its own.
            if name != own && !room.rooms.contains(&name) {
                fault(&format!("crate::{name}"));
            }
        }
        // Within a room `super` names its own modules; those of other rooms are few.
        for name in after(code, "super::") {
            let other = ROOMS.iter().any(|other| {
                other.folder.strip_prefix(parent) == Some(&format!("/{name}/")) && name != own
            });
            if other && !room.rooms.contains(&name) {
                fault(&format!("super::{name}"));
            }
        }
        for name in after(code, "punctual_") {
            let used = code.contains(&format!("punctual_{name}::"));
            if used && name != own_crate && !room.crates.contains(&name) {
                fault(&format!("punctual_{name}"));
            }
        }
    }
    faults
}

/// The words that follow a prefix; a `{` or `*` stands for itself.
fn after<'a>(code: &'a str, prefix: &str) -> impl Iterator<Item = &'a str> {
    code.match_indices(prefix).filter_map(move |(at, _)| {
        let begins = !code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
        let rest = &code[at + prefix.len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_');
        let end = end.unwrap_or(rest.len()).max(usize::from(!rest.is_empty()));
        (begins && rest.is_char_boundary(end)).then(|| &rest[..end])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(path: &str, text: &str) -> Vec<String> {
        let mut faults = of_rooms(&[Tracked {
            path: path.to_owned(),
            text: text.to_owned(),
        }]);
        faults.retain(|fault| !fault.ends_with("lists it"));
        faults
    }

    #[test]
    fn forbidden_names_are_found() {
        for (path, text, fault) in [
            (
                "crates/punctual/src/conduct/mod.rs",
                "fn f() { super::cli::main() }",
                "crates/punctual/src/conduct/mod.rs:1: conduct may not name super::cli",
            ),
            (
                "crates/punctual/src/conduct/run/view.rs",
                "use punctual_report::live;",
                "crates/punctual/src/conduct/run/view.rs:1: conduct may not name \
                 punctual_report",
            ),
            (
                "crates/punctual/src/launch/exec.rs",
                "\nuse punctual_report::style;",
                "crates/punctual/src/launch/exec.rs:2: launch may not name punctual_report",
            ),
            (
                "crates/punctual/src/launch/mod.rs",
                "use crate::*;",
                "crates/punctual/src/launch/mod.rs:1: launch may not name crate::*",
            ),
            (
                "crates/punctual/src/system/mod.rs",
                "use crate::{\n    conduct::Plan,\n};",
                "crates/punctual/src/system/mod.rs:1: system may not name crate::{",
            ),
            (
                "crates/trace/src/attribute/gap.rs",
                "use crate::capture::Slot;",
                "crates/trace/src/attribute/gap.rs:1: attribute may not name crate::capture",
            ),
            (
                "crates/punctual/src/attic/mod.rs",
                "",
                "crates/punctual/src/attic/mod.rs: xtask/src/direction.rs lacks this room",
            ),
        ] {
            assert_eq!(faults_of(path, text), [fault]);
        }
        let gone = of_rooms(&[]);
        assert_eq!(gone.len(), ROOMS.len(), "{gone:?}");
    }

    #[test]
    fn allowed_names_are_not() {
        for (path, text) in [
            (
                "punctual/src/cli/out.rs",
                "use punctual_report::style; use crate::conduct::Plan;",
            ),
            (
                "punctual/src/launch/mod.rs",
                "// use crate::cli;\nlet punctual_shown = 1;",
            ),
            (
                "punctual/src/launch/exec.rs",
                "use super::ring; use crate::launch::cycle;",
            ),
            ("punctual/src/main.rs", "punctual_tool::cli::main()"),
            ("trace/src/attribute/mod.rs", "mod tests { use super::*; }"),
        ] {
            assert_eq!(faults_of(&format!("crates/{path}"), text), [""; 0]);
        }
    }

    #[test]
    fn forbidden_dependencies_are_found() {
        let package = |name: &str, dependencies: &[&str]| {
            let dependencies: Vec<_> = dependencies
                .iter()
                .map(|name| serde_json::json!({ "name": name }))
                .collect();
            serde_json::json!({
                "manifest_path": format!("/src/{name}/Cargo.toml"),
                "dependencies": dependencies,
            })
        };
        let metadata = serde_json::json!({ "packages": [
            package("crates/stats", &["libc", "punctual-rt"]),
            package("crates/rt", &["libc", "punctual-stats"]),
            package("crates/report", &["punctual-record", "punctual"]),
            package("crates/new", &[]),
            package("xtask", &["serde_json"]),
        ]});
        assert_eq!(
            of_crates(&metadata),
            [
                "stats may not depend on rt",
                "report may not depend on punctual",
                "new: xtask/src/direction.rs lacks this crate",
            ]
        );
    }
}
