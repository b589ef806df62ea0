//! `fleet ingest`: adds runs to a dataset.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::super::failure::{Failure, SETUP};
use super::super::out;
use super::flags::IngestFlags;
use crate::conduct::Signals;
use punctual_fleet::{Added, Dataset, Naming, Rows};
use punctual_record::{Document, Run, read_each};
use punctual_report::explain;
use punctual_report::facts;

/// Directories within directories: results of nodes and repetitions, and no loop.
const MOST_DEPTH: usize = 32;

/// How facts are called in the dataset.
const NAMING: Naming = Naming {
    cause: explain::name,
    source: facts::source,
    hypervisor: facts::hypervisor,
};

#[derive(Default)]
struct Tally {
    new: usize,
    invalid: usize,
    known: usize,
    refused: usize,
}

/// Adds all runs that are found.
///
/// # Errors
/// A directory can't be read, or the dataset not be written.
pub fn run(flags: &IngestFlags) -> Result<ExitCode, Failure> {
    let mut paths = BTreeSet::new();
    for directory in &flags.directories {
        let before = paths.len();
        collect(directory, MOST_DEPTH, &mut paths)
            .map_err(|error| Failure::setup(format!("{}: {error}", directory.display())))?;
        if paths.len() == before {
            out::complain(&format!(
                "{}: no run in it, and none below",
                directory.display()
            ));
        }
    }
    let paths: Vec<PathBuf> = paths.into_iter().collect();
    let signals = Signals::listen().map_err(Failure::setup)?;
    let mut dataset = Dataset::open(&flags.output).map_err(Failure::setup)?;
    let mut tally = Tally::default();
    // To read and decode them is nearly all of the work: on all processors.
    let taken = read_each(&paths, Prepared::of, |path, prepared| {
        if signals.end().is_some() {
            return Err(Failure::setup("interrupted"));
        }
        let prepared = prepared.map_err(|error| error.to_string());
        let rows = prepared.and_then(|prepared| {
            let rows = prepared.rows(path);
            rows.map_err(|why| format!("{}: {why}", path.display()))
        });
        match rows {
            Ok(rows) => match dataset.add(rows).map_err(Failure::setup)? {
                Added::New => tally.new += 1,
                Added::Invalid => tally.invalid += 1,
                Added::Known => tally.known += 1,
            },
            Err(line) => {
                tally.refused += 1;
                out::complain(&format!("refused: {line}"));
            }
        }
        Ok(())
    });
    // What was read before a signal counts.
    dataset.finish().map_err(Failure::setup)?;
    if !flags.quiet {
        out::print(&said(&tally, &flags.output));
    }
    taken?;
    let status = if tally.refused > 0 { SETUP } else { 0 };
    Ok(status.into())
}

/// A run's rows, but for its place.
struct Prepared(Result<Rows, punctual_fleet::Unfit>);

impl Prepared {
    fn of(run: Run) -> Self {
        Self(Rows::of(&run, "", &NAMING))
    }

    fn rows(self, path: &Path) -> Result<Rows, punctual_fleet::Unfit> {
        let mut rows = self.0?;
        let folder = path.parent().unwrap_or(path);
        let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
        rows.run.record = folder.display().to_string();
        Ok(rows)
    }
}

fn said(tally: &Tally, dataset: &Path) -> String {
    let runs = |count: usize| match count {
        1 => "1 run".to_owned(),
        count => format!("{count} runs"),
    };
    let mut parts = vec![format!("{} added", runs(tally.new))];
    let others = [
        (tally.invalid, "not valid, kept apart"),
        (tally.known, "known before"),
        (tally.refused, "refused"),
    ];
    for (count, what) in others.into_iter().filter(|(count, _)| *count > 0) {
        parts.push(format!("{count} {what}"));
    }
    format!("{}: {}\n", dataset.display(), parts.join(", "))
}

/// Finds the records in a directory and below, without following links. What is hidden is no result: attempts
/// that a cluster's scheduler repeated, for example.
fn collect(path: &Path, depth: usize, found: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    if path.is_file() {
        found.insert(path.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let name = entry.file_name();
        if kind.is_file() && name == Run::FILE {
            found.insert(entry.path());
        } else if kind.is_dir() && depth > 0 && !name.to_string_lossy().starts_with('.') {
            collect(&entry.path(), depth - 1, found)?;
        }
    }
    Ok(())
}
