use punctual_record::finding::{FindingId as Id, Item, ItemKind, StateKind};

use super::{Case, Step, bad, expected, file, information, missing, misspelt, present};
use Step::File;

const CMDLINE: &str = "/proc/cmdline";
const CONFIG: &str = "/boot/config-6.8.0";
const ISOLATED: &str = "/sys/devices/system/cpu/isolated";
const VERSION: &str = "/proc/sys/kernel/version";

pub fn cases() -> Vec<Case> {
    let tracer = "/sys/kernel/tracing/current_tracer";
    let events = "/sys/kernel/tracing/set_event";
    let tracing = || vec![File(tracer, "nop\n"), File(events, "")];
    vec![
        bad(
            Id::RtKernel,
            vec![File(VERSION, "#1 SMP PREEMPT_RT\n")],
            vec![File(VERSION, "#1 SMP PREEMPT_DYNAMIC\n")],
            missing(&["PREEMPT_RT"]),
        )
        .by_hand(),
        file(
            Id::PreemptMode,
            "/sys/kernel/debug/sched/preempt",
            [
                "none voluntary (full) \n",
                "none (voluntary) full \n",
                "full",
            ],
            expected(&["full"]),
        ),
        bad(
            Id::PreemptMode,
            vec![File(CONFIG, "CONFIG_PREEMPT=y\n")],
            vec![File(CONFIG, "CONFIG_PREEMPT_VOLUNTARY=y\n")],
            expected(&["full"]),
        )
        .by_hand(),
        bad(
            Id::Threadirqs,
            vec![File(CMDLINE, "quiet threadirqs\n")],
            vec![File(CMDLINE, "quiet\n")],
            missing(&["threadirqs"]),
        )
        .boot("threadirqs"),
        bad(
            Id::HighResolution,
            vec![File("/proc/timer_list", "  .hres_active    : 1\n")],
            vec![File("/proc/timer_list", "  .hres_active    : 0\n")],
            missing(&["hres_active: 1"]),
        )
        .by_hand(),
        bad(
            Id::HighResolution,
            vec![],
            vec![File(CMDLINE, "highres=off")],
            present(&["highres=off"]),
        )
        .by_hand(),
        bad(
            Id::HighResolution,
            vec![File(CMDLINE, "highres=1")],
            vec![File(CMDLINE, "highres=0")],
            present(&["highres=0"]),
        )
        .by_hand(),
        bad(
            Id::HighResolution,
            vec![],
            vec![File(CONFIG, "CONFIG_PREEMPT=y\n")],
            expected(&["CONFIG_HIGH_RES_TIMERS=y"]),
        )
        .by_hand(),
        bad(
            Id::NoHzFullSupport,
            vec![
                File(CMDLINE, "nohz_full=2-3"),
                File(CONFIG, "CONFIG_NO_HZ_FULL=y\n"),
            ],
            vec![File(CONFIG, "# CONFIG_NO_HZ_FULL is not set\n")],
            missing(&["CONFIG_NO_HZ_FULL=y"]),
        )
        .by_hand(),
        bad(
            Id::RcuNocbSupport,
            vec![
                File(CMDLINE, "rcu_nocbs=2-3"),
                File(CONFIG, "CONFIG_RCU_NOCB_CPU=y\n"),
            ],
            vec![File(CONFIG, "CONFIG_PREEMPT=y\n")],
            missing(&["CONFIG_RCU_NOCB_CPU=y"]),
        )
        .by_hand(),
        bad(
            Id::DebugOptions,
            vec![],
            vec![File(CONFIG, "CONFIG_PROVE_LOCKING=y\nCONFIG_KASAN=y\n")],
            present(&["CONFIG_PROVE_LOCKING", "CONFIG_KASAN"]),
        )
        .by_hand(),
        bad(
            Id::Tracing,
            tracing(),
            vec![File(tracer, "function\n")],
            expected(&["nop"]),
        )
        .write(tracer, "nop"),
        bad(
            Id::Tracing,
            tracing(),
            vec![File(events, "sched:sched_switch\n")],
            present(&["sched:sched_switch"]),
        )
        .write(events, ""),
        bad(
            Id::UnknownParameter,
            vec![File(CMDLINE, "quiet isolcpus=2-3 rcu_nocbs=2-3")],
            vec![File(CMDLINE, "quiet isolcpu=2-3 rcu_nocb=2-3")],
            present(&[
                misspelt("isolcpu=2-3", "isolcpus"),
                misspelt("rcu_nocb=2-3", "rcu_nocbs"),
            ]),
        )
        .by_hand(),
        bad(
            Id::ParameterNotInForce,
            vec![
                File(CMDLINE, "isolcpus=domain,2-3"),
                File(ISOLATED, "2-3\n"),
            ],
            vec![File(ISOLATED, "\n")],
            present(&["isolcpus"]),
        )
        .by_hand(),
        bad(
            Id::ParameterNotInForce,
            vec![File(CMDLINE, "isolcpus=2-3"), File(ISOLATED, "2-3\n")],
            vec![File(CMDLINE, "isolcpus=2-3 irqaffinity=0-1 isolcpus=3")],
            present(&[Item::Repeated {
                parameter: "isolcpus".to_owned(),
            }]),
        )
        .by_hand(),
        // The flags are merged where the masks match, and else the later one is refused.
        bad(
            Id::ParameterNotInForce,
            vec![
                File(CMDLINE, "isolcpus=2-3 isolcpus=domain,2-3"),
                File(ISOLATED, "2-3\n"),
            ],
            vec![File(CMDLINE, "isolcpus=2-3 isolcpus=domain,2")],
            present(&[Item::Repeated {
                parameter: "isolcpus".to_owned(),
            }]),
        )
        .by_hand(),
        bad(
            Id::ParameterNotInForce,
            vec![
                File(CMDLINE, "isolcpus=nohz,domain,2-3 nohz_full=2-3"),
                File(ISOLATED, "2-3\n"),
                File("/sys/devices/system/cpu/nohz_full", "2-3\n"),
            ],
            vec![File(CMDLINE, "isolcpus=nohz,domain,2-3 nohz_full=2")],
            present(&["nohz_full"]),
        )
        .by_hand(),
        // Before Linux 5.18 one mask is for all.
        bad(
            Id::ParameterNotInForce,
            vec![
                File(CMDLINE, "isolcpus=2-3 nohz_full=3"),
                File(ISOLATED, "2-3\n"),
                File("/sys/devices/system/cpu/nohz_full", "3\n"),
            ],
            vec![File("/proc/sys/kernel/osrelease", "5.17.0\n")],
            present(&["nohz_full"]),
        )
        .by_hand(),
        // The last list counts.
        bad(
            Id::ParameterNotInForce,
            vec![
                File(CMDLINE, "isolcpus=2-3 rcu_nocbs=2-3 rcu_nocbs=2-3"),
                File(ISOLATED, "2-3\n"),
            ],
            vec![File(CMDLINE, "isolcpus=2-3 rcu_nocbs=2-3 rcu_nocbs=3")],
            present(&[Item::Repeated {
                parameter: "rcu_nocbs".to_owned(),
            }]),
        )
        .by_hand(),
        bad(
            Id::ParameterNotInForce,
            vec![File(CMDLINE, "isolcpus=2-3"), File(ISOLATED, "2-3\n")],
            vec![File(CMDLINE, "isolcpus=2-3 irqaffinity=0-2")],
            present(&[Item::SharesCpus {
                parameter: "irqaffinity".to_owned(),
                other: "isolcpus".to_owned(),
            }]),
        )
        .by_hand(),
        bad(
            Id::ParameterNotInForce,
            vec![
                File(CMDLINE, "nohz_full=2-3"),
                File("/sys/devices/system/cpu/nohz_full", "2-3\n"),
            ],
            vec![File("/sys/devices/system/cpu/nohz_full", "(null)\n")],
            present(&["nohz_full"]),
        )
        .by_hand(),
        // Without `domain` no file shows these CPUs as isolated.
        bad(
            Id::ParameterNotInForce,
            vec![File(CMDLINE, "isolcpus=managed_irq,2-3")],
            vec![File(CMDLINE, "isolcpus=managed_irq,domain,2-3")],
            present(&["isolcpus"]),
        )
        .starts(StateKind::Unknown)
        .by_hand(),
        bad(
            Id::ParameterNotInForce,
            vec![
                File(CMDLINE, "isolcpus=nohz,2-3"),
                File("/sys/devices/system/cpu/nohz_full", "2-3\n"),
            ],
            vec![File("/sys/devices/system/cpu/nohz_full", "(null)\n")],
            present(&["isolcpus"]),
        )
        .by_hand(),
        information(
            Id::Lockdown,
            vec![File(
                "/sys/kernel/security/lockdown",
                "[none] integrity confidentiality\n",
            )],
            vec![File(
                "/sys/kernel/security/lockdown",
                "none [integrity] confidentiality\n",
            )],
            expected(&["none"]),
        )
        .by_hand(),
        bad(
            Id::KernelStackOffset,
            vec![File(CONFIG, "CONFIG_ARM64=y\n")],
            vec![File(
                CONFIG,
                "CONFIG_ARM64=y\nCONFIG_RANDOMIZE_KSTACK_OFFSET_DEFAULT=y\n",
            )],
            present(&["randomize_kstack_offset"]),
        )
        .boot("randomize_kstack_offset=off"),
        bad(
            Id::KernelStackOffset,
            vec![
                File(
                    CONFIG,
                    "CONFIG_RISCV=y\nCONFIG_RANDOMIZE_KSTACK_OFFSET_DEFAULT=y\n",
                ),
                File(CMDLINE, "quiet randomize_kstack_offset=off"),
            ],
            vec![File(CMDLINE, "quiet randomize_kstack_offset=1")],
            present(&["randomize_kstack_offset"]),
        )
        .boot("randomize_kstack_offset=off"),
        information(
            Id::KernelStackOffset,
            vec![
                File("/boot/config-7.1.0", "CONFIG_ARM64=y\n"),
                File("/proc/sys/kernel/osrelease", "7.1.0\n"),
            ],
            vec![File(CMDLINE, "randomize_kstack_offset=on")],
            present(&["randomize_kstack_offset"]),
        )
        .boot("randomize_kstack_offset=off"),
        information(
            Id::KernelStackOffset,
            vec![
                File(CONFIG, "CONFIG_X86_64=y\n"),
                File(CMDLINE, "randomize_kstack_offset=on"),
            ],
            vec![
                File("/boot/config-7.1.0", "CONFIG_ARM64=y\n"),
                File("/proc/sys/kernel/osrelease", "7.1.0\n"),
            ],
            present(&["randomize_kstack_offset"]),
        )
        .boot("randomize_kstack_offset=off")
        .starts(StateKind::NotApplicable),
        bad(
            Id::KernelVersion,
            vec![],
            vec![File("/proc/sys/kernel/osrelease", "4.19.0\n")],
            missing(&[Item::LinuxFrom("5.10".to_owned())]),
        )
        .by_hand(),
        information(
            Id::KernelVersion,
            vec![File("/proc/sys/kernel/osrelease", "6.12.3\n")],
            vec![File(CMDLINE, "nohz_full=2-3")],
            present(&[ItemKind::FairServerTimer]),
        ),
        information(
            Id::DualKernel,
            vec![],
            vec![File("/proc/xenomai/version", "3.2.4\n")],
            present(&[Item::Cobalt("3.2.4".to_owned())]),
        )
        .starts(StateKind::NotApplicable),
        information(
            Id::DualKernel,
            vec![],
            vec![File("/sys/devices/virtual/evl/", "")],
            present(&["EVL"]),
        )
        .starts(StateKind::NotApplicable),
    ]
}
