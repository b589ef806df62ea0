//! Rows that sum to a latency, whatever is put into them.

use punctual_record::path::bill::{
    Certainty, MessageCause as Cause, MessageEvidence as Evidence, MessageRow,
    MessageStage as Stage,
};

/// Rows of a bill. Each takes at most what is left; what none takes is unexplained.
pub struct Rows {
    left_ns: u64,
    rows: Vec<MessageRow>,
    doubts: Vec<(Stage, Evidence)>,
}

impl Rows {
    pub fn new(latency_ns: u64) -> Self {
        Self {
            left_ns: latency_ns,
            rows: Vec::with_capacity(12),
            doubts: Vec::new(),
        }
    }

    /// Adds time to a cause in a stage.
    pub fn add(
        &mut self,
        stage: Stage,
        cause: Cause,
        ns: u64,
        certainty: Certainty,
        evidence: Vec<Evidence>,
    ) {
        let ns = ns.min(self.left_ns);
        if ns == 0 {
            return;
        }
        self.left_ns -= ns;
        let same = |row: &&mut MessageRow| row.stage == stage && row.cause == cause;
        if let Some(row) = self.rows.iter_mut().find(same) {
            row.ns += ns;
            row.certainty = row.certainty.max(certainty);
            for evidence in evidence {
                row.show(evidence);
            }
            return;
        }
        let mut row = MessageRow {
            stage,
            cause,
            ns,
            certainty,
            evidence: Vec::new(),
        };
        for evidence in evidence {
            row.show(evidence);
        }
        self.rows.push(row);
    }

    /// Adds what every message takes in a stage.
    pub fn usual(&mut self, stage: Stage, ns: u64) {
        self.add(stage, Cause::Usual, ns, Certainty::Certain, Vec::new());
    }

    /// Notes what speaks against the rows of a stage.
    pub fn doubt(&mut self, stage: Stage, evidence: Evidence) {
        self.doubts.push((stage, evidence));
    }

    /// Whether one of these stages has a loss.
    pub fn has_loss(&self, stages: [Stage; 2]) -> bool {
        self.rows.iter().any(|row| {
            stages.contains(&row.stage)
                && matches!(
                    row.cause,
                    Cause::Timeout
                        | Cause::LossProbe
                        | Cause::FastRetransmit
                        | Cause::Retransmission
                )
        })
    }

    /// The rows, in the order of the stages.
    pub fn finish(mut self) -> Vec<MessageRow> {
        let left_ns = self.left_ns;
        let unknown = Cause::Unexplained;
        self.add(Stage::Way, unknown, left_ns, Certainty::Possible, vec![]);
        for (stage, evidence) in std::mem::take(&mut self.doubts) {
            for row in self.rows.iter_mut().filter(|row| row.stage == stage) {
                row.certainty = Certainty::Possible;
                row.show(evidence);
            }
        }
        self.rows.sort_by_key(|row| row.stage);
        self.rows
    }
}
