//! Features that the test machine may lack, on a real PREEMPT_RT and a real standard kernel
//! with two CPUs: wait sources, deadlines, partitions, tracers, eBPF. This test program itself
//! is copied into the guest and runs those of its tests whose name begins with `guest`.

#![allow(
    clippy::print_stdout,
    reason = "what a part prints is read by the test that runs it"
)]

use punctual_record::{Document, Run};
use std::fs;
use std::process::Command;

use super::common::{Place, groups, need};
use super::{lab, ready};

/// Runs some of our own tests in a guest, and returns how many passed.
pub fn in_guest(place: &Place, flags: &[&str], part: &str) -> (usize, String) {
    let own = std::env::current_exe().expect("this program");
    let own = own.to_str().expect("its path");
    let words = [part, "--ignored", "--test-threads", "1", "--show-output"];
    let words = [&["-o", "a"], flags, &["--", own], &words].concat();
    let ended = lab(place, &words);
    let shown = format!("{}{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code(), 0, "{shown}");
    let result = ended
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("test result: ok. "))
        .unwrap_or_else(|| panic!("no result: {shown}"));
    let passed = result.split(' ').next().and_then(|word| word.parse().ok());
    (passed.expect("a number"), shown)
}

/// The number of tests below whose name begins with `guest_`.
const PARTS: usize = 9;

fn all_parts(kernel: &str) {
    need!(ready());
    let place = Place::new();
    let flags = ["--kernel", kernel, "--cpus", "2", "--mem", "2G"];
    let (passed, shown) = in_guest(&place, &flags, "inside::guest_");
    assert_eq!(passed, PARTS, "{shown}");
    assert!(!shown.contains("SKIPPED"), "{shown}");
}

#[test]
fn privileged_features_work_on_preempt_rt() {
    all_parts("rt");
}

#[test]
fn privileged_features_work_on_the_standard_kernel() {
    all_parts("standard");
}

#[test]
fn isolated_processors_are_probed_and_named_ones_are_reached() {
    need!(ready());
    for kernel in ["rt", "standard"] {
        let place = Place::new();
        let flags = ["--kernel", kernel, "--cpus", "2", "--param", "isolcpus=1"];
        let (passed, shown) = in_guest(&place, &flags, "inside::isolcpus_");
        assert_eq!(passed, 1, "{shown}");
        assert!(!shown.contains("SKIPPED"), "{shown}");
    }
}

#[test]
fn late_wake_ups_of_an_application_are_explained() {
    need!(ready());
    let place = Place::new();
    let flags = ["--kernel", "standard", "--load", "exit", "--explain"];
    let (_, shown) = in_guest(&place, &flags, "inside::a_loop_");
    let told = |name: &str| -> u64 {
        let rest = shown.split(name).nth(1).expect("it told");
        let number = rest.split_whitespace().next().expect("a number");
        number.parse().expect("a number")
    };
    let record = super::common::read_json(&place.path().join("a/lab.json"));
    let cell = &record["cells"][0];
    assert_eq!(cell["no_bill"], serde_json::Value::Null, "{cell}");
    let bill = &cell["bills"][0];
    let total = bill["total_ns"].as_u64().expect("a total");
    // Its own measurement includes the path from the interrupt on, which it always takes.
    let (most, least) = (told("latest "), told("earliest "));
    assert!(
        total.abs_diff(most - least) < 2_000,
        "{total}, itself {least} to {most}"
    );
    let rows = bill["rows"].as_array().expect("rows");
    let sum: u64 = rows
        .iter()
        .map(|row| row["instructions"].as_u64().expect("a number"))
        .sum();
    assert_eq!(sum, total);
    let first = rows[0]["function"].as_str().expect("a name");
    let path = ["free", "page", "zap", "unmap", "list", "tlb", "memcg"];
    assert!(path.iter().any(|part| first.contains(part)), "{rows:?}");
    assert!(shown.contains("instructions later than at its earliest"));
    assert!(shown.contains(&format!("  {first}")), "{shown}");
}

