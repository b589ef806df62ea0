//! `tune` where something goes wrong: files that are no kernel's, values that the kernel changes, rights
//! that are absent, two journals, a reboot.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::needs;
use crate::common::{Ended, Place, need, until};
use crate::tune::{KNOB, bad_knob};
use crate::turn::turn;

fn tune(place: &Place, words: &[&str], state: &str) -> Ended {
    place.run(&[&["tune"], words, &["--state", state]].concat())
}

/// A later boot, as far as the journal knows.
fn reboot(place: &Place, state: &str) {
    let journal = place.path().join(state).join("journal.jsonl");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("it");
    let text = fs::read_to_string(&journal).expect("a journal");
    let text = text.replace(boot.trim(), "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee");
    fs::write(journal, text).expect("written");
}

#[test]
fn a_file_that_keeps_its_content_gets_its_bytes_back_also_after_a_reboot() {
    let place = Place::new();
    let path = place.path().join("setting");
    let setting = |value: &str| format!("{}={value}", path.display());
    for (at, original) in [&b"5\n"[..], b"no newline", b"a\nb\n", b"\xff\x00\x80", b""]
        .iter()
        .enumerate()
    {
        for (again, value) in ["250", "x"].iter().enumerate() {
            fs::write(&path, original).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("ours");
            let state = format!("state-{at}-{again}");
            tune(&place, &["apply", &setting(value)], &state).expect(0);
            assert_eq!(
                fs::read(&path).expect("it"),
                format!("{value}\n").as_bytes()
            );
            if at % 2 == 0 {
                reboot(&place, &state);
            }
            let restored = tune(&place, &["restore"], &state).expect(0).stdout;
            assert!(!restored.contains("reboot"), "{restored}");
            assert_eq!(fs::read(&path).expect("it"), *original, "{restored}");
            let mode = fs::metadata(&path).expect("it").permissions().mode();
            assert_eq!(mode & 0o777, 0o640);
        }
    }
}

