//! `explain` of other tools' recordings: the bill agrees with what they state, and a known culprit
//! is named.

use crate::common;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::needs::{self, Absent};
use crate::common::{Place, need, skip};
use crate::recordings_damaged::each_truncation_is_found;
use crate::recordings_events::recorded_by;
use punctual_record::explanation::{NotSeen, RecordedEvents};
use punctual_trace::attribute::{self, Bill, Cause};
use punctual_trace::foreign::Recording;
use punctual_trace::foreign::open::RecordingKind;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/seeds/recording")
        .join(name)
}

fn bills(recording: &Recording) -> Vec<Bill> {
    let wake_ups = recording.wake_ups.iter();
    wake_ups
        .map(|wake_up| attribute::bill(&wake_up.window(recording)))
        .collect()
}

/// The kernel's own measurement is the oracle: 589 ns to the interrupt, 7,832 ns to the thread.
#[test]
fn rtlas_stopped_trace_has_the_latency_that_the_kernel_states() {
    let text = fs::read(data("rtla-timerlat.txt")).expect("a file");
    let recording = Recording::read(&text[..]).expect("a recording");
    let bills = bills(&recording);
    assert_eq!(bills.len(), 1);
    assert_eq!((bills[0].latency_ns, bills[0].cpu), (7832, 0));
    assert_eq!(bills[0].stages.ns[0], Some(589));
    let sum: u64 = bills[0].rows.iter().map(|row| row.ns).sum();
    assert_eq!(sum, 7832);
    // No name without evidence in the recording.
    let lacks = |lacks| recording.missing.contains(&NotSeen::Recorded { lacks });
    assert!(
        lacks(RecordedEvents::Softirqs) && !lacks(RecordedEvents::Switches),
        "{:?}",
        recording.missing
    );
}

/// Made by hand, so that each ns is known: a timer due at 1.000100 is delayed by an interrupt of
/// 40 us, then a thread above the woken one runs for 200 us.
const KNOWN: &str = "# tracer: nop\n\
    \x20 idle-0       [002] d..2.   1.000000: sched_switch: prev_comm=late one prev_pid=7 prev_prio=49 prev_state=S ==> next_comm=swapper/2 next_pid=0 next_prio=120\n\
    \x20 late-7       [002] d..2.   0.999990: hrtimer_start: hrtimer=00000000aa function=hrtimer_wakeup expires=5000100000 softexpires=5000100000 mode=ABS\n\
    \x20 <idle>-0     [002] d.h1.   1.000095: irq_handler_entry: irq=31 name=eth0\n\
    \x20 <idle>-0     [002] d.h1.   1.000135: irq_handler_exit: irq=31 ret=handled\n\
    \x20 <idle>-0     [002] d.h1.   1.000140: local_timer_entry: vector=236\n\
    \x20 <idle>-0     [002] d.h1.   1.000141: hrtimer_expire_entry: hrtimer=00000000aa function=hrtimer_wakeup now=5000141000\n\
    \x20 <idle>-0     [002] d.h2.   1.000142: sched_waking: comm=late one pid=7 prio=49 target_cpu=002\n\
    \x20 <idle>-0     [002] d.h1.   1.000143: hrtimer_expire_exit: hrtimer=00000000aa\n\
    \x20 <idle>-0     [002] d.h1.   1.000145: local_timer_exit: vector=236\n\
    \x20 <idle>-0     [002] d..2.   1.000146: sched_switch: prev_comm=swapper/2 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=known hog next_pid=9 next_prio=9\n\
    \x20 known hog-9  [002] d..2.   1.000346: sched_switch: prev_comm=known hog prev_pid=9 prev_prio=9 prev_state=S ==> next_comm=late one next_pid=7 next_prio=49\n";

#[test]
fn every_nanosecond_of_a_known_recording_has_its_owner() {
    let recording = Recording::read(KNOWN.as_bytes()).expect("a recording");
    let bills = bills(&recording);
    assert_eq!(bills.len(), 1);
    let bill = &bills[0];
    assert_eq!((bill.cpu, bill.latency_ns), (2, 246_000));
    let of = |is: &dyn Fn(&Cause) -> bool| -> u64 {
        let rows = bill.rows.iter().filter(|row| is(&row.cause));
        rows.map(|row| row.ns).sum()
    };
    let hog = |cause: &Cause| matches!(cause, Cause::Thread { task, .. } if task == "known hog");
    assert_eq!(of(&hog), 200_000, "{bill:#?}");
    let eth = |cause: &Cause| matches!(cause, Cause::Interrupt { irq: 31, .. });
    assert_eq!(of(&eth), 35_000, "{bill:#?}");
    let lacks = RecordedEvents::Softirqs;
    assert_eq!(recording.missing, [NotSeen::Recorded { lacks }]);
    // A wake-up across a loss has an unknown cause: it is left out, and that is reported.
    for lost in [
        "CPU:2 [LOST 5 EVENTS]",
        // As `perf script --show-lost-events` prints it.
        "         swapper     0/0     [002]     1.000300000: PERF_RECORD_LOST lost 777",
    ] {
        let lost = KNOWN.replace("  known hog-9", &format!("{lost}\n  known hog-9"));
        let recording = Recording::read(lost.as_bytes()).expect("a recording");
        assert_eq!(recording.wake_ups, []);
        assert!(recording.missing.contains(&NotSeen::RecordingLost));
    }
}

