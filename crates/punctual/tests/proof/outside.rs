//! Proofs about the measuring loop from outside: what the kernel counted for the
//! program.

use crate::common;
use std::fs;
use std::thread::{sleep, spawn};
use std::time::Duration;

use crate::common::{Place, Running, cpus, each, in_force, need, needs, read_json};
use punctual_rt::sched::{Policy, set_current};
use punctual_tool::probe::kinds::KINDS;

#[test]
fn no_page_fault_in_the_loop_of_any_wait_source() {
    need!(needs::rights());
    for kind in KINDS {
        for interval in ["fixed", "primes"] {
            let place = Place::new();
            let flags = [
                "measure",
                kind.name,
                "-l",
                "150",
                "--interval",
                interval,
                "--json",
            ];
            let summary = place.run(&flags).json();
            assert!(in_force(&summary, "locked-memory"), "{}", kind.name);
            for thread in summary["threads"].as_array().expect("threads") {
                let name = kind.name;
                assert_eq!(thread["faults"]["minor"], 0, "{name}, {interval}: {thread}");
                assert_eq!(thread["faults"]["major"], 0, "{name}, {interval}: {thread}");
            }
        }
    }
}

/// The output of strace for all threads of a measurement, and its record.
fn under_strace(what: &[&str], flags: &[&str]) -> (String, serde_json::Value) {
    let place = Place::new();
    let mut command = place.command("strace");
    command.args(["-f", "-o", "trace"]).args(what);
    command.arg(common::program());
    command.args(["measure", "-o", "run", "-q"]).args(flags);
    let _ = Running::start(command).end();
    let record = read_json(&place.path().join("run/run.json"));
    let trace = fs::read_to_string(place.path().join("trace")).expect("the trace");
    (trace, record)
}

/// System calls of the probe thread inside its loop, under strace, and the
/// summary of the run.
fn calls_in_loop(flags: &[&str]) -> (Vec<String>, serde_json::Value) {
    let (trace, record) = under_strace(&[], flags);
    let tid = each(&record, "tid")[0];
    // A call that another thread's line interrupts is there twice.
    let calls: Vec<&str> = trace
        .lines()
        .filter_map(|line| line.strip_prefix(&format!("{tid} ")))
        .map(str::trim_start)
        .filter(|call| !call.starts_with("<..."))
        .collect();
    // The thread reads its own CPU time right before and after each of its
    // loops: the warm-up's, then the measurement's.
    let marks: Vec<usize> = (0..calls.len())
        .filter(|&at| calls[at].starts_with("clock_gettime(CLOCK_THREAD_CPUTIME_ID"))
        .collect();
    assert_eq!(marks.len(), 4, "{calls:#?}");
    let mut inside = calls[marks[2] + 1..marks[3]].to_vec();
    // After the last wait the wait source is closed.
    const WAITS: [&str; 4] = ["clock_nanosleep", "read(", "rt_sigtimedwait", "FUTEX_WAIT"];
    while inside
        .pop_if(|call| !WAITS.iter().any(|wait| call.contains(wait)))
        .is_some()
    {}
    (inside.into_iter().map(str::to_owned).collect(), record)
}

#[test]
fn one_system_call_a_cycle_and_no_other() {
    need!(needs::program("strace"));
    let cpu = cpus()[0].to_string();
    for kind in KINDS {
        for interval in ["fixed", "primes"] {
            let flags = [kind.name, "-l", "300", "-a", &cpu, "--interval", interval];
            let (calls, record) = calls_in_loop(&flags);
            let cycles = 300;
            let counted = calls.len() as u64;
            let case = format!("{} with {interval} intervals: {counted} calls", kind.name);
            match (kind.name, interval) {
                // Timers of different lengths are armed for each cycle.
                ("timerfd" | "timer-signal", "primes") => {
                    assert_eq!(counted, 2 * cycles, "{case}");
                }
                // Armed once. A late thread may be notified of an expiration that it
                // has skipped already.
                ("timerfd" | "timer-signal", _) => {
                    // A tracer's stops remove cycles from the count, not from the loop.
                    let stopped = record["stops"]["cycles"].as_u64().unwrap_or(0);
                    let missed = each(&record, "missed")[0] + stopped;
                    let least = cycles + 1;
                    assert!(
                        (least..=least + missed).contains(&counted),
                        "{case}, {missed} missed"
                    );
                }
                _ => assert_eq!(counted, cycles, "{case}"),
            }
            let names: std::collections::BTreeSet<&str> = calls
                .iter()
                .map(|call| call.split('(').next().unwrap_or(""))
                .collect();
            let known: &[&str] = match kind.name {
                "nanosleep" | "nanosleep-relative" => &["clock_nanosleep"],
                "timerfd" => &["read", "timerfd_settime"],
                "timer-signal" => &["rt_sigtimedwait", "timer_settime"],
                _ => &["futex"],
            };
            assert!(
                names.iter().all(|name| known.contains(name)),
                "{case}: {names:?}"
            );
        }
    }
}

