//! Task sets, executed: what is counted, who took the time, and how they end.

use std::fs;
use std::time::Duration;

use punctual_record::explanation::{Cause, Meanwhile, SpanLabel};
use punctual_record::taskset::{JobBills, TaskFault, TaskRun};
use punctual_record::{Run, State};
use punctual_stats::verdict::Outcome;

use crate::alone::alone;
use crate::common::{Ended, Place, cpus, flat, need, needs, until};

/// The repository's own examples.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tasksets");

/// Executes a set; `flags` beside the file and the directory.
pub(super) fn executed(place: &Place, text: &str, flags: &[&str]) -> (Ended, Run) {
    fs::write(place.path().join("set.toml"), text).unwrap();
    let all = [&["exec", "set.toml", "-o", "run"], flags].concat();
    let ended = place.run(&all);
    let run = place.run_of_path("run");
    (ended, run)
}

pub(super) fn tasks(run: &Run) -> &TaskRun {
    run.tasks.as_ref().unwrap()
}

pub(super) fn jobs(run: &Run, task: usize) -> u64 {
    tasks(run).tasks[task].jobs.latency.count
}

fn skipped(run: &Run, task: usize) -> u64 {
    tasks(run).tasks[task].jobs.missed
}

/// The share of the time of all late jobs that causes took.
pub(super) fn share(bills: &JobBills, of: impl Fn(&Cause) -> bool) -> f64 {
    let all: u64 = bills.causes.iter().map(|cause| cause.total_ns).sum();
    let those = bills.causes.iter().filter(|cause| of(&cause.cause));
    those.map(|cause| cause.total_ns).sum::<u64>() as f64 / all.max(1) as f64
}

#[test]
fn every_arrival_is_a_job_or_was_skipped_and_the_record_holds_all_of_them() {
    need!(needs::rights());
    let _alone = alone();
    let place = Place::new();
    let cpu = cpus()[0];
    let text = format!(
        r#"
[[task]]
name = "beat"
priority = 60
cpu = {cpu}
period = "2ms"
deadline = "1s"
work = "50us"
[[task]]
name = "half"
priority = 50
cpu = {cpu}
after = "beat"
every = 2
by = "semaphore"
deadline = "1s"
work = "50us"
[[task]]
name = "slow"
period = "100ms"
deadline = "1900ms"
work = "1ms"
[[chain]]
name = "beat to slow"
tasks = ["beat", "slow"]
reaction = "20s"
"#
    );
    let (ended, run) = executed(&place, &text, &["-D", "2", "--miss", "0"]);
    ended.expect(0);
    assert_eq!(run.state, State::Finished);
    for (task, arrivals) in [(0, 1000), (2, 20)] {
        assert_eq!(
            jobs(&run, task) + skipped(&run, task),
            arrivals,
            "task {task}"
        );
    }
    assert_eq!(jobs(&run, 1) + skipped(&run, 1), jobs(&run, 0) / 2);
    // Wake-ups and jobs are counted apart, and are as many.
    for (thread, figures) in run.threads.iter().zip(&tasks(&run).tasks) {
        assert_eq!(thread.latency.count, figures.jobs.latency.count);
        assert_eq!((thread.lost, figures.jobs.lost), (0, 0));
        assert!(figures.cpu_ns.unwrap() > 0);
    }
    let chain = &tasks(&run).chains[0];
    // The first job of the slow task may begin before the first of the beat has ended.
    assert!((19..=20).contains(&chain.age.count), "{}", chain.age.count);
    // Only where the host kept the beat away for a period of it has the slow task nothing new.
    let beat_ns = tasks(&run).tasks[0].jobs.latency.max_ns;
    assert!(
        chain.reaction.count + 1 >= chain.age.count || beat_ns > 90_000_000,
        "{} of {}, {beat_ns} ns",
        chain.reaction.count,
        chain.age.count
    );
    assert_eq!((chain.lost, chain.reaction_longer), (0, 0));
    let verdict = run.verdict.as_ref().unwrap();
    assert_eq!(verdict.outcome, Outcome::Pass);
    assert_eq!((verdict.tasks.len(), verdict.lengths.len()), (3, 1));
    let shown = place.run(&["report", "run"]).expect(0).stdout;
    for word in ["beat to slow", "reaction", "PASS"] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    // Times of `half` hold those of the beat that released it.
    let hop =
        |task: &str| format!("[[hop]]\nname = \"{task}\"\nrun = \"run\"\ntask = \"{task}\"\n");
    let budget = |tasks: [&str; 2]| {
        let text = format!("deadline = \"3s\"\n{}{}", hop(tasks[0]), hop(tasks[1]));
        fs::write(place.path().join("budget.toml"), text).expect("written");
        place.run(&["budget", "budget.toml"])
    };
    assert_ne!(budget(["half", "slow"]).code(), 64);
    let said = budget(["beat", "half"]).expect(64).stderr;
    assert!(
        said.contains("hops half and beat: the times of one hold some of the other"),
        "{said}"
    );
}

