//! Nonsense on the command line: one line that names the error and the
//! expected form, exit status 64, nothing started and nothing left behind.

use crate::common;
use std::fs;
use std::os::unix::process::CommandExt;

use crate::common::{Place, cpus, need, needs};

/// Flags of the measuring verbs with nonsense values, and the parts of the error.
const FLAGS: &[(&[&str], &[&str])] = &[
    (&["noise", "--gap", "0"], &["--gap", "such as 100us"]),
    (&["noise", "--gap", "-5"], &["--gap", "such as 100us"]),
    (&["noise", "--gap", "tiny"], &["--gap", "such as 100us"]),
    (
        &["noise", "--runtime", "0"],
        &["--runtime", "such as 100us"],
    ),
    (
        &["noise", "--runtime", "90%"],
        &["--runtime", "such as 100us"],
    ),
    (
        &["hardware", "--period", "1e9"],
        &["--period", "such as 100us"],
    ),
    (
        &["hardware", "--method", "smi"],
        &["--method", "hwlat, polling"],
    ),
    (&["hardware", "--method", ""], &["--method", "hwlat"]),
    (
        &["--gap", "5"],
        &[
            "--gap: only measure noise and measure hardware has it",
            "not nanosleep",
        ],
    ),
    (&["tcp", "h", "--size", "63"], &["--size", "64 to 1048576"]),
    (&["tcp", "h", "--size", "64,"], &["--size", "64 to 1048576"]),
    (&["tcp", "h", "--size", "-5"], &["--size", "64 to 1048576"]),
    (&["tcp", "h", "--burst", "0"], &["--burst", "1 to 1024"]),
    (&["tcp", "h", "--burst", "1e9"], &["--burst", "1 to 1024"]),
    (&["udp", "h", "--txtime", "0"], &["--txtime", "expected"]),
    (
        &["udp", "h", "--txtime", "999ns"],
        &["--txtime 999 ns: expected 1 µs to 100 ms"],
    ),
    (
        &["raw", "h", "--txtime", "101ms"],
        &["--txtime 101 ms: expected 1 µs to 100 ms"],
    ),
    (
        &["tcp", "h", "--txtime", "1ms"],
        &["--txtime: TCP itself decides when it sends: use udp or raw"],
    ),
    (
        &["udp", "h", "--txtime", "1ms", "--no-stamps"],
        &["--txtime with --no-stamps", "nothing shows"],
    ),
    (
        &["--txtime", "1ms"],
        &["--txtime: only measure tcp, udp and raw"],
    ),
    (
        &["udp", "h", "--timeout", "0"],
        &["--timeout", "such as 60"],
    ),
    (
        &["udp", "h", "--timeout", "x"],
        &["--timeout", "such as 60"],
    ),
    (
        &["--token-file", "f"],
        &["--token-file", "tcp, udp and raw"],
    ),
    (&["--no-stamps"], &["--no-stamps", "tcp, udp and raw"]),
    (&["udp"], &["measure udp", "HOST"]),
    (&["-p", "0"], &["--priority", "from 1 to 99"]),
    (&["-p", "100"], &["--priority", "from 1 to 99"]),
    (&["-p", "-1"], &["--priority", "from 1 to 99"]),
    (&["-p", "high"], &["--priority", "from 1 to 99"]),
    (&["-p", "4294967376"], &["--priority", "from 1 to 99"]),
    (&["-p", ""], &["--priority", "from 1 to 99"]),
    (
        &["-p", "80", "--policy", "other"],
        &["--priority", "fifo or rr"],
    ),
    (&["--policy", "deadline"], &["--policy", "fifo, rr, other"]),
    (&["--policy", ""], &["--policy", "fifo, rr, other"]),
    (&["-i", "0"], &["-i", "from 1us to 1h"]),
    (&["-i", "-5"], &["-i", "from 1us to 1h"]),
    (&["-i", "999ns"], &["-i", "from 1us to 1h"]),
    (&["-i", "2h"], &["-i", "from 1us to 1h"]),
    (&["-i", "1e400"], &["-i", "from 1us to 1h"]),
    (&["-i", "1 parsec"], &["-i", "from 1us to 1h"]),
    (&["--interval", "random"], &["--interval", "fixed, primes"]),
    (&["--interval", "-5"], &["--interval", "fixed, primes"]),
    (&["--interval", "0"], &["--interval", "from 1us to 1h"]),
    (&["-d", "1"], &["--distance", "same interval"]),
    (
        &["--seed", "-1", "--interval", "primes"],
        &["--seed", "whole number"],
    ),
    (
        &["--seed", "0x5", "--interval", "primes"],
        &["--seed", "whole number"],
    ),
    (
        &["--seed", "18446744073709551616", "--interval", "primes"],
        &["--seed", "whole number"],
    ),
    (&["--seed", "5"], &["--seed", "--interval primes"]),
    (&["-a", ""], &["--affinity", "expected a CPU list"]),
    (&["-a", ","], &["--affinity", "expected a CPU list"]),
    (&["-a", "x"], &["--affinity", "expected a CPU list"]),
    (&["-a", "-1"], &["--affinity", "expected a CPU list"]),
    (&["-a", "1-"], &["--affinity", "expected a CPU list"]),
    (&["-a", "5-3"], &["--affinity", "expected a CPU list"]),
    (&["-a", "0-8191"], &["--affinity", "not online"]),
    (
        &["-a", "0-65535"],
        &["--affinity", "highest CPU number, 8191"],
    ),
    (
        &["-a", "0-99999999999"],
        &["--affinity", "expected a CPU list"],
    ),
    (&["-a", "6000"], &["--affinity", "not online; online: "]),
    (&["-a", "!0-6000"], &["--affinity", "expected a CPU list"]),
    (&["-t", "0"], &["--threads", "from 1 to 4096"]),
    (&["-t", "-1"], &["--threads", "from 1 to 4096"]),
    (&["-t", "4097"], &["--threads", "from 1 to 4096"]),
    (&["-t", "two"], &["--threads", "from 1 to 4096"]),
    (&["-D", "0"], &["--duration", "such as 60, 500ms, 5m"]),
    (&["-D", "-1"], &["--duration", "such as 60, 500ms, 5m"]),
    (&["-D", "5x"], &["--duration", "such as 60, 500ms, 5m"]),
    (&["-D", "1e3"], &["--duration", "such as 60, 500ms, 5m"]),
    (
        &["-D", "99999999999999999999"],
        &["--duration", "such as 60, 500ms, 5m"],
    ),
    (
        &["-D", "18446744073s"],
        &["--duration", "such as 60, 500ms, 5m"],
    ),
    (&["-D", "100000d"], &["--duration", "such as 60, 500ms, 5m"]),
    (
        &["-D", "1s", "-i", "1s"],
        &["-D", "longer than the interval of 1 s"],
    ),
    (&["-D", "1", "-D", "2"], &["--duration", "multiple times"]),
    (&["-l", "0"], &["--loops", "from 1"]),
    (&["-l", "-1"], &["--loops", "from 1"]),
    (&["-l", "1.5"], &["--loops", "from 1"]),
    (&["-l", "18446744073709551616"], &["--loops", "from 1"]),
    (&["-b", "0"], &["--breaktrace", "a bare number is in us"]),
    (&["-b", "-1"], &["--breaktrace", "a bare number is in us"]),
    (&["-b", "soon"], &["--breaktrace", "a bare number is in us"]),
    (&["--deadline", "0"], &["--deadline", "such as 100us"]),
    (&["--deadline", "0ns"], &["--deadline", "such as 100us"]),
    (&["--deadline", "-5us"], &["--deadline", "such as 100us"]),
    (&["--deadline", "1e400"], &["--deadline", "such as 100us"]),
    (&["--deadline", "NaN"], &["--deadline", "such as 100us"]),
    (&["--deadline", "inf"], &["--deadline", "such as 100us"]),
    (
        &["--deadline", "5 fortnights"],
        &["--deadline", "such as 100us"],
    ),
    (&["--deadline", ""], &["--deadline", "such as 100us"]),
    (&["--deadline", "0.1ns"], &["--deadline", "such as 100us"]),
    (&["--miss", "1"], &["--miss", "from 0", "below 1"]),
    (&["--miss", "-1e-9"], &["--miss", "from 0", "below 1"]),
    (&["--miss", "NaN"], &["--miss", "from 0", "below 1"]),
    (&["--miss", "1e400"], &["--miss", "from 0", "below 1"]),
    (&["--episodes", "0/h"], &["--episodes", "2/h"]),
    (&["--episodes", "-1/h"], &["--episodes", "2/h"]),
    (&["--episodes", "NaN/h"], &["--episodes", "2/h"]),
    (&["--episodes", "1e9/h"], &["--episodes", "2/h"]),
    (&["--episodes", "2"], &["--episodes", "2/h"]),
    (&["--episodes", "2/week"], &["--episodes", "2/h"]),
    (&["--miss", "never"], &["--miss", "from 0", "below 1"]),
    (&["--max", "0"], &["--max", "such as 100us"]),
    (&["--max", "-1us"], &["--max", "such as 100us"]),
    (
        &["--percentile", "99"],
        &["--percentile", "such as 99.99=50us"],
    ),
    (
        &["--percentile", "100=5us"],
        &["--percentile", "such as 99.99=50us"],
    ),
    (
        &["--percentile", "-1=5us"],
        &["--percentile", "such as 99.99=50us"],
    ),
    (
        &["--percentile", "NaN=5us"],
        &["--percentile", "such as 99.99=50us"],
    ),
    (
        &["--percentile", "99=0"],
        &["--percentile", "such as 99.99=50us"],
    ),
    (
        &["--percentile", "=5us"],
        &["--percentile", "such as 99.99=50us"],
    ),
    (
        &["--confidence", "0.4"],
        &["--confidence", "from 0.5 to 0.999999"],
    ),
    (&["--on-breach", "true"], &["--breaktrace"]),
    (
        &["--explain-above", "x"],
        &["--explain-above", "a time above 0"],
    ),
    (
        &["--explain-above", "0"],
        &["--explain-above", "a time above 0"],
    ),
    (
        &["--stack-above", "0"],
        &["--stack-above", "a time above 0"],
    ),
    (
        &["--no-explain", "--stack-above", "9"],
        &["--stack-above", "--no-explain"],
    ),
    (
        &["--confidence", "1"],
        &["--confidence", "from 0.5 to 0.999999"],
    ),
    (
        &["--confidence", "95"],
        &["--confidence", "from 0.5 to 0.999999"],
    ),
    (
        &["--confidence", "NaN"],
        &["--confidence", "from 0.5 to 0.999999"],
    ),
    (
        &["--load", "makework"],
        &["--load", "standard", "hackbench"],
    ),
    (&["--load", ""], &["--load"]),
    (
        &["--load", "cpu,makework"],
        &["--load", "standard", "hackbench"],
    ),
    (
        &["--load", "hackbench:groups=0"],
        &["--load", "groups", "from 1 to"],
    ),
    (&["--load", "cpu:sped=5"], &["--load", "'sped'", "workers"]),
    (
        &["--load", "yes >/dev/null", "--load-work", "much"],
        &["--load-work", "'much'", "expected"],
    ),
    (&["--load-work", "5"], &["--load-work", "a command"]),
    (
        &["--load-class", "realtime"],
        &["--load-class", "other, batch or idle"],
    ),
    (&["--tuned=nonsense"], &["--tuned", "'nonsense'"]),
    (&["--tuned=ksm,"], &["--tuned"]),
    (&["--tuned", "--as-deployed"], &["--tuned", "--as-deployed"]),
    (&["--state", "here"], &["--tuned"]),
    (&["-o", "/proc/nowhere/run"], &["-o", "/proc/nowhere/run"]),
    (&["-o", "/etc"], &["-o", "/etc", "another directory"]),
    (
        &["-o", "/etc/passwd"],
        &["-o", "/etc/passwd", "another directory"],
    ),
    (&["-o", ""], &["-o"]),
    (&["--json", "--live"], &["--json", "--live"]),
    (&["--json", "-q"], &["--json", "--quiet"]),
    (&["--live", "-q"], &["--live", "--quiet"]),
    (&["--nonsense"], &["--nonsense", "--help"]),
    (&["-Z"], &["-Z", "--help"]),
];

