//! Words that a user types by habit or by mistake: cyclictest's spellings, misspelt names, `help`,
//! and the completions of shells.

use crate::common;
use std::fs;

use crate::common::{Place, Running, need, needs};

/// Runs a command line that must be refused with one line that contains all of `wanted`.
#[track_caller]
fn refused(arguments: &str, wanted: &[&str]) -> String {
    let place = Place::new();
    let words: Vec<&str> = arguments.split_whitespace().collect();
    let ended = place.run(&words).expect(64);
    assert_eq!(ended.stdout, "", "{arguments}");
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    for words in wanted {
        assert!(
            ended.stderr.contains(words),
            "{arguments}: no {words:?} in {}",
            ended.stderr
        );
    }
    assert_eq!(place.entries(), [""; 0], "{arguments}");
    ended.stderr
}

#[test]
fn cyclictests_histogram_flag_is_not_a_request_for_help() {
    for arguments in [
        "measure -h400",
        "measure -h 400",
        "measure -h=400",
        "measure -qh100",
        "measure -p99 -m -qh 100 -D 1",
        "qualify -h400",
        "measure -H400 -D 1",
        "measure --histogram=400",
        "measure --histofall 400",
        "measure -t -h400",
        "-h400",
        "-p 99 -h 400",
        "lab -- measure -h400",
    ] {
        refused(
            arguments,
            &["always kept", "punctual export DIR --format cyclictest"],
        );
    }
    let place = Place::new();
    for arguments in [
        "measure -h",
        "measure -qh",
        "measure -h -l 5",
        "qualify -h timerfd",
        "-h",
    ] {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let ended = place.run(&words).expect(0);
        assert!(ended.stdout.contains("Usage: punctual"), "{arguments}");
    }
    // The advised command line gives the promised result.
    place.run(&["measure", "-l", "50", "-q", "-o", "DIR"]);
    let shown = place
        .run(&["export", "DIR", "--format", "cyclictest"])
        .expect(0)
        .stdout;
    assert!(shown.contains("# Histogram"), "{shown}");
}

#[test]
fn a_value_is_never_taken_for_a_flag() {
    let place = Place::new();
    // The value of -o, and that of a flag in one word with its letter.
    for (arguments, directory) in [
        ("measure -l 5 -q -o -h400", "-h400"),
        ("measure -l5 -qoh400", "h400"),
    ] {
        let words: Vec<&str> = arguments.split_whitespace().collect();
        let ended = place.run(&words);
        assert!(
            ended.code() != 64 || ended.stderr.contains("-o"),
            "{ended:?}"
        );
        let made = place.path().join(directory).is_dir();
        assert_eq!(made, ended.code() != 64, "{arguments}");
    }
}

#[test]
fn cyclictests_flags_work_or_get_a_replacement() {
    for (arguments, wanted) in [
        ("-A 500", &["start at the same instant"][..]),
        ("--aligned=500", &["start at the same instant"]),
        ("--secaligned", &["start at the same instant"]),
        ("-c 1", &["CLOCK_MONOTONIC"]),
        ("--default-system", &["--as-deployed"]),
        ("--laptop", &["--as-deployed"]),
        ("--latency=0", &["--as-deployed"]),
        ("-d 500", &["same interval", "expected 0"]),
        ("--distance=500", &["same interval", "expected 0"]),
        ("-F pipe", &["--live"]),
        ("--histfile=x", &["always kept"]),
        ("--json=file", &["rt-tests-json"]),
        ("--mainaffinity=1", &["-a"]),
        ("-M", &["redrawn"]),
        ("--oscope=5", &["--samples"]),
        ("--priospread", &["-p"]),
        ("-r", &["nanosleep-relative"]),
        ("-R", &["resolution"]),
        ("-s", &["nanosleep-relative"]),
        ("-x", &["timer-signal"]),
        ("--posix_timers", &["timer-signal"]),
        ("--smi", &["measure hardware"]),
        ("--spike=50", &["--samples"]),
        ("--tracemark -b 5", &["--explain-above"]),
        ("-y fifo", &["--policy"]),
        ("-qM", &["redrawn"]),
        ("timerfd -n", &["-n", "timerfd"]),
        ("-i 500 --interval 1000", &["-i and --interval"]),
    ] {
        let flag = arguments.split([' ', '=']).next().unwrap();
        for verb in ["measure", "qualify"] {
            if verb == "qualify" && arguments == "timerfd -n" {
                continue;
            }
            let line = refused(&format!("{verb} {arguments}"), wanted);
            let letter = flag.replace("-q", "-");
            let named = flag == "timerfd" || line.contains(&letter) || flag == "-d";
            assert!(named, "{verb} {arguments}: {line}");
        }
    }
}

