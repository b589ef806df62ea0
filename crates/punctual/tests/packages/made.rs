//! What is packaged, and the scripts that package it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use punctual_tool::launch::Library;

use crate::common::needs::{self, Absent};
use crate::common::{has, program};
use crate::support::{libraries, succeeds, work};

/// The root of the sources.
pub fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.canonicalize().expect("the sources")
}

/// A file of a folder, or of one below, whose name begins and ends so.
pub fn only(folder: &Path, begin: &str, end: &str) -> PathBuf {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let mut found = entries.map(|entry| entry.path()).filter(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(begin) && name.ends_with(end))
    });
    let first = found.next();
    assert!(found.next().is_none(), "several {begin}*{end}");
    first.unwrap_or_else(|| panic!("no {begin}*{end} in {}", folder.display()))
}

/// What the program is built from, as make would leave it in the target directory: this program, which is
/// not optimised, without what debuggers read.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let built = work().join("packaged");
        let _ = fs::remove_dir_all(&built);
        fs::create_dir_all(built.join("library")).expect("a folder");
        let tool = built.join("punctual");
        if has("strip") {
            succeeds(Command::new("strip").arg("-o").arg(&tool).arg(program()));
        } else {
            fs::copy(program(), &tool).expect("copied");
        }
        for name in ["libpunctual.so", "libpunctual.a"] {
            let (from, to) = (libraries().join(name), built.join("library").join(name));
            fs::copy(from, to).expect("copied");
        }
        let preload = built.join("library/libpunctual_preload.so");
        fs::write(preload, Library::embedded()).expect("written");
        succeeds(Command::new(root().join("scripts/generate")).env("CARGO_TARGET_DIR", &built));
        let copyright = succeeds(
            Command::new(env!("CARGO"))
                .current_dir(root())
                .args(["run", "--quiet", "--locked", "--package", "xtask"])
                .args(["--", "copyright"]),
        );
        fs::write(built.join("copyright"), copyright.stdout).expect("written");
        succeeds(
            Command::new(env!("CARGO"))
                .current_dir(root())
                .args([
                    "run",
                    "--quiet",
                    "--locked",
                    "--package",
                    "punctual-taskset",
                ])
                .args(["--features", "schema", "--bin", "schemas", "--"])
                .arg(built.join("schema")),
        );
        built
    })
}

/// Runs a script in a target directory of its own with what is built, and returns that directory.
pub fn by(script: &str, name: &str, more: &[(&str, &Path)]) -> PathBuf {
    let folder = work().join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder");
    for part in ["punctual", "library", "man", "completions", "schema"] {
        symlink(built().join(part), folder.join(part)).expect("a link");
    }
    succeeds(
        Command::new(root().join("scripts").join(script))
            .env("CARGO_TARGET_DIR", &folder)
            .env("COPYRIGHT", built().join("copyright"))
            // The usual one takes a minute.
            .env("DEB_COMPRESSION", "gzip 1")
            .env_remove("ARCH")
            .env_remove("SOURCE_DATE_EPOCH")
            .env_remove("DEB_MAINTAINER")
            .env_remove("DEB_UNITS")
            .envs(more.iter().copied()),
    );
    folder
}

/// Packages are made by dpkg, of Debian and Ubuntu.
pub fn dpkg() -> Result<(), Absent> {
    needs::program("dpkg-deb").map(drop)
}

/// The packages.
pub fn packages() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| by("deb", "debs", &[]))
}

/// The packages with two units of systemd.
pub fn with_units() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let folder = work().join("units");
        fs::create_dir_all(&folder).expect("a folder");
        let unit = "[Service]\nExecStart=/usr/bin/punctual watch\n\n\
            [Install]\nWantedBy=multi-user.target\n";
        for name in ["punctual-a.service", "punctual-b@.service"] {
            fs::write(folder.join(name), unit).expect("written");
        }
        fs::write(folder.join("punctual.md"), "none").expect("written");
        by("deb", "debs with units", &[("DEB_UNITS", &folder)])
    })
}

/// The image.
pub fn image() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| only(&by("image", "image", &[]), "punctual-", ".oci.tar"))
}