#[track_caller]
pub fn refused(arguments: &[&str], wanted: &[&str]) {
    let place = Place::new();
    let ended = place.run(arguments).expect(64);
    let line = &ended.stderr;
    assert_eq!(ended.stdout, "", "{arguments:?}: {line}");
    assert_eq!(line.lines().count(), 1, "{arguments:?}: {line}");
    assert!(
        line.starts_with("punctual: ") && line.ends_with('\n'),
        "{line}"
    );
    assert!(!line.contains("tip:") && !line.contains("Usage"), "{line}");
    for words in wanted {
        assert!(
            line.contains(words),
            "{arguments:?}: no {words:?} in {line}"
        );
    }
    assert_eq!(
        place.entries(),
        [""; 0],
        "{arguments:?} left something behind"
    );
    assert_eq!(
        place.processes(),
        [0_u32; 0],
        "{arguments:?} left a process behind"
    );
}

#[test]
fn nonsense_in_every_flag_of_measuring_is_refused_in_one_line() {
    for (flags, wanted) in FLAGS {
        let ends = flags.contains(&"-D") || flags.contains(&"-l");
        let end: &[&str] = if ends { &[] } else { &["-D", "1"] };
        refused(&[&["measure"], *flags, end].concat(), wanted);
    }
}

#[test]
fn a_flag_without_its_value_is_refused() {
    let valued = [
        ("-p", "--priority"),
        ("--policy", "expected fifo, rr, other"),
        ("-i", "-i <US>"),
        ("--interval", "expected fixed, primes"),
        ("--seed", "--seed"),
        ("-D", "--duration"),
        ("-l", "--loops"),
        ("-b", "--breaktrace"),
        ("--deadline", "--deadline"),
        ("--miss", "--miss"),
        ("--max", "--max"),
        ("--percentile", "--percentile"),
        ("--confidence", "--confidence"),
        ("--explain-above", "--explain-above"),
        ("--stack-above", "--stack-above"),
        ("--size", "--size"),
        ("--burst", "--burst"),
        ("--txtime", "--txtime"),
        ("--timeout", "--timeout"),
        ("--token-file", "--token-file"),
        ("--gap", "--gap"),
        ("--method", "--method"),
        ("--runtime", "--runtime"),
        ("--period", "--period"),
        ("--load", "--load"),
        ("--load-class", "--load-class"),
        ("--load-work", "--load-work"),
        ("-o", "-o"),
    ];
    for (flag, named) in valued {
        refused(&["measure", flag], &[named, "needs a value"]);
    }
    // The next word is a flag, not the value.
    refused(
        &["measure", "-D", "--json"],
        &["--duration", "'--json'", "expected"],
    );
}

