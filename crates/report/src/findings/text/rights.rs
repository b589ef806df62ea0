//! Rights of a program.

use super::FindingText;

pub(super) const RTPRIO_LIMIT: FindingText = FindingText {
    title: "Limit of the real-time priority",
    why: "Without CAP_SYS_NICE a program gets EPERM above this priority.",
    by_hand: "LimitRTPRIO= of its unit, or @realtime - rtprio 98 in /etc/security/limits.d",
    source: "rtcqs, realTimeConfigQuickScan, real-time Ubuntu",
};

pub(super) const MEMLOCK_LIMIT: FindingText = FindingText {
    title: "Limit of locked memory",
    why: "After mlockall every further mapping beyond the limit fails with EAGAIN.",
    by_hand: "LimitMEMLOCK=infinity of its unit, or - memlock unlimited in \
              /etc/security/limits.d",
    source: "rtcqs; measured",
};

pub(super) const RTTIME_LIMIT: FindingText = FindingText {
    title: "Limit of real-time CPU time",
    why: "A thread that does not sleep for this time gets SIGXCPU, and then SIGKILL: \
          200 ms in sessions of rtkit.",
    by_hand: "LimitRTTIME=infinity of its unit",
    source: "Signal-Desktop#8024, easyeffects#3108",
};

pub(super) const RTKIT: FindingText = FindingText {
    title: "rtkit",
    why: "It grants priorities up to 20, and takes them away from programs of other users than root when \
          its canary thread starves.",
    by_hand: "use limits or capabilities instead",
    source: "pop-os#2436",
};

pub(super) const DMA_LATENCY_ACCESS: FindingText = FindingText {
    title: "Access to /dev/cpu_dma_latency",
    why: "A program that can't write it can't hold idle states off.",
    by_hand: "a udev rule: KERNEL==\"cpu_dma_latency\", GROUP=\"realtime\", MODE=\"0660\"",
    source: "rtcqs",
};

pub(super) const CAPABILITIES: FindingText = FindingText {
    title: "Capabilities",
    why: "Without them limits can't be raised, memory not locked, priorities not set.",
    by_hand: "AmbientCapabilities= of its unit, or setcap",
    source: "measured",
};

pub(super) const AFFINITY: FindingText = FindingText {
    title: "CPUs that the program may use",
    why: "A program whose cpuset lacks a CPU gets EINVAL for it. An affinity alone is no limit: \
          the program can change it itself.",
    by_hand: "widen its cpuset",
    source: "measured",
};

pub(super) const POSIX_OPTIONS: FindingText = FindingText {
    title: "POSIX options for real time",
    why: "They are constants of the C library: what works here was tried.",
    by_hand: "",
    source: "POSIX.1-2017; measured",
};
