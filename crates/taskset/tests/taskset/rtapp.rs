//! rt-app's JSON: what is read from it, and the keyword and line of what can't be.

use std::path::Path;

use punctual_record::taskset::{LockProtocol, Means, Step, TaskPolicy, TaskSet, Timer, Wake};
use punctual_taskset::{Fault, Format, Read, read};

fn parsed(text: &str) -> Result<Read, Fault> {
    read(text, "file", Format::RtApp)
}

fn set(text: &str) -> TaskSet {
    parsed(text).unwrap_or_else(|fault| panic!("{fault}")).set
}

#[track_caller]
fn refused(text: &str, line: usize, words: &str) {
    let fault = parsed(text).expect_err(text);
    assert_eq!(fault.line, line, "{fault}\n{text}");
    assert!(fault.why.contains(words), "{fault}\n{text}");
}

const MS: u64 = 1_000_000;

fn timer(timer: Timer, period_ns: u64) -> Wake {
    Wake::Timer {
        timer,
        period_ns,
        offset_ns: 0,
    }
}

#[test]
fn comments_commas_and_names_that_repeat_are_read() {
    let set = set(r#"{
        /* one
           thread */
        "tasks" : { "a" : {
            "policy" : "SCHED_FIFO", "priority" : 20, "cpus" : [1, 0], "delay" : 500,
            "run" : 1000, // first
            "mem" : 4096,
            "lock" : "m", "run" : 500, "unlock" : "m",
            "run2" : 250,
            "sleep" : 0,
            "yield",
            "timer" : { "ref" : "unique", "period" : 10000, "mode" : "absolute", },
        }, },
        "global" : { "duration" : 2, "pi_enabled" : true, "calibration" : 100, "gnuplot" : true, },
    }"#);
    let task = &set.tasks[0];
    assert_eq!(task.policy, TaskPolicy::Fifo { priority: 20 });
    assert_eq!(task.cpus, [0, 1]);
    let wake = Wake::Timer {
        timer: Timer::Absolute,
        period_ns: 10 * MS,
        offset_ns: 500_000,
    };
    assert_eq!((task.wake, task.deadline_ns), (wake, 10 * MS));
    let run = |ns| Step::Run { ns };
    let locked = Step::Lock {
        lock: 0,
        work: vec![run(500_000)],
    };
    let expected = [
        run(MS),
        Step::Memory { bytes: 4_096 },
        locked,
        run(250_000),
        Step::Yield,
    ];
    assert_eq!(task.phases[0].work, expected);
    assert_eq!(set.locks[0].protocol, LockProtocol::Inherit);
    assert_eq!(set.duration_ns, Some(2_000 * MS));
}

#[test]
fn what_has_no_effect_is_noted_with_its_line() {
    let text = "{\n\"resources\" : {},\n\"tasks\" : { \"a\" :\n{ \"loop\" : 5, \"run\" : 10, \"sleep\" : 90 } },\n\"global\" : { \"calibration\" : \"CPU0\" } }";
    let read = parsed(text).expect("a set");
    let lines: Vec<usize> = read.notes.iter().map(|note| note.line).collect();
    // global replaces what was gathered before it.
    assert!(lines.contains(&3) && lines.contains(&5), "{:?}", read.notes);
    // Five passes of at least 100 us.
    assert_eq!(read.set.duration_ns, Some(500_000));
}

