//! Why a fit could not go on.

use std::fmt;

use punctual_machine::tune::TuneError;
use punctual_record::RecordError;
use punctual_record::tuning::{Entry, Setting};

use super::super::error::ConductError;
use super::super::prove::KnobError;

/// Why a fit could not go on.
#[derive(Debug)]
pub enum FitError {
    /// A run could not be made. Nothing is left changed.
    Run(ConductError),
    /// The directory of a step can't be made.
    Directory(RecordError),
    /// Knobs that can't be switched. Nothing was changed.
    Knob(KnobError),
    /// A step could not restore these settings.
    LeftChanged(Vec<Entry>),
    /// Another program changed a setting that the experiment switches.
    Conflict {
        /// The setting.
        setting: Setting,
        /// Its value then.
        found: String,
    },
    /// The experiment could not switch a setting. Everything was restored.
    NotSwitched(String),
    /// What is to stay could not be changed.
    Keep(TuneError),
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run(ConductError::Tune(error)) | Self::Keep(error) => error.fmt(f),
            Self::Run(error) => error.fmt(f),
            Self::Directory(error) => error.fmt(f),
            Self::Knob(error) => error.fmt(f),
            Self::LeftChanged(left) => {
                let Some(first) = left.first() else {
                    return f.write_str("a step could not restore a setting");
                };
                write!(
                    f,
                    "a step could not restore {} (it was `{}`",
                    first.setting, first.original
                )?;
                match left.len() - 1 {
                    0 => {}
                    more => write!(f, ", and {more} more")?,
                }
                f.write_str(
                    "): another program changed it; stop that program, then run punctual tune \
                     restore --force",
                )
            }
            Self::Conflict { setting, found } => write!(
                f,
                "another program changed {setting} to `{}` during the experiment: stop that \
                 program, and begin again; nothing else is left changed",
                setting.shown(found)
            ),
            Self::NotSwitched(error) => {
                write!(f, "the experiment could not switch a setting: {error}")
            }
        }
    }
}

impl std::error::Error for FitError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Run(error) => Some(error),
            Self::Directory(error) => Some(error),
            Self::Knob(error) => Some(error),
            Self::Keep(error) => Some(error),
            Self::LeftChanged(_) | Self::Conflict { .. } | Self::NotSwitched(_) => None,
        }
    }
}
