//! Whole machines: what is found on each, in a line.

use punctual_machine::{CheckRequest, check};
use punctual_record::finding::{FindingFix, FindingId, StateKind};

use super::tree::{Policy, Tree};

/// The counts in the order of [`StateKind::ALL`], and the names of what is bad.
fn line(tree: &Tree, cpus: Option<Vec<usize>>) -> (Vec<usize>, Vec<&'static str>) {
    let request = CheckRequest {
        cpus,
        ..CheckRequest::default()
    };
    let found = check(&tree.root(), &request);
    let counts = StateKind::ALL
        .iter()
        .map(|kind| found.count(*kind))
        .collect();
    let bad = found.findings.iter();
    let bad = bad.filter(|finding| finding.state.kind() == StateKind::Bad);
    (counts, bad.map(|finding| finding.id.name()).collect())
}

fn state(tree: &Tree, id: FindingId) -> StateKind {
    let found = check(&tree.root(), &CheckRequest::default());
    found.finding(id).expect("each").state.kind()
}

fn per_cpu(tree: &Tree, file: &str, text: &str) {
    for cpu in 0..4 {
        tree.write(&format!("/sys/devices/system/cpu/cpu{cpu}/{file}"), text);
    }
}

/// What a machine of one's own shows beside what every tree has.
fn whole(tree: &Tree) {
    for (path, text) in [
        ("/proc/swaps", "Filename Type Size Used Priority\n"),
        ("/proc/sys/vm/swappiness", "60\n"),
        ("/proc/sys/vm/stat_interval", "1\n"),
        ("/proc/sys/vm/dirty_ratio", "20\n"),
        ("/proc/sys/vm/min_free_kbytes", "67584\n"),
        ("/proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
        ("/proc/sys/kernel/sched_rt_period_us", "1000000\n"),
        ("/proc/sys/kernel/timer_migration", "1\n"),
        ("/proc/sys/kernel/printk", "4 4 1 7\n"),
        ("/proc/consoles", "tty0 -WU (EC p  ) 4:1\n"),
        ("/proc/irq/default_smp_affinity", "f\n"),
        ("/proc/irq/24/eth0/", ""),
        ("/proc/irq/24/effective_affinity_list", "0\n"),
        (
            "/proc/self/limits",
            "Max realtime priority 0 0\nMax locked memory 8388608 8388608 bytes\nMax realtime timeout unlimited unlimited us\n",
        ),
        (
            "/proc/self/status",
            "CapEff:\t0000000000000000\nCpus_allowed_list:\t0-3\n",
        ),
        ("/proc/self/cgroup", "0::/user.slice\n"),
        ("/sys/kernel/tracing/current_tracer", "nop\n"),
        ("/sys/kernel/tracing/set_event", ""),
        (
            "/sys/kernel/security/lockdown",
            "[none] integrity confidentiality\n",
        ),
        ("/sys/kernel/mm/ksm/run", "0\n"),
        (
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "always [madvise] never\n",
        ),
        ("/sys/class/net/eth0/threaded", "0\n"),
        ("/sys/devices/virtual/workqueue/cpumask", "f\n"),
        (
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            "tsc\n",
        ),
        (
            "/sys/devices/system/clocksource/clocksource0/available_clocksource",
            "tsc hpet acpi_pm\n",
        ),
        ("/proc/cpuinfo", "flags : fpu tsc constant_tsc\n"),
    ] {
        tree.write(path, text);
    }
}

fn laptop() -> Tree {
    let tree = Tree::base();
    whole(&tree);
    tree.write(
        "/proc/sys/kernel/version",
        "#1 SMP PREEMPT_DYNAMIC Debian\n",
    );
    tree.write(
        "/sys/kernel/debug/sched/preempt",
        "none (voluntary) full \n",
    );
    tree.write(
        "/proc/swaps",
        "Filename Type Size Used Priority\n/dev/dm-1 partition 8 0 -2\n",
    );
    tree.write(
        "/sys/kernel/mm/transparent_hugepage/enabled",
        "[always] madvise never\n",
    );
    per_cpu(&tree, "cpufreq/scaling_governor", "powersave\n");
    per_cpu(
        &tree,
        "cpufreq/energy_performance_preference",
        "balance_performance\n",
    );
    per_cpu(&tree, "cpuidle/state3/name", "C10\n");
    per_cpu(&tree, "cpuidle/state3/latency", "230\n");
    per_cpu(&tree, "cpuidle/state3/disable", "0\n");
    tree.write(
        "/sys/module/pcie_aspm/parameters/policy",
        "[default] performance\n",
    );
    tree.write("/sys/bus/pci/devices/0000:00:1c.0/link/l1_aspm", "1\n");
    tree.thread(900, "thermald", false, Policy::Other, "0-3");
    tree.thread(901, "rtkit-daemon", false, Policy::Other, "0-3");
    tree
}

fn server() -> Tree {
    let tree = Tree::base();
    whole(&tree);
    tree.write(
        "/sys/kernel/debug/sched/preempt",
        "(none) voluntary full \n",
    );
    tree.write("/proc/consoles", "ttyS0 -W- (EC p a) 4:64\n");
    tree.write("/proc/sys/kernel/printk", "7 4 1 7\n");
    tree.write("/proc/sys/kernel/numa_balancing", "1\n");
    tree.write("/proc/sys/kernel/nmi_watchdog", "1\n");
    tree.write("/sys/devices/system/node/node0/cpulist", "0-1\n");
    tree.write("/sys/devices/system/node/node1/cpulist", "2-3\n");
    tree.write("/sys/class/net/eth0/device/numa_node", "0\n");
    per_cpu(&tree, "cpufreq/scaling_governor", "performance\n");
    tree.thread(900, "irqbalance", false, Policy::Other, "0-3");
    tree.thread(901, "tuned", false, Policy::Other, "0-3");
    tree
}

/// Debian's PREEMPT_RT kernel 6.1, with CPUs 2 and 3 isolated by every means.
fn real_time() -> Tree {
    let tree = Tree::base();
    whole(&tree);
    for (path, text) in [
        ("/proc/sys/kernel/osrelease", "6.1.0-18-rt-amd64\n"),
        (
            "/proc/sys/kernel/version",
            "#1 SMP PREEMPT_RT Debian 6.1.76-1\n",
        ),
        ("/sys/kernel/realtime", "1\n"),
        (
            "/proc/cmdline",
            "isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3 irqaffinity=0-1\n",
        ),
        (
            "/boot/config-6.1.0-18-rt-amd64",
            "CONFIG_PREEMPT_RT=y\nCONFIG_HIGH_RES_TIMERS=y\nCONFIG_NO_HZ_FULL=y\n\
             CONFIG_RCU_NOCB_CPU=y\n",
        ),
        ("/sys/devices/system/cpu/isolated", "2-3\n"),
        ("/sys/devices/system/cpu/nohz_full", "2-3\n"),
        ("/proc/irq/default_smp_affinity", "3\n"),
        ("/sys/devices/virtual/workqueue/cpumask", "3\n"),
        ("/proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
        ("/proc/sys/vm/stat_interval", "10\n"),
        (
            "/proc/self/limits",
            "Max realtime priority 98 98\nMax locked memory unlimited unlimited bytes\nMax realtime timeout unlimited unlimited us\n",
        ),
    ] {
        tree.write(path, text);
    }
    tree.thread(40, "rcuop/2", true, Policy::Other, "0-1");
    tree.thread(41, "rcuop/3", true, Policy::Other, "0-1");
    tree.thread(42, "ksoftirqd/0", true, Policy::Fifo(2), "0");
    tree.thread(43, "irq/24-eth0", true, Policy::Fifo(50), "0");
    tree.thread(900, "sshd", false, Policy::Other, "0-1");
    tree
}

/// No /boot, nothing of debugfs, the threads of its own PID namespace.
fn container() -> Tree {
    let tree = Tree::empty();
    for (path, text) in [
        ("/proc/cmdline", "quiet\n"),
        ("/proc/sys/kernel/osrelease", "6.8.0\n"),
        ("/proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC\n"),
        (
            "/proc/mounts",
            "overlay / overlay rw 0 0\nproc /proc proc rw 0 0\n",
        ),
        ("/sys/devices/system/cpu/online", "0-3\n"),
        ("/sys/devices/system/cpu/isolated", "\n"),
        (
            "/proc/self/status",
            "CapEff:\t00000000a80425fb\nCpus_allowed_list:\t0-1\n",
        ),
        ("/proc/self/cgroup", "0::/\n"),
        ("/sys/fs/cgroup/memory.max", "1000000\n"),
        ("/sys/fs/cgroup/memory.current", "990000\n"),
    ] {
        tree.write(path, text);
    }
    tree.thread(1, "app", false, Policy::Other, "0-1");
    tree
}

/// A virtual machine with Secure Boot: debugfs refuses, even root (a directory stands for that).
fn locked_down() -> Tree {
    let tree = Tree::base();
    whole(&tree);
    tree.write("/proc/sys/kernel/osrelease", "6.12.9\n");
    tree.write(
        "/boot/config-6.12.9",
        "CONFIG_PREEMPT_DYNAMIC=y\nCONFIG_PREEMPT_VOLUNTARY=y\nCONFIG_HIGH_RES_TIMERS=y\n",
    );
    tree.write(
        "/sys/kernel/security/lockdown",
        "none [integrity] confidentiality\n",
    );
    tree.write("/sys/kernel/debug/sched/preempt/", "");
    tree.write("/sys/kernel/debug/sched/fair_server/cpu2/runtime/", "");
    tree.write("/proc/cpuinfo", "flags : fpu tsc hypervisor\n");
    tree.write("/sys/class/dmi/id/product_name", "Virtual Machine\n");
    tree
}

#[test]
fn a_laptop_is_bad_in_power_and_memory() {
    let found = line(&laptop(), None);
    let bad = vec![
        "rt-kernel",
        "preempt-mode",
        "threadirqs",
        "vmstat-interval",
        "rt-throttling",
        "governor",
        "energy-preference",
        "idle-states",
        "aspm",
        "swap",
        "swappiness",
        "transparent-hugepages",
        "rtprio-limit",
        "memlock-limit",
    ];
    assert_eq!(found, (vec![14, 3, 7, 22, 56], bad));
}

#[test]
fn a_server_is_bad_in_balancing_and_noise() {
    let found = line(&server(), Some(vec![2, 3]));
    let bad = vec![
        "rt-kernel",
        "preempt-mode",
        "threadirqs",
        "isolated-cpus",
        "nohz-full",
        "rcu-nocbs",
        "default-irq-affinity",
        "irqbalance",
        "workqueue-mask",
        "vmstat-interval",
        "kthread-cpus",
        "user-threads",
        "numa",
        "rt-throttling",
        "numa-balancing",
        "watchdogs",
        "serial-console",
        "rtprio-limit",
        "memlock-limit",
    ];
    assert_eq!(found, (vec![19, 3, 7, 27, 46], bad));
}

#[test]
fn an_isolated_real_time_kernel_has_nothing_bad() {
    let found = line(&real_time(), None);
    let bad = vec![];
    assert_eq!(found, (vec![0, 3, 7, 46, 46], bad));
}

/// Others take the word for one of init's arguments, and ignore it.
#[test]
fn kthread_cpus_is_proposed_to_ubuntus_kernels_alone() {
    for (signature, proposed) in [
        (None, false),
        (Some("Ubuntu 6.8.1-1015.16-realtime 6.8.12\n"), true),
        (Some("Vendor 6.8\n"), false),
    ] {
        let tree = server();
        if let Some(signature) = signature {
            tree.write("/proc/version_signature", signature);
        }
        let finding = tree.finding(FindingId::KthreadCpus);
        let boots = |word: &str| {
            let is = |fix: &FindingFix| matches!(fix, FindingFix::Boot { parameter } if parameter.starts_with(word));
            finding.fixes.iter().any(is)
        };
        assert_eq!(boots("kthread_cpus="), proposed, "{:?}", finding.fixes);
        assert!(boots("nohz_full="), "{:?}", finding.fixes);
        tree.write("/proc/cmdline", "quiet kthread_cpus=0-1\n");
        let is_ok = tree.finding(FindingId::KthreadCpus).state.kind() == StateKind::Ok;
        assert_eq!(is_ok, proposed, "{signature:?}");
    }
}

/// The kernel keeps its boot CPU for other work, whatever the list says.
#[test]
fn no_parameter_is_proposed_that_leaves_no_cpu_for_other_work() {
    let tree = server();
    tree.write("/sys/devices/system/cpu/nohz_full", "(null)\n");
    tree.write("/proc/irq/40/nvme0q3/", "");
    tree.write("/proc/irq/40/smp_affinity_list", "0-3\n");
    tree.write("/proc/irq/40/effective_affinity_list", "3\n");
    for (cpus, by_hand) in [(vec![1, 2, 3], false), (vec![0, 1, 2, 3], true)] {
        let request = CheckRequest {
            cpus: Some(cpus),
            ..CheckRequest::default()
        };
        let found = check(&tree.root(), &request);
        for id in [
            FindingId::IsolatedCpus,
            FindingId::NohzFull,
            FindingId::ManagedIrqs,
        ] {
            let finding = found.finding(id).expect("each");
            assert_eq!(finding.state.kind(), StateKind::Bad, "{id}");
            let is_by_hand = finding.fixes == [FindingFix::ByHand];
            assert_eq!(is_by_hand, by_hand, "{id}: {:?}", finding.fixes);
        }
    }
}

#[test]
fn a_container_sees_little_and_most_is_unknown() {
    let found = line(&container(), Some(vec![1, 2]));
    let bad = vec![
        "rt-kernel",
        "threadirqs",
        "isolated-cpus",
        "nohz-full",
        "kthread-cpus",
        "memory-limit",
    ];
    assert_eq!(found, (vec![6, 37, 1, 3, 55], bad));
    assert_eq!(
        state(&container(), FindingId::OtherTuners),
        StateKind::Unknown
    );
}

#[test]
fn lockdown_hides_the_preemption_model_and_the_fair_server() {
    let found = line(&locked_down(), Some(vec![2, 3]));
    let bad = vec![
        "rt-kernel",
        "threadirqs",
        "isolated-cpus",
        "nohz-full",
        "rcu-nocbs",
        "default-irq-affinity",
        "workqueue-mask",
        "vmstat-interval",
        "kthread-cpus",
        "hypervisor",
        "rtprio-limit",
        "memlock-limit",
    ];
    assert_eq!(found, (vec![12, 5, 9, 28, 48], bad));
}
