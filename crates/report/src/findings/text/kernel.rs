//! How the kernel was built and booted.

use super::FindingText;

pub(super) const RT_KERNEL: FindingText = FindingText {
    title: "PREEMPT_RT kernel",
    why: "Without PREEMPT_RT the kernel holds off preemption for milliseconds: exit of \
          a large process, poll of many descriptors, kill of many processes.",
    by_hand: "install a PREEMPT_RT kernel: linux-image-rt-amd64 on Debian, kernel-rt on \
              RHEL, ubuntu-realtime on Ubuntu",
    source: "rtcqs, realTimeConfigQuickScan, real-time Ubuntu; measured",
};

pub(super) const PREEMPT_MODE: FindingText = FindingText {
    title: "Preemption model",
    why: "An ordinary kernel preempts itself only where its model allows it; `lazy` \
          waits for the tick for ordinary threads.",
    by_hand: "build the kernel with CONFIG_PREEMPT or CONFIG_PREEMPT_DYNAMIC",
    source: "rtcqs, kernel documentation",
};

pub(super) const THREADIRQS: FindingText = FindingText {
    title: "Threaded interrupt handlers",
    why: "On an ordinary kernel handlers run in interrupt context, above every thread. \
          With threadirqs they are threads with a priority.",
    by_hand: "use a kernel with CONFIG_IRQ_FORCED_THREADING=y, then boot with threadirqs",
    source: "rtcqs, rtirq",
};

pub(super) const KERNEL_CONFIG: FindingText = FindingText {
    title: "Configuration of the kernel",
    why: "Several findings are read from it; without one they are unknown.",
    by_hand: "modprobe configs, or install the package with /boot/config-RELEASE",
    source: "rtcqs",
};

pub(super) const HIGH_RESOLUTION: FindingText = FindingText {
    title: "High-resolution timers",
    why: "Without them a timer has the resolution of a tick, 1 to 10 ms.",
    by_hand: "use a kernel with CONFIG_HIGH_RES_TIMERS, without highres=off",
    source: "rtcqs, realTimeConfigQuickScan",
};

pub(super) const NO_HZ_FULL_SUPPORT: FindingText = FindingText {
    title: "Support for nohz_full",
    why: "The parameter is ignored by a kernel without CONFIG_NO_HZ_FULL.",
    by_hand: "use a kernel with CONFIG_NO_HZ_FULL=y",
    source: "real-time Ubuntu",
};

pub(super) const RCU_NOCB_SUPPORT: FindingText = FindingText {
    title: "Support for rcu_nocbs",
    why: "The parameter is ignored by a kernel without CONFIG_RCU_NOCB_CPU.",
    by_hand: "use a kernel with CONFIG_RCU_NOCB_CPU=y",
    source: "kernel documentation",
};

pub(super) const DEBUG_OPTIONS: FindingText = FindingText {
    title: "Debugging options of the kernel",
    why: "Lock and memory debugging can make kernel paths two to ten times longer.",
    by_hand: "use a kernel without these options",
    source: "kernel documentation",
};

pub(super) const TRACING: FindingText = FindingText {
    title: "Tracing",
    why: "A tracer or enabled events cost time at every event that they record.",
    by_hand: "",
    source: "kernel documentation",
};

pub(super) const UNKNOWN_PARAMETER: FindingText = FindingText {
    title: "Boot parameters that the kernel does not know",
    why: "A parameter that is misspelt, or that this kernel was built without, is ignored, and \
          what it was to set is not in force. The kernel's log says which it does not know.",
    by_hand: "correct the spelling in the boot loader's configuration",
    source: "kernel documentation: admin-guide/kernel-parameters",
};

pub(super) const PARAMETER_NOT_IN_FORCE: FindingText = FindingText {
    title: "Boot parameters that are not in force",
    why: "What was requested at boot and what the kernel reports differ: CPUs that are \
          not isolated, a parameter given twice, interrupts sent to isolated CPUs.",
    by_hand: "correct the parameters in the boot loader's configuration",
    source: "seapath/ansible#865",
};

pub(super) const LOCKDOWN: FindingText = FindingText {
    title: "Lockdown",
    why: "In lockdown, files of debugfs can't be read or written, and MSRs not written, \
          even by root: fair_server, features, preempt.",
    by_hand: "turn Secure Boot off, or boot without lockdown=",
    source: "measured",
};

pub(super) const MITIGATIONS: FindingText = FindingText {
    title: "Mitigations of CPU vulnerabilities",
    why: "They make every entry to the kernel and every switch of context longer. \
          Security decides.",
    by_hand: "mitigations=off at boot, if security allows it",
    source: "rtcqs",
};

pub(super) const KERNEL_STACK_OFFSET: FindingText = FindingText {
    title: "Random offset of the kernel's stack",
    why: "At each system call the kernel takes it from its random number generator, which computes new \
          numbers now and then: p99 of a system call was 2.5 times as high, and the worst wake-up of \
          an idle kernel twice as late. Security decides.",
    by_hand: "",
    source: "linux-arm-kernel, March 2026; measured in the laboratory",
};

pub(super) const KERNEL_VERSION: FindingText = FindingText {
    title: "Version of the kernel",
    why: "Before 5.10 features that real-time work needs are missing. From 6.12 on the \
          fair server's timer ticks on nohz_full CPUs.",
    by_hand: "use a newer kernel; see the finding fair-server",
    source: "NVIDIA/NV-Kernels#400",
};

pub(super) const DUAL_KERNEL: FindingText = FindingText {
    title: "Second real-time core",
    why: "Under Xenomai Cobalt or EVL another core schedules its threads: punctual \
          measures Linux' threads, and its loads disturb both.",
    by_hand: "",
    source: "xenomai.org, evlproject.org",
};
