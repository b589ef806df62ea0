//! Settings are changed and restored, whatever happens in between.
#![expect(
    clippy::print_stdout,
    reason = "tests say what they skipped and counted"
)]

#[path = "../../../punctual/tests/common/needs.rs"]
mod needs;

mod boot;
mod boot_kills;
mod cpuset_v1;
mod knobs;
mod limit;
mod own_files;
mod partition;
mod persist;
mod session;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use punctual_machine::tune::{
    Journal, RestoreRequest, TuneError, apply, apply_accepted, apply_together, find_thread,
    is_same, read, restore, setting_of_file, status, write,
};
use punctual_record::finding::FindingId;
use punctual_record::tuning::{Applied, Change, Restored, Setting};
use tempfile::TempDir;

use needs::{Absent, need, skip};
use turn::turn;

mod turn;

/// Where a child of [`child_changes_or_restores`] keeps its journal; whether it restores.
const FOLDER: &str = "PUNCTUAL_TEST_JOURNAL";
const RESTORES: &str = "PUNCTUAL_TEST_RESTORES";
/// Where its files are, if it changes nothing else.
const SETTINGS: &str = "PUNCTUAL_TEST_SETTINGS";

const FORCED: RestoreRequest<'_> = RestoreRequest {
    knobs: &[],
    force: true,
    dry_run: false,
};

fn change(path: &str, value: &str) -> Change {
    let (setting, value) = setting_of_file(path, value);
    Change {
        knob: FindingId::VmstatInterval.into(),
        setting,
        value,
    }
}

/// Files that behave as settings.
fn files(folder: &Path) -> Vec<Change> {
    let mut changes = Vec::new();
    for (name, original, value) in [("one", "11", "10"), ("two", "0", "7"), ("three", "a", "b")] {
        let path = folder.join(name);
        if !path.exists() {
            fs::write(&path, format!("{original}\n")).expect("a file");
        }
        changes.push(change(path.to_str().expect("UTF-8"), value));
    }
    changes
}

/// Settings of this machine that may be changed for a moment, or, without the right to, files.
fn changes(folder: &Path) -> Vec<Change> {
    let mut changes = files(folder);
    if !punctual_rt::sys::file::effective_user().eq(&0) {
        return changes;
    }
    changes.push(change("/proc/sys/vm/stat_interval", "9"));
    changes.push(change("/proc/sys/vm/dirty_background_bytes", "268435456"));
    changes.push(change(
        "/sys/kernel/mm/transparent_hugepage/defrag",
        "never",
    ));
    let threads = fs::read_dir("/proc").expect("proc").flatten();
    let softirq = threads
        .filter_map(|it| it.file_name().to_str()?.parse().ok())
        .filter_map(|tid| find_thread(tid).ok())
        .find(|thread| thread.name == "ksoftirqd/0");
    changes.extend(softirq.map(|thread| Change {
        knob: FindingId::SoftirqThreads.into(),
        setting: Setting::Scheduling { thread },
        value: "1 2 0".to_owned(),
    }));
    // What this machine lacks is left out.
    changes.retain(|change| read(&change.setting).is_ok());
    changes
}

fn values(changes: &[Change]) -> Vec<String> {
    let value = |change: &Change| read(&change.setting).expect("it was read before");
    changes.iter().map(value).collect()
}

fn child(journal: &Path, restores: bool) -> Child {
    let mut command = helper("child_changes_or_restores", journal);
    if restores {
        command.env(RESTORES, "1");
    }
    command.spawn().expect("a child")
}

fn child_of(test: &str, journal: &Path) -> Child {
    helper(test, journal).spawn().expect("a child")
}

/// xorshift: each instant of a child's life is as likely.
struct Random(u32);

impl Random {
    fn part_of(&mut self, length: Duration) -> Duration {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        length.mul_f64(f64::from(self.0 % 1000) / 1000.0)
    }
}

fn helper(test: &str, journal: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .args(["--exact", test, "--ignored"])
        .env(FOLDER, journal)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command
}

#[test]
#[ignore = "a helper of another test, which is killed"]
fn child_changes_or_restores() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let mut journal = Journal::open(folder).expect("a journal");
    if std::env::var_os(RESTORES).is_some() {
        restore(&mut journal, &RestoreRequest::default()).expect("restored");
    } else {
        let changes = match std::env::var_os(SETTINGS) {
            Some(settings) => files(Path::new(&settings)),
            None => changes(folder),
        };
        if let Err(error) = apply(&mut journal, &changes) {
            panic!("{error}");
        }
    }
}

