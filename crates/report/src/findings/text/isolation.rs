//! Isolation of CPUs.

use super::FindingText;

pub(super) const ISOLATED_CPUS: FindingText = FindingText {
    title: "Isolated CPUs",
    why: "The scheduler balances other threads onto a CPU that is not isolated.",
    by_hand: "if no housekeeping CPU is left, name fewer CPUs; echo isolated to \
              cpuset.cpus.partition of a cgroup with these CPUs, and read it back; or use a \
              kernel with CONFIG_CPU_ISOLATION=y, then boot with isolcpus=",
    source: "TuneD, OpenShift, real-time Ubuntu",
};

pub(super) const NOHZ_FULL: FindingText = FindingText {
    title: "CPUs without a tick",
    why: "The tick interrupts a CPU 100 to 1000 times a second, for 1 to 10 µs.",
    by_hand: "if no housekeeping CPU is left, name fewer CPUs; take another CPU than 0, whose tick \
              a kernel that can suspend keeps; use a kernel with CONFIG_NO_HZ_FULL=y, then boot \
              with nohz_full=, and without nohz=off",
    source: "TuneD, OpenShift, real-time Ubuntu",
};

pub(super) const RCU_NOCBS: FindingText = FindingText {
    title: "RCU callbacks",
    why: "Callbacks of RCU run in softirqs of the CPU that queued them.",
    by_hand: "use a kernel with CONFIG_RCU_NOCB_CPU=y, then boot with rcu_nocbs=",
    source: "TuneD, OpenShift, real-time Ubuntu",
};

pub(super) const RCU_THREADS: FindingText = FindingText {
    title: "RCU's threads",
    why: "Threads that call offloaded callbacks may run on the real-time CPUs again.",
    by_hand: "no housekeeping CPU is left: name fewer CPUs",
    source: "real-time Ubuntu",
};

pub(super) const NOHZ_PATIENCE: FindingText = FindingText {
    title: "Patience of RCU with nohz_full CPUs",
    why: "Without patience RCU interrupts a nohz_full CPU early in a grace period.",
    by_hand: "",
    source: "TuneD",
};

pub(super) const DEFAULT_IRQ_AFFINITY: FindingText = FindingText {
    title: "CPUs of new interrupts",
    why: "A device that appears later sends its interrupts there.",
    by_hand: "take another CPU than 0, to which irqaffinity= always sends interrupts; if no \
              housekeeping CPU is left, name fewer CPUs",
    source: "TuneD, OpenShift, rt-conf",
};

pub(super) const IRQ_AFFINITY: FindingText = FindingText {
    title: "Interrupts on real-time CPUs",
    why: "Each interrupt takes 1 to 100 µs from the thread on its CPU.",
    by_hand: "no housekeeping CPU is left: name fewer CPUs",
    source: "TuneD, OpenShift, rt-conf, tuna",
};

pub(super) const MANAGED_IRQS: FindingText = FindingText {
    title: "Managed interrupts on real-time CPUs",
    why: "The kernel itself spreads interrupts of storage queues over the CPUs, and \
          refuses to move them.",
    by_hand: "give the device fewer queues, or keep storage work off these CPUs",
    source: "measured; irqbalance#331",
};

pub(super) const IRQBALANCE: FindingText = FindingText {
    title: "irqbalance",
    why: "It moves interrupts back to the CPUs from which they were moved.",
    by_hand: "set IRQBALANCE_BANNED_CPULIST to the real-time CPUs, and remove \
              IRQBALANCE_BANNED_CPUS, which wins over it; or stop irqbalance",
    source: "TuneD, OpenShift, irqbalance#297",
};

pub(super) const WORKQUEUE_MASK: FindingText = FindingText {
    title: "CPUs of unbound workqueues",
    why: "Workers of unbound queues run on every CPU of this mask.",
    by_hand: "no housekeeping CPU is left: name fewer CPUs",
    source: "TuneD",
};

pub(super) const BOUND_KWORKERS: FindingText = FindingText {
    title: "Workers bound to real-time CPUs",
    why: "Work that was queued on a CPU runs there, in a thread that can't be moved.",
    by_hand: "find who queues it: trace workqueue:workqueue_queue_work",
    source: "kernel documentation: core-api/workqueue",
};

pub(super) const VMSTAT_INTERVAL: FindingText = FindingText {
    title: "Interval of vmstat",
    why: "A worker folds the statistics of each CPU at this interval; from Linux 6.5 on not those of \
          isolated CPUs.",
    by_hand: "",
    source: "TuneD, OpenShift",
};

pub(super) const TIMER_MIGRATION: FindingText = FindingText {
    title: "Migration of timers",
    why: "TuneD turns it off, so that timers stay on their CPU; OpenShift turns it on, \
          so that idle CPUs' timers leave. Prove it here.",
    by_hand: "",
    source: "TuneD, OpenShift: opposite advice",
};

pub(super) const RECEIVE_STEERING: FindingText = FindingText {
    title: "Steering of network packets",
    why: "RPS sends received packets to these CPUs for processing; XPS chooses the \
          sending queue.",
    by_hand: "",
    source: "OpenShift",
};

pub(super) const WATCHDOG_MASK: FindingText = FindingText {
    title: "CPUs of the watchdog",
    why: "The soft lockup detector's timer interrupts each of these CPUs every 4 s.",
    by_hand: "no housekeeping CPU is left: name fewer CPUs",
    source: "kernel documentation",
};

pub(super) const KTHREAD_CPUS: FindingText = FindingText {
    title: "CPUs of kernel threads",
    why: "New kernel threads may run on every CPU. kthread_cpus= is known to kernels of Ubuntu \
          and StarlingX alone.",
    by_hand: "use a kernel with CONFIG_NO_HZ_FULL=y, then boot with nohz_full=; take another CPU \
              than 0, whose tick a kernel that can suspend keeps",
    source: "real-time Ubuntu, rt-conf",
};

pub(super) const USER_THREADS: FindingText = FindingText {
    title: "Other programs on real-time CPUs",
    why: "They may run there, or be moved there, at any time.",
    by_hand: "give them other CPUs: AllowedCPUs= of their systemd slice, a cpuset, or \
              taskset",
    source: "tuna, TuneD",
};

pub(super) const SYSTEMD_SLICES: FindingText = FindingText {
    title: "CPUs of systemd's slices",
    why: "Services and sessions may run on the real-time CPUs.",
    by_hand: "systemctl set-property --runtime SLICE AllowedCPUs=LIST for init.scope, \
              system.slice, user.slice",
    source: "real-time Ubuntu, OpenShift",
};

pub(super) const SMT_SIBLINGS: FindingText = FindingText {
    title: "SMT siblings of real-time CPUs",
    why: "A sibling shares the core: it halves its speed and adds 10 to 100 µs.",
    by_hand: "take the first thread of each core for real-time work, leave a whole core to other \
              work, and boot with nosmt; or switch SMT off in the firmware",
    source: "rtcqs, real-time Ubuntu",
};

pub(super) const RESCTRL: FindingText = FindingText {
    title: "Control of caches and memory bandwidth",
    why: "The processor could reserve a part of the cache for the real-time CPUs.",
    by_hand: "mount -t resctrl resctrl /sys/fs/resctrl, and write schemata",
    source: "real-time Ubuntu (Intel TCC)",
};

pub(super) const NUMA: FindingText = FindingText {
    title: "NUMA nodes",
    why: "Memory or a device of another node is slower to reach.",
    by_hand: "take CPUs of the node of the device",
    source: "kernel documentation",
};
