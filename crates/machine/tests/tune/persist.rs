//! Files that make changes again at each boot: written and removed through the journal, whatever
//! happens in between.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use punctual_machine::tune::{
    InForce, Journal, LeftOut, RestoreRequest, TuneError, apply, in_force, persist, restore, status,
};
use punctual_record::finding::FindingId;
use punctual_record::tuning::{Applied, Entry, Setting};
use tempfile::TempDir;

use crate::{FOLDER, child_of, files, open_again, values};

fn knobs() -> [String; 1] {
    [FindingId::VmstatInterval.name().to_owned()]
}

/// Three files, one of which somebody else has written before.
fn places(folder: &Path) -> Vec<PathBuf> {
    ["sysctl.d/a.conf", "multi-user.target.d/b.conf", "theirs"]
        .map(|name| folder.join(name))
        .into()
}

fn texts(folder: &Path, text: Option<&str>) -> Vec<(String, Option<String>)> {
    let places = places(folder).into_iter();
    let one = |place: PathBuf| (place.display().to_string(), text.map(str::to_owned));
    places.map(one).collect()
}

/// All names below a folder with their contents, without the journal.
fn tree(folder: &Path) -> Vec<(PathBuf, Option<String>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.push((path.clone(), None));
            found.extend(tree(&path));
        } else if !path.to_string_lossy().contains("journal") {
            found.push((path.clone(), fs::read_to_string(&path).ok()));
        }
    }
    found.sort();
    found
}

fn begin() -> TempDir {
    let folder = TempDir::new().expect("a folder");
    fs::create_dir(folder.path().join("sysctl.d")).expect("a folder");
    fs::write(folder.path().join("theirs"), "of another\n").expect("a file");
    folder
}

#[test]
fn files_are_installed_shown_and_removed_and_others_are_put_back() {
    let folder = begin();
    let before = tree(folder.path());
    let mut journal = open_again(&folder);
    let written = persist(&mut journal, &texts(folder.path(), Some("1\n")), &knobs());
    assert_eq!(written.expect("written").len(), 3);
    let again = persist(&mut journal, &texts(folder.path(), Some("1\n")), &knobs());
    assert!(again.expect("nothing to do").is_empty());
    // A second time with another text, and one file fewer.
    let mut other = texts(folder.path(), Some("2\n"));
    other[0].1 = None;
    persist(&mut journal, &other, &knobs()).expect("written");
    assert!(!places(folder.path())[0].exists());
    let text = |at: usize| fs::read_to_string(&places(folder.path())[at]).expect("a file");
    assert_eq!((text(1), text(2)), ("2\n".to_owned(), "2\n".to_owned()));
    let shown = status(&journal);
    let ours = shown.iter().filter(|it| matches!(it.1, Applied::Ours(_)));
    assert_eq!(ours.count(), 2, "{shown:?}");
    // They are no settings that could be persisted themselves.
    assert!(in_force(&journal, &[]).kept.is_empty());
    drop(shown);
    // Edited since: left alone, and said.
    fs::write(&places(folder.path())[1], "edited\n").expect("a file");
    let results = restore(&mut journal, &RestoreRequest::default()).expect("a journal");
    assert_eq!(results.iter().filter(|it| !it.1.is_done()).count(), 1);
    assert_eq!(text(1), "edited\n");
    restore(&mut journal, &crate::FORCED).expect("restored");
    assert_eq!(tree(folder.path()), before);
}

#[test]
fn without_the_right_to_one_file_none_is_left_behind() {
    let folder = begin();
    // A folder stands where the second file belongs.
    fs::create_dir_all(&places(folder.path())[1]).expect("a folder");
    let before = tree(folder.path());
    let mut journal = open_again(&folder);
    let error = persist(&mut journal, &texts(folder.path(), Some("1\n")), &knobs());
    let error = error.expect_err("a folder is no file");
    assert!(matches!(error, TuneError::Unreadable { .. }), "{error}");
    assert_eq!(tree(folder.path()), before);
}

#[test]
fn what_apply_changed_is_in_force_until_another_program_changes_it() {
    let folder = TempDir::new().expect("a folder");
    let changes = files(folder.path());
    let mut journal = open_again(&folder);
    apply(&mut journal, &changes).expect("changed");
    let InForce { kept, left_out } = in_force(&journal, &[]);
    assert_eq!((kept.len(), left_out.len()), (3, 0));
    let as_planned = kept.iter().zip(&changes);
    assert!(
        as_planned
            .clone()
            .all(|(a, b)| a.setting == b.setting && a.value == b.value)
    );
    assert!(in_force(&journal, &["ksm".to_owned()]).kept.is_empty());
    fs::write(folder.path().join("two"), "99\n").expect("another program");
    let InForce { kept, left_out } = in_force(&journal, &knobs());
    assert_eq!(kept.len(), 2);
    assert!(
        matches!(left_out[..], [(_, LeftOut::Changed)]),
        "{left_out:?}"
    );
    assert_eq!(values(&changes)[1], "99");
}

