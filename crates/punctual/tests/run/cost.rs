//! `cost` as a user runs it: planted costs, runs that are counted, commands that fail, hang, fork and
//! are killed.

use punctual_record::Document;
use std::fs;
use std::time::{Duration, Instant};

use punctual_record::cost::{Cost, CostOutcome};
use punctual_stats::cost::{CostEffect, CostMeasure};

use crate::alone::alone;
use crate::common::{Place, flat, need, needs, until};

/// A command whose work is three times as long where its memory is locked: what locks it is in its
/// environment.
const PLANTED: &str = "n=20000; [ -z \"$PUNCTUAL_RUN\" ] || n=60000; i=0; \
                       while [ $i -lt $n ]; do i=$((i+1)); done";

fn read(place: &Place, name: &str) -> Cost {
    Cost::read(&place.path().join(name)).expect("a cost")
}

fn effect(cost: &Cost, treatment: usize, measure: CostMeasure) -> CostEffect {
    let results = cost.results.as_ref().expect("results");
    let mut effects = results.treatments[treatment].effects.iter();
    *effects.find(|it| it.measure == measure).expect("a measure")
}

/// Lines that runs, and what prepares them, have written.
fn lines(place: &Place, file: &str) -> usize {
    let text = fs::read_to_string(place.path().join(file)).unwrap_or_default();
    text.lines().count()
}

#[test]
fn a_planted_cost_is_named_and_every_run_is_counted() {
    need!(needs::rights());
    let place = Place::new();
    let script = format!("echo run; {PLANTED}");
    let ended = place
        .run(&[
            "cost",
            "--locked",
            "--no-probe",
            "--pairs",
            "6",
            "--warm-ups",
            "2",
            "-o",
            "c",
            "--prepare",
            "echo x >> prepared",
            "--print-to",
            "printed",
            "--seed",
            "7",
            "--",
            "sh",
            "-c",
            &script,
        ])
        .expect(0);
    // Two that don't count, one that tries the treatment, and two of each pair and identical pair.
    let all = 2 + 1 + 2 * 2 * 6;
    assert_eq!(
        (lines(&place, "printed"), lines(&place, "prepared")),
        (all, all)
    );
    assert!(!ended.stdout.contains("\nrun\n"), "{}", ended.stdout);
    let cost = read(&place, "c");
    assert_eq!(
        (cost.runs.len(), &cost.outcome),
        (24, &CostOutcome::Complete)
    );
    assert_eq!(cost.plan.seed, 7);
    let cpu = effect(&cost, 0, CostMeasure::CpuTime);
    assert!(cpu.is_named && cpu.ratio > 1.5, "{cpu:?}");
    let said = flat(&ended.stdout);
    assert!(said.contains("--locked: CPU time × "), "{said}");
    // Both of a pair ran, and one of them with the treatment.
    for pair in 0..6 {
        for treatment in [None, Some(0)] {
            let of = cost.runs.iter();
            let of = of.filter(|run| run.pair == pair && run.treatment == treatment);
            let with: Vec<bool> = of.map(|run| run.with).collect();
            assert!(with == [true, false] || with == [false, true], "{with:?}");
        }
    }
    let report = place.run(&["report", "c"]).expect(0).stdout;
    assert_eq!(report, ended.stdout);
    let json = place.run(&["report", "c", "--json"]).expect(0).json();
    assert_eq!(json["format"], "punctual-cost");
    assert_eq!(json["verdict"], "PASS");
    for flag in ["--html", "--svg"] {
        place.run(&["report", "c", flag, "page"]).expect(64);
    }
}

