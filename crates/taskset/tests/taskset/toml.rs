//! The TOML format: what is read from it, and the line and words of each fault.

use punctual_record::taskset::{LockProtocol, Means, Phase, Step, Task, TaskPolicy, Timer, Wake};
use punctual_taskset::{Fault, Format, Read, read};

fn parsed(text: &str) -> Result<Read, Fault> {
    read(text, "file", Format::Toml)
}

fn set(text: &str) -> punctual_record::taskset::TaskSet {
    parsed(text).unwrap_or_else(|fault| panic!("{fault}")).set
}

/// Line and words of the fault.
#[track_caller]
fn refused(text: &str, line: usize, words: &str) {
    let fault = parsed(text).expect_err(text);
    assert_eq!(fault.line, line, "{fault}\n{text}");
    assert!(fault.why.contains(words), "{fault}\n{text}");
    let guided = fault.why.contains("expected");
    assert!(guided && !fault.why.contains('\n'), "{fault}");
}

#[test]
fn little_needs_to_be_written() {
    let set =
        set("[[task]]\nname = \"a\"\npriority = 80\ncpu = 1\nperiod = \"1ms\"\nwork = \"200us\"\n");
    let expected = Task {
        name: "a".to_owned(),
        policy: TaskPolicy::Fifo { priority: 80 },
        cpus: vec![1],
        wake: Wake::Timer {
            timer: Timer::Absolute,
            period_ns: 1_000_000,
            offset_ns: 0,
        },
        deadline_ns: 1_000_000,
        jitter_ns: 0,
        execution_ns: None,
        phases: vec![Phase {
            jobs: 1,
            period_ns: None,
            deadline_ns: None,
            work: vec![Step::Run { ns: 200_000 }],
        }],
    };
    assert_eq!(set.tasks, [expected]);
    assert_eq!((set.name.as_str(), set.duration_ns), ("file", None));
}

#[test]
fn a_key_that_is_missing_or_there_twice_is_named() {
    refused(
        "[[task]]\nperiod = \"1ms\"\n",
        1,
        "no key `name`: expected here",
    );
    let twice = "[[task]]\nname = \"a\"\nperiod = \"1ms\"\nperiod = \"2ms\"\n";
    refused(twice, 4, "key `period` again: expected it once");
    let late = "[[task]]\nname = \"a\"\nperiod = \"10ms\"\noffset = \"5h\"\nwork = \"1us\"\n";
    refused(late, 4, "offset of 18000000000000 ns: expected at most 1h");
}

const WHOLE: &str = r#"
name = "whole"
duration = "10s"
[[lock]]
name = "m"
[[lock]]
name = "p"
protocol = "protect"
ceiling = 90
[[lock]]
name = "q"
protocol = "plain"
[[task]]
name = "sensor"
policy = "rr"
priority = 80
cpus = "0-1"
period = "1ms"
offset = "100us"
jitter = "10us"
timer = "timerfd"
deadline = "700us"
wcet = "300us"
work = [
    { run = "100us" }, { lock = "m", work = [{ run = "10us" }, { lock = "q", work = "5us" }] },
    { memory = "64KiB" }, { calls = 10 }, { yield = true }, { instructions = 50000 },
    { sleep = "1ms" }, { library = "./step.so", function = "step" },
    { command = ["gzip", "-t", "f"] },
]
[[task]]
name = "control"
policy = "deadline"
runtime = "1ms"
after = "sensor"
every = 4
by = "mqueue"
  [[task.phase]]
  jobs = 3
  work = "1us"
  [[task.phase]]
  work = []
[[task]]
name = "log"
nice = 5
period = "1s"
  [[task.phase]]
  period = "2s"
  work = "1ms"
[[chain]]
name = "c"
tasks = ["sensor", "control"]
reaction = "10ms"
age = "12ms"
"#;

