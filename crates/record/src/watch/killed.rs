//! Programs that a signal ended.

use serde::{Deserialize, Serialize};

use super::{Subject, Watch};

/// A program that a signal ended while it was watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct KilledProgram {
    /// Its name.
    pub program: String,
    /// Its number.
    pub pid: u32,
    /// The signal.
    pub signal: i32,
}

impl Watch {
    /// The programs that a signal ended.
    #[must_use]
    pub fn killed(&self) -> Vec<KilledProgram> {
        let of = |program: &String, pid: &u32, signal: Option<i32>| {
            let program = program.clone();
            signal.map(|signal| KilledProgram {
                program,
                pid: *pid,
                signal,
            })
        };
        match &self.subject {
            Subject::System => Vec::new(),
            Subject::Program {
                pid,
                name,
                killed_by,
                ..
            } => of(name, pid, *killed_by).into_iter().collect(),
            Subject::Programs { programs, .. } => {
                let killed = programs
                    .iter()
                    .map(|it| of(&it.name, &it.pid, it.killed_by));
                killed.flatten().collect()
            }
        }
    }
}
