//! `punctual watch` of several programs, which come and go.

use crate::several;
use punctual_report::facts;
use std::fs;

use crate::common::{Place, need, until};

#[test]
fn a_tree_of_three_programs_is_followed_and_each_cycle_counted() {
    needed!();
    several::a_tree_is_followed();
}

#[test]
fn programs_with_a_name_are_followed_whenever_they_start() {
    needed!();
    several::programs_of_a_name_are_followed();
}

#[test]
fn programs_that_join_a_control_group_are_counted_until_they_leave_it() {
    needed!();
    need!(several::programs_that_join_and_leave_a_group_are_followed());
}

#[test]
fn children_that_are_not_followed_are_counted() {
    needed!();
    let place = Place::new();
    let mut sh = std::process::Command::new("sh")
        .args(["-c", "sleep 60 & sleep 60 & wait"])
        .spawn()
        .expect("a shell");
    let task = format!("/proc/{0}/task/{0}/children", sh.id());
    let count = || fs::read_to_string(&task).map_or(2, |text| text.split_whitespace().count());
    until("its children", || count() == 2);
    let number = sh.id().to_string();
    let ended = place.run(&["watch", &number, "-v", "-D", "300ms", "--deadline", "1ms"]);
    let children = fs::read_to_string(&task).unwrap_or_default();
    for pid in children.split_whitespace() {
        // SAFETY: kill takes two integers; the shell has not reaped its child, so the number is its
        // own.
        unsafe { libc::kill(pid.parse().expect("a number"), libc::SIGKILL) };
    }
    let _ = sh.kill();
    let _ = sh.wait();
    assert_eq!(ended.status.code(), Some(4), "{}", ended.stdout);
    let run = place.run_of();
    let watch = run.watch.as_ref().expect("a watch");
    assert_eq!((watch.children, watch.ordinary), (2, 1));
    let fix = facts::fix_of(&run.demands[0]).expect("what to do");
    assert!(fix.contains("--children"), "{fix}");
    let words: Vec<&str> = ended.stdout.split_whitespace().collect();
    let said = words.join(" ");
    assert!(said.contains("2 child processes not followed"), "{said}");
}

#[test]
fn a_missing_program_is_wrong_usage() {
    let place = Place::new();
    for (arguments, said) in [
        (&["--cgroup", "no-such-group-here"][..], "no control group"),
        (&["--comm", ""], "the name of a program"),
        (&["--children"], "missing <PID|NAME>"),
        (&["1", "--comm", "a"], "cannot be used with"),
    ] {
        let ended = place.run(&[&["watch"], arguments].concat());
        assert_eq!(ended.status.code(), Some(64), "{arguments:?}");
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}
