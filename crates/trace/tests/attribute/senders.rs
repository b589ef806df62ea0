//! The sender of an interprocessor interrupt.

use punctual_record::explanation::RowNote;
use punctual_trace::attribute::Cause;
use punctual_trace::attribute::event::{Kind, Task};

use super::build::*;

fn sent(by: Option<&Task>) -> Kind {
    sent_as(0xe1, by)
}

fn sent_as(request: u64, by: Option<&Task>) -> Kind {
    Kind::CallSent {
        request,
        function: 0xd0,
        from_cpu: 3,
        by: by.cloned(),
    }
}

/// The rows of a call that began before the wake-up was due: the sender, and the notes.
fn rows(sends: &[(i64, Kind)]) -> Vec<(Option<String>, Vec<RowNote>)> {
    let mut made = asleep(&hog(), 600_000);
    for (at, what) in sends {
        made.at(*at, what.clone());
    }
    made.called();
    let rows = made.bill().rows.into_iter();
    let calls = rows.filter(|row| matches!(row.cause, Cause::Call { .. }));
    calls
        .map(|row| (row.by.first().and_then(|by| by.name.clone()), row.notes))
        .collect()
}

#[test]
fn a_call_names_the_thread_that_sent_it() {
    let sender = task(300, "munmapper", 120, 0);
    let notes = vec![RowNote::SentFrom { cpu: 3 }];
    let found = rows(&[(-30_000, sent(Some(&sender)))]);
    assert_eq!(found, [(Some("munmapper".to_owned()), notes)]);
}

#[test]
fn each_request_has_its_own_sender() {
    let (first, second) = (task(300, "first", 120, 0), task(301, "second", 120, 0));
    let found = rows(&[
        (-30_000, sent(Some(&first))),
        (-20_000, sent_as(0xe2, Some(&second))),
    ]);
    assert_eq!(found[0].0.as_deref(), Some("first"));
}

#[test]
fn a_call_that_an_interrupt_sent_blames_no_thread() {
    let found = rows(&[(-30_000, sent(None))]);
    let notes = vec![RowNote::SentByInterrupt { cpu: 3 }];
    assert_eq!(found, [(None, notes)]);
    // Sent after it began, or the sending was not recorded: no thread is named.
    let sender = task(300, "munmapper", 120, 0);
    assert_eq!(rows(&[(-5_000, sent(Some(&sender)))]), [(None, Vec::new())]);
    assert_eq!(rows(&[]), [(None, Vec::new())]);
}