/// Kills a child after a part of the time that it takes.
fn kill_after(mut child: Child, length: Duration) {
    std::thread::sleep(length);
    let _ = child.kill();
    child.wait().expect("it has ended");
}

/// How often a test kills: 250 times, or as often as PUNCTUAL_TEST_KILLS says. What goes wrong after
/// one kill in 83 is found with 95 % by 250 kills; 1,000 find one in 334.
fn kills() -> u32 {
    let asked = std::env::var("PUNCTUAL_TEST_KILLS").ok();
    asked.map_or(250, |kills| kills.parse().expect("a number of kills"))
}

#[test]
fn after_a_kill_at_any_instant_everything_is_restored() {
    let _turn = turn();
    let folder = TempDir::new().expect("a folder");
    let changes = changes(folder.path());
    let before = values(&changes);
    let begin = Instant::now();
    child(folder.path(), false).wait().expect("it ends");
    let whole = begin.elapsed();
    assert_ne!(values(&changes), before, "it changes all of them");
    let undo = || {
        let mut journal = open_again(&folder);
        restore(&mut journal, &RestoreRequest::default()).expect("restored")
    };
    undo();
    let mut random = Random(0x9e37_79b9);
    let (mut unchanged, mut partly, mut all) = (0, 0, 0);
    for kill in 0..kills() {
        kill_after(
            child(folder.path(), false),
            random.part_of(whole.mul_f64(1.2)),
        );
        let now = values(&changes);
        let differ = now.iter().zip(&before).filter(|(a, b)| a != b).count();
        match differ {
            0 => unchanged += 1,
            n if n == before.len() => all += 1,
            _ => partly += 1,
        }
        if kill % 2 == 0 {
            kill_after(
                child(folder.path(), true),
                random.part_of(whole.mul_f64(1.2)),
            );
        }
        let results = undo();
        assert!(results.iter().all(|(_, it)| it.is_done()), "{results:?}");
        assert_eq!(values(&changes), before, "after kill {kill}");
        assert!(undo().is_empty(), "nothing is left");
    }
    println!("killed before any change {unchanged}, in between {partly}, after all {all}");
    assert!(unchanged > 0 && all > 0, "{unchanged} {partly} {all}");
}

fn one(folder: &TempDir) -> (Change, String) {
    let path = folder.path().join("knob");
    fs::write(&path, "01\n").expect("a file");
    let path = path.to_str().expect("UTF-8").to_owned();
    (change(&path, "10"), path)
}

/// Opens a journal that was just closed. A process that another test starts has a copy of its
/// file, and so its lock, until it runs its program.
fn open_again(folder: &TempDir) -> Journal {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match Journal::open(folder.path()) {
            Err(TuneError::Locked { .. }) if Instant::now() < end => std::thread::yield_now(),
            opened => return opened.expect("a journal"),
        }
    }
}

/// Does what executes a file that was just written. A process that another test starts has a copy
/// of the open file until it runs its program, and the kernel refuses to execute it (ETXTBSY).
fn retry_busy(act: impl Fn() -> Result<(), TuneError>) -> Result<(), TuneError> {
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        match act() {
            Err(error) if error.to_string().contains("busy") && Instant::now() < end => {
                std::thread::yield_now();
            }
            other => return other,
        }
    }
}

#[test]
fn two_changes_and_one_restore_give_the_first_original() {
    let folder = TempDir::new().expect("a folder");
    let (first, path) = one(&folder);
    let mut journal = Journal::open(folder.path()).expect("a journal");
    apply(&mut journal, std::slice::from_ref(&first)).expect("changed");
    assert!(
        apply(&mut journal, &[first])
            .expect("nothing to do")
            .is_empty()
    );
    apply(&mut journal, &[change(&path, "20")]).expect("changed");
    assert_eq!(fs::read_to_string(&path).expect("it"), "20\n");
    drop(journal);
    let mut journal = open_again(&folder);
    assert_eq!(journal.entries().len(), 1);
    let results = restore(&mut journal, &RestoreRequest::default()).expect("restored");
    assert!(matches!(results[0].1, Restored::Written));
    assert_eq!(fs::read_to_string(&path).expect("it"), "01\n");
}