#[test]
fn nonsense_for_the_stacks_of_a_program_is_refused_in_one_line() {
    for (flag, wanted) in [
        ("--stack-debug=gaurds", "not 'gaurds'"),
        (
            "--stack-debug=",
            "words of audit, audit=0..64, guards, noaccess, leaks",
        ),
        ("--stack-debug=audit=0", "words of audit"),
        ("--stack-debug=audit=-1", "not 'audit=-1'"),
        ("--stack-size=1G", "32K to 2M"),
        ("--stack=heap", "pool"),
    ] {
        let name = flag.split('=').next().unwrap_or_default();
        refused(&["run", flag, "true"], &[name, wanted]);
    }
}

#[test]
fn every_flag_of_the_help_is_in_the_table() {
    let place = Place::new();
    let help = place.run(&["measure", "--help"]).expect(0).stdout;
    let flags: Vec<&str> = help
        .lines()
        .map(str::trim_start)
        .filter(|line| line.starts_with('-'))
        .filter(|line| line.contains('<'))
        .map(|line| {
            line.split([' ', '['])
                .next()
                .unwrap_or("")
                .trim_end_matches(',')
        })
        .collect();
    assert!(flags.len() > 15, "{flags:?}");
    for flag in flags {
        let tried = FLAGS.iter().any(|(flags, _)| flags.contains(&flag));
        assert!(tried, "no nonsense is tried for {flag}");
    }
}

