//! The scheduler.

use super::FindingText;

pub(super) const RT_THROTTLING: FindingText = FindingText {
    title: "Throttling of real-time threads",
    why: "When real-time threads use more than the budget, none runs until the period \
          ends: 50 ms in every second by default. -1 also turns off the admission test \
          of SCHED_DEADLINE.",
    by_hand: "",
    source: "TuneD, OpenShift, real-time Ubuntu",
};

pub(super) const FAIR_SERVER: FindingText = FindingText {
    title: "Fair server",
    why: "It gives ordinary threads 50 ms in every second, above SCHED_FIFO. Without \
          it a thread that never sleeps stops all others of its CPU.",
    by_hand: "",
    source: "ni/meta-nilrt#864, NVIDIA/NV-Kernels#400",
};

pub(super) const RT_GROUP_SCHED: FindingText = FindingText {
    title: "Real-time group scheduling",
    why: "A control group without a budget refuses SCHED_FIFO with EPERM, also to \
          privileged containers, unless kernel.sched_rt_runtime_us is -1.",
    by_hand: "write a budget to cpu.rt_runtime_us of the parent groups, then of the group; or \
              boot Linux 6.16 or later with rt_group_sched=0",
    source: "measured",
};

pub(super) const AUTOGROUP: FindingText = FindingText {
    title: "Automatic groups",
    why: "It divides CPU time among sessions: nice of a load counts within its session \
          alone.",
    by_hand: "",
    source: "kernel documentation",
};

pub(super) const COMPETING_PRIORITIES: FindingText = FindingText {
    title: "Threads at or above the program's priority",
    why: "They delay the program whenever they run on its CPU.",
    by_hand: "lower their priority, or raise the program's",
    source: "tuna",
};

pub(super) const SOFTIRQ_THREADS: FindingText = FindingText {
    title: "Threads of softirqs and timers",
    why: "On PREEMPT_RT they do the work that programs wait for: a busy real-time \
          thread of any priority starves those at SCHED_OTHER.",
    by_hand: "",
    source: "OpenShift",
};

pub(super) const IRQ_THREADS: FindingText = FindingText {
    title: "Threads of interrupts",
    why: "They have priority 50 by default: a program above 50 that waits for a device \
          must leave its handler CPU time; the order among devices is not set.",
    by_hand: "chrt -f -p PRIO TID for the thread of each device that matters",
    source: "rtirq, realTimeConfigQuickScan",
};

pub(super) const THREADED_NAPI: FindingText = FindingText {
    title: "Threaded NAPI",
    why: "Threads that receive packets at SCHED_OTHER wait for every busy real-time \
          thread: up to 205 ms were measured.",
    by_hand: "give the program a priority above 1: no real-time thread can be below it",
    source: "measured",
};

pub(super) const UCLAMP: FindingText = FindingText {
    title: "Minimum clamp of real-time threads",
    why: "With schedutil a real-time thread starts at a low frequency if the clamp is \
          below 1024.",
    by_hand: "",
    source: "kernel documentation: scheduler/sched-util-clamp",
};

pub(super) const SKEW_TICK: FindingText = FindingText {
    title: "Skew of ticks",
    why: "Ticks of all CPUs at the same instant contend for locks.",
    by_hand: "",
    source: "TuneD, OpenShift",
};

pub(super) const DEADLINE_BANDWIDTH: FindingText = FindingText {
    title: "SCHED_DEADLINE",
    why: "Its threads run above every SCHED_FIFO thread.",
    by_hand: "",
    source: "kernel documentation: scheduler/sched-deadline",
};

pub(super) const STALLD: FindingText = FindingText {
    title: "stalld",
    why: "It boosts threads that starve beside a busy real-time thread; from 6.12 on \
          the fair server does so.",
    by_hand: "",
    source: "stalld, OpenShift",
};

pub(super) const SCHED_EXT: FindingText = FindingText {
    title: "Scheduler in BPF",
    why: "The policy of SCHED_OTHER is a program.",
    by_hand: "",
    source: "kernel documentation: scheduler/sched-ext",
};
