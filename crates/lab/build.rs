//! Builds the plugins that watch the laboratory's guests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const PLUGINS: [&str; 2] = ["observer", "windows"];

/// The plugins, by the C compiler that links the tool too. They run on the machine that the tool runs
/// on: built for another one the tool carries none, and says so.
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=plugin");
    println!("cargo::rerun-if-env-changed=CC");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo names a folder"));
    for plugin in PLUGINS {
        let embedded = out.join(plugin).with_extension("so");
        if env::var_os("HOST") == env::var_os("TARGET") {
            build(&format!("plugin/{plugin}.c"), &embedded);
        } else {
            fs::write(embedded, []).expect("the folder can be written");
        }
    }
}

fn build(source: &str, embedded: &Path) {
    let compiler = env::var_os("CC").unwrap_or("cc".into());
    let done = Command::new(&compiler)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-s"])
        .args(["-shared", "-fPIC", "-fvisibility=hidden", "-o"])
        .arg(embedded)
        .arg(source)
        .output()
        .unwrap_or_else(|error| {
            panic!(
                "the C compiler {} can't be run: {error}",
                compiler.display()
            )
        });
    assert!(
        done.status.success(),
        "{source} can't be built:\n{}",
        String::from_utf8_lossy(&done.stderr)
    );
}