#[test]
fn missing_and_unknown_verbs_are_refused() {
    let verbs = "qualify, measure, check, tune, prove, fit, load, run, explain, watch, lab, ladder, cost, interference, budget, fleet, respond, exec, report, compare, merge, export, completions, help";
    refused(&[], &["a verb is needed", verbs]);
    refused(&["measuer"], &["'measuer'", verbs]);
    refused(&[""], &[verbs]);
    refused(&["--foo"], &["--foo", "`punctual --help`"]);
    refused(&["-p", "80"], &["-p", "`punctual --help`"]);
}

#[test]
fn nonsense_for_the_other_verbs_is_refused_in_one_line() {
    refused(&["measure", "sundial"], &["PROBE", "nanosleep", "futex"]);
    refused(
        &["qualify", "--source", "sundial"],
        &["--source", "nanosleep", "futex"],
    );
    refused(
        &["measure", "timerfd", "futex"],
        &["'futex'", "`punctual measure --help`"],
    );
    let table: &[(&[&str], &[&str])] = &[
        (&["-a", "6000"], &["6000", "not online"]),
        (&["-a", "x"], &["--affinity"]),
        (&["-p", "0"], &["--priority", "from 1 to 99"]),
        (&["-p", "high"], &["--priority", "from 1 to 99"]),
        (&["--pid", "0"], &["--pid"]),
        (&["--pid", "x"], &["--pid"]),
        (&["--pid", "4194305"], &["--pid 4194305", "no such process"]),
        (&["--sample", "0"], &["--sample", "such as 60"]),
        (&["--sample"], &["--sample", "needs a value"]),
        (&["a", "--sample", "1"], &["--sample"]),
        (&["--explain", "swop"], &["--explain", "swap"]),
        (&["--explain", ""], &["--explain"]),
        (&["--explain"], &["--explain", "needs a value"]),
        (&["--snapshot"], &["--snapshot", "needs a value"]),
        (&["--html"], &["--html", "needs a value"]),
        (&["--junit"], &["--junit", "needs a value"]),
        (&["a", "--pid", "1"], &["--pid"]),
        (&["a", "--snapshot", "b"], &["--snapshot"]),
        (&["--json", "-v"], &["--json"]),
        (&["a", "b", "c"], &["'c'"]),
    ];
    for (flags, wanted) in table {
        refused(&[&["check"], *flags].concat(), wanted);
    }
    refused(&["load", "none"], &["LOAD", "nothing would run"]);
    refused(&["load", "makework"], &["LOAD", "hackbench"]);
    refused(&["load", "cpu", "-D", "0"], &["--duration", "such as 60"]);
    refused(
        &["load", "cpu", "-a", "6000"],
        &["--affinity", "not online"],
    );
    refused(
        &["load", "cpu", "--load-class", "rt"],
        &["--load-class", "other, batch or idle"],
    );
    refused(&["load", "cpu", "--", "-g", "10"], &["for hackbench only"]);
    refused(
        &["load", "hackbench", "--", "-g", "x"],
        &["groups", "from 1 to"],
    );
    refused(&["budget"], &["<FILE>", "`punctual budget --help`"]);
    refused(&["budget", "a", "b"], &["'b'"]);
    refused(
        &["budget", "a", "--deadline", "0"],
        &["--deadline", "such as 100us"],
    );
    refused(&["budget", "a", "--miss", "1"], &["--miss"]);
    refused(&["budget", "a", "--confidence", "2"], &["--confidence"]);
    refused(&["budget", "a", "--json=x"], &["--json"]);
    refused(&["report"], &["<RUN>", "`punctual report --help`"]);
    refused(&["compare"], &["two runs (A B)", "A1 A2 -- B1 B2"]);
    refused(&["compare", "a", "b", "c"], &["3 runs", "`--`"]);
    refused(&["merge"], &["<RUN>", "`punctual merge --help`"]);
    refused(
        &["export", "run"],
        &["--format", "`punctual export --help`"],
    );
    refused(
        &["export", "run", "--format", "xls"],
        &["--format", "cyclictest", "openmetrics", "csv"],
    );
    refused(
        &["completions"],
        &["<SHELL>", "`punctual completions --help`"],
    );
    refused(
        &["completions", "csh"],
        &["<SHELL>", "bash, elvish, fish, powershell, zsh"],
    );
}

