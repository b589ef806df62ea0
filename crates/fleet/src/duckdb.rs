//! The queries of a dataset, executed by DuckDB's program.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;

use punctual_record::fleet::{Answers, MachineRow, OutlierRow};
use serde::de::DeserializeOwned;

use super::page;
use super::queries::{Engine, QUERIES};

const PROGRAM: &str = "duckdb";
/// An answer is not longer: some hundred thousand rows.
const MOST_BYTES: u64 = 256 << 20;
/// So many machines are shown day by day.
const MOST_MACHINES: usize = 40;

/// What went wrong, in one line that says what to do.
#[derive(Debug)]
#[non_exhaustive]
pub enum DuckDbError {
    /// It is not installed.
    Absent,
    /// It can't be started or talked to.
    Start(io::Error),
    /// It refused a query.
    Refused {
        /// Which.
        query: String,
        /// What it said.
        said: String,
    },
    /// An answer can't be read.
    Junk {
        /// To which query.
        query: String,
        /// Why.
        why: String,
    },
}

impl fmt::Display for DuckDbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => write!(
                f,
                "there is no {PROGRAM} in the path: install DuckDB's command line (one file, duckdb.org), or \
                 execute what `punctual fleet sql` prints with Spark"
            ),
            Self::Start(error) => write!(f, "{PROGRAM}: {error}"),
            Self::Refused { query, said } => write!(f, "{PROGRAM}, query {query}: {said}"),
            Self::Junk { query, why } => write!(
                f,
                "{PROGRAM}, query {query}: its answer can't be read ({why}): version 1.0 or newer is needed"
            ),
        }
    }
}

/// DuckDB on a dataset.
#[derive(Debug)]
pub struct DuckDb {
    views: String,
    version: String,
}

impl DuckDb {
    /// Looks for the program.
    ///
    /// # Errors
    /// It is not installed, or can't be started.
    pub fn on(dataset: &Path) -> Result<Self, DuckDbError> {
        let version = Command::new(PROGRAM)
            .arg("--version")
            .stdin(Stdio::null())
            .output()
            .map_err(started)?;
        let version = String::from_utf8_lossy(&version.stdout);
        let version = version.split_whitespace().next().unwrap_or("unknown");
        Ok(Self {
            views: Engine::DuckDb.views(dataset),
            version: version.to_owned(),
        })
    }

    /// `DuckDB v1.5.6`
    #[must_use]
    pub fn name(&self) -> String {
        format!("DuckDB {}", self.version)
    }

    /// All that a page shows.
    ///
    /// # Errors
    /// DuckDB refused a query, or its answer can't be read.
    pub fn answers(&self) -> Result<Answers, DuckDbError> {
        let overview = self.rows("overview", page::OVERVIEW)?;
        let outliers: Vec<OutlierRow> = self.shipped("outliers")?;
        let worst: Vec<MachineRow> = self.rows("machines", page::MACHINES)?;
        let names = shown(&outliers, &worst);
        Ok(Answers {
            overview: overview.into_iter().next().unwrap_or_default(),
            percentiles: self.shipped("percentiles")?,
            exceedance: self.shipped("exceedance")?,
            changes: self.shipped("changes")?,
            causes: self.shipped("causes")?,
            worst: self.shipped("worst")?,
            ridges: self.rows("ridges", page::RIDGES)?,
            days: self.rows("days", &page::days(&names))?,
            bills: self.rows("bills", &page::bills(&names))?,
            machines: self.rows("machines", &page::named(&names))?,
            outliers,
        })
    }

    fn shipped<T: DeserializeOwned>(&self, name: &str) -> Result<Vec<T>, DuckDbError> {
        let query = QUERIES.iter().find(|query| query.name == name);
        self.rows(name, query.map_or("", |query| query.sql))
    }

    /// The rows that a query answers.
    fn rows<T: DeserializeOwned>(&self, name: &str, sql: &str) -> Result<Vec<T>, DuckDbError> {
        let script = format!("{}\n{};\n", self.views, sql.trim_end());
        let answer = execute(name, script)?;
        // No row may be no output, or an empty list.
        if answer.iter().all(u8::is_ascii_whitespace) {
            return Ok(Vec::new());
        }
        serde_json::from_slice(&answer).map_err(|error| DuckDbError::Junk {
            query: name.to_owned(),
            why: error.to_string(),
        })
    }
}

/// The machines that are shown day by day: those that stand out, then the others in their order.
fn shown<'a>(outliers: &'a [OutlierRow], worst: &'a [MachineRow]) -> Vec<&'a str> {
    let outliers = outliers.iter().map(|row| &*row.machine);
    let mut names: Vec<&str> = Vec::new();
    for name in outliers.chain(worst.iter().map(|row| &*row.machine)) {
        if names.len() < MOST_MACHINES && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn started(error: io::Error) -> DuckDbError {
    match error.kind() {
        io::ErrorKind::NotFound => DuckDbError::Absent,
        _ => DuckDbError::Start(error),
    }
}

impl std::error::Error for DuckDbError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Start(error) => Some(error),
            _ => None,
        }
    }
}

/// What DuckDB prints of a script.
fn execute(name: &str, script: String) -> Result<Vec<u8>, DuckDbError> {
    let mut child = Command::new(PROGRAM)
        // What a user sets for other uses must not change what is printed.
        .args(["-json", "-bail", "-init", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(started)?;
    let (answer, said) = exchange(&mut child, script).map_err(DuckDbError::Start)?;
    let status = child.wait().map_err(DuckDbError::Start)?;
    let query = name.to_owned();
    if is_too_long(&answer) {
        let why = format!("more than {} MB", MOST_BYTES >> 20);
        return Err(DuckDbError::Junk { query, why });
    }
    let said = String::from_utf8_lossy(&said);
    // It explains itself over several lines; the first has the reason.
    let said = said
        .lines()
        .map(str::trim)
        .find(|line| line.contains("Error"));
    match said {
        None if status.success() => Ok(answer),
        said => Err(DuckDbError::Refused {
            query,
            said: said.map_or_else(|| status.to_string(), str::to_owned),
        }),
    }
}

fn is_too_long(answer: &[u8]) -> bool {
    answer.len() as u64 > MOST_BYTES
}

/// Sends the script and reads what is printed and complained, each by itself so that none waits for
/// another.
fn exchange(child: &mut Child, script: String) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = (stdin, stdout, stderr) else {
        return Err(io::ErrorKind::BrokenPipe.into());
    };
    thread::scope(|scope| {
        // It ends where the program ends: then its complaint says why.
        scope.spawn(move || stdin.write_all(script.as_bytes()));
        let complaint = scope.spawn(move || {
            let mut said = Vec::new();
            let read = stderr.take(1 << 20).read_to_end(&mut said);
            read.map(|_| said)
        });
        let mut answer = Vec::new();
        let read = stdout.take(MOST_BYTES + 1).read_to_end(&mut answer);
        if read.is_err() || is_too_long(&answer) {
            // Nobody reads the rest: it would wait for ever.
            child.kill()?;
        }
        read?;
        let said = complaint.join();
        let said = said.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?;
        Ok((answer, said))
    })
}
