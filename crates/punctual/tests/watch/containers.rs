//! Runs and watches in a container: a PID namespace of its own, where threads have other numbers
//! than in the kernel's events, with and without its own /proc.

use crate::common;
use crate::exact;
use std::process::Command;

use crate::common::{Place, Running, need, needs};
use crate::exact::thread;
use crate::known::{Known, watch, watched};
use punctual_record::Run;
use punctual_record::explanation::{Cause, Stage};

/// With its own /proc, and with the host's.
const CONTAINERS: [&[&str]; 2] = [&["-p", "-m", "-f", "--mount-proc"], &["-p", "-f"]];

/// A run in a container in which every wake-up is late.
fn measured_in(container: &[&str]) -> Run {
    let place = Place::new();
    let mut command = place.command("unshare");
    command.args(container).arg(common::program());
    command.args(["measure", "-q", "-D", "2", "--best-effort"]);
    command.args(["--deadline", "1ns", "--miss", "0.5"]);
    Running::start(command).end();
    place.run_of()
}

#[test]
fn late_wake_ups_are_explained_in_a_container() {
    needed!();
    for container in CONTAINERS {
        need!(needs::namespaces(container));
        let run = measured_in(container);
        let not = run.events.iter().find(|it| it.kind() == "not-explained");
        assert!(not.is_none(), "{container:?}: {not:?}");
        let explanation = run.explanation.expect("an explanation");
        let samples: u64 = run.threads.iter().map(|it| it.latency.count).sum();
        // A wake-up has its stages if its thread is known; on a busy host some are missed.
        let first = &explanation.stages[0];
        assert!(
            first.times.count > samples / 2,
            "{container:?}: {} of {samples} wake-ups have their first stage",
            first.times.count
        );
        // Some are blind if a host's agent interferes.
        let staged = explanation.bills.iter().filter(|bill| {
            let mut rows = bill.rows.iter();
            rows.any(|row| row.stage != Stage::User)
        });
        let (staged, all) = (staged.count(), explanation.bills.len());
        assert!(staged * 2 > all, "{container:?}: {staged} of {all} bills");
        let own = explanation
            .bills
            .iter()
            .flat_map(|bill| &bill.rows)
            .any(|row| row.cause == Cause::WakePath);
        assert!(own, "{container:?}: no bill knows the wake-up itself");
    }
}

/// Part of a test, run in a container; run by itself it does nothing.
#[test]
#[ignore = "a helper of another test, in a container"]
fn child_watches() {
    exact::its_actions_are_counted(&[]);
    let place = Place::new();
    let mut known = Known::start(watched(), &["cycles", "600"]);
    let number = known.pid.to_string();
    let running = watch(&place, &[&number, "-q"]);
    known.go();
    running.signal(libc::SIGINT);
    running.end();
    let run = place.run_of();
    let (counted, watched) = thread(&run, "rt-loop");
    assert_eq!(
        (counted.tid.unsigned_abs(), watched.task.tid),
        (known.tid, known.tid),
        "numbered as in the container"
    );
    let explanation = run.explanation.expect("an explanation");
    let first = &explanation.stages[0].times;
    // Its wake-ups have stages once its number is known, some 0.1 s after its first.
    assert!(first.count > 50, "{first:?}");
}

#[test]
fn a_program_is_watched_in_a_container() {
    needed!();
    need!(needs::namespaces(CONTAINERS[0]));
    let own = std::env::current_exe().expect("this program");
    let done = Command::new("unshare")
        .args(CONTAINERS[0])
        .arg(own)
        .args([
            "--exact",
            "containers::child_watches",
            "--ignored",
            "--nocapture",
        ])
        .output()
        .expect("unshare runs");
    let said = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}
