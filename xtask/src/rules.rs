//! What no lint of the compiler or of clippy expresses: how long a file may be, that each crate
//! takes part in the lints, and that a safety comment names an invariant.

use crate::files::Tracked;

/// Lines of a source file.
const LONG: usize = 400;
const TOO_LONG: usize = 600;

/// A comment on `unsafe` that says these names no invariant.
const EMPTY: &[&str] = &["as above", "as below", "the caller's promise", "see above"];

/// What breaks a rule, a line each.
pub fn faults(files: &[Tracked]) -> Vec<String> {
    let mut faults = Vec::new();
    for file in files.iter().filter(|file| is_source(&file.path)) {
        let (path, lines) = (&file.path, file.text.lines().count());
        if lines > TOO_LONG {
            faults.push(format!("{path}: {lines} lines; the limit is {TOO_LONG}"));
        }
        for (at, line) in file.text.lines().enumerate() {
            let safety = line.trim_start().strip_prefix("// SAFETY: ");
            let safety = safety.unwrap_or_default().to_lowercase();
            if EMPTY.iter().any(|empty| safety.starts_with(empty)) {
                let at = at + 1;
                faults.push(format!("{path}:{at}: name the invariant of this block"));
            }
        }
    }
    for file in files.iter().filter(|file| is_manifest(&file.path)) {
        if !file.text.contains("\n[lints]\nworkspace = true\n") {
            let path = &file.path;
            faults.push(format!("{path}: add [lints] workspace = true"));
        }
    }
    faults
}

/// Files that are longer than most should be.
pub fn long(files: &[Tracked]) -> Vec<String> {
    let mut long: Vec<(usize, &str)> = files
        .iter()
        .filter(|file| is_source(&file.path))
        .map(|file| (file.text.lines().count(), file.path.as_str()))
        .filter(|(lines, _)| *lines > LONG)
        .collect();
    long.sort_unstable_by(|a, b| b.cmp(a));
    long.into_iter()
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect()
}

fn is_source(path: &str) -> bool {
    let written = [".rs", ".c", ".h", ".sh", ".md"]
        .iter()
        .any(|end| path.ends_with(end));
    // The header is generated.
    let generated = path == "crates/capi/include/punctual.h";
    (written || path.starts_with("scripts/")) && !path.contains("/data/") && !generated
}

/// Members of the workspace: `crates/NAME` and `xtask`.
fn is_manifest(path: &str) -> bool {
    let folder = path.strip_suffix("/Cargo.toml").unwrap_or_default();
    folder == "xtask"
        || folder
            .strip_prefix("crates/")
            .is_some_and(|name| !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults_of(path: &str, text: &str) -> Vec<String> {
        faults(&[Tracked::made(path, text)])
    }

    #[test]
    fn length_is_limited() {
        let code = "//\n".repeat(TOO_LONG + 1);
        assert_eq!(
            faults_of("crates/rt/tests/stack_storm.rs", &code),
            ["crates/rt/tests/stack_storm.rs: 601 lines; the limit is 600"]
        );
        assert_eq!(faults_of("crates/punctual/tests/data/a.rs", &code), [""; 0]);
    }

    #[test]
    fn a_safety_comment_names_its_invariant() {
        let code =
            "// SAFETY: the place is live.\nf();\n    // SAFETY: As above; under the lock.\n";
        assert_eq!(
            faults_of("crates/rt/src/heap.rs", code),
            ["crates/rt/src/heap.rs:3: name the invariant of this block"]
        );
    }

    #[test]
    fn every_crate_takes_part_in_the_lints() {
        let whole = "[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n";
        for path in ["crates/a/Cargo.toml", "xtask/Cargo.toml"] {
            assert_eq!(faults_of(path, whole), [""; 0]);
            let fault = format!("{path}: add [lints] workspace = true");
            assert_eq!(faults_of(path, "[package]\nname = \"a\"\n"), [fault]);
        }
        // Outside the workspace.
        assert_eq!(faults_of("fuzz/Cargo.toml", "[package]\n"), [""; 0]);
    }
}
