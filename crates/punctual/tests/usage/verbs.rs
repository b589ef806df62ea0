//! The uses of a record: every verb and every format on runs that were just
//! made; completions and the man page.

use crate::common;
use std::fs;
use std::sync::LazyLock;

use crate::common::{Place, Running, counts, cpus, has, need, needs, read_json};

const FORMATS: [&str; 9] = [
    "cyclictest",
    "rt-tests-json",
    "jitterdebugger",
    "junit",
    "ktap",
    "lava",
    "openmetrics",
    "prometheus",
    "csv",
];

/// Two runs of the same kind, `one` and `two`, made once for all tests.
static RUNS: LazyLock<Place> = LazyLock::new(|| {
    let place = Place::new();
    for output in ["one", "two"] {
        let flags = ["--deadline", "150ms", "--miss", "0.99", "-q", "-o", output];
        place.run(&[&["measure", "-l", "200"], &flags[..]].concat());
    }
    place
});

fn total(run: &str) -> u64 {
    counts(&read_json(&RUNS.path().join(run).join("run.json")))
        .iter()
        .sum()
}

#[test]
fn report_repeats_the_output_of_the_run() {
    let shown = RUNS.run(&["report", "one"]).expect(0).stdout;
    for words in ["Machine", "Latency in µs", "Bound", "Worst", "Details"] {
        assert!(shown.contains(words), "{shown}");
    }
    let whole = RUNS.run(&["report", "-v", "one"]).expect(0).stdout;
    for words in ["Conditions", "Latency in µs", "Statistics", "Worst samples"] {
        assert!(whole.contains(words), "{whole}");
    }
    // A run can also be named by its record.
    let same = RUNS.run(&["report", "one/run.json"]).expect(0).stdout;
    assert_eq!(same, shown);
    let summary = RUNS.run(&["report", "--json", "one"]).expect(0).stdout;
    let summary: serde_json::Value = serde_json::from_str(&summary).expect("JSON");
    let sentence = summary["verdict"]["sentence"].as_str().expect("a verdict");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&shown).starts_with(&words(sentence)), "{shown}");
}