#[test]
fn cyclictests_usual_command_lines_measure() {
    let cpus = common::cpus().len();
    for (arguments, interval_ns, threads) in [
        ("-p99 -i1000 -l20 -q", 1_000_000, cpus),
        ("-m -S -n -u -p 90 -d 0 -l 20 -q", 1_000_000, cpus),
        ("-mSn -p90 -d0 -l20 -q", 1_000_000, cpus),
        ("-t -a -l 20 -q", 1_000_000, cpus),
        ("-a -t 1 -l 20 -q", 1_000_000, 1),
        (
            "--smp --mlockall --priority 80 --interval 500 --loops=20 --quiet",
            500_000,
            cpus,
        ),
        (
            "--interval=2000 --threads --affinity --distance=0 -l 20 -q",
            2_000_000,
            cpus,
        ),
    ] {
        let place = Place::new();
        let mut words = vec!["measure"];
        words.extend(arguments.split_whitespace());
        let ended = place.run(&words);
        let record = place.record();
        assert!([0, 4].contains(&ended.code()), "{ended:?}");
        assert_eq!(
            record["request"]["interval"]["interval_ns"], interval_ns,
            "{arguments}"
        );
        let spared = usize::from(cpus >= 4 && threads == cpus);
        let found = record["threads"].as_array().expect("threads").len();
        assert_eq!(found, threads - spared, "{arguments}");
    }
}

#[test]
fn a_misspelt_word_gets_a_suggestion() {
    for (arguments, meant) in [
        ("qualifi", "'qualify'"),
        ("mesure -l 5", "'measure'"),
        ("hlep", "'help'"),
        ("help qualifi", "'qualify'"),
        ("help lab rnu", "'run'"),
        ("lab comparee a b", "'compare'"),
        ("qualify --deadlin 5us", "'--deadline'"),
        ("measure --laod cpu", "'--load'"),
        ("watch --sytem", "'--system'"),
        ("run --lok true", "'--lock'"),
        ("--versoin", "'--version'"),
        ("measure noize", "'noise'"),
        ("qualify --source timerfdd", "'timerfd'"),
        ("measure --policy fiffo", "'fifo'"),
        ("measure --interval prims", "'primes'"),
        ("measure --load standart", "'standard'"),
        ("measure --load cpu,frok", "'fork'"),
        ("measure --load cpu:workers=1,hackbenhc", "'hackbench'"),
        ("measure --load-class bacth", "'batch'"),
        ("measure hardware --method hwlta", "'hwlat'"),
        ("load standrad", "'standard'"),
        ("export x --format openmetric", "'openmetrics'"),
        ("export x --format cyclic", "'cyclictest'"),
        ("run --stack poool true", "'pool'"),
        ("completions bassh", "'bash'"),
        ("lab -- measure --deadlin 5", "'--deadline'"),
        ("lab --load frok", "'fork'"),
        (
            "check --explain tranparent-hugepages",
            "'transparent-hugepages'",
        ),
        ("tune apply transparent-hugpages", "'transparent-hugepages'"),
        (
            "qualify --source nano",
            "'nanosleep' or 'nanosleep-relative'",
        ),
    ] {
        refused(arguments, &[&format!("did you mean {meant}?")]);
    }
    let place = Place::new();
    let ended = place.run(&["lab", "run", "rt-vs-standar"]).expect(1);
    assert!(
        ended.stderr.contains("did you mean 'rt-vs-standard'?"),
        "{}",
        ended.stderr
    );
    // No name is similar.
    for arguments in [
        "xyzzy",
        "measure --xyzzy",
        "measure --load xyzzy",
        "lab xyzzy",
        "check --explain xyzzy",
        "tune plan xyzzy",
    ] {
        let line = refused(arguments, &["xyzzy"]);
        assert!(!line.contains("did you mean"), "{line}");
    }
}

