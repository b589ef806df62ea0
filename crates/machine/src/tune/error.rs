//! Why settings could not be changed or restored.

use std::io;
use std::path::PathBuf;

use punctual_record::tuning::Setting;
use punctual_rt::cpuset::CpusetError;

use super::BootError;

/// Why settings could not be changed or restored.
#[derive(Debug)]
#[non_exhaustive]
pub enum TuneError {
    /// The journal can't be opened, read or written. Nothing was changed.
    Journal {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Settings were restored, and the journal can't be written: it still lists them.
    NotClosed {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The journal can't be read.
    UnreadJournal {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another process changes or restores settings at this moment.
    Locked {
        /// The journal.
        path: PathBuf,
    },
    /// The journal has a line that is not one of ours, and not the last.
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line's number, from 1.
        line: usize,
    },
    /// The journal is longer than any that is written: it is not read in part.
    LongJournal {
        /// The file.
        path: PathBuf,
    },
    /// The journal has no room for the changes. Nothing was changed.
    FullJournal {
        /// The file.
        path: PathBuf,
    },
    /// Another program's file has the name of one that is not complete yet. Nothing was changed.
    InTheWay {
        /// That file.
        path: PathBuf,
    },
    /// A setting is changed already, and another directory has its original. Nothing was changed.
    OtherState {
        /// The setting.
        setting: Setting,
        /// The directory.
        folder: PathBuf,
    },
    /// A setting can't be read: nothing was changed.
    Unreadable {
        /// The setting.
        setting: Setting,
        /// Why not.
        source: io::Error,
    },
    /// A setting can't be written. Those before it were changed.
    Refused {
        /// The setting.
        setting: Setting,
        /// The value that was refused.
        value: String,
        /// Why.
        source: io::Error,
    },
    /// Another program changed a setting since we did: it was left alone.
    Conflict {
        /// The setting.
        setting: Setting,
        /// The value that we left.
        left: String,
        /// The value now.
        now: String,
    },
    /// The object of a setting no longer exists: a thread that ended, a device that was removed.
    Gone {
        /// The setting.
        setting: Setting,
    },
    /// CPUs can't have a partition of their own.
    Partition(CpusetError),
    /// A boot parameter can't be configured.
    Boot(BootError),
}

impl From<BootError> for TuneError {
    fn from(error: BootError) -> Self {
        Self::Boot(error)
    }
}

impl std::fmt::Display for TuneError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Journal { path, source } => write!(
                f,
                "{}: {}: the journal must be written before a setting is changed; nothing was \
                 changed",
                path.display(),
                crate::root::plain(source)
            ),
            Self::NotClosed { path, source } => write!(
                f,
                "{}: {}: settings were restored, but the journal still lists them: make room, and restore again",
                path.display(),
                crate::root::plain(source)
            ),
            Self::UnreadJournal { path, source } => write!(
                f,
                "{}: the journal can't be read: {}; run it as root",
                path.display(),
                crate::root::plain(source)
            ),
            Self::Locked { path } => write!(
                f,
                "{}: another punctual is changing settings; wait until it has ended",
                path.display()
            ),
            Self::Malformed { path, line } => write!(
                f,
                "{}: line {line} is damaged: move the file away after restoring by hand what it \
                 lists",
                path.display()
            ),
            Self::LongJournal { path } => write!(
                f,
                "{}: the journal is longer than 16 MiB and is not read, nothing was changed: remove \
                 the lines of settings that have a later line with `restored`, and that line, or move \
                 the file away after restoring by hand what it lists",
                path.display()
            ),
            Self::FullJournal { path } => write!(
                f,
                "{}: the journal has no room for these changes (16 MiB); nothing was changed: `punctual \
                 tune restore` first",
                path.display()
            ),
            Self::InTheWay { path } => write!(
                f,
                "{}: a file of this name would be overwritten, and punctual did not make it; nothing \
                 was changed: move it away",
                path.display()
            ),
            Self::OtherState { setting, folder } => write!(
                f,
                "{setting} was changed with --state {0} and its original is there; nothing was \
                 changed: use that --state, or `punctual tune restore --state {0}` first",
                folder.display()
            ),
            Self::Unreadable { setting, source } => write!(
                f,
                "{setting} can't be read: {}; nothing was changed",
                crate::root::plain(source)
            ),
            Self::Refused {
                setting,
                value,
                source,
            } => write!(
                f,
                "{setting}: the kernel refuses `{}`: {}; `punctual tune restore` undoes what \
                 was changed before",
                setting.shown(value),
                crate::root::plain(source)
            ),
            Self::Conflict { setting, left, now } => write!(
                f,
                "{setting}: another program changed it from `{}` to `{}`: stop that \
                 program; `punctual tune restore --force` restores the setting",
                setting.shown(left),
                setting.shown(now)
            ),
            Self::Gone { setting } => write!(
                f,
                "{setting}: its object no longer exists: leave this knob out"
            ),
            Self::Boot(error) => error.fmt(f),
            Self::Partition(error) => write!(f, "a partition is not possible: {error}"),
        }
    }
}

impl std::error::Error for TuneError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Journal { source, .. }
            | Self::NotClosed { source, .. }
            | Self::UnreadJournal { source, .. }
            | Self::Unreadable { source, .. }
            | Self::Refused { source, .. } => Some(source),
            Self::Boot(error) => error.source(),
            Self::Partition(error) => Some(error),
            Self::Locked { .. }
            | Self::Malformed { .. }
            | Self::LongJournal { .. }
            | Self::FullJournal { .. }
            | Self::InTheWay { .. }
            | Self::OtherState { .. }
            | Self::Conflict { .. }
            | Self::Gone { .. } => None,
        }
    }
}
