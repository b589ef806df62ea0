//! What packagers of the library, and users of the package, rely on.

mod abi;
mod cxx;
mod installed;

use std::fs;
use std::process::Command;

use crate::support::{Build, CXX17, Linked, here, libraries, runs, succeeds};

const C89: [&str; 2] = ["-xc", "-std=c89"];

/// Compiled as C89 without a warning, and as C++; with Solaris' names, and without.
#[test]
fn the_header_defines_few_names_and_the_original_ones_are_optional() {
    for compiler in ["gcc", "clang"] {
        for linked in [Linked::Shared, Linked::Static] {
            for language in [C89, CXX17] {
                for more in [&["-pedantic-errors"][..], &["-DWITHOUT_NAMES"]] {
                    let build = Build {
                        compiler,
                        language,
                        linked,
                        more,
                    };
                    runs(&mut Command::new(build.compile("tests/c/names.c")));
                }
            }
        }
    }
}

/// The symbols of a library: name and version; the static one has no versions.
pub fn symbols(library: &str, how: &[&str]) -> Vec<(String, String)> {
    let mut nm = Command::new("nm");
    nm.args(["--defined-only", "--extern-only"]).args(how);
    let output = succeeds(nm.arg(libraries().join(library)));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = text
        .lines()
        .filter(|line| !line.contains(" A "))
        .filter_map(|line| line.split_whitespace().nth(2));
    let mut found: Vec<(String, String)> = lines
        .map(|symbol| symbol.split_once('@').unwrap_or((symbol, "")))
        .map(|(name, version)| (name.to_owned(), version.trim_matches('@').to_owned()))
        .collect();
    found.sort();
    found
}

#[test]
fn every_symbol_has_a_version() {
    let exported = symbols("libpunctual.so", &["-D"]);
    assert!(exported.len() > 60);
    for (name, version) in exported {
        assert_eq!(version, "PUNCTUAL_1", "{name}");
    }
    // A program contains the version that it was linked with.
    let program = Build::PLAIN.compile("tests/c/names.c");
    let output = succeeds(Command::new("nm").arg("-D").arg(program));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("stack_alloc@PUNCTUAL_1"), "{text}");
}

/// The loader finds the version of the interface, and keeps the library loaded when it is closed.
#[test]
fn the_shared_library_has_its_soname_and_stays_loaded() {
    let library = libraries().join("libpunctual.so");
    let output = succeeds(Command::new("readelf").args(["-dW"]).arg(library));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    for wanted in ["[libpunctual.so.0]", "NODELETE", "NOW"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text.contains("TEXTREL"), "{text}");
}

/// The version of the header equals cargo's, which `make install` uses for the library's name.
#[test]
fn the_header_has_the_version_of_the_package() {
    let header = fs::read_to_string(here().join("include/punctual.h")).expect("the header");
    for (part, version) in [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        let line = format!("#define PUNCTUAL_VERSION_{part} {version}\n");
        assert!(header.contains(&line), "{line}");
    }
}
