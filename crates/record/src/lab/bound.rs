//! How late a wake-up could have been, as data.

use serde::{Deserialize, Serialize};

/// The latest that a wake-up could have been on what a guest executed, whenever its timer had expired: the
/// sum of its parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabBound {
    /// The longest window in which it could not have been served.
    pub window_ns: u64,
    /// From the requested instant to the timer's interrupt where interrupts are enabled, at most.
    pub timer_ns: u64,
    /// The interrupt's handler and the switch to the thread, at most.
    pub served_ns: u64,
    /// The windows after which a wake-up would be latest, each between two places in the kernel, the worst
    /// first.
    pub windows: Vec<LabWindow>,
    /// Interrupts that came.
    pub interrupts: u64,
    /// Wake-ups whose parts were measured.
    pub wake_ups: u64,
}

impl LabBound {
    /// The sum of its parts.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        let parts = [self.window_ns, self.timer_ns, self.served_ns];
        parts.into_iter().fold(0, u64::saturating_add)
    }
}

/// A window in which the kernel could not have switched to a thread that a timer wakes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LabWindow {
    /// The longest between these places.
    pub length_ns: u64,
    /// The function in which it begins.
    pub opened_by: String,
    /// The function in which it ends.
    pub closed_by: String,
    /// The function at which an interrupt begins that came soon after, while a wake-up would have been
    /// served: the length includes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// How often one between these places was among the longest.
    pub times: u64,
}

/// Why a guest has no bound.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NoBound {
    /// It was not a probe in virtual time.
    NoProbe,
    /// The record does not have exactly one probe thread.
    Threads {
        /// How many it has.
        threads: u64,
    },
    /// The probe's thread has no real-time priority: others may run before it.
    Policy,
    /// The kernel's symbols can't be read.
    Symbols {
        /// The text of the error, evidence that nothing parses.
        error: String,
    },
    /// The kernel has no function or variable of this name.
    NoSymbol {
        /// The name.
        name: String,
    },
    /// When the kernel is preempted is not known: the record does not say by which model.
    Preemption {
        /// What it says.
        model: String,
    },
    /// The plugin's file can't be read.
    Unreadable {
        /// The error.
        error: String,
    },
    /// The plugin's file is damaged or cut off.
    Damaged {
        /// The line, from 1.
        line: u64,
    },
    /// The guest did what the plugin doesn't understand.
    NotUnderstood {
        /// Interrupts that came while they seemed to be disabled.
        interrupted_while_disabled: u64,
        /// Instructions that set the flags from memory.
        flags_popped: u64,
        /// Returns to a program at which the count of preemption was not 0.
        returned_with_count: u64,
        /// Writes to the count of preemption that could not be read.
        count_unread: u64,
    },
    /// The marks do not match the wake-ups of the record.
    OtherMarks {
        /// How many marks there are.
        marks: u64,
    },
    /// A wake-up took longer than the sum of what was measured: it is not woken by a timer's interrupt
    /// alone.
    Exceeded {
        /// The wake-up's latency.
        latency_ns: u64,
        /// The sum.
        bound_ns: u64,
    },
}
