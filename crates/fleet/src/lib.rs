//! Runs of many machines as one dataset, on engines that exist: Parquet files that DuckDB and Spark
//! read, and the queries that merge them.
//!
//! [`Rows`] is what a dataset keeps of one run, a total function of its record. [`Dataset`] appends
//! rows: a batch of runs becomes visible as a whole or not at all, and a run that is in it already is
//! not added again. [`QUERIES`] are the same text for both engines. Nothing here merges by itself, and
//! nothing averages percentiles: histograms are added.

#![forbid(unsafe_code)]

mod batch;
pub mod buckets;
mod dataset;
mod duckdb;
mod error;
mod ids;
mod page;
mod queries;
mod rows;
mod table;

pub use dataset::{Added, Dataset};
pub use duckdb::{DuckDb, DuckDbError};
pub use error::FleetError;
pub use ids::Id;
pub use queries::{Engine, QUERIES, Query};
pub use rows::{CauseRow, HistogramRow, Naming, RequirementRow, Rows, RunRow, Unfit};
