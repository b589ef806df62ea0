//! Takes a CPU offline under a probe. These tests are alone in their file, because every other
//! test, and every other program on the machine, would be affected.

#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod common;

use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::sleep;
use std::time::Duration;

use common::hotplug::Offline;
use common::needs::{self, Absent};
use common::{Place, cpus, event_kinds, need, read_json, skip};
use punctual_machine::Root;
use punctual_machine::survey::online;
use punctual_record::Happening;
use punctual_tool::system::monitor::{Monitor, Monitored};

/// One at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn allowed() -> Result<(), Absent> {
    needs::consent(
        "PUNCTUAL_TEST_HOTPLUG",
        "it takes the pinning from other programs' threads: \
         set PUNCTUAL_TEST_HOTPLUG=1 on a machine that you may do that to",
    )
}

#[test]
fn a_cpu_taken_offline_under_a_probe_is_noticed() {
    need!(allowed());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let root = Root::live();
    let Some(&cpu) = online(&root).iter().rev().find(|cpu| **cpu != 0) else {
        skip!(Absent::cpus(2));
    };
    let (stop, stopped) = mpsc::channel::<()>();
    let (tell, told) = mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        let mut mask = [0_u64; 16];
        mask[cpu / 64] |= 1 << (cpu % 64);
        // SAFETY: `mask` has the given length and outlives the call.
        let pinned =
            unsafe { libc::sched_setaffinity(0, size_of_val(&mask), mask.as_ptr().cast()) };
        assert_eq!(pinned, 0);
        // SAFETY: gettid takes no argument and never fails.
        tell.send(unsafe { libc::gettid() }).unwrap();
        let _ = stopped.recv();
    });
    let tid = told.recv().unwrap();
    let mut monitor = Monitor::start(
        &root,
        &[Monitored {
            cpu,
            tid,
            raised: None,
        }],
    );
    let switch = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    need!(needs::kernel_file(&switch));
    let offline = match Offline::take(&switch) {
        Ok(offline) => offline,
        Err(error) => skip!(Absent::refused(&switch, error)),
    };
    let events = monitor.poll(1_000_000_000);
    drop(offline);
    let back = monitor.poll(2_000_000_000);
    drop(stop);
    sleeper.join().unwrap();

    let gone: Vec<_> = events
        .iter()
        .filter(|e| e.kind() == "cpu-offline")
        .collect();
    assert_eq!(gone.len(), 1, "{events:?}");
    assert!(gone[0].invalidates);
    assert_eq!(gone[0].what, Happening::CpuOffline { cpu, probed: true });
    assert!(back.iter().any(|e| e.kind() == "cpu-online"), "{back:?}");
    assert!(online(&root).contains(&cpu));
}

#[test]
fn a_cpu_taken_offline_during_the_run_makes_it_invalid() {
    need!(allowed());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(cpu) = cpus().into_iter().rev().find(|cpu| *cpu != 0) else {
        skip!(Absent::cpus(2));
    };
    let switch = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    need!(needs::kernel_file(&switch));
    let place = Place::new();
    let all = cpus()
        .iter()
        .map(usize::to_string)
        .collect::<Vec<_>>()
        .join(",");
    // A valid run of these flags passes, whatever this machine does.
    let flags = [
        "measure",
        "-q",
        "--deadline",
        "1h",
        "--miss",
        "0.99",
        "-i",
        "10000",
    ];
    let mut running = place.start(&[&flags[..], &["-D", "5", "-a", &all, "-o", "run"]].concat());
    running.await_probes(cpus().len());
    sleep(Duration::from_millis(500));
    let offline = Offline::take(&switch).expect("it could be written");
    sleep(Duration::from_secs(2));
    drop(offline);
    let ended = running.end().expect(4);
    let record = read_json(&place.path().join("run/run.json"));
    assert!(
        event_kinds(&record).contains(&"cpu-offline"),
        "{}",
        record["events"]
    );
    assert!(
        ended
            .stdout
            .contains(&format!("CPU {cpu}, which is probed, was taken offline"))
    );
    assert_eq!(record["state"]["state"], "finished");
}