/// A control loop as in an application.
#[test]
#[ignore = "run by another test, in the laboratory's guest"]
#[allow(clippy::print_stdout, reason = "the other test reads it")]
fn a_loop_of_the_library_for_another_test() {
    use punctual_rt::periodic::{Loop, Overrun};
    use punctual_rt::sched::{Policy, set_current};
    set_current(Policy::Fifo(80)).expect("a guest's root may");
    let mut every = Loop::every(1_000_000, Overrun::Skip);
    let (mut latest, mut earliest) = (0, u64::MAX);
    while every.cycles() < 300 {
        let cycle = every.wait().expect("no signal");
        latest = latest.max(cycle.latency_ns());
        earliest = earliest.min(cycle.latency_ns());
    }
    println!(
        "latest {latest} earliest {earliest} missed {}",
        every.missed()
    );
}

/// The guest's copy of `punctual`.
pub fn punctual(words: &[&str]) -> std::process::Output {
    let output = Command::new("/bin/punctual").args(words).output();
    output.expect("the guest has punctual")
}

pub fn is_rt() -> bool {
    fs::read_to_string("/sys/kernel/realtime").is_ok_and(|text| text.trim() == "1")
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_every_wait_source_wakes_a_real_time_thread() {
    for kind in punctual_tool::probe::kinds::KINDS {
        let folder = format!("/tmp/{}", kind.name);
        let words = [
            "measure", kind.name, "-p", "80", "-t", "1", "-l", "50", "-q",
        ];
        let output = punctual(&[&words[..], &["--no-explain", "-o", &folder]].concat());
        let run = Run::read(folder.as_ref()).expect("a record");
        assert_eq!(
            run.threads[0].latency.count, 50,
            "{}: {output:?}",
            kind.name
        );
        let broken: Vec<_> = run
            .demands
            .iter()
            .filter(|demand| demand.standing == punctual_record::Standing::NotInForce)
            .collect();
        assert!(broken.is_empty(), "{}: {broken:?}", kind.name);
    }
}

/// A thread that waits for a lock within the kernel isn't stopped, and one that is stopped is.
#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_a_stop_is_told_from_a_wait_within_the_kernel() {
    let words = ["measure", "-p", "80", "-t", "2", "-D", "5", "-q"];
    let stops_of = |folder: &str, stop: bool| {
        let words = [&words[..], &["--no-explain", "-o", folder]].concat();
        let mut command = Command::new("/bin/punctual");
        let mut child = command.args(words).spawn().expect("it starts");
        if stop {
            use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
            let pid = Pid::from_child(&child);
            // The record is there when all is set up, and the first samples are soon.
            crate::common::until("its record", || Run::read(folder.as_ref()).is_ok());
            let sleep = |ms| std::thread::sleep(std::time::Duration::from_millis(ms));
            sleep(2_000);
            kill_process(pid, Signal::STOP).expect("it runs");
            // A thread that runs is stopped when its processor gets to it.
            waitpid(Some(pid), WaitOptions::UNTRACED).expect("it stops");
            sleep(300);
            kill_process(pid, Signal::CONT).expect("it is stopped");
        }
        child.wait().expect("it ends");
        let run = Run::read(folder.as_ref()).expect("a record");
        run.stops
            .map_or((0, 0), |it| (it.count, it.total_ns / 1_000_000))
    };
    assert_eq!(stops_of("/tmp/unstopped", false), (0, 0));
    let (count, length_ms) = stops_of("/tmp/stopped", true);
    assert_eq!(count, 1);
    assert!((300..500).contains(&length_ms), "{length_ms} ms");
}