#[test]
fn pictures_and_pages_are_written_to_the_given_place() {
    let place = Place::new();
    let run = RUNS.path().join("one");
    let run = run.to_str().unwrap();
    let flags = [
        "--html",
        "page.html",
        "--svg",
        "pictures/deep",
        "--gnuplot",
        "plot",
    ];
    let ended = place
        .run(&[&["report", run], &flags[..]].concat())
        .expect(0);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    for name in [
        "page.html",
        "pictures/deep/histogram.svg",
        "pictures/deep/timeline.svg",
        "pictures/deep/percentiles.svg",
        "plot/latency.gnuplot",
        "plot/latency.dat",
    ] {
        let text =
            fs::read_to_string(place.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(text.len() > 100, "{name}");
    }
    let page = fs::read_to_string(place.path().join("page.html")).unwrap();
    assert_eq!(
        place.run(&["report", run, "--html", "-"]).expect(0).stdout,
        page
    );
    assert_eq!(
        fs::read_to_string(RUNS.path().join("one/report.html")).unwrap(),
        page
    );
}

#[test]
fn every_format_is_written_and_the_readable_ones_are_read_back() {
    for format in FORMATS {
        let text = RUNS
            .run(&["export", "one", "--format", format])
            .expect(0)
            .stdout;
        assert!(text.ends_with('\n'), "{format}");
        let place = Place::new();
        let run = RUNS.path().join("one");
        let run = run.to_str().unwrap();
        let ended = place
            .run(&["export", run, "--format", format, "-o", "file"])
            .expect(0);
        assert_eq!(ended.stdout, "");
        assert_eq!(
            fs::read_to_string(place.path().join("file")).unwrap(),
            text,
            "{format}"
        );
        if ["junit", "ktap", "lava", "openmetrics", "prometheus", "csv"].contains(&format) {
            continue;
        }
        let summary = place.run(&["report", "file", "--json"]).expect(0).json();
        assert_eq!(
            counts(&summary).iter().sum::<u64>(),
            total("one"),
            "{format}"
        );
        let compared = place.run(&["compare", run, "file"]).expect(0);
        // A format may round: a pair of equal values may become unequal.
        let share = compared
            .stdout
            .split_once(" % of pairs")
            .expect("a share")
            .0;
        let share = share.rsplit_once(' ').expect("a number").1;
        let share: f64 = share.parse().expect("a number");
        assert!((share - 50.0).abs() < 0.4, "{format}: {}", compared.stdout);
    }
}

#[test]
fn exported_counts_are_integers() {
    let csv = RUNS
        .run(&["export", "one", "--format", "csv"])
        .expect(0)
        .stdout;
    let sum: u64 = csv
        .lines()
        .skip(1)
        .map(|line| {
            line.split(',')
                .nth(4)
                .and_then(|n| n.parse::<u64>().ok())
                .expect("a count")
        })
        .sum();
    assert_eq!(sum, total("one"));
    let metrics = RUNS
        .run(&["export", "one", "--format", "openmetrics"])
        .expect(0)
        .stdout;
    let sum: u64 = metrics
        .lines()
        .filter(|line| line.starts_with("punctual_latency_seconds_count"))
        .map(|line| {
            line.rsplit(' ')
                .next()
                .and_then(|n| n.parse::<u64>().ok())
                .expect("a count")
        })
        .sum();
    assert_eq!(sum, total("one"));
    assert!(metrics.ends_with("# EOF\n"));
}

#[test]
fn merging_adds_the_counts() {
    let place = Place::new();
    let [one, two] = ["one", "two"].map(|run| RUNS.path().join(run));
    let paths = [one.to_str().unwrap(), two.to_str().unwrap()];
    let ended = place.run(&[&["merge"], &paths[..], &["-o", "sum", "-q"]].concat());
    let sum = read_json(&place.path().join("sum/run.json"));
    assert_eq!(
        counts(&sum).iter().sum::<u64>(),
        total("one") + total("two")
    );
    assert_eq!(sum["merged"]["runs"], 2);
    assert_eq!(ended.stdout.lines().count(), 1, "{}", ended.stdout);
    let code = if sum["verdict"]["outcome"] == "PASS" {
        0
    } else {
        4
    };
    assert_eq!(ended.code(), code, "{ended:#?}");
    place.run(&["report", "sum"]).expect(0);
    for format in FORMATS {
        place.run(&["export", "sum", "--format", format]).expect(0);
    }
    // No existing file is overwritten.
    let again = place
        .run(&[&["merge"], &paths[..], &["-o", "sum"]].concat())
        .expect(64);
    assert!(again.stderr.contains("-o: "), "{}", again.stderr);
}

#[test]
fn a_run_is_not_compared_with_itself_or_a_copy() {
    let copy = Place::new();
    let record = RUNS.path().join("one/run.json");
    fs::copy(&record, copy.path().join("copy.json")).unwrap();
    let one = RUNS.path().join("one");
    let one = one.to_str().unwrap();
    for other in [one, "copy.json"] {
        let refused = copy.run(&["compare", one, other]).expect(1).stderr;
        assert!(refused.contains("B1 is the same run as A1"), "{refused}");
    }
}

/// A run of cyclictest, with every latency `us`, started at a minute of the hour.
fn theirs(place: &Place, name: &str, us: u64, minute: usize) {
    let text = format!(
        r#"{{"file_version": 1, "cmdline:": "cyclictest -h 400", "rt_test_version:": "2.40",
        "start_time": "Sun, 22 Nov 2026 17:{minute:02}:50 +0000",
        "end_time": "Sun, 22 Nov 2026 17:{minute:02}:53 +0000", "return_code": 0,
        "num_threads": 1, "resolution_in_ns": 0, "thread": {{"0": {{
        "histogram": {{"{us}": 500, "{}": 1500}}, "cycles": 2000,
        "min": {us}, "max": {}, "avg": {us}.0, "cpu": 0, "node": 0}}}}}}"#,
        us + 1,
        us + 1
    );
    fs::write(place.path().join(name), text).unwrap();
}

