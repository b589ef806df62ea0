//! Steers interrupts and restores them: those of this machine, and simulated ones.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::needs::{Absent, need, skip};
use punctual_rt::irq::{Change, Interrupts};

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join("irq")
        .join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

fn made_up(name: &str) -> (PathBuf, Interrupts) {
    let folder = folder(name);
    for (irq, cpus) in [("1", "0-3\n"), ("9", "2\n"), ("40", "0-1,3\n")] {
        fs::create_dir_all(folder.join(irq)).expect("a folder");
        fs::write(folder.join(irq).join("smp_affinity_list"), cpus).expect("written");
    }
    fs::create_dir_all(folder.join("77")).expect("a folder without an affinity");
    fs::write(folder.join("default_smp_affinity"), "f\n").expect("written");
    let interrupts = Interrupts::at(&folder);
    (folder, interrupts)
}

#[test]
fn all_interrupts_are_steered_and_restored() {
    let (folder, interrupts) = made_up("all");
    let journal = folder.join("journal");
    let done = interrupts.steer(&[], &[0, 1], &journal).expect("steered");
    assert_eq!(done.changed, [1, 9, 40]);
    assert!(done.skipped.is_empty());
    assert_eq!(interrupts.affinity(9).expect("read"), "0,1");
    // A second change keeps the journal of the first.
    interrupts.steer(&[9], &[3], &journal).expect("steered");
    let plan = interrupts.preview(&journal).expect("a journal");
    let back = |change: &Change| (change.irq, change.now.clone(), change.then.clone());
    let of = |irq, now: &str, then: &str| (irq, now.to_owned(), then.to_owned());
    assert_eq!(
        plan.changes.iter().map(back).collect::<Vec<_>>(),
        [
            of(None, "00000003", "f"),
            of(Some(1), "0,1", "0-3"),
            of(Some(9), "3", "2"),
            of(Some(40), "0,1", "0-1,3"),
        ]
    );
    let back = interrupts.restore(&journal).expect("restored");
    assert_eq!(back.changed, [1, 9, 40]);
    assert_eq!(interrupts.affinity(9).expect("read"), "2");
    assert_eq!(interrupts.affinity(40).expect("read"), "0-1,3");
    let default = fs::read_to_string(folder.join("default_smp_affinity")).expect("read");
    assert_eq!(default.trim(), "f");
    assert!(!journal.exists());
    assert_eq!(
        interrupts.restore(&journal).expect("again"),
        Default::default()
    );
}

/// The oracle is the steering itself: exactly the files that change were predicted.
#[test]
fn preview_steer_predicts_steering_and_changes_nothing() {
    let (folder, interrupts) = made_up("foretold");
    let files = || -> Vec<String> {
        let names = ["1", "9", "40"].map(|irq| format!("{irq}/smp_affinity_list"));
        let names = names.into_iter().chain(["default_smp_affinity".to_owned()]);
        names
            .map(|name| fs::read_to_string(folder.join(name)).expect("read"))
            .collect()
    };
    fs::write(folder.join("9/smp_affinity_list"), "0\n").expect("written");
    let before = files();
    let plan = interrupts.preview_steer(&[], &[0]).expect("a plan");
    assert_eq!(files(), before);
    let named: Vec<_> = plan.changes.iter().map(|change| change.irq).collect();
    assert_eq!(named, [None, Some(1), Some(40)]);
    assert!(plan.skipped.is_empty());
    interrupts
        .steer(&[], &[0], &folder.join("journal"))
        .expect("steered");
    let after = files();
    for (at, irq) in [Some(1), Some(9), Some(40), None].into_iter().enumerate() {
        let change = plan.changes.iter().find(|change| change.irq == irq);
        assert_eq!(change.is_some(), before[at].trim() != after[at].trim());
        if let Some(change) = change {
            assert_eq!(
                (&*change.now, &*change.then),
                (before[at].trim(), &*after[at])
            );
        }
    }
    // They are steered there already, so nothing changes.
    let plan = interrupts.preview_steer(&[1, 9, 40], &[0]).expect("a plan");
    assert!(plan.changes.is_empty() && plan.skipped.is_empty());
    let plan = interrupts.preview_steer(&[1, 1000], &[0]).expect("a plan");
    assert_eq!(plan.skipped.len(), 1);
    assert_eq!(plan.skipped[0].irq, Some(1000));
    for onto in [&[][..], &[8191]] {
        let refused = interrupts.preview_steer(&[], onto).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EINVAL));
    }
}

