//! `lab prove`: which boot parameter helps? One that does is named, one that only moves what
//! follows is not, and one that means nothing or that no kernel knows is refused.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::common::{Place, Running, need, program, read_json};
use super::{HANGS, flat, lab, ready};

/// In one line, with nothing left.
fn refused(arguments: &[&str], words: &[&str]) {
    let place = Place::new();
    let ended = lab(&place, &[&["prove"], arguments].concat()).expect(64);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    for words in words {
        assert!(ended.stderr.contains(words), "{words}: {ended:?}");
    }
    assert!(place.entries().is_empty(), "{:?}", place.entries());
}

#[test]
fn parameters_that_mean_nothing_in_a_guest_are_refused() {
    let poll: Vec<String> = (0..251).map(|at| format!("a{at}")).collect();
    let mut many: Vec<&str> = poll.iter().map(String::as_str).collect();
    refused(&many, &["of more than 250 tests no result is sure"]);
    many.truncate(103);
    refused(&many, &["--seeds 12: expected 13 to 1000"]);
    for (arguments, words) in [
        (
            &["isolcpus=1-3"][..],
            "isolcpus=1-3: means nothing on one processor",
        ),
        (
            &["threadirqs", "nohz-full=1"],
            "nohz-full=1: means nothing on",
        ),
        (&["idle=poll"], "the laboratory sets idle itself"),
        (&["max_cstate=1"], "whose processor never idles"),
        (&["intel_pstate=disable"], "hardware that the lab's machine"),
        (&["nokaslr"], "the laboratory sets it itself"),
        (&["init=/bin/sh"], "the laboratory sets init itself"),
        (&["a b"], "expected one word"),
        (&["sysctl.vm.swappiness=1"], "/proc/sys/vm/swappiness=1"),
        (&["threadirqs", "threadirqs"], "named twice"),
        (
            &["threadirqs", "--param", "threadirqs"],
            "leave it out there",
        ),
        (&["threadirqs", "--kernel", "rt,rt"], "rt is given twice"),
        (&["threadirqs", "--seeds", "11"], "expected 12 to 1000"),
        (&["threadirqs", "--seeds", "0"], "from 1 to 1000"),
        (&["threadirqs", "--cpus", "2"], "unknown flag '--cpus'"),
        (&["threadirqs", "--load", "nte"], "unknown load 'nte'"),
        (&["threadirqs", "--", "sh"], "give measure or qualify"),
        (&["threadirqs", "--", "measure", "-o", "x"], "no disk"),
        (&[], "missing <PARAM>"),
    ] {
        refused(arguments, &[words]);
    }
}

#[test]
fn parameters_that_the_kernel_does_not_know_are_refused() {
    need!(ready());
    let unknown = "unknown to kernel standard, its name or its value";
    refused(
        &["threadirqs", "thredirqs"],
        &["thredirqs: ", unknown, "did you mean threadirqs?"],
    );
    refused(&["threadirqs", "preempt=ful"], &["preempt=ful: ", unknown]);
    // The kernel says nothing of these.
    refused(
        &["rcutree.kthread_pro=2"],
        &["no such parameter built in", "rcutree.kthread_prio?"],
    );
}

fn row(proof: &Value, parameter: usize) -> &Value {
    let rows = proof["rows"].as_array().expect("rows");
    let mut rows = rows.iter().filter(|row| row["parameter"] == parameter);
    rows.next().expect("a row")
}

#[test]
fn a_parameter_that_helps_is_named_and_the_control_that_only_moves_what_follows_is_not() {
    need!(ready());
    let place = Place::new();
    // To poll many files the standard kernel disables preemption for milliseconds, except with
    // this parameter.
    let words = [
        "prove",
        "preempt=full",
        "--load",
        "poll",
        "--no-explain",
        "-o",
        "a",
        "--",
        "measure",
        "-i",
        "509",
        "-l",
        "25",
        "--max",
        "1ms",
    ];
    // 36 boots, of a machine that is shared.
    let running = place.start(&[&["lab"], &words[..]].concat());
    let shown = running.end_within(HANGS).expect(0).stdout;
    let proof = &read_json(&place.path().join("a/lab.json"))["proof"];
    let helps = &row(proof, 0)["result"];
    assert_eq!(helps["conclusion"], "helps", "{shown}");
    assert_eq!(helps["pairs"], 12);
    let effects = helps["effects"].as_array().expect("effects");
    let worst = effects.iter().find(|it| it["measure"] == "worst");
    let figure = |name: &str| worst.expect("the worst")[name].as_f64().expect("a figure");
    assert!(figure("off_ns") > 1e6 && figure("on_ns") < 1e5, "{shown}");
    // Over the limit there is an excess, which is gone.
    let excess = effects.iter().find(|it| it["measure"] == "excess");
    let on_ns = excess.expect("a limit")["on_ns"].as_f64();
    assert!(on_ns.is_some_and(|ns| ns < 1.0), "{shown}");
    let control = row(proof, 1);
    assert_eq!(proof["parameters"][1]["word"], "lab.control=1", "{proof}");
    assert_eq!(control["pairs"].as_array().map(Vec::len), Some(12));
    assert!(shown.contains("preempt=full helps."), "{shown}");
    assert!(flat(&shown).contains("control"), "{shown}");

    // What was measured is in normal runs, and the table is shown again.
    let run = place.run_of_path("a/standard-preempt=full/poll-12");
    let laboratory = run.laboratory.expect("its origin");
    assert_eq!(laboratory.parameters, ["preempt=full"]);
    let table = |text: &str| -> String {
        let lines = text
            .lines()
            .skip_while(|line| !line.starts_with("preempt=full helps"));
        // Before the place of the report, and what every table of the lab has below it.
        let ends = ["Report ", "Times are virtual"];
        let lines = lines.take_while(|line| !ends.iter().any(|end| line.starts_with(end)));
        lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
    };
    let again = lab_report(&place);
    assert_eq!(table(&shown), table(&again));
    let page = fs::read_to_string(place.path().join("a/lab.html")).expect("a page");
    assert!(page.contains("Which boot parameter helped?"), "{page}");
}

fn lab_report(place: &Place) -> String {
    place.run(&["report", "a"]).expect(0).stdout
}

#[test]
fn an_interrupted_experiment_is_inconclusive_and_keeps_its_seeds() {
    need!(ready());
    let place = Place::new();
    let mut command = place.command(program());
    command.args([
        "lab",
        "prove",
        "threadirqs",
        "--load",
        "idle",
        "--no-explain",
        "-o",
        "a",
        "--",
        "measure",
        "-l",
        "50",
    ]);
    let running = Running::start(command);
    let saved = |name: &str| place.path().join("a").join(name).join("run.json").exists();
    // Three boots, of a machine that is shared.
    let begin = Instant::now();
    while !(saved("standard-off/idle-1") && saved("standard-threadirqs/idle-1")) {
        assert!(begin.elapsed() < HANGS, "no pair");
        thread::sleep(Duration::from_millis(20));
    }
    running.signal(libc::SIGINT);
    let ended = running.end_within(Duration::from_secs(60)).expect(3);
    assert!(ended.stdout.contains(" of at least 12 seeds"), "{ended:?}");
    let proof = &read_json(&place.path().join("a/lab.json"))["proof"];
    let pairs = row(proof, 0)["pairs"].as_array().expect("pairs");
    assert!((1..12).contains(&pairs.len()), "{proof}");
    place.await_silence();
}
