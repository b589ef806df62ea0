//! What the figures are measured with: our binaries, the peers, a place for files.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::programs::{executable, messages};
use crate::root;

/// Our binaries as released, and a directory that goes away in the end.
pub struct Tools {
    pub punctual: PathBuf,
    pub bench_collector: PathBuf,
    pub bench_cycle: PathBuf,
    /// As `make` builds it, in the profile `quick`.
    pub bench_cycle_quick: PathBuf,
    pub bench_runs: PathBuf,
    pub stack_bench: PathBuf,
    pub sync_bench: PathBuf,
    /// Holds bills against the truth.
    pub truth: PathBuf,
    pub directory: PathBuf,
    /// The last CPU that we may use: the least busy one by habit.
    pub cpu: usize,
    /// Everything, also what takes an hour.
    pub all: bool,
}

impl Drop for Tools {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Builds in a profile, and returns what cargo says of it.
fn build(profile: &str, what: &[&str]) -> Result<String, String> {
    let mut command = Command::new("scripts/cargo");
    command
        .current_dir(root())
        .args(["build", "--profile", profile, "--locked"])
        .args(what);
    messages(command)
}

impl Tools {
    /// Builds what isn't built.
    pub fn ready(all: bool) -> Result<Self, String> {
        let cycle = ["--package=punctual-probe", "--example=bench_cycle"];
        let quick = build("quick", &cycle)?;
        // By itself, as `make release` builds it: the laboratory's figures are those of one build.
        let mut messages = build("release", &["--package=punctual"])?;
        messages += &build(
            "release",
            &[
                "--package=punctual",
                "--package=punctual-rt",
                "--package=punctual-probe",
                "--example=bench_collector",
                "--example=bench_cycle",
                "--example=bench_runs",
                "--example=stack_bench",
                "--example=sync_bench",
                "--example=truth",
            ],
        )?;
        let built = |name: &str| executable(&messages, name).ok_or(format!("no {name} was built"));
        let directory = std::env::temp_dir().join(format!("punctual-bench-{}", std::process::id()));
        let tools = Self {
            punctual: built("punctual")?,
            bench_collector: built("bench_collector")?,
            bench_cycle: built("bench_cycle")?,
            bench_cycle_quick: executable(&quick, "bench_cycle")
                .ok_or("no bench_cycle was built in the profile quick")?,
            bench_runs: built("bench_runs")?,
            stack_bench: built("stack_bench")?,
            sync_bench: built("sync_bench")?,
            truth: built("truth")?,
            directory,
            cpu: last_cpu()?,
            all,
        };
        std::fs::create_dir(&tools.directory)
            .map_err(|error| format!("{}: {error}", tools.directory.display()))?;
        Ok(tools)
    }

    /// A path for a file or directory that does not exist yet.
    pub fn place(&self, name: &str) -> PathBuf {
        let path = self.directory.join(name);
        let _ = std::fs::remove_dir_all(&path);
        path
    }

    /// `punctual measure` into a directory, and the record that it wrote.
    pub fn measure(&self, name: &str, more: &[String]) -> Result<Value, String> {
        let place = self.place(name);
        let mut command = Command::new(&self.punctual);
        command.args(["measure", "-q", "-o"]).arg(&place).args(more);
        // A run without real-time priority ends with INVALID and is one all the same.
        let output = command.output().map_err(|error| error.to_string())?;
        let record = record(&place).map_err(|error| {
            let words = String::from_utf8_lossy(&output.stderr);
            format!("{error}; punctual: {}", words.trim())
        })?;
        let _ = std::fs::remove_dir_all(&place);
        Ok(record)
    }
}

/// The record in a run directory.
pub fn record(place: &Path) -> Result<Value, String> {
    let file = place.join("run.json");
    let bytes = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", file.display()))
}

fn last_cpu() -> Result<usize, String> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|e| e.to_string())?;
    let list = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .unwrap_or("0");
    let last = list.trim().rsplit(['-', ',']).next().unwrap_or("0");
    last.parse().map_err(|_| format!("CPUs {list}"))
}

