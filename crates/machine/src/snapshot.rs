//! What was read of a machine, kept in one file: to check it elsewhere, or to compare two
//! machines.

use std::collections::BTreeMap;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use punctual_record::text::one_line;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::root::NotRegular;

/// The version of a snapshot's JSON.
pub const SNAPSHOT_VERSION: u32 = 1;
/// The largest snapshot that is read, in bytes.
pub const SNAPSHOT_LIMIT: u64 = 64 << 20;
/// The number of entries of one kind that are kept.
const ENTRY_LIMIT: usize = 1 << 17;

/// Every file, link, directory and answer that was read, with its text or its error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// [`SNAPSHOT_VERSION`].
    version: u32,
    pub(crate) files: Entries<Bytes>,
    pub(crate) links: Entries<String>,
    pub(crate) names: Entries<Vec<String>>,
    pub(crate) present: Entries<()>,
    pub(crate) answers: Entries<String>,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            version: SNAPSHOT_VERSION,
            files: Entries::default(),
            links: Entries::default(),
            names: Entries::default(),
            present: Entries::default(),
            answers: Entries::default(),
        }
    }
}

/// Why a text is no snapshot.
#[derive(Debug)]
#[non_exhaustive]
pub enum SnapshotError {
    /// Longer than [`SNAPSHOT_LIMIT`].
    TooLong,
    /// Not a snapshot's JSON.
    Malformed(serde_json::Error),
    /// Of this version, which this program doesn't know.
    Version(u32),
}

impl std::fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong => write!(f, "longer than {} MB", SNAPSHOT_LIMIT >> 20),
            Self::Malformed(error) => {
                let error = one_line(&error.to_string());
                write!(f, "not a snapshot of `punctual check`: {error}")
            }
            Self::Version(version) => write!(
                f,
                "a snapshot of version {version}: this program reads version {SNAPSHOT_VERSION}"
            ),
        }
    }
}

impl std::error::Error for SnapshotError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Malformed(error) => Some(error),
            Self::TooLong | Self::Version(_) => None,
        }
    }
}

impl Snapshot {
    /// Reads a snapshot.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn parse(text: &[u8]) -> Result<Self, SnapshotError> {
        if text.len() as u64 > SNAPSHOT_LIMIT {
            return Err(SnapshotError::TooLong);
        }
        let snapshot: Self = serde_json::from_slice(text).map_err(SnapshotError::Malformed)?;
        if snapshot.version == SNAPSHOT_VERSION {
            Ok(snapshot)
        } else {
            Err(SnapshotError::Version(snapshot.version))
        }
    }

    /// The snapshot as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }
}

/// The bytes of a file: as text where they are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(&self.0) {
            Ok(text) => ("text", text).serialize(serializer),
            Err(_) => ("base64", STANDARD.encode(&self.0)).serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error as _;
        let (kind, text) = <(String, String)>::deserialize(deserializer)?;
        match kind.as_str() {
            "text" => Ok(Self(text.into_bytes())),
            "base64" => STANDARD.decode(text).map(Self).map_err(D::Error::custom),
            _ => Err(D::Error::custom("expected `text` or `base64`")),
        }
    }
}

/// What was read of the places of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Entries<T>(BTreeMap<String, Entry<T>>);

/// What was read, or the number of the error: 0 for one that has none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Entry<T> {
    Read(T),
    Error(i32),
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Clone> Entries<T> {
    pub(crate) fn get(&self, key: &str) -> io::Result<T> {
        match self.0.get(key) {
            Some(Entry::Read(value)) => Ok(value.clone()),
            Some(Entry::Error(0)) => Err(io::Error::other(NotRegular)),
            Some(Entry::Error(number)) => Err(io::Error::from_raw_os_error(*number)),
            None => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        }
    }

    pub(crate) fn put(&mut self, key: &str, result: &io::Result<T>) {
        let entry = match result {
            Ok(value) => Entry::Read(value.clone()),
            Err(error) => Entry::Error(error.raw_os_error().unwrap_or(0)),
        };
        if self.0.len() < ENTRY_LIMIT {
            self.0.insert(key.to_owned(), entry);
        }
    }
}
