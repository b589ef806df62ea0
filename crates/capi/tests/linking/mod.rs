//! Linking the library: statically, next to another Rust library, with pkg-config.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::packaging::symbols;
use crate::support::{here, libraries, runs, rustc, succeeds, work};

/// A static library of another Rust project, including the standard library.
fn another_library() -> PathBuf {
    let source = work().join("other.rs");
    let text = "#[unsafe(no_mangle)]
        pub extern \"C\" fn other_sum(count: u64) -> u64 {
            let numbers: Vec<u64> = (0..count).collect();
            let caught = std::panic::catch_unwind(|| std::panic::resume_unwind(Box::new(1)));
            let sum = std::thread::spawn(move || numbers.iter().sum::<u64>());
            sum.join().unwrap_or(0) + u64::from(caught.is_err())
        }";
    fs::write(&source, text).expect("written");
    let library = work().join("libother.a");
    succeeds(
        Command::new(rustc())
            .args(["--edition", "2024", "--crate-type", "staticlib", "-O"])
            .args(["-C", "target-feature=-crt-static"])
            .arg(&source)
            .arg("-o")
            .arg(&library),
    );
    library
}

/// A program whose thread ends by `pthread_exit`, which unwinds, and which uses the other
/// library.
fn program() -> PathBuf {
    let source = work().join("both.c");
    let text = "#include <punctual.h>
        uint64_t other_sum(uint64_t count);
        static void *ends(void *argument) { pthread_exit(argument); }
        int main(void)
        {
            struct punctual_thread *thread;
            void *result;
            int word = 0;
            if (punctual_thread_create(&thread, NULL, ends, &word) != 0) return 1;
            if (punctual_thread_join(thread, &result) != 0 || result != &word) return 2;
            if (punctual_stack_alloc(7) != 0 || punctual_last_error()[0] == 0) return 3;
            return other_sum(10) == 46 ? 0 : 4;
        }";
    fs::write(&source, text).expect("written");
    source
}

#[test]
fn it_links_with_another_rust_library() {
    let (other, source) = (another_library(), program());
    let ours = libraries().join("libpunctual.a");
    let binary = work().join("both");
    for compiler in ["gcc", "clang"] {
        for how in ["-pie", "-no-pie", "-static", "-static-pie"] {
            for order in [[&ours, &other], [&other, &ours]] {
                succeeds(
                    Command::new(compiler)
                        .args(["-std=c11", "-Wall", "-Werror", "-pthread", "-fPIE", how])
                        .arg("-I")
                        .arg(here().join("include"))
                        .arg(&source)
                        .args(order)
                        .args(["-lpthread", "-lrt", "-lm", "-ldl", "-o"])
                        .arg(&binary),
                );
                runs(&mut Command::new(&binary));
            }
        }
    }
}

/// A plugin with the static library, in a program that uses the shared one.
#[test]
#[allow(clippy::print_stderr, reason = "says what was not tried")]
fn two_copies_in_one_process_are_independent() {
    let compiled = |name: &str, flags: &[&str], library: &[&str]| {
        let made = work().join(name);
        let mut compiler = Command::new("gcc");
        compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pthread"]);
        compiler
            .args(flags)
            .arg(here().join("tests/c/two_copies.c"));
        for folder in ["include", "tests/c"] {
            compiler.arg("-I").arg(here().join(folder));
        }
        let folder = libraries().display();
        compiler.arg("-o").arg(&made).arg(format!("-L{folder}"));
        compiler.arg(format!("-Wl,-rpath,{folder}")).args(library);
        succeeds(&mut compiler);
        made
    };
    // As documented: the symbols of the library hidden, and never unloaded.
    let inside = [
        "-l:libpunctual.a",
        "-Wl,--exclude-libs,ALL",
        "-Wl,-z,nodelete",
        "-lm",
    ];
    let plugin = compiled("plugin.so", &["-shared", "-fPIC"], &inside);
    let host = compiled("plugin-host", &["-DHOST"], &["-lpunctual", "-ldl"]);
    let output = runs(Command::new(host).arg(plugin));
    for line in String::from_utf8_lossy(&output.stderr).lines() {
        crate::unsaid(line).report();
    }
}

/// The static library exports the same symbols as the shared one.
#[test]
fn the_shared_and_the_static_library_define_the_same_symbols() {
    let names = |library, how: &[&str]| -> Vec<String> {
        let symbols = symbols(library, how);
        symbols.into_iter().map(|(name, _)| name).collect()
    };
    let shared = names("libpunctual.so", &["-D"]);
    assert!(shared.contains(&"stack_alloc".to_owned()));
    assert_eq!(names("libpunctual.a", &[]), shared);
}

/// The files in pkg-config's output exist, also in a build without a shared library.
#[test]
fn pkg_config_names_existing_files() {
    let prefix = work().join("installed");
    let folder = prefix.join("lib/pkgconfig");
    fs::create_dir_all(&folder).expect("a folder");
    fs::create_dir_all(prefix.join("include")).expect("a folder");
    fs::copy(
        here().join("include/punctual.h"),
        prefix.join("include/punctual.h"),
    )
    .expect("copied");
    for name in ["libpunctual.a", "libpunctual.so"] {
        fs::copy(libraries().join(name), prefix.join("lib").join(name)).expect("copied");
    }
    let text = fs::read_to_string(here().join("punctual.pc.in")).expect("the file");
    let text = text
        .replace("@PREFIX@", prefix.to_str().expect("a path"))
        .replace("@LIBDIR@", prefix.join("lib").to_str().expect("a path"))
        .replace("@VERSION@", "0");
    fs::write(folder.join("punctual.pc"), text).expect("written");
    let flags = |more: &[&str]| -> Vec<String> {
        let output = Command::new("pkg-config")
            .env("PKG_CONFIG_PATH", &folder)
            .args(["--cflags", "--libs", "punctual"])
            .args(more)
            .output();
        let output = output.expect("pkg-config runs");
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let source = work().join("one.c");
    let text = "#include <punctual.h>
        int main(void) { return punctual_stack_class(1) == 32768 ? 0 : 1; }";
    fs::write(&source, text).expect("written");
    let binary = work().join("one");
    for compiler in ["gcc", "clang"] {
        succeeds(
            Command::new(compiler)
                .args(["-static", "-pthread"])
                .arg(&source)
                .args(flags(&["--static"]))
                .arg("-o")
                .arg(&binary),
        );
        runs(&mut Command::new(&binary));
        succeeds(
            Command::new(compiler)
                .arg(&source)
                .args(flags(&[]))
                .arg("-o")
                .arg(&binary),
        );
        // By its soname.
        let library = prefix.join("lib");
        fs::copy(
            library.join("libpunctual.so"),
            library.join("libpunctual.so.0"),
        )
        .expect("copied");
        runs(Command::new(&binary).env("LD_LIBRARY_PATH", &library));
    }
}
