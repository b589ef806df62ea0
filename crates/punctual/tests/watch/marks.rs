//! `punctual watch --mark` on a program with known passes: its measurements are compared
//! with what the program did.

use crate::common;
use std::fs;
use std::process::Command;

use crate::common::{Place, Running, copy_program, need, needs, said, until};
use crate::known::{Known, marked, programs_of, watch};
use punctual_record::Run;
use punctual_record::watch::{MarkedThread, WatchedMark};
use punctual_report::facts;
use punctual_stats::verdict::Outcome;

const MS: u64 = 1_000_000;

fn mark<'r>(run: &'r Run, name: &str) -> &'r WatchedMark {
    let marks = &run.watch.as_ref().expect("a watch").marks;
    let found = marks.iter().find(|mark| mark.name == name);
    found.unwrap_or_else(|| panic!("no mark {name} among {marks:?}"))
}

fn threads<'r>(mark: &'r WatchedMark, name: &str) -> Vec<&'r MarkedThread> {
    let threads = mark.threads.iter();
    threads.filter(|it| it.task.name == name).collect()
}

fn thread<'r>(mark: &'r WatchedMark, name: &str) -> &'r MarkedThread {
    match threads(mark, name)[..] {
        [one] => one,
        ref others => panic!("{} are named {name}", others.len()),
    }
}

/// Lets the program run under a watch with these marks, and returns the record and the program's
/// counts.
fn went(what: &[&str], marks: &[&str]) -> (Run, std::collections::BTreeMap<String, u64>) {
    let place = Place::new();
    let mut known = Known::start(marked(), what);
    let number = known.pid.to_string();
    let mut arguments = vec![&*number, "-q", "--no-explain"];
    for mark in marks {
        arguments.extend(["--mark", mark]);
    }
    let running = watch(&place, &arguments);
    let did = known.go();
    running.signal(libc::SIGINT);
    running.end();
    (place.run_of(), did)
}

#[test]
fn each_pass_is_counted_by_thread_and_takes_as_long_as_its_work() {
    needed!();
    let (run, _) = went(
        &["rounds", "120", "ordinary", "7", "brief", "3"],
        &["tick", "work()", "cycle=begin_cycle..end_cycle"],
    );
    for (name, rounds) in [("rt-one", 120), ("rt-two", 60)] {
        let tick = thread(mark(&run, "tick"), name);
        assert_eq!((tick.count, tick.lengths.count), (rounds, rounds - 1));
        assert_eq!((tick.unfinished, tick.unmatched, tick.lost), (0, 0, 0));
        // Half a ms to two of work, 0.3 of `work`, and a sleep of one.
        assert!(tick.lengths.min_ns >= 18 * MS / 10, "{tick:?}");
        assert!(tick.worst.iter().all(|worst| worst.slept >= 1), "{tick:?}");
        assert_eq!((&*tick.task.policy, tick.task.priority), ("fifo", 40));

        // It calls itself twice more: each call is counted.
        let work = thread(mark(&run, "work()"), name);
        assert_eq!((work.count, work.lengths.count), (3 * rounds, 3 * rounds));
        assert_eq!((work.unfinished, work.unmatched, work.lost), (0, 0, 0));
        assert!(work.lengths.min_ns >= MS / 10, "{work:?}");
        let outermost = work.worst.iter().all(|it| it.length_ns >= 3 * MS / 10);
        assert!(outermost, "{work:?}");
        let (sum, least) = (u128::from(rounds), 6 * u128::from(MS) / 10);
        assert!(work.lengths.sum_ns >= sum * least, "{work:?}");

        let cycle = thread(mark(&run, "cycle"), name);
        assert_eq!((cycle.count, cycle.lengths.count), (rounds, rounds));
        assert_eq!((cycle.unfinished, cycle.unmatched, cycle.lost), (0, 0, 0));
        assert!(cycle.lengths.min_ns >= 8 * MS / 10, "{cycle:?}");
        assert!(cycle.lengths.max_ns >= 23 * MS / 10, "{cycle:?}");
        // Every tenth is long, so all kept ones are long.
        let long = cycle.worst.iter().take(rounds as usize / 10);
        assert!(long.clone().all(|worst| worst.length_ns >= 23 * MS / 10));
        assert!(long.clone().all(|worst| worst.slept == 0), "{cycle:?}");
        assert!(cycle.worst.is_sorted_by(|a, b| a.length_ns >= b.length_ns));
        // After the watch began and before it ended.
        let begin = run.start_ns.expect("its beginning");
        let within = begin..begin + run.measured_ns;
        assert!(cycle.worst.iter().all(|it| within.contains(&it.at_ns)));
    }
    let brief = threads(mark(&run, "tick"), "rt-brief");
    assert_eq!(brief.len(), 3, "one each");
    assert!(
        brief
            .iter()
            .all(|it| it.count == 10 && it.lengths.count == 9)
    );
    // Threads of ordinary priority aren't watched, and that is reported.
    assert!(threads(mark(&run, "tick"), "ordinary").is_empty());
    assert_eq!(mark(&run, "tick").unwatched, 7);
    assert_eq!(mark(&run, "cycle").unwatched, 0);
}

