//! `/dev/cpu_dma_latency`: while a process keeps it open, no processor enters an idle
//! state with an exit latency above the number written to it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

use punctual_machine::Root;
use punctual_record::condition::IdleBoundError;
use punctual_record::system::WatchedLatency;

/// The device.
pub const PATH: &str = "/dev/cpu_dma_latency";

/// A limit on the exit latency of idle states, in force until it is dropped.
/// The kernel removes it as well when the process ends in any way.
#[derive(Debug)]
pub struct DmaLatency {
    file: File,
    asked_us: i32,
}

/// Why the limit is not in force.
#[derive(Debug)]
pub enum HoldError {
    /// This kernel has no such device.
    Absent,
    /// It may not be opened: usually only root may.
    Forbidden,
    /// Another error.
    Failed(io::Error),
}

impl fmt::Display for HoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => write!(f, "there is no {PATH}"),
            Self::Forbidden => write!(f, "{PATH} may not be opened by this user"),
            Self::Failed(error) => write!(f, "{PATH}: {}", punctual_machine::root::plain(error)),
        }
    }
}

impl HoldError {
    /// In the record's form.
    #[must_use]
    pub fn to_record(&self) -> IdleBoundError {
        match self {
            Self::Absent => IdleBoundError::Absent,
            Self::Forbidden => IdleBoundError::Forbidden,
            Self::Failed(error) => IdleBoundError::Failed {
                text: punctual_machine::root::plain(error),
            },
        }
    }
}

impl std::error::Error for HoldError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Absent | Self::Forbidden => None,
        }
    }
}

/// Whether a process keeps the device open; absent if its open files may not be read, or it
/// has ended.
#[must_use]
pub fn watched(root: &Root, pid: u32) -> Option<WatchedLatency> {
    let directory = format!("/proc/{pid}/fd");
    let files = root.names(&directory).ok()?;
    let mut files = files.iter();
    let is_device = |file: &String| {
        let link = root.link(&format!("{directory}/{file}"));
        link.is_ok_and(|link| link == PATH)
    };
    Some(WatchedLatency {
        open: files.any(is_device),
        in_force_us: root.is_live().then(in_force_us).flatten(),
    })
}

/// The limit in force. Opening the device without writing to it does not change it.
fn in_force_us() -> Option<i32> {
    let mut bytes = [0; 4];
    let file = File::open(PATH).ok()?;
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(i32::from_ne_bytes(bytes))
}

impl DmaLatency {
    /// Sets the limit, in microseconds; 0 keeps all processors out of
    /// every idle state except polling.
    ///
    /// # Errors
    /// If the device is absent, forbidden, or refuses the value.
    pub fn hold(microseconds: i32) -> Result<Self, HoldError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(PATH)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => HoldError::Absent,
                io::ErrorKind::PermissionDenied => HoldError::Forbidden,
                // A node without its driver, as in containers.
                _ if punctual_machine::root::absent(&error) => HoldError::Absent,
                _ => HoldError::Failed(error),
            })?;
        // Four bytes are read as a binary number, more as text.
        file.write_all(&microseconds.to_ne_bytes())
            .map_err(HoldError::Failed)?;
        Ok(Self {
            file,
            asked_us: microseconds,
        })
    }

    /// The requested limit.
    #[must_use]
    pub fn asked_us(&self) -> i32 {
        self.asked_us
    }

    /// The limit in force now: the lowest of all programs' limits.
    ///
    /// # Errors
    /// If the device can't be read.
    pub fn in_force_us(&self) -> io::Result<i32> {
        let mut bytes = [0; 4];
        self.file.read_exact_at(&mut bytes, 0)?;
        Ok(i32::from_ne_bytes(bytes))
    }
}
