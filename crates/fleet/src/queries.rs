//! The queries that come with the program: one text for DuckDB and Spark.

use std::fmt::Write as _;
use std::path::Path;

/// A query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    /// Its name.
    pub name: &'static str,
    /// What it answers.
    pub answers: &'static str,
    /// Its text; the tables are views.
    pub sql: &'static str,
}

/// All of them.
pub const QUERIES: &[Query] = &[
    Query {
        name: "percentiles",
        answers: "percentiles of all runs together, by kernel, hardware, BIOS and load",
        sql: include_str!("sql/percentiles.sql"),
    },
    Query {
        name: "exceedance",
        answers: "how often a limit is missed, and an upper bound for it, by kernel, hardware, BIOS and load",
        sql: include_str!("sql/exceedance.sql"),
    },
    Query {
        name: "outliers",
        answers: "machines that miss a limit more often than their peers, beyond chance",
        sql: include_str!("sql/outliers.sql"),
    },
    Query {
        name: "changes",
        answers: "what changed from one kernel to the next on the same hardware",
        sql: include_str!("sql/changes.sql"),
    },
    Query {
        name: "trend",
        answers: "each machine day by day",
        sql: include_str!("sql/trend.sql"),
    },
    Query {
        name: "causes",
        answers: "who stole the time of late wake-ups, over all machines",
        sql: include_str!("sql/causes.sql"),
    },
    Query {
        name: "worst",
        answers: "the runs with the worst wake-ups, and where their records are",
        sql: include_str!("sql/worst.sql"),
    },
];

/// Who executes a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// `duckdb`.
    DuckDb,
    /// `spark-sql`.
    Spark,
}

/// The tables of a batch.
pub(crate) const TABLES: &[&str] = &["runs", "requirements", "histograms", "causes", "invalid"];

impl Engine {
    /// The statements that make a dataset's tables known.
    #[must_use]
    pub fn views(self, dataset: &Path) -> String {
        let folder = dataset.display().to_string();
        let mut text = String::new();
        let tables = TABLES
            .iter()
            .map(|table| (*table, format!("month=*/batch=*/{table}.parquet")));
        for (table, file) in tables.chain([("buckets", "buckets.parquet".to_owned())]) {
            let _ = match self {
                Self::DuckDb => writeln!(
                    text,
                    "create or replace temp view {table} as select * from read_parquet('{}/{file}');",
                    for_duckdb(&folder)
                ),
                Self::Spark => writeln!(
                    text,
                    "create or replace temporary view {table} using parquet options (path '{}/{file}');",
                    for_spark(&folder)
                ),
            };
        }
        text
    }
}

/// A path within single quotes, in which no character means a pattern.
fn for_duckdb(path: &str) -> String {
    let mut text = String::new();
    for c in path.chars() {
        match c {
            '\'' => text.push_str("''"),
            '*' | '?' | '[' => {
                let _ = write!(text, "[{c}]");
            }
            c => text.push(c),
        }
    }
    text
}

/// The same. The backslash before a sign of Hadoop's patterns is one of the string, too.
fn for_spark(path: &str) -> String {
    let mut text = String::new();
    for c in path.chars() {
        match c {
            '\'' => text.push_str("\\'"),
            '*' | '?' | '[' | ']' | '{' | '}' => {
                let _ = write!(text, "\\\\{c}");
            }
            c => text.push(c),
        }
    }
    text
}