#[test]
fn threads_of_ordinary_priority_pass_marks_where_all_are_watched() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(marked(), &["rounds", "2", "ordinary", "50"]);
    let number = known.pid.to_string();
    let running = watch(&place, &[&number, "-q", "--all", "--mark", "tick"]);
    known.go();
    running.signal(libc::SIGINT);
    running.end();
    let run = place.run_of();
    let tick = mark(&run, "tick");
    assert_eq!(thread(tick, "ordinary").count, 50);
    assert_eq!((thread(tick, "rt-one").count, tick.unwatched), (2, 0));
}

#[test]
fn usdt_probes_are_counted_also_those_with_a_semaphore() {
    needed!();
    let marks = ["usdt:known:step", "asked=usdt:known:guarded"];
    let (run, did) = went(&["rounds", "50"], &marks);
    assert_eq!(did["guarded"], 75, "it was told that somebody looks");
    for name in ["usdt:known:step", "asked"] {
        let mark = mark(&run, name);
        assert_eq!(thread(mark, "rt-one").count, 50, "{name}");
        assert_eq!(thread(mark, "rt-two").count, 25, "{name}");
    }
    let (run, did) = went(&["rounds", "10"], &["usdt:known:step"]);
    assert_eq!(did["guarded"], 0, "nobody looked at that one");
    assert_eq!(thread(mark(&run, "usdt:known:step"), "rt-one").count, 10);
}

#[test]
fn a_call_that_never_returns_is_counted_but_not_measured() {
    needed!();
    let (run, _) = went(&["rounds", "1", "leaps", "20"], &["it=maybe_leap()"]);
    let leap = thread(mark(&run, "it"), "rt-leap");
    // It is not known yet that the last one won't return.
    assert_eq!((leap.count, leap.unfinished, leap.unmatched), (10, 9, 0));
}

#[test]
fn a_place_in_the_file_and_a_function_of_a_library_are_marks_too() {
    needed!();
    need!(needs::program("nm"));
    // By default the linker's addresses of code are its file offsets.
    let place = format!("at=+{:#x}", address_of("tick"));
    let library = "sleep=libc.so.6:clock_nanosleep";
    let (run, _) = went(&["rounds", "20"], &[&place, library]);
    assert_eq!(thread(mark(&run, "at"), "rt-one").count, 20);
    assert_eq!(thread(mark(&run, "sleep"), "rt-one").count, 20);
}

