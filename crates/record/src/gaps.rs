//! What a run measured that polled the clock: gaps instead of wake-ups.
//!
//! Each gap stands in the record where a wake-up would: its beginning is the instant, its
//! length the latency.

use punctual_stats::gaps::WatchedTime;
use serde::{Deserialize, Serialize};

/// A run of gaps.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gaps {
    /// What they tell of.
    pub subject: Subject,
    /// How they were found.
    pub method: Method,
    /// Longer than this is a gap.
    pub above_ns: u64,
    /// Median time from one reading of the clock to the next; 0 where the kernel's tracer
    /// read it.
    pub step_ns: u64,
    /// How long the clock was polled in each period.
    pub runtime_ns: u64,
    /// The period; as long as `runtime_ns` where it was polled without rest.
    pub period_ns: u64,
    /// Whether the kernel's own gaps were told from the platform's, and set aside.
    pub sifted: bool,
    /// What each thread watched, in the order of the run's threads.
    pub threads: Vec<Watched>,
}

/// What gaps tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// All that takes a CPU from a thread that never waits.
    Noise,
    /// Hardware, firmware and hypervisor: what takes it from the kernel too.
    Hardware,
}

impl Subject {
    /// As it is named on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Noise => "noise",
            Self::Hardware => "hardware",
        }
    }
}

/// How gaps were found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// A thread of ours polled.
    Polling,
    /// The kernel's hwlat tracer polled with interrupts off.
    Hwlat,
}

/// The time of one thread: what it polled, what it lost, what it did not watch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Watched {
    /// From the start of the run to the last reading: the sum of the three that follow.
    pub span_ns: u64,
    /// Time between readings that were no gap.
    pub polled_ns: u64,
    /// Time in gaps, those set aside too.
    pub gap_ns: u64,
    /// Time that was not watched.
    pub unwatched_ns: u64,
    /// Readings of the clock.
    pub polls: u64,
    /// Gaps in which the kernel did something, and so not the platform's.
    #[serde(default)]
    pub set_aside: u64,
    /// Their time.
    #[serde(default)]
    pub set_aside_ns: u64,
    /// Gaps of which too few events are known to tell; they are set aside, too.
    #[serde(default)]
    pub untold: u64,
    /// The longest of these, in ns; 0 where that isn't known.
    #[serde(default)]
    pub longest_untold_ns: u64,
    /// System management interrupts while it ran; absent where they can't be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smi: Option<u64>,
}

impl Watched {
    /// Time in which a gap would have been found.
    #[must_use]
    pub fn watched_ns(&self) -> u64 {
        self.polled_ns.saturating_add(self.gap_ns)
    }

    /// Time in gaps that were not set aside.
    #[must_use]
    pub fn counted_ns(&self) -> u64 {
        self.gap_ns.saturating_sub(self.set_aside_ns)
    }
}

impl Gaps {
    /// What was watched of the time of all threads, for the verdict.
    #[must_use]
    pub fn time(&self) -> WatchedTime {
        let (span_ns, watched_ns) = self.spans_ns();
        // None is longer than all that were set aside.
        let untold = self
            .threads
            .iter()
            .map(|thread| match thread.longest_untold_ns {
                0 if thread.untold > 0 => thread.set_aside_ns,
                longest_ns => longest_ns,
            });
        WatchedTime {
            span_ns,
            watched_ns,
            untold_ns: untold.max().unwrap_or(0),
        }
    }

    /// Time of all threads, and how much of it was watched.
    #[must_use]
    pub fn spans_ns(&self) -> (u64, u64) {
        let sum = |part: fn(&Watched) -> u64| {
            let parts = self.threads.iter().map(part);
            parts.fold(0_u64, u64::saturating_add)
        };
        (sum(|thread| thread.span_ns), sum(Watched::watched_ns))
    }
}
