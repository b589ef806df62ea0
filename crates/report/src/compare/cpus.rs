//! The CPUs of one run compared: they were measured at the same time.

use punctual_record::Field;
use punctual_stats::compare::{Members, Untested, members};
use serde::Serialize;

use super::{CompareError, MOST_SKIPPED, skipped};
use crate::figures::Figures;
use punctual_record::Run;

/// One probe thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cpu {
    /// `CPU 1`, or the name of a thread.
    pub name: String,
    /// Samples.
    pub samples: u64,
    /// Median, where it is supported.
    pub p50_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p999_ns: Option<u64>,
    /// Exact maximum.
    pub max_ns: Option<u64>,
}

/// The CPUs of one run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cpus {
    /// When the run was begun.
    pub started: String,
    /// Time measured, where that is known.
    pub measured_ns: Option<u64>,
    /// One for each probe thread.
    pub cpus: Vec<Cpu>,
    /// Each beside the others.
    pub statistics: Members,
}

/// Compares the CPUs of a run. Without `confidence` it is the run's own.
///
/// # Errors
/// [`CompareError::OneThread`], where it has no two of them.
pub fn compare_cpus(run: &Run, confidence: Option<f64>) -> Result<Cpus, CompareError> {
    if run.threads.len() < 2 {
        return Err(CompareError::OneThread);
    }
    let figures = Figures::from_run(run);
    let cpus = figures
        .rows
        .iter()
        .map(|row| Cpu {
            name: row.name.clone(),
            samples: row.count,
            p50_ns: row.percentile(50.0),
            p99_ns: row.percentile(99.0),
            p999_ns: row.percentile(99.9),
            max_ns: row.max,
        })
        .collect();
    let confidence = confidence.unwrap_or(run.request.confidence);
    let shares = || run.threads.iter().map(|it| skipped(std::iter::once(it)));
    let most = shares().fold(0.0, f64::max);
    let least = shares().fold(1.0, f64::min);
    let untested = |why| Members {
        members: Vec::new(),
        basis: None,
        untested: Some(why),
        confidence,
    };
    let statistics = match &run.blocks {
        _ if most - least > MOST_SKIPPED => untested(Untested::Skipped),
        Some(blocks) if !blocks.threads.is_empty() => {
            members(&blocks.threads, blocks.width_ns, confidence)
        }
        _ => untested(Untested::NoBlocks),
    };
    Ok(Cpus {
        started: run.started.clone(),
        measured_ns: run.knows(Field::MeasuredTime).then_some(run.measured_ns),
        cpus,
        statistics,
    })
}
