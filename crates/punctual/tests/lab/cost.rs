//! `cost` on real kernels: their instructions in virtual time, and a preemption model that is switched
//! and restored.

use crate::common::{Place, need};
use crate::userspace::write;
use crate::{HANGS, lab, ready};
use punctual_record::Document;
use punctual_record::cost::{Cost, CostOutcome, CostPart};
use punctual_stats::cost::CostMeasure;

#[test]
fn processes_cost_more_instructions_on_preempt_rt_by_more_than_any_seed_does() {
    need!(ready());
    let place = Place::new();
    let script = "i=0; while [ $i -lt 100 ]; do i=$((i+1)); /lab/bin/cat /proc/self/status; done";
    let ended = place
        .start(&[
            "cost", "--lab", "--pairs", "6", "--bring", "/bin/cat", "-o", "c", "--", "/bin/sh",
            "-c", script,
        ])
        .end_within(HANGS)
        .expect(0);
    assert!(ended.stdout.contains("lower bound"), "{}", ended.stdout);
    let cost = Cost::read(&place.path().join("c")).expect("a cost");
    assert_eq!(cost.outcome, CostOutcome::Complete);
    // Six seeds on both, and six others on the first, of which each stands in its pairs.
    assert_eq!(cost.runs.len(), 6 * 2 + 6 * 2);
    let kernels = match &cost.treatments[0].parts[..] {
        [CostPart::Kernel { without, with }] => (without.clone(), with.clone()),
        other => panic!("{other:?}"),
    };
    assert!(
        kernels.0.starts_with("standard (") && kernels.1.starts_with("rt ("),
        "{kernels:?}"
    );
    assert!(kernels.1.contains("rt-amd64"), "{kernels:?}");
    let results = cost.results.expect("results");
    let cpu = results.treatments[0]
        .effects
        .iter()
        .find(|it| it.measure == CostMeasure::CpuTime);
    // Measured: fork 1.19, exec 1.13.
    let cpu = cpu.expect("CPU time");
    assert!(cpu.is_named && (1.03..1.4).contains(&cpu.ratio), "{cpu:?}");
    let same = &results.identical[0];
    assert!(same.farthest() < 1.02, "{same:?}");
}

/// Prints the model, measures what another one costs, and is killed while that one is in force.
const SWITCHED: &str = r#"#!/bin/sh
/lab/bin/mount -t debugfs none /sys/kernel/debug 2>/dev/null
mode() { /lab/bin/cat /sys/kernel/debug/sched/preempt; }
cd /tmp
mode
punctual cost --preempt full --pairs 6 --no-probe -q -o c -- /lab/bin/sleep 0.01
echo "status $?"
mode
punctual cost --preempt full --pairs 6 --no-probe -q -o k -- /lab/bin/sleep 0.2 &
while :; do case $(mode) in *"(full)"*) break;; esac; done
kill -9 $!
echo killed
mode
punctual tune restore >/dev/null
mode
"#;

#[test]
fn a_preemption_model_is_restored_after_the_runs_and_after_a_kill() {
    need!(ready());
    let place = Place::new();
    write(
        &place.path().join("switched.sh"),
        SWITCHED.as_bytes(),
        0o755,
    );
    let ended = lab(
        &place,
        &[
            "--kernel",
            "standard",
            "--no-explain",
            "-q",
            "--bring",
            "/bin/cat",
            "--bring",
            "/bin/mount",
            "--bring",
            "/bin/sleep",
            "-o",
            "lab",
            "--",
            "./switched.sh",
        ],
    )
    .expect(0);
    let lines: Vec<&str> = ended.stdout.lines().map(str::trim).collect();
    let at_first = "none (voluntary) full";
    let modes: Vec<&str> = lines
        .iter()
        .copied()
        .filter(|line| line.starts_with("none ") || line.starts_with("(none)"))
        .collect();
    // Before, after the runs, after the kill, after the restore.
    assert_eq!(
        modes,
        [at_first, at_first, "none voluntary (full)", at_first],
        "{}{}",
        ended.stdout,
        ended.stderr
    );
    assert!(lines.contains(&"status 0"), "{lines:?}");
}