#[test]
fn an_unknown_finding_names_similar_ones_and_where_all_are_listed() {
    for arguments in [
        "check --explain hugepage-size",
        "tune plan hugepage-size",
        "tune apply vmstat-interval hugepage-size",
        "check --explain NONSENSE",
        "tune apply NONSENSE",
    ] {
        let line = refused(arguments, &["`punctual check -v`", "docs/findings.md"]);
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.len() < 300, "{line}");
        let is_similar = arguments.contains("hugepage-size");
        assert_eq!(line.contains("did you mean"), is_similar, "{line}");
        assert_eq!(
            line.contains("'hugepages' or 'transparent-hugepages'"),
            is_similar,
            "{line}"
        );
    }
}

#[test]
fn help_with_a_verb_shows_the_verbs_help() {
    let place = Place::new();
    let said = |words: &[&str]| place.run(words).expect(0).stdout;
    assert_eq!(said(&["help"]), said(&["--help"]));
    for verb in ["qualify", "measure", "run", "lab", "completions", "help"] {
        assert_eq!(said(&["help", verb]), said(&[verb, "--help"]), "{verb}");
    }
    assert_eq!(
        said(&["help", "lab", "run"]),
        said(&["lab", "run", "--help"])
    );
    refused("help nothing", &["unknown verb 'nothing'", "qualify"]);
    refused("help qualify measure", &["qualify"]);
    refused("help --load", &["--load"]);
    refused("help run -- ls", &["expected a verb"]);
}

/// The first words of flags' help: a verb that says what the flag does.
const IMPERATIVES: &str = "Accepted Add Allow Answer Boot Bring Change Check Choose Compare Copy Count \
                           Don't End Explain Export Find Give Interrupt Judge Keep Leave Let List \
                           Listen Load Lock Make Measure Merge Name Pass Poll Print Probe Qualify Read \
                           Refuse Require Restore Run Screen Send Set Show Start Stop Switch \
                           Test Verify Wait Watch Write";

#[test]
fn the_help_of_every_flag_says_what_it_does_and_in_which_unit() {
    fn check(command: &clap::Command) {
        for verb in command.get_subcommands() {
            check(verb);
            for arg in verb.get_arguments() {
                let whose = format!("{} {}", verb.get_name(), arg.get_id());
                let help = arg
                    .get_help()
                    .unwrap_or_else(|| panic!("{whose}"))
                    .to_string();
                let first = help.split([' ', ':']).next().unwrap_or_default();
                assert!(
                    IMPERATIVES.split(' ').any(|it| it == first),
                    "{whose}: {help}"
                );
                assert!(!help.ends_with('.'), "{whose}: {help}");
                let values = arg.get_value_names().unwrap_or_default();
                let value = values.first().map_or("", |name| name.as_str());
                let timed = ["US", "TIME", "P=TIME", "NAME=TIME"].contains(&value);
                if timed && !arg.is_hide_set() {
                    let unit = ["in us or with a unit", "in s or with a unit"];
                    assert!(
                        unit.iter().any(|unit| help.contains(unit)),
                        "{whose}: {help}"
                    );
                }
            }
        }
    }
    check(&<punctual_tool::cli::Cli as clap::CommandFactory>::command());
}

