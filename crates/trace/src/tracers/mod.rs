//! The kernel's own tracers of latency, noise and hardware: set up in an instance of ours,
//! read, and removed again, whatever happens to this process.
//!
//! What is changed outside the instance is written to a journal first. A guard (this
//! program, started again) waits until this process has ended; if it did not restore its changes
//! (`kill -9`), the guard does. If the guard was killed too, the next tracer that starts here does.

pub mod error;
pub mod journal;
pub mod lines;

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use self::error::TracerError;
use journal::Journal;
use lines::{Line, Lines};

/// The verb with which this program starts itself again as the guard.
pub const VERB: &str = "__tracer-guard";
/// Where tracefs is mounted, in the order of trying.
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Where journals are: a reboot removes them, as it resets the settings they record.
const JOURNALS: &str = "/run/punctual";

/// What to set up for a tracer.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its name: `hwlat`, `timerlat`, `osnoise`.
    pub tracer: &'static str,
    /// The CPUs that it runs on.
    pub cpus: Vec<usize>,
    /// Settings outside the instance, by their path within tracefs, in the order of writing.
    pub settings: Vec<(&'static str, String)>,
}

/// The tracefs in which a tracer is available.
///
/// # Errors
/// What is missing, and what to do.
pub fn tracefs_offering(tracer: &str) -> Result<PathBuf, TracerError> {
    let mut why = TracerError::NotMounted;
    for place in PLACES {
        match fs::read_to_string(Path::new(place).join("available_tracers")) {
            Ok(names) if names.split_whitespace().any(|name| name == tracer) => {
                return Ok(PathBuf::from(place));
            }
            Ok(_) => {
                return Err(TracerError::Absent {
                    tracer: tracer.to_owned(),
                });
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                why = TracerError::Forbidden { path: place };
            }
            Err(_) => {}
        }
    }
    Err(why)
}

/// A running tracer. When it is dropped, all settings are restored.
#[derive(Debug)]
pub struct Tracer {
    journal: Journal,
    guard: Option<Child>,
    /// Closed first: a tracer can't end while it is being read.
    pipe: Option<File>,
    lines: Lines,
    buffer: Vec<u8>,
}

impl Tracer {
    /// Sets it up, reads the settings back, and starts it.
    ///
    /// # Errors
    /// What was refused; nothing is left behind.
    pub fn start(setup: &Setup) -> Result<Self, TracerError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let root = tracefs_offering(setup.tracer)?;
        let failed = |step: &str| {
            let step = step.to_owned();
            move |source: io::Error| TracerError::Step { step, source }
        };
        journal::restore_leftovers(Path::new(JOURNALS)).map_err(failed(JOURNALS))?;
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("punctual-{}-{number}", std::process::id());
        let mut journal = Journal::new(Path::new(JOURNALS), &root, &name);
        for (file, _) in &setup.settings {
            journal.keep_original(file).map_err(failed(file))?;
        }
        journal.write().map_err(failed(JOURNALS))?;
        let guard = guard(journal.path())
            .map_err(failed("starting the process that restores the settings"))?;
        // From here on everything is restored on drop.
        let mut held = TracerSetup {
            journal: Some(journal),
            guard: Some(guard),
        };
        let instance = root.join("instances").join(&name);
        fs::create_dir(&instance).map_err(failed("creating a tracing instance"))?;
        // Two settings may bound each other: one that can't be set before another can be set after it.
        for (file, value) in setup.settings.iter().chain(&setup.settings) {
            let _ = write_setting(&root.join(file), value);
        }
        for (file, value) in &setup.settings {
            let found = fs::read_to_string(root.join(file)).map_err(failed(file))?;
            if !is_chosen(&found, value) {
                return Err(TracerError::Setting {
                    file: (*file).to_owned(),
                    requested: value.clone(),
                    found: found.trim().to_owned(),
                });
            }
        }
        write_setting(&instance.join("trace_clock"), "mono").map_err(failed("trace_clock"))?;
        write_setting(&instance.join("tracing_cpumask"), &mask(&setup.cpus))
            .map_err(failed("tracing_cpumask"))?;
        write_setting(&instance.join("current_tracer"), setup.tracer)
            .map_err(failed(setup.tracer))?;
        write_setting(&instance.join("tracing_on"), "1").map_err(failed("tracing_on"))?;
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(instance.join("trace_pipe"))
            .map_err(failed("trace_pipe"))?;
        let (Some(journal), guard) = (held.journal.take(), held.guard.take()) else {
            unreachable!("both were put there");
        };
        Ok(Self {
            journal,
            guard,
            pipe: Some(pipe),
            lines: Lines::default(),
            buffer: vec![0; 1 << 16],
        })
    }

    /// Reads the tracer's output since the last call. Call it several times a
    /// second.
    pub fn read_lines(&mut self, mut each: impl FnMut(Line)) {
        let Some(pipe) = &mut self.pipe else {
            return;
        };
        loop {
            match pipe.read(&mut self.buffer) {
                Ok(0) | Err(_) => return,
                Ok(length) => self.lines.add_bytes(&self.buffer[..length], &mut each),
            }
        }
    }

    /// Lines of the tracer that could not be parsed, or were overwritten.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lines.lost()
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.pipe = None;
        restore_settings(&mut self.journal, &mut self.guard);
    }
}

