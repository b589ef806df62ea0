//! Which boot parameter helped? An experiment of a lab: each seed without and with the parameter.

use punctual_stats::experiment::{
    BlockLatencies, Effect, KnobConclusion, KnobResult, Measure, Pair, SeedPairs, judge_seeds,
};
use serde::{Deserialize, Serialize};

/// An experiment with boot parameters, in virtual time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabProof {
    /// The parameters; the last is the control, a word that the kernel ignores.
    pub parameters: Vec<ProofParameter>,
    /// Pairs that each row should have: one for each seed.
    pub seeds: u64,
    /// How sure a conclusion must be.
    pub confidence: f64,
    /// The excess of latencies is counted above this, where there is a deadline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<u64>,
    /// What was found out, for each kernel, load and parameter.
    pub rows: Vec<ProofRow>,
}

/// A word of a kernel's command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProofParameter {
    /// As it stands there.
    pub word: String,
    /// Whether the kernel ignores it: what it changes, any word changes.
    pub is_control: bool,
}

/// A parameter on a kernel under a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProofRow {
    /// The kernel as it was requested.
    pub kernel: String,
    /// The load's name.
    pub load: String,
    /// The parameter, by its place in [`LabProof::parameters`].
    pub parameter: usize,
    /// Whether the kernel reports that it doesn't know the parameter or its value: then nothing
    /// was measured with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_unknown: bool,
    /// What was measured, one pair for each seed of which both guests have a result.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<ProofPair>,
    /// What the pairs say.
    pub result: KnobResult,
}

/// Two guests with the same seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProofPair {
    /// The seed.
    pub seed: u64,
    /// Without the parameter.
    pub off: BlockLatencies,
    /// With it.
    pub on: BlockLatencies,
    /// Whether every latency is the same in both.
    pub is_identical: bool,
}

/// What was found out about a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProofConclusion {
    /// It makes latencies shorter.
    Helps,
    /// It makes them longer.
    Harms,
    /// Shorter in one measure and longer in another.
    Mixed,
    /// No effect beyond chance and beyond what any word on the command line does.
    NoEffectShown,
    /// Every latency of every seed is the same with it.
    NoDifference,
    /// Too few seeds have a result in both guests.
    TooFewPairs,
    /// The kernel doesn't know it.
    Unknown,
}

impl ProofRow {
    /// What was found out.
    #[must_use]
    pub fn conclusion(&self) -> ProofConclusion {
        let is_same = || self.pairs.iter().all(|pair| pair.is_identical);
        match self.result.conclusion {
            _ if self.is_unknown => ProofConclusion::Unknown,
            KnobConclusion::Helps => ProofConclusion::Helps,
            KnobConclusion::Harms => ProofConclusion::Harms,
            KnobConclusion::Mixed => ProofConclusion::Mixed,
            KnobConclusion::NoEffectShown if is_same() => ProofConclusion::NoDifference,
            KnobConclusion::NoEffectShown => ProofConclusion::NoEffectShown,
            KnobConclusion::TooFewPairs => ProofConclusion::TooFewPairs,
        }
    }
}

impl LabProof {
    /// The name of the variant without any of the parameters.
    pub const OFF: &str = "off";

    /// Puts in what the pairs say.
    pub fn judge(&mut self) {
        let measures: Vec<Measure> = Measure::EXACT
            .into_iter()
            .filter(|it| *it != Measure::Excess || self.deadline_ns.is_some())
            .collect();
        let pairs = |row: &ProofRow| SeedPairs {
            pairs: row
                .pairs
                .iter()
                .map(|pair| Pair {
                    off: pair.off.clone(),
                    on: pair.on.clone(),
                })
                .collect(),
            control: self.control_at(row),
        };
        let rows: Vec<SeedPairs> = self.rows.iter().map(pairs).collect();
        let results = judge_seeds(&rows, &measures, self.confidence);
        for (row, result) in self.rows.iter_mut().zip(results) {
            row.result = result;
        }
    }

    /// Whether a row is that of the control.
    #[must_use]
    pub fn is_control(&self, row: &ProofRow) -> bool {
        let parameter = self.parameters.get(row.parameter);
        parameter.is_some_and(|it| it.is_control)
    }

    /// The place of the row of the control on the same kernel under the same load; none of the
    /// control itself.
    fn control_at(&self, row: &ProofRow) -> Option<usize> {
        let is_of_row =
            |it: &ProofRow| self.is_control(it) && it.kernel == row.kernel && it.load == row.load;
        let at = self.rows.iter().position(is_of_row);
        at.filter(|_| !self.is_control(row))
    }

    /// Whether an effect of a row is beyond chance, large enough to name, and beyond that of the
    /// control.
    #[must_use]
    pub fn is_named(&self, row: &ProofRow, effect: &Effect) -> bool {
        let control = self.control_at(row).and_then(|at| self.rows.get(at));
        effect.is_named_beyond(control.map(|it| &it.result), self.confidence)
    }

    /// Whether a row that was to be measured has too few pairs.
    #[must_use]
    pub fn has_too_few_pairs(&self) -> bool {
        let mut rows = self.rows.iter();
        rows.any(|row| row.conclusion() == ProofConclusion::TooFewPairs)
    }
}
