//! One guest: its command line, and how it runs and ends.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use punctual_record::lab::{NoResult, Silence, StreamFault};
use punctual_record::text::ending;

use super::board::{Board, SHARED_BYTES};
use super::channel::sha256;
use super::error::LabError;
use super::kernel::waiting::Patch;
use super::processor;
use super::qemu::{Qemu, QemuFault};
use super::sys;
use super::work::WorkFolder;

/// Bytes of a guest's output that are read.
const MOST_BYTES: u64 = 512 << 20;
/// A boot that uses no processor time may last this many times its limit.
const HALTED: u32 = 5;
/// Letters of a console's text in a message.
const TAIL: usize = 400;

/// How time passes in a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// One processor, and an instruction is a nanosecond.
    Virtual,
    /// Several processors, which run in parallel at the host's pace.
    Host,
}

impl Time {
    /// The time of a guest with this number of processors. Several processors cannot run in
    /// parallel in virtual time: QEMU runs them in turns, and the turns look like latency (in 7.2
    /// the second one does not even start).
    #[must_use]
    pub fn with_cpus(cpus: usize) -> Self {
        if cpus == 1 { Self::Virtual } else { Self::Host }
    }
}

/// A guest to run.
#[derive(Debug, Clone)]
pub struct Machine<'a> {
    /// The emulator.
    pub qemu: &'a Qemu,
    /// The kernel's image.
    pub kernel: &'a Path,
    /// What takes the place of loops that take the emulator long; none to boot the image as it is.
    pub patches: &'a [Patch],
    /// The kernel's command line.
    pub command_line: String,
    /// Processors.
    pub cpus: usize,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Further arguments for QEMU; they must not change what the guest sees.
    pub extra: Vec<OsString>,
    /// The host's time after which it is stopped.
    pub host_limit: Duration,
    /// The host's processor time after which it is stopped if its first process did not start.
    /// Processor time, because the host may be busy.
    pub boot_limit: Duration,
}

/// What a guest left.
#[derive(Debug)]
pub struct GuestOutput {
    /// The guest's output.
    pub stream: Vec<u8>,
    /// QEMU's exit status; absent if it was killed.
    pub status: Option<i32>,
    /// The end of QEMU's own output.
    pub emulator: String,
    /// The text of the console.
    pub console: String,
    /// The host's time that it took.
    pub took: Duration,
}

impl Machine<'_> {
    /// QEMU's arguments; the files are named relative to the working directory.
    fn arguments(&self) -> Vec<OsString> {
        let time: &[&str] = match Time::with_cpus(self.cpus) {
            Time::Virtual => &[
                "-accel",
                "tcg,thread=single",
                "-icount",
                "shift=0,sleep=off",
            ],
            Time::Host => &["-accel", "tcg,thread=multi"],
        };
        let memory = self.memory_mib.to_string();
        let cpus = self.cpus.to_string();
        let board = self.board();
        let common = [
            "-rtc",
            "base=2020-01-01,clock=vm",
            "-seed",
            "1",
            "-cpu",
            board.cpu,
            "-m",
            &memory,
            "-smp",
            &cpus,
            "-kernel",
            "kernel",
            "-initrd",
            "initramfs",
            "-append",
            &self.command_line,
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-vga",
            "none",
            "-nic",
            "none",
            "-monitor",
            "none",
            "-no-reboot",
            "-serial",
            "file:console",
        ];
        let all = time.iter().chain(&common).chain(board.arguments);
        all.map(OsString::from).collect()
    }

    fn board(&self) -> &'static Board {
        Board::of(self.qemu.architecture)
    }

    /// SHA-256 of the arguments, without those that change nothing for the guest.
    #[must_use]
    pub fn command_sha256(&self) -> String {
        let words = self.arguments();
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        sha256(words.join("\0").as_bytes())
    }

    /// Runs it to its end in a folder that already holds `initramfs`. `ends` says whether a signal
    /// asks this program to stop.
    ///
    /// # Errors
    /// QEMU cannot be started, a limit was reached, or a signal came.
    pub fn run(
        &self,
        folder: &WorkFolder,
        ends: &dyn Fn() -> bool,
    ) -> Result<GuestOutput, NoResult> {
        let folder = folder.path();
        // QEMU splits some of its arguments at commas: these short names have none.
        let kernel =
            fs::canonicalize(self.kernel).map_err(|source| LabError::file(self.kernel, source))?;
        for left in ["kernel", "console", "out", "emulator"] {
            let _ = fs::remove_file(folder.join(left));
        }
        match self.patches {
            [] => std::os::unix::fs::symlink(&kernel, folder.join("kernel")),
            patches => patched(&kernel, &folder.join("kernel"), patches),
        }
        .map_err(|source| LabError::file(folder, source))?;
        let out = folder.join("out");
        if !self.board().has_ports() {
            let shared = fs::File::create_new(&out).and_then(|file| file.set_len(SHARED_BYTES));
            shared.map_err(|source| LabError::file(&out, source))?;
        }
        let words = folder.join("emulator");
        let errors =
            fs::File::create_new(&words).map_err(|source| LabError::file(&words, source))?;
        let mut command = Command::new(&self.qemu.path);
        command
            .args(self.arguments())
            .args(&self.extra)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        sys::kill_with_parent(&mut command);
        let begin = Instant::now();
        let child = command.spawn().map_err(|source| LabError::Qemu {
            path: self.qemu.path.clone(),
            why: QemuFault::NotStarted(source),
        })?;
        let mut running = Running(child);
        let mut lives = false;
        let status = loop {
            let status = running.0.try_wait();
            let status = status.map_err(|source| LabError::file(&self.qemu.path, source))?;
            if let Some(status) = status {
                break status;
            }
            if ends() {
                return Err(NoResult::Interrupted);
            }
            let console = || tail(&read_text(&folder.join("console")));
            if begin.elapsed() >= self.host_limit {
                return Err(NoResult::HostLimit {
                    seconds: self.host_limit.as_secs(),
                    console: console(),
                });
            }
            lives = lives || self.handed_out(&out) > 0;
            if !lives && let Some(silence) = self.silence(&running, begin) {
                return Err(NoResult::BootLimit {
                    seconds: self.boot_limit.as_secs(),
                    silence,
                    console: console(),
                });
            }
            sys::pause();
        };
        let length = self.handed_out(&out);
        if length > MOST_BYTES {
            return Err(NoResult::TooLarge { bytes: length });
        }
        Ok(GuestOutput {
            stream: self.stream(&out, length).unwrap_or_default(),
            status: status.code(),
            emulator: tail(&read_text(&words)),
            console: read_text(&folder.join("console")),
            took: begin.elapsed(),
        })
    }
}