#[test]
fn every_mark_is_removed_when_a_watch_ends_or_is_killed() {
    needed!();
    let (place, killed) = (Place::new(), Place::new());
    let mut known = Known::start(marked(), &["rounds", "20"]);
    let number = known.pid.to_string();
    let flags = [
        &*number,
        "-q",
        "--no-explain",
        "--mark",
        "usdt:known:guarded",
    ];
    let running = watch(&killed, &flags);
    let pid = running.pid();
    assert!(programs_of(pid) >= 5);
    running.signal(libc::SIGKILL);
    running.end();
    assert_eq!(programs_of(pid), 0);
    // While another watch ends normally, and before the program ends.
    let running = watch(&place, &flags);
    running.signal(libc::SIGINT);
    running.end();
    // The kernel removes them some time after the last descriptor is closed.
    let count = || semaphore_of(&known);
    until("nobody to look", || count() == 0);
    let did = known.go();
    assert_eq!(did["guarded"], 0, "its count was taken back");
    assert!(
        place.run_of().watch.expect("a watch").marks[0]
            .threads
            .is_empty()
    );
}

/// The address of a symbol in the program.
fn address_of(name: &str) -> u64 {
    let listed = Command::new("nm").arg(marked()).output().expect("nm");
    let text = String::from_utf8_lossy(&listed.stdout);
    let mut lines = text.lines().map(|line| line.split_whitespace());
    let digits = lines.find_map(|mut words| {
        let digits = words.next()?;
        (words.nth(1)? == name).then_some(digits)
    });
    u64::from_str_radix(digits.expect("its address"), 16).expect("an address")
}

/// The variable that the program reads to know whether a probe is attached.
fn semaphore_of(known: &Known) -> u16 {
    use std::os::unix::fs::FileExt as _;
    let maps = fs::read_to_string(format!("/proc/{}/maps", known.pid)).expect("its maps");
    let base = maps.split('-').next().expect("an address");
    let base = u64::from_str_radix(base, 16).expect("an address");
    let memory = fs::File::open(format!("/proc/{}/mem", known.pid)).expect("its memory");
    let mut count = [0; 2];
    memory
        .read_exact_at(&mut count, base + address_of("guarded_semaphore"))
        .expect("its memory");
    u16::from_le_bytes(count)
}

#[test]
fn two_watches_mark_the_same_places_simultaneously() {
    needed!();
    let (one, other) = (Place::new(), Place::new());
    let mut known = Known::start(marked(), &["rounds", "30"]);
    let number = known.pid.to_string();
    let flags = [
        &*number,
        "-q",
        "--no-explain",
        "--mark",
        "usdt:known:guarded",
        "--mark",
        "work()",
    ];
    let all_running = [watch(&one, &flags), watch(&other, &flags)];
    known.go();
    for running in all_running {
        running.signal(libc::SIGINT);
        running.end();
    }
    for run in [one.run_of(), other.run_of()] {
        for name in ["usdt:known:guarded", "work()"] {
            let times = if name == "work()" { 3 } else { 1 };
            assert_eq!(
                thread(mark(&run, name), "rt-one").count,
                30 * times,
                "{name}"
            );
        }
    }
}

#[test]
fn marks_of_a_program_that_ends_are_kept() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(marked(), &["rounds", "15"]);
    let number = known.pid.to_string();
    let running = watch(&place, &[&number, "-q", "--mark", "tick"]);
    known.go();
    drop(known);
    running.end();
    let run = place.run_of();
    assert_eq!(thread(mark(&run, "tick"), "rt-one").count, 15);
    let directory = place.run_directory().display().to_string();
    let shown = place.run(&["report", &directory]).expect(0).stdout;
    for wanted in ["What its marks took", "The longest of its marks", "tick"] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
}

#[test]
fn marks_of_two_records_are_added() {
    needed!();
    let place = Place::new();
    for name in ["one", "two"] {
        let mut known = Known::start(marked(), &["rounds", "12"]);
        let number = known.pid.to_string();
        let running = watch(&place, &[&number, "-q", "-o", name, "--mark", "work()"]);
        known.go();
        running.signal(libc::SIGINT);
        running.end();
    }
    place
        .run(&["merge", "one", "two", "-o", "both", "-q"])
        .expect(0);
    let both = place.run_of_path("both");
    let work = thread(mark(&both, "work()"), "rt-one");
    assert_eq!((work.count, work.lengths.count), (72, 72));
}

