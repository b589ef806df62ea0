//! Proofs about the loop of a task: between two jobs there is its wait, the release of the task that
//! follows it, and nothing else.

use std::collections::BTreeMap;
use std::fs;

use crate::common::{self, Place, Running, cpus, need, needs};

/// Two tasks, of which one releases the other by each means in turn; both take a lock.
fn set(by: &str) -> String {
    let cpu = cpus()[0];
    format!(
        "[[task]]\nname = \"first\"\npriority = 40\ncpu = {cpu}\nperiod = \"2ms\"\n\
         work = [{{ run = \"10us\" }}, {{ lock = \"m\", work = [{{ memory = \"4KiB\" }}] }}]\n\
         [[task]]\nname = \"second\"\npriority = 30\ncpu = {cpu}\nafter = \"first\"\nby = \"{by}\"\n\
         work = [{{ lock = \"m\", work = \"10us\" }}]\n\
         [[lock]]\nname = \"m\"\n"
    )
}

/// The system calls of a thread in its jobs: by name, how often. What it calls for a contended lock with priority
/// inheritance is left out: how often the other task holds it is up to the machine.
fn calls(trace: &str, tid: i32) -> BTreeMap<String, usize> {
    let own = trace
        .lines()
        .filter_map(|line| line.strip_prefix(&format!("{tid} ")))
        .map(str::trim_start)
        .filter(|call| !call.starts_with("<..."));
    let own: Vec<&str> = own.collect();
    // Its own processor time is read right before its first and after its last job.
    let is_mark = |call: &&&str| call.starts_with("clock_gettime(CLOCK_THREAD_CPUTIME_ID");
    let marks: Vec<usize> = (0..own.len()).filter(|at| is_mark(&&own[*at])).collect();
    assert_eq!(marks.len(), 2, "{own:#?}");
    let mut counted = BTreeMap::new();
    for call in &own[marks[0] + 1..marks[1]] {
        if call.contains("FUTEX_LOCK_PI") || call.contains("FUTEX_UNLOCK_PI") {
            continue;
        }
        let name = call.split('(').next().unwrap_or_default();
        *counted.entry(name.to_owned()).or_default() += 1;
    }
    counted
}

#[test]
fn a_job_makes_no_system_call_but_its_wait_and_the_release_of_the_next_task() {
    need!(needs::program("strace"));
    need!(needs::rights());
    // What the first task calls to release the second, and what the second waits in.
    for (by, releases, waits) in [
        ("futex", "futex", "futex"),
        ("semaphore", "futex", "futex"),
        ("eventfd", "write", "read"),
        ("mqueue", "mq_timedsend", "mq_timedreceive"),
        ("pipe", "write", "read"),
        ("socket", "write", "read"),
        ("signal", "tgkill", "rt_sigtimedwait"),
    ] {
        let place = Place::new();
        fs::write(place.path().join("set.toml"), set(by)).unwrap();
        let mut command = place.command("strace");
        command.args(["-f", "-o", "trace"]).arg(common::program());
        command.args([
            "exec",
            "set.toml",
            "-D",
            "1",
            "-o",
            "run",
            "-q",
            "--no-explain",
        ]);
        let _ = Running::start(command).end();
        let run = place.run_of_path("run");
        let trace = fs::read_to_string(place.path().join("trace")).expect("the trace");
        let [first, second] = [0, 1].map(|task| calls(&trace, run.threads[task].tid));
        // Each job waits once. The record may have fewer: it leaves out what strace stops.
        let jobs = first.get("clock_nanosleep").copied().unwrap_or(0);
        assert!(jobs > 100, "{by}: {jobs}");
        let without_futex = |calls: &BTreeMap<String, usize>| {
            let others = calls.iter().filter(|(name, _)| *name != "futex");
            others
                .map(|(name, count)| (name.clone(), *count))
                .collect::<Vec<_>>()
        };
        let mut expected = vec![("clock_nanosleep".to_owned(), jobs)];
        if releases != "futex" {
            // And once to say that no further job will come, after the last mark.
            expected.push((releases.to_owned(), jobs));
        }
        expected.sort();
        assert_eq!(without_futex(&first), expected, "{by}");
        let waited: Vec<_> = without_futex(&second);
        match waits {
            "futex" => assert_eq!(waited, [], "{by}"),
            // The last wait is for the end.
            _ => assert_eq!(waited, [(waits.to_owned(), jobs + 1)], "{by}"),
        }
        let futexes = first.get("futex").copied().unwrap_or(0);
        let by_futex = if releases == "futex" { jobs } else { 0 };
        assert!(
            (by_futex..=by_futex + 1).contains(&futexes),
            "{by}: {futexes} of {by_futex}"
        );
    }
}

#[test]
fn no_page_fault_in_the_jobs_of_a_task() {
    need!(needs::rights());
    let place = Place::new();
    fs::write(place.path().join("set.toml"), set("condvar")).unwrap();
    let _ = place.run(&["exec", "set.toml", "-D", "1", "-o", "run"]);
    let run = place.run_of_path("run");
    for thread in &run.threads {
        let faults = thread.faults.expect("they were counted");
        assert_eq!((faults.minor, faults.major), (0, 0), "{thread:?}");
    }
}
