//! The crates that others may use, as they are packaged: with what a registry wants, and they build
//! by themselves.

use std::fs;
use std::path::Path;
use std::process::Command;

const CRATES: [&str; 4] = ["stats", "rt", "record", "capi"];

#[test]
fn packages_build_by_themselves() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("package");
    let cargo = |packages: &[&str], more: &[&str]| {
        let mut command = Command::new(env!("CARGO"));
        command.current_dir(&root).arg("package");
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
    // Unpacked and compiled, as cargo does before it publishes, each from the others' packages.
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
