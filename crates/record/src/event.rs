//! What happened during a run, and how it ended: kinds with their figures. `report` has the words.

use serde::{Deserialize, Serialize};

use super::condition::Scheduling;
use super::explanation::NoKernelNames;
use super::load::LoadFailure;
use super::stops::StopCause;
use super::unavailable::Unavailable;
use super::unsaved::{MissingSamples, Unsaved};

/// Something that happened during the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Time since the start of the measurement.
    pub at_ns: u64,
    /// What happened.
    #[serde(flatten)]
    pub what: Happening,
    /// True: the conditions that were requested no longer held, so the run is not valid.
    pub invalidates: bool,
    /// Of a merged record: in which of the runs, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
}

impl Event {
    /// An event that does not invalidate the run by itself.
    #[must_use]
    pub fn new(at_ns: u64, what: Happening) -> Self {
        Self {
            at_ns,
            what,
            invalidates: false,
            run: None,
        }
    }

    /// An event that ended the requested conditions.
    #[must_use]
    pub fn invalidating(at_ns: u64, what: Happening) -> Self {
        Self {
            invalidates: true,
            ..Self::new(at_ns, what)
        }
    }

    /// The stable name of its kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        self.what.kind()
    }
}

/// What happened, by its stable name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Happening {
    /// The affinity of a probe changed.
    Affinity {
        /// The CPU of the probe.
        cpu: usize,
        /// Where it could run before.
        before: Vec<usize>,
        /// Where it may run now.
        now: Vec<usize>,
    },
    /// A wake-up above the break value ended a watch.
    Breach {
        /// The thread's name.
        task: String,
        /// Its number.
        tid: u32,
        /// The CPU on which it ran again.
        cpu: u32,
        /// How long it took.
        latency_ns: u64,
        /// The break value.
        limit_ns: u64,
    },
    /// The wall clock was set.
    ClockSet {
        /// Forward, or below 0 back.
        step_ns: i64,
    },
    /// The clock source changed.
    ClockSource {
        /// The one before.
        before: String,
        /// The one now.
        now: String,
    },
    /// A CPU was taken offline.
    CpuOffline {
        /// Which.
        cpu: usize,
        /// Whether it is probed.
        probed: bool,
    },
    /// A CPU was brought online.
    CpuOnline {
        /// Which.
        cpu: usize,
    },
    /// A process traced a probe.
    Debugger {
        /// The CPU of the probe.
        cpu: usize,
        /// The process.
        pid: i32,
    },
    /// The frequency governor of a CPU changed.
    Governor {
        /// The CPU.
        cpu: usize,
        /// The one before.
        before: String,
        /// The one now.
        now: String,
    },
    /// Another tool did not keep the latencies of some samples.
    HistogramOverflow {
        /// Of which thread.
        thread: u64,
        /// Of how many samples.
        samples: u64,
    },
    /// The kernel said something that matters to a measurement of time.
    KernelMessage {
        /// Its text.
        message: String,
    },
    /// Events that a merged record has no space for.
    LeftOut {
        /// Of which kind.
        of: String,
        /// How many.
        count: u64,
    },
    /// A load failed.
    LoadFailed {
        /// Which.
        load: String,
        /// Why.
        failure: LoadFailure,
    },
    /// A load did no work.
    LoadIdle {
        /// Which.
        load: String,
        /// For how long.
        length_ns: u64,
        /// Where processes of it were stopped: how many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stopped: Option<u64>,
        /// And of how many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        processes: Option<u64>,
    },
    /// A mark is not seen.
    MarkRefused {
        /// Its name.
        mark: String,
        /// Why.
        why: Unavailable,
    },
    /// Threads ended before they were woken.
    NeverWoke {
        /// How many.
        count: u64,
        /// The first of them, `name/number`.
        threads: Vec<String>,
    },
    /// Another tool kept no histogram.
    NoHistogram {
        /// Of which thread.
        thread: u64,
    },
    /// A thread measured nothing.
    NoSamples {
        /// Which.
        thread: u64,
    },
    /// Late wake-ups, or gaps, are not explained; or the kernel's events are not known of late messages.
    NotExplained {
        /// Why.
        why: Unavailable,
        /// Whether it is gaps.
        gaps: bool,
        /// Whether it is messages.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        messages: bool,
    },
    /// Functions of the kernel have no names.
    OffCpuNames {
        /// Why.
        #[serde(alias = "error", deserialize_with = "crate::earlier::one")]
        why: NoKernelNames,
    },
    /// Stacks are less deep than there is room for.
    OffCpuStacks {
        /// Functions that a stack has at most; 0: there are no stacks.
        frames: u32,
        /// Functions that there is room for.
        wanted: u32,
    },
    /// Policy or priority of a probe changed.
    Priority {
        /// The CPU of the probe.
        cpu: usize,
        /// As it was before.
        before: Scheduling,
        /// As it is now.
        now: Scheduling,
    },
    /// A probe could not wait.
    ProbeFailed {
        /// The CPU of the probe.
        cpu: usize,
        /// The operating system's text.
        error: String,
    },
    /// What was watched is gone.
    ProgramEnded {
        /// What it was.
        gone: Gone,
    },
    /// The measurement of a path ended, or was incomplete, because of the other machine.
    PeerGone {
        /// How.
        how: PeerGone,
    },
    /// The CPU quota of a control group throttled threads.
    Quota {
        /// The group's directory.
        group: String,
        /// In how many periods.
        periods: u64,
        /// For how long, summed over the CPUs.
        throttled_ns: u64,
    },
    /// Samples were not all written.
    Samples(MissingSamples),
    /// A part of the record could not be saved.
    SaveFailed(Unsaved),
    /// A setting that was changed for the run did not keep its value.
    SettingLost {
        /// The setting.
        setting: String,
        /// The value that it was given.
        value: String,
        /// Its value at the end of the run; absent where it could not be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        found: Option<String>,
    },
    /// A signal ended the run.
    Signal {
        /// Which.
        signal: Ending,
    },
    /// The host took time from a CPU.
    Steal {
        /// Which.
        cpu: usize,
        /// How much it took.
        stolen_ns: u64,
        /// Of how much.
        between_ns: u64,
    },
    /// Something was stopped.
    Stopped {
        /// What.
        stopped: Halted,
        /// For how long.
        length_ns: u64,
        /// By what.
        cause: StopCause,
    },
    /// The machine was suspended.
    Suspended {
        /// For how long.
        length_ns: u64,
    },
    /// Real-time threads were throttled.
    Throttled {
        /// How that is known.
        seen: Throttling,
    },
    /// The kernel's trace buffer is frozen, and saved.
    TraceFrozen {
        /// The directory of its tracing.
        directory: String,
        /// The file beside the record.
        file: String,
    },
    /// The kernel's trace buffer could not be frozen.
    TraceNotFrozen {
        /// The file that could not be written.
        file: String,
        /// The operating system's text.
        error: String,
    },
    /// What watches counted of their threads is not in a merged record.
    WatchLeftOut,
    /// Jobs of a released task were never started: as many releases were pending as may be.
    JobsDropped {
        /// The task.
        task: String,
        /// How many.
        jobs: u64,
        /// How many releases may be pending.
        pending: u32,
    },
    /// The sender's socket had no room for replies.
    RepliesDropped {
        /// How many replies.
        replies: u64,
        /// Of so many messages.
        of: u64,
    },
}

