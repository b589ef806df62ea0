//! What is proposed is something that this machine can do and that helps; and what overrules the setting
//! that is looked at decides.

use punctual_machine::{CheckRequest, check};
use punctual_record::finding::{
    Fault, Finding, FindingFix, FindingId, FindingState, Item, ReadResult, Seen, StateKind, Unknown,
};

use super::tree::{Policy, Tree, request};

const CPU: &str = "/sys/devices/system/cpu";

/// The finding for a program on these CPUs.
fn on(tree: &Tree, cpus: &[usize], id: FindingId) -> Finding {
    let request = CheckRequest {
        cpus: Some(cpus.to_vec()),
        ..request()
    };
    let check = check(&tree.root(), &request);
    check.finding(id).expect("each finding").clone()
}

/// As short words: `PATH=VALUE`, `+PARAMETER`, `-PARAMETER`, `by hand`.
fn fixes(finding: &Finding) -> Vec<String> {
    let words = |fix: &FindingFix| match fix {
        FindingFix::Write { path, value } => format!("{path}={value}"),
        FindingFix::Boot { parameter } => format!("+{parameter}"),
        FindingFix::Unboot { parameter } => format!("-{parameter}"),
        FindingFix::ByHand => "by hand".to_owned(),
        other => format!("{other:?}"),
    };
    finding.fixes.iter().map(words).collect()
}

fn kind(tree: &Tree, id: FindingId) -> StateKind {
    tree.finding(id).state.kind()
}

/// Eight CPUs, of which N and N+4 share a core.
fn with_siblings() -> Tree {
    let tree = Tree::base();
    tree.write(&format!("{CPU}/online"), "0-7\n");
    tree.write(&format!("{CPU}/smt/active"), "1\n");
    for cpu in 0..8 {
        let core = format!("{},{}\n", cpu % 4, cpu % 4 + 4);
        tree.write(
            &format!("{CPU}/cpu{cpu}/topology/thread_siblings_list"),
            core,
        );
        // The CPU that the kernel boots on can't be taken offline.
        if cpu > 0 {
            tree.write(&format!("{CPU}/cpu{cpu}/online"), "1\n");
        }
    }
    tree
}

/// With `nosmt` the kernel boots the first thread of each core alone.
#[test]
fn siblings_are_taken_offline_only_where_cpus_for_other_work_remain() {
    let tree = with_siblings();
    let off = |cpu: usize| format!("{CPU}/cpu{cpu}/online=0");
    let nosmt = || "+nosmt".to_owned();
    let by_hand = || "by hand".to_owned();
    for (cpus, expected) in [
        (&[2, 3][..], vec![off(6), off(7), nosmt()]),
        // They would not be booted.
        (&[6, 7], vec![off(2), off(3)]),
        (&[4], vec![by_hand()]),
        (&[4, 5], vec![off(1), by_hand()]),
        // Every other CPU is a sibling.
        (&[0, 1, 2, 3], vec![by_hand()]),
        (&[4, 5, 6, 7], vec![by_hand()]),
        // One of them would be gone.
        (&[1, 5], vec![by_hand()]),
    ] {
        let finding = on(&tree, cpus, FindingId::SmtSiblings);
        assert_eq!(fixes(&finding), expected, "{cpus:?}");
        let firsts = finding.readings.iter().find_map(|it| match &it.result {
            ReadResult::Seen(Seen::OfCpus(cpus)) => Some(cpus.clone()),
            _ => None,
        });
        let is_named = firsts.is_some_and(|firsts| firsts.iter().all(|it| *it < 4));
        assert_eq!(is_named, expected.contains(&by_hand()), "{cpus:?}");
    }
}

/// kernel-parameters.txt: `pcie_aspm=off` leaves what the firmware configured as it is.
#[test]
fn aspm_that_the_kernel_does_not_touch_is_unknown() {
    let policy = "/sys/module/pcie_aspm/parameters/policy";
    let tree = Tree::base();
    tree.write(policy, "[default] performance powersave\n");
    tree.write("/sys/bus/pci/devices/0000:00:1c.0/link/l1_aspm", "1\n");
    let finding = tree.finding(FindingId::Aspm);
    let write = format!("{policy}=performance");
    let boot = "+pcie_aspm.policy=performance".to_owned();
    assert_eq!(fixes(&finding), [write, boot]);
    // Then no link has files.
    tree.remove("/sys/bus/pci/devices/0000:00:1c.0/link/l1_aspm");
    for (line, kind) in [
        ("pcie_aspm=off", StateKind::Unknown),
        // A later word turns it on no more: `pcie_aspm_disable` in drivers/pci/pcie/aspm.c.
        ("pcie_aspm=off pcie_aspm=force", StateKind::Unknown),
        ("pcie_aspm=force", StateKind::NotApplicable),
    ] {
        tree.write("/proc/cmdline", line);
        let finding = tree.finding(FindingId::Aspm);
        assert_eq!(finding.state.kind(), kind, "{line}: {finding:?}");
        assert!(finding.fixes.is_empty(), "{finding:?}");
    }
}