/// The text typed after `punctual`, and the shell's completion.
const COMPLETED: &[(&str, &str)] = &[
    ("measure --load hackb", "hackbench"),
    ("measure --load cpu,for", "cpu,fork"),
    ("qualify --load stan", "standard"),
    ("load hackb", "hackbench"),
    ("lab --load idle,nat", "idle,native"),
    ("lab run --load hackb", "hackbench"),
    ("lab --kernel stan", "standard"),
    ("lab --kernel rt,stan", "rt,standard"),
    ("lab run rt-vs", "rt-vs-standard"),
    ("lab run -j 2 ladd", "ladder"),
    ("lab comp", "compare"),
    ("export x --format junit", "junit"),
    ("export x --format openm", "openmetrics"),
    ("measure hardw", "hardware"),
    ("measure --load-class ba", "batch"),
    ("help qual", "qualify"),
];

#[test]
fn bash_completes_values() {
    need!(needs::program("bash"));
    let place = Place::new();
    let script = place.run(&["completions", "bash"]).expect(0).stdout;
    fs::write(place.path().join("script"), script).unwrap();
    for (typed, completed) in COMPLETED {
        let lines = format!(
            "source ./script; COMP_WORDS=(punctual {typed}); n=${{#COMP_WORDS[@]}}; \
             COMP_CWORD=$((n - 1)); \
             _punctual punctual \"${{COMP_WORDS[n-1]}}\" \"${{COMP_WORDS[n-2]}}\"; \
             echo \"${{COMPREPLY[@]}}\""
        );
        let mut command = place.command("bash");
        command.args(["-c", &lines]);
        let said = Running::start(command).end().expect(0).stdout;
        assert_eq!(said.trim_end(), *completed, "{typed}");
    }
}

#[test]
fn fish_completes_values() {
    need!(needs::program("fish"));
    let place = Place::new();
    let script = place.run(&["completions", "fish"]).expect(0).stdout;
    fs::write(place.path().join("script"), script).unwrap();
    for (typed, completed) in COMPLETED {
        let mut command = place.command("fish");
        command.env("HOME", place.path());
        command.args([
            "-c",
            &format!("source ./script; complete -C 'punctual {typed}'"),
        ]);
        let said = Running::start(command).end().expect(0).stdout;
        let words: Vec<&str> = said
            .lines()
            .filter_map(|line| line.split('\t').next())
            .collect();
        assert_eq!(words, [*completed], "{typed}");
    }
}

#[test]
fn zsh_completes_values() {
    need!(needs::program("zsh"));
    let place = Place::new();
    let script = place.run(&["completions", "zsh"]).expect(0).stdout;
    fs::write(place.path().join("_punctual"), script).unwrap();
    for (typed, completed) in COMPLETED {
        // The line editor needs a terminal; it reports itself when it is done.
        let lines = format!(
            "zmodload zsh/zpty\n\
             zpty inner zsh -f -i\n\
             zpty -w inner 'PS1=; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; \
             report() {{ BUFFER=\"punctual {typed}\"; CURSOR=$#BUFFER; zle complete-word; \
             print -r -- \"$BUFFER\" > said; exit }}; zle -N report; bindkey \"^X\" report'\n\
             zpty -w -n inner $'\\x18'\n\
             while zpty -t inner; do zpty -r inner line || break; done\n\
             zpty -d inner\n"
        );
        fs::write(place.path().join("outer"), lines).unwrap();
        let _ = fs::remove_file(place.path().join("said"));
        let mut command = place.command("zsh");
        command.args(["-f", "outer"]).env("HOME", place.path());
        Running::start(command).end();
        let said = fs::read_to_string(place.path().join("said")).unwrap_or_default();
        let last = said.trim_end().split(' ').next_back().unwrap_or_default();
        // A list may be continued.
        assert_eq!(last.trim_end_matches(','), *completed, "{typed}: {said:?}");
    }
}