#[test]
fn a_value_that_the_kernel_makes_another_one_of_is_refused_with_that_one() {
    need!(needs::root());
    let _turn = turn();
    let place = Place::new();
    let (before, _own) = bad_knob();
    // sysctl reads an octal number.
    let refused = tune(&place, &["apply", "vm.stat_interval=010"], "state").expect(1);
    assert!(
        refused.stderr.contains("the kernel makes `8` of it"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
    let status = tune(&place, &["status"], "state").expect(0).stdout;
    assert!(
        !status.contains("stat_interval"),
        "nothing is left to restore: {status}"
    );
    tune(&place, &["apply", "vm.stat_interval=8"], "state").expect(0);
    tune(&place, &["restore"], "state").expect(0);
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
}

#[test]
fn an_apply_of_which_everything_is_refused_fails_and_says_what_is_needed() {
    need!(needs::root());
    need!(needs::program("setpriv"));
    let _turn = turn();
    let (_before, _own) = bad_knob();
    let place = Place::new();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).expect("ours");
    let as_nobody = |words: &str| {
        let script = format!("exec \"$PUNCTUAL\" tune {words} --state nobody");
        let mut command = Command::new("setpriv");
        command.args([
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "sh",
            "-c",
            &script,
        ]);
        command.env("PUNCTUAL", crate::common::program());
        command.current_dir(place.path()).output().expect("setpriv")
    };
    let refused = as_nobody("apply vmstat-interval");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    // All that is bad, of which nothing can be changed.
    let refused = as_nobody("apply -a 1");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(
        said.ends_with("nothing was changed: run it as root\n"),
        "{said}"
    );
    assert!(refused.stdout.is_empty(), "{refused:?}");
    // Nothing was changed, and the journal says so, also to one who may only read it.
    let status = as_nobody("status");
    let said = String::from_utf8_lossy(&status.stdout);
    assert!(
        status.status.success() && !said.contains("stat_interval"),
        "{status:?}"
    );
}

#[test]
fn a_setting_that_can_never_be_written_leaves_nothing_in_the_journal() {
    need!(needs::root());
    let place = Place::new();
    tune(&place, &["apply", "/proc/uptime=1"], "state").expect(1);
    let status = tune(&place, &["status"], "state").expect(0).stdout;
    assert!(!status.contains("uptime"), "{status}");
    tune(&place, &["restore"], "state").expect(0);
}

#[test]
fn two_directories_do_not_take_each_others_value_for_the_original() {
    need!(needs::root());
    let _turn = turn();
    let place = Place::new();
    let (before, _own) = bad_knob();
    tune(&place, &["apply", "vm.stat_interval=20"], "one").expect(0);
    let refused = tune(&place, &["apply", "vm.stat_interval=30"], "two").expect(1);
    assert!(
        refused.stderr.contains("tune restore --state"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read_to_string(KNOB).expect("it"), "20\n");
    tune(&place, &["restore"], "one").expect(0);
    tune(&place, &["apply", "vm.stat_interval=30"], "two").expect(0);
    tune(&place, &["restore"], "two").expect(0);
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
}

/// The setting gets its original back while the second waits for the journals to be compared.
#[test]
fn the_value_before_is_read_after_the_journals_were_compared() {
    need!(needs::root());
    let place = Place::new();
    let path = |name: &str| place.path().join(name);
    let setting = |name: &str, value: &str| format!("{}={value}", path(name).display());
    fs::write(path("first"), "0\n").expect("written");
    tune(&place, &["apply", &setting("first", "1")], "one").expect(0);
    let list = Path::new("/run/punctual/states");
    let locked = File::open(list).expect("the list of journals");
    locked.lock().expect("locked");
    fs::write(path("second"), "20\n").expect("written");
    let second = setting("second", "30");
    let second = place.start(&["tune", "apply", &second, "--state", "two"]);
    until("it waits for the list", || {
        let files = fs::read_dir(format!("/proc/{}/fd", second.pid()));
        let mut files = files.into_iter().flatten().flatten();
        files.any(|file| fs::read_link(file.path()).is_ok_and(|it| it == list))
    });
    fs::write(path("second"), "5\n").expect("written");
    drop(locked);
    second.end().expect(0);
    assert_eq!(fs::read_to_string(path("second")).expect("it"), "30\n");
    tune(&place, &["restore"], "two").expect(0);
    assert_eq!(fs::read_to_string(path("second")).expect("it"), "5\n");
    tune(&place, &["restore"], "one").expect(0);
}

/// As the unit of `persist` does it.
#[test]
fn a_journal_does_not_grow_with_each_boot() {
    need!(needs::root());
    let _turn = turn();
    let place = Place::new();
    let (before, _own) = bad_knob();
    let lines = || {
        let text = fs::read_to_string(place.path().join("state/journal.jsonl")).expect("it");
        text.lines().count()
    };
    for _ in 0..3 {
        tune(&place, &["apply", "vm.stat_interval=20"], "state").expect(0);
        assert_eq!(lines(), 1);
        reboot(&place, "state");
        fs::write(KNOB, &before).expect("root may");
    }
    tune(&place, &["apply", "vm.stat_interval=20"], "state").expect(0);
    tune(&place, &["restore"], "state").expect(0);
    assert_eq!(fs::read_to_string(KNOB).expect("it"), before);
}

#[test]
fn an_interrupt_that_was_moved_is_moved_again_without_an_error() {
    need!(needs::root());
    need!(needs::cpus(2));
    let _turn = turn();
    let place = Place::new();
    let first = tune(&place, &["apply", "-a", "1", "irq-affinity"], "state");
    let again = tune(&place, &["apply", "-a", "1", "irq-affinity"], "state");
    assert_eq!(again.code(), first.code(), "{}", again.stderr);
    assert_eq!(first.code(), 0, "{}", first.stderr);
    tune(&place, &["restore"], "state").expect(0);
}
