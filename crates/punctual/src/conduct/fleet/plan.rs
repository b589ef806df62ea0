//! What is run where, and what is told meanwhile.

use std::path::PathBuf;

/// What is to be run where.
#[derive(Debug, Clone)]
pub struct FleetPlan {
    /// The nodes, each once.
    pub nodes: Vec<String>,
    /// Runs on each node.
    pub repeat: u32,
    /// Flags for `sbatch`.
    pub options: Vec<String>,
    /// The program on the nodes; none: this program, copied into the directory.
    pub program: Option<PathBuf>,
    /// The flags of `qualify`.
    pub flags: Vec<String>,
}

impl FleetPlan {
    pub(super) fn tasks(&self) -> usize {
        self.nodes.len().saturating_mul(self.repeat())
    }

    pub(super) fn repeat(&self) -> usize {
        usize::try_from(self.repeat.max(1)).unwrap_or(usize::MAX)
    }

    /// The node and the repetition of a task, as the batch script has them: all nodes before the second
    /// repetition of one, since tasks that wait for a node hold up those behind them.
    pub(super) fn run_of(&self, index: usize) -> Option<(&str, u32)> {
        let node = self.nodes.get(index.checked_rem(self.nodes.len())?)?;
        let repetition = index / self.nodes.len();
        (repetition < self.repeat()).then_some(())?;
        Some((node, u32::try_from(repetition).ok()?.saturating_add(1)))
    }
}

/// How many runs are where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// All.
    pub total: usize,
    /// Ended.
    pub done: usize,
    /// Under way.
    pub running: usize,
    /// Waiting for their node.
    pub waiting: usize,
    /// A node that one waits for, and why, in Slurm's word.
    pub reason: Option<(String, String)>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_node_and_repetition_is_one_task() {
        let plan = FleetPlan {
            nodes: vec!["n1".to_owned(), "n2".to_owned()],
            repeat: 3,
            options: Vec::new(),
            program: None,
            flags: Vec::new(),
        };
        let all: BTreeSet<_> = (0..plan.tasks()).filter_map(|i| plan.run_of(i)).collect();
        assert_eq!(all.len(), 6);
        assert_eq!(plan.run_of(0), Some(("n1", 1)));
        assert_eq!(plan.run_of(1), Some(("n2", 1)));
        assert_eq!(plan.run_of(5), Some(("n2", 3)));
        assert_eq!(plan.run_of(6), None);
    }
}
