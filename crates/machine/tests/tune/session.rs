//! Changes that must not outlive the process that made them.

use std::fs;
use std::path::Path;
use std::time::Duration;

use punctual_machine::tune::{
    Journal, RestoreRequest, Session, TuneError, apply, find_thread, restore, setting_of_file,
};
use punctual_record::finding::FindingId;
use punctual_record::tuning::{Change, Knob, Restored, Setting};
use tempfile::TempDir;

use crate::{FOLDER, change, child_of, files, one, open_again, values};

#[test]
#[ignore = "a helper of another test, which is killed"]
fn child_switches_settings() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let changes = files(folder);
    let journal = Journal::open(folder).expect("a journal");
    let mut session = Session::begin(journal, &changes).expect("a session");
    for round in 0_usize.. {
        let chosen = (0..changes.len()).filter(|change| (round >> (change % 3)) & 1 == 0);
        let chosen: Vec<usize> = chosen.collect();
        for on in [true, false] {
            session
                .switch(chosen.iter().copied(), on)
                .expect("switched");
        }
    }
}

#[test]
fn after_a_kill_of_a_session_at_any_instant_everything_is_restored() {
    const KILLS: u32 = 300;
    let folder = TempDir::new().expect("a folder");
    let changes = files(folder.path());
    let before = values(&changes);
    let (mut changed, mut unchanged) = (0, 0);
    for kill in 0..KILLS {
        let mut child = child_of("session::child_switches_settings", folder.path());
        // Two thirds of the kills come when it switches.
        while kill % 3 != 0 && values(&changes) == before {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(u64::from(kill * 7919 % 4000)));
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        let now = values(&changes);
        let left = Journal::left_over(folder.path());
        let differ = now.iter().zip(&before).filter(|(a, b)| a != b).count();
        assert_eq!(left.len(), differ, "{left:?}");
        *if differ > 0 {
            &mut changed
        } else {
            &mut unchanged
        } += 1;
        let results = restore(&mut open_again(&folder), &RestoreRequest::default());
        let results = results.expect("restored");
        assert!(results.iter().all(|(_, it)| it.is_done()), "{results:?}");
        assert_eq!(values(&changes), before, "after kill {kill}");
        assert!(Journal::left_over(folder.path()).is_empty());
    }
    println!("killed with settings changed {changed}, with none {unchanged}");
    assert!(changed > KILLS / 10 && unchanged > KILLS / 10);
}

#[test]
fn a_session_switches_and_leaves_everything_as_before() {
    let folder = TempDir::new().expect("a folder");
    let changes = files(folder.path());
    let before = values(&changes);
    let mut session = Session::begin(open_again(&folder), &changes).expect("a session");
    assert_eq!(values(&changes), before, "only the journal is written");
    let all = 0..changes.len();
    session.switch(all.clone(), true).expect("on");
    let now = values(&changes);
    assert!(now.iter().zip(&before).all(|(now, before)| now != before));
    assert!(Journal::left_over(folder.path()).is_empty(), "we live");
    session.switch([1], false).expect("off");
    session.switch([1], false).expect("it is off already");
    assert!(session.is_on(0) && !session.is_on(1));
    assert_eq!(session.before(1), Some(before[1].as_str()));
    assert_eq!(values(&changes)[1], before[1]);
    session.end().expect("restored");
    assert_eq!(values(&changes), before);
    assert!(!Journal::is_in(folder.path()), "nothing is changed");
    // Without an end as well.
    let mut session = Session::begin(open_again(&folder), &changes).expect("a session");
    session.switch(all, true).expect("on");
    drop(session);
    assert_eq!(values(&changes), before);
    assert!(!Journal::is_in(folder.path()), "nothing is changed");
}

/// What an experiment leaves: its control is planned first, and then its knob.
#[test]
fn a_setting_that_was_planned_twice_has_the_last_value_and_its_knob() {
    let folder = TempDir::new().expect("a folder");
    let (_, path) = one(&folder);
    let mut control = change(&path, "1");
    control.knob = Knob::Control;
    let plan = [control, change(&path, "20")];
    let session = Session::begin(open_again(&folder), &plan).expect("a session");
    let entries = Journal::entries_in(folder.path());
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!(entries[0].knob, plan[1].knob.name());
    assert_eq!(entries[0].value, "20");
    session.end().expect("restored");
}

#[test]
fn a_session_over_an_applied_setting_leaves_it_applied() {
    let folder = TempDir::new().expect("a folder");
    let (applied, path) = one(&folder);
    // A write that is shorter leaves the end of a real file, here a line break.
    let value = || fs::read_to_string(&path).expect("it").trim().to_owned();
    apply(&mut open_again(&folder), &[applied]).expect("changed");
    // One change to another value, one back to the first original.
    let plan = [change(&path, "20"), change(&path, "1")];
    let mut session = Session::begin(open_again(&folder), &plan).expect("a session");
    session.switch([0], true).expect("on");
    assert_eq!(value(), "20");
    session.switch([1], true).expect("on");
    assert_eq!(value(), "1");
    session.switch([0], false).expect("off");
    assert_eq!(value(), "1", "the last one counts");
    session.switch([1], false).expect("off");
    assert_eq!(value(), "10");
    session.switch([1, 0], true).expect("on");
    session.end().expect("restored");
    assert_eq!(value(), "10");
    let mut journal = open_again(&folder);
    assert_eq!(journal.entries().len(), 1, "{:?}", journal.entries());
    assert_eq!(journal.entries()[0].holder, None);
    restore(&mut journal, &RestoreRequest::default()).expect("restored");
    assert_eq!(value(), "01");
}