/// As the files of single CPUs one after the other are: a wake-up would end with the switch of another one.
#[test]
fn a_recording_that_is_not_in_order_is_refused() {
    let later = KNOWN
        .replace(" 1.000", " 3.000")
        .replace(" 0.999", " 2.999");
    let read = |text: &str| Recording::read(text.as_bytes());
    assert_eq!(
        read(&format!("{KNOWN}{later}"))
            .expect("in order")
            .wake_ups
            .len(),
        2
    );
    let error = read(&format!("{later}{KNOWN}"))
        .expect_err("not in order")
        .to_string();
    assert!(
        error.starts_with("11 of its 22 events come after later ones"),
        "{error}"
    );
}

/// A module that loads with preemption disabled, a worker, and a return to user space with an interrupt
/// before it: what rtla kept of the worst wake-ups of three machines.
const LOADER: &[&str] = &[
    "modprobe-2041 [003] dN.h1.. 400.301960: irq_noise: local_timer:236 start 400.301951376 duration 7900 ns",
    "timerlat/3-1900 [003] ....... 400.301975: #5000 context thread timer_latency 25300 ns",
    "modprobe-2041 [003] d..h1.. 400.302587: #5001 context irq timer_latency 1600 ns",
    "modprobe-2041 [003] dN.h2.. 400.302598: irq_noise: local_timer:236 start 400.302586162 duration 11800 ns",
    "modprobe-2041 [003] dN.h3.. 400.302947: irq_noise: local_timer:236 start 400.302939174 duration 7300 ns",
    "modprobe-2041 [003] d...3.. 400.303444: thread_noise: modprobe:2041 start 400.302586933 duration 838000 ns",
    "timerlat/3-1900 [003] ....... 400.303445: #5001 context thread timer_latency 859900 ns",
];
const LOADER_ALONE: &[&str] = &[
    "modprobe-2041 [003] d..h1.. 400.302587: #5001 context irq timer_latency 1600 ns",
    "modprobe-2041 [003] dN.h2.. 400.302598: irq_noise: local_timer:236 start 400.302586162 duration 11800 ns",
    "modprobe-2041 [003] dN.h3.. 400.302947: irq_noise: local_timer:236 start 400.302939174 duration 7300 ns",
    "modprobe-2041 [003] d...3.. 400.303444: thread_noise: modprobe:2041 start 400.302586933 duration 838000 ns",
    "timerlat/3-1900 [003] ....... 400.303445: #5001 context thread timer_latency 859900 ns",
];
const WORKER: &[&str] = &[
    "kworker/u8:1-1021 [001] d..h... 1003.011001: #102 context irq timer_latency 13500 ns",
    "kworker/u8:1-1021 [001] dNLh1.. 1003.011005: irq_noise: local_timer:236 start 1003.011000442 duration 7500 ns",
    "kworker/u8:1-1021 [001] d...3.. 1003.011302: thread_noise: kworker/u8:1:1021 start 1003.011001243 duration 285000 ns",
    "timerlat/1-3377 [001] ....... 1003.011304: #102 context thread timer_latency 307000 ns",
];
const RETURN: &[&str] = &[
    "kworker/u8:1-1021 [001] d..h... 1003.011001: #102 context irq timer_latency 13500 ns",
    "kworker/u8:1-1021 [001] dNLh1.. 1003.011005: irq_noise: local_timer:236 start 1003.011000442 duration 7500 ns",
    "kworker/u8:1-1021 [001] d...3.. 1003.011302: thread_noise: kworker/u8:1:1021 start 1003.011001243 duration 285000 ns",
    "timerlatu/1-3377 [001] ....... 1003.011304: #102 context thread timer_latency 307000 ns",
    "timerlatu/1-3377 [001] d..h... 1003.011340: irq_noise: eth0:55 start 1003.011309000 duration 30000 ns",
    "timerlatu/1-3377 [001] ....... 1003.011345: #102 context user-ret timer_latency 345000 ns",
];

