//! Every kind of condition, event, fix, end and fault has words of its own.

use punctual_record::conditions::Aspect;
use punctual_record::explanation::RowNote;
use punctual_record::{Hypervisor, KernelCall, RunSource};
use punctual_report::{facts, lab};

use super::{bills, kinds, labs};

/// A line to be read by a person: text of its own, and no value as a debugger shows it.
fn check(line: &str) {
    assert!(!line.trim().is_empty(), "nothing is said");
    assert_eq!(line, line.trim(), "{line:?}");
    assert!(!line.contains(['\n', '\r', '\t']), "{line:?}");
    for debug in ["Some(", "None", "Ok(", "Err(", " { ", "\\\"", "Vec", "::"] {
        assert!(!line.contains(debug), "{debug:?} in {line:?}");
    }
    assert!(!line.contains("  "), "two spaces in {line:?}");
    assert!(!line.ends_with([':', ';', ',']), "{line:?}");
}

/// Lines of which each says something else.
fn check_distinct(lines: Vec<String>) {
    lines.iter().for_each(|line| check(line));
    for (at, line) in lines.iter().enumerate() {
        assert!(!lines[..at].contains(line), "twice: {line:?}");
    }
}

#[test]
fn every_condition_says_what_was_requested_and_what_was_found() {
    for demand in kinds::demands() {
        check(&facts::requested(&demand));
        check(&facts::found(&demand));
    }
}

#[test]
fn every_fix_says_what_to_do() {
    check_distinct(kinds::fixes().iter().map(facts::fix).collect());
}

#[test]
fn every_event_says_what_happened() {
    let events = kinds::events();
    let mut lines: Vec<String> = events
        .iter()
        .map(|event| facts::event(event, "cyclictest"))
        .collect();
    lines.iter().for_each(|line| check(line));
    // What the kernel says of throttling is an event like any other message of it.
    lines.dedup();
    assert_eq!(lines.len(), events.len(), "two events in the same words");
    for event in &events {
        let mut of_part = event.clone();
        of_part.run = Some(3);
        let line = facts::event(&of_part, "cyclictest");
        assert!(line.starts_with("run 3: "), "{line}");
        check(&line);
    }
}

#[test]
fn every_end_of_a_run_has_words() {
    let endings = kinds::endings().into_iter();
    check_distinct(endings.map(|it| facts::ending(it, "cyclictest")).collect());
}

#[test]
fn every_fault_says_what_failed() {
    check_distinct(
        kinds::load_failures()
            .iter()
            .map(facts::load_failure)
            .collect(),
    );
    check_distinct(
        kinds::thread_faults()
            .iter()
            .map(facts::thread_fault)
            .collect(),
    );
    for fault in kinds::thread_faults() {
        check(&facts::failed_thread(Some(3), &fault));
        check(&facts::failed_thread(None, &fault));
    }
    check_distinct(kinds::unsaved().iter().map(facts::unsaved).collect());
    check_distinct(kinds::unread().iter().map(facts::unread).collect());
}

#[test]
fn every_difference_names_the_condition_and_both_values() {
    let differences = kinds::differences();
    for difference in &differences {
        let line = facts::difference(difference);
        check(&line);
        for part in [
            facts::aspect(difference.aspect).to_owned(),
            facts::value(&difference.first),
            facts::value(&difference.second),
        ] {
            assert!(line.contains(&part), "{part:?} in {line:?}");
        }
    }
    let names = Aspect::ALL.map(|aspect| facts::aspect(aspect).to_owned());
    check_distinct(names.into());
}

#[test]
fn every_note_of_a_bill_has_words() {
    let notes = bills::notes();
    let line = |notes: &[RowNote]| facts::notes(notes).expect("words");
    check_distinct(
        notes
            .iter()
            .map(|note| line(std::slice::from_ref(note)))
            .collect(),
    );
    let [first, second] = &notes[..2] else {
        panic!("two notes");
    };
    let both = [first.clone(), second.clone()];
    assert_eq!(
        line(&both),
        "in softirq NET_RX; the last thread seen there was stress-ng (TID 472)"
    );
    assert_eq!(facts::notes(&[]), None);
}

#[test]
fn everything_that_an_explanation_lacks_has_words() {
    check_distinct(bills::not_seen().iter().map(facts::not_seen).collect());
}

#[test]
fn everything_in_a_picture_has_a_label() {
    check_distinct(bills::span_labels().iter().map(facts::span_label).collect());
    check_distinct(bills::mark_labels().iter().map(facts::mark_label).collect());
}

#[test]
fn every_cell_without_a_result_or_a_bill_says_why() {
    check_distinct(labs::no_results().iter().map(lab::no_result).collect());
    check_distinct(labs::no_bills().iter().map(lab::no_bill).collect());
}

/// A sum that was refused says in what the runs differ and what to do.
#[test]
fn a_refused_merge_names_the_differences_and_the_flag() {
    let error = punctual_record::MergeError::Different {
        run: 1,
        differences: kinds::differences(),
    };
    let line = facts::merge_error(&error);
    check(&line);
    assert!(line.starts_with("run 2 differs from the first in source (none / kvm); "));
    assert!(line.contains("--force"), "{line}");
}

/// A message of the record and the same samples in the list of what was not saved: one fact, one
/// sentence.
#[test]
fn missing_samples_are_stated_in_the_same_words_everywhere() {
    use punctual_record::{Event, Happening, MissingSamples, Unsaved, UnsavedReason};
    let samples = MissingSamples {
        written: 5,
        measured: 7,
        error: None,
    };
    let words = "5 of 7 samples were written: the disk was too slow";
    assert_eq!(facts::missing_samples(&samples), words);
    let event = Event::new(0, Happening::Samples(samples.clone()));
    assert_eq!(facts::event(&event, "punctual"), words);
    let unsaved = Unsaved {
        directory: "run".to_owned(),
        parts: Vec::new(),
        why: UnsavedReason::Samples(samples),
    };
    assert!(facts::unsaved(&unsaved).ends_with(words));
}

#[test]
fn what_mostly_has_a_name_has_words_without_one() {
    let text = |text: &str| text.to_owned();
    for (call, words) in [
        (KernelCall::from("futex LOCK_PI"), "futex LOCK_PI"),
        (KernelCall::Number(999), "system call 999"),
        (KernelCall::FaultOrInterrupt {}, "page fault or interrupt"),
    ] {
        assert_eq!(facts::call(&call), words);
    }
    let unknown = |signature: Option<&str>, firmware: Option<&str>| Hypervisor::Unknown {
        signature: signature.map(text),
        firmware: firmware.map(text),
    };
    for (hypervisor, words) in [
        (Hypervisor::from("KVM"), "KVM"),
        (unknown(None, None), "unknown"),
        (unknown(Some("ABC"), None), "unknown: ABC"),
        (unknown(Some("ABC"), Some("Bochs")), "unknown: ABC (Bochs)"),
    ] {
        assert_eq!(facts::hypervisor(&hypervisor), words);
    }
    let watch = |of: Option<&str>| RunSource::Watch { of: of.map(text) };
    for (source, words) in [
        (RunSource::from("nanosleep"), "nanosleep"),
        (watch(None), "watch of the system"),
        (watch(Some("controller")), "watch of controller"),
    ] {
        assert_eq!(facts::source(&source), words);
    }
}
