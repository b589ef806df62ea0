//! The runs of a fleet as a table: a row for each node, with its most severe verdict and worst latency.

use std::collections::BTreeMap;

use punctual_stats::verdict::Outcome;

use crate::style::{Style, Tone};
use crate::words;

/// One run of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRun {
    /// The node.
    pub node: String,
    /// The repetition, from 1.
    pub repetition: u32,
    /// How it ended.
    pub end: Ended,
}

impl NodeRun {
    /// Its verdict, if it has one.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        match self.end {
            Ended::Judged { outcome, .. } => Some(outcome),
            Ended::Without(_) => None,
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// It was judged.
    Judged {
        /// The verdict.
        outcome: Outcome,
        /// The worst latency in ns; none if nothing was measured.
        worst_ns: Option<u64>,
    },
    /// It has no verdict.
    Without(Without),
}

/// Why a run has no verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Without {
    /// punctual ended with this status.
    Error(u8),
    /// The record is damaged, and how.
    BadRecord(String),
    /// It is not done yet.
    Unfinished,
    /// It was cancelled.
    Cancelled,
    /// Its time limit was over.
    OutOfTime,
    /// Another job took the node.
    Preempted,
    /// The node failed.
    NodeFailed,
    /// The memory did not suffice.
    OutOfMemory,
    /// This signal killed it.
    Killed(u8),
    /// It was started on another node.
    Elsewhere,
    /// The directory is not shared with the node.
    Unshared,
    /// The run could not be copied to the directory.
    Uncopied,
    /// It ended with this status, and left nothing.
    Nothing(u8),
    /// The cluster has forgotten it, and it left nothing.
    Forgotten,
}

/// Why a run has no verdict, and what to do.
#[must_use]
pub fn reason(why: &Without) -> String {
    match why {
        Without::Error(126 | 127) => {
            "punctual can't be executed on this node: see its slurm.log".to_owned()
        }
        Without::Error(status) => format!("error, exit status {status}: see its slurm.log"),
        Without::BadRecord(what) => what.clone(),
        Without::Unfinished => "not finished".to_owned(),
        Without::Cancelled => "cancelled".to_owned(),
        Without::OutOfTime => "its time limit was over: --sbatch=--time=MINUTES sets it".to_owned(),
        Without::Preempted => "another job took the node".to_owned(),
        Without::NodeFailed => "the node failed".to_owned(),
        Without::OutOfMemory => "out of memory: --sbatch=--mem=0 requests all of a node".to_owned(),
        Without::Killed(signal) => format!("killed by signal {signal}"),
        Without::Elsewhere => "Slurm started it on another node: not measured".to_owned(),
        Without::Unshared => {
            "the directory is not there on this node: choose one on shared storage with -o"
                .to_owned()
        }
        Without::Uncopied => {
            "the run could not be copied to the directory: is the storage full?".to_owned()
        }
        Without::Nothing(status) => format!("exit status {status} and no run"),
        Without::Forgotten => "Slurm has forgotten it, and there is no run".to_owned(),
    }
}

/// A run in one line: `n1, run 2: FAIL, worst 152 µs`.
#[must_use]
pub fn line(run: &NodeRun) -> String {
    let end = match &run.end {
        Ended::Judged { outcome, worst_ns } => {
            let worst = worst_ns.map_or_else(
                || "nothing was measured".to_owned(),
                |ns| format!("worst {}", words::duration(ns)),
            );
            format!("{outcome}, {worst}")
        }
        Ended::Without(why) => reason(why),
    };
    format!("{}, run {}: {end}", run.node, run.repetition)
}

/// The most severe of verdicts: FAIL, INVALID, INCONCLUSIVE, PASS.
#[must_use]
pub fn most_severe(outcomes: impl IntoIterator<Item = Outcome>) -> Option<Outcome> {
    outcomes.into_iter().max_by_key(|outcome| rank(*outcome))
}

fn rank(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Pass => 0,
        Outcome::Inconclusive => 1,
        Outcome::Invalid => 2,
        Outcome::Fail => 3,
    }
}

fn tone(outcome: Option<Outcome>) -> Tone {
    match outcome {
        Some(Outcome::Pass) => Tone::Good,
        Some(Outcome::Fail) | None => Tone::Bad,
        Some(Outcome::Inconclusive) => Tone::Unsure,
        Some(Outcome::Invalid) => Tone::Void,
    }
}