#[test]
fn what_a_killed_session_left_over_an_applied_setting_is_restored_in_any_state() {
    let folder = TempDir::new().expect("a folder");
    let (applied, path) = one(&folder);
    let value = || fs::read_to_string(&path).expect("it");
    apply(&mut open_again(&folder), &[applied]).expect("changed");
    let plan = [change(&path, "20")];
    let session = Session::begin(open_again(&folder), &plan).expect("a session");
    let journal = folder.path().join("journal.jsonl");
    let text = fs::read_to_string(&journal).expect("a journal");
    drop(session);
    let pid = format!("\"pid\":{}", std::process::id());
    assert!(text.contains(&pid), "{text}");
    // The largest number of a process is 2^22.
    let dead = text.replace(&pid, "\"pid\":4194305");
    for (now, left) in [("10", 0), ("20", 1)] {
        fs::write(&path, format!("{now}\n")).expect("a file");
        fs::write(&journal, &dead).expect("a journal");
        assert_eq!(Journal::left_over(folder.path()).len(), left);
        let results = restore(&mut open_again(&folder), &RestoreRequest::default());
        assert!(
            results
                .expect("restored")
                .iter()
                .all(|(_, it)| it.is_done())
        );
        assert_eq!(value(), "01\n");
    }
    // Applied again, to a third value, before anybody restored.
    fs::write(&path, "20\n").expect("a file");
    fs::write(&journal, &dead).expect("a journal");
    apply(&mut open_again(&folder), &[change(&path, "30")]).expect("changed");
    let results = restore(&mut open_again(&folder), &RestoreRequest::default());
    let results = results.expect("restored");
    assert!(results.iter().all(|(_, it)| it.is_done()), "{results:?}");
    assert_eq!(value(), "01\n");
}

#[test]
fn a_session_stops_at_what_another_program_changed_and_restores_the_rest() {
    let folder = TempDir::new().expect("a folder");
    let (first, path) = one(&folder);
    let other = folder.path().join("other");
    fs::write(&other, "5\n").expect("a file");
    let plan = [first, change(other.to_str().expect("UTF-8"), "6")];
    let mut session = Session::begin(open_again(&folder), &plan).expect("a session");
    session.switch([0, 1], true).expect("on");
    fs::write(&path, "77\n").expect("another program");
    let error = session.switch([0], false).expect_err("changed by another");
    assert!(
        matches!(&error, TuneError::Conflict { left, now, .. } if left == "10" && now == "77"),
        "{error}"
    );
    assert!(session.is_on(0));
    let error = session.end().expect_err("changed by another");
    assert!(matches!(error, TuneError::Conflict { .. }), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("it"), "77\n");
    assert_eq!(fs::read_to_string(&other).expect("it"), "5\n");
    let mut journal = open_again(&folder);
    assert_eq!(journal.entries().len(), 1, "{:?}", journal.entries());
    let results = restore(&mut journal, &RestoreRequest::default()).expect("a journal");
    assert!(matches!(&results[0].1, Restored::Conflict(now) if now == "77"));
    restore(&mut journal, &crate::FORCED).expect("restored");
    assert_eq!(fs::read_to_string(&path).expect("it"), "01\n");
}

#[test]
fn a_setting_that_cannot_be_read_begins_no_session_and_one_that_is_gone_ends_it() {
    let folder = TempDir::new().expect("a folder");
    let (first, path) = one(&folder);
    let absent = change("/proc/sys/vm/no_such_setting", "1");
    let error = Session::begin(open_again(&folder), &[first, absent]).expect_err("no such");
    assert!(matches!(error, TuneError::Unreadable { .. }), "{error}");
    assert!(open_again(&folder).entries().is_empty());

    let mut sleeper = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("a process");
    let thread = find_thread(sleeper.id().try_into().expect("a number")).expect("it lives");
    let batch = Change {
        knob: FindingId::IrqThreads.into(),
        setting: Setting::Scheduling { thread },
        value: "3 0 0".to_owned(),
    };
    let (setting, value) = setting_of_file(&path, "10");
    let file = Change {
        knob: FindingId::Ksm.into(),
        setting,
        value,
    };
    let plan = [batch, file];
    let mut session = Session::begin(open_again(&folder), &plan).expect("a session");
    session.switch([0, 1], true).expect("on");
    sleeper.kill().expect("it lives");
    sleeper.wait().expect("it has ended");
    session.switch([0], false).expect("what is gone is off");
    let error = session.switch([0], true).expect_err("it is gone");
    assert!(matches!(error, TuneError::Gone { .. }), "{error}");
    session.end().expect("restored");
    assert_eq!(fs::read_to_string(&path).expect("it"), "01\n");
    assert!(!Journal::is_in(folder.path()));
}
