//! Pitfalls 5 to 7, 9 and 10: conditions that are not stated.

use std::fs;
use std::thread::sleep;
use std::time::Duration;

use super::{MS, measure};
use crate::common::needs::{self, Absent};
use crate::common::{Place, Running, cpus, in_force, need, read_json, skip};

/// Whether a process limits the exit latency of idle states.
fn holds_dma_latency(running: &Running) -> bool {
    let entries = fs::read_dir(format!("/proc/{}/fd", running.pid())).expect("its descriptors");
    entries
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path()).ok())
        .any(|target| target.ends_with("cpu_dma_latency"))
}

#[test]
fn pitfall_05_what_is_tuned_is_said_and_nothing_is_with_as_deployed() {
    need!(needs::rights());
    for tuned in [true, false] {
        let place = Place::new();
        let flags: &[&str] = if tuned { &[] } else { &["--as-deployed"] };
        let mut running = place.start(&[&["measure", "-D", "1", "-o", "run"], flags].concat());
        running.await_probes(cpus().len().min(3));
        sleep(Duration::from_millis(400));
        let held = holds_dma_latency(&running);
        let ended = running.end();
        let record = read_json(&place.path().join("run/run.json"));
        assert_eq!(
            in_force(&record, "cpu-dma-latency"),
            tuned,
            "{}",
            record["demands"]
        );
        assert_eq!(held, tuned);
        assert_eq!(record["request"]["as_deployed"], !tuned);
        let stated = &record["system"]["power"]["cpu_dma_latency_held_us"];
        let words = if tuned {
            assert_eq!(stated, 0);
            "cpu_dma_latency held at 0 µs"
        } else {
            assert!(stated.is_null(), "{stated}");
            let demands = record["demands"].as_array().unwrap();
            assert!(
                demands
                    .iter()
                    .all(|demand| demand["name"] != "cpu-dma-latency")
            );
            "cpu_dma_latency left alone"
        };
        assert!(ended.stdout.contains(words), "{}", ended.stdout);
        let page = fs::read_to_string(place.path().join("run/report.html")).unwrap();
        // No line is broken between a figure and its unit.
        let page = page.replace('\u{a0}', " ");
        assert!(page.contains(words), "the page");
        assert!(page.contains(if tuned {
            "the tool tuned the machine"
        } else {
            "measured as deployed"
        }));
    }
}

#[test]
fn pitfall_06_every_thread_has_priority_80_and_the_same_start() {
    let place = Place::new();
    let mut running = place.start(&["measure", "-D", "1", "-t", "4", "-q", "-o", "run"]);
    let probes = running.await_probes(4);
    sleep(Duration::from_millis(400));
    let seen: Vec<(i32, i32)> = probes
        .iter()
        .map(|(tid, _)| {
            let mut parameter = libc::sched_param { sched_priority: -1 };
            // SAFETY: the parameter is valid and outlives the call.
            let policy = unsafe { libc::sched_getscheduler(*tid) };
            // SAFETY: `parameter` is valid and outlives the call.
            unsafe { libc::sched_getparam(*tid, &raw mut parameter) };
            (policy, parameter.sched_priority)
        })
        .collect();
    running.end();
    let record = read_json(&place.path().join("run/run.json"));
    assert_eq!(record["request"]["policy"], "fifo");
    assert_eq!(record["request"]["priority"], 80);
    assert_eq!(record["request"]["interval"]["interval_ns"], MS);
    need!(needs::rights());
    assert!(in_force(&record, "priority"), "{}", record["demands"]);
    assert_eq!(seen, [(libc::SCHED_FIFO, 80); 4]);
    // Not staggered: all requested instants are on one grid.
    let run = place.run_of_path("run");
    let instants: Vec<u64> = run
        .threads
        .iter()
        .filter_map(|thread| Some(thread.peaks.first()?.asked_ns % MS))
        .collect();
    assert_eq!(instants.len(), 4);
    assert!(
        instants.iter().all(|phase| *phase == instants[0]),
        "{instants:?}"
    );
}

#[test]
fn pitfall_07_qualify_loads_the_machine_in_many_ways() {
    let place = Place::new();
    place.run(&["qualify", "-D", "1", "-q", "-o", "run"]);
    let record = read_json(&place.path().join("run/run.json"));
    assert_eq!(record["request"]["load"], "standard load v1");
    let loads = record["loads"].as_array().unwrap();
    assert!(loads.len() >= 5, "{loads:?}");
    for load in loads {
        assert!(load["work"].as_u64().is_some_and(|work| work > 0), "{load}");
    }
    assert!(loads.iter().any(|load| load["name"] != "cpu"));
    place.await_silence();
}

