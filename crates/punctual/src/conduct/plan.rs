//! What the plans of runs and of watches have in common.

use punctual_stats::requirement::Requirement;

/// The requirements, and the confidence of the answer.
#[derive(Debug, Clone)]
pub struct Claim {
    /// The requirements.
    pub requirements: Vec<Requirement>,
    /// Level of confidence, in (0, 1).
    pub confidence: f64,
}

impl Claim {
    /// The deadline that late wake-ups are counted by, in ns.
    #[must_use]
    pub fn deadline_ns(&self) -> Option<u64> {
        self.requirements.first().map(Requirement::limit_ns)
    }
}

/// Which late wake-ups are explained.
#[derive(Debug, Clone, Copy)]
pub struct TracingPlan {
    /// Explain late wake-ups, if the kernel allows it.
    pub explain: bool,
    /// Explain those later than this, in ns; absent for the deadline.
    pub above_ns: Option<u64>,
    /// How late a thread is when the task that runs in its place is interrupted for its stack, in ns.
    pub stack_above_ns: Option<u64>,
}
