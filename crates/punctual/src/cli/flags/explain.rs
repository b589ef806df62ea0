//! The flags of `explain`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

pub(super) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  punctual explain RUN                      stages, ranking, the worst bills, what to do
  punctual explain RUN 2                    the second bill in full, to be pasted into a mail
  punctual explain BEFORE AFTER             which causes are gone, which are new
  punctual explain RUN --perfetto traces    outlier-1.pftrace and so on";

/// Flags of `explain`.
#[derive(Debug, Args)]
pub struct ExplainFlags {
    /// Explain this run: a run directory or a run.json
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Show this bill, counted from 1, or compare with this second run by cause
    #[arg(value_name = "N|RUN")]
    pub which: Option<OsString>,
    /// Make the bills again from the events kept beside the record (windows.jsonl)
    #[arg(long)]
    pub again: bool,
    /// Write each bill's trace for ui.perfetto.dev into this directory
    #[arg(long, value_name = "DIR")]
    pub perfetto: Option<PathBuf>,
    /// Write each bill's picture as SVG into this directory
    #[arg(long, value_name = "DIR")]
    pub svg: Option<PathBuf>,
    /// Print the explanation as JSON
    #[arg(long)]
    pub json: bool,
}
