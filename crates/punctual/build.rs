//! Builds what the tool carries: the library that `punctual run` loads into programs, the
//! programs that the kernel runs while it is traced, and the plugin that watches the laboratory's
//! guests.
//!
//! The tool is linked statically and the library can't be: it is a build of its own with its
//! own flags, in a folder of its own beside the other's.

#![allow(
    clippy::print_stderr,
    reason = "it talks to whoever builds, through cargo"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder"));
    observer(&out.join("observer.so"));
    if env::var_os("CARGO_FEATURE_TRACE").is_some() {
        let folder = Path::new("src/trace/capture/bpf");
        println!("cargo::rerun-if-changed={}", folder.display());
        for program in ["recorder", "wakeups", "marks", "numbers"] {
            let source = folder.join(format!("{program}.bpf.c"));
            in_kernel(folder, &source, &out.join(format!("{program}.bpf.o")), &[]);
        }
        // The depth of stacks is a part of a map's type: trace/watch/away.rs chooses.
        for frames in [0, 16, 64] {
            let object = out.join(format!("watch_{frames}.bpf.o"));
            let defined = format!("-DAWAY_FRAMES={frames}");
            in_kernel(folder, &folder.join("watch.bpf.c"), &object, &[&defined]);
        }
        // What tests hold the bills against. A copy of the sources may come without it.
        let injector = Path::new("examples/truth/injector.bpf.c");
        if injector.exists() {
            println!("cargo::rerun-if-changed={}", injector.display());
            in_kernel(folder, injector, &out.join("injector.bpf.o"), &[]);
        }
    }
    let embedded = out.join("preload.so");
    // Other C libraries have other pthread functions; a copy of this crate alone lacks the
    // library. `run` says so then.
    let gnu = env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|name| name == "gnu");
    let source = Path::new("../preload");
    if gnu && source.join("Cargo.toml").exists() {
        for input in ["../preload", "../rt/src", "../rt/Cargo.toml"] {
            println!("cargo::rerun-if-changed={input}");
        }
        build(source, &out, &embedded);
    } else {
        fs::write(&embedded, []).expect("the folder can be written");
    }
}

/// The plugin, by the C compiler that links the tool too. It runs on the machine that the tool runs
/// on: built for another one the tool carries none, and says so.
fn observer(embedded: &Path) {
    const SOURCE: &str = "plugin/observer.c";
    println!("cargo::rerun-if-changed=plugin");
    println!("cargo::rerun-if-env-changed=CC");
    if env::var_os("HOST") != env::var_os("TARGET") {
        fs::write(embedded, []).expect("the folder can be written");
        return;
    }
    let compiler = env::var_os("CC").unwrap_or("cc".into());
    let done = Command::new(&compiler)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-s"])
        .args(["-shared", "-fPIC", "-fvisibility=hidden", "-o"])
        .arg(embedded)
        .arg(SOURCE)
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "the C compiler {} can't be run: {error}",
                compiler.display()
            )
        });
    assert!(
        done.status.success(),
        "{SOURCE} can't be built:\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

/// Compiles what runs in the kernel: C to an object. It fits any kernel: the loader
/// adapts it.
#[allow(clippy::print_stderr, reason = "what cargo shows when a build fails")]
fn in_kernel(headers: &Path, source: &Path, object: &Path, defined: &[&str]) {
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let done = Command::new(&clang)
        .args([
            "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c",
        ])
        // What is built is the same wherever it is built.
        .arg("-ffile-compilation-dir=.")
        .args(defined)
        .arg("-I")
        .arg(headers)
        .arg(source)
        .arg("-o")
        .arg(object)
        .output();
    let why = match done {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => format!("{clang}: {error}"),
    };
    eprintln!(
        "{why}\nThe kernel's side of tracing can't be built. It takes clang 14 or newer: install \
         it (apt-get install clang), name it in CLANG, or build without tracing: \
         cargo build --release -p punctual --no-default-features"
    );
    std::process::exit(1);
}

fn build(source: &Path, out: &Path, embedded: &Path) {
    let triple = env::var("TARGET").expect("cargo names the target");
    // target/TRIPLE/PROFILE/build/CRATE/out: one folder for all profiles.
    let target = out.ancestors().nth(4).unwrap_or(out).join("preload");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo
        .current_dir(source)
        // What is needed was fetched for the tool already.
        .args(["build", "--quiet", "--release", "--locked", "--offline"])
        .args(["--package", "punctual-preload", "--target", &triple])
        .arg("--target-dir")
        .arg(&target)
        .env(
            "RUSTFLAGS",
            "-C target-feature=-crt-static -C strip=symbols",
        );
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        // What the outer cargo tells of the tool's build, and clippy in the compiler's place.
        let foreign = ["CARGO_FEATURE_", "CARGO_CFG_", "CARGO_PROFILE_"];
        if foreign.iter().any(|prefix| text.starts_with(prefix))
            || matches!(
                &*text,
                "CARGO_ENCODED_RUSTFLAGS"
                    | "CARGO_BUILD_RUSTFLAGS"
                    | "CARGO_BUILD_TARGET"
                    | "CARGO_MAKEFLAGS"
                    | "MAKEFLAGS"
                    | "RUSTC_WORKSPACE_WRAPPER"
                    | "TARGET"
                    | "HOST"
            )
        {
            cargo.env_remove(&name);
        }
    }
    let done = cargo.output().expect("cargo runs");
    assert!(
        done.status.success(),
        "the library of `punctual run` can't be built:\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let built = target.join(&triple).join("release/libpunctual_preload.so");
    fs::copy(built, embedded).expect("the library was built");
}
