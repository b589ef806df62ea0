//! The flags of `interference`.

use std::path::PathBuf;

use clap::Args;

use super::super::units;
use punctual_load::parameter::parse_number;

pub(super) const INTERFERENCE_EXAMPLES: &str = "\
Examples:
  punctual interference                         100 MB in each of two threads, for 10 s
  punctual interference --map 1G -D 60
  punctual lab --kernel rt -- punctual interference --map 50M    exact, in virtual time";

/// Flags of `interference`.
#[derive(Debug, Args)]
pub struct InterferenceFlags {
    /// Let each of two threads map, touch and unmap so much memory at a time
    #[arg(long, value_name = "BYTES", default_value = "100M", value_parser = map_bytes, allow_hyphen_values = true)]
    pub map: u64,
    /// Measure for this time, in s or with a unit: 30, 1m
    #[arg(short = 'D', long, value_name = "TIME", default_value = "10", value_parser = duration, allow_hyphen_values = true)]
    pub duration: u64,
    /// Write the run into this directory [default: punctual-interference-TIME here]
    #[arg(short, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print every figure as JSON
    #[arg(long, conflicts_with = "verbose")]
    pub json: bool,
    /// Print progress on standard error
    #[arg(short, long)]
    pub verbose: bool,
}

/// A page at least, and what an address space has room for.
fn map_bytes(text: &str) -> Result<u64, &'static str> {
    parse_number(text)
        .filter(|bytes| (1 << 16..=1 << 40).contains(bytes))
        .ok_or("expected a size from 64K to 1024G, such as 100M")
}

/// Long enough for operations with and without mappers; each fault takes a page.
fn duration(text: &str) -> Result<u64, &'static str> {
    let ns = units::duration(text).ok();
    ns.filter(|ns| (1_000_000_000..=300_000_000_000).contains(ns))
        .ok_or("expected a time from 1s to 5m; a bare number is in s")
}
