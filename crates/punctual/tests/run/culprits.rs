//! Culprits are identified: by number, process, command line and group.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{Builder, sleep};
use std::time::{Duration, Instant};

use crate::alone::alone;
use crate::common::groups::{Group, real_time_groups};
use crate::common::{Ended, Place, cpus, need};
use punctual_record::explanation::{Bill, Cause, Culprit, Explanation};
use punctual_report::explain::bill_section;
use punctual_report::style::Style;
use punctual_rt::sched::{Policy, set_current};

/// Threads in the way: one that runs until the end, in a group, and some that end
/// immediately afterwards.
/// A run of 3 s on one CPU at priority 80, of which each wake-up later than 4 ms has a bill.
pub fn measure_for_bills(place: &Place, cpu: usize) -> Ended {
    let cpu = cpu.to_string();
    place.run(&[
        "measure",
        "-q",
        "-a",
        &cpu,
        "-p",
        "80",
        "-i",
        "2000",
        "-D",
        "3",
        "--explain-above",
        "4ms",
        "--load",
        "none",
        "-o",
        "run",
    ])
}

#[test]
fn a_bill_names_the_culprits_process_command_line_and_group() {
    let files = [("cpu.rt_runtime_us", "300000")];
    need!(real_time_groups());
    let _alone = alone();
    let group = Group::with("culprit", &files).expect("a group");
    let cpu = cpus()[0];
    let over = Arc::new(AtomicBool::new(false));
    let (ended, tasks) = (Arc::clone(&over), group.0.join("tasks"));
    let (says, said) = mpsc::channel();
    let body = move || {
        std::fs::write(tasks, "0").expect("the group takes a thread");
        punctual_rt::affinity::set_current(&[cpu]).expect("a CPU");
        set_current(Policy::Fifo(90)).expect("root may");
        // SAFETY: gettid takes no argument and never fails.
        says.send(unsafe { libc::gettid() })
            .expect("somebody waits");
        while !ended.load(Ordering::Relaxed) {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(8) {}
            sleep(Duration::from_millis(60));
        }
    };
    let thread = Builder::new().name("a-culprit".to_owned()).spawn(body);
    let thread = thread.expect("a thread");
    let tid = said.recv().expect("its number");
    let stop = Arc::clone(&over);
    let (names, named) = mpsc::channel();
    let brief = std::thread::spawn(move || {
        // SAFETY: gettid takes no argument and never fails.
        names
            .send(unsafe { libc::gettid() }.unsigned_abs())
            .expect("somebody waits");
        while !stop.load(Ordering::Relaxed) {
            let body = move || {
                punctual_rt::affinity::set_current(&[cpu]).expect("a CPU");
                set_current(Policy::Fifo(91)).expect("root may");
                let begin = Instant::now();
                while begin.elapsed() < Duration::from_millis(12) {}
            };
            let thread = Builder::new().name("a-brief-one".to_owned()).spawn(body);
            thread.expect("a thread").join().expect("it ends");
            sleep(Duration::from_millis(150));
        }
    });
    let creator = named.recv().expect("its number");
    let place = Place::new();
    let ran = measure_for_bills(&place, cpu);
    over.store(true, Ordering::Relaxed);
    thread.join().expect("it ends");
    brief.join().expect("it ends");
    assert_ne!(ran.code(), 1, "{ran:?}");
    let run = place.run_of();
    let bills = &run.explanation.as_ref().expect("it was traced").bills;
    let of = |name: &str| -> Vec<(usize, Culprit)> {
        let mut all = Vec::new();
        for (index, bill) in bills.iter().enumerate() {
            for row in &bill.rows {
                assert!(row.by.iter().map(|by| by.ns).sum::<u64>() <= row.ns);
                if matches!(&row.cause, Cause::Thread { task, .. } if task == name) {
                    all.extend(row.by.iter().map(|by| (index + 1, by.clone())));
                }
            }
        }
        all
    };
    let its = of("a-culprit");
    assert!(its.len() > 1, "{its:?}");
    let program = std::env::current_exe().expect("a path");
    let program = program
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    for (number, by) in &its {
        assert_eq!(by.tid, tid.unsigned_abs());
        assert_eq!(by.pid, Some(std::process::id()), "{by:?}");
        assert!(by.command.as_ref().is_some_and(|it| it.contains(&program)));
        let name = group.0.file_name().expect("a name").to_string_lossy();
        assert!(
            by.group.as_ref().is_some_and(|it| it.ends_with(&*name)),
            "{by:?}"
        );
        assert_eq!(
            (by.policy.as_str(), by.priority, by.ended),
            ("SCHED_FIFO", 90, false)
        );
        let said = bill_section(&run, *number, &Style::plain()).join(" ");
        let said: Vec<&str> = said.split_whitespace().collect();
        let wanted = format!("PID {}, TID {tid}, SCHED_FIFO 90,", std::process::id());
        assert!(said.join(" ").contains(&wanted), "{said:?}");
    }
    // Generated again from the events, the bills still have them.
    let again = place.run(&["explain", "--again", "--json", "run"]);
    let again: Explanation = serde_json::from_str(&again.stdout).expect("an explanation");
    let named = |bills: &[Bill]| -> usize {
        let rows = bills.iter().flat_map(|bill| &bill.rows);
        let threads = rows.flat_map(|row| &row.by);
        threads
            .filter(|by| by.pid == Some(std::process::id()))
            .count()
    };
    assert!(named(&again.bills) >= named(bills), "{again:?}");
    // For a thread that has ended, the events' information is present: it began in the run.
    for (_, by) in of("a-brief-one") {
        assert_eq!((by.policy.as_str(), by.priority), ("SCHED_FIFO", 91));
        assert_eq!(by.pid, Some(std::process::id()), "{by:?}");
        assert!(by.command.as_ref().is_some_and(|it| it.contains(&program)));
        // Who created the thread, not who started its process.
        assert_eq!(by.parents[0].tid, Some(creator), "{by:?}");
    }
    assert!(!of("a-brief-one").is_empty(), "{bills:?}");
}