/// The exit status and the record of a watch with these flags.
fn judged(what: &[&str], flags: &[&str]) -> (Option<i32>, Run, Place) {
    let place = Place::new();
    let mut known = Known::start(marked(), what);
    let number = known.pid.to_string();
    let running = watch(&place, &[&[&*number, "-q", "--no-explain"], flags].concat());
    known.go();
    running.signal(libc::SIGINT);
    let code = running.end().status.code();
    (code, place.run_of(), place)
}

#[test]
fn a_mark_above_its_limit_is_a_fail_and_each_such_pass_is_counted() {
    needed!();
    let cycle = "cycle=begin_cycle..end_cycle";
    let flags = [
        "--mark",
        cycle,
        "--mark",
        "work()",
        "--mark-max",
        "cycle=1h",
        "--mark-max",
        "work()=50us",
    ];
    let (code, run, place) = judged(&["rounds", "20"], &flags);
    let verdict = run.verdict.as_ref().expect("a verdict");
    assert_eq!(code, Some(2), "{}", said(&run));
    let [cycle, work] = &verdict.lengths[..] else {
        panic!("two are limited: {:?}", verdict.lengths)
    };
    assert_eq!((cycle.outcome, cycle.longer), (Outcome::Pass, 0));
    // Each call is busy for at least twice as long, and each round is three calls.
    assert_eq!((work.outcome, work.longer), (Outcome::Fail, 90));
    assert_eq!((cycle.count, work.count), (30, 90));
    for name in ["rt-one", "rt-two"] {
        let work = thread(mark(&run, "work()"), name);
        assert_eq!(work.longer, work.lengths.count);
    }
    for part in ["90 of 90 work() took longer than 50", "none may"] {
        assert!(said(&run).contains(part), "{}", said(&run));
    }
    let directory = place.run_directory().display().to_string();
    let shown = place.run(&["report", &directory]).expect(0).stdout;
    assert!(shown.contains("too long"), "{shown}");
    let suite = place
        .run(&["export", &directory, "--format", "junit"])
        .expect(0);
    for case in ["\"cycle at most 1", "\"work() at most 50", "type=\"FAIL\""] {
        assert!(suite.stdout.contains(case), "{case}: {}", suite.stdout);
    }
    // By itself, a limit that was kept is a PASS.
    let flags = ["--mark", "tick", "--mark-max", "tick=1h"];
    let (code, run, _) = judged(&["rounds", "4"], &flags);
    assert_eq!(code, Some(0), "{}", said(&run));
    let verdict = run.verdict.expect("a verdict");
    assert_eq!(verdict.lengths[0].count, 4, "from one to the next");
}

#[test]
fn a_limited_mark_that_was_not_measured_makes_the_run_invalid() {
    needed!();
    let cases = [
        ("maybe_leap()", "never passed"),
        ("bad=privileged", "on that instruction"),
    ];
    for (place, why) in cases {
        let name = place.split('=').next().expect("a name");
        let limit = format!("{name}=1ms");
        let flags = ["--mark", place, "--mark-max", &limit];
        let (code, run, _) = judged(&["rounds", "4"], &flags);
        let sentence = said(&run);
        assert_eq!(code, Some(4), "{sentence}");
        assert!(sentence.contains(why), "{sentence}");
    }
}

#[test]
fn calls_that_are_nested_too_deep_leave_the_outer_ones_measured() {
    needed!();
    // Twelve deep, the innermost takes 1 ms and the outermost 12.
    let nested = |limit| {
        let flags = ["--mark", "nest()", "--mark-max", limit];
        let (code, run, _) = judged(&["rounds", "1", "nested", "12"], &flags);
        let nest = thread(mark(&run, "nest()"), "rt-nested").clone();
        assert_eq!((nest.count, nest.lengths.count, nest.lost), (40, 40, 0));
        assert_eq!((nest.unfinished, nest.unmatched), (20, 0), "{nest:?}");
        assert!(nest.lengths.min_ns >= 5 * MS, "{nest:?}");
        assert!(nest.lengths.max_ns >= 12 * MS, "{nest:?}");
        (code, nest.longer, said(&run))
    };
    let (code, longer, sentence) = nested("nest()=11500us");
    assert!(code == Some(2) && longer >= 5, "{longer}: {sentence}");
    let (code, longer, sentence) = nested("nest()=1h");
    assert!(code == Some(4) && longer == 0, "{longer}: {sentence}");
    assert!(sentence.contains("20 passes of nest()"), "{sentence}");
}

