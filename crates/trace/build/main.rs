//! Builds the BPF programs that trace the kernel.

#![allow(clippy::print_stdout, reason = "how a build script talks to cargo")]

use std::env;
use std::path::{Path, PathBuf};

mod clang;

use clang::in_kernel;

fn main() {
    println!("cargo::rerun-if-changed=build");
    if env::var_os("CARGO_FEATURE_KERNEL").is_none() {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder"));
    let folder = Path::new("src/capture/bpf");
    println!("cargo::rerun-if-changed={}", folder.display());
    for program in ["recorder", "wakeups", "marks", "numbers"] {
        let source = folder.join(format!("{program}.bpf.c"));
        in_kernel(folder, &source, &out.join(format!("{program}.bpf.o")), &[]);
    }
    // The depth of stacks is part of a map's type: watch/away.rs chooses an object.
    for frames in [0, 16, 64] {
        let object = out.join(format!("watch_{frames}.bpf.o"));
        let defined = format!("-DAWAY_FRAMES={frames}");
        in_kernel(folder, &folder.join("watch.bpf.c"), &object, &[&defined]);
    }
}