#[test]
fn a_thread_without_a_timer_waits_by_its_sleep() {
    let set = set(r#"{ "tasks" : { "a" : { "run" : 20000, "sleep" : 80000 } } }"#);
    assert_eq!(set.tasks[0].wake, timer(Timer::Relative, 80 * MS));
    assert_eq!(set.tasks[0].phases[0].work, [Step::Run { ns: 20 * MS }]);
    assert_eq!(set.tasks[0].policy, TaskPolicy::Other { nice: 0 });
}

#[test]
fn a_loop_that_sleeps_has_the_deadline_of_work_and_sleep() {
    let loops = |name: &str| {
        format!(
            r#""{name}" : {{ "policy" : "SCHED_FIFO", "priority" : 10, "cpus" : [0], "run" : 10000, "sleep" : 5000 }}"#
        )
    };
    // Each takes what the other one leaves: the CPU is not overloaded.
    let text = format!(r#"{{ "tasks" : {{ {}, {} }} }}"#, loops("a"), loops("b"));
    let read = parsed(&text).expect("a set");
    for task in &read.set.tasks {
        assert_eq!(
            (task.deadline_ns, task.phases[0].deadline_ns),
            (15 * MS, None)
        );
        let own = format!("{}: no timer: ", task.name);
        assert!(read.notes.iter().any(|note| note.why.starts_with(&own)));
    }
    let phases = r#"{ "tasks" : { "a" : { "phases" : {
        "light" : { "run" : 1000, "sleep" : 4000 }, "heavy" : { "run" : 2000, "sleep" : 8000 }
    } } } }"#;
    let task = &set(phases).tasks[0];
    assert_eq!(task.deadline_ns, 5 * MS);
    assert_eq!(task.more_ns(1), 5 * MS);
}

#[test]
fn phases_loops_and_instances_are_kept() {
    let set = set(r#"{ "tasks" : { "a" : { "instance" : 3, "phases" : {
        "light" : { "loop" : 10, "run" : 1000, "timer" : { "ref" : "unique", "period" : 10000 } },
        "heavy" : { "loop" : 5, "run" : 7000, "timer" : { "ref" : "unique", "period" : 20000 } }
    } } } }"#);
    let names: Vec<&str> = set.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names, ["a-0", "a-1", "a-2"]);
    let phases: Vec<(u64, Option<u64>)> = set.tasks[1]
        .phases
        .iter()
        .map(|phase| (phase.jobs, phase.period_ns))
        .collect();
    assert_eq!(phases, [(10, None), (5, Some(20 * MS))]);
}

#[test]
fn work_before_the_first_timer_of_a_loop_belongs_to_the_last() {
    let set = set(r#"{ "tasks" : { "a" : { "phases" : {
        "wait" : { "timer" : { "ref" : "t", "period" : 10000 } },
        "work" : { "run" : 1000 }
    } } } }"#);
    assert_eq!(set.tasks[0].phases.len(), 1);
    assert_eq!(set.tasks[0].phases[0].work, [Step::Run { ns: MS }]);
}

#[test]
fn a_thread_that_suspends_itself_is_released_by_the_one_that_resumes_it() {
    let set = set(r#"{ "tasks" : {
        "tick" : { "phases" : {
            "p1" : { "resume" : "work", "timer" : { "ref" : "t", "period" : 6000 } },
            "p2" : { "loop" : 4, "timer" : { "ref" : "t", "period" : 6000 } } } },
        "work" : { "run" : 275, "suspend" : "work" }
    } }"#);
    let wake = Wake::After {
        task: 0,
        every: 5,
        means: Means::Condvar,
    };
    assert_eq!(
        (set.tasks[1].wake, set.tasks[1].deadline_ns),
        (wake, 30 * MS)
    );
}

#[test]
fn reservations_and_policies_are_read() {
    let set = set(
        r#"{ "global" : { "default_policy" : "SCHED_RR" }, "tasks" : {
        "a" : { "policy" : "SCHED_DEADLINE", "dl-runtime" : 2000, "dl-period" : 10000,
                "dl-deadline" : 8000, "run" : 1000, "timer" : { "ref" : "x", "period" : 10000 } },
        "b" : { "run" : 1, "sleep" : 1000 } } }"#,
    );
    let reserved = TaskPolicy::Deadline {
        runtime_ns: 2 * MS,
        deadline_ns: 8 * MS,
        period_ns: 10 * MS,
    };
    assert_eq!(set.tasks[0].policy, reserved);
    assert_eq!(set.tasks[1].policy, TaskPolicy::Rr { priority: 10 });
}