#[test]
fn pitfall_07_a_load_that_did_nothing_makes_the_run_invalid() {
    let flags = [
        "-D",
        "1",
        "-q",
        "--deadline",
        "1h",
        "--miss",
        "0.99",
        "-o",
        "run",
        "--load",
    ];
    for (load, reason) in [
        ("sleep 1000", "it did no work"),
        ("sleep 0.2", "it ended before it was stopped"),
        ("exit 3 # now", "it ended before it was stopped"),
        ("/nonexistent/command", "load command failed: "),
        ("hackbench:loops=3", "it ended after"),
    ] {
        let place = Place::new();
        let ended = measure(&place, &[&flags[..], &[load]].concat()).expect(4);
        assert!(
            ended.stdout.starts_with("INVALID: "),
            "{load}: {}",
            ended.stdout
        );
        assert!(ended.stdout.contains(reason), "{load}: {}", ended.stdout);
        place.await_silence();
    }
}

#[test]
fn pitfall_07_a_run_without_load_says_so() {
    let place = Place::new();
    let ended = measure(&place, &["-l", "50", "--deadline", "1h", "-o", "run"]);
    assert!(ended.stdout.contains("no load"), "{}", ended.stdout);
}

#[test]
fn pitfall_09_the_tools_own_threads_keep_off_the_probed_cpu() {
    let cpus = cpus();
    let (Some(&probed), true) = (cpus.last(), cpus.len() > 1) else {
        skip!(Absent::cpus(2));
    };
    let place = Place::new();
    let mut running = place.start(&[
        "measure",
        "-D",
        "1",
        "-q",
        "-a",
        &probed.to_string(),
        "-o",
        "run",
    ]);
    let tid = running.await_probes(1)[0].0;
    sleep(Duration::from_millis(300));
    let status = |tid: i32, field: &str| {
        let path = format!("/proc/{}/task/{tid}/status", running.pid());
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(field).map(str::to_owned));
        line.unwrap_or_default().trim().to_owned()
    };
    let (collector, _) = running
        .threads()
        .into_iter()
        .find(|(_, name)| name == "collector")
        .expect("a collector");
    assert_eq!(status(tid, "Cpus_allowed_list:"), probed.to_string());
    assert_ne!(status(collector, "Cpus_allowed_list:"), probed.to_string());
    assert!(
        !status(collector, "Cpus_allowed_list:").contains(['-', ',']),
        "pinned"
    );
    // SAFETY: sched_getscheduler takes an integer and no pointer.
    let policy = unsafe { libc::sched_getscheduler(collector) };
    assert_eq!(policy, libc::SCHED_OTHER);
    running.end();
}

#[test]
fn pitfall_09_siblings_and_throttling_are_stated() {
    let place = Place::new();
    measure(&place, &["-l", "50", "-q", "-o", "run"]);
    let record = read_json(&place.path().join("run/run.json"));
    assert!(record["system"]["processor"]["siblings"].is_array());
    let file = "/proc/sys/kernel/sched_rt_runtime_us";
    need!(needs::kernel_file(file));
    let runtime = fs::read_to_string(file).expect("a number");
    let runtime: i64 = runtime.trim().parse().expect("a number");
    assert_eq!(record["system"]["scheduler"]["rt_runtime_us"], runtime);
    let demands = record["demands"].as_array().unwrap();
    let stated = demands
        .iter()
        .any(|demand| demand["name"] == "rt-throttling");
    assert_eq!(stated, (0..1_000_000).contains(&runtime), "{demands:?}");
}

#[test]
fn pitfall_10_no_window_is_left_out() {
    // Every period from the first to the last is a sample or a missed one.
    let place = Place::new();
    measure(&place, &["-D", "1", "-q", "-o", "run"]);
    let record = read_json(&place.path().join("run/run.json"));
    for thread in record["threads"].as_array().unwrap() {
        let measured = thread["measured_ns"].as_u64().unwrap();
        let periods =
            thread["latency"]["count"].as_u64().unwrap() + thread["missed"].as_u64().unwrap();
        assert_eq!(measured % MS, 0, "{thread}");
        // The last wake-up may have been late for periods after it.
        assert!(periods >= measured / MS, "{thread}");
        assert!(
            periods <= measured / MS + thread["missed"].as_u64().unwrap(),
            "{thread}"
        );
        assert!(periods >= 999, "{thread}");
    }
}

#[test]
fn pitfall_10_the_tool_states_its_own_cost() {
    let place = Place::new();
    measure(&place, &["-l", "200", "-q", "-o", "run"]);
    let record = read_json(&place.path().join("run/run.json"));
    for name in [
        "collector_cpu_ns",
        "probes_cpu_ns",
        "peak_resident_bytes",
        "clock_read_ns",
    ] {
        assert!(
            record["own_cost"][name]
                .as_u64()
                .is_some_and(|cost| cost > 0),
            "{name}"
        );
    }
}
