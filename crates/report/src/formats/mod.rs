//! Figures of other tools, and figures for other tools.
//!
//! Reading is total, as for our own record: limits before memory, one line with
//! the path and the place for whatever is wrong. What a tool doesn't state stays
//! unknown in the imported [`Run`] and is named in [`Imported`](punctual_record::Imported).

mod cases;
mod csv;
mod cyclictest;
mod error;
mod fault;
mod import;
pub use import::recorded;
mod jitterdebugger;
mod junit;
mod ktap;
mod ladder;
mod lava;
mod openmetrics;
mod rows;
mod rt_tests;
mod rtla;
mod sysinfo;
pub(crate) mod xml;

use punctual_record::ladder::Ladder;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use openmetrics::Dialect;

pub use error::{UnknownFormat, WriteError};
pub use openmetrics::Metrics;

use punctual_record::read::{Bounds, slurp};
use punctual_record::text::one_line;
use punctual_record::{Document, RecordError, Run, scan};

/// Bytes of a foreign file.
pub const FOREIGN_FILE: u64 = 64 << 20;

/// A format that `export` writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// The histogram that `cyclictest -h N -q` prints.
    Cyclictest,
    /// What `cyclictest --json` writes.
    RtTestsJson,
    /// The `results.json` of jitterdebugger.
    Jitterdebugger,
    /// A test suite for a continuous integration server.
    Junit,
    /// What the kernel's own tests print.
    Ktap,
    /// Signals for LAVA, the test farms' scheduler.
    Lava,
    /// Metrics for Prometheus and its kin.
    OpenMetrics,
    /// Metrics for node_exporter's textfile collector and the push gateway.
    Prometheus,
    /// The histogram, one row for each bucket in use.
    Csv,
}

impl Format {
    /// All of them, in the order that help shows.
    pub const ALL: [Self; 9] = [
        Self::Cyclictest,
        Self::RtTestsJson,
        Self::Jitterdebugger,
        Self::Junit,
        Self::Ktap,
        Self::Lava,
        Self::OpenMetrics,
        Self::Prometheus,
        Self::Csv,
    ];

    /// The word for `--format`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cyclictest => "cyclictest",
            Self::RtTestsJson => "rt-tests-json",
            Self::Jitterdebugger => "jitterdebugger",
            Self::Junit => "junit",
            Self::Ktap => "ktap",
            Self::Lava => "lava",
            Self::OpenMetrics => "openmetrics",
            Self::Prometheus => "prometheus",
            Self::Csv => "csv",
        }
    }

    /// The name that the tools of the format expect of a file.
    #[must_use]
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Cyclictest => "cyclictest.txt",
            Self::RtTestsJson => "cyclictest.json",
            Self::Jitterdebugger => "results.json",
            Self::Junit => "junit.xml",
            Self::Ktap => "ktap.txt",
            Self::Lava => "lava.txt",
            Self::OpenMetrics => "openmetrics.txt",
            Self::Prometheus => "punctual.prom",
            Self::Csv => "histogram.csv",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = UnknownFormat;

    fn from_str(word: &str) -> Result<Self, UnknownFormat> {
        let mut all = Self::ALL.into_iter();
        all.find(|format| format.name() == word)
            .ok_or(UnknownFormat)
    }
}

/// Writes a run in a foreign format.
///
/// # Errors
/// [`WriteError`], where a histogram of the run can't be decoded; a run that was read
/// by [`detect_and_read`] or [`Document::read`] has none such.
pub fn write(format: Format, run: &Run) -> Result<String, WriteError> {
    match format {
        Format::Cyclictest => cyclictest::write(run),
        Format::RtTestsJson => rt_tests::write(run),
        Format::Jitterdebugger => jitterdebugger::write(run),
        Format::Junit => Ok(junit::write(run)),
        Format::Ktap => Ok(ktap::write(run)),
        Format::Lava => Ok(lava::write(run)),
        Format::OpenMetrics => openmetrics::write(run, Dialect::OpenMetrics),
        Format::Prometheus => openmetrics::write(run, Dialect::Prometheus),
        Format::Csv => csv::write(run),
    }
}