#[test]
fn several_runs_are_compared_in_columns() {
    let place = Place::new();
    for (minute, (name, us)) in ["a1", "b1", "b2", "a2", "a3", "b3", "b4", "a4"]
        .into_iter()
        .zip([50, 70, 71, 51, 52, 72, 70, 50])
        .enumerate()
    {
        theirs(&place, name, us, minute);
    }
    let all = [
        "compare", "a1", "a2", "a3", "a4", "--", "b1", "b2", "b3", "b4",
    ];
    let text = place.run(&all).expect(0).stdout;
    assert!(
        text.starts_with("B is slower than A at p50 and p99."),
        "{text}"
    );
    assert!(text.contains("p 0.029"), "{text}");
    let json = [&["compare", "--json"], &all[1..]].concat();
    let json = place.run(&json).expect(0).json();
    assert_eq!(json["format"], "punctual-compare");
    assert_eq!(
        (&json["kind"], &json["version"]),
        (&"runs".into(), &1.into())
    );
    assert_eq!(json["headline"], "B is slower than A at p50 and p99.");
    let found = &json["statistics"];
    assert_eq!(found["conclusion"]["is"], "second-slower");
    assert_eq!(found["basis"]["unit"], "run");
    assert_eq!(found["order"], "pairs");
    assert!(json["first"]["missed"].is_null(), "cyclictest does not say");
    // Three of each can't reach 95 %, and one of each identifies no run.
    let three = ["compare", "a1", "a2", "a3", "--", "b1", "b2", "b3"];
    let text = place.run(&three).expect(0).stdout;
    assert!(text.starts_with("Too few runs"), "{text}");
    let text = place.run(&["compare", "a1", "b1"]).expect(0).stdout;
    assert!(text.starts_with("Not tested"), "{text}");
    let twice = place
        .run(&["compare", "a1", "a1", "--", "b1", "b2"])
        .expect(1);
    assert!(
        twice.stderr.contains("A2 is the same run as A1"),
        "{}",
        twice.stderr
    );
    let flag = ["compare", "--confidence", "0.9"];
    let text = place.run(&[&flag, &three[1..]].concat()).expect(0).stdout;
    assert!(text.starts_with("B is slower than A"), "{text}");
}

#[test]
fn the_cpus_of_one_run_are_compared() {
    need!(needs::cpus(2));
    let json = RUNS.run(&["compare", "one", "--json"]).expect(0).json();
    assert_eq!(json["kind"], "cpus");
    assert_eq!(json["cpus"].as_array().unwrap().len(), cpus().len());
    // 200 cycles are fewer than eight stretches of time.
    assert!(json["headline"].as_str().unwrap().starts_with("Not tested"));
    let place = Place::new();
    theirs(&place, "alone", 50, 0);
    let ended = place.run(&["compare", "alone"]).expect(1);
    assert!(
        ended.stderr.contains("one probe thread"),
        "{}",
        ended.stderr
    );
}

#[test]
fn an_unreadable_record_is_named() {
    let place = Place::new();
    fs::write(place.path().join("notes"), "nothing of the kind\n").unwrap();
    fs::create_dir(place.path().join("empty")).unwrap();
    for path in ["absent", "notes", "empty"] {
        for verb in [
            &["report", path][..],
            &["compare", path, path],
            &["merge", path, "-o", "sum"],
            &["export", path, "--format", "csv"],
        ] {
            let ended = place.run(verb).expect(1);
            assert_eq!(ended.stdout, "", "{verb:?}");
            assert_eq!(
                ended.stderr.lines().count(),
                1,
                "{verb:?}: {}",
                ended.stderr
            );
            assert!(
                ended.stderr.starts_with(&format!("punctual: {path}")),
                "{}",
                ended.stderr
            );
        }
    }
    assert_eq!(place.entries(), ["empty", "notes"]);
}

#[test]
fn loads_alone_report_their_work() {
    let place = Place::new();
    let ended = place
        .run(&["load", "fork,timers", "-D", "500ms", "--json"])
        .expect(0);
    let reports = ended.json();
    for (at, name) in ["fork", "timers"].iter().enumerate() {
        assert_eq!(reports[at]["name"], *name);
        assert!(
            reports[at]["work"].as_u64().is_some_and(|work| work > 0),
            "{reports}"
        );
    }
    let text = place
        .run(&["load", "cpu:bytes=1M", "-D", "300ms"])
        .expect(0)
        .stdout;
    assert!(
        text.starts_with("cpu ") && text.contains("rounds/s"),
        "{text}"
    );
    let classic = place
        .run(&["load", "hackbench", "--", "-g", "1", "-l", "10"])
        .expect(0)
        .stdout;
    assert!(classic.contains("Time: "), "{classic}");
    let failed = place
        .run(&["load", "exit 3 # a command", "-D", "1"])
        .expect(1);
    assert!(
        failed.stderr.contains("exit status: 3") || failed.stderr.contains("exit status 3"),
        "{}",
        failed.stderr
    );
    let mut running = place.start(&["load", "timers"]);
    common::until("the load", || place.processes().len() > 1);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(!running.is_over(), "without -D it goes on");
    running.signal(libc::SIGINT);
    running.end().expect(0);
    place.await_silence();
    assert_eq!(place.entries(), [""; 0]);
}

