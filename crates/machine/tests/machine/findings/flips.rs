//! Every finding flips: a machine on which it is fine, one change, and what is found then.

use std::collections::BTreeSet;

use punctual_record::finding::{Fault, Finding, FindingFix, FindingId, FindingState, StateKind};

use super::table::{Case, Step, cases};
use super::tree::Tree;

/// What has no good or bad value: it is only shown. `dma-latency-access` and `posix-options` ask
/// the live machine.
const NEVER_FLIP: &[FindingId] = &[
    FindingId::TimerMigration,
    FindingId::Mitigations,
    FindingId::Autogroup,
    FindingId::PstateDriver,
    FindingId::ResumeLatency,
    FindingId::Smi,
    FindingId::MinFree,
    FindingId::Hugepages,
    FindingId::RcuStall,
    FindingId::Kdump,
    FindingId::BlockScheduler,
    FindingId::BusyPoll,
    FindingId::PosixOptions,
    FindingId::DmaLatencyAccess,
    // Known or unknown: see the tests of what can't be read.
    FindingId::KernelConfig,
];

fn take(tree: &Tree, steps: &[Step]) {
    for step in steps {
        match step {
            Step::File(path, text) => tree.write(path, text),
            Step::Gone(path) => tree.remove(path),
            Step::Thread(tid, name, is_of_kernel, policy, cpus) => {
                tree.thread(*tid, name, *is_of_kernel, *policy, cpus);
            }
        }
    }
}

fn fault(finding: &Finding) -> Option<&Fault> {
    match &finding.state {
        FindingState::Bad { fault } => Some(fault),
        FindingState::Information { fault } => fault.as_ref(),
        _ => None,
    }
}

/// A tree before and after the change of a case, and what was found after it.
fn changed(case: &Case) -> (Tree, Finding) {
    let tree = Tree::base();
    take(&tree, &case.before);
    let first = tree.finding(case.id);
    assert_eq!(first.state.kind(), case.starts, "before: {first:?}");
    assert!(!first.readings.is_empty(), "no evidence: {first:?}");
    take(&tree, &case.change);
    let then = tree.finding(case.id);
    (tree, then)
}

#[test]
fn every_finding_flips_with_the_setting_that_it_is_about() {
    for case in cases() {
        let (_tree, then) = changed(&case);
        let kind = then.state.kind();
        assert_eq!(kind, case.ends, "{then:?}");
        assert_eq!(fault(&then), Some(&case.fault), "{then:?}");
        assert_eq!(then.fixes.first(), case.fix.as_ref(), "{then:?}");
    }
}

