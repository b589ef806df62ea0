//! Why the worst wake-up of a guest has no bill, as data.

use serde::{Deserialize, Serialize};

use crate::earlier::Sentence;

/// Why the worst wake-up of an observed guest has no bill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NoBill {
    /// The second run, made to find the wake-up, gave another result.
    OtherResult,
    /// The observer did not keep the worst wake-up.
    NotTheWorst,
    /// The kernel's symbols can't be read.
    Symbols {
        /// The text of the error, evidence that nothing parses.
        error: String,
    },
    /// The record does not have exactly one probe thread.
    Threads {
        /// How many it has.
        threads: u64,
    },
    /// The plugin's file can't be read.
    TrailUnreadable {
        /// The system's error.
        error: String,
    },
    /// The plugin's file is too large.
    TrailTooLarge,
    /// The plugin's file has another format.
    NoTrail,
    /// The plugin's file is truncated.
    TrailCut,
    /// The plugin's file has too many stretches.
    Stretches {
        /// How many.
        stretches: u64,
    },
    /// The plugin's file refers to a missing mark.
    NoMark {
        /// The mark.
        mark: u64,
    },
    /// The plugin's file refers to a missing block.
    NoBlock,
    /// The plugin's marks do not match the wake-ups of the record.
    OtherMarks {
        /// How many marks there are.
        marks: u64,
    },
    /// A program woke too rarely.
    FewMarks {
        /// How often it woke.
        marks: u64,
        /// The least number.
        fewest: u64,
    },
    /// A program has no period.
    NoPeriod,
    /// A program has several loops.
    SeveralLoops,
    /// The sentence of an earlier version.
    Earlier {
        /// The sentence.
        text: String,
    },
}

impl Sentence for NoBill {
    fn sentence(text: String) -> Self {
        Self::Earlier { text }
    }
}