#[test]
fn preview_steer_skips_an_interrupt_that_the_kernel_manages() {
    use std::os::unix::fs::PermissionsExt;
    let (folder, interrupts) = made_up("managed");
    let file = folder.join("9/smp_affinity_list");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).expect("a mode");
    let plan = interrupts.preview_steer(&[1, 9], &[0]).expect("a plan");
    assert_eq!(plan.changes.len(), 1);
    assert_eq!(plan.skipped[0].irq, Some(9));
    assert!(plan.skipped[0].reason.contains("the kernel manages it"));
}

#[test]
fn restore_lists_an_interrupt_that_no_longer_exists() {
    let (folder, interrupts) = made_up("gone");
    let journal = folder.join("journal");
    interrupts
        .steer(&[9, 40, 1000], &[0], &journal)
        .expect("steered");
    fs::remove_dir_all(folder.join("40")).expect("removed");
    let back = interrupts.restore(&journal).expect("restored");
    assert_eq!(back.changed, [9]);
    assert_eq!(back.skipped.len(), 1);
    assert_eq!(back.skipped[0].irq, Some(40));
    assert!(!journal.exists());
}

#[test]
fn a_planted_link_is_not_written_through() {
    let (folder, interrupts) = made_up("planted");
    let journal = folder.join("journal");
    let victim = folder.join("victim");
    fs::write(&victim, "precious").expect("a file");
    for planted in ["journal.new", "journal"] {
        std::os::unix::fs::symlink(&victim, folder.join(planted)).expect("a link");
    }
    // The journal is read first, and this file isn't one.
    assert!(interrupts.steer(&[9], &[0], &journal).is_err());
    fs::remove_file(&journal).expect("the link");
    interrupts.steer(&[9], &[0], &journal).expect("steered");
    let found = fs::symlink_metadata(&journal).expect("a journal");
    assert!(found.is_file());
    let victim = fs::read_to_string(&victim).expect("it");
    assert_eq!(victim, "precious");
    interrupts.restore(&journal).expect("restored");
}

#[test]
fn an_unusable_journal_is_refused_and_nothing_changes() {
    let (folder, interrupts) = made_up("no-journal");
    let nowhere = folder.join("no/such/folder/journal");
    assert!(interrupts.steer(&[9], &[0], &nowhere).is_err());
    assert_eq!(interrupts.affinity(9).expect("read"), "2");
    let rubbish = folder.join("rubbish");
    fs::write(&rubbish, "rubbish").expect("written");
    assert!(interrupts.steer(&[9], &[0], &rubbish).is_err());
    assert!(interrupts.restore(&rubbish).is_err());
    assert_eq!(interrupts.affinity(9).expect("read"), "2");
    assert!(
        interrupts
            .steer(&[9], &[], &folder.join("journal"))
            .is_err()
    );
}

