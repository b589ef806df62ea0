//! Detects the kind of a recording, and reads its events as text.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Recording;
use super::lines::Line;

/// The tool that made a recording, from the file's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// trace-cmd's `trace.dat`, of any version.
    TraceCmd,
    /// perf's `perf.data`.
    Perf,
    /// Text of tracefs' `trace`, as rtla saves it, or the output of the two.
    Text,
}

/// All fields that an event needs, with times in ns.
const PERF: &[&str] = &[
    "perf",
    "script",
    "--ns",
    "--fields=comm,pid,tid,cpu,time,event,trace",
    "-i",
];
/// The number of bytes that are read to detect the kind.
const BEGINNING: u64 = 64 << 10;

impl Kind {
    /// The kind of a file; `None` if it is not a recording.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(BEGINNING).read_to_end(&mut bytes)?;
        Ok(Self::of_bytes(&bytes))
    }

    /// The kind, from the beginning of a file.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"\x17\x08\x44tracing") {
            return Some(Self::TraceCmd);
        }
        if bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP") {
            return Some(Self::Perf);
        }
        let text = String::from_utf8_lossy(bytes);
        let is_event = |line: &str| Line::parse(line).is_some();
        (text.starts_with("# tracer: ") || text.lines().any(is_event)).then_some(Self::Text)
    }

    /// The tool's name.
    #[must_use]
    pub fn tool(self) -> &'static str {
        match self {
            Self::TraceCmd => "trace-cmd",
            Self::Perf => "perf",
            Self::Text => "ftrace",
        }
    }

    /// The command that prints such a file, and the package that contains it.
    fn printer(self) -> Option<(&'static [&'static str], &'static str)> {
        match self {
            // Times in ns, and the kernel's own format instead of a plugin's.
            Self::TraceCmd => Some((&["trace-cmd", "report", "-N", "-t", "-i"], "trace-cmd")),
            Self::Perf => Some((PERF, "linux-perf")),
            Self::Text => None,
        }
    }
}

/// Reads a recording.
///
/// # Errors
/// One line with the file's name.
pub fn open(path: &Path, kind: Kind) -> Result<Recording, String> {
    let failed = |reason: String| format!("{}: {reason}", path.display());
    let Some((words, package)) = kind.printer() else {
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        return Recording::read(BufReader::new(file)).map_err(|error| failed(error.to_string()));
    };
    let program = words[0];
    // So that a name that begins with a dash is not taken for a flag.
    let file = std::fs::canonicalize(path).map_err(|error| failed(error.to_string()))?;
    let mut child = Command::new(program)
        .args(&words[1..])
        .arg(file)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| {
            failed(match error.kind() {
                ErrorKind::NotFound => format!(
                    "{program} itself is needed to read its file: apt install {package}, or give \
                     the text that `{}` prints",
                    words.join(" ")
                ),
                _ => format!("{program} can't be run: {error}"),
            })
        })?;
    let complaints = child.stderr.take().map(|stderr| {
        std::thread::spawn(move || {
            let mut first = String::new();
            let mut stderr = BufReader::new(stderr);
            let _ = (&mut stderr).take(4096).read_line(&mut first);
            let _ = io::copy(&mut stderr, &mut io::sink());
            first
        })
    });
    let read = match child.stdout.take() {
        Some(stdout) => Recording::read(BufReader::new(stdout)),
        None => Err(ErrorKind::BrokenPipe.into()),
    };
    let ended = child.wait().map_err(|error| failed(error.to_string()))?;
    let said = complaints
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    match read {
        Ok(mut recording) => {
            if !ended.success() {
                let what = format!(
                    "{program} could not read all of the recording: {}",
                    said.trim()
                );
                recording
                    .missing
                    .push(what.chars().filter(|c| !c.is_control()).take(200).collect());
            }
            Ok(recording)
        }
        Err(error) if ended.success() => Err(failed(error.to_string())),
        Err(_) => {
            let said: String = said
                .trim()
                .chars()
                .filter(|c| !c.is_control())
                .take(200)
                .collect();
            Err(failed(format!("{program} can't read it: {said}")))
        }
    }
}