#[test]
fn a_second_change_that_was_killed_before_it_was_made_is_restored() {
    let folder = TempDir::new().expect("a folder");
    let (first, path) = one(&folder);
    let mut journal = Journal::open(folder.path()).expect("a journal");
    apply(&mut journal, &[first]).expect("changed");
    apply(&mut journal, &[change(&path, "20")]).expect("changed");
    // As if the kill came between the journal and the write.
    fs::write(&path, "10\n").expect("a file");
    assert!(matches!(status(&journal)[0].1, Applied::Ours(_)));
    let results = restore(&mut journal, &RestoreRequest::default()).expect("restored");
    assert!(matches!(results[0].1, Restored::Written), "{results:?}");
    assert_eq!(fs::read_to_string(&path).expect("it"), "01\n");
}

#[test]
fn a_restore_of_one_knob_leaves_the_others_changed() {
    let folder = TempDir::new().expect("a folder");
    let (first, path) = one(&folder);
    let other_path = folder.path().join("other");
    fs::write(&other_path, "5\n").expect("a file");
    let mut other = change(other_path.to_str().expect("UTF-8"), "6");
    other.knob = FindingId::Ksm.into();
    let mut journal = Journal::open(folder.path()).expect("a journal");
    apply(&mut journal, &[first, other]).expect("changed");
    let request = RestoreRequest {
        knobs: &[FindingId::Ksm.name().to_owned()],
        ..RestoreRequest::default()
    };
    let results = restore(&mut journal, &request).expect("restored");
    assert_eq!(results.len(), 1);
    assert_eq!(fs::read_to_string(&other_path).expect("it"), "5\n");
    assert_eq!(fs::read_to_string(&path).expect("it"), "10\n");
    drop(journal);
    let mut journal = open_again(&folder);
    assert_eq!(journal.entries().len(), 1, "{:?}", journal.entries());
    assert!(
        restore(&mut journal, &request)
            .expect("restored")
            .is_empty()
    );
    restore(&mut journal, &RestoreRequest::default()).expect("restored");
    assert_eq!(fs::read_to_string(&path).expect("it"), "01\n");
    assert!(!Journal::is_in(folder.path()), "nothing is changed");
}

#[test]
fn changes_that_belong_together_are_the_processs_own_until_all_of_them_are_made() {
    let folder = TempDir::new().expect("a folder");
    let (change, path) = one(&folder);
    let before = fs::read_to_string(&path).expect("it");
    let mut journal = Journal::open(folder.path()).expect("a journal");
    // One that no kernel takes: a folder can't be written.
    let impossible = Change {
        setting: Setting::File {
            path: "/proc/uptime".to_owned(),
        },
        ..change.clone()
    };
    let both = [change.clone(), impossible];
    apply_together(&mut journal, &both).expect_err("it can't be written");
    let left = Journal::of_this_process(folder.path());
    assert!(
        left.iter().any(|entry| entry.setting == change.setting),
        "{left:?}"
    );
    restore(&mut journal, &RestoreRequest::default()).expect("a journal");
    assert_eq!(fs::read_to_string(&path).expect("it"), before);
    let folder = TempDir::new().expect("a folder");
    let mut journal = Journal::open(folder.path()).expect("a journal");
    apply_together(&mut journal, &[change]).expect("changed");
    assert_ne!(fs::read_to_string(&path).expect("it"), before);
    assert_eq!(Journal::of_this_process(folder.path()), []);
    restore(&mut journal, &RestoreRequest::default()).expect("restored");
    assert_eq!(fs::read_to_string(&path).expect("it"), before);
}

#[test]
fn what_another_program_changed_is_left_alone_unless_forced() {
    let folder = TempDir::new().expect("a folder");
    let (change, path) = one(&folder);
    let mut journal = Journal::open(folder.path()).expect("a journal");
    apply(&mut journal, &[change]).expect("changed");
    fs::write(&path, "05\n").expect("another program");
    assert!(matches!(&status(&journal)[0].1, Applied::Changed(now) if now == "05"));
    let results = restore(&mut journal, &RestoreRequest::default()).expect("a journal");
    assert!(matches!(&results[0].1, Restored::Conflict(now) if now == "05"));
    assert_eq!(fs::read_to_string(&path).expect("it"), "05\n");
    restore(
        &mut journal,
        &RestoreRequest {
            dry_run: true,
            ..FORCED
        },
    )
    .expect("a dry run");
    assert_eq!(fs::read_to_string(&path).expect("it"), "05\n");
    restore(&mut journal, &FORCED).expect("forced");
    assert_eq!(fs::read_to_string(&path).expect("it"), "01\n");
}

