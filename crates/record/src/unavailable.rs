//! Why tracing, or a mark, is not available on a machine: kinds with their figures. `report` has the
//! words, and what to do.

use serde::{Deserialize, Serialize};

/// Why tracing, a part of it, or a mark is not available.
///
/// An `error` is the text of the operating system, or of the library that loads BPF programs:
/// evidence, which is kept as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Unavailable {
    /// punctual was built without tracing.
    BuiltWithout,
    /// punctual does not know the interrupts of this processor architecture.
    Architecture,
    /// The kernel does not describe its types (BTF).
    NoTypes {
        /// Why its description can't be read.
        error: String,
    },
    /// This process lacks capabilities.
    NoCapabilities {
        /// It lacks CAP_BPF.
        bpf: bool,
        /// It lacks CAP_PERFMON.
        perfmon: bool,
        /// It is root without them, as in a container.
        root: bool,
    },
    /// The kernel refused a step of the setup.
    Refused {
        /// Which one.
        step: TracingStep,
        /// The kernel's reason.
        error: String,
    },
    /// A compiled BPF program lacks one of its parts: punctual was built wrongly.
    Incomplete {
        /// The missing map or program.
        part: String,
    },
    /// There is no memory for the thread that traces.
    NoThread {
        /// The system's reason.
        error: String,
    },
    /// The kernel has no uprobes.
    NoUprobes,
    /// The kernel refused the probe of a mark.
    NoProbe {
        /// The place, as an offset in the file.
        offset: u64,
        /// Why.
        refusal: ProbeRefusal,
    },
}

/// A step in setting up the tracing of our own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TracingStep {
    /// Reading the kernel's types.
    ReadTypes,
    /// Loading BPF programs, and creating their maps.
    Load {
        /// Which programs.
        programs: TracingPart,
    },
    /// Attaching to a tracepoint.
    Attach {
        /// Which one.
        tracepoint: String,
    },
    /// Mapping a map into memory.
    MapMemory {
        /// Which one.
        map: String,
    },
    /// Adding a thread to those that are traced.
    AddThread,
    /// Looking up the thread IDs of a container's host.
    ThreadIds,
    /// Passing on the path of a marked program.
    MarkPath,
}

/// The BPF programs of one purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TracingPart {
    /// Those that explain late wake-ups.
    Recorder,
    /// Those that watch threads.
    Watch,
    /// Those that count marks.
    Marks,
}

/// Why the kernel refused a probe in a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ProbeRefusal {
    /// The kernel does not support a probe on this instruction.
    Instruction,
    /// The program has ended, or its file was removed.
    Gone,
    /// It is not permitted.
    Forbidden {
        /// The kernel's reason.
        error: String,
    },
    /// Another reason.
    Other {
        /// The kernel's reason.
        error: String,
    },
}
