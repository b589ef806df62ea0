//! Where short-lived threads come from: they have ended when `/proc` is read.

use std::collections::BTreeSet;

use punctual_record::explanation::{Ancestor, Cause, Culprit, Doing, RowNote};
use punctual_trace::attribute::event::{Kind, Origin, Task};
use punctual_trace::attribute::{culprit_of, waits};

use super::build::*;

/// A program that cron's backup.sh started.
fn gzip() -> Task {
    task(4713, "gzip", 8, 1)
}

fn ancestor(name: &str, tid: u32) -> Ancestor {
    Ancestor {
        name: name.to_owned(),
        tid: Some(tid),
        start: None,
    }
}

fn origin() -> Origin {
    Origin {
        pid: 4713,
        parents: vec![ancestor("backup.sh", 4711), ancestor("cron", 812)],
        command: Some("gzip -9 a".to_owned()),
        group: Some("/system.slice/backup.service".to_owned()),
    }
}

/// What a bill says of the thread; SCHED_FIFO 91.
fn culprit(ns: u64) -> Culprit {
    Culprit {
        ns,
        tid: 4713,
        policy: "SCHED_FIFO".to_owned(),
        priority: 91,
        pid: Some(4713),
        command: Some("gzip -9 a".to_owned()),
        group: Some("/system.slice/backup.service".to_owned()),
        parents: vec![ancestor("backup.sh", 4711), ancestor("cron", 812)],
        ..Culprit::default()
    }
}

#[test]
fn a_culprit_that_began_during_the_recording_has_its_descent() {
    let mut made = asleep(&gzip(), 200_000);
    made.timer(500, 3_000, USER)
        .switch(190_000, &gzip(), &probe());
    made.window.origins = [(4713, origin()), (4714, origin())].into();
    let rows = made.bill().rows;
    let its = |cause: &Cause| matches!(cause, Cause::Thread { task, .. } if task == "gzip");
    let by: Vec<Culprit> = rows
        .iter()
        .filter(|row| its(&row.cause))
        .flat_map(|row| row.by.clone())
        .collect();
    // From the end of the interrupt to the switch.
    assert_eq!(by, [culprit(187_000)]);
    // Of a thread that was there before, the events tell only who it was.
    made.window.origins = [(4714, origin())].into();
    let rows = made.bill().rows;
    let known = rows.iter().flat_map(|row| &row.by);
    let known: BTreeSet<_> = known.map(|by| (by.tid, by.pid, by.parents.len())).collect();
    assert_eq!(known, [(4713, None, 0)].into());
}

#[test]
fn texts_of_an_origin_are_cut_to_what_a_record_takes() {
    let long = "é".repeat(400);
    let endless = Origin {
        parents: vec![ancestor(&long, 1); 9],
        command: Some(long.clone()),
        group: Some(long),
        ..origin()
    };
    let by = culprit_of(&gzip(), 5, Some(&endless));
    let lengths = [&by.command, &by.group].map(|it| it.as_ref().map(String::len));
    assert_eq!(lengths, [Some(512); 2]);
    assert_eq!(by.parents.len(), Culprit::PARENTS);
    assert_eq!(by.parents[0].name.len(), 512);
}

/// Who sent an interprocessor interrupt, and whom a thread waited for.
#[test]
fn senders_and_wakers_have_their_descent_too() {
    let sent = Kind::CallSent {
        request: 0xe1,
        function: 0xd0,
        from_cpu: 3,
        by: Some(gzip()),
    };
    let mut made = asleep(&hog(), 600_000);
    made.at(-30_000, sent).called();
    made.window.origins = [(4713, origin())].into();
    let rows = made.bill().rows;
    let sender = rows
        .iter()
        .find(|row| row.notes == [RowNote::SentFrom { cpu: 3 }])
        .expect("a sender");
    let named = |by: &Culprit| (by.name.clone(), by.parents.len(), by.pid);
    assert_eq!(
        named(&sender.by[0]),
        (Some("gzip".to_owned()), 2, Some(4713))
    );
    let mut made = asleep(&gzip(), 100_000);
    made.at(
        90_000,
        Kind::Waking {
            tid: 100,
            by: Some(gzip()),
        },
    )
    .leaves(95_000, &gzip(), 1, &probe());
    made.window.origins = [(4713, origin())].into();
    let chain = waits::chain(&made.window, 0);
    let ran = chain.rows.iter().find(|row| row.doing == Doing::Ran);
    let waker = ran.and_then(|row| row.thread.as_ref()).expect("a waker");
    assert_eq!((waker.tid, named(waker).1), (4713, 2), "{chain:#?}");
}