#[test]
fn completions_are_valid_for_their_shells() {
    let place = Place::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let text = place.run(&["completions", shell]).expect(0).stdout;
        for word in ["qualify", "deadline", "openmetrics"] {
            // zsh and fish complete the values of --format after the flag.
            assert!(
                text.contains(word) || word == "openmetrics",
                "{shell}: no {word}"
            );
        }
        assert!(
            !text.contains("__punctual") && !text.contains("load-worker"),
            "{shell}"
        );
        if has(shell) && shell != "powershell" && shell != "elvish" {
            fs::write(place.path().join("script"), &text).unwrap();
            let mut command = place.command(shell);
            command.args(["-n", "script"]);
            let checked = Running::start(command).end().expect(0);
            assert_eq!(checked.stderr, "", "{shell}");
        }
    }
    let text = place.run(&["completions", "bash"]).expect(0).stdout;
    fs::write(place.path().join("script"), text).unwrap();
    for (verb, begun, completed) in [
        ("measure", "--dead", "--deadline"),
        ("measure", "timer-", "timer-signal"),
        ("measure", "hardw", "hardware"),
        ("qualify", "--source time", "timerfd timer-signal"),
    ] {
        let (before, last) = begun.rsplit_once(' ').unwrap_or((verb, begun));
        let words = format!("punctual {verb} {begun}");
        let at = words.split(' ').count() - 1;
        let script = format!(
            "source ./script; COMP_WORDS=({words}); COMP_CWORD={at}; \
             _punctual punctual {last} {before}; echo \"${{COMPREPLY[@]}}\""
        );
        let mut command = place.command("bash");
        command.args(["-c", &script]);
        let said = Running::start(command).end().expect(0).stdout;
        assert_eq!(said.trim_end(), completed, "{words}");
    }
}

#[test]
fn the_man_page_renders() {
    let place = Place::new();
    let page = place.run(&["man"]).expect(0).stdout;
    assert!(page.contains(".TH punctual 1"), "{page}");
    need!(needs::program("man"));
    fs::write(place.path().join("punctual.1"), page).unwrap();
    let mut command = place.command("man");
    command
        .args(["--warnings", "-l", "punctual.1"])
        .env("MANWIDTH", "80")
        .env("MAN_KEEP_FORMATTING", "");
    let ended = Running::start(command).end().expect(0);
    assert_eq!(ended.stderr, "");
    for words in [
        "QUALIFY",
        "MEASURE",
        "EXPORT",
        "--deadline",
        "--as-deployed",
        "EXIT STATUS",
    ] {
        assert!(
            ended.stdout.contains(words),
            "no {words} in {}",
            ended.stdout
        );
    }
    // Examples are shown as typed.
    let example = "punctual qualify --deadline 50us -D 1h -a 2,3\n";
    assert!(ended.stdout.contains(example), "{}", ended.stdout);
}

#[test]
fn help_lists_every_verb_and_says_what_statuses_mean() {
    let place = Place::new();
    let help = place.run(&["--help"]).expect(0).stdout;
    for verb in [
        "qualify",
        "measure",
        "load",
        "report",
        "compare",
        "merge",
        "export",
        "completions",
    ] {
        assert!(help.contains(&format!("  {verb} ")), "{help}");
        place.run(&[verb, "--help"]).expect(0);
        place.run(&[verb, "-h"]).expect(0);
    }
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("64 wrong usage"), "{help}");
    let version = place.run(&["--version"]).expect(0).stdout;
    assert_eq!(version, format!("punctual {}\n", env!("CARGO_PKG_VERSION")));
}

/// Output of cyclictest and jitterdebugger that was just made.
#[test]
fn output_of_the_peers_is_compared() {
    need!(needs::program("cyclictest"));
    let place = Place::new();
    let mut command = place.command("cyclictest");
    let cpu = cpus()[0].to_string();
    command.args([
        "-l", "200", "-i", "1000", "-h", "1000", "-q", "-a", &cpu, "-t", "1",
    ]);
    let theirs = Running::start(command).end().expect(0).stdout;
    fs::write(place.path().join("theirs"), theirs).unwrap();
    let one = RUNS.path().join("one");
    let compared = place
        .run(&["compare", "theirs", one.to_str().unwrap()])
        .expect(0)
        .stdout;
    assert!(compared.contains("cyclictest"), "{compared}");
}
