//! punctual.hpp, by both compilers, with either library, in the standards from C++17 on.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use crate::support::{self, Build, CXX17, Linked, ends, runs};

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

/// One line that says why, before the lines of what the compiler makes of the rest.
#[test]
fn what_the_classes_can_not_do_without_is_said_first() {
    let text = "#include <punctual.hpp>\nint main() { return 0; }\n";
    let source = support::work().join("without.cpp");
    fs::write(&source, text).expect("written");
    for compiler in ["g++", "clang++"] {
        for (flag, compiles) in [
            ("-std=c++17", true),
            ("-std=c++20", true),
            ("-fno-rtti", true),
            ("-fno-exceptions", false),
            ("-std=c++14", false),
        ] {
            let mut command = Command::new(compiler);
            command.args(["-std=c++17", flag, "-fsyntax-only", "-I"]);
            let output = ends(command.arg(support::here().join("include")).arg(&source));
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(
                output.status.success(),
                compiles,
                "{compiler} {flag}: {said}"
            );
            let first = said.lines().find(|line| line.contains("error:"));
            let names = first.is_some_and(|line| line.contains("C++17 and exceptions"));
            assert_eq!(names, !compiles, "{compiler} {flag}: {said}");
        }
    }
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
