//! `prove` with nonsense: one line that says what is wrong, nothing changed, no run directory.

use std::fs;
use std::os::unix::process::CommandExt;

use crate::common::{Place, Running, copy_program, need, needs, program};

/// `KNOB` is a file of the test that holds 1.
const REFUSED: &[(&[&str], &[&str])] = &[
    (&[], &["missing <KNOB>", "`punctual prove --help`"]),
    (
        &["vmstat-intervall"],
        &["did you mean 'vmstat-interval'?", "/PATH=VALUE"],
    ),
    (&[""], &["expected a finding", "/PATH=VALUE"]),
    (&["KNOB"], &["expected a finding", "/PATH=VALUE"]),
    (&["KNOB="], &["expected a finding", "/PATH=VALUE"]),
    (&["knob=0"], &["expected a finding", "/PATH=VALUE"]),
    (&["KNOB=1"], &["nothing to switch", "another value"]),
    (&["KNOB=0", "KNOB=0"], &["is named twice"]),
    (&["KNOB=0", "KNOB=2"], &["is named twice"]),
    (&["KNOB=0", "LINK=2"], &["is named twice"]),
    (
        &[
            "/proc/sys/vm/dirty_ratio=7",
            "/proc/sys/vm/dirty_bytes=100000000",
        ],
        &["both change", "one after the other"],
    ),
    (
        &["rt-kernel"],
        &["rt-kernel can't be changed on a running machine"],
    ),
    (&["idle-states"], &["/dev/cpu_dma_latency", "--as-deployed"]),
    (
        &["KNOB=0", "--effect", "0"],
        &["--effect", "from 1 to 1000"],
    ),
    (
        &["KNOB=0", "--effect", "-5"],
        &["--effect", "from 1 to 1000"],
    ),
    (
        &["KNOB=0", "--effect", "1001"],
        &["--effect", "from 1 to 1000"],
    ),
    (
        &["KNOB=0", "--effect", "NaN"],
        &["--effect", "from 1 to 1000"],
    ),
    (
        &["KNOB=0", "--effect", "5", "--on", "max"],
        &["--on", "p99.9"],
    ),
    (&["KNOB=0", "--on", "p99"], &["missing --effect"]),
    (
        &["KNOB=0", "--effect", "5", "--on", "late"],
        &["--on late", "p99.9"],
    ),
    (
        &["KNOB=0", "--path", "h", "--effect", "5", "--on", "excess"],
        &["--on excess", "with --path", "worst, late"],
    ),
    (
        &["KNOB=0", "--path", "h", "--block", "50ms"],
        &["--block", "100 ms or longer"],
    ),
    (&["KNOB=0", "--path", "h"], &["no token", "PUNCTUAL_TOKEN"]),
    (&["KNOB=0", "--over", "udp"], &["missing --path"]),
    (&["KNOB=0", "--size", "64"], &["--size needs --path"]),
    (&["KNOB=0", "--burst", "2"], &["--burst needs --path"]),
    (&["KNOB=0", "--txtime", "9"], &["--txtime needs --path"]),
    (&["KNOB=0", "--timeout", "2"], &["--timeout needs --path"]),
    (
        &["KNOB=0", "--token-file", "f"],
        &["--token-file needs --path"],
    ),
    (&["KNOB=0", "--no-stamps"], &["--no-stamps needs --path"]),
    (&["rto_min=5ms"], &["expected rto_min@HOST"]),
    (&["rto_min@h=5"], &["1ms to 120s"]),
    (&["initcwnd@h=0"], &["1 to 1000"]),
    (&["quickack@h=2"], &["quickack", "no value, or 1"]),
    (&["neighbour@h=stale"], &["neighbour", "permanent"]),
    (
        &["KNOB=0", "--block", "100ms"],
        &["--block", "1 s or longer"],
    ),
    (&["KNOB=0", "--block", "0"], &["--block", "such as 60"]),
    (&["KNOB=0", "--block", "1000d"], &["-D must be longer"]),
    (&["KNOB=0", "--settle", "0"], &["--settle", "such as 60"]),
    (&["KNOB=0", "--settle", "-1"], &["--settle", "such as 60"]),
    (&["KNOB=0", "--pilot", "0"], &["--pilot", "such as 60"]),
    (&["KNOB=0", "--pilot", "long"], &["--pilot", "such as 60"]),
    (
        &["KNOB=0", "--pilot", "20m"],
        &["-D must be longer than --pilot"],
    ),
    (&["KNOB=0", "-D", "60"], &["-D must be longer than --pilot"]),
    (&["KNOB=0", "-l", "5"], &["-l has no meaning", "use -D"]),
    (
        &["KNOB=0", "-b", "50"],
        &["-b has no meaning", "first late"],
    ),
    (
        &["KNOB=0", "--live"],
        &["--live has no meaning", "which knob"],
    ),
    (
        &["KNOB=0", "--miss", "0.1"],
        &["--miss has no meaning", "qualify"],
    ),
    (
        &["KNOB=0", "--max", "9"],
        &["--max has no meaning", "qualify"],
    ),
    (
        &["KNOB=0", "--percentile", "99=9us"],
        &["--percentile has no meaning", "qualify"],
    ),
    (
        &["KNOB=0", "--screen", "--no-screen"],
        &["--screen", "--no-screen"],
    ),
    (&["KNOB=0", "--state"], &["--state", "needs a value"]),
    (&["KNOB=0", "-o", "/etc"], &["-o", "another directory"]),
];

