//! The progress of a lab: a line for each finished cell, and on a terminal one that is
//! redrawn in place.

use super::common::{Place, Running, need, needs, program};
use super::{HANGS, ready};

/// Cells that all end soon, without a result.
const SHORT: [&str; 11] = [
    "lab",
    "--kernel",
    "standard",
    "--load",
    "idle,cpu,fork",
    "-j",
    "1",
    "--host-limit",
    "1s",
    "-o",
    "here",
];

#[test]
fn a_log_has_a_line_for_each_cell_and_the_time_left() {
    need!(ready());
    let place = Place::new();
    let ended = super::lab(&place, &SHORT[1..]).expect(1);
    let lines: Vec<&str> = ended.stdout.lines().collect();
    let begins = [
        "1 of 3  standard, idle: ",
        "2 of 3  standard, cpu: ",
        "3 of 3  standard, fork: ",
    ];
    assert_eq!(lines.len(), begins.len(), "{}", ended.stdout);
    for (at, (line, begin)) in lines.iter().zip(begins).enumerate() {
        assert!(line.starts_with(begin), "{}", ended.stdout);
        assert_eq!(line.ends_with(" left"), at < 2, "{}", ended.stdout);
        assert!(!line.contains(['\r', '\x1b']), "{line:?}");
    }
    assert!(!ended.stderr.contains("cells done"), "{}", ended.stderr);
    // The output for programs contains none of it.
    for flag in ["--json", "-q"] {
        let ended = super::lab(&place, &[&SHORT[1..], &[flag]].concat()).expect(1);
        assert_eq!(ended.stdout, "", "{flag}");
        assert!(
            !ended.stderr.contains("cells done"),
            "{flag}: {}",
            ended.stderr
        );
    }
}

#[test]
fn on_a_terminal_a_line_is_redrawn_and_removed() {
    need!(ready());
    need!(needs::program("script"));
    let place = Place::new();
    let words = format!("{} {}", program().display(), SHORT.join(" "));
    let mut command = place.command("script");
    command
        .args(["-q", "-e", "-c", &words, "/dev/null"])
        .env("TERM", "xterm");
    let ended = Running::start(command).end_within(HANGS).expect(1);
    let shown = ended.stdout;
    for words in [
        "\r0 of 3 cells done, 1 running\x1b[K",
        "\r1 of 3 cells done, ",
        "\r2 of 3 cells done, ",
    ] {
        assert!(shown.contains(words), "no {words:?} in {shown:?}");
    }
    for line in shown
        .split('\n')
        .filter(|line| line.contains("  standard, "))
    {
        let (before, _) = line.split_once(" of 3  ").expect("a count");
        assert!(before[..before.len() - 1].ends_with("\r\x1b[K"), "{line:?}");
    }
    // None of it remains at the end.
    let last = shown.rfind("cells done").expect("it was drawn");
    assert!(shown[last..].contains("\r\x1b[K"), "{shown:?}");
}
