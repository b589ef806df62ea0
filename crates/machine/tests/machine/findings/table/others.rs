//! Memory, noise, and the rights of a program.

use punctual_record::finding::{Fault, FindingId as Id, Item, StateKind};

use super::{Case, Step, bad, expected, file, information, kernels, missing, present, program};
use crate::findings::tree::Policy;
use Step::File;

const LIMITS: &str = "/proc/self/limits";
const STATUS: &str = "/proc/self/status";
const NO_CAPABILITY: &str = "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-3\n";
const SWAPS: &str = "/proc/swaps";
const NO_SWAP: &str = "Filename Type Size Used Priority\n";
const SWAP: &str = "Filename Type Size Used Priority\n/dev/sda2 partition 8 0 -2\n";

pub fn cases() -> Vec<Case> {
    [memory(), noise(), rights()]
        .into_iter()
        .flatten()
        .collect()
}

fn memory() -> Vec<Case> {
    let unevictable = "/proc/sys/vm/compact_unevictable_allowed";
    let proactive = "/proc/sys/vm/compaction_proactiveness";
    vec![
        bad(
            Id::Swap,
            vec![File(SWAPS, NO_SWAP)],
            vec![File(SWAPS, SWAP)],
            present(&["/dev/sda2"]),
        )
        .by_hand(),
        bad(
            Id::Swappiness,
            vec![File(SWAPS, SWAP), File("/proc/sys/vm/swappiness", "10\n")],
            vec![File("/proc/sys/vm/swappiness", "60\n")],
            Fault::Above(10),
        )
        .write("/proc/sys/vm/swappiness", "10"),
        bad(
            Id::TransparentHugepages,
            vec![File(HUGE, "always madvise [never]\n")],
            vec![File(HUGE, "[always] madvise never\n")],
            expected(&["madvise", "never"]),
        )
        .write(HUGE, "madvise"),
        file(
            Id::NumaBalancing,
            "/proc/sys/kernel/numa_balancing",
            ["0\n", "1\n", "0"],
            expected(&["0"]),
        ),
        bad(
            Id::Compaction,
            vec![File(unevictable, "0\n"), File(proactive, "0\n")],
            vec![File(unevictable, "1\n"), File(proactive, "20\n")],
            expected(&["0"]),
        )
        .write(unevictable, "0"),
        bad(
            Id::MemoryScanners,
            vec![],
            vec![kernels(90, "kdamond.0", Policy::Other, "0-3")],
            present(&["kdamond.0"]),
        )
        .by_hand(),
        file(
            Id::MemoryScanners,
            "/proc/sys/vm/zone_reclaim_mode",
            ["0\n", "1\n", "0"],
            expected(&["0"]),
        ),
        bad(
            Id::MemoryLimit,
            vec![
                File("/proc/self/cgroup", "0::/job\n"),
                File("/sys/fs/cgroup/job/memory.max", "max\n"),
                File("/sys/fs/cgroup/job/memory.current", "950\n"),
            ],
            vec![File("/sys/fs/cgroup/job/memory.max", "1000\n")],
            Fault::Above(900),
        )
        .by_hand(),
        information(
            Id::MemoryLimit,
            vec![
                File("/proc/self/cgroup", "4:memory:/job\n0::/\n"),
                File(
                    "/sys/fs/cgroup/memory/job/memory.limit_in_bytes",
                    "9223372036854771712\n",
                ),
                File("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "10\n"),
            ],
            vec![File(
                "/sys/fs/cgroup/memory/job/memory.limit_in_bytes",
                "1000\n",
            )],
            Fault::Above(900),
        ),
        // The limit of a group above holds, too.
        bad(
            Id::MemoryLimit,
            vec![
                File("/proc/self/cgroup", "0::/job/app\n"),
                File("/sys/fs/cgroup/job/app/memory.max", "max\n"),
                File("/sys/fs/cgroup/job/app/memory.current", "940\n"),
                File("/sys/fs/cgroup/job/memory.max", "max\n"),
                File("/sys/fs/cgroup/job/memory.current", "950\n"),
            ],
            vec![File("/sys/fs/cgroup/job/memory.max", "1000\n")],
            Fault::Above(900),
        )
        .by_hand(),
        // Of several limits the one that is nearest.
        bad(
            Id::MemoryLimit,
            vec![
                File("/proc/self/cgroup", "0::/job/app\n"),
                File("/sys/fs/cgroup/job/app/memory.max", "1000\n"),
                File("/sys/fs/cgroup/job/app/memory.current", "850\n"),
                File("/sys/fs/cgroup/job/memory.max", "1000000\n"),
                File("/sys/fs/cgroup/job/memory.current", "500000\n"),
            ],
            vec![File("/sys/fs/cgroup/job/memory.current", "990000\n")],
            Fault::Above(900_000),
        )
        .starts(StateKind::Information)
        .by_hand(),
        // In version 1 only where the group above counts what its groups use.
        bad(
            Id::MemoryLimit,
            vec![
                File("/proc/self/cgroup", "4:memory:/job/app\n0::/\n"),
                File(
                    "/sys/fs/cgroup/memory/job/app/memory.limit_in_bytes",
                    "9223372036854771712\n",
                ),
                File("/sys/fs/cgroup/memory/job/memory.use_hierarchy", "0\n"),
                File("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000\n"),
                File("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "950\n"),
            ],
            vec![File(
                "/sys/fs/cgroup/memory/job/memory.use_hierarchy",
                "1\n",
            )],
            Fault::Above(900),
        )
        .by_hand(),
        bad(
            Id::DirtyWriteback,
            vec![File("/proc/sys/vm/dirty_ratio", "20\n")],
            vec![File("/proc/sys/vm/dirty_ratio", "80\n")],
            Fault::Above(20),
        )
        .starts(StateKind::Information)
        .write("/proc/sys/vm/dirty_ratio", "20"),
    ]
}

const HUGE: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

fn noise() -> Vec<Case> {
    let consoles = "/proc/consoles";
    let printk = "/proc/sys/kernel/printk";
    vec![
        file(
            Id::Watchdogs,
            "/proc/sys/kernel/nmi_watchdog",
            ["0\n", "1\n", "0"],
            expected(&["0"]),
        ),
        information(
            Id::Watchdogs,
            vec![File("/proc/sys/kernel/soft_watchdog", "0\n")],
            vec![File("/proc/sys/kernel/soft_watchdog", "1\n")],
            expected(&["0"]),
        )
        .write("/proc/sys/kernel/soft_watchdog", "0"),
        information(
            Id::RcuExpedited,
            vec![
                File("/sys/kernel/rcu_expedited", "0\n"),
                File("/sys/kernel/rcu_normal", "0\n"),
            ],
            vec![File("/sys/kernel/rcu_expedited", "1\n")],
            expected(&["0"]),
        )
        .write("/sys/kernel/rcu_expedited", "0"),
        bad(
            Id::SerialConsole,
            vec![
                File(consoles, "ttyS0 -W- (EC p a) 4:64\n"),
                File(printk, "4 4 1 7\n"),
            ],
            vec![File(printk, "7 4 1 7\n")],
            present(&["ttyS0"]),
        )
        .write(printk, "1"),
        // Each driver has its own name: what doesn't only write to memory is slow.
        bad(
            Id::SerialConsole,
            vec![
                File(
                    consoles,
                    "tty0 -WU (EC p  ) 4:1\nttynull-1 -W- (E  p  ) 243:0\nramoops-1 -W- (E  p a)\npstore-1 -W- (E  p a)\n",
                ),
                File(printk, "7 4 1 7\n"),
            ],
            vec![File(
                consoles,
                "tty0 -WU (E  p  ) 4:1\nttymxc0 -W- (EC a) 207:16\nhvc0 -W- (E  p  ) 229:0\n",
            )],
            present(&["ttymxc0", "hvc0"]),
        )
        .write(printk, "1"),
        information(
            Id::Audit,
            vec![File("/proc/cmdline", "audit=0")],
            vec![File("/proc/cmdline", "quiet"), program("auditd")],
            present(&["auditd"]),
        )
        .by_hand(),
        information(
            Id::Audit,
            vec![File("/proc/cmdline", "audit=OFF"), program("auditd")],
            vec![File("/proc/cmdline", "audit=no")],
            present(&["auditd"]),
        )
        .by_hand(),
        bad(
            Id::PerfSampling,
            vec![],
            vec![program("perf")],
            present(&["perf"]),
        )
        .by_hand(),
        information(
            Id::TimerJobs,
            vec![
                File("/run/systemd/system/", ""),
                File(
                    "/etc/systemd/system/timers.target.wants/backup.timer",
                    "[Timer]\n",
                ),
            ],
            vec![File(
                "/etc/systemd/system/timers.target.wants/fstrim.timer",
                "[Timer]\n",
            )],
            present(&["fstrim.timer"]),
        )
        .by_hand(),
        information(
            Id::TimerJobs,
            vec![],
            vec![program("cron")],
            present(&["cron"]),
        )
        .by_hand(),
        bad(
            Id::SplitLock,
            vec![
                File("/proc/sys/kernel/split_lock_mitigate", "0\n"),
                File("/proc/cpuinfo", "flags : fpu split_lock_detect\n"),
            ],
            vec![File("/proc/sys/kernel/split_lock_mitigate", "1\n")],
            expected(&["0"]),
        )
        .write("/proc/sys/kernel/split_lock_mitigate", "0"),
        information(
            Id::Filesystems,
            vec![],
            vec![File(
                "/proc/mounts",
                "host:/data /data nfs4 rw 0 0\nfusectl /sys/fs/fuse/connections fusectl rw 0 0\n",
            )],
            present(&[Item::Mount {
                place: "/data".to_owned(),
                filesystem: "nfs4".to_owned(),
            }]),
        )
        .by_hand(),
        information(
            Id::OtherTuners,
            vec![],
            vec![program("tuned")],
            present(&["tuned"]),
        )
        .by_hand(),
    ]
}

fn rights() -> Vec<Case> {
    vec![
        bad(
            Id::RtprioLimit,
            vec![
                File(LIMITS, "Max realtime priority 99 99\n"),
                File(STATUS, NO_CAPABILITY),
            ],
            vec![File(LIMITS, "Max realtime priority 0 0\n")],
            Fault::Below(80),
        )
        .by_hand(),
        bad(
            Id::MemlockLimit,
            vec![
                File(LIMITS, "Max locked memory 8388608 8388608 bytes\n"),
                File(STATUS, "CapEff:\t0000000000004000\n"),
            ],
            vec![File(STATUS, NO_CAPABILITY)],
            missing(&["unlimited"]),
        )
        .by_hand(),
        bad(
            Id::RttimeLimit,
            vec![File(
                LIMITS,
                "Max realtime timeout unlimited unlimited us\n",
            )],
            vec![File(LIMITS, "Max realtime timeout 200000 200000 us\n")],
            missing(&["unlimited"]),
        )
        .by_hand(),
        information(
            Id::Rtkit,
            vec![],
            vec![program("rtkit-daemon")],
            present(&["rtkit-daemon"]),
        )
        .by_hand(),
        information(
            Id::Capabilities,
            vec![File(STATUS, "CapEff:\t000001ffffffffff\n")],
            vec![File(STATUS, "CapEff:\t000001fffeffffff\n")],
            missing(&["CAP_SYS_RESOURCE"]),
        )
        .by_hand(),
        bad(
            Id::Affinity,
            vec![
                File(STATUS, "Cpus_allowed_list:\t0-3\n"),
                File("/proc/self/cgroup", "0::/job\n"),
                File(
                    "/proc/self/mountinfo",
                    "28 21 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                ),
                File("/sys/fs/cgroup/job/cpuset.cpus.effective", "0-2\n"),
            ],
            vec![File(STATUS, "Cpus_allowed_list:\t0-2\n")],
            Fault::Lacks(vec![3]),
        )
        .by_hand(),
        // An affinity that lacks CPUs which the cpuset has.
        information(
            Id::Affinity,
            vec![
                File(STATUS, "Cpus_allowed_list:\t0-3\n"),
                File("/proc/self/cgroup", "0::/job\n"),
                File(
                    "/proc/self/mountinfo",
                    "28 21 0:25 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
                ),
                File("/sys/fs/cgroup/job/cpuset.cpus.effective", "0-3\n"),
            ],
            vec![File(STATUS, "Cpus_allowed_list:\t0-1\n")],
            Fault::Lacks(vec![2, 3]),
        ),
    ]
}