/// Eight calls on the stack of a cancelled coroutine, which is above the one that the thread goes on with.
#[test]
fn calls_that_a_cancelled_coroutine_left_hide_no_later_ones() {
    needed!();
    let flags = ["--mark", "suspend()", "--mark-max", "suspend()=1h"];
    let (_, run, _) = judged(&["rounds", "1", "coroutines", "10"], &flags);
    let calls = thread(mark(&run, "suspend()"), "rt-coroutine");
    assert_eq!((calls.count, calls.lengths.count), (10, 10), "{calls:?}");
    assert_eq!((calls.unfinished, calls.unmatched), (8, 0), "{calls:?}");
}

#[test]
fn a_limited_mark_with_a_call_that_never_returns_is_no_pass() {
    needed!();
    let flags = ["--mark", "it=maybe_leap()", "--mark-max", "it=1h"];
    let (code, run, _) = judged(&["rounds", "1", "leaps", "20"], &flags);
    let sentence = said(&run);
    assert_eq!(code, Some(4), "{sentence}");
    assert!(sentence.contains("9 passes of it"), "{sentence}");
}

#[test]
fn threads_that_end_before_they_wake_up_do_not_invalidate_a_watch() {
    needed!();
    let (code, run, _) = judged(&["rounds", "20", "brief", "2"], &["--max", "10s"]);
    // So short a run shows nothing, but it is valid.
    assert_eq!(code, Some(3), "{}", said(&run));
    let brief = run.watch.iter().flat_map(|watch| &watch.threads);
    let brief = brief
        .zip(&run.threads)
        .filter(|it| it.0.task.name == "rt-brief");
    let brief: Vec<_> = brief.map(|it| (it.0.ended, it.1.latency.count)).collect();
    assert_eq!(brief, [(true, 0); 2]);
    let event = run.events.iter().find(|it| it.kind() == "never-woke");
    let text = facts::event(event.expect("an event"), "");
    assert!(text.starts_with("2 threads ended before"), "{text}");
    assert_eq!(text.matches("rt-brief/").count(), 2, "{text}");
    assert!(!event.expect("an event").invalidates);
}

#[test]
fn malformed_and_missing_marks_are_reported_in_one_line() {
    let place = Place::new();
    let known = Known::start(marked(), &[]);
    let number = known.pid.to_string();
    let many: Vec<String> = (0..17).map(|n| format!("m{n}=tick")).collect();
    let many: Vec<&str> = many.iter().flat_map(|it| ["--mark", it]).collect();
    let cases: [(&[&str], &str); 16] = [
        (&["--mark", "tikc"], "near: tick"),
        (&["--mark", "c=cycle"], "near: end_cycle, begin_cycle"),
        (&["--mark", "libc.so.6:no_such_thing_at_all"], "libc.so.6 "),
        (&["--mark", "clock_nanosleep"], "libc.so.6:clock_nanosleep"),
        (
            &["--mark", "libnone.so:tick"],
            "no code of a file 'libnone.so'",
        ),
        (&["--mark", "usdt:known:stap"], "near: usdt:known:step"),
        (
            &["--mark", "usdt:other:it"],
            "expected one of usdt:known:guarded",
        ),
        (&["--mark", "+0x1"], "no code at +0x1"),
        (&["--mark", "a..a"], "from a place to itself"),
        (&["--mark", "a b"], "FILE:FUNCTION"),
        (
            &["--mark", "tick", "--mark", "tick"],
            "two marks are named 'tick'",
        ),
        (&many, "at most 16"),
        (&["--mark-max", "tick=1ms"], "add --mark tick"),
        (
            &["--mark", "a=tick", "--mark-max", "tick=1ms"],
            "no mark is named 'tick'; expected one of a",
        ),
        (
            &[
                "--mark",
                "tick",
                "--mark-max",
                "tick=1",
                "--mark-max",
                "tick=2",
            ],
            "'tick' has two limits",
        ),
        (&["--mark", "tick", "--mark-max", "tick"], "'step()=500us'"),
    ];
    need!(needs::root());
    for (arguments, wanted) in cases {
        let ended = place.run(&[&["watch", &number], arguments].concat());
        assert_eq!(
            ended.status.code(),
            Some(64),
            "{arguments:?} {}",
            ended.stderr
        );
        assert!(ended.stderr.contains(wanted), "{}", ended.stderr);
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    }
    let ended = place.run(&["watch", "--system", "--mark", "tick"]);
    assert_eq!(ended.status.code(), Some(64));
    assert!(place.entries().is_empty());
}

