//! `budget` as a user runs it: verdicts and exit codes, and what is no budget, with file and line.

use std::fs;

use crate::common::Place;

/// 20,000 wake-ups in cyclictest's histogram: all at 5 us but 20 at 900 us.
fn histogram(place: &Place) {
    let text = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000005 019980\n000900 000020\n\
                # Total: 000020000\n# Min Latencies: 00005\n# Avg Latencies: 00005\n\
                # Max Latencies: 00900\n# Histogram Overflows: 00000\n";
    fs::write(place.path().join("hist.txt"), text).unwrap();
}

const ROBOT: &str = r#"deadline = "5ms"
miss = 0.01
[[hop]]
name = "sensor"
points = [["5us", 0.999], ["900us", 1.0]]
[[hop]]
name = "bus"
constant = "250us"
[[hop]]
name = "actuator"
points = [["50us", 0.5], ["80us", 0.99], ["200us", 1.0]]
"#;

#[test]
fn a_budget_is_judged_and_says_what_each_hop_gets() {
    let place = Place::new();
    fs::write(place.path().join("robot.toml"), ROBOT).unwrap();
    let said = place.run(&["budget", "robot.toml"]).expect(0).stdout;
    for words in ["PASS: 3 hops", "5 ms", "sensor", "any dependence"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let json = place
        .run(&["budget", "robot.toml", "--json"])
        .expect(0)
        .json();
    assert_eq!(json["format"], "punctual-budget");
    assert_eq!(json["outcome"], "PASS");
    assert_eq!(json["hops"][1]["origin"]["kind"], "constant");
    assert!(json["sentence"].as_str().unwrap().starts_with("PASS: "));
    // Of one in a thousand it is only known that it is longer than 5 us.
    let all = [
        (&["--deadline", "1ms"][..], 0),
        (&["--deadline", "900us", "--miss", "1e-4"], 3),
        (&["--deadline", "300us"], 2),
        (&["--deadline", "5ms", "--miss", "1e-6"], 0),
    ];
    for (flags, code) in all {
        let ended = place.run(&[&["budget", "robot.toml"], flags].concat());
        let said = ended.expect(code).stdout;
        assert!(
            said.lines().all(|line| line.chars().count() <= 80),
            "{said}"
        );
    }
}

/// The figures of the file decide, not their binary fractions; and what no dependence can avoid fails.
#[test]
fn as_much_as_is_allowed_passes_and_what_is_late_for_sure_fails() {
    let place = Place::new();
    let two = r#"deadline = "2ms"
miss = 0.01
[[hop]]
name = "a"
points = [["1ms", 0.99], ["9ms", 1.0]]
[[hop]]
name = "b"
constant = "1ms"
"#;
    fs::write(place.path().join("exact.toml"), two).unwrap();
    place.run(&["budget", "exact.toml"]).expect(0);
    let points = r#"points = [["1ms", 0.0], ["2ms", 0.4], ["3ms", 1.0]]"#;
    let hops = ["a", "b"].map(|name| format!("[[hop]]\nname = \"{name}\"\n{points}\n"));
    let late = format!("deadline = \"4ms\"\nmiss = 0.1\n{}", hops.concat());
    fs::write(place.path().join("late.toml"), late).unwrap();
    let said = place.run(&["budget", "late.toml"]).expect(2).stdout;
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "FAIL: 2 hops together take longer than 4 ms in at least",
        "however they depend on each other",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn a_budget_may_contain_others_and_not_itself() {
    let place = Place::new();
    let write = |name: &str, text: &str| fs::write(place.path().join(name), text).unwrap();
    fs::create_dir(place.path().join("parts")).unwrap();
    write(
        "parts/arm.toml",
        "[[hop]]\nname = \"motor\"\nconstant = \"1ms\"\n",
    );
    write(
        "whole.toml",
        "deadline = \"3ms\"\n[[hop]]\nname = \"arm\"\nbudget = \"parts/arm.toml\"\n\
         [[hop]]\nname = \"bus\"\nconstant = \"1ms\"\n",
    );
    let json = place
        .run(&["budget", "whole.toml", "--json"])
        .expect(0)
        .json();
    assert_eq!(json["hops"][0]["name"], "arm/motor");
    write("empty.toml", "");
    write(
        "e.toml",
        "deadline = \"3ms\"\n[[hop]]\nname = \"a\"\nbudget = \"empty.toml\"\n",
    );
    let ended = place.run(&["budget", "e.toml"]).expect(64);
    assert!(ended.stderr.contains("empty.toml: no hop"), "{ended:?}");
    write(
        "self.toml",
        "[[hop]]\nname = \"a\"\nbudget = \"self.toml\"\n",
    );
    let ended = place.run(&["budget", "self.toml"]).expect(64);
    assert!(
        ended
            .stderr
            .contains("self.toml: this budget contains itself")
    );
}

#[test]
fn what_is_no_budget_is_refused_with_file_and_line() {
    let place = Place::new();
    histogram(&place);
    let hop = |rest: &str| format!("deadline = \"1ms\"\n\n[[hop]]\nname = \"x\"\n{rest}\n");
    for (text, code, wanted) in [
        (String::new(), 64, "b.toml: no hop"),
        ("deadline".to_owned(), 64, "b.toml:1: "),
        ("deadline = \"1 parsec\"".to_owned(), 64, "b.toml:1: "),
        ("miss = 2.0".to_owned(), 64, "b.toml:1: "),
        ("confidence = 0.1".to_owned(), 64, "b.toml:1: "),
        (
            "dead_line = \"1ms\"".to_owned(),
            64,
            "unknown field `dead_line`",
        ),
        (
            "[[hop]]\nconstant = \"1ms\"".to_owned(),
            64,
            "b.toml:1: a hop without a name",
        ),
        (
            hop(""),
            64,
            "b.toml:3: hop x: expected one of run, constant",
        ),
        (
            hop("constant = \"1ms\"\nrun = \"hist.txt\""),
            64,
            "expected one of run",
        ),
        (hop("constant = \"0\""), 64, "hop x: constant '0'"),
        (
            hop("constant = \"1ms\"\ncpu = 0"),
            64,
            "cpu chooses threads of a run",
        ),
        (
            hop("constant = \"1ms\"\nwithin = \"1ms\""),
            64,
            "within is the part",
        ),
        (
            hop("run = \"hist.txt\""),
            64,
            "its run is of another tool (cyclictest)",
        ),
        (hop("run = \"gone\""), 1, "gone"),
        (hop("budget = \"gone.toml\""), 1, "gone.toml"),
        (hop("points = []"), 64, "points are empty"),
        (
            hop("points = [[\"1ms\", 1.5]]"),
            64,
            "point 1: expected a share",
        ),
        (
            hop("points = [[\"1ms\", nan]]"),
            64,
            "point 1: expected a share",
        ),
        (
            hop("points = [[\"1ms\", 0.5], [\"1ms\", 0.6]]"),
            64,
            "point 2: expected a time",
        ),
        (
            hop("constant = \"1ms\"").replace("deadline = \"1ms\"", ""),
            64,
            "no deadline",
        ),
    ] {
        fs::write(place.path().join("b.toml"), &text).unwrap();
        let ended = place.run(&["budget", "b.toml"]).expect(code);
        assert!(ended.stderr.contains(wanted), "{text}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
    let many =
        hop("constant = \"1us\"") + &"[[hop]]\nname = \"y\"\nconstant = \"1us\"\n".repeat(70);
    fs::write(place.path().join("b.toml"), many).unwrap();
    let ended = place.run(&["budget", "b.toml"]).expect(64);
    assert!(
        ended.stderr.contains("more than 64 hops"),
        "{}",
        ended.stderr
    );
    let points: Vec<String> = (1..=10_001)
        .map(|at| format!("[\"{at}ns\", {}]", f64::from(at) / 10_001.0))
        .collect();
    let many = hop(&format!("points = [{}]", points.join(", ")));
    fs::write(place.path().join("b.toml"), many).unwrap();
    let ended = place.run(&["budget", "b.toml"]).expect(64);
    assert!(ended.stderr.contains("more than 10000 points"), "{ended:?}");
    fs::write(place.path().join("b.toml"), vec![b'#'; 2 << 20]).unwrap();
    let ended = place.run(&["budget", "b.toml"]).expect(64);
    assert!(
        ended.stderr.contains("longer than 1 MiB"),
        "{}",
        ended.stderr
    );
    place.run(&["budget", "absent.toml"]).expect(1);
}