#[test]
fn every_finding_is_in_the_table_or_has_no_bad_value() {
    let tested: BTreeSet<FindingId> = cases().iter().map(|case| case.id).collect();
    let never: BTreeSet<FindingId> = NEVER_FLIP.iter().copied().collect();
    assert_eq!(tested.intersection(&never).count(), 0);
    let all: BTreeSet<FindingId> = FindingId::ALL.iter().copied().collect();
    let known = tested.union(&never).copied().collect();
    let missing: Vec<_> = all.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

/// A write on a real machine changes other files, too: of these the finding can't turn.
const KERNEL_ANSWERS: &[FindingId] = &[FindingId::SmtSiblings];

#[test]
fn writing_what_a_fix_says_makes_a_finding_ok_and_the_old_bytes_bring_it_back() {
    let mut written = 0;
    for case in cases() {
        let (tree, then) = changed(&case);
        let writes: Vec<(&String, &String)> = then.fixes.iter().filter_map(write).collect();
        // The mask of an interrupt that was moved is written again, and changes nothing.
        let is_again =
            then.state.kind() == StateKind::Information && case.id == FindingId::IrqAffinity;
        if writes.is_empty() || KERNEL_ANSWERS.contains(&case.id) || is_again {
            continue;
        }
        let old: Vec<Option<Vec<u8>>> = writes.iter().map(|(path, _)| tree.read(path)).collect();
        for (path, value) in &writes {
            assert!(
                tree.path(path).is_file(),
                "{path} is not there to be written"
            );
            tree.write(path, as_shown(&tree.read(path).expect(path), value));
        }
        let fixed = tree.finding(case.id);
        // What is never ok, only shown, is as it was before.
        assert_eq!(
            fixed.state.kind(),
            case.starts,
            "after {writes:?}: {fixed:?}"
        );
        assert!(case.starts == StateKind::Ok || case.id == FindingId::DirtyWriteback);
        for ((path, _), bytes) in writes.iter().zip(&old) {
            tree.write(path, bytes.as_ref().expect("old bytes"));
        }
        assert_eq!(tree.finding(case.id), then);
        written += 1;
    }
    assert!(written > 25, "{written}");
}

/// The machines of all cases after this change: so many fixes of this kind are proposed without it,
/// and none with it, and no finding that had fixes is without any.
fn assert_withdrawn(
    change: impl Fn(&Tree),
    is_of_kind: impl Fn(&FindingFix) -> bool,
    least: usize,
) {
    let mut withdrawn = 0;
    for case in cases() {
        let (tree, then) = changed(&case);
        change(&tree);
        let now = tree.finding(case.id);
        withdrawn += then.fixes.iter().filter(|fix| is_of_kind(fix)).count();
        assert!(!now.fixes.iter().any(&is_of_kind), "{now:?}");
        if now.state == then.state {
            assert_eq!(now.fixes.is_empty(), then.fixes.is_empty(), "{now:?}");
        }
    }
    assert!(withdrawn >= least, "{withdrawn}");
}

fn boots(fix: &FindingFix, names: &[&str]) -> bool {
    let is = |word: &str| names.contains(&word.split('=').next().unwrap_or_default());
    matches!(fix, FindingFix::Boot { parameter } if is(parameter))
}

#[test]
fn no_parameter_is_proposed_that_the_kernel_was_built_without() {
    for (option, names, least) in [
        ("CPU_ISOLATION", &["isolcpus"][..], 3),
        ("NO_HZ_FULL", &["nohz_full"], 2),
        ("RCU_NOCB_CPU", &["rcu_nocbs"], 2),
        ("IRQ_FORCED_THREADING", &["threadirqs"], 1),
        ("HOTPLUG_SMT", &["nosmt"], 1),
    ] {
        let without = |tree: &Tree| {
            let text = |path: &str| {
                let bytes = tree.read(path)?;
                Some(String::from_utf8(bytes).expect("a text"))
            };
            let release = text("/proc/sys/kernel/osrelease").expect("a release");
            let file = format!("/boot/config-{}", release.trim());
            let config = text(&file).or_else(|| text("/boot/config-6.8.0"));
            let config = config.unwrap_or_default();
            tree.write(&file, config.replace(&format!("CONFIG_{option}=y"), ""));
        };
        assert_withdrawn(without, |fix| boots(fix, names), least);
    }
}

#[test]
fn no_parameter_is_proposed_that_only_later_kernels_know() {
    let of = |release: &'static str| {
        move |tree: &Tree| {
            let config = tree.read("/boot/config-6.16.0");
            let config = config.or_else(|| tree.read("/boot/config-6.8.0"));
            let config = config.unwrap_or_default();
            tree.write(&format!("/boot/config-{release}"), config);
            tree.write("/proc/sys/kernel/osrelease", release);
        }
    };
    assert_withdrawn(of("6.15.0"), |fix| boots(fix, &["rt_group_sched"]), 2);
    assert_withdrawn(of("5.5.0"), |fix| boots(fix, &["isolcpus"]), 3);
}

#[test]
fn nothing_is_written_where_lockdown_refuses_it() {
    let path = "/sys/kernel/security/lockdown";
    let is_below = |fix: &FindingFix, folders: &[&str]| {
        let is = |(path, _): (&String, &String)| folders.iter().any(|it| path.starts_with(it));
        write(fix).is_some_and(is)
    };
    let integrity = |tree: &Tree| tree.write(path, "none [integrity] confidentiality\n");
    let debugfs = ["/sys/kernel/debug/sched/"];
    assert_withdrawn(integrity, |fix| is_below(fix, &debugfs), 2);
    let confidentiality = |tree: &Tree| tree.write(path, "none integrity [confidentiality]\n");
    let both = ["/sys/kernel/debug/", "/sys/kernel/tracing/"];
    assert_withdrawn(confidentiality, |fix| is_below(fix, &both), 4);
}

fn write(fix: &FindingFix) -> Option<(&String, &String)> {
    match fix {
        FindingFix::Write { path, value } => Some((path, value)),
        _ => None,
    }
}

/// What the kernel shows after a write: of a list of choices the chosen one in its brackets.
fn as_shown(old: &[u8], value: &str) -> String {
    let old = String::from_utf8_lossy(old);
    for (open, close) in [('[', ']'), ('(', ')')] {
        if old.contains(open) {
            let word = |word: &str| {
                let plain = word.trim_matches([open, close]);
                if plain == value {
                    format!("{open}{plain}{close}")
                } else {
                    plain.to_owned()
                }
            };
            let words: Vec<String> = old.split_whitespace().map(word).collect();
            return words.join(" ") + "\n";
        }
    }
    format!("{value}\n")
}