/// Says so where a peer isn't installed.
pub fn peer(name: &str, package: &str) -> Result<(), String> {
    let missing = || format!("{name} is not installed (Debian: {package})");
    Command::new(name)
        .arg("--help")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .map(drop)
        .map_err(|_| missing())
}

/// Whether we may use real-time priorities: what is measured with one can't be without.
pub fn may_be_real_time() -> Result<(), String> {
    let status = Command::new("chrt").args(["-f", "50", "true"]).output();
    match status {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) => Err("no right to real-time priorities (root has it)".to_owned()),
        Err(error) => Err(format!("chrt: {error}")),
    }
}

/// What a program printed; its failure is one.
pub fn output(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|e| format!("{name}: {e}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        let last = words.trim().lines().last().unwrap_or_default();
        return Err(format!("{name}: {}: {last}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The number behind a word at the beginning of a line.
pub fn value<T: std::str::FromStr>(text: &str, name: &str) -> Result<T, String> {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(word, _)| *word == name)
        .and_then(|(_, number)| number.parse().ok())
        .ok_or(format!("no {name} in {text:?}"))
}

/// A load that is killed when it goes out of sight, its children with it.
pub struct Load(Child);

impl Load {
    /// Messages back and forth until killed: rt-tests' hackbench, or ours.
    pub fn start(tools: &Tools) -> Result<Self, String> {
        let mut command = Command::new(&tools.punctual);
        command
            .args(["load", "hackbench:groups=1", "-D", "1h"])
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = command.spawn().map_err(|e| format!("load: {e}"))?;
        let load = Self(child);
        std::thread::sleep(std::time::Duration::from_secs(1));
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        // SIGTERM ends our loads in order; the process is ours and not yet waited for.
        let id = self.0.id().to_string();
        let _ = Command::new("kill").arg(&id).status();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn values_by_name() {
        let text = "samples 5\npeaks 7.5\n";
        assert_eq!(value(text, "samples"), Ok(5));
        assert_eq!(value(text, "peaks"), Ok(7.5));
        assert!(value::<u64>(text, "peaks").is_err());
        assert!(value::<u64>(text, "sample").is_err());
    }

    /// What a cargo is told by `scripts/cargo` with these words.
    fn told(folder: &Path, words: &[&str], flags: &str) -> String {
        let fake = folder.join("cargo");
        let text = "#!/bin/sh\ncase \"$1\" in\n--version) echo cargo 99.0.0 ;;\n\
                    -vV) echo host: here ;;\n*) echo \"$@\"\n\
                    echo \"$CARGO_ENCODED_RUSTFLAGS\" | tr '\\037' '|' ;;\nesac\n";
        fs::write(&fake, text).unwrap();
        fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new(root().join("scripts/cargo"))
            .args(words)
            .env("CARGO", &fake)
            .env("CARGO_HOME", "/some/home")
            .env("RUSTFLAGS", flags)
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    #[test]
    fn a_release_build_holds_no_path_of_whoever_makes_it() {
        let folder =
            std::env::temp_dir().join(format!("punctual-fake-cargo-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let release = told(&folder, &["build", "--release"], "");
        let quick = told(&folder, &["build", "--profile", "quick"], "");
        let own = told(&folder, &["build", "--release"], "-C x");
        let debug = told(&folder, &["build"], "");
        fs::remove_dir_all(&folder).unwrap();
        assert!(release.contains("target.here.rustflags="), "{release}");
        assert!(quick.contains("target.here.rustflags="), "{quick}");
        let root = root();
        for path in [root.to_str().unwrap(), "/some/home"] {
            let remapped = format!("--remap-path-prefix={path}=");
            assert!(release.contains(&remapped), "{release}");
            assert!(own.contains(&format!("|{remapped}")), "{own}");
        }
        assert!(release.ends_with(" build --release"), "{release}");
        assert!(own.starts_with("build --release\n-C|x|--"), "{own}");
        assert_eq!(debug, "build");
    }
}
