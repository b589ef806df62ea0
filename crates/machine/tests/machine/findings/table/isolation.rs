use punctual_record::finding::{Fault, FindingFix, FindingId as Id, Item, StateKind};

use super::{Case, Step, bad, file, information, interrupt, kernels, missing, present, program};
use crate::findings::tree::Policy;
use Step::File;

const CMDLINE: &str = "/proc/cmdline";
const ISOLATED: &str = "/sys/devices/system/cpu/isolated";
const NOHZ_FULL: &str = "/sys/devices/system/cpu/nohz_full";

fn both() -> Vec<usize> {
    vec![2, 3]
}

/// From Linux 5.17 on.
fn each_with_thread() -> [Step; 4] {
    [
        kernels(30, "rcuop/0", Policy::Other, "0-3"),
        kernels(31, "rcuop/1", Policy::Other, "0-3"),
        kernels(32, "rcuop/2", Policy::Other, "0-3"),
        kernels(33, "rcuop/3", Policy::Other, "0-3"),
    ]
}

fn offloaded(good: &'static str, bad_line: &'static str, lacks: Vec<usize>) -> Case {
    let mut before = vec![File(CMDLINE, good)];
    before.extend(each_with_thread());
    let change = vec![File(CMDLINE, bad_line)];
    bad(Id::RcuNocbs, before, change, Fault::Lacks(lacks)).boot("rcu_nocbs=2-3")
}

