//! What cargo says of the crates: `cargo metadata`, and compilers that are too new. Licences,
//! versions twice and sources are cargo-deny's: `deny.toml`.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::{root, suite};

/// What `cargo metadata` says of the workspace.
///
/// # Errors
/// cargo's words, where it can't tell them.
pub fn metadata(more: &[&str]) -> Result<Value, String> {
    let mut command = suite::cargo(&["metadata", "--locked", "--format-version", "1"]);
    let output = suite::stdout(command.args(more))?;
    serde_json::from_str(&output).map_err(|error| error.to_string())
}

/// cargo-deny on this workspace: the user's, or the one that `scripts/need test` has compiled.
///
/// # Errors
/// There is none.
pub fn deny() -> Result<Command, String> {
    let own = root().join("target/tools/bin/cargo-deny");
    let found = [PathBuf::from("cargo-deny"), own]
        .into_iter()
        .find(|program| suite::runs(Command::new(program)))
        .ok_or("no cargo-deny here (scripts/need test compiles it)")?;
    let mut command = Command::new(found);
    command.current_dir(root());
    command.args(["--locked", "--workspace", "check"]);
    command.args(["licenses", "bans", "sources"]);
    Ok(command)
}

/// Dependencies that want a newer compiler than the workspace promises, a line each.
pub fn faults() -> Vec<String> {
    metadata(&[]).map_or_else(|error| vec![error], |metadata| compilers(&metadata))
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