#[test]
fn a_file_and_a_thread_that_are_gone_are_reported_and_end_the_journal() {
    let folder = TempDir::new().expect("a folder");
    let (change, path) = one(&folder);
    let mut sleeper = Command::new("sleep").arg("60").spawn().expect("a process");
    let tid = i32::try_from(sleeper.id()).expect("a process id");
    let batch = Change {
        knob: FindingId::IrqThreads.into(),
        setting: Setting::Scheduling {
            thread: find_thread(tid).expect("it lives"),
        },
        value: "3 0 0".to_owned(),
    };
    let mut journal = Journal::open(folder.path()).expect("a journal");
    apply(&mut journal, &[change, batch]).expect("changed");
    let second = Journal::open(folder.path()).expect_err("locked");
    assert!(matches!(second, TuneError::Locked { .. }), "{second}");
    fs::remove_file(&path).expect("removed");
    sleeper.kill().expect("killed");
    sleeper.wait().expect("it has ended");
    let results = restore(&mut journal, &RestoreRequest::default()).expect("a journal");
    assert!(
        results.iter().all(|(_, it)| matches!(it, Restored::Gone)),
        "{results:?}"
    );
    drop(journal);
    assert!(
        Journal::open(folder.path())
            .expect("a new one")
            .entries()
            .is_empty()
    );
}

#[test]
fn a_reboot_undoes_changes_and_nothing_is_written() {
    let folder = TempDir::new().expect("a folder");
    let (change, path) = one(&folder);
    let mut journal = Journal::open(folder.path()).expect("a journal");
    apply(&mut journal, &[change]).expect("changed");
    drop(journal);
    let file = folder.path().join("journal.jsonl");
    let text = fs::read_to_string(&file).expect("a journal");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("a boot");
    fs::write(&file, text.replace(boot.trim(), "another-boot")).expect("written");
    let mut journal = open_again(&folder);
    let results = restore(&mut journal, &RestoreRequest::default()).expect("a journal");
    assert!(matches!(results[0].1, Restored::Rebooted));
    assert_eq!(fs::read_to_string(&path).expect("it"), "10\n");
}

#[test]
fn a_torn_last_line_is_no_change_and_a_damaged_one_is_an_error() {
    let folder = TempDir::new().expect("a folder");
    let (change, path) = one(&folder);
    let mut journal = Journal::open(folder.path()).expect("a journal");
    apply(&mut journal, std::slice::from_ref(&change)).expect("changed");
    drop(journal);
    let file = folder.path().join("journal.jsonl");
    let whole = fs::read_to_string(&file).expect("a journal");
    for cut in 1..whole.len() - 1 {
        fs::write(&path, "01\n").expect("a file");
        fs::write(&file, &whole[..cut]).expect("written");
        let mut journal = open_again(&folder);
        assert!(journal.entries().is_empty(), "{cut}");
        // What comes after a torn line is whole.
        apply(&mut journal, std::slice::from_ref(&change)).expect("changed");
        drop(journal);
        let mut journal = open_again(&folder);
        assert_eq!(journal.entries().len(), 1, "{cut}");
        restore(&mut journal, &RestoreRequest::default()).expect("restored");
        assert_eq!(fs::read_to_string(&path).expect("it"), "01\n");
    }
    fs::write(&file, format!("{{\"boot\":7}}\n{whole}")).expect("written");
    let error = loop {
        match Journal::open(folder.path()) {
            Err(TuneError::Locked { .. }) => std::thread::yield_now(),
            opened => break opened.expect_err("damaged"),
        }
    };
    assert!(
        matches!(error, TuneError::Malformed { line: 1, .. }),
        "{error}"
    );
}

