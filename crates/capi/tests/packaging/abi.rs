//! The binary interface equals the committed snapshot.

use std::fs;
use std::process::Command;

use crate::needs::{self, Absent, need, skip};
use crate::support::{here, libraries, succeeds, work};

/// A shared library with the types of the header, which are missing from the real one once it is
/// stripped: each function with its name and type, and an empty body.
fn stub(header: &str) -> String {
    let mut made = String::from("#include <punctual.h>\n");
    let mut declaration = String::new();
    let code = header
        .split_once("extern \"C\" {\n#endif")
        .expect("the C++ part")
        .1;
    let mut in_comment = false;
    for line in code.lines() {
        in_comment |= line.starts_with("/*");
        let skipped = in_comment || line.starts_with('#') || line.starts_with('}');
        in_comment &= !line.ends_with("*/");
        if skipped || line.is_empty() {
            continue;
        }
        declaration += line.trim();
        declaration.push(' ');
        if let Some(function) = declaration.trim_end().strip_suffix(';') {
            made += &format!("{function} {{ __builtin_trap(); }}\n");
            declaration.clear();
        }
    }
    made
}

/// Compares two versions of the interface with abidiff: its output, and whether they are equal.
fn compare(old: &std::path::Path, new: &std::path::Path) -> (bool, String) {
    let output = Command::new("abidiff").arg(old).arg(new).output();
    let output = output.expect("abidiff runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success(), text)
}

#[test]
fn the_binary_interface_equals_the_committed_snapshot() {
    need!(needs::program("abidiff"));
    if std::env::consts::ARCH != "x86_64" {
        skip!(Absent::hardware("x86-64, of which the snapshot is"));
    }
    let header = fs::read_to_string(here().join("include/punctual.h")).expect("the header");
    let build = |name: &str, header: &str| {
        let folder = work().join("abi").join(name);
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join("punctual.h"), header).expect("written");
        fs::write(folder.join("stub.c"), stub(header)).expect("written");
        let library = folder.join("libpunctual.so.0");
        succeeds(
            Command::new("gcc")
                .current_dir(&folder)
                .args(["-std=c11", "-g", "-O0", "-fPIC", "-shared", "-I.", "stub.c"])
                .args(["-Wno-unused-parameter", "-Wl,-soname,libpunctual.so.0"])
                .arg(format!(
                    "-Wl,--no-undefined-version,--version-script={}",
                    here().join("punctual.map").display()
                ))
                .arg("-o")
                .arg(&library),
        );
        let dump = folder.join("punctual.abi");
        succeeds(
            Command::new("abidw")
                .current_dir(&folder)
                .args(["--no-corpus-path", "--no-comp-dir-path", "--no-show-locs"])
                .arg("--out-file")
                .arg(&dump)
                .arg("libpunctual.so.0"),
        );
        dump
    };
    let now = build("now", &header);
    let snapshot = here().join("tests/punctual.abi");
    if std::env::var_os("PUNCTUAL_WRITE_ABI").is_some() {
        fs::copy(&now, &snapshot).expect("the snapshot is written");
    }
    let (same, text) = compare(&snapshot, &now);
    assert!(
        same,
        "{text}\nWhat is added gets a new version in punctual.map once there is a release; what is \
         changed or gone, a new soname. Write the snapshot anew with PUNCTUAL_WRITE_ABI=1 cargo \
         test -p punctual-capi --test c -- interface_of_binaries"
    );
    // The snapshot contains each symbol that the library exports.
    let known = fs::read_to_string(&snapshot).expect("the snapshot");
    let exported = crate::packaging::symbols("libpunctual.so", &["-D"]);
    assert!(libraries().is_dir() && !exported.is_empty());
    for (name, _) in exported {
        assert!(known.contains(&format!("'{name}'")), "{name}");
    }

    // Incompatible changes are detected: a field of another type, an additional parameter.
    for (good, bad) in [
        ("    uint64_t stolen;", "    uint32_t stolen;"),
        ("    void *high;", "    void *high, *more;"),
        (
            "int punctual_stack_reserve(size_t size,",
            "int punctual_stack_reserve(size_t size, int more,",
        ),
        ("void *punctual_stack_alloc(", "int punctual_stack_alloc("),
    ] {
        assert!(header.contains(good), "{good}");
        let (same, _) = compare(&snapshot, &build("changed", &header.replace(good, bad)));
        assert!(!same, "{bad}");
    }
}
