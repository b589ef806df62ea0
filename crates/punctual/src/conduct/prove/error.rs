//! Why knobs can't be switched in an experiment.

use std::fmt;
use std::io;

use punctual_machine::root::plain;
use punctual_record::tuning::Setting;

/// Why knobs can't be switched in an experiment. Nothing was changed.
#[derive(Debug)]
pub enum KnobError {
    /// A knob is named twice.
    Twice {
        /// Its name.
        name: String,
    },
    /// A knob whose settings have their values already.
    NothingToSwitch {
        /// Its name.
        name: String,
    },
    /// Two knobs change one setting: they could not be told apart.
    Shared {
        /// One.
        first: String,
        /// The other.
        second: String,
        /// The setting.
        setting: Setting,
    },
    /// A setting can't be read.
    Unreadable {
        /// The setting.
        setting: Setting,
        /// Why not.
        source: io::Error,
    },
    /// A setting can't be written.
    NotWritable {
        /// The setting.
        setting: Setting,
        /// Why not.
        source: io::Error,
    },
}

impl KnobError {
    /// Whether other knobs must be named; else the machine refuses these.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Twice { .. } | Self::NothingToSwitch { .. } | Self::Shared { .. } => true,
            Self::Unreadable { .. } | Self::NotWritable { .. } => false,
        }
    }
}

impl fmt::Display for KnobError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Twice { name } => write!(f, "{name} is named twice"),
            Self::NothingToSwitch { name } => write!(
                f,
                "{name}: nothing to switch, it has its value already; name another value as \
                 /PATH=VALUE"
            ),
            Self::Shared {
                first,
                second,
                setting,
            } => write!(
                f,
                "{first} and {second} both change {setting}: prove them one after the other"
            ),
            Self::Unreadable { setting, source } => write!(f, "{setting}: {}", plain(source)),
            Self::NotWritable { setting, source } => write!(
                f,
                "{setting}: can't be written: {}; nothing was changed",
                plain(source)
            ),
        }
    }
}

impl std::error::Error for KnobError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Unreadable { source, .. } | Self::NotWritable { source, .. } => Some(source),
            Self::Twice { .. } | Self::NothingToSwitch { .. } | Self::Shared { .. } => None,
        }
    }
}