#[test]
fn without_access_to_the_program_nothing_is_marked() {
    need!(needs::root());
    need!(needs::program("setpriv"));
    let place = Place::new();
    let mut command = place.command("setpriv");
    command
        .args(["--bounding-set=-all", "--inh-caps=-all"])
        .arg(common::program())
        .args(["watch", "1", "--mark", "tick"]);
    let ended = Running::start(command).end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains("that needs root"), "{}", ended.stderr);
    assert!(place.entries().is_empty());
}

#[test]
fn a_stripped_program_is_reported_and_its_probes_still_work() {
    needed!();
    need!(needs::program("strip"));
    let place = Place::new();
    let path = place.path().join("bare");
    let done = Command::new("strip")
        .arg("-o")
        .arg(&path)
        .arg(marked())
        .status();
    assert!(done.expect("strip").success());
    let known = Known::start(&path, &[]);
    let number = known.pid.to_string();
    let ended = place.run(&["watch", &number, "--mark", "tick"]);
    assert_eq!(ended.status.code(), Some(64));
    assert!(ended.stderr.contains("was stripped"), "{}", ended.stderr);
    let ended = place.run(&[
        "watch",
        &number,
        "-D",
        "300ms",
        "-q",
        "--mark",
        "usdt:known:step",
    ]);
    assert_ne!(ended.status.code(), Some(64), "{}", ended.stderr);
}

#[test]
fn a_program_whose_file_was_replaced_after_its_start_is_marked() {
    needed!();
    let place = Place::new();
    let path = place.path().join("replaced");
    copy_program(marked(), &path);
    let mut known = Known::start(&path, &["rounds", "10"]);
    fs::remove_file(&path).expect("it is there");
    fs::write(&path, "no program").expect("another in its place");
    let number = known.pid.to_string();
    let flags = ["-q", "--no-explain", "-o", "run", "--mark", "work()"];
    let running = watch(&place, &[&[&*number], &flags[..]].concat());
    known.go();
    running.signal(libc::SIGINT);
    running.end();
    let run = place.run_of_path("run");
    assert_eq!(thread(mark(&run, "work()"), "rt-one").count, 30);
}

#[test]
fn a_mark_that_the_kernel_refuses_is_reported_and_the_watch_continues() {
    needed!();
    let place = Place::new();
    let mut known = Known::start(marked(), &["rounds", "5"]);
    let number = known.pid.to_string();
    let flags = ["--mark", "bad=privileged", "--mark", "tick"];
    let running = watch(
        &place,
        &[&[&*number, "-q", "--no-explain"], &flags[..]].concat(),
    );
    known.go();
    running.signal(libc::SIGINT);
    running.end();
    let run = place.run_of();
    assert!(mark(&run, "bad").refused.is_some());
    let event = run.events.iter().find(|it| it.kind() == "mark-refused");
    let text = facts::event(event.expect("an event"), "");
    for wanted in ["the mark bad is not seen", "on that instruction"] {
        assert!(text.contains(wanted), "{text}");
    }
    assert_eq!(thread(mark(&run, "tick"), "rt-one").count, 5);
}