/// The kernel refuses a CPU that doesn't exist at this interrupt, after others were changed.
#[test]
fn a_refused_steering_is_reverted_completely() {
    let (folder, interrupts) = made_up("refused");
    let journal = folder.join("journal");
    // A file of the kernel that returns EINVAL for a list.
    let refusing = folder.join("40/smp_affinity_list");
    fs::remove_file(&refusing).expect("removed");
    std::os::unix::fs::symlink("/proc/self/oom_score_adj", &refusing).expect("a link");
    let refused = |onto: &[usize]| {
        let error = interrupts.steer(&[1, 9, 40], onto, &journal).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    };
    refused(&[0, 1]);
    assert!(!journal.exists());
    assert_eq!(interrupts.affinity(1).expect("read"), "0-3");
    assert_eq!(interrupts.affinity(9).expect("read"), "2");
    // An existing journal stays unchanged, with the values from before it.
    interrupts.steer(&[9], &[3], &journal).expect("steered");
    let before = fs::read_to_string(&journal).expect("a journal");
    refused(&[0, 1]);
    assert_eq!(fs::read_to_string(&journal).expect("a journal"), before);
    assert_eq!(interrupts.affinity(9).expect("read"), "3");
    assert_eq!(interrupts.restore(&journal).expect("back").changed, [9]);
    // Nothing was changed, so nothing needs restoring.
    let done = interrupts.steer(&[1000], &[0], &journal).expect("skipped");
    assert_eq!((done.changed.len(), done.skipped.len()), (0, 1));
    assert!(!journal.exists());
}

/// Memory is bounded by the largest possible journal, whatever file is given.
#[test]
fn a_file_above_the_size_limit_of_a_journal_is_refused() {
    let folder = folder("endless");
    let journal = folder.join("journal");
    let made = fs::File::create(&journal).and_then(|file| file.set_len(1 << 40));
    made.expect("a file of holes");
    let interrupts = Interrupts::at(&folder);
    let kind = |error: std::io::Error| error.kind();
    let refused = std::io::ErrorKind::InvalidData;
    assert_eq!(kind(interrupts.restore(&journal).unwrap_err()), refused);
    assert_eq!(kind(interrupts.preview(&journal).unwrap_err()), refused);
    assert!(journal.exists());
    fs::remove_file(&journal).expect("removed");
    let path = std::ffi::CString::new(journal.as_os_str().as_bytes()).expect("a path");
    // SAFETY: a C string that lives through the call.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
    // The FIFO has no writer, and reading it doesn't block.
    assert_eq!(kind(interrupts.restore(&journal).unwrap_err()), refused);
    fs::remove_file(&journal).expect("removed");
}

/// Changes the real interrupts for a moment.
#[test]
fn interrupts_of_this_machine_are_steered_and_restored() {
    need!(crate::needs::root());
    let interrupts = Interrupts::of_this_machine();
    let numbers = match interrupts.numbers() {
        Ok(numbers) if !numbers.is_empty() => numbers,
        _ => skip!(Absent::kernel("interrupts in /proc/irq")),
    };
    let before: Vec<_> = numbers
        .iter()
        .map(|&irq| interrupts.affinity(irq).ok())
        .collect();
    let journal = folder("machine").join("journal");
    let absent = interrupts.steer(&numbers[..1], &[8000], &journal);
    let done = interrupts.steer(&numbers, &[0], &journal);
    let steered: Vec<_> = numbers
        .iter()
        .map(|&irq| interrupts.affinity(irq).ok())
        .collect();
    // As if the first process had been killed: another one restores, from the journal alone.
    let back = Interrupts::of_this_machine()
        .restore(&journal)
        .expect("restored");
    let after: Vec<_> = numbers
        .iter()
        .map(|&irq| interrupts.affinity(irq).ok())
        .collect();
    assert_eq!(before, after);
    assert!(!journal.exists());
    let done = done.expect("steered");
    assert_eq!(done.changed.len() + done.skipped.len(), numbers.len());
    for (irq, now) in numbers.iter().zip(&steered) {
        if done.changed.contains(irq) {
            assert_eq!(now.as_deref(), Some("0"), "{irq}");
        }
    }
    assert!(back.skipped.is_empty(), "{back:?}");
    match absent {
        Err(error) => assert!(matches!(
            error.raw_os_error(),
            Some(libc::EOVERFLOW | libc::EINVAL)
        )),
        Ok(outcome) => assert!(outcome.changed.is_empty(), "{outcome:?}"),
    }
    println!(
        "{} changed, {} skipped",
        done.changed.len(),
        done.skipped.len()
    );
}
