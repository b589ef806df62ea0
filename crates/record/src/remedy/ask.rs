//! What the bills of a run ask for, by the time that it cost.

use super::{Obstacle, Surroundings, remedy};
use crate::explanation::{Cause, Explanation, Ranked};
use crate::finding::{Check, Finding, FindingId, StateKind};
use crate::run::Run;

/// What some causes cost together.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CauseCost {
    /// The causes, the dearest first.
    pub causes: Vec<Cause>,
    /// Their time. No nanosecond of a bill stands in two causes.
    pub total_ns: u64,
    /// The bills in which they stand, those of each cause added up.
    pub count: u64,
    /// The most that one of them took of one bill.
    pub worst_ns: u64,
}

impl CauseCost {
    fn add(&mut self, ranked: &Ranked, part_ns: u64) {
        self.causes.push(ranked.cause.clone());
        self.total_ns = self.total_ns.saturating_add(part_ns);
        self.count = self.count.saturating_add(ranked.count);
        self.worst_ns = self.worst_ns.max(ranked.worst_ns);
    }
}

/// What the bills of a run ask for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BillsAsk {
    /// Whether times are those of late wake-ups alone; else of all that have a bill.
    pub of_late: bool,
    /// The wake-ups with a bill.
    pub bills: u64,
    /// The time of all causes.
    pub total_ns: u64,
    /// Each knob with what its causes cost, the dearest first. A cause stands with every knob that
    /// bears on it.
    pub knobs: Vec<(FindingId, CauseCost)>,
    /// What no knob is left for, the dearest first. A cause that stands here stands with no knob
    /// that is left to turn.
    pub obstacles: Vec<(Obstacle, CauseCost)>,
    /// What no knob is left for because the knobs that bear on it are ok: it was fixed since the
    /// run, or has another reason.
    pub settled: CauseCost,
}

/// Whether a finding leaves something to turn, or may.
fn is_left(finding: Option<&Finding>) -> bool {
    finding.is_none_or(|finding| match finding.state.kind() {
        StateKind::Bad | StateKind::Unknown => true,
        StateKind::Information => !finding.fixes.is_empty(),
        StateKind::Ok | StateKind::NotApplicable => false,
    })
}

fn is_ok(finding: Option<&Finding>) -> bool {
    finding.is_some_and(|finding| finding.state.kind() == StateKind::Ok)
}

/// Adds a cause to what stands under this key.
fn add<K: PartialEq>(all: &mut Vec<(K, CauseCost)>, key: K, ranked: &Ranked, part_ns: u64) {
    match all.iter_mut().find(|(known, _)| *known == key) {
        Some((_, cost)) => cost.add(ranked, part_ns),
        None => {
            let mut cost = CauseCost::default();
            cost.add(ranked, part_ns);
            all.push((key, cost));
        }
    }
}

impl BillsAsk {
    /// What the bills of a run ask for, of a machine with these findings; without findings every
    /// knob is taken for one that is left to turn.
    #[must_use]
    pub fn of(run: &Run, check: Option<&Check>) -> Option<Self> {
        let explanation = run.explanation.as_ref()?;
        let mut ask = Self {
            of_late: explanation.are_of_outliers(),
            bills: if explanation.are_of_outliers() {
                explanation.outliers
            } else {
                explanation.examined
            },
            ..Self::default()
        };
        for (part_ns, ranked) in dearest_first(explanation) {
            ask.total_ns = ask.total_ns.saturating_add(part_ns);
            let remedy = remedy(&ranked.cause, Surroundings::of(run, &ranked.cause));
            let (mut left, mut ok) = (false, false);
            for knob in remedy.knobs {
                let finding = check.and_then(|check| check.finding(knob));
                left |= is_left(finding);
                ok |= is_ok(finding);
                add(&mut ask.knobs, knob, ranked, part_ns);
            }
            match (left, ok) {
                (true, _) => {}
                (false, true) => ask.settled.add(ranked, part_ns),
                (false, false) => add(&mut ask.obstacles, remedy.obstacle, ranked, part_ns),
            }
        }
        // Stable: of equal ones the better remedy of the dearer cause stays first.
        ask.knobs
            .sort_by_key(|(_, cost)| std::cmp::Reverse(cost.total_ns));
        ask.obstacles
            .sort_by_key(|(_, cost)| std::cmp::Reverse(cost.total_ns));
        Some(ask)
    }

    /// The knobs, the dearest first.
    #[must_use]
    pub fn knobs(&self) -> Vec<FindingId> {
        self.knobs.iter().map(|(knob, _)| *knob).collect()
    }
}

/// The causes with their parts, without those that took nothing.
fn dearest_first(explanation: &Explanation) -> Vec<(u64, &Ranked)> {
    let ranking = explanation.ranking.iter();
    let mut parts: Vec<(u64, &Ranked)> = ranking
        .map(|ranked| (explanation.part_ns(ranked), ranked))
        .filter(|(part_ns, _)| *part_ns > 0)
        .collect();
    parts.sort_by_key(|(part_ns, _)| std::cmp::Reverse(*part_ns));
    parts
}