#[test]
fn real_time_treatments_are_in_force_and_have_a_break_even() {
    need!(needs::rights());
    let _alone = alone();
    let place = Place::new();
    let script = "chrt -p $$ | head -1; grep Cpus_allowed_list /proc/self/status; \
                  grep VmLck /proc/self/status; sleep 0.3";
    let ended = place.run(&[
        "cost",
        "--priority",
        "10",
        "--locked",
        "--isolate",
        "1",
        "--rt-load",
        "0.2",
        "--together",
        "--pairs",
        "6",
        "--quantile",
        "90",
        "-o",
        "c",
        "--print-to",
        "printed",
        "--json",
        "--",
        "sh",
        "-c",
        script,
    ]);
    // On a shared host a load may be throttled; that is then said.
    let json = ended.json();
    let code = if json["verdict"] == "INVALID" { 4 } else { 0 };
    ended.expect(code);
    let printed = fs::read_to_string(place.path().join("printed")).unwrap();
    let count = |part: &str| printed.lines().filter(|line| line.contains(part)).count();
    if crate::common::has("chrt") {
        assert_eq!(
            (count("SCHED_FIFO"), count("SCHED_OTHER")),
            (7, 19),
            "{printed}"
        );
    }
    assert_eq!(count("VmLck:\t       0 kB"), 19, "{printed}");
    let lists: Vec<&str> = printed
        .lines()
        .filter(|line| line.starts_with("Cpus_allowed_list"))
        .collect();
    assert_eq!(lists.len(), 26);
    let full = lists.iter().max_by_key(|line| line.len()).unwrap();
    assert_eq!(
        lists.iter().filter(|line| *line != full).count(),
        7,
        "{lists:?}"
    );
    let cost = read(&place, "c");
    let with = cost
        .runs
        .iter()
        .filter(|run| run.treatment.is_some() && run.with);
    assert!(with.clone().all(|run| run.load.is_some()));
    assert_eq!(cost.runs.iter().filter(|run| run.load.is_some()).count(), 6);
    let wake_ups = |run: &punctual_record::cost::CostRun| {
        run.wake_ups
            .as_ref()
            .map_or(0, |it| it.latency.count + it.skipped)
    };
    // An interval is 1 ms on average, so some 300 in each run.
    assert!(cost.runs.iter().all(|run| wake_ups(run) > 200));
    let results = cost.results.unwrap();
    assert_eq!(results.treatments.len(), 1);
    assert_eq!(results.treatments[0].break_even.len(), 2);
}

#[test]
fn the_time_of_children_counts_and_what_is_left_running_is_ended() {
    let place = Place::new();
    let work = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
    let run = |output: &str, script: &str| {
        place
            .run(&[
                "cost",
                "--isolate",
                "1",
                "--no-probe",
                "--pairs",
                "6",
                "-o",
                output,
                "--",
                "sh",
                "-c",
                script,
            ])
            .expect(0);
        read(&place, output)
    };
    need!(needs::cpus(2));
    let of = |cost: &Cost| {
        let times = cost.runs.iter().map(|run| run.usage.cpu_ns());
        times.min().unwrap() as f64
    };
    let itself = of(&run("itself", work));
    // The grandchild works, and its parent waits.
    let script = format!("sh -c 'sh -c \"$0\"; :' '{work}'; :");
    let grandchild = of(&run("grandchild", &script));
    assert!(grandchild > 0.7 * itself, "{grandchild} {itself}");
    // Nobody waits for one that has ended but us, the subreaper.
    // The pipe says that its work is done, however busy the machine.
    let script =
        format!("rm -f done; mkfifo done; (({work}; echo > done) &) ; read line < done; sleep 0.1");
    let orphan = of(&run("orphan", &script));
    assert!(orphan > 0.7 * itself, "{orphan} {itself}");
    let left = run("left", "setsid sleep 600 & sleep 0.05");
    assert!(left.runs.iter().all(|run| run.left == 1), "{left:?}");
    place.await_silence();
    let said = place.run(&["report", "left"]).expect(0).stdout;
    assert!(said.contains("24 processes in 24 runs"), "{said}");
}

#[test]
fn a_command_that_fails_is_one_line_and_leaves_no_record() {
    let place = Place::new();
    let not_executable = place.path().join("text");
    fs::write(&not_executable, "text").unwrap();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["sh", "-c", "exit 3"], 1, "sh ended with status 3"),
        (&["sh", "-c", "kill -9 $$"], 1, "ended by signal 9"),
        (&["no-such-program-here"], 127, "no-such-program-here"),
        (&["./text"], 126, "./text"),
        (&["sleep", "60"], 1, "had not ended after 300 ms"),
    ];
    for (command, code, says) in cases {
        let begun = Instant::now();
        let flags = [
            "cost",
            "--locked",
            "--no-probe",
            "--limit",
            "300ms",
            "-o",
            "c",
            "--",
        ];
        let flags = match *code {
            1 => [
                "cost",
                "--isolate=1",
                "--no-probe",
                "--limit",
                "300ms",
                "-o",
                "c",
                "--",
            ],
            _ => flags,
        };
        need!(needs::cpus(2));
        let ended = place.run(&[&flags[..], command].concat()).expect(*code);
        assert!(ended.stderr.contains(says), "{says}: {}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert_eq!(place.entries(), ["text"]);
        place.await_silence();
    }
    let prepare = [
        "cost",
        "--isolate",
        "1",
        "--no-probe",
        "--prepare",
        "exit 5",
        "--",
        "true",
    ];
    let ended = place.run(&prepare).expect(1);
    assert!(
        ended
            .stderr
            .contains("--prepare 'exit 5' ended with status 5"),
        "{}",
        ended.stderr
    );
    let accepted = [
        "cost",
        "--isolate",
        "1",
        "--no-probe",
        "--pairs",
        "6",
        "--ignore-failure",
        "-o",
        "c",
        "--",
        "sh",
        "-c",
        "exit 3",
    ];
    place.run(&accepted).expect(0);
    assert!(read(&place, "c").runs.iter().all(|run| run.status == 3));
}