impl Machine<'_> {
    /// The bytes that the guest has written. In shared memory they follow their number.
    fn handed_out(&self, out: &Path) -> u64 {
        if self.board().has_ports() {
            return fs::metadata(out).map_or(0, |data| data.len());
        }
        let mut number = [0; 8];
        let read = fs::File::open(out).and_then(|file| file.read_exact_at(&mut number, 0));
        read.map_or(0, |()| u64::from_le_bytes(number))
    }

    fn stream(&self, out: &Path, length: u64) -> io::Result<Vec<u8>> {
        if self.board().has_ports() {
            return fs::read(out);
        }
        // The guest may have damaged the number: what is missing there is missing in the stream.
        let mut bytes = Vec::new();
        let mut file = fs::File::open(out)?;
        file.seek(SeekFrom::Start(size_of::<u64>() as u64))?;
        file.take(length).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Copies an image, with other bytes in some places.
fn patched(image: &Path, copy: &Path, patches: &[Patch]) -> io::Result<()> {
    // Not `fs::copy`: the cache's files can't be written.
    let mut from = fs::File::open(image)?;
    let mut to = fs::File::create_new(copy)?;
    io::copy(&mut from, &mut to)?;
    for patch in patches {
        to.write_all_at(&patch.bytes, patch.at)?;
    }
    Ok(())
}

impl Machine<'_> {
    /// Whether a boot took too long, and why. A guest that halts for ever uses no processor time;
    /// neither does one that waits for a CPU of a busy host.
    fn silence(&self, running: &Running, begin: Instant) -> Option<Silence> {
        let process = running.0.id();
        if processor::run_time(process) >= self.boot_limit {
            return Some(Silence::Busy);
        }
        let limit = self.boot_limit * HALTED;
        let passed = begin.elapsed();
        let halted =
            passed >= limit && passed.saturating_sub(processor::wait_time(process)) >= limit;
        halted.then_some(Silence::Halted)
    }
}