#[test]
fn everything_that_can_be_written_is_read() {
    let set = set(WHOLE);
    assert_eq!(
        (set.name.as_str(), set.duration_ns),
        ("whole", Some(10_000_000_000))
    );
    let protocols: Vec<LockProtocol> = set.locks.iter().map(|lock| lock.protocol).collect();
    let protect = LockProtocol::Protect { ceiling: 90 };
    assert_eq!(
        protocols,
        [LockProtocol::Inherit, protect, LockProtocol::Plain]
    );
    let sensor = &set.tasks[0];
    assert_eq!(sensor.policy, TaskPolicy::Rr { priority: 80 });
    assert_eq!(sensor.cpus, [0, 1]);
    let wake = Wake::Timer {
        timer: Timer::Timerfd,
        period_ns: 1_000_000,
        offset_ns: 100_000,
    };
    assert_eq!(sensor.wake, wake);
    assert_eq!((sensor.deadline_ns, sensor.jitter_ns), (700_000, 10_000));
    assert_eq!(sensor.execution_ns, Some(300_000));
    let run = |ns| Step::Run { ns };
    let inner = Step::Lock {
        lock: 2,
        work: vec![run(5_000)],
    };
    let outer = Step::Lock {
        lock: 0,
        work: vec![run(10_000), inner],
    };
    let expected = [
        run(100_000),
        outer,
        Step::Memory { bytes: 65_536 },
        Step::Calls { count: 10 },
        Step::Yield,
        Step::Instructions { count: 50_000 },
        Step::Sleep { ns: 1_000_000 },
        Step::Library {
            path: "./step.so".into(),
            function: "step".to_owned(),
        },
        Step::Command {
            command: ["gzip", "-t", "f"].map(str::to_owned).to_vec(),
        },
    ];
    assert_eq!(sensor.phases[0].work, expected);
    let control = &set.tasks[1];
    let wake = Wake::After {
        task: 0,
        every: 4,
        means: Means::Mqueue,
    };
    assert_eq!(control.wake, wake);
    // What isn't written follows from the sensor's period.
    let policy = TaskPolicy::Deadline {
        runtime_ns: 1_000_000,
        deadline_ns: 4_000_000,
        period_ns: 4_000_000,
    };
    assert_eq!((control.policy, control.deadline_ns), (policy, 4_000_000));
    let jobs: Vec<u64> = control.phases.iter().map(|phase| phase.jobs).collect();
    assert_eq!(jobs, [3, 1]);
    assert_eq!(set.tasks[2].policy, TaskPolicy::Other { nice: 5 });
    assert_eq!(set.tasks[2].phases[0].period_ns, Some(2_000_000_000));
    assert_eq!(set.chains[0].tasks, [0, 1]);
    assert_eq!(
        set.chains[0].reaction_ns.zip(set.chains[0].age_ns),
        Some((10_000_000, 12_000_000))
    );
}

/// A task on line 1 with its priority on line 3, and these lines behind.
fn task(more: &str) -> String {
    format!("[[task]]\nname = \"a\"\npriority = 80\ncpu = 0\n{more}")
}

const TIMED: &str = "period = \"1ms\"\nwork = \"200us\"\n";

