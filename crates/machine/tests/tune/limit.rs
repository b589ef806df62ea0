//! A journal has a largest size: no original is lost to it.

use std::fs;
use std::path::{Path, PathBuf};

use punctual_machine::tune::{
    Journal, RestoreRequest, TuneError, apply, apply_together, restore, status,
};
use punctual_record::finding::FindingId;
use punctual_record::tuning::{Closed, Entry, Restored, Setting};
use tempfile::TempDir;

use crate::needs::{self, need};
use crate::{files, one, open_again, values};

/// As in the journal.
const LIMIT: u64 = 16 << 20;

fn place(folder: &TempDir) -> PathBuf {
    folder.path().join("journal.jsonl")
}

fn length(folder: &TempDir) -> u64 {
    fs::metadata(place(folder)).expect("a journal").len()
}

/// A change of a whole file.
fn entry(path: &Path, original: &str, value: &str) -> Entry {
    Entry {
        boot: "another".to_owned(),
        knob: path.display().to_string(),
        setting: Setting::ConfigFile {
            path: path.display().to_string(),
        },
        original: format!("text:{original}"),
        value: format!("text:{value}"),
        holder: None,
    }
}

/// Adds the change of a file of so many bytes, and that it was restored if it was.
fn line(text: &mut String, number: usize, bytes: usize, is_restored: bool) {
    let path = PathBuf::from(format!("/nowhere/{number}"));
    let entry = entry(&path, &"x".repeat(bytes), "1");
    *text += &(serde_json::to_string(&entry).expect("JSON") + "\n");
    if is_restored {
        let closed = Closed {
            boot: entry.boot,
            restored: entry.setting,
            holder: None,
        };
        *text += &(serde_json::to_string(&closed).expect("JSON") + "\n");
    }
}

/// Fills a journal until exactly so many bytes are left.
fn fill(folder: &TempDir, left: u64, is_restored: bool) {
    let mut text = fs::read_to_string(place(folder)).unwrap_or_default();
    let whole = usize::try_from(LIMIT - left).expect("a size");
    for number in 100.. {
        let mut empty = String::new();
        line(&mut empty, number, 0, is_restored);
        match whole - text.len() {
            0 => break,
            // Room is left for a last one.
            room if room > (1 << 20) + 2000 => line(&mut text, number, 1 << 20, is_restored),
            room => line(&mut text, number, room - empty.len(), is_restored),
        }
    }
    fs::write(place(folder), text).expect("written");
    assert_eq!(length(folder), LIMIT - left);
}

#[test]
fn a_journal_that_is_too_long_is_not_read_in_part() {
    let folder = TempDir::new().expect("a folder");
    let (_, path) = one(&folder);
    fill(&folder, 200, true);
    // The last line is whole, and ends beyond what is read.
    let last = entry(Path::new(&path), "01\n", "10\n");
    let mut text = fs::read_to_string(place(&folder)).expect("a journal");
    text += &(serde_json::to_string(&last).expect("JSON") + &" ".repeat(3000) + "\n");
    assert!(text.len() as u64 > LIMIT);
    fs::write(place(&folder), &text).expect("written");
    for opened in [Journal::open(folder.path()), Journal::look(folder.path())] {
        let error = opened.expect_err("too long").to_string();
        assert!(error.contains("journal.jsonl"), "{error}");
        assert!(
            error.contains("16 MiB") && error.contains("restor"),
            "{error}"
        );
    }
    assert_eq!(fs::read_to_string(place(&folder)).expect("it"), text);
}

#[test]
fn what_was_restored_makes_room() {
    let folder = TempDir::new().expect("a folder");
    let changes = files(folder.path());
    let before = values(&changes);
    fill(&folder, 300, true);
    let mut journal = open_again(&folder);
    apply(&mut journal, &changes).expect("there is room");
    drop(journal);
    assert!(length(&folder) < 10_000, "{}", length(&folder));
    let mut journal = open_again(&folder);
    assert_eq!(journal.entries().len(), changes.len());
    let results = restore(&mut journal, &RestoreRequest::default()).expect("restored");
    assert!(results.iter().all(|it| matches!(it.1, Restored::Written)));
    assert_eq!(values(&changes), before);
}

#[test]
fn without_room_nothing_is_changed() {
    let folder = TempDir::new().expect("a folder");
    let changes = files(folder.path());
    let before = values(&changes);
    fill(&folder, 300, false);
    let text = fs::read(place(&folder)).expect("a journal");
    let mut journal = open_again(&folder);
    let known = journal.entries().len();
    let error = apply(&mut journal, &changes).expect_err("no room");
    let said = error.to_string();
    assert!(
        said.contains("journal.jsonl") && said.contains("16 MiB") && said.contains("restore"),
        "{said}"
    );
    assert_eq!(values(&changes), before);
    assert_eq!(journal.entries().len(), known);
    drop(journal);
    assert!(fs::read(place(&folder)).expect("it") == text, "as it was");
}

#[test]
fn changes_that_belong_together_have_room_for_both_of_their_lines() {
    let folder = TempDir::new().expect("a folder");
    let changes = files(folder.path());
    let before = values(&changes);
    // Room for the first lines, with the process, and not for the second ones.
    fill(&folder, 1000, false);
    let mut journal = open_again(&folder);
    apply_together(&mut journal, &changes).expect_err("no room for both");
    assert_eq!(values(&changes), before);
    assert_eq!(Journal::of_this_process(folder.path()), []);
}

#[test]
fn a_full_journal_takes_what_was_restored() {
    let folder = TempDir::new().expect("a folder");
    let changes = files(folder.path());
    let before = values(&changes);
    let mut journal = open_again(&folder);
    apply(&mut journal, &changes).expect("changed");
    drop(journal);
    fill(&folder, 0, false);
    let mut journal = open_again(&folder);
    let request = RestoreRequest {
        knobs: &[FindingId::VmstatInterval.name().to_owned()],
        ..RestoreRequest::default()
    };
    let results = restore(&mut journal, &request).expect("restored");
    assert_eq!(results.len(), changes.len());
    assert_eq!(values(&changes), before);
    drop(journal);
    let journal = open_again(&folder);
    assert!(length(&folder) < LIMIT);
    assert!(status(&journal).iter().all(|it| it.0.boot == "another"));
}

#[test]
fn another_directorys_journal_that_is_too_long_is_named() {
    need!(needs::root());
    let (folder, other) = (
        TempDir::new().expect("a folder"),
        TempDir::new().expect("a folder"),
    );
    let changes = files(folder.path());
    let before = values(&changes);
    let mut journal = open_again(&other);
    // It is in the list of directories by now.
    let (first, _) = one(&other);
    apply(&mut journal, &[first]).expect("changed");
    drop(journal);
    let mut text = fs::read_to_string(place(&other)).expect("a journal");
    text += &" ".repeat(17 << 20);
    fs::write(place(&other), text).expect("written");
    let error = apply(&mut open_again(&folder), &changes).expect_err("it may have them");
    let other = other.path().display().to_string();
    assert!(error.to_string().contains(&other), "{error}");
    assert!(matches!(error, TuneError::LongJournal { .. }), "{error}");
    assert_eq!(values(&changes), before);
}