#[test]
fn what_cannot_be_mapped_is_refused_by_its_keyword_and_line() {
    let thread =
        |events: &str| format!("{{ \"tasks\" : {{ \"a\" : {{\n\"run\" : 10,\n{events} }} }} }}");
    let timer = "\"timer\" : { \"ref\" : \"x\", \"period\" : 1000 }";
    for keyword in [
        "taskgroup",
        "barrier",
        "wait",
        "signal",
        "broad",
        "sync",
        "fork",
        "sem_post",
        "sem_wait",
        "iorun",
        "memrun",
        "util_min",
        "nodes_membind",
        "exec",
        "lock_order",
    ] {
        let words = format!("keyword '{keyword}' can't be mapped: expected run");
        refused(
            &thread(&format!("\"{keyword}\" : \"x\", {timer}")),
            3,
            &words,
        );
    }
    refused(&thread("\"run\" : 1"), 1, "never waits");
    refused(
        &thread("\"lock\" : \"m\", \"sleep\" : 5"),
        3,
        "lock 'm': expected its unlock",
    );
    refused(
        &thread("\"unlock\" : \"m\", \"sleep\" : 5"),
        3,
        "unlock 'm'",
    );
    refused(
        &thread("\"resume\" : \"b\", \"run\" : 5, \"sleep\" : 5"),
        3,
        "'resume'",
    );
    refused(
        &thread("\"resume\" : \"b\", \"sleep\" : 5"),
        3,
        "resume 'b': expected a thread",
    );
    refused(
        &thread("\"suspend\" : \"b\""),
        3,
        "expected one thread with resume 'b'",
    );
    refused(&thread("\"run\" : -5"), 3, "expected a whole number from 0");
    refused(&thread("\"run\" : 1.5"), 3, "expected a whole number");
    refused(
        &thread("\"timer\" : { \"ref\" : \"x\" }"),
        3,
        "expected a period",
    );
    refused(
        &thread("\"timer\" : { \"ref\" : \"x\", \"period\" : 0 }"),
        3,
        "from 1 to",
    );
    refused(
        &thread("\"policy\" : \"SCHED_EXT\", \"sleep\" : 1"),
        3,
        "policy 'SCHED_EXT'",
    );
    refused(
        &thread("\"policy\" : \"SCHED_FIFO\", \"priority\" : 100, \"sleep\" : 1"),
        3,
        "to 99",
    );
    refused(
        &thread("\"dl-runtime\" : 5, \"sleep\" : 1"),
        3,
        "expected it with SCHED_DEADLINE",
    );
    refused(
        &thread("\"phases\" : { \"p\" : { \"cpus\" : [1], \"sleep\" : 1 } }"),
        3,
        "'cpus' of a phase",
    );
    refused(
        "{ \"global\" : { \"colour\" : 1 } }",
        1,
        "unknown keyword 'colour'",
    );
    refused(
        "{ \"jobs\" : { } }",
        1,
        "'jobs': expected tasks, global or resources",
    );
    refused("{ \"global\" : { } }", 1, "no tasks");
    refused("{ \"tasks\" : { } }", 1, "no task");
    refused(
        "{ \"tasks\" : {\n\"a\" : { \"run\" 5 } } }",
        2,
        "expected , or }",
    );
    refused("{ /* ", 1, "comment");
    refused("{ \"a", 1, "closing quote");
    refused(&("[".repeat(100) + "\n"), 1, "nested too deep");
    refused("", 1, "expected a value");
}

/// The examples that come with rt-app, where a checkout is: they aren't under this project's licence.
#[test]
#[allow(
    clippy::print_stdout,
    reason = "that it is skipped, and which ones run"
)]
fn each_example_of_rt_app_runs_or_names_the_keyword_that_it_needs() {
    let Some(folder) = std::env::var_os("RT_APP_EXAMPLES") else {
        println!("SKIPPED: program: RT_APP_EXAMPLES names no directory doc/examples of rt-app");
        return;
    };
    let mut files = Vec::new();
    let mut folders = vec![Path::new(&folder).to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert_eq!(files.len(), 28, "{files:?}");
    let mut run = 0;
    for path in files {
        let text = std::fs::read_to_string(&path).expect("text");
        match parsed(&text) {
            Ok(read) => {
                run += 1;
                println!("{}: {} tasks", path.display(), read.set.tasks.len());
            }
            Err(fault) => {
                println!("{}:{fault}", path.display());
                let line = text.lines().nth(fault.line - 1).expect("a line");
                let named = fault.why.split('\'').nth(1).unwrap_or("");
                assert!(line.contains(named), "{fault}: {line}");
            }
        }
    }
    assert_eq!(run, 7);
}