/// High waits for a lock that low holds; middle, between them, takes the CPU if it can.
fn inversion(protocol: &str, deadline: &str) -> String {
    let cpu = cpus()[0];
    format!(
        r#"
[[task]]
name = "high"
priority = 70
cpu = {cpu}
period = "10ms"
offset = "1ms"
deadline = "{deadline}"
work = [{{ run = "200us" }}, {{ lock = "m", work = "100us" }}]
[[task]]
name = "middle"
priority = 60
cpu = {cpu}
period = "10ms"
offset = "1ms"
work = "1500us"
[[task]]
name = "low"
priority = 50
cpu = {cpu}
period = "10ms"
deadline = "2500us"
work = [{{ lock = "m", work = "2ms" }}]
[[lock]]
name = "m"
protocol = "{protocol}"
"#
    )
}

/// Whether a cause is a wait for the lock m while low held it, and what low did is this.
fn of_m(cause: &Cause, did: impl Fn(&Option<Meanwhile>) -> bool) -> bool {
    match cause {
        Cause::Lock {
            lock,
            holder,
            meanwhile,
        } => lock == "m" && holder.as_deref() == Some("low") && did(meanwhile),
        Cause::Inversion {
            lock,
            holder,
            meanwhile,
        } => lock == "m" && holder == "low" && did(meanwhile),
        _ => false,
    }
}

fn ran(did: &Option<Meanwhile>) -> bool {
    *did == Some(Meanwhile::Ran)
}

fn behind_middle(did: &Option<Meanwhile>) -> bool {
    matches!(did, Some(Meanwhile::Preempted { task, .. }) if task == "middle")
}

/// Every bill sums to its job, and the longest of each task has a picture of it.
fn check_bills(run: &Run) {
    for task in &tasks(run).tasks {
        for (rank, bill) in task.bills.iter().flat_map(|it| &it.worst).enumerate() {
            let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
            assert_eq!(sum, bill.taken_ns());
            assert_eq!(bill.picture.is_some(), rank == 0);
        }
    }
}

