//! `punctual watch` of several programs, which come and go.

use crate::several;
use punctual_report::facts;
use std::fs;

use crate::common::{Place, skip, until};

#[test]
fn a_tree_of_three_programs_is_followed_and_each_cycle_counted() {
    needed!();
    several::a_tree_is_followed();
}

#[test]
fn programs_of_a_name_are_followed_from_before_and_from_later() {
    needed!();
    several::programs_of_a_name_are_followed();
}

#[test]
fn of_a_control_group_who_joins_is_counted_and_who_leaves_no_longer() {
    needed!();
    if let Err(why) = several::who_joins_and_leaves_a_group_is_told() {
        skip!("{why}");
    }
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
        // SAFETY: takes no pointers; the shell holds its children's numbers until it waits.
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
fn what_is_not_there_is_wrong_usage() {
    let place = Place::new();
    for (arguments, said) in [
        (&["--cgroup", "no-such-group-here"][..], "no control group"),
        (&["--comm", ""], "has a name"),
        (&["--children"], "is missing"),
        (&["1", "--comm", "a"], "cannot be used with"),
    ] {
        let ended = place.run(&[&["watch"], arguments].concat());
        assert_eq!(ended.status.code(), Some(64), "{arguments:?}");
        assert!(ended.stderr.contains(said), "{}", ended.stderr);
    }
}
