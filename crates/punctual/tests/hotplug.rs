//! Takes a CPU offline under a probe. The test is alone in its file, because every other
//! test, and every other program on the machine, would be affected.

#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

mod common;

use std::sync::mpsc;

use common::hotplug::Offline;
use punctual_machine::Root;
use punctual_machine::survey::online;
use punctual_record::Happening;
use punctual_tool::system::monitor::{Monitor, Monitored};

#[test]
fn a_cpu_taken_offline_under_a_probe_is_noticed() {
    if std::env::var_os("PUNCTUAL_TEST_HOTPLUG").is_none() {
        return eprintln!(
            "SKIPPED: it takes the pinning from other programs' threads: \
             set PUNCTUAL_TEST_HOTPLUG=1 on a machine that you may do that to"
        );
    }
    let root = Root::live();
    let Some(&cpu) = online(&root).iter().rev().find(|cpu| **cpu != 0) else {
        return eprintln!("SKIPPED: no CPU to spare");
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
    let mut monitor = Monitor::start(&root, &[Monitored { cpu, tid }]);
    let switch = format!("/sys/devices/system/cpu/cpu{cpu}/online");
    let offline = match Offline::take(&switch) {
        Ok(offline) => offline,
        Err(error) => return eprintln!("SKIPPED: {switch}: {error}"),
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
