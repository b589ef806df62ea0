//! The flags of `explain`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use punctual_trace::foreign::ThreadFilter;

pub(super) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  punctual explain RUN                      stages, ranking, the worst bills, what to do
  punctual explain RUN 2                    the second bill in full, for a mail
  punctual explain RUN --list               all outliers with their numbers
  punctual explain BEFORE AFTER             which causes are gone, which are new
  punctual explain RUN --perfetto traces    outlier-1.pftrace and so on
  punctual explain timerlat_trace.txt       the trace that rtla saved; also trace.dat, perf.data
  punctual explain perf.data --comm ctl     only the wake-ups of threads of this name";

/// Flags of `explain`.
#[derive(Debug, Args)]
pub struct ExplainFlags {
    /// Explain this run: a run directory or a run.json; or a recording: trace.dat, perf.data, or the text of a stopped trace (rtla, tracefs)
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// Show this bill, counted from 1, or compare with this second run by cause
    #[arg(value_name = "N|RUN")]
    pub which: Option<OsString>,
    /// Print all outliers that have a bill or kept events, one per line: number, time, CPU, latency and main cause
    #[arg(long, conflicts_with_all = ["which", "json"])]
    pub list: bool,
    /// Make the bills again from the events kept beside the record (windows.jsonl, outliers.jsonl.gz)
    #[arg(long)]
    pub again: bool,
    /// Explain only the wake-ups of the thread with this number (TID) in a recording; may be repeated
    #[arg(long, value_name = "N")]
    pub tid: Vec<u32>,
    /// Explain only the wake-ups of threads with this name in a recording; may be repeated
    #[arg(long, value_name = "NAME")]
    pub comm: Vec<String>,
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

impl ExplainFlags {
    /// The threads of a recording whose wake-ups are explained.
    pub fn threads(&self) -> ThreadFilter {
        ThreadFilter {
            tids: self.tid.clone(),
            names: self.comm.clone(),
        }
    }
}