pub fn cases() -> Vec<Case> {
    let patience = "/sys/module/rcutree/parameters/nohz_full_patience_delay";
    let cpuinfo = "/proc/cpuinfo";
    vec![
        bad(
            Id::IsolatedCpus,
            vec![File(ISOLATED, "2-3\n")],
            vec![File(ISOLATED, "3\n")],
            Fault::Lacks(vec![2]),
        )
        .boot("isolcpus=managed_irq,domain,2-3"),
        bad(
            Id::IsolatedCpus,
            vec![File("/sys/fs/cgroup/cpuset.cpus.isolated", "2-3\n")],
            vec![File("/sys/fs/cgroup/cpuset.cpus.isolated", "\n")],
            Fault::Lacks(both()),
        )
        .boot("isolcpus=managed_irq,domain,2-3"),
        bad(
            Id::NohzFull,
            vec![File(NOHZ_FULL, "2-3\n")],
            vec![File(NOHZ_FULL, "(null)\n")],
            Fault::Lacks(both()),
        )
        .boot("nohz_full=2-3"),
        bad(
            Id::RcuNocbs,
            vec![
                kernels(30, "rcuop/2", Policy::Other, "0-1"),
                kernels(31, "rcuop/3", Policy::Other, "0-1"),
            ],
            vec![kernels(31, "rcuop/1", Policy::Other, "0-1")],
            Fault::Lacks(vec![3]),
        )
        .boot("rcu_nocbs=2-3"),
        // Each CPU has a thread; those of the lists are offloaded.
        offloaded("rcu_nocbs=2-3", "rcu_nocbs=3", vec![2]),
        offloaded("rcu_nocbs=all", "rcu_nocbs", both()),
        bad(
            Id::RcuNocbs,
            [
                &each_with_thread()[..],
                &[File(CMDLINE, "rcu_nocbs=3"), File(NOHZ_FULL, "2\n")],
            ]
            .concat(),
            vec![File(NOHZ_FULL, "(null)\n")],
            Fault::Lacks(vec![2]),
        )
        .boot("rcu_nocbs=2-3"),
        bad(
            Id::RcuThreads,
            vec![kernels(30, "rcuop/2", Policy::Other, "0-1")],
            vec![kernels(30, "rcuop/2", Policy::Other, "0-3")],
            present(&[Item::ThreadOn {
                thread: "rcuop/2".to_owned(),
                cpus: "0-3".to_owned(),
            }]),
        )
        .fix(FindingFix::Affinity {
            thread: "rcuop/2".to_owned(),
            tid: 30,
            cpus: vec![0, 1],
        }),
        information(
            Id::NohzPatience,
            vec![
                File(CMDLINE, "nohz_full=2-3"),
                File("/proc/sys/kernel/osrelease", "6.11.0"),
                File(patience, "1000\n"),
            ],
            vec![File(patience, "0\n")],
            Fault::Below(1),
        )
        .boot("rcutree.nohz_full_patience_delay=1000"),
        file(
            Id::DefaultIrqAffinity,
            "/proc/irq/default_smp_affinity",
            ["3\n", "f\n", "3"],
            Fault::Includes(both()),
        ),
        bad(
            Id::IrqAffinity,
            vec![
                File("/proc/irq/24/eth0/", ""),
                File("/proc/irq/24/smp_affinity_list", "0-1\n"),
            ],
            vec![File("/proc/irq/24/smp_affinity_list", "0-3\n")],
            present(&[interrupt(24, "eth0")]),
        )
        .write("/proc/irq/24/smp_affinity_list", "0-1"),
        // Moved, and not come since: it is delivered where it was until then.
        Case {
            id: Id::IrqAffinity,
            before: vec![
                File("/proc/irq/24/eth0/", ""),
                File("/proc/irq/24/smp_affinity_list", "0-3\n"),
                File("/proc/irq/24/effective_affinity_list", "2\n"),
            ],
            starts: StateKind::Bad,
            change: vec![File("/proc/irq/24/smp_affinity_list", "0-1\n")],
            ends: StateKind::Information,
            fault: present(&[interrupt(24, "eth0")]),
            fix: Some(FindingFix::Write {
                path: "/proc/irq/24/smp_affinity_list".to_owned(),
                value: "0-1".to_owned(),
            }),
        },
        bad(
            Id::ManagedIrqs,
            vec![
                File("/proc/irq/36/virtio1-req.0/", ""),
                File("/proc/irq/36/smp_affinity_list", "0-3\n"),
                File("/proc/irq/36/effective_affinity_list", "0\n"),
            ],
            vec![File("/proc/irq/36/effective_affinity_list", "2\n")],
            present(&[interrupt(36, "virtio1-req.0")]),
        )
        .boot("isolcpus=managed_irq,domain,2-3"),
        bad(
            Id::ManagedIrqs,
            vec![
                File("/proc/irq/40/nvme0q3/", ""),
                File("/proc/irq/40/smp_affinity_list", "1,3\n"),
                File("/proc/irq/40/effective_affinity_list", "1\n"),
            ],
            vec![File("/proc/irq/40/effective_affinity_list", "3\n")],
            present(&[interrupt(40, "nvme0q3")]),
        )
        .boot("isolcpus=managed_irq,domain,2-3"),
        // A queue of one CPU has no other to go to.
        bad(
            Id::ManagedIrqs,
            vec![
                File("/proc/irq/40/nvme0q3/", ""),
                File("/proc/irq/40/smp_affinity_list", "3\n"),
                File("/proc/irq/40/effective_affinity_list", "1\n"),
            ],
            vec![File("/proc/irq/40/effective_affinity_list", "3\n")],
            present(&[interrupt(40, "nvme0q3")]),
        )
        .by_hand(),
        bad(
            Id::Irqbalance,
            vec![],
            vec![program("irqbalance")],
            present(&["irqbalance"]),
        )
        .by_hand(),
        bad(
            Id::Irqbalance,
            vec![
                program("irqbalance"),
                File(
                    "/etc/default/irqbalance",
                    "IRQBALANCE_BANNED_CPULIST=\"2-3\"\n",
                ),
            ],
            vec![File(
                "/etc/default/irqbalance",
                "IRQBALANCE_BANNED_CPULIST=3\n",
            )],
            present(&["irqbalance"]),
        )
        .by_hand(),
        bad(
            Id::Irqbalance,
            vec![program("irqbalance"), File(ISOLATED, "2-3\n")],
            vec![File(ISOLATED, "2\n")],
            present(&["irqbalance"]),
        )
        .by_hand(),
        file(
            Id::WorkqueueMask,
            "/sys/devices/virtual/workqueue/cpumask",
            ["3\n", "7\n", "3"],
            Fault::Includes(vec![2]),
        ),
        information(
            Id::BoundKworkers,
            vec![kernels(41, "kworker/1:0", Policy::Other, "1")],
            vec![kernels(41, "kworker/2:0", Policy::Other, "2")],
            present(&["kworker/2:0"]),
        )
        .starts(StateKind::Information)
        .by_hand(),
        file(
            Id::VmstatInterval,
            "/proc/sys/vm/stat_interval",
            ["10\n", "1\n", "10"],
            Fault::Below(10),
        ),
        file(
            Id::ReceiveSteering,
            "/sys/class/net/eth0/queues/rx-0/rps_cpus",
            ["0\n", "c\n", "3"],
            Fault::Includes(both()),
        ),
        bad(
            Id::ReceiveSteering,
            vec![
                File("/sys/class/net/lo/", ""),
                File("/proc/sys/net/core/rps_default_mask", "0\n"),
            ],
            vec![File("/proc/sys/net/core/rps_default_mask", "8\n")],
            Fault::Includes(vec![3]),
        )
        .write("/proc/sys/net/core/rps_default_mask", "3"),
        bad(
            Id::WatchdogMask,
            vec![
                File("/proc/sys/kernel/watchdog", "1\n"),
                File("/proc/sys/kernel/watchdog_cpumask", "0-1\n"),
            ],
            vec![File("/proc/sys/kernel/watchdog_cpumask", "0-3\n")],
            Fault::Includes(both()),
        )
        .write("/proc/sys/kernel/watchdog_cpumask", "0-1"),
        bad(
            Id::KthreadCpus,
            vec![
                File(CMDLINE, "isolcpus=domain,managed_irq,2-3"),
                File(ISOLATED, "2-3\n"),
            ],
            vec![File(CMDLINE, "isolcpus=managed_irq,2-3")],
            Fault::Includes(both()),
        )
        .boot("nohz_full=2-3"),
        bad(
            Id::KthreadCpus,
            vec![File(CMDLINE, "isolcpus=2-3"), File(ISOLATED, "2-3\n")],
            vec![File(ISOLATED, "3\n")],
            Fault::Includes(vec![2]),
        )
        .boot("nohz_full=2-3"),
        // A partition that was made at run time isolates CPU 2.
        bad(
            Id::KthreadCpus,
            vec![File(CMDLINE, "isolcpus=2-3"), File(ISOLATED, "2-3\n")],
            vec![File(CMDLINE, "isolcpus=3")],
            Fault::Includes(vec![2]),
        )
        .boot("nohz_full=2-3"),
        bad(
            Id::KthreadCpus,
            vec![File(CMDLINE, "nohz_full=2-3"), File(NOHZ_FULL, "2-3\n")],
            vec![File(NOHZ_FULL, "(null)\n")],
            Fault::Includes(both()),
        )
        .boot("nohz_full=2-3"),
        // Before Linux 6.13 this stops the tick alone.
        bad(
            Id::KthreadCpus,
            vec![
                File("/proc/sys/kernel/osrelease", "6.13.0\n"),
                File(CMDLINE, "isolcpus=nohz,2-3"),
                File(NOHZ_FULL, "2-3\n"),
            ],
            vec![File("/proc/sys/kernel/osrelease", "6.12.5\n")],
            Fault::Includes(both()),
        )
        .boot("nohz_full=2-3"),
        bad(
            Id::KthreadCpus,
            vec![
                File(
                    "/proc/version_signature",
                    "Ubuntu 6.8.1-1015.16-realtime 6.8.12\n",
                ),
                File(CMDLINE, "kthread_cpus=0-1"),
            ],
            vec![File(CMDLINE, "kthread_cpus=0-2")],
            Fault::Includes(vec![2]),
        )
        .boot("nohz_full=2-3"),
        bad(
            Id::UserThreads,
            vec![Step::Thread(800, "sshd", false, Policy::Other, "0-1")],
            vec![Step::Thread(800, "sshd", false, Policy::Other, "0-3")],
            present(&["sshd"]),
        )
        .by_hand(),
        bad(
            Id::SystemdSlices,
            vec![
                File("/run/systemd/system/", ""),
                File("/sys/fs/cgroup/cgroup.controllers", "cpuset cpu\n"),
                File("/sys/fs/cgroup/init.scope/cpuset.cpus.effective", "0-1\n"),
                File("/sys/fs/cgroup/system.slice/cpuset.cpus.effective", "0-1\n"),
                File("/sys/fs/cgroup/user.slice/cpuset.cpus.effective", "0-1\n"),
            ],
            vec![File(
                "/sys/fs/cgroup/user.slice/cpuset.cpus.effective",
                "0-2\n",
            )],
            Fault::Includes(vec![2]),
        )
        .by_hand(),
        bad(
            Id::SmtSiblings,
            vec![
                File("/sys/devices/system/cpu/smt/active", "1\n"),
                File(
                    "/sys/devices/system/cpu/cpu2/topology/thread_siblings_list",
                    "2\n",
                ),
                File(
                    "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list",
                    "3\n",
                ),
                File("/sys/devices/system/cpu/cpu1/online", "1\n"),
            ],
            vec![File(
                "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list",
                "1,3\n",
            )],
            present(&[Item::Cpu(1)]),
        )
        .write("/sys/devices/system/cpu/cpu1/online", "0"),
        bad(
            Id::SmtSiblings,
            vec![
                File("/sys/devices/system/cpu/smt/active", "0\n"),
                File(
                    "/sys/devices/system/cpu/cpu2/topology/thread_siblings_list",
                    "2\n",
                ),
                File(
                    "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list",
                    "3,7\n",
                ),
            ],
            vec![File("/sys/devices/system/cpu/smt/active", "1\n")],
            present(&[Item::Cpu(7)]),
        )
        .boot("nosmt"),
        information(
            Id::SmtSiblings,
            vec![File("/sys/devices/system/cpu/smt/active", "0\n")],
            vec![
                File("/sys/devices/system/cpu/smt/active", "1\n"),
                File(
                    "/sys/devices/system/cpu/cpu2/topology/thread_siblings_list",
                    "2-3\n",
                ),
                File(
                    "/sys/devices/system/cpu/cpu3/topology/thread_siblings_list",
                    "2-3\n",
                ),
            ],
            present(&[Item::Cpu(2), Item::Cpu(3)]),
        )
        .by_hand(),
        information(
            Id::Resctrl,
            vec![
                File(cpuinfo, "flags : fpu cat_l3\n"),
                File("/sys/fs/resctrl/schemata", "L3:0=ff\n"),
            ],
            vec![],
            missing(&["/sys/fs/resctrl"]),
        )
        .starts(StateKind::Ok)
        .gone("/sys/fs/resctrl/schemata")
        .by_hand(),
        bad(
            Id::Numa,
            vec![
                File("/sys/devices/system/node/node0/cpulist", "0-1\n"),
                File("/sys/devices/system/node/node1/cpulist", "2-3\n"),
                File("/sys/class/net/eth0/device/numa_node", "1\n"),
            ],
            vec![File("/sys/class/net/eth0/device/numa_node", "0\n")],
            present(&[Item::DeviceOfNode {
                device: "eth0".to_owned(),
                node: "0".to_owned(),
            }]),
        )
        .by_hand(),
        bad(
            Id::Numa,
            vec![
                File("/sys/devices/system/node/node0/cpulist", "0-1\n"),
                File("/sys/devices/system/node/node1/cpulist", "2-3\n"),
            ],
            vec![
                File("/sys/devices/system/node/node0/cpulist", "0,2\n"),
                File("/sys/devices/system/node/node1/cpulist", "1,3\n"),
            ],
            present(&["0", "1"].map(|node| Item::NumaNode(node.to_owned()))),
        )
        .by_hand(),
    ]
}
