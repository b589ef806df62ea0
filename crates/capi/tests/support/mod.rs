//! Builds the library as its users get it, and C programs with it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The folder of this crate.
pub fn here() -> &'static Path {
    // Also for the tests of the tool, which put these programs under its load.
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../capi"))
}

/// Where the libraries are, built once, as scripts/library installs them.
///
/// The workspace links the C library statically, which a shared library can't; so this is a
/// build of its own, in a folder of its own beside the other's.
pub fn libraries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let target = work().join("library");
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .current_dir(here())
            .env("RUSTFLAGS", "-C target-feature=-crt-static")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .args([
                "build",
                "--quiet",
                "--release",
                "--package",
                "punctual-capi",
            ])
            .args(["--target", &triple])
            .arg("--target-dir")
            .arg(&target);
        succeeds(&mut cargo);
        let built = target.join(triple).join("release");
        let folder = work().join("libraries");
        std::fs::create_dir_all(&folder).expect("a folder for the libraries");
        succeeds(
            Command::new(here().join("../../scripts/link-library"))
                .arg(built.join("libpunctual.a"))
                .arg(&folder),
        );
        // Programs are linked to libpunctual.so and look for what it calls itself.
        let soname = folder.join("libpunctual.so.0");
        if !soname.exists() {
            symlink("libpunctual.so", soname).expect("a link to the library");
        }
        folder
    })
}

/// A folder for what the tests make.
pub fn work() -> PathBuf {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
    std::fs::create_dir_all(&work).expect("a folder for the tests");
    work
}

/// Runs a command that must succeed.
#[track_caller]
pub fn succeeds(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// How a program is compiled.
#[derive(Clone, Copy)]
pub struct Build {
    pub compiler: &'static str,
    /// The language and its standard.
    pub language: [&'static str; 2],
    pub linked: Linked,
    /// More flags, e.g. a sanitizer.
    pub more: &'static [&'static str],
}

/// Which of the two libraries a program uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linked {
    Shared,
    Static,
}

pub const C11: [&str; 2] = ["-xc", "-std=c11"];
pub const CXX17: [&str; 2] = ["-xc++", "-std=c++17"];

impl Build {
    pub const PLAIN: Self = Self {
        compiler: "gcc",
        language: C11,
        linked: Linked::Shared,
        more: &[],
    };

    /// Every compiler and language with either library.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for compiler in ["gcc", "clang"] {
            for language in [C11, CXX17] {
                for linked in [Linked::Shared, Linked::Static] {
                    all.push(Self {
                        compiler,
                        language,
                        linked,
                        more: &[],
                    });
                }
            }
        }
        all
    }

    /// Compiles one source file of this crate without a warning and returns the program.
    pub fn compile(self, source: &str) -> PathBuf {
        let stem = Path::new(source)
            .file_stem()
            .expect("a name")
            .to_string_lossy();
        let standard = self.language[1].trim_start_matches("-std=");
        let more: String = self.more.concat().replace(['=', '-', ','], "_");
        let name = format!(
            "{stem}-{}-{standard}-{:?}{more}",
            self.compiler, self.linked
        );
        let program = work().join(name);
        let library = libraries();
        let mut command = Command::new(self.compiler);
        command
            .args([
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
                "-O1",
                "-g",
                "-pthread",
            ])
            .args(self.more)
            .args(self.language)
            .arg(here().join(source))
            .arg("-I")
            .arg(here().join("include"))
            .arg("-I")
            .arg(here().join("tests/c"))
            .args(["-xnone", "-o"])
            .arg(&program);
        match self.linked {
            Linked::Shared => command
                .arg("-L")
                .arg(library)
                .arg("-lpunctual")
                .arg(format!("-Wl,-rpath,{}", library.display())),
            Linked::Static => command.arg(library.join("libpunctual.a")).args([
                "-lpthread",
                "-lrt",
                "-lm",
                "-ldl",
            ]),
        };
        if self.language[0] == CXX17[0] {
            command.arg("-lstdc++");
        }
        succeeds(&mut command);
        program
    }
}