/// The table, a row for each node in the order of the runs, and under it why runs have no verdict.
#[must_use]
pub fn table(runs: &[NodeRun], style: &Style) -> String {
    let mut order: Vec<&str> = Vec::new();
    let mut of_node: BTreeMap<&str, Vec<&NodeRun>> = BTreeMap::new();
    for run in runs {
        let runs = of_node.entry(&run.node).or_default();
        if runs.is_empty() {
            order.push(&run.node);
        }
        runs.push(run);
    }
    let width = order
        .iter()
        .map(|node| node.len())
        .max()
        .unwrap_or(0)
        .max(4);
    let heading = format!("{:width$}  {:12}  {:>12}  runs", "node", "verdict", "worst");
    let mut text = style.paint(Tone::Bold, &heading) + "\n";
    for node in order {
        let runs = &of_node[node];
        let outcomes: Option<Vec<Outcome>> = runs.iter().map(|run| run.outcome()).collect();
        let outcome = outcomes.and_then(most_severe);
        let word = format!("{:12}", outcome.map_or("no verdict", Outcome::word));
        let worst = worst(runs).map_or_else(|| "—".to_owned(), words::duration);
        text.push_str(&format!(
            "{node:width$}  {}  {worst:>12}  {}\n",
            style.paint(tone(outcome), &word),
            counts(runs)
        ));
    }
    for run in runs.iter().filter(|run| run.outcome().is_none()) {
        text.push_str(&format!("{}\n", style.paint(Tone::Plain, &line(run))));
    }
    text
}

fn worst(runs: &[&NodeRun]) -> Option<u64> {
    let worst = |run: &&NodeRun| match run.end {
        Ended::Judged { worst_ns, .. } => worst_ns,
        Ended::Without(_) => None,
    };
    runs.iter().filter_map(worst).max()
}

/// `2 PASS, 1 FAIL`
fn counts(runs: &[&NodeRun]) -> String {
    let kinds = [
        Some(Outcome::Fail),
        Some(Outcome::Invalid),
        Some(Outcome::Inconclusive),
        Some(Outcome::Pass),
        None,
    ];
    let count = |kind: Option<Outcome>| runs.iter().filter(|run| run.outcome() == kind).count();
    let parts: Vec<String> = kinds
        .into_iter()
        .map(|kind| (count(kind), kind.map_or("without", Outcome::word)))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(node: &str, repetition: u32, outcome: Outcome, worst_ns: Option<u64>) -> NodeRun {
        NodeRun {
            node: node.to_owned(),
            repetition,
            end: Ended::Judged { outcome, worst_ns },
        }
    }

    #[test]
    fn a_row_has_the_most_severe_verdict_and_the_worst_latency() {
        let runs = [
            judged("n10", 1, Outcome::Pass, Some(20_000)),
            judged("n10", 2, Outcome::Fail, Some(152_000)),
            judged("n2", 1, Outcome::Invalid, None),
            NodeRun {
                node: "n2".to_owned(),
                repetition: 2,
                end: Ended::Without(Without::Unshared),
            },
        ];
        assert_eq!(
            table(&runs, &Style::plain()),
            "node  verdict              worst  runs\n\
             n10   FAIL                152 µs  1 FAIL, 1 PASS\n\
             n2    no verdict               —  1 INVALID, 1 without\n\
             n2, run 2: the directory is not there on this node: choose one on shared storage with -o\n"
        );
    }

    #[test]
    fn severity_is_that_of_a_lab() {
        use Outcome::{Fail, Inconclusive, Invalid, Pass};
        assert_eq!(most_severe([Pass, Inconclusive]), Some(Inconclusive));
        assert_eq!(most_severe([Invalid, Inconclusive]), Some(Invalid));
        assert_eq!(most_severe([Invalid, Fail, Pass]), Some(Fail));
        assert_eq!(most_severe([]), None);
    }

    #[test]
    fn a_line_names_node_run_and_end() {
        assert_eq!(
            line(&judged("n1", 2, Outcome::Pass, Some(9_000))),
            "n1, run 2: PASS, worst 9 µs"
        );
        assert_eq!(
            line(&judged("n1", 1, Outcome::Invalid, None)),
            "n1, run 1: INVALID, nothing was measured"
        );
    }
}