/// `setup_banned_cpus` in irqbalance's cputree.c: a mask wins over a list; systemd: of several files and
/// lines with a variable the last counts, also an empty one.
#[test]
fn the_variable_that_irqbalance_takes_decides() {
    let first = "/usr/lib/irqbalance/defaults.env";
    let last = "/etc/default/irqbalance";
    let list = "IRQBALANCE_BANNED_CPULIST";
    let mask = "IRQBALANCE_BANNED_CPUS";
    let (ok, bad, unknown) = (StateKind::Ok, StateKind::Bad, StateKind::Unknown);
    for (isolated, files, kind) in [
        ("2-3\n", vec![], ok),
        (
            "2-3\n",
            vec![(last, format!("{mask}=2\n{list}=2-3\n"))],
            bad,
        ),
        ("\n", vec![(last, format!("{mask}=c\n{list}=1\n"))], ok),
        (
            "\n",
            vec![
                (first, format!("{mask}=c\n")),
                (last, format!("{list}=1\n")),
            ],
            ok,
        ),
        ("\n", vec![(last, format!("{mask}=\n{list}=2-3\n"))], ok),
        (
            "\n",
            vec![(last, format!("{list}=1\n {list} = \"2-3\"\n"))],
            ok,
        ),
        (
            "\n",
            vec![
                (first, format!("{list}=2-3\n")),
                (last, format!("{list}=\n")),
            ],
            bad,
        ),
        (
            "2-3\n",
            vec![(first, format!("{mask}=c\n")), (last, format!("{mask}=\n"))],
            ok,
        ),
        // irqbalance takes an empty list for none up to 1.9.5, and from 2026 on for no CPU.
        ("2-3\n", vec![(last, format!("{list}=\"\"\n"))], unknown),
        ("2\n", vec![(last, format!("{list}=\n"))], bad),
        ("2-3\n", vec![(last, format!("{list}=-\n"))], bad),
        ("2-3\n", vec![(last, format!("#{list}=\n"))], ok),
    ] {
        let tree = Tree::base();
        tree.thread(900, "irqbalance", false, Policy::Other, "0-1");
        tree.write(&format!("{CPU}/isolated"), isolated);
        for (path, text) in &files {
            tree.write(path, text);
        }
        let finding = tree.finding(FindingId::Irqbalance);
        assert_eq!(
            finding.state.kind(),
            kind,
            "{isolated}{files:?}: {finding:?}"
        );
    }
}

/// `tick_nohz_activate` in kernel/time/tick-sched.c returns then, and no tick is ever stopped.
#[test]
fn without_tickless_idle_no_cpu_is_without_a_tick() {
    let tree = Tree::base();
    tree.write(&format!("{CPU}/nohz_full"), "2-3\n");
    let both = [FindingId::NohzFull, FindingId::ParameterNotInForce];
    for (line, expected) in [
        ("nohz=off nohz_full=2-3", StateKind::Bad),
        ("nohz_full=2-3 nohz=0", StateKind::Bad),
        ("nohz_full=2-3 nohz=off nohz=on", StateKind::Ok),
        // A word that is no boolean changes nothing.
        ("nohz_full=2-3 nohz=off nohz=maybe", StateKind::Bad),
        ("nohz_full=2-3 nohz=maybe", StateKind::Ok),
    ] {
        tree.write("/proc/cmdline", line);
        for id in both {
            assert_eq!(kind(&tree, id), expected, "{line}: {id}");
        }
    }
    tree.write("/proc/cmdline", "nohz=off isolcpus=nohz,2-3");
    assert_eq!(kind(&tree, both[1]), StateKind::Bad);
    assert_eq!(fixes(&tree.finding(both[0])), ["-nohz=off"]);
    tree.write(&format!("{CPU}/nohz_full"), "2\n");
    let both_fixes = ["-nohz=off", "+nohz_full=2-3"];
    assert_eq!(fixes(&tree.finding(both[0])), both_fixes);
}

