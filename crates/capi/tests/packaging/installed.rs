//! The files of `make install`, and builds with them: CMake, Meson, pkg-config, man.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::declared;
use crate::needs::Absent;
use crate::support::{here, libraries, succeeds, work};

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn script(what: &str, destination: &Path, prefix: &str, libdir: &str) {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let built = BUILT.get_or_init(|| {
        let built = work().join("to install");
        fs::create_dir_all(built.join("library")).expect("a folder");
        for name in ["libpunctual.so", "libpunctual.a"] {
            let (from, to) = (libraries().join(name), built.join("library").join(name));
            fs::copy(from, to).expect("copied");
        }
        built
    });
    succeeds(
        Command::new(here().join("../../scripts/install"))
            .env("CARGO_TARGET_DIR", built)
            .arg(what)
            .arg(destination)
            .args([prefix, libdir]),
    );
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(files_below(&path));
        } else {
            found.push(path);
        }
    }
    found
}

fn there_is(program: &str, package: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    if !there {
        Absent::program(format!("{program} (package {package})")).report();
    }
    there
}

/// Installs like a package: below DESTDIR, with the distribution's library folder.
fn package(name: &str) -> PathBuf {
    let folder = work().join(name);
    let _ = fs::remove_dir_all(&folder);
    script("install-library", &folder, "/usr", "lib/x86_64-linux-gnu");
    folder
}

#[test]
fn a_package_has_its_files_in_the_standard_folders() {
    // A space in a path doesn't split a list.
    let folder = package("a package");
    let usr = folder.join("usr");
    let library = usr.join("lib/x86_64-linux-gnu");
    for name in [
        "include/punctual.h",
        "include/punctual.hpp",
        "share/punctual/gdb/punctual-stacks.py",
    ] {
        assert!(usr.join(name).is_file(), "{name}");
    }
    let file = format!("libpunctual.so.{VERSION}");
    for link in ["libpunctual.so", "libpunctual.so.0"] {
        let target = fs::read_link(library.join(link)).expect("a link");
        assert_eq!(target, Path::new(&file));
    }
    assert!(library.join("libpunctual.a").is_file() && library.join(file).is_file());
    let text = fs::read_to_string(library.join("pkgconfig/punctual.pc")).expect("punctual.pc");
    assert!(
        text.contains("libdir=/usr/lib/x86_64-linux-gnu\n"),
        "{text}"
    );
    assert!(!text.contains('@') && !text.contains("a package"), "{text}");

    let pages = files_below(&usr.join("share/man/man3"));
    let mut names: Vec<String> = pages
        .iter()
        .filter_map(|page| Some(page.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    assert_eq!(names, declared());

    script("uninstall", &folder, "/usr", "lib/x86_64-linux-gnu");
    assert_eq!(files_below(&folder), Vec::<PathBuf>::new());
}

#[test]
fn every_man_page_has_its_sections() {
    let folder = package("with pages");
    let roff = there_is("groff", "groff-base");
    let pages = files_below(&folder.join("usr/share/man/man3"));
    assert!(pages.len() > 50, "{pages:?}");
    for page in pages {
        let text = fs::read_to_string(&page).expect("a page");
        let name = page
            .file_stem()
            .and_then(|name| name.to_str())
            .expect("a name");
        for wanted in [
            format!("\n{name} \\- "),
            ".SH SYNOPSIS\n".to_owned(),
            format!("{name}("),
            ".SH DESCRIPTION\n".to_owned(),
            "real\\-time thread".to_owned(),
        ] {
            let setup = wanted.starts_with("real") && text.contains("For setting up");
            assert!(setup || text.contains(&wanted), "{name}: {wanted}: {text}");
        }
        if roff {
            let mut groff = Command::new("groff");
            let output = succeeds(groff.args(["-man", "-Tutf8", "-ww"]).arg(&page));
            assert!(output.stderr.is_empty(), "{name}: {output:?}");
        }
    }
}

/// Runs a program by its own name for zero cycles: 77 means "not permitted here".
fn runs(program: &Path, library: &Path) {
    let mut command = Command::new(program);
    command.arg("0").env("LD_LIBRARY_PATH", library);
    let output = command.output().expect("the program runs");
    assert!(matches!(output.status.code(), Some(0 | 77)), "{output:?}");
}

#[test]
fn cmake_finds_the_package() {
    if !there_is("cmake", "cmake") {
        return;
    }
    let folder = package("for-cmake");
    let library = folder.join("usr/lib/x86_64-linux-gnu");
    for (c, cxx) in [("gcc", "g++"), ("clang", "clang++")] {
        let build = folder.join(format!("build-{c}"));
        let configure = |version: &str| {
            // From the folder where it was unpacked, not from its configured prefix.
            let list = here().join("examples/cmake/CMakeLists.txt");
            let text = fs::read_to_string(list).expect("the example");
            let source = folder.join("examples/project");
            fs::create_dir_all(&source).expect("a folder");
            for name in ["control_loop.c", "control_loop.cpp"] {
                let from = here().join("examples").join(name);
                fs::copy(from, folder.join("examples").join(name)).expect("copied");
            }
            let text = text.replace("punctual 0.1 ", &format!("punctual {version} "));
            fs::write(source.join("CMakeLists.txt"), text).expect("written");
            let _ = fs::remove_dir_all(&build);
            let mut cmake = Command::new("cmake");
            cmake
                .arg("-S")
                .arg(&source)
                .arg("-B")
                .arg(&build)
                .arg(format!(
                    "-DCMAKE_PREFIX_PATH={}",
                    folder.join("usr").display()
                ))
                .arg("-DCMAKE_LIBRARY_ARCHITECTURE=x86_64-linux-gnu")
                .arg(format!("-DCMAKE_C_COMPILER={c}"))
                .arg(format!("-DCMAKE_CXX_COMPILER={cxx}"));
            cmake.output().expect("cmake runs")
        };
        if c == "gcc" {
            for version in ["0.2", "1.0", "0.1.1"] {
                assert!(!configure(version).status.success(), "{version}");
            }
        }
        let output = configure("0.1");
        assert!(output.status.success(), "{output:?}");
        succeeds(Command::new("cmake").arg("--build").arg(&build));
        for program in ["in_c", "in_cpp", "in_c_static"] {
            runs(&build.join(program), &library);
        }
    }
}

#[test]
fn meson_finds_the_package() {
    if !there_is("meson", "meson") || !there_is("ninja", "ninja-build") {
        return;
    }
    let folder = work().join("for-meson");
    let _ = fs::remove_dir_all(&folder);
    // PREFIX is the real folder; with a DESTDIR, because without one the loader's cache is
    // rebuilt.
    let prefix = folder.join("prefix");
    script(
        "install-library",
        Path::new("/"),
        prefix.to_str().expect("a path"),
        "lib64",
    );
    let library = prefix.join("lib64");
    // The file as it is in the examples.
    let source = here().join("examples/meson");
    for (c, cxx) in [("gcc", "g++"), ("clang", "clang++")] {
        let build = folder.join(format!("build-{c}"));
        succeeds(
            Command::new("meson")
                .env("PKG_CONFIG_PATH", library.join("pkgconfig"))
                .env("CC", c)
                .env("CXX", cxx)
                .args(["setup", "--werror"])
                .arg(&build)
                .arg(&source),
        );
        succeeds(Command::new("meson").args(["compile", "-C"]).arg(&build));
        for program in ["in_c", "in_cpp"] {
            runs(&build.join(program), &library);
        }
    }
}