#[test]
fn a_value_that_is_wrong_is_refused_at_its_own_line() {
    let with = |line: &str| task(&format!("{line}\n{TIMED}"));
    refused(&with("priorty = 1").replace("80", "8"), 5, "priorty");
    refused(
        &task(TIMED).replace("80", "0"),
        3,
        "priority 0: expected 1 to 99",
    );
    refused(
        &task(TIMED).replace("80", "100"),
        3,
        "priority 100: expected 1 to 99",
    );
    refused(
        &task(TIMED).replace("80", "'high'"),
        3,
        "expected a whole number",
    );
    refused(
        &task(TIMED).replace("cpu = 0", "cpu = \"one\""),
        4,
        "expected a whole number",
    );
    refused(
        &task(TIMED).replace("cpu = 0", "cpu = -1"),
        4,
        "cpu -1: expected 0 to 1023",
    );
    refused(
        &task(TIMED).replace("cpu = 0", "cpus = \"x\""),
        4,
        "cpus 'x': expected a list",
    );
    refused(
        &task(TIMED).replace("cpu = 0", "cpus = \"0-2000\""),
        4,
        "expected a list",
    );
    refused(&with("cpus = \"0\""), 4, "cpu or cpus, not both");
    refused(&with("deadline = \"0\""), 5, "'0': expected a time above 0");
    refused(&with("deadline = 5"), 5, "expected a time in quotes");
    refused(
        &with("deadline = \"9 years\""),
        5,
        "expected a time above 0",
    );
    refused(&with("deadline = \"25h\""), 5, "up to 1d");
    refused(&with("timer = \"sundial\""), 5, "expected one of");
    refused(
        &with("nice = 5"),
        5,
        "nice: expected it only with policy other",
    );
    refused(
        &with("policy = \"other\""),
        3,
        "priority: expected it only with policy fifo or rr",
    );
    refused(&with("runtime = \"1ms\""), 3, "priority: expected it only");
    refused(
        &with("policy = \"rr\"\nruntime = \"1ms\""),
        1,
        "runtime, dl-deadline and dl-period",
    );
    refused(
        &task(&TIMED.replace("1ms", "500ns")),
        5,
        "expected 1us to 1h",
    );
    refused(&task(&TIMED.replace("1ms", "2h")), 5, "expected 1us to 1h");
    refused(
        &task("work = \"1us\"\n"),
        1,
        "expected period, or after another task",
    );
    refused(&task("period = \"1ms\"\n"), 1, "expected work");
    refused(
        &with("after = \"b\""),
        5,
        "expected period or after, not both",
    );
    refused(&with("every = 2"), 1, "only with after");
    refused(
        &with("wcet = \"100us\""),
        5,
        "wcet is 100000 ns, but its work takes 200000 ns",
    );
    refused(&with("duration = \"1s\""), 5, "duration");
    refused("duration = 5\n", 1, "expected a time in quotes");
    refused("", 1, "no task");
    refused("[[task]]\nperiod = \"1ms\"\n", 1, "");
    refused("[[task]]\nname = \"a\n", 2, "");
    refused(
        &task(TIMED).replace("\"a\"", "\"\""),
        1,
        "expected a name of 1 to 64 letters",
    );
}

#[test]
fn a_step_that_is_wrong_is_refused_at_its_own_line() {
    let with = |step: &str| task(&format!("period = \"1ms\"\nwork = [\n{step},\n]\n"));
    refused(&with("{ run = \"0\" }"), 7, "expected a time above 0");
    refused(&with("{ walk = \"1us\" }"), 7, "walk");
    refused(&with("{ }"), 7, "expected one of run, lock");
    refused(
        &with("{ run = \"1us\", sleep = \"1us\" }"),
        7,
        "expected one of run, lock",
    );
    refused(
        &with("{ lock = \"m\", work = \"1us\" }"),
        7,
        "lock 'm': expected the name of a [[lock]]",
    );
    refused(&with("{ lock = \"m\" }"), 7, "");
    refused(&with("{ work = \"1us\" }"), 7, "expected lock with work");
    refused(&with("{ library = \"a.so\" }"), 7, "library with function");
    refused(
        &with("{ memory = \"much\" }"),
        7,
        "'much': expected an amount of memory",
    );
    refused(
        &with("{ memory = \"0\" }"),
        7,
        "expected an amount of memory",
    );
    refused(&with("{ calls = 0 }"), 7, "expected 1 to 10^12");
    refused(&with("{ yield = false }"), 7, "yield = false");
    refused(&with("{ command = [] }"), 7, "expected a program");
    refused(&with("\"1us\""), 7, "expected");
    refused(
        &task("period = \"1ms\"\nwork = 5\n"),
        6,
        "expected a time such as",
    );
}

