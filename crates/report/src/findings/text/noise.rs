//! Noise.

use super::FindingText;

pub(super) const WATCHDOGS: FindingText = FindingText {
    title: "Watchdogs",
    why: "The NMI watchdog interrupts each CPU; the soft lockup detector runs a timer \
          every 4 s.",
    by_hand: "",
    source: "TuneD, OpenShift",
};

pub(super) const RCU_EXPEDITED: FindingText = FindingText {
    title: "Expedited RCU",
    why: "Expedited grace periods interrupt every busy CPU. TuneD turns them off; \
          meta-qcom#1542 turns them on. Prove it here.",
    by_hand: "",
    source: "TuneD, meta-qcom#1542: opposite advice",
};

pub(super) const RCU_STALL: FindingText = FindingText {
    title: "RCU stall detection",
    why: "A thread that never leaves the kernel causes a warning after this time.",
    by_hand: "",
    source: "kernel documentation",
};

pub(super) const SERIAL_CONSOLE: FindingText = FindingText {
    title: "Serial console",
    why: "Each message is printed byte by byte: 7.6 ms on an ordinary kernel were \
          measured, 15 µs on PREEMPT_RT.",
    by_hand: "",
    source: "measured",
};

pub(super) const AUDIT: FindingText = FindingText {
    title: "Audit",
    why: "Its rules cost time at every system call that they match.",
    by_hand: "auditctl -D, or audit=0 at boot",
    source: "kernel documentation",
};

pub(super) const KDUMP: FindingText = FindingText {
    title: "Crash kernel",
    why: "It reserves memory, and is started by a panic.",
    by_hand: "",
    source: "kernel documentation",
};

pub(super) const PERF_SAMPLING: FindingText = FindingText {
    title: "Profilers and debuggers",
    why: "Sampling interrupts every CPU; a debugger stops threads.",
    by_hand: "stop these programs while it matters",
    source: "kernel documentation",
};

pub(super) const TIMER_JOBS: FindingText = FindingText {
    title: "Periodic jobs",
    why: "They load disk and memory at night or each hour.",
    by_hand: "systemctl mask NAME.timer",
    source: "OpenShift",
};

pub(super) const SPLIT_LOCK: FindingText = FindingText {
    title: "Split locks",
    why: "A program with a split lock sleeps 10 ms with mitigation on. With \
          split_lock_detect=fatal it gets SIGBUS instead.",
    by_hand: "",
    source: "kernel documentation",
};

pub(super) const FILESYSTEMS: FindingText = FindingText {
    title: "Network and user-space file systems",
    why: "An access waits for another machine or process, for any time.",
    by_hand: "keep a real-time program's files elsewhere",
    source: "rtcqs",
};

pub(super) const BLOCK_SCHEDULER: FindingText = FindingText {
    title: "Scheduler of block devices",
    why: "It decides in which order requests wait.",
    by_hand: "",
    source: "kernel documentation",
};

pub(super) const BUSY_POLL: FindingText = FindingText {
    title: "Busy polling of sockets",
    why: "TuneD polls for 50 µs; OpenShift does not on PREEMPT_RT.",
    by_hand: "",
    source: "TuneD, OpenShift",
};

pub(super) const OTHER_TUNERS: FindingText = FindingText {
    title: "Other programs that tune",
    why: "They change the same settings, and undo each other's changes.",
    by_hand: "stop them, or let them do it all",
    source: "tuned#816, pop-os#2436",
};