impl Machine<'_> {
    /// Runs a guest again that died before its kernel had a console, now with early messages.
    /// Returns other errors unchanged.
    pub fn explain_early_death(
        &mut self,
        folder: &WorkFolder,
        ends: &dyn Fn() -> bool,
        error: NoResult,
    ) -> NoResult {
        let silent = match &error {
            NoResult::BootLimit { console, .. } => console.is_empty(),
            // QEMU ends so when a guest reboots. If QEMU itself failed, its own message is the
            // reason.
            NoResult::Broken {
                stream: StreamFault::Silent,
                status: Some(0),
                output,
                console,
                ..
            } => console.is_empty() && output.is_empty(),
            _ => false,
        };
        if !silent {
            return error;
        }
        self.command_line = format!("{} {}", self.board().early_console, self.command_line);
        self.extra.clear();
        let said = match self.run(folder, ends) {
            Err(NoResult::Interrupted) => return NoResult::Interrupted,
            Err(_) => read_text(&folder.path().join("console")),
            Ok(came) => came.console,
        };
        if let Some(line) = panic_line(&said) {
            return NoResult::Panic { line };
        }
        let mut error = error;
        if let NoResult::BootLimit { console, .. } | NoResult::Broken { console, .. } = &mut error {
            *console = tail(&said);
        }
        error
    }
}

/// The line of a kernel panic.
fn panic_line(console: &str) -> Option<String> {
    console.lines().find_map(|line| {
        let at = line.find("Kernel panic")?;
        Some(line[at..].trim().to_owned())
    })
}

impl GuestOutput {
    /// Why there is no result.
    #[must_use]
    pub fn without_result(&self, stream: StreamFault) -> NoResult {
        match panic_line(&self.console) {
            Some(line) => NoResult::Panic { line },
            None => NoResult::Broken {
                stream,
                status: self.status,
                output: self.emulator.clone(),
                plugin: false,
                console: tail(&self.console),
            },
        }
    }
}

/// A child process that is killed when this value is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn read_text(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The end of a console's text or of a program's output, in one line.
#[must_use]
pub fn tail(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    ending(&words.join(" "), TAIL)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use punctual_record::laboratory::Architecture;

    use super::*;

    fn qemu() -> Qemu {
        Qemu {
            architecture: Architecture::Amd64,
            path: "/bin/true".into(),
            version: "7.2.0".into(),
            sha256: String::new(),
            firmware: BTreeMap::new(),
        }
    }

    fn machine(qemu: &Qemu, cpus: usize) -> Machine<'_> {
        Machine {
            qemu,
            kernel: Path::new("/dev/null"),
            patches: &[],
            command_line: "quiet".into(),
            cpus,
            memory_mib: 512,
            extra: vec!["-plugin".into()],
            host_limit: Duration::from_millis(300),
            boot_limit: Duration::from_secs(60),
        }
    }

    #[test]
    fn one_processor_is_in_virtual_time_and_more_are_not() {
        let qemu = qemu();
        let has = |cpus, word: &str| machine(&qemu, cpus).arguments().iter().any(|a| a == word);
        assert!(has(1, "-icount"));
        assert!(!has(2, "-icount"));
        assert!(!has(1, "-plugin"));
        let sum = |cpus| machine(&qemu, cpus).command_sha256();
        assert_ne!(sum(1), sum(2));
        assert_eq!(sum(1), sum(1));
    }

    #[test]
    fn a_machine_that_says_nothing_is_told_from_one_that_hangs() {
        let mut qemu = qemu();
        let folder = WorkFolder::make().unwrap();
        let path = folder.path().to_owned();
        let came = machine(&qemu, 1).run(&folder, &|| false).unwrap();
        assert!(came.stream.is_empty());
        let error = came.without_result(StreamFault::Silent);
        let silent = NoResult::Broken {
            stream: StreamFault::Silent,
            status: Some(0),
            output: String::new(),
            plugin: false,
            console: String::new(),
        };
        assert_eq!(error, silent);
        drop(folder);
        assert!(!path.exists());

        let folder = WorkFolder::make().unwrap();
        let hanging = folder.path().join("hanging");
        fs::write(
            &hanging,
            "#!/bin/sh\necho last words >console\nexec sleep 600\n",
        )
        .unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&hanging, mode).unwrap();
        qemu.path = hanging;
        let error = machine(&qemu, 1).run(&folder, &|| false).unwrap_err();
        let limit = NoResult::HostLimit {
            seconds: 0,
            console: "last words".to_owned(),
        };
        assert_eq!(error, limit);
        fs::remove_file(folder.path().join("kernel")).unwrap();
        let error = machine(&qemu, 1).run(&folder, &|| true).unwrap_err();
        assert_eq!(error, NoResult::Interrupted);
    }

    #[test]
    fn tails_are_one_line() {
        assert_eq!(tail("a\r\nb\x1b[0m  c\n"), "a b?[0m c");
        let long = tail(&"word ".repeat(500));
        assert!(long.starts_with('…') && long.chars().count() == TAIL);
    }
}
