//! `exec` as a user runs it: analyses and exit codes, and what is no task set, with file and line.

use std::fs;

use crate::common::Place;
use crate::input::refused;

const TWO: &str = r#"[[task]]
name = "fast"
priority = 80
cpu = 0
period = "1ms"
work = "200us"
[[task]]
name = "slow"
priority = 70
cpu = 0
period = "10ms"
work = "3ms"
"#;

#[test]
fn a_set_is_analysed_and_the_exit_code_says_what_it_comes_to() {
    let place = Place::new();
    let file = place.path().join("two.toml");
    let analyse = |text: &str, flags: &[&str], code: i32| {
        fs::write(&file, text).unwrap();
        let all = [
            &["exec", "two.toml", "--analyse", "--overheads", "none"],
            flags,
        ]
        .concat();
        place.run(&all).expect(code)
    };
    let said = analyse(TWO, &[], 0).stdout;
    for words in [
        "All deadlines are met",
        "fast",
        "slow",
        "3.8 ms",
        "nothing is counted",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let json = analyse(TWO, &["--json"], 0).json();
    assert_eq!(json["format"], "punctual-analysis");
    assert_eq!(
        (&json["outcome"], &json["name"]),
        (&"met".into(), &"two".into())
    );
    // 3 ms and 4 jobs of 200 us.
    assert_eq!(json["tasks"][1]["response"]["response_ns"], 3_800_000);
    assert!(
        json["sentence"]
            .as_str()
            .unwrap()
            .starts_with("All deadlines")
    );
    let short = TWO.replace(
        "period = \"10ms\"",
        "period = \"10ms\"\ndeadline = \"3500us\"",
    );
    let said = analyse(&short, &[], 2).stdout;
    assert!(said.contains("not met by analysis: 1 of 2"), "{said}");
    let untimed = TWO.replace("\"3ms\"", "[{ command = [\"gzip\"] }]");
    let said = analyse(&untimed, &[], 3).stdout;
    // Where the kernel keeps time for ordinary tasks, the other one has none either.
    assert!(
        said.contains("No bound for") && said.contains("slow: the set does not say"),
        "{said}"
    );
    assert!(said.contains("wcet"), "{said}");
}

#[test]
fn a_set_of_rt_app_is_analysed_and_what_has_no_effect_is_said() {
    let place = Place::new();
    let text = r#"{ "tasks" : { /* one */ "a" : { "policy" : "SCHED_FIFO", "cpus" : [0], "run" : 100,
        "timer" : { "ref" : "x", "period" : 1000 }, }, },
        "global" : { "calibration" : "CPU0" } }"#;
    fs::write(place.path().join("a.json"), text).unwrap();
    let ended = place
        .run(&["exec", "a.json", "--analyse", "--overheads", "none"])
        .expect(0);
    assert!(ended.stdout.contains("All deadlines are met"), "{ended:?}");
    assert!(
        ended.stderr.contains("a.json:3: calibration: ignored"),
        "{ended:?}"
    );
    fs::write(
        place.path().join("b.json"),
        text.replace("\"run\"", "\"fork\""),
    )
    .unwrap();
    let ended = place.run(&["exec", "b.json", "--analyse"]).expect(64);
    assert!(
        ended.stderr.contains("b.json:1: a: keyword 'fork'"),
        "{ended:?}"
    );
}