/// The number of this thread.
fn own_thread() -> i32 {
    let link = fs::read_link("/proc/thread-self").expect("procfs");
    let name = link.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.parse().ok()).expect("a number")
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_a_deadline_is_granted_and_met() {
    use punctual_rt::sched::{Policy, get, set_current};
    let policy = Policy::Deadline {
        runtime_ns: 500_000,
        deadline_ns: 1_000_000,
        period_ns: 1_000_000,
    };
    set_current(policy).expect("SCHED_DEADLINE is admitted");
    assert_eq!(get(0).expect("it can be read"), Some(policy));
    set_current(Policy::Other).expect("back");
    // Two threads that need a whole CPU each exceed what the kernel grants on two.
    let whole = Policy::Deadline {
        runtime_ns: 1_000_000,
        deadline_ns: 1_000_000,
        period_ns: 1_000_000,
    };
    let own = own_thread();
    // A thread with a deadline may not create threads, so the other one is created before.
    let (go, may_go) = std::sync::mpsc::channel();
    let other = std::thread::spawn(move || {
        may_go.recv().expect("it is told");
        let refused = set_current(whole);
        punctual_rt::sched::set(own, Policy::Other).expect("back");
        refused
    });
    set_current(whole).expect("one is admitted");
    go.send(()).expect("it waits");
    let error = other.join().expect("it ends").expect_err("refused");
    assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_a_processor_is_isolated_and_given_back() {
    use punctual_rt::cpuset::{Cpusets, Version};
    let sets = Cpusets::of_this_machine().expect("the guest has the controller");
    assert_eq!(sets.version(), Version::Two);
    let set = sets.create("own", &[1]).expect("an isolated partition");
    set.state().expect("the promise holds");
    assert_eq!(set.cpus().expect("its CPUs"), "1");
    let mut child = Command::new("/bin/punctual")
        .args(["load", "cpu", "-D", "60"])
        .spawn()
        .expect("a child");
    set.move_process(child.id() as i32).expect("it is moved");
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    assert_eq!(allowed.map(str::trim), Some("1"));
    child.kill().expect("it ends");
    child.wait().expect("it ended");
    set.remove().expect("it goes");
    assert!(!set.folder().exists());
}

/// A short measurement in its own folder, and its record.
fn measured(words: &[&str]) -> (Run, String) {
    static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let folder = format!("/tmp/place-{number}");
    let common = ["measure", "-l", "50", "--no-explain", "-o", &folder];
    let output = punctual(&[&common[..], words].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let run = Run::read(folder.as_ref());
    let run = run.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!(run.threads[0].latency.count, 50, "{output:?}");
    let broken = run.demands.iter().find(|demand| {
        demand.name() == "affinity" && demand.standing != punctual_record::Standing::InForce
    });
    assert_eq!(broken, None);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    (run, said)
}

/// Restricts this thread, and what it starts, to these CPUs.
fn affinity(cpus: &[usize]) {
    punctual_rt::affinity::set_current(cpus).expect("they are there");
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn isolcpus_leave_the_second_processor_to_the_probe() {
    use punctual_record::Chosen;
    let online = fs::read_to_string("/sys/devices/system/cpu/isolated").expect("sysfs");
    assert_eq!(online.trim(), "1");
    let place = |words: &[&str]| {
        let (run, said) = measured(words);
        let place = run.placement.clone().expect("it is recorded");
        (run.request.cpus, place, said)
    };
    // Isolated CPUs are measured, and everything else stays away from them.
    let (probed, found, said) = place(&["--load", "cpu"]);
    assert_eq!((&*probed, found.chosen), (&[1][..], Chosen::Isolated));
    assert_eq!(
        (&*found.inherited, &*found.reachable),
        (&[0][..], &[0, 1][..])
    );
    assert_eq!((&*found.load, found.housekeeping), (&[0][..], Some(0)));
    let words = "probed 1 (isolated by isolcpus), load 0 (not on probed CPUs), collector 0";
    assert!(said.contains(words), "{said}");
    // Each CPU can be named.
    for (list, cpus) in [("1", &[1][..]), ("0", &[0]), ("all", &[0, 1]), ("!0", &[1])] {
        let (probed, found, said) = place(&["-a", list]);
        assert_eq!((&*probed, found.chosen), (cpus, Chosen::Named), "{said}");
    }
    // An affinity that the kernel did not set.
    affinity(&[1]);
    let (probed, found, said) = place(&["--load", "cpu"]);
    assert_eq!(
        (&*probed, found.chosen),
        (&[1][..], Chosen::Inherited),
        "{said}"
    );
    assert_eq!(found.load, [1]);
    affinity(&[0, 1]);
    let (probed, found, _) = place(&[]);
    assert_eq!((&*probed, found.chosen), (&[1][..], Chosen::Isolated));
    affinity(&[0]);
    // A load without a run is on the CPUs of other programs, and can be put elsewhere.
    for (words, cpus) in [(&[][..], "0"), (&["-a", "1"], "1")] {
        let output = punctual(&[&["load", "cpu", "-D", "1", "--json"], words].concat());
        let reports: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(reports[0]["parameters"]["cpus"], cpus, "{output:?}");
        assert_eq!(reports[0]["parameters"]["workers"], "1");
    }
    let output = punctual(&["measure", "-a", "2", "-l", "5"]);
    assert_eq!(output.status.code(), Some(64), "{output:?}");
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_an_isolated_partition_is_probed_from_within() {
    use punctual_record::Chosen;
    use punctual_rt::cpuset::Cpusets;
    let sets = Cpusets::of_this_machine().expect("the guest has the controller");
    let set = sets.create("probed", &[1]).expect("an isolated partition");
    set.state().expect("the promise holds");
    // From outside it is not a default. Linux 6.1 still lets a process move there, newer kernels
    // don't: the output says what happened.
    let output = punctual(&["measure", "-a", "1", "-l", "5", "--no-explain"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let refused = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        Some(0) => assert!(said.contains("probed 1 (named by -a)"), "{said}"),
        code => {
            assert_eq!(code, Some(64), "{refused}");
            assert!(refused.contains("cpuset"), "{refused}");
        }
    }
    // Linux 6.1 may leave the CPU with the others after a partition was removed.
    let own = punctual_rt::affinity::get(0).expect("its own");
    let (run, said) = measured(&[]);
    assert_eq!(run.request.cpus, own, "{said}");
    // From within, it has all available CPUs, also for the load.
    let mut command = Command::new("/bin/punctual");
    command.args([
        "measure",
        "-l",
        "50",
        "--no-explain",
        "--load",
        "cpu",
        "-o",
        "/tmp/within",
    ]);
    groups::join(&mut command, set.folder());
    let output = command.output().expect("it runs");
    let run = Run::read("/tmp/within".as_ref());
    let run = run.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let place = run.placement.expect("it is recorded");
    assert_eq!(
        (&*run.request.cpus, place.chosen),
        (&[1][..], Chosen::Isolated)
    );
    assert_eq!((&*place.load, place.housekeeping), (&[1][..], None));
    let folder = set.folder().to_str().expect("a path").to_owned();
    assert_eq!(place.partition, Some(folder));
    set.remove().expect("it goes");
}

const TRACING: &str = "/sys/kernel/tracing";

fn tell_tracing(file: &str, text: &str) {
    fs::write(format!("{TRACING}/{file}"), text)
        .unwrap_or_else(|error| panic!("{file} {text}: {error}"));
}

/// Lines that a tracer writes in some time. It pauses while they are read, because an emulator is
/// slow.
fn traced(tracer: &str, wanted: usize) -> usize {
    tell_tracing("current_tracer", tracer);
    let begin = std::time::Instant::now();
    let mut lines = 0;
    while lines < wanted && begin.elapsed().as_secs() < 60 {
        tell_tracing("tracing_on", "1");
        std::thread::sleep(std::time::Duration::from_millis(700));
        tell_tracing("tracing_on", "0");
        let text = fs::read_to_string(format!("{TRACING}/trace")).expect("a trace");
        lines = text.lines().filter(|line| !line.starts_with('#')).count();
    }
    tell_tracing("current_tracer", "nop");
    lines
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_the_tracers_of_this_kernel_trace() {
    let known = fs::read_to_string("/sys/kernel/tracing/available_tracers").expect("tracefs");
    let has = |name: &str| known.split_whitespace().any(|known| known == name);
    // Debian's standard kernel has none of the latency tracers.
    let latency = ["timerlat", "osnoise", "hwlat", "wakeup_rt"];
    for name in latency {
        assert_eq!(has(name), is_rt(), "{name}: {known}");
    }
    assert!(has("function_graph"), "{known}");
    // Only one function: an emulator with two CPUs can't trace all of them.
    tell_tracing("set_ftrace_filter", "hrtimer_nanosleep");
    assert!(traced("function_graph", 1) >= 1);
    tell_tracing("set_ftrace_filter", "");
    if is_rt() {
        assert!(traced("timerlat", 4) >= 4);
        for (file, us) in [
            ("osnoise/runtime_us", "50000"),
            ("osnoise/period_us", "100000"),
            ("hwlat_detector/width", "50000"),
            ("hwlat_detector/window", "100000"),
        ] {
            tell_tracing(file, us);
        }
        assert!(traced("osnoise", 1) >= 1);
        // In an emulator any pause of the host counts as the hardware's.
        tell_tracing("tracing_thresh", "1");
        assert!(traced("hwlat", 1) >= 1);
        tell_tracing("tracing_thresh", "0");
    }
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_late_wake_ups_are_explained_by_bpf() {
    let words = [
        "measure",
        "nanosleep",
        "-p",
        "80",
        "-t",
        "1",
        "-l",
        "200",
        "-q",
    ];
    let output = punctual(&[&words[..], &["--explain-above", "1", "-o", "/tmp/bpf"]].concat());
    let run = Run::read("/tmp/bpf".as_ref()).expect("a record");
    let explanation = run
        .explanation
        .unwrap_or_else(|| panic!("{output:?}: {:?}", run.events));
    assert!(explanation.explained > 0, "{explanation:?}");
    for bill in &explanation.bills {
        let sum: u64 = bill.rows.iter().map(|row| row.ns).sum();
        assert_eq!(sum, bill.latency_ns, "{bill:?}");
    }
    assert!(!explanation.bills.is_empty());
}

/// The kernel takes all programs of a watch, with each of its parts.
#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_a_program_is_watched() {
    let words = ["measure", "timerfd", "-p", "80", "-t", "1", "-D", "30"];
    let mut command = Command::new("/bin/punctual");
    command
        .args(words)
        .args(["--no-explain", "-q", "-o", "/tmp/watched"]);
    let mut child = command.spawn().expect("it starts");
    crate::common::until("its record", || Run::read("/tmp/watched".as_ref()).is_ok());
    let number = child.id().to_string();
    let words = ["watch", &number, "-D", "2", "--off-cpu", "--run-queue"];
    let output = punctual(&[&words[..], &["--deadline", "1s", "-q", "-o", "/tmp/watch"]].concat());
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    let run = Run::read("/tmp/watch".as_ref());
    let run = run.unwrap_or_else(|error| panic!("{error}: {output:?}"));
    let watch = run.watch.expect("a watch");
    let most = watch.threads.iter().map(|it| it.by_timer.count).max();
    assert!(most > Some(1_000), "{most:?}: {output:?}");
}

#[test]
#[ignore = "run by another test, in the laboratory's guest"]
fn guest_the_kernel_is_the_expected_one() {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("a release");
    assert_eq!(release.contains("-rt-"), is_rt(), "{release}");
    let cpus = std::thread::available_parallelism().expect("a number");
    assert_eq!(cpus.get(), 2);
}
