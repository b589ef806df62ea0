//! What the kernel says of its boot parameters decides before their spelling does.

use punctual_machine::{Root, Snapshot, check};
use punctual_record::finding::{Fault, FindingId, FindingState};

use crate::tree::request;

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

fn present(words: &[&str]) -> FindingState {
    let words = words.iter().map(|word| (*word).to_owned()).collect();
    FindingState::Bad {
        fault: Fault::Present(words),
    }
}

#[test]
fn a_parameter_that_the_kernel_does_not_know_is_bad_however_it_is_spelt() {
    let line = "quiet nohz_full=2-3 rcu_nocb=2-3 isolcpus=2-3";
    // Nobody says: the spelling alone.
    let misspelt = present(&["rcu_nocb=2-3 (rcu_nocbs?)"]);
    assert_eq!(found(line, None), misspelt);
    assert_eq!(found(line, Some("")), misspelt);
    let said = "BOOT_IMAGE=/vmlinuz nohz_full=2-3 rcu_nocb=2-3";
    let both = present(&[
        "nohz_full=2-3 (not in this kernel)",
        "rcu_nocb=2-3 (rcu_nocbs?)",
    ]);
    assert_eq!(found(line, Some(said)), both);
}

/// A vendor's kernel may know a word that resembles another one.
#[test]
fn a_parameter_that_the_kernel_knows_is_not_misspelt() {
    let line = "quiet isolcpu=2-3";
    assert_eq!(found(line, None), present(&["isolcpu=2-3 (isolcpus?)"]));
    assert_eq!(found(line, Some("splash")), FindingState::Ok);
    // What no real-time work needs is passed to user space, and no fault.
    let line = "quiet splash";
    assert_eq!(found(line, Some("splash")), FindingState::Ok);
}