#[test]
fn on_a_full_disk_nothing_is_changed() {
    need!(needs::mounts());
    let _turn = turn();
    let folder = TempDir::new().expect("a folder");
    let full = folder.path().join("full");
    fs::create_dir(&full).expect("a folder");
    let script = "mount -t tmpfs -o size=4k none \"$PUNCTUAL_TEST_JOURNAL\" || exit 77
        head -c 8192 /dev/zero > \"$PUNCTUAL_TEST_JOURNAL/fill\" 2> /dev/null
        exec \"$0\" --exact child_changes_or_restores --ignored";
    let before = values(&files(folder.path()));
    let ended = Command::new("unshare")
        .args(["-m", "sh", "-c", script])
        .arg(std::env::current_exe().expect("this program"))
        .env(FOLDER, &full)
        .env(SETTINGS, folder.path())
        .output();
    let ended = ended.expect("unshare runs");
    assert_ne!(ended.status.code(), Some(77), "the mount failed: {ended:?}");
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        said.contains("no space left on device: the journal"),
        "{ended:?}"
    );
    assert_eq!(values(&files(folder.path())), before);
}

#[test]
fn a_setting_that_cannot_be_read_changes_no_other() {
    let folder = TempDir::new().expect("a folder");
    let (first, path) = one(&folder);
    let mut journal = Journal::open(folder.path()).expect("a journal");
    let absent = change("/proc/sys/vm/no_such_setting", "1");
    let error = apply(&mut journal, &[first, absent]).expect_err("no such setting");
    assert!(
        error
            .to_string()
            .contains("/proc/sys/vm/no_such_setting can't be read"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&path).expect("it"), "01\n");
    assert!(journal.entries().is_empty());
}

#[test]
fn values_that_are_the_same_to_the_kernel_are_the_same() {
    let file = |path: &str| Setting::File {
        path: path.to_owned(),
    };
    let mask = file("/proc/irq/default_smp_affinity");
    assert!(is_same(&mask, "1", "00000001") && !is_same(&mask, "1", "3"));
    let list = file("/proc/irq/9/smp_affinity_list");
    assert!(is_same(&list, "0,1", "0-1") && !is_same(&list, "0", "0-1"));
    let number = file("/proc/sys/vm/stat_interval");
    assert!(is_same(&number, "10", "010") && !is_same(&number, "1", "10"));
    let printk = file("/proc/sys/kernel/printk");
    assert!(is_same(&printk, "1\t4\t1\t7", "1") && !is_same(&printk, "4 4 1 7", "1"));
    let word = file("/sys/kernel/mm/ksm/run");
    assert!(!is_same(&word, "never", "always") && is_same(&word, "never", "never"));
}

#[test]
fn a_value_that_is_accepted_without_effect_is_an_error() {
    // The clock source takes any name and ignores an unknown one.
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let (setting, value) = setting_of_file(path, "no-such-clock");
    if fs::OpenOptions::new().write(true).open(path).is_err() {
        skip!(Absent::right(format!("{path}, to be written")));
    }
    let before = read(&setting).expect("a clock");
    let error = write(&setting, &value).expect_err("no such clock");
    assert!(error.to_string().contains("without effect") || error.raw_os_error().is_some());
    assert_eq!(read(&setting).expect("a clock"), before);
}

/// One that can't be written at all: its file is for reading only.
#[test]
fn what_the_kernel_refuses_ends_the_changes_or_is_passed_over() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("knob");
    fs::write(&file, "1\n").expect("a file");
    let change = |path: &str, value: &str| Change {
        knob: FindingId::Ksm.into(),
        setting: Setting::File {
            path: path.to_owned(),
        },
        value: value.to_owned(),
    };
    let path = file.to_str().expect("a path");
    let changes = [change("/proc/version", "other"), change(path, "2")];
    let mut journal = Journal::open(&folder.path().join("state")).expect("a journal");
    let error = apply(&mut journal, &changes).expect_err("it is refused");
    assert!(matches!(error, TuneError::Refused { .. }), "{error}");
    assert_eq!(fs::read_to_string(&file).expect("it"), "1\n");
    let (changed, refused) = apply_accepted(&mut journal, &changes).expect("the other is made");
    assert_eq!((changed.len(), refused.len()), (1, 1));
    assert_eq!(changed[0], &changes[1]);
    assert_eq!(fs::read_to_string(&file).expect("it"), "2\n");
    let results = restore(&mut journal, &RestoreRequest::default()).expect("restored");
    assert!(results.iter().all(|(_, it)| it.is_done()), "{results:?}");
    assert_eq!(fs::read_to_string(&file).expect("it"), "1\n");
}
