//! Rows of many runs, in the columns of the dataset's tables.

use std::fs;
use std::path::Path;

use punctual_record::parquet::{Column, Values};

use super::error::FleetError;
use super::ids::{self, Id};
use super::rows::{CauseRow, HistogramRow, RequirementRow, Rows, RunRow};
use super::table::write;

/// Runs of one month that become visible together.
#[derive(Debug, Default)]
pub struct Batch {
    runs: Vec<RunRow>,
    invalid: Vec<RunRow>,
    requirements: Vec<(i64, RequirementRow)>,
    histograms: Vec<(i64, HistogramRow)>,
    causes: Vec<(i64, CauseRow)>,
}

/// A column of rows: its name, and what of each row stands in it.
macro_rules! column {
    ($rows:expr, $kind:ident, $name:literal, $value:expr) => {
        Column {
            name: $name,
            values: Values::$kind($rows.iter().map($value).collect()),
        }
    };
}

impl Batch {
    /// Adds a run.
    pub fn add(&mut self, rows: Rows) {
        if rows.is_invalid {
            // Its figures mean nothing.
            self.invalid.push(rows.run);
            return;
        }
        let key = rows.run.id.key();
        self.runs.push(rows.run);
        let requirements = rows.requirements.into_iter().map(|row| (key, row));
        self.requirements.extend(requirements);
        let histogram = rows.histogram.into_iter().map(|row| (key, row));
        self.histograms.extend(histogram);
        self.causes
            .extend(rows.causes.into_iter().map(|row| (key, row)));
    }

    /// How many runs there are.
    pub fn len(&self) -> usize {
        self.runs.len() + self.invalid.len()
    }

    /// The ids of all runs, sorted.
    pub fn ids(&self) -> Vec<Id> {
        let all = self.runs.iter().chain(&self.invalid);
        let mut ids: Vec<Id> = all.map(|run| run.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Writes all tables, and the list of runs, into an empty directory.
    ///
    /// # Errors
    /// The disk's.
    pub fn save(&self, folder: &Path) -> Result<(), FleetError> {
        let tables = [
            ("runs", of_runs(&self.runs)),
            ("invalid", of_runs(&self.invalid)),
            ("requirements", of_requirements(&self.requirements)),
            ("histograms", of_histograms(&self.histograms)),
            ("causes", of_causes(&self.causes)),
        ];
        for (name, columns) in tables {
            let path = folder.join(format!("{name}.parquet"));
            write(&path, &columns)?;
        }
        let listed = ids::write(folder, &self.ids());
        listed.map_err(|error| FleetError::file(&folder.join(ids::FILE), error))?;
        let directory = fs::File::open(folder).and_then(|folder| folder.sync_all());
        directory.map_err(|error| FleetError::file(folder, error))
    }
}

fn of_runs(rows: &[RunRow]) -> Vec<Column> {
    vec![
        column!(rows, Long, "run", |it| it.id.key()),
        column!(rows, Text, "id", |it| it.id.to_string()),
        column!(rows, Text, "machine", |it| it.machine.clone()),
        column!(rows, Text, "started", |it| it.started.clone()),
        column!(rows, Text, "day", |it| it.day.clone()),
        column!(rows, Text, "verb", |it| it.verb.clone()),
        column!(rows, Text, "tool", |it| it.tool.clone()),
        column!(rows, Text, "kernel", |it| it.kernel.clone()),
        column!(rows, Text, "kernel_build", |it| it.kernel_build.clone()),
        column!(rows, Text, "preemption", |it| it.preemption.clone()),
        column!(rows, Text, "architecture", |it| it.architecture.clone()),
        column!(rows, Text, "command_line", |it| it.command_line.clone()),
        column!(rows, TextOrNone, "distribution", |it| it
            .distribution
            .clone()),
        column!(rows, Text, "processor", |it| it.processor.clone()),
        column!(rows, TextOrNone, "microcode", |it| it.microcode.clone()),
        column!(rows, Int, "cpus", |it| it.cpus),
        column!(rows, Text, "hardware", |it| it.hardware.clone()),
        column!(rows, TextOrNone, "bios", |it| it.bios.clone()),
        column!(rows, TextOrNone, "hypervisor", |it| it.hypervisor.clone()),
        column!(rows, Text, "source", |it| it.source.clone()),
        column!(rows, Long, "interval_ns", |it| it.interval_ns),
        column!(rows, Int, "threads", |it| it.threads),
        column!(rows, Text, "policy", |it| it.policy.clone()),
        column!(rows, Int, "priority", |it| it.priority),
        column!(rows, Text, "load", |it| it.load.clone()),
        column!(rows, Long, "measured_ns", |it| it.measured_ns),
        column!(rows, TextOrNone, "verdict", |it| it.verdict.clone()),
        column!(rows, Int, "reasons", |it| it.reasons),
        column!(rows, Long, "samples", |it| it.samples),
        column!(rows, Long, "skipped", |it| it.skipped),
        column!(rows, LongOrNone, "minimum_ns", |it| it.minimum_ns),
        column!(rows, LongOrNone, "maximum_ns", |it| it.maximum_ns),
        column!(rows, DoubleOrNone, "mean_ns", |it| it.mean_ns),
        column!(rows, Text, "record", |it| it.record.clone()),
    ]
}

fn of_requirements(rows: &[(i64, RequirementRow)]) -> Vec<Column> {
    vec![
        column!(rows, Long, "run", |it| it.0),
        column!(rows, Int, "number", |it| it.1.number),
        column!(rows, Text, "kind", |it| it.1.kind.to_owned()),
        column!(rows, Long, "limit_ns", |it| it.1.limit_ns),
        column!(rows, Double, "allowed", |it| it.1.allowed),
        column!(rows, Text, "verdict", |it| it.1.verdict.to_owned()),
        column!(rows, Long, "cycles", |it| it.1.cycles),
        column!(rows, Long, "misses", |it| it.1.misses),
        column!(rows, Long, "late", |it| it.1.late),
        column!(rows, Long, "skipped", |it| it.1.skipped),
        column!(rows, Double, "dispersion", |it| it.1.dispersion),
        column!(rows, Double, "upper", |it| it.1.upper),
    ]
}

fn of_histograms(rows: &[(i64, HistogramRow)]) -> Vec<Column> {
    vec![
        column!(rows, Long, "run", |it| it.0),
        column!(rows, Int, "bucket", |it| it.1.bucket),
        column!(rows, Long, "count", |it| it.1.count),
    ]
}

fn of_causes(rows: &[(i64, CauseRow)]) -> Vec<Column> {
    vec![
        column!(rows, Long, "run", |it| it.0),
        column!(rows, Text, "kind", |it| it.1.kind.clone()),
        column!(rows, Text, "cause", |it| it.1.cause.clone()),
        column!(rows, Long, "bills", |it| it.1.bills),
        column!(rows, Long, "tail_ns", |it| it.1.tail_ns),
        column!(rows, Long, "worst_ns", |it| it.1.worst_ns),
    ]
}
