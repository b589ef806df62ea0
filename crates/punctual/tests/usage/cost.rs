//! `cost` with flags that mean nothing, and what this machine cannot do.

use crate::common::needs::Absent;
use crate::common::{Place, skip};
use crate::input::refused;

#[test]
fn nonsense_for_a_cost_is_refused_in_one_line() {
    let cost: &[(&[&str], &[&str])] = &[
        (&[], &["COMMAND", "after --"]),
        (&["--", "true"], &["nothing to compare", "--rt-load"]),
        (&["--rt-load", "0"], &["--rt-load", "from 0.01 to 0.9"]),
        (&["--rt-load", "1"], &["--rt-load", "from 0.01 to 0.9"]),
        (&["--rt-load", "nan"], &["--rt-load", "from 0.01 to 0.9"]),
        (&["--rt-cpus", "0", "--", "a"], &["--rt-load"]),
        (&["--rt-load", "0.1", "--rt-cpus", "x"], &["--rt-cpus"]),
        (
            &["--rt-load", "0.1", "--rt-cpus", "6000", "--", "a"],
            &["--rt-cpus", "not online"],
        ),
        (&["--rt-priority", "0"], &["--rt-priority", "from 1 to 99"]),
        (&["--rt-period", "0"], &["--rt-period", "from 1us to 1h"]),
        (
            &["--rt-load", "0.1", "--rt-priority", "80", "--", "a"],
            &["--probe-priority 80", "lower --rt-priority"],
        ),
        (&["--priority", "0"], &["--priority", "from 1 to 99"]),
        (&["--isolate", "0"], &["--isolate", "from 1 to 4096"]),
        (
            &["--isolate", "4096", "--", "a"],
            &["--isolate 4096", "at least one is left"],
        ),
        (&["--preempt", "often"], &["--preempt", "voluntary"]),
        (&["--pairs", "5"], &["--pairs", "from 6 to 1000"]),
        (
            &["--pairs", "6", "--locked", "-p", "1", "--", "a"],
            &["--pairs 6", "expected 7 to 1000"],
        ),
        (&["--warm-ups", "-1"], &["--warm-ups", "from 0 to 1000"]),
        (&["--limit", "0"], &["--limit", "such as 60"]),
        (&["--prepare"], &["--prepare", "needs a value"]),
        (&["--print-to"], &["--print-to", "needs a value"]),
        (&["--seed", "x"], &["--seed", "whole number"]),
        (&["--confidence", "1"], &["--confidence"]),
        (
            &["--confidence", "0.999999", "--locked", "--", "a"],
            &["--confidence", "no number of pairs"],
        ),
        (&["--quantile", "100"], &["--quantile", "50 to 99.9999"]),
        (&["--probe-priority", "100"], &["--probe-priority"]),
        (&["--probe-cpu", "x"], &["--probe-cpu"]),
        (
            &[
                "--locked",
                "--probe-cpu",
                "!6000",
                "--pairs",
                "7",
                "--",
                "a",
            ],
            &["--probe-cpu"],
        ),
        (&["--interval", "0"], &["--interval", "from 1us to 1h"]),
        (&["--json", "-q", "--", "a"], &["--json"]),
        (&["--resume"], &["--resume", "needs a value"]),
        (&["--resume", "a", "--locked"], &["--resume", "--locked"]),
        (&["--resume", "a", "--", "b"], &["--resume"]),
        (
            &["--across-reboot", "--locked", "--", "a"],
            &["--across-reboot", "--locked"],
        ),
        (&["-o"], &["-o", "needs a value"]),
        (&["--state"], &["--state", "needs a value"]),
        (&["true"], &["'true'"]),
        (&["--lab", "--locked", "--", "a"], &["--lab", "--locked"]),
        (&["--kernel", "rt,standard", "--", "a"], &["--lab"]),
        (
            &["--lab", "--kernel", "rt", "--", "a"],
            &["--kernel", "two kernels"],
        ),
        (
            &["--lab", "--kernel", "rt,rt", "--", "a"],
            &["--kernel rt,rt", "nothing would differ"],
        ),
        (&["--lab", "--mem", "0", "--", "a"], &["--mem"]),
        (&["--lab", "--param", "", "--", "a"], &["--param"]),
        (&["--lab", "--module"], &["--module", "needs a value"]),
        (&["--lab", "--bring"], &["--bring", "needs a value"]),
        (&["--lab", "--rootfs"], &["--rootfs", "needs a value"]),
    ];
    for (flags, wanted) in cost {
        refused(&[&["cost"], *flags].concat(), wanted);
    }
}

#[test]
fn a_preemption_model_that_cannot_be_switched_is_one_line() {
    const FILE: &str = "/sys/kernel/debug/sched/preempt";
    if std::fs::OpenOptions::new().write(true).open(FILE).is_ok() {
        // Switching it is for a guest of the laboratory.
        skip!(Absent::kernel("a preemption model that can't be switched"));
    }
    let place = Place::new();
    let ended = place
        .run(&["cost", "--preempt", "full", "--no-probe", "--", "true"])
        .expect(1);
    assert!(ended.stderr.contains(FILE), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert_eq!(place.entries(), [""; 0]);
}
