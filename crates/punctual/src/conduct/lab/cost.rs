//! What operations cost in a guest, from what it printed.

use punctual_lab::CellResult;
use punctual_lab::machine::tail;
use punctual_record::lab::{LabCost, LabOperation, NoResult, Operation};

use crate::conduct::cost::runner::RunAnswer;

/// What is counted in the guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// This program's own operations.
    Operations,
    /// One run of a program, which makes so many operations.
    Program {
        /// How many.
        operations: u64,
    },
}

/// What a guest counted.
///
/// # Errors
/// It counted nothing: what failed in it.
pub fn counted(made: &CellResult, counting: Counting) -> Result<LabCost, NoResult> {
    let failed = |status, output: String| NoResult::Inside { status, output };
    // The kernel doesn't know all of the laboratory's own words either.
    let asked = &made.laboratory.parameters;
    let unknown = made.unknown.iter().filter(|it| asked.contains(it));
    let unknown: Vec<String> = unknown.cloned().collect();
    let answer = match counting {
        Counting::Operations => {
            let operations = serde_json::from_slice(&made.stdout);
            return match operations {
                Ok(operations) if made.status == 0 => Ok(LabCost {
                    operations,
                    left: 0,
                    unknown,
                }),
                _ => Err(failed(made.status, said(made))),
            };
        }
        Counting::Program { .. } => serde_json::from_slice(&made.stdout),
    };
    match answer {
        Ok(RunAnswer::Ended {
            status: Some(0),
            usage,
            left,
            ..
        }) => {
            let operation = |operation, instructions| LabOperation {
                operation,
                count: counting.operations(),
                batches: vec![instructions],
                faults: usage.minor_faults,
                switches: usage.voluntary_switches + usage.involuntary_switches,
            };
            Ok(LabCost {
                operations: vec![
                    operation(Operation::Run, usage.elapsed_ns),
                    operation(Operation::Processor, usage.cpu_ns()),
                ],
                left: left as u64,
                unknown,
            })
        }
        Ok(RunAnswer::Ended { status, signal, .. }) => {
            // As shells have it.
            let status = status.unwrap_or(128 + signal.unwrap_or(0));
            Err(failed(status, said(made)))
        }
        Ok(RunAnswer::Refused { line, status }) => Err(failed(status.into(), line)),
        Err(_) => Err(failed(made.status, said(made))),
    }
}

impl Counting {
    /// What was counted for a record.
    #[must_use]
    pub fn of(cost: &LabCost) -> Self {
        let mut operations = cost.operations.iter();
        let run = operations.find(|it| it.operation == Operation::Run);
        run.map_or(Self::Operations, |run| Self::Program {
            operations: run.count,
        })
    }

    fn operations(self) -> u64 {
        match self {
            Self::Operations => 1,
            Self::Program { operations } => operations,
        }
    }
}

/// The end of what it said.
fn said(made: &CellResult) -> String {
    tail(&String::from_utf8_lossy(&made.stderr))
}