/// `tick_nohz_init` takes the boot CPU out where it may suspend, and `irq_affinity_setup` always adds it.
#[test]
fn no_parameter_is_proposed_for_the_boot_cpu_that_can_not_free_it() {
    let tree = Tree::base();
    tree.write("/proc/irq/default_smp_affinity", "f\n");
    let config = String::from_utf8(tree.read("/boot/config-6.8.0").expect("it")).expect("a text");
    let suspends = format!("{config}CONFIG_PM_SLEEP_SMP=y\n");
    let on_powerpc = format!("{suspends}CONFIG_PM_SLEEP_SMP_NONZERO_CPU=y\n");
    for (config, cpus, in_force, tick, kthreads) in [
        (
            Some(&suspends),
            &[0][..],
            "\n",
            &["by hand"][..],
            &["by hand"][..],
        ),
        (
            Some(&suspends),
            &[0, 1],
            "\n",
            &["+nohz_full=1", "by hand"],
            &["+nohz_full=1", "by hand"],
        ),
        (Some(&suspends), &[0, 1], "1\n", &["by hand"], &["by hand"]),
        (
            Some(&config),
            &[0, 1],
            "1\n",
            &["+nohz_full=0-1"],
            &["+nohz_full=0-1"],
        ),
        (
            Some(&on_powerpc),
            &[0, 1],
            "1\n",
            &["+nohz_full=0-1"],
            &["+nohz_full=0-1"],
        ),
        (None, &[0, 1], "1\n", &["by hand"], &["by hand"]),
    ] {
        match config {
            Some(config) => tree.write("/boot/config-6.8.0", config),
            None => tree.remove("/boot/config-6.8.0"),
        }
        tree.write(&format!("{CPU}/nohz_full"), in_force);
        tree.write(
            "/proc/cmdline",
            if in_force == "\n" {
                "quiet"
            } else {
                "nohz_full=0-1"
            },
        );
        let what = format!("{cpus:?} {in_force:?} {}", config.map_or("", |it| it));
        assert_eq!(fixes(&on(&tree, cpus, FindingId::NohzFull)), tick, "{what}");
        assert_eq!(
            fixes(&on(&tree, cpus, FindingId::KthreadCpus)),
            kthreads,
            "{what}"
        );
    }
    let write = |mask: &str| format!("/proc/irq/default_smp_affinity={mask}");
    for (cpus, now, expected) in [
        (&[0][..], "f\n", vec![write("e"), "by hand".to_owned()]),
        (
            &[0, 1],
            "f\n",
            vec![
                write("c"),
                "+irqaffinity=2-3".to_owned(),
                "by hand".to_owned(),
            ],
        ),
        // As booted with that.
        (&[0, 1], "d\n", vec![write("c"), "by hand".to_owned()]),
        (
            &[2, 3],
            "f\n",
            vec![write("3"), "+irqaffinity=0-1".to_owned()],
        ),
    ] {
        tree.write("/proc/irq/default_smp_affinity", now);
        let finding = on(&tree, cpus, FindingId::DefaultIrqAffinity);
        assert_eq!(fixes(&finding), expected, "{cpus:?} {now}");
    }
}

/// A thread that receives packets may delay the program else.
#[test]
fn threads_of_napi_stay_below_the_program() {
    let tree = Tree::base();
    tree.write("/sys/class/net/eth0/threaded", "1\n");
    tree.thread(61, "napi/eth0-0", true, Policy::Other, "0");
    for (priority, proposed) in [
        (99, Some(70)),
        (71, Some(70)),
        (70, Some(69)),
        (2, Some(1)),
        (1, None),
    ] {
        let request = CheckRequest {
            priority,
            ..request()
        };
        let check = check(&tree.root(), &request);
        let finding = check.finding(FindingId::ThreadedNapi).expect("each");
        let fix = match proposed {
            Some(priority) => FindingFix::Scheduling {
                thread: "napi/eth0-0".to_owned(),
                tid: 61,
                policy: "fifo".to_owned(),
                priority,
            },
            None => FindingFix::ByHand,
        };
        assert_eq!(finding.fixes, [fix], "{priority}");
    }
}

/// `handle_user_split_lock` in arch/x86/kernel/cpu/bus_lock.c: SIGBUS comes before the file is looked at.
#[test]
fn a_split_lock_that_is_fatal_slows_nobody_down() {
    let tree = Tree::base();
    tree.write("/proc/sys/kernel/split_lock_mitigate", "1\n");
    tree.write("/proc/cpuinfo", "flags : fpu split_lock_detect\n");
    for (line, expected) in [
        ("split_lock_detect=fatal", StateKind::NotApplicable),
        (
            "split_lock_detect=off split_lock_detect=fatal",
            StateKind::NotApplicable,
        ),
        (
            "split_lock_detect=fatal split_lock_detect=warn",
            StateKind::Bad,
        ),
        ("split_lock_detect=warn", StateKind::Bad),
    ] {
        tree.write("/proc/cmdline", line);
        assert_eq!(kind(&tree, FindingId::SplitLock), expected, "{line}");
    }
}

