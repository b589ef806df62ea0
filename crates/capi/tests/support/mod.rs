//! Builds the library as its users get it, and C programs that use it.

use std::io::Read;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// The folder of the crate.
pub fn here() -> &'static Path {
    // At run time for the tests of the tool, which run these programs under its load.
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../capi"))
}

/// The folder of the libraries, built once, installed like scripts/library does.
///
/// The workspace links the C library statically, which a shared library can't do; so this is a
/// separate build, in a separate folder next to the other's.
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
                "--profile",
                "library",
                "--package",
                "punctual-capi",
            ])
            .args(["--target", &triple])
            .arg("--target-dir")
            .arg(&target);
        succeeds(&mut cargo);
        let built = target.join(triple).join("library");
        let folder = work().join("libraries");
        std::fs::create_dir_all(&folder).expect("a folder for the libraries");
        succeeds(
            Command::new(here().join("../../scripts/link-library"))
                .arg(built.join("libpunctual_capi.a"))
                .arg(&folder),
        );
        // Programs are linked to libpunctual.so, and load its soname.
        let soname = folder.join("libpunctual.so.0");
        if !soname.exists() {
            symlink("libpunctual.so", soname).expect("a link to the library");
        }
        folder
    })
}

/// The compiler that cargo uses: $RUSTC, or the one next to cargo itself, which is the
/// toolchain's own even if rustup's proxy comes first.
pub fn rustc() -> PathBuf {
    if let Some(chosen) = std::env::var_os("RUSTC").filter(|name| !name.is_empty()) {
        return PathBuf::from(chosen);
    }
    let beside = Path::new(env!("CARGO")).with_file_name("rustc");
    if beside.exists() {
        beside
    } else {
        PathBuf::from("rustc")
    }
}

/// A folder for output of the tests.
pub fn work() -> PathBuf {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("capi");
    std::fs::create_dir_all(&work).expect("a folder for the tests");
    work
}

/// A folder for the programs of this process, without the files of an earlier one.
fn programs() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let here = work().join("programs");
        let _ = std::fs::create_dir_all(&here);
        for entry in std::fs::read_dir(&here).into_iter().flatten().flatten() {
            let process = entry.file_name();
            if !Path::new("/proc").join(process).exists() {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        here.join(std::process::id().to_string())
    })
}

/// The time limit of a test program: some minutes on a busy machine under a sanitizer.
const LIMIT: Duration = Duration::from_secs(600);

/// Runs a test program, which must succeed within the limit.
#[track_caller]
pub fn runs(command: &mut Command) -> Output {
    let output = ends_within(command, LIMIT).unwrap_or_else(|hung| panic!("{hung}"));
    succeeded(command, output)
}

/// Runs a program to its end, whatever its exit status.
#[track_caller]
pub fn ends(command: &mut Command) -> Output {
    ends_within(command, LIMIT).unwrap_or_else(|hung| panic!("{hung}"))
}

/// Runs a program to its end; if it exceeds the limit it is killed, and its output so far is
/// returned.
///
/// # Errors
/// The program, the limit and its output.
pub fn ends_within(command: &mut Command, limit: Duration) -> Result<Output, String> {
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    // A process group of its own, with its children, which share its pipes.
    command.process_group(0);
    let mut child = command
        .spawn()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (tell, told) = mpsc::channel();
    let read = |mut from: Box<dyn Read + Send>, which: bool| {
        let tell = tell.clone();
        thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut part) {
                if tell.send((which, part[..count].to_vec())).is_err() {
                    return;
                }
            }
        });
    };
    read(Box::new(child.stdout.take().expect("piped")), true);
    read(Box::new(child.stderr.take().expect("piped")), false);
    drop(tell);
    let end = Instant::now() + limit;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let hung = loop {
        let left = end.saturating_duration_since(Instant::now());
        match told.recv_timeout(left) {
            Ok((true, part)) => stdout.extend(part),
            Ok((false, part)) => stderr.extend(part),
            // Both pipes are closed: it has ended, or is about to.
            Err(RecvTimeoutError::Disconnected) => break false,
            Err(RecvTimeoutError::Timeout) => break true,
        }
    };
    let mut ended = false;
    while !hung && !ended && Instant::now() < end {
        ended = child.try_wait().expect("a child of this process").is_some();
        if !ended {
            thread::sleep(Duration::from_millis(1));
        }
    }
    if !ended {
        // SAFETY: the group belongs to the child, which was not waited for yet.
        unsafe { libc::kill(-child.id().cast_signed(), libc::SIGKILL) };
    }
    let status = child.wait().expect("a child of this process");
    if ended {
        return Ok(Output {
            status,
            stdout,
            stderr,
        });
    }
    Err(format!(
        "{command:?} did not end within {} s; it said so far:\n{}{}",
        limit.as_secs(),
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    ))
}

/// Runs a command that must succeed, without a limit: a compiler.
#[track_caller]
pub fn succeeds(command: &mut Command) -> Output {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    succeeded(command, output)
}

#[track_caller]
fn succeeded(command: &Command, output: Output) -> Output {
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

    /// Compiles one source file of this crate, without a warning, and returns the program.
    pub fn compile(self, source: &str) -> PathBuf {
        let stem = Path::new(source)
            .file_stem()
            .expect("a name")
            .to_string_lossy();
        let standard = self.language[1].trim_start_matches("-std=");
        let more: String = self.more.concat().replace(['=', '-', ','], "_");
        // Tests run in parallel, and may compile the same source in the same way, so each has its
        // own program.
        static COMPILED: AtomicUsize = AtomicUsize::new(0);
        let number = COMPILED.fetch_add(1, Ordering::Relaxed);
        let name = format!(
            "{stem}-{}-{standard}-{:?}{more}",
            self.compiler, self.linked
        );
        let folder = programs().join(number.to_string());
        std::fs::create_dir_all(&folder).expect("a folder for a program");
        let program = folder.join(name);
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
