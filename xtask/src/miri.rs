//! Miri over what is unsafe and makes no system call: rings, stack headers, magazines, depot.
//!
//! It comes with nightly toolchains alone, so most machines have none. The rest of the unsafe
//! code talks to the kernel or to pthread, which Miri can't follow.

use std::process::Command;

use crate::{root, suite};

/// The tests that it can run, by the beginnings of their names.
const PURE: &[&str] = &[
    "ring::",
    "records::",
    "stack::word::",
    "stack::header::",
    "stack::magazine::",
];

/// The command that runs them, or why there is none.
pub fn command() -> Result<Command, String> {
    let found = [own as fn() -> Command, nightly]
        .into_iter()
        .find(|miri| suite::runs(miri()))
        .ok_or("no toolchain has it (rustup +nightly component add miri rust-src)")?;
    // Builds its own standard library the first time, for which it wants the sources.
    let mut setup = found();
    let output = setup.arg("setup").output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.trim().lines().last().unwrap_or_default();
        return Err(format!("cargo miri setup: {last}"));
    }
    let mut command = found();
    command
        .args(["test", "--quiet", "--locked", "--package", "punctual-rt"])
        .args(["--lib", "--target-dir"])
        .arg(root().join("target/miri"))
        .arg("--")
        .args(PURE)
        // Headers live for ever, in tests too.
        .env("MIRIFLAGS", "-Zmiri-strict-provenance -Zmiri-ignore-leaks");
    Ok(command)
}

/// That of the toolchain that runs us.
fn own() -> Command {
    suite::cargo(&["miri"])
}

/// That of rustup's nightly toolchain.
fn nightly() -> Command {
    let mut command = suite::cargo_of("nightly");
    command.arg("miri");
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::tracked;

    /// A name that is misspelt would run no test and say nothing.
    #[test]
    fn each_beginning_is_that_of_a_module_with_tests() {
        let files = tracked(root());
        for name in PURE {
            let path = format!(
                "crates/rt/src/{}.rs",
                name.trim_end_matches("::").replace("::", "/")
            );
            let file = files.iter().find(|file| file.path == path);
            assert!(
                file.is_some_and(|file| file.text.contains("#[cfg(test)]")),
                "{path}"
            );
        }
    }
}
