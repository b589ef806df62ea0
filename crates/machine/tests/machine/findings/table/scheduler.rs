use punctual_record::finding::{Fault, FindingFix, FindingId as Id, StateKind};

use super::{
    Case, Step, bad, expected, file, information, kernels, missing, present, program, thread_at,
};
use crate::findings::tree::Policy::{Fifo, Other};
use Step::File;

const CMDLINE: &str = "/proc/cmdline";
const RELEASE: &str = "/proc/sys/kernel/osrelease";

fn to_fifo(thread: &str, tid: i32, priority: u32) -> FindingFix {
    FindingFix::Scheduling {
        thread: thread.to_owned(),
        tid,
        policy: "fifo".to_owned(),
        priority,
    }
}

pub fn cases() -> Vec<Case> {
    let runtime = "/proc/sys/kernel/sched_rt_runtime_us";
    let budget = "/sys/fs/cgroup/cpu/job/cpu.rt_runtime_us";
    let fair = [
        "/sys/kernel/debug/sched/fair_server/cpu2/runtime",
        "/sys/kernel/debug/sched/fair_server/cpu3/runtime",
    ];
    let threaded = "/sys/class/net/eth0/threaded";
    let clamp = "/proc/sys/kernel/sched_util_clamp_min_rt_default";
    vec![
        bad(
            Id::RtThrottling,
            vec![
                File(runtime, "-1\n"),
                File("/proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ],
            vec![File(runtime, "950000\n")],
            expected(&["-1"]),
        )
        .write(runtime, "-1"),
        information(
            Id::FairServer,
            vec![
                File(RELEASE, "6.12.0\n"),
                File(fair[0], "0\n"),
                File(fair[1], "0\n"),
            ],
            vec![File(fair[1], "50000000\n")],
            expected(&["0"]),
        )
        .write(fair[1], "0"),
        bad(
            Id::RtGroupSched,
            vec![],
            vec![
                File("/boot/config-6.8.0", "CONFIG_RT_GROUP_SCHED=y\n"),
                File("/proc/self/cgroup", "3:cpu,cpuacct:/job\n0::/\n"),
                File(budget, "0\n"),
            ],
            Fault::Below(1),
        )
        .by_hand(),
        information(
            Id::RtGroupSched,
            vec![
                File(RELEASE, "6.16.0\n"),
                File("/boot/config-6.16.0", "CONFIG_RT_GROUP_SCHED=y\n"),
                File(CMDLINE, "rt_group_sched=0"),
            ],
            vec![
                File(CMDLINE, "quiet"),
                File("/proc/self/cgroup", "0::/job\n"),
            ],
            present(&["CONFIG_RT_GROUP_SCHED"]),
        )
        .boot("rt_group_sched=0"),
        // Linux before 6.16 does not read it.
        information(
            Id::RtGroupSched,
            vec![
                File(RELEASE, "6.16.0\n"),
                File("/boot/config-6.16.0", "CONFIG_RT_GROUP_SCHED=y\n"),
                File("/boot/config-6.15.0", "CONFIG_RT_GROUP_SCHED=y\n"),
                File(CMDLINE, "rt_group_sched=0"),
                File("/proc/self/cgroup", "0::/job\n"),
            ],
            vec![File(RELEASE, "6.15.0\n")],
            present(&["CONFIG_RT_GROUP_SCHED"]),
        )
        .by_hand(),
        // The kernel takes 0 and 1 only.
        information(
            Id::RtGroupSched,
            vec![
                File(RELEASE, "6.16.0\n"),
                File("/boot/config-6.16.0", "CONFIG_RT_GROUP_SCHED=y\n"),
                File(CMDLINE, "rt_group_sched=0"),
                File("/proc/self/cgroup", "0::/job\n"),
            ],
            vec![File(CMDLINE, "rt_group_sched=off")],
            present(&["CONFIG_RT_GROUP_SCHED"]),
        )
        .boot("rt_group_sched=0"),
        bad(
            Id::CompetingPriorities,
            vec![Step::Thread(700, "audio", false, Fifo(79), "0-3")],
            vec![Step::Thread(700, "audio", false, Fifo(80), "0-3")],
            present(&[thread_at("audio", "fifo", 80)]),
        )
        .by_hand(),
        information(
            Id::SoftirqThreads,
            vec![
                File("/proc/sys/kernel/version", "#1 SMP PREEMPT_RT\n"),
                kernels(50, "ksoftirqd/0", Fifo(2), "0"),
                kernels(51, "ktimers/0", Fifo(2), "0"),
            ],
            vec![kernels(51, "ktimers/0", Other, "0")],
            present(&[thread_at("ktimers/0", "other", 0)]),
        )
        .fix(to_fifo("ktimers/0", 51, 2)),
        bad(
            Id::IrqThreads,
            vec![kernels(60, "irq/24-eth0", Fifo(50), "0")],
            vec![kernels(60, "irq/24-eth0", Fifo(90), "0")],
            present(&[thread_at("irq/24-eth0", "fifo", 90)]),
        )
        .starts(StateKind::Information)
        .by_hand(),
        bad(
            Id::ThreadedNapi,
            vec![
                File(threaded, "1\n"),
                kernels(61, "napi/eth0-0", Fifo(50), "0"),
            ],
            vec![kernels(61, "napi/eth0-0", Other, "0")],
            present(&[thread_at("napi/eth0-0", "other", 0)]),
        )
        .fix(to_fifo("napi/eth0-0", 61, 70)),
        bad(
            Id::Uclamp,
            [0, 1, 2, 3]
                .map(|cpu| File(GOVERNORS[cpu], "schedutil\n"))
                .into_iter()
                .chain([File(clamp, "1024\n")])
                .collect(),
            vec![File(clamp, "0\n")],
            Fault::Below(1024),
        )
        .write(clamp, "1024"),
        bad(
            Id::SkewTick,
            vec![
                File("/sys/devices/system/cpu/online", "0-7\n"),
                File(CMDLINE, "skew_tick=1"),
            ],
            vec![File(CMDLINE, "skew_tick=0")],
            missing(&["skew_tick=1"]),
        )
        .boot("skew_tick=1"),
        bad(
            Id::SkewTick,
            vec![
                File("/sys/devices/system/cpu/online", "0-7\n"),
                File(CMDLINE, "skew_tick=2"),
            ],
            vec![File(CMDLINE, "skew_tick=on")],
            missing(&["skew_tick=1"]),
        )
        .boot("skew_tick=1"),
        information(
            Id::DeadlineBandwidth,
            vec![File(
                "/proc/sys/kernel/sched_deadline_period_max_us",
                "4194304\n",
            )],
            vec![File("/proc/71/task/71/stat", DEADLINE_THREAD)],
            present(&["sugov:0"]),
        )
        .starts(StateKind::Information),
        information(
            Id::Stalld,
            vec![],
            vec![program("stalld")],
            present(&["stalld"]),
        )
        .starts(StateKind::Information),
        information(
            Id::SchedExt,
            vec![File("/sys/kernel/sched_ext/state", "disabled\n")],
            vec![File("/sys/kernel/sched_ext/state", "enabled\n")],
            expected(&["disabled"]),
        ),
        file(
            Id::Ksm,
            "/sys/kernel/mm/ksm/run",
            ["0\n", "1\n", "2"],
            expected(&["0", "2"]),
        ),
    ]
}

const DEADLINE_THREAD: &str = "71 (sugov:0) S 0 0 0 0 -1 2097152 \
    0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 6 0 0\n";

pub const GOVERNORS: [&str; 4] = [
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/cpu2/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/cpu3/cpufreq/scaling_governor",
];