/// A place with a knob that holds 1, a second name of it, and its paths in place of their names.
fn prepared(words: &[&str]) -> (Place, Vec<String>) {
    let place = Place::new();
    let (knob, link) = (place.path().join("knob"), place.path().join("link"));
    fs::write(&knob, "1\n").expect("a knob");
    std::os::unix::fs::symlink(&knob, &link).expect("a link");
    let [knob, link] = [&knob, &link].map(|path| path.display().to_string());
    let words = words
        .iter()
        .map(|word| word.replace("KNOB", &knob).replace("LINK", &link));
    let words = words.collect();
    (place, words)
}

#[track_caller]
fn nothing_is_left(place: &Place) {
    let known = ["knob", "link", "state"];
    let left = place.entries();
    assert!(
        left.iter().all(|it| known.contains(&it.as_str())),
        "{left:?}"
    );
    let value = fs::read_to_string(place.path().join("knob")).expect("it");
    assert_eq!(value, "1\n");
    assert_eq!(place.processes(), [0_u32; 0]);
}

#[track_caller]
fn says(stderr: &str, wanted: &[&str]) {
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.starts_with("punctual: "), "{stderr}");
    for words in wanted {
        assert!(stderr.contains(words), "no {words:?} in {stderr}");
    }
}

#[test]
fn nonsense_for_an_experiment_is_refused_in_one_line_and_nothing_is_left() {
    for (words, wanted) in REFUSED {
        let (place, words) = prepared(words);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let all = [&["prove"], &words[..], &["--state", "state"]].concat();
        let all = &all[..all.len()
            - if words.last() == Some(&"--state") {
                2
            } else {
                0
            }];
        let ended = place.run(all).expect(64);
        assert_eq!(ended.stdout, "", "{words:?}");
        says(&ended.stderr, wanted);
        nothing_is_left(&place);
    }
}

#[test]
fn every_flag_of_an_experiment_is_in_the_table() {
    let help = Place::new().run(&["prove", "--help"]).expect(0).stdout;
    let of_experiment = help
        .lines()
        .skip_while(|line| *line != "Experiment:")
        .take_while(|line| *line != "Probe:");
    let flags: Vec<&str> = of_experiment
        .map(str::trim_start)
        .filter(|line| line.starts_with("--"))
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert!(flags.len() >= 7, "{flags:?}");
    for flag in flags {
        let tried = REFUSED.iter().any(|(words, _)| words.contains(&flag));
        assert!(tried, "no nonsense is tried for {flag}");
    }
}

#[test]
fn a_file_that_is_absent_or_cannot_be_written_is_refused_before_anything_is_measured() {
    let (place, words) = prepared(&["KNOB.absent=0"]);
    let absent = ["prove", &words[0], "--state", "state"];
    let ended = place.run(&absent).expect(1);
    says(&ended.stderr, &["knob.absent", "no such file"]);
    nothing_is_left(&place);
    // Nobody may write it, not even root.
    let read_only = ["prove", "/proc/sys/kernel/ostype=abc", "--state", "state"];
    let ended = place.run(&read_only).expect(1);
    says(
        &ended.stderr,
        &["ostype: can't be written", "nothing was changed"],
    );
    let folder = ["prove", "/proc/sys/kernel=1", "--state", "state"];
    let ended = place.run(&folder).expect(1);
    says(&ended.stderr, &["/proc/sys/kernel", "not a regular file"]);
    nothing_is_left(&place);
}

#[test]
fn without_the_right_to_write_a_knob_nothing_is_measured() {
    need!(needs::root());
    let (place, words) = prepared(&["KNOB=0"]);
    let theirs = place.path().join("state");
    copy_program(program(), &theirs);
    for state in ["own", "/proc/nowhere"] {
        let mut command = place.command(&theirs);
        command.uid(65534).gid(65534);
        command.args(["prove", &words[0], "--state", state]);
        let ended = Running::start(command).end().expect(1);
        says(
            &ended.stderr,
            &["knob: can't be written: permission denied"],
        );
    }
    nothing_is_left(&place);
}

#[test]
fn two_experiments_at_once_are_refused() {
    let (place, words) = prepared(&["KNOB=0"]);
    fs::create_dir(place.path().join("state")).expect("a folder");
    let journal = fs::File::create(place.path().join("state/journal.jsonl")).expect("a journal");
    // As another punctual does while it changes settings.
    journal.lock().expect("a lock");
    let ended = place
        .run(&["prove", &words[0], "--state", "state"])
        .expect(1);
    says(&ended.stderr, &["journal.jsonl", "another punctual"]);
    nothing_is_left(&place);
}
