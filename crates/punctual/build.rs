//! Builds the library that `punctual run` loads into programs, and the injector of the examples.
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

#[path = "../trace/build/clang.rs"]
mod clang;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder"));
    if env::var_os("CARGO_FEATURE_TRACE").is_some() {
        // What the bills are compared with (examples/truth).
        let source = Path::new("examples/truth/injector.bpf.c");
        let headers = Path::new("../trace/src/capture/bpf");
        println!("cargo::rerun-if-changed={}", source.display());
        println!("cargo::rerun-if-changed={}", headers.display());
        clang::in_kernel(headers, source, &out.join("injector.bpf.o"), &[]);
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