#[test]
fn the_heap_does_not_grow_while_probes_run() {
    need!(needs::rights());
    need!(needs::program("strace"));
    let (trace, record) = under_strace(&["-e", "trace=brk,mlockall"], &["-D", "2", "--no-explain"]);
    assert!(in_force(&record, "locked-memory"), "{}", record["demands"]);
    // Until the first of the threads, a probe, ends.
    let running = trace
        .lines()
        .skip_while(|line| !line.contains("mlockall("))
        .take_while(|line| !line.contains("exited with"));
    let grown: Vec<&str> = running.filter(|line| line.contains("brk(")).collect();
    assert!(trace.contains("brk("), "{trace}");
    assert!(grown.is_empty(), "{grown:#?}");
}

#[test]
fn polling_makes_one_system_call_a_period_and_has_no_page_fault() {
    let cpu = cpus()[0].to_string();
    let flags = ["noise", "-D", "1", "-a", &cpu];
    need!(needs::program("strace"));
    let (calls, record) = calls_in_loop(&[&flags[..], &["--no-explain"]].concat());
    let sleeps = |call: &String| call.starts_with("clock_nanosleep(");
    assert!(calls.iter().all(sleeps), "{calls:#?}");
    // 100 ms each; periods that have passed are skipped.
    assert!((1..=11).contains(&calls.len()), "{}", calls.len());
    if in_force(&record, "locked-memory") {
        assert_eq!(record["threads"][0]["faults"]["minor"], 0);
        assert_eq!(record["threads"][0]["faults"]["major"], 0);
    }
    let never = ["--runtime", "100ms", "--policy", "other", "--no-explain"];
    let (calls, record) = calls_in_loop(&[&flags[..], &never].concat());
    assert_eq!(calls.len(), 1, "the start alone: {calls:#?}");
    assert!(record["gaps"]["threads"][0]["polls"].as_u64() > Some(10_000));
}

/// A thread of a higher priority that preempts the probe on its CPU, and what the kernel counted
/// for the probe each time.
struct Preempting {
    probe: i32,
    pid: u32,
    cpu: usize,
}

impl Preempting {
    /// Involuntary switches of the probe so far, as the kernel counts them; `None` after its end.
    fn switches(&self) -> Option<u64> {
        let status = format!("/proc/{}/task/{}/status", self.pid, self.probe);
        let status = fs::read_to_string(status).ok()?;
        let count = status
            .lines()
            .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
        count.trim().parse().ok()
    }

    /// Wakes up every 5 ms until the probe ends: when, and the probe's switches by then.
    fn until_its_end(self) -> Vec<(u64, u64)> {
        punctual_rt::affinity::set_current(&[self.cpu]).expect("a CPU");
        set_current(Policy::Fifo(80)).expect("the right to it");
        let mut seen = Vec::new();
        while let Some(switches) = self.switches() {
            seen.push((punctual_rt::clock::now_ns(), switches));
            sleep(Duration::from_millis(5));
        }
        seen
    }
}

/// A poller is preempted by each wake-up of the thread above it, unless it sleeps then, one
/// twentieth of the time.
#[test]
fn the_record_counts_each_preemption_of_a_probe_as_the_kernel_does() {
    need!(needs::rights());
    let cpu = cpus()[0];
    let place = Place::new();
    let flags = ["measure", "noise", "-D", "2", "-p", "30", "-a"];
    let mut going = place.start(&[&flags[..], &[&cpu.to_string(), "--no-explain", "-q"]].concat());
    let preempting = Preempting {
        probe: going.await_probes(1)[0].0,
        pid: going.pid(),
        cpu,
    };
    let seen = spawn(move || preempting.until_its_end())
        .join()
        .expect("the preempting thread");
    let _ = going.end();
    let record = place.record();
    let thread = &record["threads"][0];
    let start_ns = record["start_ns"].as_u64().expect("a start");
    let end_ns = start_ns + thread["measured_ns"].as_u64().expect("a length");
    let recorded = thread["preemptions"].as_u64().expect("a count");

    let during: Vec<u64> = seen
        .iter()
        .filter(|(at_ns, _)| (start_ns..end_ns).contains(at_ns))
        .map(|(_, switches)| *switches)
        .collect();
    let counted = during[during.len() - 1] - during[0];
    // The kernel counts at most one for each wake-up, and what other threads did.
    assert!(during.len() > 100, "{seen:?}");
    assert!(counted > during.len() as u64 / 2, "{seen:?}");
    let whole = seen[seen.len() - 1].1;
    // Between the last look and the end there was no time for more.
    assert!(
        (counted..=whole + 5).contains(&recorded),
        "{recorded} recorded, {counted} of {whole} counted during the measurement"
    );
}