/// Reads a run of ours or of another tool, whichever the file holds. `path` is a
/// file, a run directory, or the output directory of jitterdebugger.
///
/// # Errors
/// [`RecordError`] with the path and the place.
pub fn detect_and_read(path: &Path) -> Result<Run, RecordError> {
    let file = locate(path)?;
    let bytes = slurp(&file, Bounds::FILE)?;
    detect_and_parse(&file, &bytes)
}

fn locate(path: &Path) -> Result<PathBuf, RecordError> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    [Run::FILE, "results.json"]
        .into_iter()
        .map(|name| path.join(name))
        .find(|file| file.exists())
        .ok_or_else(|| RecordError::NoRecord {
            path: path.to_owned(),
            name: Run::FILE,
        })
}

/// As [`detect_and_read`], from memory; `path` is named in errors alone.
///
/// # Errors
/// As [`detect_and_read`].
pub fn detect_and_parse(path: &Path, bytes: &[u8]) -> Result<Run, RecordError> {
    if bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'{') {
        let bytes = &*rt_tests::with_null_for_nan(bytes);
        return match kind_of_json(path, bytes)? {
            Kind::Punctual => Run::parse(path, bytes),
            Kind::Ladder => ladder::read(path, bytes),
            Kind::RtTests => rt_tests::read(path, bytes),
            Kind::Jitterdebugger => jitterdebugger::read(path, bytes),
        };
    }
    if bytes.starts_with(rtla::FIRST_LINE.as_bytes()) {
        return rtla::read(path, limited(path, bytes)?);
    }
    cyclictest::read(path, limited(path, bytes)?)
}

enum Kind {
    Punctual,
    Ladder,
    RtTests,
    Jitterdebugger,
}

/// The fields that tell one JSON from another.
#[derive(serde::Deserialize)]
struct Telltale {
    format: Option<serde_json::Value>,
    thread: Option<serde::de::IgnoredAny>,
    cpu: Option<serde::de::IgnoredAny>,
}

fn kind_of_json(path: &Path, bytes: &[u8]) -> Result<Kind, RecordError> {
    scan::check(path, bytes, &scan::RECORD)?;
    let telltale: Telltale = punctual_record::read::decode(path, bytes)?;
    match telltale {
        Telltale {
            format: Some(format),
            ..
        } if format == Ladder::FORMAT => Ok(Kind::Ladder),
        Telltale {
            format: Some(_), ..
        } => Ok(Kind::Punctual),
        Telltale {
            thread: Some(_), ..
        } => Ok(Kind::RtTests),
        Telltale { cpu: Some(_), .. } => Ok(Kind::Jitterdebugger),
        _ => Err(RecordError::malformed(
            path,
            "",
            "JSON that is neither a punctual record nor results of cyclictest or jitterdebugger",
        )),
    }
}

fn limited<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a [u8], RecordError> {
    if bytes.len() as u64 > FOREIGN_FILE {
        return Err(RecordError::TooLarge {
            path: path.to_owned(),
            limit: FOREIGN_FILE,
        });
    }
    Ok(bytes)
}

/// Decodes foreign JSON within its limits.
fn decode_foreign<'a, T: serde::Deserialize<'a>>(
    path: &Path,
    bytes: &'a [u8],
) -> Result<T, RecordError> {
    let bytes = limited(path, bytes)?;
    scan::check(path, bytes, &scan::FOREIGN)?;
    punctual_record::read::decode(path, bytes)
}

/// Text of the run for a line of output.
fn plain(text: &str) -> String {
    one_line(text)
}

fn pretty(value: &impl serde::Serialize) -> Result<String, WriteError> {
    let mut text = serde_json::to_string_pretty(value).map_err(WriteError::Json)?;
    text.push('\n');
    Ok(text)
}
