//! What is required of a machine.

use serde::{Deserialize, Serialize};

/// One requirement on wake-up latency.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Requirement {
    /// A cycle misses `deadline_ns` with a probability of at most `allowed`.
    /// With `allowed` = 0 no miss may be seen; skipped periods are misses.
    MissProbability {
        /// Later than this (ns) is a miss.
        deadline_ns: u64,
        /// Allowed probability, 0..1.
        allowed: f64,
    },
    /// No sample may be later than `limit_ns`.
    Max {
        /// The limit in ns.
        limit_ns: u64,
    },
    /// The percentile lies at or below `limit_ns`: a cycle is later with a
    /// probability of at most 1 - percentile/100. Skipped periods count as later.
    Percentile {
        /// The percentile, 0..100.
        percentile: f64,
        /// The limit in ns.
        limit_ns: u64,
    },
    /// Misses come in at most so many episodes an hour ([`crate::miss::Episodes`]), however many misses one has.
    Episodes {
        /// Later than this (ns) is a miss.
        deadline_ns: u64,
        /// Allowed episodes an hour, on average; above 0.
        per_hour: f64,
    },
}

impl Requirement {
    /// Later than this (ns) is a miss.
    pub fn limit_ns(&self) -> u64 {
        match *self {
            Requirement::MissProbability { deadline_ns, .. }
            | Requirement::Episodes { deadline_ns, .. } => deadline_ns,
            Requirement::Max { limit_ns } | Requirement::Percentile { limit_ns, .. } => limit_ns,
        }
    }

    /// The same for another limit (ns).
    #[must_use]
    pub(crate) fn with_limit(mut self, ns: u64) -> Self {
        match &mut self {
            Requirement::MissProbability { deadline_ns, .. }
            | Requirement::Episodes { deadline_ns, .. } => *deadline_ns = ns,
            Requirement::Max { limit_ns } | Requirement::Percentile { limit_ns, .. } => {
                *limit_ns = ns;
            }
        }
        self
    }

    /// Allowed probability of a miss; 0 means that none may be seen. Episodes limit none.
    pub fn allowed(&self) -> f64 {
        match *self {
            Requirement::MissProbability { allowed, .. } => allowed.clamp(0.0, 1.0),
            Requirement::Max { .. } => 0.0,
            Requirement::Episodes { .. } => 1.0,
            // Decimal fractions: 100 - 99.9 is not 0.1 in binary.
            Requirement::Percentile { percentile, .. } => {
                let beyond = (100.0 - percentile.clamp(0.0, 100.0)) / 100.0;
                (beyond * 1e12).round() / 1e12
            }
        }
    }

    /// Whether a skipped period counts as a miss.
    pub fn counts_missed(&self) -> bool {
        !matches!(self, Requirement::Max { .. })
    }
}
