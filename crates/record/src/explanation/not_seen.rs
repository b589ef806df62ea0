//! What an explanation could not see or does not hold, as data.

use serde::{Deserialize, Serialize};

use crate::earlier::Sentence;

/// Something that an explanation lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NotSeen {
    /// The kernel has no such tracepoint.
    Tracepoint {
        /// Its name.
        tracepoint: String,
    },
    /// Stacks of threads while their CPU is blocked.
    BlockedStacks {
        /// Why there are none.
        why: NoBlockedStacks,
    },
    /// The names of the kernel's functions.
    KernelNames {
        /// Why there are none.
        why: NoKernelNames,
    },
    /// The beginning of some late wake-ups: its events were dropped for others before they were
    /// examined.
    Forgotten {
        /// How many; 0 if an earlier version did not count them.
        #[serde(default)]
        wake_ups: u64,
    },
    /// Outliers that came faster than they could be explained.
    TooFast {
        /// How many; 0 if an earlier version did not count them.
        #[serde(default)]
        wake_ups: u64,
    },
    /// Wake-ups, or jobs of tasks, for which the queue to the explaining thread had no room.
    NotQueued {
        /// How many.
        count: u64,
    },
    /// The middle of some late wake-ups: too many events happened meanwhile.
    Middle {
        /// How many.
        wake_ups: u64,
    },
    /// Waits of more kinds than are kept.
    Waits {
        /// How many waits.
        count: u64,
        /// The longest of them.
        longest_ns: u64,
        /// Kinds that are kept.
        kinds: u64,
    },
    /// Waits of more kinds than a merged record keeps.
    MergedWaits,
    /// More time than can be counted.
    TooMuchTime,
    /// Merged runs were explained above different limits.
    DifferentLimits,
    /// A recording lacks events.
    Recorded {
        /// What they would tell.
        lacks: RecordedEvents,
    },
    /// A recording has the events that begin something, and lacks those that end it.
    RecordedEnd {
        /// The event that begins it.
        begins: String,
        /// The event that ends it.
        ends: String,
    },
    /// The recording lost events.
    RecordingLost,
    /// The program that prints a recording could not read all of it.
    RecordingCut {
        /// The program.
        program: String,
        /// The first line of its complaint.
        output: String,
    },
    /// Wake-ups of a recording without a bill: only those of the highest latencies have one.
    WithoutBill {
        /// How many.
        wake_ups: u64,
        /// How many have one.
        bills: u64,
    },
    /// Wake-ups with a bill whose events were not kept, so that it could not be made again.
    NotKept {
        /// How many.
        wake_ups: u64,
        /// Of how many.
        of: u64,
    },
    /// The sentence of an earlier version.
    Earlier {
        /// The sentence.
        text: String,
    },
}

impl NotSeen {
    /// Adds another one of the same kind, or of the same content; returns whether it is such a one.
    pub(crate) fn absorb(&mut self, other: &Self) -> bool {
        match (&mut *self, other) {
            (Self::Forgotten { wake_ups: sum }, Self::Forgotten { wake_ups: more })
            | (Self::TooFast { wake_ups: sum }, Self::TooFast { wake_ups: more })
            | (Self::NotQueued { count: sum }, Self::NotQueued { count: more })
            | (Self::Middle { wake_ups: sum }, Self::Middle { wake_ups: more }) => {
                *sum = sum.saturating_add(*more);
                true
            }
            _ => self == other,
        }
    }
}

impl Sentence for NotSeen {
    fn sentence(text: String) -> Self {
        Self::Earlier { text }
    }
}

/// Why there are no stacks of threads while their CPU is blocked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum NoBlockedStacks {
    /// The kernel is too old.
    KernelBefore {
        /// The first version that has what is needed.
        major: u32,
        /// Its second number.
        minor: u32,
    },
    /// The kernel refused the program that starts the timers.
    Refused {
        /// The text of the kernel, or of the library that loads BPF programs.
        error: String,
    },
    /// The kernel refused a step in starting the timers.
    Timers {
        /// Which step of the program.
        step: u32,
    },
}

/// Why functions of the kernel have no names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "why", rename_all = "kebab-case")]
pub enum NoKernelNames {
    /// `/proc/kallsyms` can't be read.
    Unreadable {
        /// The operating system's text.
        error: String,
    },
    /// The kernel hides its addresses.
    Hidden,
    /// The sentence of an earlier version.
    Earlier {
        /// The sentence.
        text: String,
    },
}

impl Sentence for NoKernelNames {
    fn sentence(text: String) -> Self {
        Self::Earlier { text }
    }
}

/// Events of a recording, by what they tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum RecordedEvents {
    /// Who ran.
    Switches,
    /// Who woke the threads.
    Wakings,
    /// The CPU's own interrupts.
    CpuInterrupts,
    /// Interrupts of devices.
    DeviceInterrupts,
    /// Softirqs.
    Softirqs,
    /// When timers were due.
    TimerStarts,
}

impl RecordedEvents {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Switches,
        Self::Wakings,
        Self::CpuInterrupts,
        Self::DeviceInterrupts,
        Self::Softirqs,
        Self::TimerStarts,
    ];
}
