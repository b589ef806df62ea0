//! Compiles the programs that run in the kernel.

#![allow(clippy::print_stdout, reason = "how a build script talks to cargo")]

use std::env;
use std::path::Path;
use std::process::Command;

/// The kernel's name of the architecture that is built for: what registers are called differs.
fn architecture() -> String {
    match env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") => "x86".to_owned(),
        Ok("aarch64") => "arm64".to_owned(),
        Ok("riscv64") => "riscv".to_owned(),
        other => other.unwrap_or("x86").to_owned(),
    }
}

/// Compiles a BPF program: C to an object. It fits any kernel: the loader
/// relocates it (CO-RE).
#[allow(clippy::print_stderr, reason = "what cargo shows when a build fails")]
pub fn in_kernel(headers: &Path, source: &Path, object: &Path, defined: &[&str]) {
    println!("cargo::rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".to_owned());
    let done = Command::new(&clang)
        .args([
            "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-c",
        ])
        // The object doesn't depend on the directory that it is built in.
        .arg("-ffile-compilation-dir=.")
        .args(defined)
        .arg(format!("-D__TARGET_ARCH_{}", architecture()))
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
