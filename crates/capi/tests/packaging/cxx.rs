//! punctual.hpp, by both compilers, with either library, in the standards from C++17 on.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::support::{Build, CXX17, Linked, ends, runs};

const WARNINGS: &[&str] = &["-Wshadow", "-Wconversion", "-Wnon-virtual-dtor"];

fn all() -> Vec<Build> {
    let mut all = Vec::new();
    for compiler in ["gcc", "clang"] {
        for (linked, language) in [
            (Linked::Shared, ["-xc++", "-std=c++20"]),
            (Linked::Static, CXX17),
        ] {
            all.push(Build {
                compiler,
                language,
                linked,
                more: WARNINGS,
            });
        }
    }
    all
}

#[test]
fn objects_give_back_what_they_hold() {
    for build in all() {
        let program = build.compile("tests/c/raii.cpp");
        runs(&mut Command::new(&program));
        // An exception that leaves a thread ends the program: it doesn't unwind into the library.
        let status = ends(Command::new(&program).arg("throws")).status;
        assert_eq!(status.signal(), Some(libc::SIGABRT), "{status}");
    }
    let build = Build {
        language: CXX17,
        more: &[
            "-fsanitize=address,undefined",
            "-fno-sanitize=vptr",
            "-fno-sanitize-recover=all",
            "-fsanitize-address-use-after-return=never",
        ],
        compiler: "clang",
        ..Build::PLAIN
    };
    runs(&mut Command::new(build.compile("tests/c/raii.cpp")));
}
