//! `punctual watch` on both kernels, in virtual time: what it counts of programs whose behaviour
//! is known. The parts run in the guest, as those of [`super::inside`].
#![cfg(feature = "trace")]

use super::common::{Place, skip};
use super::inside::{in_guest, is_rt};
use super::{exact, known, ready};

/// The parts below.
const PARTS: usize = 4;

fn all_parts(kernel: &str) {
    if let Err(reason) = ready() {
        skip!("{reason}");
    }
    let place = Place::new();
    let watched = known::watched().to_str().expect("UTF-8");
    let flags = ["--kernel", kernel, "--no-explain", "--bring", watched];
    let (passed, shown) = in_guest(&place, &flags, "watching::guest_");
    assert_eq!(passed, PARTS, "{shown}");
}

#[test]
fn a_watch_counts_on_preempt_rt() {
    all_parts("rt");
}

#[test]
fn a_watch_counts_on_the_standard_kernel() {
    all_parts("standard");
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_what_a_program_does_is_counted_exactly() {
    let read = exact::what_it_does_is_counted(&["--no-explain"]);
    // Of one processor the reader takes it from the writer before that one gives the lock back.
    assert_eq!(read, if is_rt() { 41 } else { 20 });
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_late_waits_and_passed_instants_are_counted() {
    exact::late_waits_and_passed_instants_are_counted();
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_late_jobs_are_counted() {
    exact::late_jobs_are_counted().expect("SCHED_DEADLINE is granted");
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_the_system_names_who_was_in_the_way() {
    exact::who_was_in_the_way_is_named(0);
}
