//! Builds the plugin that watches the laboratory's guests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const SOURCE: &str = "plugin/observer.c";

/// The plugin, by the C compiler that links the tool too. It runs on the machine that the tool runs
/// on: built for another one the tool carries none, and says so.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=plugin");
    println!("cargo::rerun-if-env-changed=CC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder"));
    let embedded = out.join("observer.so");
    if env::var_os("HOST") == env::var_os("TARGET") {
        build(&embedded);
    } else {
        fs::write(embedded, []).expect("the folder can be written");
    }
}

fn build(embedded: &Path) {
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
