//! The crates that other projects may use, as packages: with the metadata that a registry requires,
//! and they build without the workspace.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const CRATES: [&str; 4] = ["stats", "rt", "record", "capi"];

/// A home of cargo's with all that the real one has downloaded, and none of what `cargo package`
/// unpacks there: it would take the packages of an earlier run, by their version, for these.
fn home() -> TempDir {
    let real = std::env::var_os("CARGO_HOME").map_or_else(
        || std::env::home_dir().expect("a home").join(".cargo"),
        PathBuf::from,
    );
    let home = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    link_all(&real, home.path(), |name| name != "registry");
    let registry = |below: &str| (real.join(below), home.path().join(below));
    let (from, to) = registry("registry");
    link_all(&from, &to, |name| name != "src");
    let (from, to) = registry("registry/src");
    link_all(&from, &to, |name| !name.starts_with('-'));
    home
}

/// Links to those entries of a folder, if there is one, in another.
fn link_all(from: &Path, to: &Path, is_wanted: impl Fn(&str) -> bool) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().is_some_and(&is_wanted) {
            symlink(entry.path(), to.join(&name)).expect("a link");
        }
    }
}

#[test]
fn packages_build_by_themselves() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let home = home();
    let cargo = |packages: &[&str], more: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(&root).env("CARGO_HOME", home.path());
        command.arg("package");
        command.args(["--offline", "--allow-dirty", "--target-dir"]);
        command.arg(&target).args(more);
        for name in packages {
            command.args(["-p", &format!("punctual-{name}")]);
        }
        let output = command.output().expect("cargo runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    // Unpacked and compiled, as cargo does before it publishes, each with the others' packages.
    cargo(&CRATES, &[]);
    for name in CRATES {
        let list = cargo(&[name], &["--list"]);
        let wanted = [
            "Cargo.toml",
            "LICENSE-APACHE",
            "LICENSE-MIT",
            "README.md",
            "src/lib.rs",
        ];
        for file in wanted {
            assert!(
                list.lines().any(|line| line == file),
                "{name}: {file}: {list}"
            );
        }
        assert!(!list.contains("tests/"), "{name}: {list}");
        let version = env!("CARGO_PKG_VERSION");
        let file = target.join(format!("package/punctual-{name}-{version}.crate"));
        assert!(fs::metadata(&file).is_ok_and(|file| file.len() < 1 << 20));
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let packaged = fs::read(file.with_extension("").join(licence)).expect("a licence");
            let ours = fs::read(root.join(licence)).expect("a licence");
            assert!(packaged == ours, "{name}: {licence}");
        }
    }
}