#[test]
fn timerlats_wake_ups_have_the_culprits_that_its_noise_shows() {
    for (lines, name, latency_ns, least_ns) in [
        (LOADER, "modprobe", 859_900, 830_000),
        (LOADER_ALONE, "modprobe", 859_900, 830_000),
        (WORKER, "kworker/u8:1", 307_000, 280_000),
        (RETURN, "kworker/u8:1", 345_000, 280_000),
    ] {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let recording = Recording::read(text.as_bytes()).expect("a recording");
        let bills = bills(&recording);
        let bill = bills.last().expect("a wake-up");
        assert_eq!(bill.latency_ns, latency_ns, "{bill:#?}");
        let of = |is: &dyn Fn(&Cause) -> bool| -> u64 {
            let rows = bill.rows.iter().filter(|row| is(&row.cause));
            rows.map(|row| row.ns).sum()
        };
        let culprit =
            |cause: &Cause| matches!(cause, Cause::PreemptOff { task, .. } if task == name);
        assert!(of(&culprit) >= least_ns, "{name}: {bill:#?}");
        let wrong = |cause: &Cause| {
            matches!(
                cause,
                Cause::Blocked { .. } | Cause::Throttled { .. } | Cause::Platform | Cause::Steal
            )
        };
        assert!(of(&wrong) < latency_ns / 20, "{name}: {bill:#?}");
        if lines == RETURN {
            let card = |cause: &Cause| matches!(cause, Cause::Interrupt { irq: 55, .. });
            assert_eq!(of(&card), 30_000, "{bill:#?}");
        }
    }
}

/// The latencies of a recording's wake-ups, in ns.
fn latencies(lines: &[&str]) -> Vec<u64> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let recording = Recording::read(text.as_bytes()).expect("a recording");
    bills(&recording)
        .iter()
        .map(|bill| bill.latency_ns)
        .collect()
}

#[test]
fn a_wake_up_counts_from_its_own_waking() {
    const WAKING: &str =
        "a-70 [001] d..2.   100.000000: sched_waking: comm=rt pid=50 prio=9 target_cpu=000";
    const COMES: &str = "<idle>-0 [000] d..2.   100.000005: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=rt next_pid=50 next_prio=9";
    let later = |line: &str, from: &str, to: &str| line.replace(from, to);
    let again = [
        later(WAKING, "100.000000", "100.500000"),
        later(COMES, "100.000005", "100.500004"),
    ];
    // Woken while it still ran: it did not wait.
    let awake = later(WAKING, "100.000000", "100.000100");
    let sleeps = "rt-50 [000] d..2.   100.000200: sched_switch: prev_comm=rt prev_pid=50 prev_prio=9 prev_state=S ==> next_comm=swapper/0 next_pid=0 next_prio=120";
    let lines = [WAKING, COMES, &*awake, sleeps, &*again[0], &*again[1]];
    assert_eq!(latencies(&lines), [5_000, 4_000]);
    // Woken while it ran, then preempted: it did not wait for a wake-up.
    let leaves = "rt-50 [000] d..2.   100.000010: sched_switch: prev_comm=rt prev_pid=50 prev_prio=9 prev_state=R+ ==> next_comm=hi next_pid=51 next_prio=1";
    let back = "hi-51 [000] d..2.   100.300000: sched_switch: prev_comm=hi prev_pid=51 prev_prio=1 prev_state=S ==> next_comm=rt next_pid=50 next_prio=9";
    assert_eq!(latencies(&[WAKING, leaves, back]), [0_u64; 0]);
    // A timer whose end is not recorded does not explain a waking after another switch.
    let timer = [
        "<idle>-0 [000] d.h..   99.000000: hrtimer_start: hrtimer=00000000aa function=hrtimer_wakeup expires=1000000 softexpires=1000000 mode=ABS",
        "<idle>-0 [000] d.h..   99.001000: hrtimer_expire_entry: hrtimer=00000000aa function=hrtimer_wakeup now=1000500",
        "<idle>-0 [000] d..2.   99.001005: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=oth next_pid=70 next_prio=120",
    ];
    let other = later(WAKING, "[001]", "[000]");
    let lines = [timer[0], timer[1], timer[2], &*other, COMES];
    assert_eq!(latencies(&lines), [5_000]);
}

/// A hog at FIFO 60 takes CPU 0 three times for 30 ms, while a thread at FIFO 40 wakes up each
/// 20 ms: whatever else happens, the latest wake-ups are due to the hog.
const HOG: &str = "import os,time\n\
os.sched_setaffinity(0,{0})\n\
pid=os.fork()\n\
if pid==0:\n    os.sched_setscheduler(0,os.SCHED_FIFO,os.sched_param(40))\n    for _ in range(15): time.sleep(0.02)\n    os._exit(0)\n\
os.sched_setscheduler(0,os.SCHED_FIFO,os.sched_param(60))\n\
open('/proc/self/comm','w').write('known-hog')\n\
for _ in range(3):\n    time.sleep(0.05)\n    end=time.monotonic()+0.03\n    while time.monotonic()<end: pass\n\
os.waitpid(pid,0)\n";

