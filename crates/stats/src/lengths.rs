//! The verdict on how long parts of a program took: none may take longer than its limit.
//!
//! What follows on one another in a program is no sequence of trials: an interval that was too
//! long makes the next one short. So no probability is made of how many were too long. A limit
//! was kept while it was watched, or it was not.

use crate::verdict::{Outcome, Verdict, decided};
use serde::{Deserialize, Serialize};

/// How long a part of a program took, and may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthEvidence<'a> {
    /// What it is called.
    pub name: &'a str,
    /// None may take longer, in ns.
    pub limit_ns: u64,
    /// How many were measured.
    pub count: u64,
    /// How many of them took longer.
    pub longer: u64,
    /// The longest, in ns; absent where none was measured.
    pub max_ns: Option<u64>,
}

/// The verdict on how long a part of a program took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LengthResult {
    /// What it is called.
    pub name: String,
    /// None may take longer, in ns.
    pub limit_ns: u64,
    /// How many were measured.
    pub count: u64,
    /// How many of them took longer.
    pub longer: u64,
    /// The longest, in ns; absent where none was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_ns: Option<u64>,
    /// The verdict on it.
    pub outcome: Outcome,
}

impl LengthResult {
    /// The longest, where it took longer than the limit.
    #[must_use]
    pub fn too_long_ns(&self) -> Option<u64> {
        self.max_ns.filter(|max| *max > self.limit_ns)
    }

    pub(crate) fn of(evidence: &LengthEvidence<'_>) -> Self {
        let mut result = Self {
            name: evidence.name.to_owned(),
            limit_ns: evidence.limit_ns,
            count: evidence.count,
            longer: evidence.longer,
            max_ns: evidence.max_ns,
            outcome: Outcome::Pass,
        };
        if result.too_long_ns().is_some() {
            result.outcome = Outcome::Fail;
        } else if result.count == 0 {
            // What was not measured kept no limit.
            result.outcome = Outcome::Inconclusive;
        }
        result
    }
}

/// The verdict on a program of which nothing but these was required, whether it ever slept or not.
#[must_use]
pub fn judge_lengths(lengths: &[LengthEvidence<'_>], confidence: f64) -> Verdict {
    let results = lengths.iter().map(LengthResult::of).collect();
    decided(Vec::new(), results, Vec::new(), confidence)
}

impl Verdict {
    /// The verdict with what parts of the program took: FAIL where one took longer than its
    /// limit, whatever was required beside. An invalid run stays invalid.
    #[must_use]
    pub fn with_lengths(mut self, lengths: &[LengthEvidence<'_>]) -> Self {
        if lengths.is_empty() {
            return self;
        }
        let results = lengths.iter().map(LengthResult::of).collect();
        if self.outcome == Outcome::Invalid {
            self.lengths = results;
            return self.invalidated();
        }
        decided(self.requirements, results, self.tasks, self.confidence)
    }
}