#[test]
fn a_cpu_that_this_machine_does_not_have_is_refused() {
    let absent = cpus().last().map_or(1, |last| last + 1000).to_string();
    let place = Place::new();
    let ended = place.run(&["measure", "-D", "1", "-a", &absent]).expect(64);
    for words in ["--affinity", &absent] {
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
    assert_eq!(place.entries(), [""; 0]);
}

#[test]
fn a_directory_that_is_not_empty_or_not_writable_is_refused() {
    let place = Place::new();
    fs::create_dir(place.path().join("full")).unwrap();
    fs::write(place.path().join("full/notes"), "mine").unwrap();
    let ended = place.run(&["measure", "-D", "1", "-o", "full"]).expect(64);
    assert!(
        ended.stderr.contains("-o") && ended.stderr.contains("full"),
        "{}",
        ended.stderr
    );
    assert_eq!(
        fs::read_to_string(place.path().join("full/notes")).unwrap(),
        "mine"
    );
    assert_eq!(fs::read_dir(place.path().join("full")).unwrap().count(), 1);

    need!(needs::root());
    let theirs = place.path().join("punctual");
    common::copy_program(common::program(), &theirs);
    fs::create_dir(place.path().join("locked")).unwrap();
    for output in [None, Some("run"), Some("/etc/punctual-run")] {
        let mut command = place.command(&theirs);
        command
            .current_dir(place.path().join("locked"))
            .uid(65534)
            .gid(65534);
        command.args(["measure", "-D", "1"]);
        command.args(output.map(|output| format!("-o{output}")));
        let ended = common::Running::start(command).end().expect(1);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        let named = ended.stderr.starts_with("punctual: -o: ");
        assert_eq!(named, output.is_some(), "{}", ended.stderr);
        assert!(
            ended.stderr.contains("ermission denied"),
            "{}",
            ended.stderr
        );
    }
    assert_eq!(
        fs::read_dir(place.path().join("locked")).unwrap().count(),
        0
    );
}

#[test]
fn a_run_that_cannot_start_leaves_nothing_behind() {
    let place = Place::new();
    let mut command = place.command(common::program());
    command.env("TMPDIR", "/nonexistent");
    command.args(["measure", "-D", "1", "--load", "files"]);
    let ended = common::Running::start(command).end().expect(1);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("/nonexistent"), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
    assert_eq!(place.entries(), [""; 0]);
    place.await_silence();

    // A directory that existed before remains, as empty as it was.
    fs::create_dir(place.path().join("mine")).unwrap();
    let mut command = place.command(common::program());
    command.env("TMPDIR", "/nonexistent");
    command.args([
        "measure",
        "-D",
        "1",
        "--samples",
        "--load",
        "files",
        "-o",
        "mine",
    ]);
    common::Running::start(command).end().expect(1);
    assert_eq!(place.entries(), ["mine"]);
    assert_eq!(fs::read_dir(place.path().join("mine")).unwrap().count(), 0);
}