#[test]
fn what_no_set_may_have_is_refused_at_the_line_of_what_causes_it() {
    let second = |more: &str| {
        format!(
            "{}[[task]]\nname = \"b\"\npriority = 70\ncpu = 0\n{more}",
            task(TIMED)
        )
    };
    refused(
        &second("after = \"c\"\nwork = \"1us\"\n"),
        11,
        "after 'c': expected the name of another",
    );
    refused(
        &second(&TIMED.replace("200us", "900us")),
        7,
        "CPU 0 is overloaded",
    );
    refused(
        &second(&TIMED.replace("200us", "900us")),
        7,
        "1.100 of its time (a 0.200, b 0.900)",
    );
    refused(
        &second(TIMED).replace("\"b\"", "\"a\""),
        7,
        "line 1 has this name already",
    );
    let circle = format!(
        "{}{}",
        task("after = \"b\"\nwork = \"1us\"\n"),
        &second("after = \"a\"\nwork = \"1us\"\n")[task(TIMED).len()..]
    );
    refused(&circle, 5, "in a circle (a after b after a)");
    refused(
        &task("after = \"a\"\nwork = \"1us\"\n"),
        5,
        "in a circle (a after a)",
    );
    refused(
        &second("after = \"a\"\nevery = 0\nwork = \"1us\"\n"),
        12,
        "every 0: expected 1 to 10000",
    );
    refused(
        &second("after = \"a\"\noffset = \"1us\"\nwork = \"1us\"\n"),
        11,
        "only with period",
    );
    refused(
        &task(
            "period = \"1h\"\nwork = []\n[[task]]\nname = \"b\"\nafter = \"a\"\nevery = 2\nwork = []\n",
        ),
        9,
        "longer than 1 h",
    );
    // A whole CPU is not overloaded; ordinary tasks don't count.
    assert!(parsed(&second(&TIMED.replace("200us", "800us"))).is_ok());
    let ordinary = second(&TIMED.replace("200us", "900us")).replace("priority = 70\n", "");
    assert!(parsed(&ordinary).is_ok());
    // Of phases, the mean.
    let phases = "period = \"1ms\"\n[[task.phase]]\njobs = 9\nwork = \"100us\"\n[[task.phase]]\nwork = \"5ms\"\n";
    assert!(parsed(&task(phases)).is_ok());
    refused(&task(&phases.replace("jobs = 9", "jobs = 2")), 1, "1.734");
}

#[test]
fn locks_and_chains_that_are_wrong_are_refused() {
    let lock = |lock: &str, work: &str| {
        format!(
            "{}[[lock]]\nname = \"m\"\n{lock}[[lock]]\nname = \"n\"\n",
            task(&format!("period = \"1ms\"\nwork = [{work}]\n"))
        )
    };
    let both = "{ lock = \"m\", work = [{ lock = \"n\", work = \"1us\" }] }";
    let other = "{ lock = \"n\", work = [{ lock = \"m\", work = \"1us\" }] }";
    let uses = "{ lock = \"m\", work = \"1us\" }";
    refused(
        &lock("protocol = \"protect\"\nceiling = 79\n", uses),
        7,
        "ceiling 79 is below priority 80",
    );
    assert!(parsed(&lock("protocol = \"protect\"\nceiling = 80\n", uses)).is_ok());
    let ordinary =
        lock("protocol = \"protect\"\nceiling = 80\n", uses).replace("priority = 80\n", "");
    refused(&ordinary, 6, "has no fixed priority");
    refused(&lock("ceiling = 80\n", uses), 9, "only with protocol");
    refused(
        &lock("protocol = \"protect\"\n", uses),
        8,
        "expected ceiling = 1 to 99",
    );
    refused(&lock("protocol = \"best\"\n", uses), 9, "expected one of");
    refused(
        &lock("", "{ lock = \"m\", work = [{ lock = \"m\", work = [] }] }"),
        1,
        "while it holds it",
    );
    assert!(parsed(&lock("", both)).is_ok());
    refused(&lock("", &format!("{both}, {other}")), 1, "opposite order");
    refused(
        &lock("", uses).replace("\"n\"", "\"m\""),
        9,
        "line 7 has this name already",
    );
    let chain = |tasks: &str, b: &str| {
        format!(
            "{}[[task]]\nname = \"b\"\n{b}work = []\n[[task]]\nname = \"c\"\nperiod = \"1ms\"\nwork = []\n[[chain]]\nname = \"x\"\ntasks = [{tasks}]\n",
            task(TIMED)
        )
    };
    let after = "after = \"a\"\n";
    assert!(parsed(&chain("\"a\", \"b\"", after)).is_ok());
    refused(
        &chain("\"a\", \"z\"", after),
        17,
        "'z': expected the name of a task",
    );
    refused(&chain("\"a\"", after), 15, "expected 2 to 32 tasks");
    refused(&chain("\"c\", \"b\"", after), 15, "b is released by a");
    refused(&chain("\"b\", \"c\"", after), 15, "b is released by a");
    refused(&chain("\"a\", \"c\", \"a\"", after), 15, "in it twice");
}

