//! `lab.json`: what the laboratory leaves of all runs that were made together.

mod bound;
mod cost;
mod no_bill;
mod no_result;
mod proof;
mod tasks;

use std::collections::BTreeSet;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};

pub use self::bound::{LabBound, LabWindow, NoBound};
pub use self::cost::{LabCost, LabOperation, Operation};
pub use self::no_bill::NoBill;
pub use self::no_result::{
    FrameFault, GuestFault, GuestProcess, NoResult, Preparation, Silence, StreamFault,
};
pub use self::proof::{LabProof, ProofConclusion, ProofPair, ProofParameter, ProofRow};
pub use self::tasks::{ChainTime, LabChain, LabTask};
use super::bounds::{Broken, at_most, ensure};
use super::document::Document;
use super::judgement::Judgement;
use super::laboratory::Laboratory;
use super::run::{ImportedThread, Run, Tool};
use super::taskset::{CHAINS, TASKS};

/// Cells of one lab.
const MOST_CELLS: usize = 1 << 14;
/// Rows of one experiment with boot parameters.
const MOST_ROWS: usize = 1 << 10;

/// Runs that were made together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lab {
    /// Always that of [`crate::Document`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = <Lab as crate::Document>::FORMAT)))]
    pub format: String,
    /// As above.
    #[cfg_attr(feature = "schema", schemars(extend("const" = <Lab as crate::Document>::VERSION)))]
    pub version: u32,
    /// The program that wrote it.
    pub tool: Tool,
    /// The command line as it was given.
    pub command: Vec<String>,
    /// When it was begun, RFC 3339 in UTC.
    pub started: String,
    /// Machines that ran side by side.
    pub jobs: u64,
    /// The host's time from begin to end, in seconds.
    pub host_s: f64,
    /// One entry for each machine, in the order of the table.
    pub cells: Vec<LabCell>,
    /// Which boot parameter helped, where that was the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<LabProof>,
}

/// One machine: a kernel, a load, a seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabCell {
    /// Its column in the table: the kernel as it was requested, or an experiment's name of it.
    pub kernel: String,
    /// The load's name in the table.
    pub load: String,
    /// The seed.
    pub seed: u64,
    /// Where an experiment has several commands for the same machine: which of them this is. Its
    /// column then has the names of both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<LabVariant>,
    /// What the loads beside it got done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loads: Vec<LabLoad>,
    /// Its directory, from that of the lab.
    pub directory: String,
    /// The host's time that it took, in seconds.
    pub host_s: f64,
    /// The exit status of what ran: a verdict's, or a program's.
    pub status: Option<i32>,
    /// Why there is no result, where there is none.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::earlier::optional"
    )]
    pub error: Option<NoResult>,
    /// What was measured, where something was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<CellFigures>,
    /// The tasks, where a set was executed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<LabTask>,
    /// Its chains, each with its reaction and its age.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub chains: Vec<LabChain>,
    /// The verdict, where something was required or the run is not valid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Judgement>,
    /// Bills of the latest wake-ups, the latest first, where the guest was observed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bills: Vec<LabBill>,
    /// Why there is no bill of the worst wake-up, where one was wanted.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "super::earlier::optional"
    )]
    pub no_bill: Option<NoBill>,
    /// How late a wake-up could have been, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<LabBound>,
    /// Why there is no bound, where one was wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_bound: Option<NoBound>,
    /// What operations cost, where that was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<LabCost>,
    /// All that the result depends on, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub laboratory: Option<Laboratory>,
}

/// One of several commands on the same machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabVariant {
    /// The machine as the experiment names it.
    pub machine: String,
    /// The command as the experiment names it.
    pub name: String,
    /// Whether its figures may be compared with the others': not where it measures something else.
    pub ranked: bool,
}

/// What a load got done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabLoad {
    /// Its name.
    pub name: String,
    /// Work done, in `unit`.
    pub work: u64,
    /// What it is counted in.
    pub unit: String,
    /// Work for each virtual second that it ran.
    pub rate: f64,
}

