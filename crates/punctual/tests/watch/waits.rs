//! Waits for other threads: the threads involved are known, and how long each worked.

use std::cmp::Reverse;

use punctual_record::Run;
use punctual_record::explanation::{Doing, Wait, WaitRow};

use super::common::Place;
use super::known::{Known, chains, watch};

const ROUNDS: u64 = 12;
const MS: u64 = 1_000_000;
/// How long the thread worked that worked first, and the one that continued.
const FIRST: u64 = 20 * MS;
const SECOND: u64 = 5 * MS;

/// A wait of the real-time thread that a given thread ended, in a scene of the program: the
/// longest, without time that was not seen. In the laboratory, whose one CPU the watch shares with the
/// program, the shortest that is as long as the work in it: the least disturbed.
fn waits(scene: &str, ended_by: &str, least: u64) -> Wait {
    let place = Place::new();
    let mut known = Known::start(chains(), &[scene, &ROUNDS.to_string()]);
    let number = known.pid.to_string();
    let running = watch(&place, &[&number, "-q"]);
    known.go();
    running.signal(libc::SIGINT);
    running.end();
    let run: Run = place.run_of();
    let explanation = run.explanation.expect("an explanation");
    let of_it =
        |wait: &&Wait| wait.thread.name.as_deref() == Some("first") && wait.ended_by == ended_by;
    let waits = explanation.waits.iter().filter(of_it);
    let wait = match std::env::var_os("PUNCTUAL_LAB_OUT") {
        Some(_) => waits
            .filter(|wait| wait.wait_ns >= least)
            .min_by_key(|wait| wait.wait_ns),
        // Of those that were seen as a whole the one of which the host's agent hid least.
        None => waits.max_by_key(|wait| {
            let hidden = unseen(wait);
            ((wait.wait_ns - hidden).min(least), Reverse(hidden))
        }),
    };
    let wait = wait.unwrap_or_else(|| panic!("{:#?}", explanation.waits));
    let sum: u64 = wait.rows.iter().map(|row| row.ns).sum();
    assert_eq!(sum, wait.wait_ns);
    assert_eq!(wait.thread.pid, Some(known.pid));
    wait.clone()
}

/// For how long there were no events.
fn unseen(wait: &Wait) -> u64 {
    let unseen = wait.rows.iter().filter(|row| row.doing == Doing::Unseen);
    unseen.map(|row| row.ns).sum()
}

/// How long a thread did something, including interrupts meanwhile.
fn time(wait: &Wait, name: &str, is: impl Fn(&Doing) -> bool) -> u64 {
    let of_it = |row: &&WaitRow| {
        let thread = row.thread.as_ref().and_then(|it| it.name.as_deref());
        thread == Some(name) && is(&row.doing)
    };
    wait.rows.iter().filter(of_it).map(|row| row.ns).sum()
}

/// How long a thread worked: also while another one of the chain was ready behind it, as when it
/// is at its next work already.
fn worked(wait: &Wait, name: &str) -> u64 {
    let is_behind = |row: &&WaitRow| match &row.doing {
        Doing::Ready { behind: Some(by) } => by.name.as_deref() == Some(name),
        _ => false,
    };
    let behind: u64 = wait.rows.iter().filter(is_behind).map(|row| row.ns).sum();
    let own = time(wait, name, |doing| {
        matches!(doing, Doing::Ran | Doing::Interrupted { .. })
    });
    own + behind
}

fn depth(wait: &Wait, name: &str) -> Option<u32> {
    let of_it =
        |row: &&WaitRow| row.thread.as_ref().and_then(|it| it.name.as_deref()) == Some(name);
    wait.rows.iter().filter(of_it).map(|row| row.depth).min()
}

/// A worker's CPU time is known. Time without events, while a hypervisor's agent ran, may have been
/// work too; and if other real-time threads preempt the waiting thread, the work has begun
/// before the wait. Neither happens in the laboratory.
#[track_caller]
fn has_worked(wait: &Wait, name: &str, least: u64) {
    let unseen = unseen(wait);
    let found = worked(wait, name);
    let (least, most) = match std::env::var_os("PUNCTUAL_LAB_OUT") {
        Some(_) => (least - least / 100, 0),
        None => (least / 2, wait.wait_ns / 4 * 3),
    };
    assert!(
        found + unseen >= least,
        "{name}: {found} of {least}: {wait:#?}"
    );
    assert!(unseen <= most, "{unseen} unseen: {wait:#?}");
}

pub fn a_pipe_of_three_processes_is_followed_to_its_end() {
    let wait = waits("pipes", "second", FIRST + SECOND);
    assert_eq!(wait.call, "read".into());
    has_worked(&wait, "third", FIRST);
    has_worked(&wait, "second", SECOND);
    assert_eq!(
        (depth(&wait, "second"), depth(&wait, "third")),
        (Some(1), Some(2))
    );
}

pub fn a_lock_whose_holder_waits_for_another_lock_is_followed_to_the_working_thread() {
    let wait = waits("locks", "middle", FIRST / 2 + SECOND);
    assert_eq!(wait.call, "futex LOCK_PI".into());
    // It had begun before the wait did.
    has_worked(&wait, "low", FIRST / 2);
    has_worked(&wait, "middle", SECOND);
    assert_eq!(
        (depth(&wait, "middle"), depth(&wait, "low")),
        (Some(1), Some(2))
    );
}

pub fn a_helper_that_a_real_time_thread_preempts_is_ready_behind_that_thread() {
    let wait = waits("hog", "helper", FIRST - FIRST / 5 + SECOND);
    has_worked(&wait, "helper", SECOND);
    let behind_hog = |doing: &Doing| matches!(doing, Doing::Ready { behind: Some(by) } if by.name.as_deref() == Some("hog"));
    let behind = time(&wait, "helper", behind_hog);
    assert!(behind >= FIRST - FIRST / 5, "{behind}: {wait:#?}");
}
