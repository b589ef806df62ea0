//! The description of a load generator.

use crate::context::Context;
use crate::error::{SpecError, WorkError};
use crate::parameter::{Amount, Parameter, Values, parse_number};

/// A native load.
#[derive(Debug)]
pub struct Generator {
    /// Its name in `--load`.
    pub name: &'static str,
    /// The unit of its work, a plural.
    pub unit: &'static str,
    /// Units of additional counts, plurals.
    pub also: &'static [&'static str],
    /// What it stresses, in one line.
    pub description: &'static str,
    /// Its parameters.
    pub parameters: &'static [Parameter],
    /// Whether it needs a directory for files.
    pub scratch: bool,
    /// About how much memory it needs with these values, in bytes.
    pub memory: fn(&Values) -> u64,
    /// Runs the load; returns when a finite load is done, or when it failed.
    pub run: fn(&Context<'_>) -> Result<(), WorkError>,
}

impl Generator {
    /// All parameters: those that were set, and the defaults of the others, for a list of this many
    /// loads. Set values were checked when they were parsed.
    pub fn resolve(
        &self,
        set: &Values,
        cpus: usize,
        available_memory: u64,
        loads: usize,
    ) -> Values {
        let value = |parameter: &Parameter| {
            let default = || {
                let available = match parameter.default {
                    Amount::Area(_) | Amount::Processes(_) => {
                        available_memory / loads.max(1) as u64
                    }
                    _ => available_memory,
                };
                let amount = parameter.default.on(cpus, available);
                amount.clamp(parameter.least, parameter.most)
            };
            set.get(parameter.key).copied().unwrap_or_else(default)
        };
        let pair = |parameter: &Parameter| (parameter.key.to_owned(), value(parameter));
        self.parameters.iter().map(pair).collect()
    }

    /// Checks one setting.
    ///
    /// # Errors
    /// The error names the key and what is accepted.
    pub fn check(&self, key: &str, text: &str) -> Result<u64, SpecError> {
        let load = self.name;
        let Some(parameter) = self.parameters.iter().find(|p| p.key == key) else {
            return Err(SpecError::UnknownParameter {
                load,
                key: key.to_owned(),
                known: self.parameters.iter().map(|p| p.key).collect(),
            });
        };
        let Parameter {
            key,
            description,
            least,
            most,
            ..
        } = *parameter;
        parse_number(text)
            .filter(|value| (least..=most).contains(value))
            .ok_or_else(|| SpecError::Value {
                load,
                key,
                text: text.to_owned(),
                least,
                most,
                description,
            })
    }
}