/// Where the time of one wake-up went: the instructions that ran from the requested instant
/// until the thread read the clock again, one virtual ns each, by function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabBill {
    /// The requested instant, CLOCK_MONOTONIC in the guest. Of a program the observer doesn't know
    /// it: then it is counted from when its earliest wake-up would have come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_ns: Option<u64>,
    /// The latency, or of a program by how much later it woke than at its earliest; the rows' sum.
    pub total_ns: u64,
    /// The most expensive first.
    pub rows: Vec<LabBillRow>,
}

/// One function of the guest's kernel, or what stands for all that has no name there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabBillRow {
    /// Its name; in brackets what is none: `(user)`, `(module)`, `(not kept)`.
    pub function: String,
    /// Instructions in it.
    pub instructions: u64,
}

/// The figures of a run, all threads together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CellFigures {
    /// Wake-ups.
    pub samples: u64,
    /// Periods skipped while a thread was late.
    pub missed: u64,
    /// Lowest.
    pub min_ns: u64,
    /// Mean.
    pub mean_ns: f64,
    /// Median.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Highest.
    pub max_ns: u64,
}

impl CellFigures {
    /// Those of a record; absent where nothing was measured.
    #[must_use]
    pub fn from_run(run: &Run) -> Option<Self> {
        use punctual_stats::histogram::Histogram;
        let mut all = Histogram::default();
        for thread in &run.threads {
            all.merge(&Histogram::try_from(&thread.latency).ok()?);
        }
        let mut mean_ns = all.mean()?;
        if let Some(imported) = &run.imported {
            // What another tool counted and did not keep lies above all that it kept; of more
            // than one such its own mean knows.
            let sum = |of: fn(&ImportedThread) -> f64| imported.threads.iter().map(of).sum::<f64>();
            let beyond = imported.threads.iter().map(|thread| thread.beyond);
            let unkept = beyond.fold(0, u64::saturating_add);
            if unkept > 0 {
                let count = sum(|thread| thread.count as f64);
                mean_ns = sum(|of| of.mean_ns.unwrap_or(0.0) * of.count as f64) / count;
                all.record_n(all.max()?, unkept);
            }
        }
        Some(Self {
            samples: all.count(),
            missed: run
                .threads
                .iter()
                .fold(0, |sum, thread| sum.saturating_add(thread.missed)),
            min_ns: all.min()?,
            mean_ns,
            p50_ns: all.quantile(0.5)?,
            p99_ns: all.quantile(0.99)?,
            max_ns: all.max()?,
        })
    }
}

impl Document for Lab {
    const WHAT: &'static str = "lab record";
    const FILE: &'static str = "lab.json";
    const PAGE: Option<&'static str> = Some("lab.html");
    const FORMAT: &'static str = "punctual-lab";
    const VERSION: u32 = 2;

    fn header(&self) -> (&str, u32) {
        (&self.format, self.version)
    }

    fn promises(&self) -> Result<(), Broken> {
        promises(self)
    }
}

/// What a lab promises beyond its types.
fn promises(lab: &Lab) -> Result<(), Broken> {
    at_most(lab.cells.len(), MOST_CELLS, "cells")?;
    // A table has a place for each kernel with each load, and each place looks at all cells.
    let distinct = |name: fn(&LabCell) -> &str| lab.cells.iter().map(name).collect::<BTreeSet<_>>();
    let (kernels, loads) = (distinct(|c| &c.kernel).len(), distinct(|c| &c.load).len());
    ensure(
        kernels.saturating_mul(loads) <= MOST_CELLS,
        "cells",
        format!("{kernels} kernels with {loads} loads"),
    )?;
    // Each row is compared with the others, to find its control.
    let rows = lab.proof.as_ref().map_or(0, |proof| proof.rows.len());
    at_most(rows, MOST_ROWS, "proof.rows")?;
    for (index, cell) in lab.cells.iter().enumerate() {
        at_most(cell.tasks.len(), TASKS, format!("cells[{index}].tasks"))?;
        let chains = format!("cells[{index}].chains");
        at_most(cell.chains.len(), 2 * CHAINS, chains)?;
        let mut parts = Path::new(&cell.directory).components();
        ensure(
            parts.all(|part| matches!(part, Component::Normal(_))),
            format!("cells[{index}].directory"),
            "leads out of the lab's directory",
        )?;
    }
    Ok(())
}