/// A tracer during its setup.
struct TracerSetup {
    journal: Option<Journal>,
    guard: Option<Child>,
}

impl Drop for TracerSetup {
    fn drop(&mut self) {
        if let Some(journal) = &mut self.journal {
            restore_settings(journal, &mut self.guard);
        }
    }
}

fn restore_settings(journal: &mut Journal, guard: &mut Option<Child>) {
    // If this fails, the journal stays, and the guard tries again.
    let _ = journal.restore();
    if let Some(mut guard) = guard.take() {
        drop(guard.stdin.take());
        let _ = guard.wait();
    }
}

/// A single write, as the kernel requires for settings.
fn write_setting(path: &Path, value: &str) -> io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path)?
        .write_all(value.as_bytes())
}

/// Whether a setting reads as it was written. `[per-cpu]` marks the chosen one of
/// several.
fn is_chosen(found: &str, value: &str) -> bool {
    let chosen = found
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.unwrap_or(found.trim()) == value
}

/// CPUs in the kernel's format for masks: 32 bits at a time in hexadecimal, the highest first.
fn mask(cpus: &[usize]) -> String {
    let words = cpus.iter().max().map_or(0, |last| last / 32) + 1;
    let word = |index: usize| {
        let bits = cpus.iter().filter(|cpu| **cpu / 32 == index);
        bits.fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32))
    };
    let words: Vec<String> = (0..words)
        .rev()
        .map(|i| format!("{:08x}", word(i)))
        .collect();
    words.join(",")
}

/// Starts the guard of a journal: in its own process group, so that Ctrl-C doesn't reach it.
fn guard(journal: &Path) -> io::Result<Child> {
    Command::new("/proc/self/exe")
        .arg0("punctual")
        .arg(VERB)
        .arg(journal)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0)
        .spawn()
}

/// The guard: it waits until the process that started it has ended, and restores what the
/// journal still holds.
pub fn guard_main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(path) = arguments.next().map(PathBuf::from) else {
        return ExitCode::from(64);
    };
    // Started by hand it must do no harm: a journal is ours only by its name and place.
    if !journal::is_ours(&path, Path::new(JOURNALS)) {
        return ExitCode::from(64);
    }
    let mut nothing = Vec::new();
    let _ = io::stdin().lock().read_to_end(&mut nothing);
    match Journal::read(&path).and_then(|mut journal| journal.restore()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chosen_setting_reads_as_it_was_written() {
        assert!(is_chosen("none [round-robin] per-cpu\n", "round-robin"));
        assert!(!is_chosen("none [round-robin] per-cpu\n", "per-cpu"));
        assert!(is_chosen("1000000\n", "1000000"));
        assert_eq!(mask(&[0, 33]), "00000002,00000001");
    }

    #[test]
    fn a_missing_tracer_is_refused_with_a_reason() {
        let refused = tracefs_offering("no-such-tracer").unwrap_err();
        assert!(matches!(
            refused,
            TracerError::Absent { .. } | TracerError::NotMounted | TracerError::Forbidden { .. }
        ));
        let setup = Setup {
            tracer: "no-such-tracer",
            cpus: vec![0],
            settings: Vec::new(),
        };
        assert!(Tracer::start(&setup).is_err());
    }
}