#[test]
fn what_is_no_task_set_is_refused_with_file_and_line() {
    let place = Place::new();
    let refused = |text: &[u8], words: &str| {
        fs::write(place.path().join("bad.toml"), text).unwrap();
        let ended = place.run(&["exec", "bad.toml", "--analyse"]).expect(64);
        assert!(ended.stderr.starts_with("punctual: bad.toml"), "{ended:?}");
        assert!(ended.stderr.contains(words), "{ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(ended.stdout.is_empty(), "{ended:?}");
    };
    refused(
        TWO.replace("\"3ms\"", "\"9ms\"").as_bytes(),
        "bad.toml:7: CPU 0 is overloaded",
    );
    refused(
        TWO.replace("priority = 70", "priority = 700").as_bytes(),
        "bad.toml:9: priority 700",
    );
    refused(b"\xff\xfe", "not text");
    refused(b"task = 1", "bad.toml:1:");
    let ended = place.run(&["exec", "none.toml", "--analyse"]).expect(1);
    assert!(ended.stderr.contains("none.toml"), "{ended:?}");
}

#[test]
fn a_task_that_never_arrives_in_the_time_of_the_set_is_named() {
    let place = Place::new();
    let late = TWO.replace("period = \"10ms\"", "period = \"10ms\"\noffset = \"2s\"");
    // The 2,001st job of 1 ms.
    let rare = TWO.replace("period = \"10ms\"", "after = \"fast\"\nevery = 2001");
    for text in [&rare, &late] {
        fs::write(place.path().join("late.toml"), text).unwrap();
        for words in [
            &["exec", "late.toml", "-D", "2"][..],
            &["lab", "--", "exec", "late.toml", "-D", "1500ms"],
        ] {
            let ended = place.run(words).expect(64);
            let named = "late.toml: task slow: its first job arrives 2 s after the start";
            assert!(ended.stderr.contains(named), "{ended:?}");
        }
    }
    let analysed = &["exec", "late.toml", "--analyse", "--overheads", "none"];
    place.run(analysed).expect(0);
}

/// What is measured depends on the machine, but not that something is, or that it says why not.
#[test]
fn overheads_are_measured_here_or_the_line_says_how_to_do_without() {
    let place = Place::new();
    fs::write(place.path().join("two.toml"), TWO).unwrap();
    let ended = place.run(&["exec", "two.toml", "--analyse", "--json"]);
    if ended.code() == 1 {
        assert!(ended.stderr.contains("--overheads none"), "{ended:?}");
        return;
    }
    let json = ended.json();
    let of = &json["overheads"];
    assert!(of["measured"]["wake_ups"].as_u64().unwrap() >= 100, "{of}");
    assert!(of["wake_and_sleep_ns"].as_u64().unwrap() > 0, "{of}");
    let bound = json["tasks"][0]["response"]["response_ns"]
        .as_u64()
        .unwrap();
    let charged =
        of["wake_and_sleep_ns"].as_u64().unwrap() + of["release_interrupt_ns"].as_u64().unwrap();
    assert!(bound >= 200_000 + charged, "{json}");
}

#[test]
fn nonsense_for_its_flags_is_refused() {
    refused(&["exec"], &["<TASKSET>", "`punctual exec --help`"]);
    refused(&["exec", "a", "b"], &["'b'"]);
    refused(&["exec", "a", "--analyse=x"], &["--analyse"]);
    refused(
        &["exec", "a", "--analyse", "--overheads", "some"],
        &["--overheads", "measured", "none"],
    );
    refused(&["exec", "a", "--analyse", "-D", "1"], &["--analyse"]);
    refused(&["exec", "a", "-D", "0"], &["--duration"]);
    refused(&["exec", "a", "--duration", "soon"], &["--duration"]);
    refused(&["exec", "a", "--miss", "2"], &["--miss"]);
    refused(&["exec", "a", "--confidence", "0"], &["--confidence"]);
    refused(&["exec", "a", "--load", "nothing-like-it-"], &["--load"]);
    refused(&["exec", "a", "--load-class", "fifo"], &["--load-class"]);
    refused(&["exec", "a", "--json", "-q"], &["--json"]);
    for flag in [
        "--as-deployed",
        "--best-effort",
        "--no-explain",
        "--quiet",
        "--verbose",
    ] {
        refused(&["exec", "a", &format!("{flag}=x")], &[flag]);
    }
    refused(&["exec", "a", "--json=x"], &["--json"]);
}
