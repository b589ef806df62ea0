//! Memory.

use super::FindingText;

pub(super) const SWAP: FindingText = FindingText {
    title: "Swap",
    why: "A page of a program that is not locked in memory may be swapped out: the next \
          access waits for the disk, for milliseconds.",
    by_hand: "swapoff -a, and remove swap from /etc/fstab; or lock the program's memory \
              with mlockall (punctual run --lock)",
    source: "rtcqs, realTimeConfigQuickScan",
};

pub(super) const SWAPPINESS: FindingText = FindingText {
    title: "Swappiness",
    why: "With swap, a high swappiness moves idle pages of programs to the disk in favour \
          of the file cache.",
    by_hand: "",
    source: "rtcqs, TuneD realtime",
};

pub(super) const TRANSPARENT_HUGEPAGES: FindingText = FindingText {
    title: "Transparent huge pages",
    why: "With `always`, a page fault clears a huge page at once and, as `defrag` says, \
          compacts memory for one; khugepaged merges pages of running programs, with IPIs to \
          their CPUs.",
    by_hand: "",
    source: "TuneD realtime, OpenShift",
};

pub(super) const KSM: FindingText = FindingText {
    title: "Kernel samepage merging",
    why: "ksmd scans memory and merges equal pages: the next write to one of them faults.",
    by_hand: "",
    source: "TuneD realtime",
};

pub(super) const NUMA_BALANCING: FindingText = FindingText {
    title: "Automatic NUMA balancing",
    why: "It unmaps pages now and then to see who uses them, which costs page faults, and \
          migrates pages and threads.",
    by_hand: "",
    source: "TuneD realtime, OpenShift",
};

pub(super) const COMPACTION: FindingText = FindingText {
    title: "Compaction of memory",
    why: "Compaction moves pages, also those that are locked in memory: the next access to \
          a moved page faults. kcompactd compacts in advance where it is proactive.",
    by_hand: "",
    source: "kernel documentation: admin-guide/sysctl/vm",
};

pub(super) const MEMORY_SCANNERS: FindingText = FindingText {
    title: "Scanners of memory",
    why: "DAMON's threads walk page tables; 222 µs at a time were measured. Zone reclaim \
          makes an allocation reclaim memory before it goes to another node.",
    by_hand: "turn DAMON off: echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state, or \
              the module that started it: damon_reclaim, damon_lru_sort, or damon_stat, for which \
              echo N > /sys/module/damon_stat/parameters/enabled",
    source: "kernel documentation: admin-guide/mm/damon; measured",
};

pub(super) const DIRTY_WRITEBACK: FindingText = FindingText {
    title: "Writeback of dirty pages",
    why: "Many dirty pages make long bursts of writeback. A ratio and its number of bytes \
          set each other to zero.",
    by_hand: "",
    source: "TuneD realtime",
};

pub(super) const MIN_FREE: FindingText = FindingText {
    title: "Reserve of free memory",
    why: "When free memory falls below the reserve, an allocation reclaims memory itself.",
    by_hand: "",
    source: "kernel documentation: admin-guide/sysctl/vm",
};

pub(super) const HUGEPAGES: FindingText = FindingText {
    title: "Reserved huge pages",
    why: "A program that maps huge pages needs them reserved; memory is soon too \
          fragmented to reserve them later.",
    by_hand: "",
    source: "OpenShift",
};

pub(super) const MEMORY_LIMIT: FindingText = FindingText {
    title: "Memory limit of the control group",
    why: "At its limit every allocation of the group reclaims memory first, and at the limit of a \
          group above it, too: memory.max, or memory.high, above which it is slowed down as well.",
    by_hand: "raise that limit of the group that --explain memory-limit names",
    source: "kernel documentation: admin-guide/cgroup-v2",
};
