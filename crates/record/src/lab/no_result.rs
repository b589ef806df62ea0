//! Why a cell of a lab has no result, as data.

use serde::{Deserialize, Serialize};

use crate::earlier::Sentence;

/// Why a cell has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NoResult {
    /// It was not run: a signal came before.
    NotRun,
    /// A signal ended this program while it ran.
    Interrupted,
    /// Something that the guest needs is not available.
    Unprepared {
        /// What.
        what: Preparation,
        /// The text of the error, evidence that nothing parses.
        error: String,
    },
    /// The limit of the host's time was reached.
    HostLimit {
        /// Seconds that were allowed.
        seconds: u64,
        /// The end of the console's text.
        console: String,
    },
    /// The guest's first process did not start in time.
    BootLimit {
        /// Seconds of the host's processor time that were allowed.
        seconds: u64,
        /// What the guest did meanwhile.
        silence: Silence,
        /// The end of the console's text.
        console: String,
    },
    /// The guest ran out of virtual time.
    VirtualLimit {
        /// Virtual seconds that were allowed.
        seconds: u64,
        /// The end of the program's output.
        output: String,
    },
    /// The kernel panicked.
    Panic {
        /// Its line.
        line: String,
    },
    /// The machine ended, and its output is not complete.
    Broken {
        /// How the output is broken.
        stream: StreamFault,
        /// QEMU's exit status; absent where it was killed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<i32>,
        /// The end of QEMU's own output.
        output: String,
        /// Whether QEMU ran with the observer's plugin, and its output names a plugin.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        plugin: bool,
        /// The end of the console's text.
        console: String,
    },
    /// The guest could not do its work.
    Guest {
        /// Why.
        fault: GuestFault,
    },
    /// What ran in the guest measured nothing.
    Inside {
        /// Its exit status.
        status: i32,
        /// The end of its output.
        output: String,
    },
    /// The guest's output is too large.
    TooLarge {
        /// Its bytes.
        bytes: u64,
    },
    /// The guest's output lacks the result of its work.
    NoFrame,
    /// The guest's result can't be read.
    Unreadable {
        /// The text of the error, evidence that nothing parses.
        error: String,
    },
    /// The sentence of an earlier version.
    Earlier {
        /// The sentence.
        text: String,
    },
}

impl Sentence for NoResult {
    fn sentence(text: String) -> Self {
        Self::Earlier { text }
    }
}

/// Something that a guest needs on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Preparation {
    /// QEMU.
    Emulator,
    /// The kernel, or a module of it.
    Kernel,
    /// A program or another file for the guest.
    Program,
    /// A root file system.
    RootFileSystem,
    /// Memory of the guest for its files.
    Memory,
    /// A file that this program reads or writes on the host.
    File,
}

/// What a guest did whose first process never started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Silence {
    /// It used up its share of the host's processor time.
    Busy,
    /// It used less, and did not run for several times as long.
    Halted,
}

/// What is wrong with a guest's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum StreamFault {
    /// It is empty.
    Silent,
    /// It ends before the last frame.
    Cut {
        /// Bytes that were received.
        bytes: u64,
    },
    /// It contains something that is not a frame.
    Garbled {
        /// Where, in bytes from its beginning.
        at: u64,
        /// What is wrong there.
        fault: FrameFault,
    },
}

/// What is wrong with a frame of a guest's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum FrameFault {
    /// There is no header.
    NoHeader,
    /// The header has not four words.
    Words,
    /// Its name is not valid.
    Name,
    /// Its length is not a number.
    Length,
    /// Its checksum is wrong.
    Checksum,
    /// It has the name of another one.
    Twice,
    /// There are too many.
    TooMany,
    /// Bytes follow the last one.
    BytesBehind,
}

/// Why the guest could not do its work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum GuestFault {
    /// A file of the guest can't be read or written.
    File {
        /// Which.
        path: String,
        /// The system's error.
        error: String,
    },
    /// The guest's job can't be parsed.
    Job {
        /// Its file.
        path: String,
        /// The parser's error.
        error: String,
    },
    /// The kernel refused a module.
    Module {
        /// The module.
        name: String,
        /// The kernel's error.
        error: String,
        /// What the kernel logged meanwhile.
        log: Vec<String>,
    },
    /// A file system can't be mounted.
    Mount {
        /// Where.
        place: String,
        /// The system's error.
        error: String,
    },
    /// A process can't be started.
    Start {
        /// Which.
        process: GuestProcess,
        /// The system's error.
        error: String,
    },
    /// The loads beside the work failed.
    Loads {
        /// The last line of their output.
        output: String,
    },
    /// This program panicked as the guest's first process.
    Panicked,
}

/// A process of a guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum GuestProcess {
    /// That which keeps the processor from idling.
    Busy,
    /// The loads.
    Loads,
    /// The program that is measured, or measures.
    Program {
        /// Its path in the guest.
        path: String,
    },
}