#[test]
fn a_job_that_waits_for_a_lock_is_billed_to_its_holder_and_one_that_is_preempted_to_the_task() {
    need!(needs::rights());
    need!(needs::tracing());
    let _alone = alone();
    let place = Place::new();
    // Without a protocol: middle keeps low off the CPU while low holds what high waits for.
    let text = inversion("plain", "1ms");
    let (ended, run) = executed(&place, &text, &["-D", "2", "--miss", "0"]);
    ended.expect(2);
    let bills = tasks(&run).tasks[0].bills.as_ref().expect("bills");
    // Of 200: the host may keep low from its lock.
    assert!(
        tasks(&run).tasks[0].jobs.late >= 150,
        "{}",
        tasks(&run).tasks[0].jobs.late
    );
    assert!(bills.explained >= 150, "{}", bills.explained);
    // It holds the lock for what is left of its 2 ms, and is kept off the CPU for 1.5 ms.
    let blocked = share(bills, |cause| of_m(cause, |_| true));
    assert!(blocked > 0.6, "{blocked}: {:?}", bills.causes);
    let behind = share(bills, |cause| of_m(cause, behind_middle));
    assert!(behind > 0.25, "{behind}: {:?}", bills.causes);
    let by_low = share(bills, |cause| of_m(cause, ran));
    assert!(by_low > 0.1, "{by_low}: {:?}", bills.causes);
    let work = share(bills, |cause| *cause == Cause::Work);
    assert!((0.02..0.3).contains(&work), "{work}: {:?}", bills.causes);
    // Low is late by those above it.
    let bills = tasks(&run).tasks[2].bills.as_ref().unwrap();
    let by_tasks = share(bills, |cause| match cause {
        Cause::Thread { task, .. } => task == "middle" || task == "high",
        _ => false,
    });
    assert!(by_tasks > 0.2, "{by_tasks}: {:?}", bills.causes);
    check_bills(&run);
    // Picture and rows agree: the host may have delayed this one by more than the lock.
    let longest = &tasks(&run).tasks[0].bills.as_ref().unwrap().worst[0];
    let mut spans = longest.picture.iter().flat_map(|picture| &picture.spans);
    assert_eq!(
        spans.any(|span| {
            matches!(&span.label, SpanLabel::LockWait { lock, holder }
                if lock == "m" && holder.as_deref() == Some("low"))
        }),
        longest.rows.iter().any(|row| of_m(&row.cause, |_| true)),
        "{longest:?}"
    );
    let shown = place.run(&["report", "run", "-v"]).expect(0).stdout;
    for words in [
        "blocked on lock m held by low",
        "preempted by middle",
        "blocked on a lock,",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    // With inheritance nothing comes between.
    fs::remove_dir_all(place.path().join("run")).unwrap();
    let text = inversion("inherit", "500us");
    let (ended, run) = executed(&place, &text, &["-D", "1", "--miss", "0"]);
    ended.expect(2);
    let bills = tasks(&run).tasks[0].bills.as_ref().unwrap();
    assert!(bills.explained >= 75, "{}", bills.explained);
    let by_low = share(bills, |cause| of_m(cause, ran));
    assert!(by_low > 0.4, "{by_low}: {:?}", bills.causes);
    let behind = share(bills, |cause| of_m(cause, behind_middle));
    assert!(behind < 0.05, "{behind}: {:?}", bills.causes);
    check_bills(&run);
}

#[test]
fn a_task_of_several_cpus_is_followed_over_them_and_billed_to_the_thread_in_its_way() {
    need!(needs::rights());
    need!(needs::tracing());
    need!(needs::cpus(2));
    let _alone = alone();
    let place = Place::new();
    let (one, other) = (cpus()[0], cpus()[1]);
    // From 1 ms to 4 ms both CPUs are taken: it has done half of its work by then.
    let text = format!(
        r#"
[[task]]
name = "roams"
priority = 50
cpus = "{one},{other}"
period = "20ms"
deadline = "3ms"
work = "2ms"
[[task]]
name = "hog-one"
priority = 60
cpu = {one}
period = "20ms"
offset = "1ms"
work = "6ms"
[[task]]
name = "hog-other"
priority = 60
cpu = {other}
period = "20ms"
offset = "1ms"
work = "3ms"
"#
    );
    let (ended, run) = executed(&place, &text, &["-D", "1", "--miss", "0"]);
    ended.expect(2);
    let figures = &tasks(&run).tasks[0];
    let bills = figures.bills.as_ref().expect("bills");
    assert!(figures.jobs.late >= 45, "{}", figures.jobs.late);
    assert!(bills.explained >= 30, "{}", bills.explained);
    let by_hogs = share(bills, |cause| match cause {
        Cause::Thread { task, priority, .. } => task.starts_with("hog-") && *priority == 60,
        _ => false,
    });
    assert!(by_hogs > 0.25, "{by_hogs}: {:?}", bills.causes);
    let work = share(bills, |cause| *cause == Cause::Work);
    assert!(work > 0.2, "{work}: {:?}", bills.causes);
    check_bills(&run);
    let spans = bills
        .worst
        .iter()
        .flat_map(|bill| &bill.picture)
        .flat_map(|it| &it.spans);
    let lanes: Vec<u32> = spans.map(|span| span.cpu).collect();
    for cpu in [one, other] {
        assert!(lanes.contains(&(cpu as u32)), "CPU {cpu}: {lanes:?}");
    }
    let folder = ["explain", "run", "--perfetto", "traces"];
    place.run(&folder).expect(0);
    let trace = fs::read(place.path().join("traces/job-1.pftrace")).unwrap();
    assert!(trace.windows(9).any(|bytes| bytes == b"hog-other"));
}

#[test]
fn a_step_that_fails_makes_the_run_invalid_and_names_the_task() {
    need!(needs::rights());
    let _alone = alone();
    let place = Place::new();
    let text = r#"
[[task]]
name = "works"
period = "20ms"
deadline = "1s"
work = "10us"
[[task]]
name = "fails"
period = "20ms"
deadline = "1s"
work = [{ command = ["sh", "-c", "exit 7"] }]
"#;
    let (ended, run) = executed(&place, text, &["-D", "1h"]);
    let ended = ended.expect(4);
    assert!(ended.stdout.contains("INVALID"), "{ended:?}");
    let text = flat(&ended.stdout);
    assert!(
        text.contains("the task fails failed at step 1 of phase 1"),
        "{text}"
    );
    assert!(text.contains("exit status 7"), "{text}");
    assert!(run.measured_ns < 60_000_000_000);
    // What can't be started is said at once.
    let missing = text_with_command("[\"/no/such/program\"]");
    fs::write(place.path().join("missing.toml"), missing).unwrap();
    let ended = place
        .run(&["exec", "missing.toml", "-o", "other"])
        .expect(4);
    assert!(ended.stdout.contains("No such file"), "{ended:?}");
}

fn text_with_command(command: &str) -> String {
    format!(
        "[[task]]\nname = \"starts\"\nperiod = \"20ms\"\ndeadline = \"1s\"\n\
         work = [{{ command = {command} }}]\n"
    )
}

#[test]
fn an_interrupted_set_is_judged_by_what_it_did_and_a_killed_one_is_unfinished() {
    need!(needs::rights());
    let _alone = alone();
    let place = Place::new();
    // The second one sleeps when it ends, and what it releases waits for it.
    let text = "[[task]]\nname = \"t\"\nperiod = \"5ms\"\ndeadline = \"10s\"\nwork = \"10us\"\n\
                [[task]]\nname = \"seldom\"\nperiod = \"30m\"\nwork = \"10us\"\n\
                [[task]]\nname = \"after\"\nafter = \"seldom\"\nwork = \"10us\"\n";
    fs::write(place.path().join("set.toml"), text).unwrap();
    let start = |name: &str| {
        let set = place.start(&["exec", "set.toml", "-D", "1h", "-o", name]);
        let threads = || set.threads().iter().any(|(_, name)| name == "t");
        until("the task runs", threads);
        set
    };
    let set = start("interrupted");
    let record = place.path().join("interrupted/run.json");
    // The first time after 5 s.
    until("it was saved while it ran", || {
        fs::read_to_string(&record).is_ok_and(|text| text.contains("\"start_ns\""))
    });
    set.signal(libc::SIGINT);
    let ended = set.end_within(Duration::from_secs(60));
    assert!(ended.stdout.contains("interrupt"), "{ended:?}");
    let run = place.run_of_path("interrupted");
    assert!(matches!(run.state, State::Stopped(_)), "{:?}", run.state);
    assert!(tasks(&run).tasks.iter().all(|task| task.fault.is_none()));
    assert_eq!((jobs(&run, 1), jobs(&run, 2)), (1, 1));
    let set = start("killed");
    let record = place.path().join("killed/run.json");
    until("it was saved", || record.exists());
    set.signal(libc::SIGKILL);
    set.end_within(Duration::from_secs(60));
    let run = place.run_of_path("killed");
    assert_eq!(run.state, State::Unfinished);
    assert_eq!(tasks(&run).set.tasks.len(), 3);
}

#[test]
fn the_examples_are_executed_whole() {
    need!(needs::rights());
    need!(needs::cpus(2));
    let _alone = alone();
    for (name, count) in [("rt-exec", 17), ("robot", 5), ("audio", 0), ("deadline", 0)] {
        let place = Place::new();
        let file = format!("{EXAMPLES}/{name}.toml");
        let ended = place.run(&["exec", &file, "-D", "1", "-o", "run"]);
        // Deadlines may be missed on this machine, and the sum of reservations refused.
        if ended.code() == 1 && name == "deadline" {
            assert!(ended.stderr.contains("policy"), "{ended:?}");
            continue;
        }
        assert!(matches!(ended.code(), 0 | 2 | 3), "{name}: {ended:?}");
        let run = place.run_of_path("run");
        assert!(count == 0 || run.threads.len() == count);
        for (task, spec) in tasks(&run).set.tasks.iter().enumerate() {
            assert!(jobs(&run, task) > 0, "{name}: {}", spec.name);
        }
    }
}

/// Compiles a shared object.
pub(super) fn object(place: &Place, name: &str, code: &str) {
    let source = place.path().join(format!("{name}.c"));
    fs::write(&source, code).unwrap();
    let mut command = place.command("cc");
    command.args(["-shared", "-fPIC", "-O1", "-o"]);
    command
        .arg(place.path().join(format!("{name}.so")))
        .arg(&source);
    assert!(command.status().expect("a compiler").success());
}

/// Counts its calls in a file, with what it was called by; the fifth result is as the code says.
const STEP: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
struct kept { int calls, file; };
int step(void **place) {
    struct kept *kept = *place;
    if (!kept) {
        kept = *place = calloc(1, sizeof *kept);
        kept->file = open("calls", O_WRONLY | O_CREAT | O_TRUNC, 0600);
        char line[64];
        struct sched_param param;
        sched_getparam(0, &param);
        int length = snprintf(line, sizeof line, "%d %d %d\n", sched_getscheduler(0),
                              param.sched_priority, sched_getcpu());
        if (write(kept->file, line, length) != length) return 9;
    }
    if (write(kept->file, ".", 1) != 1) return 9;
    return ++kept->calls == 5 ? FIFTH : 0;
}
"#;

#[test]
fn a_function_of_a_shared_object_is_called_once_for_each_job_with_the_tasks_priority() {
    need!(needs::rights());
    need!(needs::compiler());
    let _alone = alone();
    let place = Place::new();
    let cpu = cpus()[0];
    for (name, fifth) in [
        ("well", "0"),
        ("fails", "3"),
        ("crashes", "*(volatile int *)0"),
    ] {
        object(&place, name, &STEP.replace("FIFTH", fifth));
    }
    let set = |object: &str, function: &str| {
        format!(
            "[[task]]\nname = \"own\"\npriority = 42\ncpu = {cpu}\nperiod = \"10ms\"\n\
             deadline = \"10s\"\n\
             work = [{{ run = \"10us\" }}, {{ library = \"{object}.so\", function = \"{function}\" }}]\n"
        )
    };
    let (ended, run) = executed(&place, &set("./well", "step"), &["-D", "1", "--miss", "0"]);
    // A busy host skips some jobs, which miss.
    assert!([0, 2, 3].contains(&ended.code()), "{ended:?}");
    let calls = fs::read_to_string(place.path().join("calls")).unwrap();
    let (called_by, dots) = calls.split_once('\n').unwrap();
    assert_eq!(called_by, format!("{} 42 {cpu}", libc::SCHED_FIFO));
    assert_eq!(dots.len() as u64, jobs(&run, 0));
    assert!(dots.len() >= 30, "{dots}");
    place.await_silence();
    for (object, words) in [
        ("./fails", "it returned 3"),
        ("./crashes", "it ended its process: signal: 11"),
    ] {
        fs::remove_dir_all(place.path().join("run")).unwrap();
        let (ended, run) = executed(&place, &set(object, "step"), &["-D", "1h"]);
        let ended = ended.expect(4);
        let text = flat(&ended.stdout);
        assert!(text.contains("failed at step 2 of phase 1"), "{text}");
        assert!(text.contains(words), "{words}: {text}");
        assert_eq!(jobs(&run, 0), 4);
        place.await_silence();
    }
    for (object, function, words) in [
        ("./well", "stop", "undefined symbol: stop"),
        ("./absent", "step", "absent.so: No such file"),
        ("./well.c", "step", "No such file"),
    ] {
        fs::write(place.path().join("set.toml"), set(object, function)).unwrap();
        // Without overheads: a busy host may keep them from being measured, which a line says.
        let flags = ["exec", "set.toml", "--overheads", "none", "-o", "none"];
        let ended = place.run(&flags).expect(1);
        assert!(
            ended
                .stderr
                .starts_with("punctual: set.toml:7: task own: step 2 of phase 1:"),
            "{ended:?}"
        );
        assert!(ended.stderr.contains(words), "{words}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    }
    place.await_silence();
}

#[test]
fn functions_of_one_object_share_its_memory_and_the_one_that_crashed_is_named() {
    need!(needs::rights());
    need!(needs::compiler());
    let _alone = alone();
    let place = Place::new();
    let code = r#"
#include <stdlib.h>
static volatile int written;
int writes(void **place) { (void)place; if (++written == CRASH) abort(); return 0; }
int reads(void **place) { (void)place; static int n; return ++n > 50 && written == 0 ? 7 : 0; }
"#;
    for (name, crash) in [("shares", "-1"), ("crashes", "40")] {
        object(&place, name, &code.replace("CRASH", crash));
    }
    let cpu = cpus()[0];
    let set = |object: &str| {
        let task = |name: &str| {
            format!(
                "[[task]]\nname = \"{name}\"\npriority = 42\ncpu = {cpu}\nperiod = \"10ms\"\n\
                 deadline = \"900ms\"\n\
                 work = [{{ library = \"./{object}.so\", function = \"{name}\" }}]\n"
            )
        };
        task("writes") + &task("reads")
    };
    let (ended, run) = executed(&place, &set("shares"), &["-D", "1", "--miss", "0"]);
    ended.expect(0);
    assert_eq!(jobs(&run, 0) + skipped(&run, 0), 100);
    assert_eq!(jobs(&run, 1) + skipped(&run, 1), 100);
    fs::remove_dir_all(place.path().join("run")).unwrap();
    let (ended, run) = executed(&place, &set("crashes"), &["-D", "1h"]);
    ended.expect(4);
    assert_eq!(jobs(&run, 0), 39);
    let fault = |task: usize| match &tasks(&run).tasks[task].fault {
        Some(TaskFault::Step { error, .. }) => error.clone(),
        other => panic!("{other:?}"),
    };
    let (own, other) = (fault(0), "writes ended the process of both: signal: 6");
    assert!(
        own.contains("writes of ") && own.contains("crashes.so: it ended its process: signal: 6"),
        "{own}"
    );
    // The other task may have ended with the set before it asked again.
    if tasks(&run).tasks[1].fault.is_some() {
        assert!(fault(1).contains(other), "{}", fault(1));
    }
    place.await_silence();
}
