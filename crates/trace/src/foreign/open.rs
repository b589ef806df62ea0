//! Detects the kind of a recording, and reads its events as text.

use std::error::Error;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use punctual_record::explanation::NotSeen;
use punctual_record::text::shortened;

use super::lines::Line;
use super::{Recording, ThreadFilter, damage};

/// The tool that made a recording, from the file's first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordingKind {
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
    // Without it only its standard error says so, and not of which CPU and time.
    "--show-lost-events",
    "-i",
];
/// A file's first bytes; of perf's on a big-endian machine the second.
const TRACE_CMD_MAGIC: &[u8] = b"\x17\x08\x44tracing";
const PERF_MAGIC: &[u8] = b"PERFILE2";
pub(super) const PERF_MAGIC_REVERSED: &[u8; 8] = b"2ELIFREP";
/// The number of bytes that are read to detect the kind.
const BEGINNING: u64 = 64 << 10;
/// Letters of what a program complains of.
const MOST: usize = 200;

impl RecordingKind {
    /// The kind of a file; `None` if it is not a recording.
    ///
    /// # Errors
    /// The file can't be read, or is empty.
    pub fn of_file(path: &Path) -> io::Result<Option<Self>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(BEGINNING).read_to_end(&mut bytes)?;
        if bytes.is_empty() {
            let why = "the file is empty: what wrote it was killed, or its disk was full";
            return Err(io::Error::new(ErrorKind::UnexpectedEof, why));
        }
        Ok(Self::of_bytes(&bytes))
    }

    /// The kind, from the beginning of a file.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        // A file may end within them.
        let begins =
            |magic: &[u8]| !bytes.is_empty() && bytes.iter().zip(magic).all(|(a, b)| a == b);
        if begins(TRACE_CMD_MAGIC) {
            return Some(Self::TraceCmd);
        }
        if begins(PERF_MAGIC) || begins(PERF_MAGIC_REVERSED) {
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

/// Why a recording can't be read.
#[derive(Debug)]
pub struct OpenError {
    path: PathBuf,
    fault: Fault,
}

/// What is wrong with it.
#[derive(Debug)]
#[non_exhaustive]
pub enum Fault {
    /// Its file, or what was printed of it, can't be read.
    Unreadable(io::Error),
    /// The program that prints it isn't there.
    NoPrinter {
        /// The command.
        command: String,
        /// The package that has it.
        package: &'static str,
    },
    /// The program that prints it can't be run.
    NotRun {
        /// The program.
        program: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Its file is damaged.
    Damaged {
        /// The tool that made it.
        tool: &'static str,
        /// What is wrong with it, and where.
        source: io::Error,
    },
    /// The program that prints it refuses it.
    Refused {
        /// The program.
        program: &'static str,
        /// Its own words, in a line.
        said: String,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        match &self.fault {
            Fault::Unreadable(source) => source.fmt(f),
            Fault::NoPrinter { command, package } => {
                let program = command.split(' ').next().unwrap_or_default();
                write!(
                    f,
                    "{program} itself is needed to read its file: apt install {package}, or give \
                     the text that `{command}` prints"
                )
            }
            Fault::NotRun { program, source } => write!(f, "could not run {program}: {source}"),
            Fault::Damaged { tool, source } => write!(
                f,
                "{source}; copy it again, or record again and end `{tool} record` with Ctrl-C, not \
                 with SIGKILL"
            ),
            Fault::Refused { program, said } => write!(f, "{program} could not read it: {said}"),
        }
    }
}

impl Error for OpenError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.fault {
            Fault::Unreadable(source)
            | Fault::NotRun { source, .. }
            | Fault::Damaged { source, .. } => Some(source),
            Fault::NoPrinter { .. } | Fault::Refused { .. } => None,
        }
    }
}

/// Reads a recording.
///
/// # Errors
/// [`OpenError`], with the file's name.
pub fn open(
    path: &Path,
    kind: RecordingKind,
    threads: &ThreadFilter,
) -> Result<Recording, OpenError> {
    let tool = kind.tool();
    let checked = File::open(path).and_then(|file| damage::check(BufReader::new(file), kind));
    let is_damage = |error: &io::Error| {
        matches!(
            error.kind(),
            ErrorKind::UnexpectedEof | ErrorKind::InvalidData
        )
    };
    let fault = match (
        printed(path, kind, threads),
        checked.err().filter(is_damage),
    ) {
        (Ok(mut recording), damage) => {
            recording
                .missing
                .extend(damage.map(|why| cut(tool, &why.to_string())));
            return Ok(recording);
        }
        (Err(_), Some(source)) => Fault::Damaged { tool, source },
        (Err(fault), None) => fault,
    };
    let path = path.to_owned();
    Err(OpenError { path, fault })
}

/// The tool printed a part of it.
fn cut(program: &str, output: &str) -> NotSeen {
    NotSeen::RecordingCut {
        program: program.to_owned(),
        output: shortened(output.trim(), MOST),
    }
}

fn printed(path: &Path, kind: RecordingKind, threads: &ThreadFilter) -> Result<Recording, Fault> {
    let Some((words, package)) = kind.printer() else {
        let file = File::open(path).map_err(Fault::Unreadable)?;
        return Recording::read_threads(BufReader::new(file), threads).map_err(Fault::Unreadable);
    };
    let program = words[0];
    // A name that begins with a dash is no flag.
    let file = std::fs::canonicalize(path).map_err(Fault::Unreadable)?;
    let mut child = Command::new(program)
        .args(&words[1..])
        .arg(file)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| match source.kind() {
            ErrorKind::NotFound => Fault::NoPrinter {
                command: words.join(" "),
                package,
            },
            _ => Fault::NotRun { program, source },
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
        Some(stdout) => Recording::read_threads(BufReader::new(stdout), threads),
        None => Err(ErrorKind::BrokenPipe.into()),
    };
    let ended = child.wait().map_err(Fault::Unreadable)?;
    let said = complaints
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    match read {
        Ok(mut recording) => {
            if !ended.success() {
                recording.missing.push(cut(program, &said));
            }
            Ok(recording)
        }
        Err(error) if ended.success() => Err(Fault::Unreadable(error)),
        Err(_) => {
            let said = shortened(said.trim(), MOST);
            Err(Fault::Refused { program, said })
        }
    }
}