impl Happening {
    /// The stable name of the kind, as the record has it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Affinity { .. } => "affinity",
            Self::Breach { .. } => "breach",
            Self::ClockSet { .. } => "clock-set",
            Self::ClockSource { .. } => "clock-source",
            Self::CpuOffline { .. } => "cpu-offline",
            Self::CpuOnline { .. } => "cpu-online",
            Self::Debugger { .. } => "debugger",
            Self::Governor { .. } => "governor",
            Self::HistogramOverflow { .. } => "histogram-overflow",
            Self::JobsDropped { .. } => "jobs-dropped",
            Self::KernelMessage { .. } => "kernel-message",
            Self::LeftOut { .. } => "left-out",
            Self::LoadFailed { .. } => "load-failed",
            Self::LoadIdle { .. } => "load-idle",
            Self::MarkRefused { .. } => "mark-refused",
            Self::NeverWoke { .. } => "never-woke",
            Self::NoHistogram { .. } => "no-histogram",
            Self::NoSamples { .. } => "no-samples",
            Self::NotExplained { .. } => "not-explained",
            Self::OffCpuNames { .. } => "off-cpu-names",
            Self::OffCpuStacks { .. } => "off-cpu-stacks",
            Self::Priority { .. } => "priority",
            Self::RepliesDropped { .. } => "replies-dropped",
            Self::ProbeFailed { .. } => "probe-failed",
            Self::ProgramEnded { .. } => "program-ended",
            Self::PeerGone { .. } => "peer-gone",
            Self::Quota { .. } => "quota",
            Self::Samples(_) => "samples",
            Self::SaveFailed(_) => "save-failed",
            Self::SettingLost { .. } => "setting-lost",
            Self::Signal { .. } => "signal",
            Self::Steal { .. } => "steal",
            Self::Stopped { .. } => "stopped",
            Self::Suspended { .. } => "suspended",
            Self::Throttled { .. } => "throttled",
            Self::TraceFrozen { .. } => "trace-frozen",
            Self::TraceNotFrozen { .. } => "trace-not-frozen",
            Self::WatchLeftOut => "watch-left-out",
        }
    }
}