#[test]
fn a_job_must_end_before_the_next_one_arrives_unless_its_task_says_otherwise() {
    let set = |deadline: &str| {
        let text = format!(
            "[[task]]\nname = \"p\"\nperiod = \"10ms\"\n{deadline}\
             [[task.phase]]\njobs = 3\nwork = \"1ms\"\n\
             [[task.phase]]\njobs = 2\nperiod = \"20ms\"\nwork = \"14ms\"\n\
             [[task.phase]]\nperiod = \"5ms\"\nwork = \"1ms\"\n"
        );
        let set = parsed(&text).expect("a set").set;
        let more = (0..3).map(|phase| set.tasks[0].more_ns(phase)).collect();
        (set.tasks[0].deadline_ns, more)
    };
    assert_eq!(set(""), (5_000_000, vec![5_000_000, 15_000_000, 0]));
    assert_eq!(set("deadline = \"8ms\"\n"), (8_000_000, vec![0; 3]));
    // One that such a task releases: its next arrival may come as soon as the shortest period allows.
    let text = "[[task]]\nname = \"p\"\nperiod = \"10ms\"\n\
                [[task.phase]]\nperiod = \"20ms\"\nwork = []\n\
                [[task]]\nname = \"q\"\nafter = \"p\"\nevery = 2\nwork = []\n";
    let set = parsed(text).expect("a set").set;
    assert_eq!(set.tasks[1].deadline_ns, 40_000_000);
}

#[test]
fn too_many_of_anything_are_refused() {
    let tasks = |count: usize| -> String {
        let one = |number| format!("[[task]]\nname = \"t{number}\"\nperiod = \"1s\"\nwork = []\n");
        (0..count).map(one).collect()
    };
    assert!(parsed(&tasks(512)).is_ok());
    refused(
        &tasks(513),
        1 + 4 * 512,
        "too many tasks: expected at most 512",
    );
    let locks: String = (0..65)
        .map(|number| format!("[[lock]]\nname = \"l{number}\"\n"))
        .collect();
    refused(&(tasks(1) + &locks), 5 + 2 * 64, "too many locks");
    let steps = |count: usize| {
        format!(
            "{}work = [{}]\n",
            task("period = \"1s\"\n"),
            "{ calls = 1 },".repeat(count)
        )
    };
    assert!(parsed(&steps(256)).is_ok());
    refused(&steps(257), 1, "");
    let phases =
        |count: usize| task("period = \"1s\"\n") + &"[[task.phase]]\nwork = []\n".repeat(count);
    assert!(parsed(&phases(64)).is_ok());
    refused(&phases(65), 1, "expected 1 to 64 phases");
    let long = "#".repeat(punctual_taskset::MOST_BYTES + 1);
    refused(&long, 1, "longer than 1 MiB");
    let deep = format!(
        "{}work = {}[]{}\n",
        task("period = \"1s\"\n"),
        "[{lock=\"m\",work=".repeat(500),
        "}]".repeat(500)
    );
    assert!(parsed(&deep).is_err());
    let nested = |depth: usize| {
        let locks: String = (0..depth)
            .map(|at| format!("[[lock]]\nname = \"l{at}\"\n"))
            .collect();
        let open: String = (0..depth)
            .map(|at| format!("[{{lock=\"l{at}\",work="))
            .collect();
        format!(
            "{}work = {open}[]{}\n{locks}",
            task("period = \"1s\"\n"),
            "}]".repeat(depth)
        )
    };
    assert!(parsed(&nested(8)).is_ok());
    refused(&nested(9), 6, "expected at most 8");
}