#[test]
fn numbers_of_interrupts_and_processes_are_not_made_permanent() {
    let folder = TempDir::new().expect("a folder");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    let timer = fs::read_dir("/proc/irq").expect("interrupts").flatten();
    let timer = timer
        .map(|it| it.path())
        .find(|it| it.is_dir())
        .expect("one");
    let timer = timer.join("smp_affinity_list").display().to_string();
    let own = format!("/proc/{}/oom_score_adj", std::process::id());
    let irq_affinity = FindingId::IrqAffinity.name();
    let all = [
        (timer.as_str(), timer.as_str()),
        (
            "/proc//irq/./default_smp_affinity",
            "/proc//irq/./default_smp_affinity",
        ),
        (irq_affinity, timer.as_str()),
        (own.as_str(), own.as_str()),
    ];
    // As if their values were ours.
    let line = |(knob, path): &(&str, &str)| {
        let setting = Setting::File {
            path: (*path).to_owned(),
        };
        let entry = Entry {
            boot: boot.trim().to_owned(),
            knob: (*knob).to_owned(),
            value: punctual_machine::tune::read(&setting).expect("a value"),
            setting,
            original: "another".to_owned(),
            holder: None,
        };
        serde_json::to_string(&entry).expect("JSON") + "\n"
    };
    let in_force = |lines: &[(&str, &str)]| {
        let text: String = lines.iter().map(line).collect();
        fs::write(folder.path().join("journal.jsonl"), text).expect("written");
        in_force(&Journal::look(folder.path()).expect("a journal"), &[])
    };
    // Of either version of control groups, where they are mounted.
    let group =
        ["cgroup.max.depth", "cpu/notify_on_release"].map(|name| format!("/sys/fs/cgroup/{name}"));
    let group = group
        .iter()
        .find(|it| fs::metadata(it).is_ok())
        .expect("a group");
    let group = group.as_str();
    let InForce { kept, left_out } = in_force(&[all[0], all[1], all[3], (group, group)]);
    let kept: Vec<&str> = kept.iter().map(|it| it.knob.name()).collect();
    assert_eq!(kept, [all[1].0]);
    let left_out: Vec<_> = left_out
        .into_iter()
        .map(|(it, why)| (it.knob, why))
        .collect();
    assert_eq!(
        left_out,
        [
            (timer.clone(), LeftOut::OfInterrupt),
            (own.clone(), LeftOut::OfThread),
            (group.to_owned(), LeftOut::OfGroup)
        ]
    );
    // The knob finds the interrupts anew at each boot.
    let InForce { kept, left_out } = in_force(&all[2..3]);
    assert_eq!((kept.len(), left_out.len()), (1, 0), "{left_out:?}");
}

#[test]
#[ignore = "a helper of another test, which is killed"]
fn child_persists() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let mut journal = Journal::open(folder).expect("a journal");
    for round in 0_u32.. {
        let text = format!("{round}\n");
        persist(&mut journal, &texts(folder, Some(&text)), &knobs()).expect("written");
        if round % 3 == 2 {
            persist(&mut journal, &texts(folder, None), &knobs()).expect("removed");
        }
    }
}

#[test]
fn after_a_kill_at_any_instant_no_file_of_ours_is_left() {
    const KILLS: u32 = 200;
    let folder = begin();
    let before = tree(folder.path());
    let mut changed = 0;
    for kill in 0..KILLS {
        let mut child = child_of("persist::child_persists", folder.path());
        while kill % 3 != 0 && tree(folder.path()) == before {
            std::thread::yield_now();
        }
        std::thread::sleep(Duration::from_micros(u64::from(kill * 7919 % 9000)));
        child.kill().expect("it runs");
        child.wait().expect("it has ended");
        changed += u32::from(tree(folder.path()) != before);
        let results = restore(&mut open_again(&folder), &RestoreRequest::default());
        let results = results.expect("restored");
        assert!(results.iter().all(|(_, it)| it.is_done()), "{results:?}");
        assert_eq!(tree(folder.path()), before, "after kill {kill}");
    }
    println!("killed with files installed: {changed} of {KILLS}");
    assert!(changed > KILLS / 3);
}
