//! What the kernel says of its boot parameters decides before their spelling does; what was counted
//! over a time decides on SMIs, and stands with each interrupt.

use punctual_machine::{Root, Snapshot, check};
use punctual_record::finding::{Counted, Fault, FindingId, FindingState, Item, StateKind, Unknown};

use super::tree::request;

const QUESTION: &str = "/dev/kmsg: Unknown kernel command line parameters";

/// The finding on a machine with this command line, whose kernel said that it doesn't know these.
fn found(line: &str, said: Option<&str>) -> FindingState {
    let answers = match said {
        Some(said) => serde_json::json!({QUESTION: {"read": said}}),
        None => serde_json::json!({}),
    };
    let snapshot = serde_json::json!({
        "version": 1,
        "files": {"/proc/cmdline": {"read": ["text", line]}},
        "links": {}, "names": {}, "present": {}, "answers": answers,
    });
    let snapshot = Snapshot::parse(snapshot.to_string().as_bytes()).expect("a snapshot");
    let check = check(&Root::of_snapshot(snapshot), &request());
    let finding = check.finding(FindingId::UnknownParameter).expect("each");
    finding.state.clone()
}

fn present<const N: usize>(items: [Item; N]) -> FindingState {
    FindingState::Bad {
        fault: Fault::Present(items.into()),
    }
}

fn misspelt(parameter: &str, known: &str) -> Item {
    Item::Misspelt {
        parameter: parameter.to_owned(),
        known: known.to_owned(),
    }
}

/// The interrupt of the snapshot below, with what was counted: how often, and for how long.
fn irq(counted: Option<(u64, u64)>) -> FindingState {
    let counted = counted.map(|(times, within_ms)| Counted { times, within_ms });
    present([Item::Interrupt {
        number: 24,
        actions: vec!["eth0".to_owned()],
        counted,
    }])
}

#[test]
fn a_parameter_that_the_kernel_does_not_know_is_bad_however_it_is_spelt() {
    let line = "quiet nohz_full=2-3 rcu_nocb=2-3 isolcpus=2-3";
    // Nobody says: the spelling alone.
    let near = present([misspelt("rcu_nocb=2-3", "rcu_nocbs")]);
    assert_eq!(found(line, None), near);
    assert_eq!(found(line, Some("")), near);
    let said = "BOOT_IMAGE=/vmlinuz nohz_full=2-3 rcu_nocb=2-3";
    let both = present([
        Item::NotInKernel {
            parameter: "nohz_full=2-3".to_owned(),
        },
        misspelt("rcu_nocb=2-3", "rcu_nocbs"),
    ]);
    assert_eq!(found(line, Some(said)), both);
}

/// A vendor's kernel may know a word that resembles another one.
#[test]
fn a_parameter_that_the_kernel_knows_is_not_misspelt() {
    let line = "quiet isolcpu=2-3";
    assert_eq!(
        found(line, None),
        present([misspelt("isolcpu=2-3", "isolcpus")])
    );
    assert_eq!(found(line, Some("splash")), FindingState::Ok);
    // What no real-time work needs is passed to user space, and no fault.
    let line = "quiet splash";
    assert_eq!(found(line, Some("splash")), FindingState::Ok);
}

/// The machine of a snapshot in which this was counted, or nothing.
fn counted(answer: Option<&str>) -> [FindingState; 2] {
    let question = "two readings of /proc/interrupts and MSR_SMI_COUNT";
    let answers = match answer {
        Some(answer) => serde_json::json!({question: {"read": answer}}),
        None => serde_json::json!({}),
    };
    let snapshot = serde_json::json!({
        "version": 1,
        "files": {
            "/sys/devices/system/cpu/online": {"read": ["text", "0-3"]},
            "/proc/irq/24/smp_affinity_list": {"read": ["text", "0-3"]},
        },
        "links": {},
        "names": {
            "/proc/irq": {"read": ["24"]},
            "/proc/irq/24": {"read": ["eth0"]},
            "/proc/irq/24/eth0": {"read": []},
        },
        "present": {
            "/proc/irq/24/smp_affinity_list": {"read": null},
            "/sys/class/dmi": {"read": null},
        },
        "answers": answers,
    });
    let snapshot = Snapshot::parse(snapshot.to_string().as_bytes()).expect("a snapshot");
    let check = check(&Root::of_snapshot(snapshot), &request());
    [FindingId::IrqAffinity, FindingId::Smi].map(|id| {
        let finding = check.finding(id).expect("each");
        finding.state.clone()
    })
}

#[test]
fn what_was_counted_stands_with_each_interrupt_and_decides_on_smis() {
    let uncounted = FindingState::Information { fault: None };
    assert_eq!(counted(None), [irq(None), uncounted.clone()]);
    let [interrupt, smi] = counted(Some("ms 1000\nirq 24 0 9\nirq 24 2 5\nirq 24 3 2\nsmi 4\n"));
    assert_eq!(interrupt, irq(Some((7, 1000))));
    let fault = Fault::Above(0);
    assert_eq!(smi, FindingState::Bad { fault });
    let [interrupt, smi] = counted(Some("ms 500\nsmi 0\n"));
    assert_eq!(interrupt, irq(Some((0, 500))));
    assert_eq!(smi, FindingState::Ok);
    // Without the register it is unknown; with a damaged answer nothing was asked.
    let why = Unknown::Unreadable("MSR_SMI_COUNT".to_owned());
    assert_eq!(counted(Some("ms 500\n"))[1], FindingState::Unknown { why });
    assert_eq!(counted(Some("what")), [irq(None), uncounted]);
}

/// A machine on which the kernel gave this answer about its audit, or none.
fn audited(answer: serde_json::Value) -> FindingState {
    let snapshot = serde_json::json!({
        "version": 1,
        "files": {"/proc/cmdline": {"read": ["text", "quiet"]}},
        "links": {}, "names": {"/proc": {"read": []}}, "present": {}, "answers": answer,
    });
    let snapshot = Snapshot::parse(snapshot.to_string().as_bytes()).expect("a snapshot");
    let check = check(&Root::of_snapshot(snapshot), &request());
    let finding = check.finding(FindingId::Audit).expect("each");
    finding.state.clone()
}

#[test]
fn the_rules_of_the_audit_decide_and_without_an_answer_it_is_unknown() {
    const QUESTION: &str = "netlink AUDIT_GET, AUDIT_LIST_RULES";
    let answered = |text: &str| audited(serde_json::json!({QUESTION: {"read": text}}));
    let off = answered("enabled 0 rules 3 calls 3");
    assert_eq!(off, FindingState::Ok);
    let silent = answered("enabled 1 rules 4 calls 0");
    assert_eq!(silent, FindingState::Information { fault: None });
    let rules = Fault::Present(vec![Item::AuditRules { calls: 2 }]);
    let audited_calls = answered("enabled 1 rules 4 calls 2");
    let fault = Some(rules);
    assert_eq!(audited_calls, FindingState::Information { fault });
    for unanswered in [
        serde_json::json!({}),
        serde_json::json!({QUESTION: {"error": 1}}),
    ] {
        let state = audited(unanswered);
        assert_eq!(state.kind(), StateKind::Unknown, "{state:?}");
    }
    let lacking = audited(serde_json::json!({QUESTION: {"error": libc::EPROTONOSUPPORT}}));
    assert_eq!(lacking.kind(), StateKind::NotApplicable);
}
