//! The flags of `fleet`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use punctual_fleet::Engine;

pub const FLEET_EXAMPLES: &str = "\
Examples:
  punctual fleet slurm --nodes 'n[1-4]' --repeat 3 -o night -- qualify --deadline 50us -D 5m
  punctual fleet ingest results/ -o farm           add all runs below results/ to the dataset farm
  punctual fleet report farm --html farm.html      the page of the dataset; duckdb executes the queries
  punctual fleet sql farm                          which queries there are
  punctual fleet sql farm percentiles | duckdb     percentiles by kernel, hardware, BIOS and load
  punctual fleet sql farm outliers --engine spark > outliers.sql";

/// Flags of `fleet`.
#[derive(Debug, Args)]
pub struct FleetFlags {
    /// What to do
    #[command(subcommand)]
    pub action: FleetAction,
}

/// What `fleet` does.
#[derive(Debug, Subcommand)]
pub enum FleetAction {
    /// Qualify the nodes of a Slurm cluster, each by itself, and bring the runs together
    Slurm(SlurmFlags),
    /// Add runs to a dataset of Parquet files
    Ingest(IngestFlags),
    /// Show a dataset: machines over time, kernels beside each other, machines that stand out
    Report(ReportFlags),
    /// Print a query on a dataset, for DuckDB or Spark
    Sql(SqlFlags),
}

/// Flags of `fleet slurm`.
#[derive(Debug, Args)]
pub struct SlurmFlags {
    /// Qualify the nodes of this partition that take jobs [default: the default partition]
    #[arg(long, value_name = "P")]
    pub partition: Option<String>,
    /// Qualify these nodes, in Slurm's notation: n[1-4,7],m1
    #[arg(long, value_name = "LIST")]
    pub nodes: Option<String>,
    /// Run it this number of times on each node
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=10_000), allow_negative_numbers = true)]
    pub repeat: u32,
    /// Write the runs into this directory, on storage that the nodes share, as NODE/N [default: punctual-fleet-TIME here]
    #[arg(short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Run this program on the nodes, as one with file capabilities [default: this program, copied into the directory]
    #[arg(long, value_name = "PATH")]
    pub punctual: Option<PathBuf>,
    /// Pass this flag to sbatch; may be repeated: --sbatch=--time=30
    #[arg(long, value_name = "FLAG", allow_hyphen_values = true)]
    pub sbatch: Vec<String>,
    /// Print nothing but the table
    #[arg(short, long)]
    pub quiet: bool,
    /// Run this on each node: qualify with its flags
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// Flags of `fleet ingest`.
#[derive(Debug, Args)]
pub struct IngestFlags {
    /// Add these runs, and all runs in directories below these
    #[arg(value_name = "DIR", required = true, num_args = 1..)]
    pub directories: Vec<PathBuf>,
    /// Add to this dataset: a directory, which is made if it does not exist
    #[arg(short, value_name = "DATASET", required = true)]
    pub output: PathBuf,
    /// Print nothing but what was refused
    #[arg(short, long)]
    pub quiet: bool,
}

/// Flags of `fleet report`.
#[derive(Debug, Args)]
pub struct ReportFlags {
    /// Show this dataset
    #[arg(value_name = "DATASET")]
    pub dataset: PathBuf,
    /// Write the HTML page to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// Flags of `fleet sql`.
#[derive(Debug, Args)]
pub struct SqlFlags {
    /// Read this dataset
    #[arg(value_name = "DATASET")]
    pub dataset: PathBuf,
    /// Print this query [default: list them]
    #[arg(value_name = "QUERY")]
    pub query: Option<String>,
    /// Print it for this engine
    #[arg(long, value_name = "ENGINE", default_value = "duckdb")]
    pub engine: EngineName,
}

/// The name of an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// DuckDB.
    Duckdb,
    /// Spark.
    Spark,
}

impl From<EngineName> for Engine {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Duckdb => Self::DuckDb,
            EngineName::Spark => Self::Spark,
        }
    }
}