/// transhuge.rst: each size has a file of its own, and `inherit` takes the word of all.
#[test]
fn each_size_of_huge_pages_decides_for_itself() {
    let folder = "/sys/kernel/mm/transparent_hugepage";
    let file = |size: u32| format!("{folder}/hugepages-{size}kB/enabled");
    let small = "always inherit madvise [never]\n";
    let inherited = "always [inherit] madvise never\n";
    let always = "[always] inherit madvise never\n";
    let madvise = |path: String| format!("{path}=madvise");
    for (of_all, of_small, of_large, expected) in [
        ("always madvise [never]\n", small, inherited, vec![]),
        (
            "always madvise [never]\n",
            always,
            inherited,
            vec![madvise(file(64))],
        ),
        (
            "always madvise [never]\n",
            always,
            always,
            vec![madvise(file(64)), madvise(file(2048))],
        ),
        (
            "[always] madvise never\n",
            small,
            inherited,
            vec![madvise(format!("{folder}/enabled"))],
        ),
        (
            "[always] madvise never\n",
            always,
            inherited,
            vec![madvise(format!("{folder}/enabled")), madvise(file(64))],
        ),
    ] {
        let tree = Tree::base();
        tree.write(&format!("{folder}/enabled"), of_all);
        // A size of files in memory alone.
        tree.write(&format!("{folder}/hugepages-8kB/shmem_enabled"), always);
        tree.write(&file(64), of_small);
        tree.write(&file(2048), of_large);
        let finding = tree.finding(FindingId::TransparentHugepages);
        let is_bad = finding.state.kind() == StateKind::Bad;
        assert_eq!(is_bad, !expected.is_empty(), "{finding:?}");
        assert_eq!(fixes(&finding), expected);
    }
    let tree = Tree::base();
    tree.write(&format!("{folder}/enabled"), "always [madvise] never\n");
    tree.write(&file(64), "sometimes\n");
    let why = Unknown::NotUnderstood(file(64));
    let state = tree.finding(FindingId::TransparentHugepages).state;
    assert_eq!(state, FindingState::Unknown { why });
}

#[test]
fn a_governor_that_the_kernel_lacks_is_not_proposed() {
    let tree = Tree::base();
    let file = |cpu: usize, name: &str| format!("{CPU}/cpu{cpu}/cpufreq/scaling_{name}");
    for cpu in 0..4 {
        tree.write(&file(cpu, "governor"), "schedutil\n");
    }
    let all: Vec<String> = (0..4)
        .map(|cpu| format!("{}=performance", file(cpu, "governor")))
        .collect();
    assert_eq!(fixes(&tree.finding(FindingId::Governor)), all);
    for cpu in 0..4 {
        tree.write(&file(cpu, "available_governors"), "powersave schedutil\n");
    }
    let finding = tree.finding(FindingId::Governor);
    assert_eq!(finding.state.kind(), StateKind::Bad);
    assert_eq!(fixes(&finding), ["by hand"]);
    tree.write(&file(3, "available_governors"), "performance schedutil\n");
    let finding = tree.finding(FindingId::Governor);
    assert_eq!(fixes(&finding), [all[3].clone(), "by hand".to_owned()]);
}

/// A mask holds no CPU that the machine can't have: `housekeeping_setup` compares what is left.
#[test]
fn a_list_above_the_last_cpu_is_refused_or_unknown() {
    let tree = Tree::base();
    tree.write(&format!("{CPU}/possible"), "0-3\n");
    tree.write(&format!("{CPU}/isolated"), "2-3\n");
    tree.write("/proc/irq/default_smp_affinity", "3\n");
    let repeated = |parameter: &str| {
        let parameter = parameter.to_owned();
        let fault = Fault::Present(vec![Item::Repeated { parameter }]);
        FindingState::Bad { fault }
    };
    let refused = |parameter: &str| FindingState::Bad {
        fault: Fault::Present(vec![parameter.into()]),
    };
    let not_understood = FindingState::Unknown {
        why: Unknown::NotUnderstood("/proc/cmdline".to_owned()),
    };
    for (release, line, expected) in [
        ("6.8.0", "isolcpus=2-3 isolcpus=2-3", FindingState::Ok),
        ("6.8.0", "isolcpus=2-3 isolcpus=2-63", refused("isolcpus")),
        (
            "6.1.0",
            "isolcpus=2-3 isolcpus=2-63",
            not_understood.clone(),
        ),
        ("6.8.0", "irqaffinity=0-1,8-15", refused("irqaffinity")),
        ("6.1.0", "irqaffinity=0-1,8-15", not_understood),
        ("6.8.0", "isolcpus=2-3 isolcpus=3", repeated("isolcpus")),
    ] {
        tree.write("/proc/sys/kernel/osrelease", format!("{release}\n"));
        tree.write("/proc/cmdline", line);
        let state = tree.finding(FindingId::ParameterNotInForce).state;
        assert_eq!(state, expected, "{release} {line}");
    }
}