/// The flags of the page's command that name events.
fn events_of(tool: &str) -> Vec<String> {
    let events = recorded_by(tool).into_iter();
    events.flat_map(|event| ["-e".to_owned(), event]).collect()
}

fn hold(place: &Place, file: &str) -> String {
    let shown = place.run(&["explain", file, "--json"]).expect(0).stdout;
    let explanation: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    let mut held = 0;
    for bill in explanation["bills"].as_array().expect("bills") {
        let latency = bill["latency_ns"].as_u64().expect("a latency");
        let rows = bill["rows"].as_array().expect("rows");
        let sum: u64 = rows.iter().map(|row| row["ns"].as_u64().expect("ns")).sum();
        assert_eq!(sum, latency, "{bill:#}");
        let hog = rows
            .iter()
            .filter(|row| row["cause"].to_string().contains("known-hog"));
        let hog: u64 = hog.map(|row| row["ns"].as_u64().expect("ns")).sum();
        held += usize::from(hog > 5_000_000 && hog > latency / 2);
    }
    assert!(held >= 1, "{shown}");
    shown
}

#[test]
fn a_hog_in_perfs_recording_is_named() {
    need!(needs::root());
    need!(needs::program("perf"));
    need!(needs::program("python3"));
    let _alone = crate::tracing_alone();
    let place = Place::new();
    let events = events_of("perf");
    let mut command = place.command("perf");
    command
        .args(["record", "-q", "-a", "-m", "1024", "-o", "perf.data"])
        .args(events);
    let done = command.args(["python3", "-c", HOG]).output().expect("perf");
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        skip!(Absent::refused("perf", said));
    }
    hold(&place, "perf.data");
    let whole = fs::read(place.path().join("perf.data")).expect("a file");
    each_truncation_is_found(&whole, RecordingKind::Perf, 1009);
    // Without perf the error names it.
    let mut command = place.command(common::program());
    command
        .args(["explain", "perf.data"])
        .env("PATH", "/nowhere");
    let ended = common::Running::start(command).end().expect(1);
    assert!(ended.stderr.contains("apt install linux-perf"), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1);
}

/// trace-cmd resets the function tracer first, which a kernel may lack: files replace it.
const RECORD: &str = "set -e\n: >empty; echo 1 >one\n\
    grep -q ' /sys/kernel/tracing ' /proc/mounts || mount -t tracefs none /sys/kernel/tracing\n\
    mount --bind one /proc/sys/kernel/ftrace_enabled\n\
    for f in filter notrace pid notrace_pid; do f=/sys/kernel/tracing/set_ftrace_$f; [ ! -e $f ] || mount --bind empty $f; done\n\
    for f in function notrace; do f=/sys/kernel/tracing/set_graph_$f; [ ! -e $f ] || mount --bind empty $f; done\n\
    [ ! -e /sys/kernel/tracing/set_event_pid ] || mount --bind empty /sys/kernel/tracing/set_event_pid\n\
    exec trace-cmd record -o trace.dat \"$@\"";

#[test]
fn a_hog_in_trace_cmds_recording_is_named_in_both_versions() {
    need!(needs::root());
    need!(needs::program("trace-cmd"));
    need!(needs::program("python3"));
    let _alone = crate::tracing_alone();
    let place = Place::new();
    let events = events_of("trace-cmd");
    let mut command = place.command("unshare");
    command.args(["-m", "sh", "-c", RECORD, "sh"]).args(events);
    let done = command
        .args(["python3", "-c", HOG])
        .output()
        .expect("trace-cmd");
    if !done.status.success() || !place.path().join("trace.dat").exists() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        skip!(Absent::refused("trace-cmd", said));
    }
    let newer = hold(&place, "trace.dat");
    let mut convert = Command::new("trace-cmd");
    convert
        .current_dir(place.path())
        .args(["convert", "--file-version", "6", "-i", "trace.dat"]);
    let done = convert
        .args(["-o", "trace6.dat"])
        .output()
        .expect("trace-cmd");
    assert!(done.status.success(), "{done:?}");
    let version = fs::read(place.path().join("trace6.dat")).expect("a file");
    assert_eq!(&version[10..12], b"6\0");
    assert_eq!(hold(&place, "trace6.dat"), newer);
    for name in ["trace.dat", "trace6.dat"] {
        let whole = fs::read(place.path().join(name)).expect("a file");
        each_truncation_is_found(&whole, RecordingKind::TraceCmd, 1009);
        // trace-cmd may say anything, or print what it still finds.
        fs::write(place.path().join("cut.dat"), &whole[..5000]).expect("written");
        let ended = place.run(&["explain", "cut.dat"]).expect(1);
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(
            ended.stderr.contains("cut.dat: cut off at byte 5000, "),
            "{ended:?}"
        );
    }
}
