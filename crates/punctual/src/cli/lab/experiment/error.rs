//! Why an experiment's file is refused: one line without the file's name.

use std::error::Error;
use std::fmt;

use punctual_record::text::one_line;

use super::super::super::failure::Failure;
use super::super::super::units::Expected;
use super::super::values::ValueError;

/// Why an experiment's file is refused.
#[derive(Debug)]
pub enum ExperimentError {
    /// It is not TOML, or has other fields.
    Toml {
        /// Where, counted from 1; absent where the parser does not say.
        line: Option<usize>,
        /// What the parser says.
        source: toml::de::Error,
    },
    /// A number outside its range.
    Range {
        /// The field.
        field: &'static str,
        /// The most; the least is 1.
        most: u64,
    },
    /// Not from 1 to 100 machines, or more than 100 variants.
    Count {
        /// The table.
        table: &'static str,
        /// The least.
        least: usize,
        /// The most.
        most: usize,
    },
    /// A name that is empty, not printable, or used twice.
    Name {
        /// The table.
        table: &'static str,
        /// The name.
        name: String,
    },
    /// A command beside variants.
    CommandBesideVariants,
    /// A variant names a machine that does not exist.
    UnknownMachine {
        /// The variant.
        variant: String,
        /// The machine.
        machine: String,
    },
    /// A result is not a file's name.
    ResultName {
        /// The variant.
        variant: String,
        /// The result.
        result: String,
    },
    /// A result of `measure` or `qualify`.
    OwnResult {
        /// The result.
        result: String,
    },
    /// A maximum for a task set, or for a program that is not `measure` or `qualify`.
    MaxOfProgram,
    /// A value that a flag refuses as well.
    Value {
        /// The field, with the machine's name before it if it belongs to one.
        field: String,
        /// The value.
        value: String,
        /// What was expected.
        source: ValueError,
    },
    /// A limit that is not a time.
    Max {
        /// The machine.
        machine: String,
        /// The value.
        value: String,
        /// What was expected.
        source: Expected,
    },
    /// The loads or the command.
    Work(Failure),
}

impl fmt::Display for ExperimentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Toml { line, source } => {
                if let Some(line) = line {
                    write!(f, "line {line}: ")?;
                }
                f.write_str(&one_line(source.message()))
            }
            Self::Range { field, most } => write!(f, "{field}: expected 1 to {most}"),
            Self::Count { table, least, most } => {
                write!(f, "[[{table}]]: expected {least} to {most} of them")
            }
            Self::Name { table, name } => write!(
                f,
                "{table} '{}': expected a name that no other {table} has",
                one_line(name)
            ),
            Self::CommandBesideVariants => {
                f.write_str("command: expected none beside [[variant]], each variant has its own")
            }
            Self::UnknownMachine { variant, machine } => {
                write!(
                    f,
                    "{variant}: machines: there is no machine '{}'",
                    one_line(machine)
                )
            }
            Self::ResultName { variant, result } => write!(
                f,
                "{variant}: result '{}': expected the name of a file under /out, without spaces",
                one_line(result)
            ),
            Self::OwnResult { result } => write!(
                f,
                "result '{}': leave it out, measure and qualify save their results themselves",
                one_line(result)
            ),
            Self::MaxOfProgram => {
                f.write_str("max: only measure and qualify have it, not a program or a task set")
            }
            Self::Value {
                field,
                value,
                source,
            } => write!(f, "{field} '{}': {source}", one_line(value)),
            Self::Max {
                machine,
                value,
                source,
            } => write!(f, "{machine}: max '{}': {source}", one_line(value)),
            Self::Work(failure) => f.write_str(&failure.line),
        }
    }
}

impl Error for ExperimentError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Toml { source, .. } => Some(source),
            Self::Value { source, .. } => Some(source),
            Self::Max { source, .. } => Some(source),
            Self::Work(failure) => Some(failure),
            _ => None,
        }
    }
}
