//! The crate as it is packaged: with what a registry wants, and it builds by itself.

use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_package_builds_by_itself() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let cargo = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .arg("package")
            .args(["--offline", "--allow-dirty", "--target-dir"])
            .arg(&target)
            .args(arguments)
            .output()
            .expect("cargo runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let list = cargo(&["--list"]);
    for file in [
        "Cargo.toml",
        "LICENSE-APACHE",
        "LICENSE-MIT",
        "README.md",
        "src/lib.rs",
    ] {
        assert!(list.lines().any(|line| line == file), "{file}: {list}");
    }
    assert!(!list.contains("tests/"), "{list}");
    // Unpacked and compiled, as cargo does before it publishes.
    cargo(&[]);
    let name = concat!("package/punctual-rt-", env!("CARGO_PKG_VERSION"), ".crate");
    let unpacked = target.join(name.trim_end_matches(".crate"));
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        let packaged = fs::read(unpacked.join(licence)).expect("a licence");
        let ours = fs::read(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../..")
                .join(licence),
        );
        assert!(packaged == ours.expect("a licence"), "{licence}");
    }
    assert!(fs::metadata(target.join(name)).is_ok_and(|file| file.len() < 1 << 20));
}