#[test]
fn a_signal_ends_it_and_what_was_run_is_kept() {
    need!(needs::cpus(2));
    let place = Place::new();
    let flags = [
        "cost",
        "--isolate",
        "1",
        "--no-probe",
        "-q",
        "-o",
        "c",
        "--print-to",
        "printed",
        "--",
        "sh",
        "-c",
        "echo x; sleep 0.2",
    ];
    let running = place.start(&flags);
    until("four runs", || lines(&place, "printed") > 4);
    running.signal(libc::SIGINT);
    let ended = running.end().expect(3);
    assert!(
        ended.stdout.starts_with("INCONCLUSIVE: too few pairs"),
        "{}",
        ended.stdout
    );
    let cost = read(&place, "c");
    assert_eq!(cost.outcome, CostOutcome::Stopped);
    assert!(cost.runs.len() >= 2);
    place.await_silence();
}

#[test]
fn a_kill_leaves_no_process_of_the_command() {
    need!(needs::cpus(2));
    let place = Place::new();
    // One that ignores what it can, has a session of its own, and a child.
    let script = "trap '' TERM INT HUP; echo x; setsid sleep 600 & sleep 600";
    let running = place.start(&[
        "cost",
        "--isolate",
        "1",
        "--no-probe",
        "-o",
        "c",
        "--print-to",
        "printed",
        "--",
        "sh",
        "-c",
        script,
    ]);
    until("a run", || lines(&place, "printed") > 0);
    running.signal(libc::SIGKILL);
    drop(running.end());
    place.await_silence();
}

#[test]
fn runs_before_a_reboot_wait_for_those_after_it() {
    let place = Place::new();
    let first = [
        "cost",
        "--across-reboot",
        "--no-probe",
        "--pairs",
        "6",
        "-o",
        "c",
        "--",
        "sh",
        "-c",
        "echo x; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done",
    ];
    // Others of the group could write what it saves, if it let them.
    let mut command = place.command("sh");
    command.args(["-c", "umask 002; exec \"$0\" \"$@\""]);
    command.arg(crate::common::program()).args(first);
    let said = crate::common::Running::start(command)
        .end()
        .expect(0)
        .stdout;
    assert!(said.contains("--resume"), "{said}");
    let resume = ["cost", "--resume", "c"];
    let refused = place.run(&resume).expect(1).stderr;
    assert!(refused.contains("nothing differs"), "{refused}");
    // As if the machine had booted another kernel since, on which all took ten times as long.
    let file = place.path().join("c/cost.json");
    let mut json = crate::common::read_json(&file);
    json["machines"][0]["kernel"] = "5.10.0-other".into();
    for run in json["runs"].as_array_mut().unwrap() {
        for time in ["user_ns", "system_ns", "elapsed_ns"] {
            let ns = run["usage"][time].as_u64().unwrap();
            run["usage"][time] = (ns * 10).into();
        }
    }
    fs::write(&file, json.to_string()).unwrap();
    let said = place.run(&resume).expect(0).stdout;
    for words in [
        "kernel 5.10.0-other → ",
        "were not interleaved",
        "CPU time × 0.",
    ] {
        let said = flat(&said);
        assert!(said.contains(words), "{words}: {said}");
    }
    let cost = read(&place, "c");
    assert_eq!((cost.runs.len(), cost.machines.len()), (24, 2));
    assert!(effect(&cost, 0, CostMeasure::CpuTime).is_named);
    let again = place.run(&resume).expect(1).stderr;
    assert!(again.contains("no runs before a reboot"), "{again}");
    // What others may have written is not executed.
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = place.run(&resume).expect(1).stderr;
    assert!(
        refused.contains("other users may have written"),
        "{refused}"
    );
}