/// How the responder failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum PeerGone {
    /// It ended the connection of data.
    Closed,
    /// It ended the connection of control: its process or its machine is gone.
    Vanished,
    /// It sent what is no reply.
    Garbled,
    /// A call on the connection of data failed.
    Failed {
        /// The operating system's text.
        error: String,
    },
    /// It did not report at the end: its conditions there are not known.
    NoReport {
        /// Why.
        error: String,
    },
}

/// What was watched and is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Gone {
    /// A program.
    Program {
        /// Its name.
        program: String,
        /// Whether its child processes are gone too, which were watched.
        children: bool,
    },
    /// A control group.
    Group {
        /// Its directory.
        directory: String,
    },
}

/// What was stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "what", rename_all = "kebab-case")]
pub enum Halted {
    /// The probe of a CPU.
    Probe {
        /// The CPU.
        cpu: usize,
    },
    /// The measuring process.
    Process,
    /// A watched thread.
    Thread {
        /// Its name.
        name: String,
        /// Its number.
        tid: u32,
    },
    /// What is watched as a whole.
    Program {
        /// Its name.
        program: String,
    },
    /// Several threads of what is watched.
    Threads {
        /// Its name.
        program: String,
    },
}

/// How throttling is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "in", rename_all = "kebab-case")]
pub enum Throttling {
    /// The kernel said so.
    KernelLog {
        /// Its text.
        message: String,
    },
    /// The accounts of real-time threads show it.
    Accounts {
        /// The CPU of the probe.
        cpu: usize,
        /// What bounds real-time threads.
        bound: RealTimeBound,
        /// How long they may run in each period.
        runtime_ns: u64,
        /// The period.
        period_ns: u64,
        /// How long they ran.
        ran_ns: u64,
        /// Within how long.
        window_ns: u64,
        /// How long the probe was ready while no thread of its priority or above ran.
        ready_ns: u64,
    },
}

/// What bounds the time of real-time threads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "by", rename_all = "kebab-case")]
pub enum RealTimeBound {
    /// The control group.
    Group {
        /// The file that sets it.
        file: String,
    },
    /// `kernel.sched_rt_runtime_us`.
    Machine,
    /// The fair server of Linux 6.12 and later.
    FairServer,
}

/// Whether a record is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum State {
    /// The run is still going, or it was killed: what was saved last stands.
    Unfinished,
    /// The run came to the end that was requested.
    Finished,
    /// The run was ended before, cleanly: everything measured stands.
    Stopped(Ending),
}

/// What ended a run before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Ending {
    /// SIGINT.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP.
    HangUp,
    /// SIGXCPU: RLIMIT_RTTIME, or RLIMIT_CPU.
    TimeLimit,
    /// A latency above the break value.
    BreakValue,
    /// The process was stopped for longer than the break value.
    ProcessStopped,
    /// Some of the runs of a merged record are unfinished.
    UnfinishedRuns {
        /// How many.
        unfinished: u64,
        /// Of how many.
        runs: u64,
    },
    /// Another tool failed.
    ExitStatus {
        /// Its exit status.
        status: i64,
    },
}
