//! What of a record could not be saved.

use serde::{Deserialize, Serialize};

use super::error::RecordError;

/// Parts of a record that were not saved, for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unsaved {
    /// The directory of the record.
    pub directory: String,
    /// Which parts.
    pub parts: Vec<UnsavedPart>,
    /// Why.
    pub why: UnsavedReason,
}

/// A part of a record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "part", rename_all = "kebab-case")]
pub enum UnsavedPart {
    /// A file or a directory.
    File {
        /// Its name in the directory; empty for the directory itself.
        name: String,
    },
    /// The explanation of late wake-ups, in the record.
    Explanation,
}

/// Why a part of a record was not saved.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum UnsavedReason {
    /// An error.
    Error {
        /// Its text, as the operating system or a library states it.
        error: String,
    },
    /// The directory was removed meanwhile.
    DirectoryRemoved,
    /// There is no space left.
    NoSpace,
    /// Samples are missing in the files.
    Samples(MissingSamples),
}

/// How many samples were not written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MissingSamples {
    /// How many were written.
    pub written: u64,
    /// Of how many.
    pub measured: u64,
    /// The first error, as text; absent where the disk was too slow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl From<&RecordError> for Unsaved {
    fn from(error: &RecordError) -> Self {
        let path = error.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let directory = path.parent().unwrap_or(path).display().to_string();
        let why = match error {
            RecordError::Save { source, .. } | RecordError::Create { source, .. } => {
                UnsavedReason::from(source)
            }
            other => UnsavedReason::Error {
                error: other.to_string(),
            },
        };
        Self {
            directory,
            parts: vec![UnsavedPart::File {
                name: name.into_owned(),
            }],
            why,
        }
    }
}

/// The directory of a record was removed while it was saved.
#[derive(Debug)]
pub(super) struct DirectoryRemoved;

impl std::fmt::Display for DirectoryRemoved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the directory was removed")
    }
}

impl std::error::Error for DirectoryRemoved {}

impl From<&std::io::Error> for UnsavedReason {
    fn from(error: &std::io::Error) -> Self {
        match error.get_ref() {
            Some(inner) if inner.is::<DirectoryRemoved>() => Self::DirectoryRemoved,
            _ => Self::Error {
                error: error.to_string(),
            },
        }
    }
}
