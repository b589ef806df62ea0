//! `punctual interference`: each operation is counted, and what waited for `mmap_lock` waited for the
//! threads that map memory.

use super::common::{Place, need, needs, until};
use super::runtime::alone;

#[test]
fn operations_are_counted_on_both_sides_and_their_waits_for_the_lock_are_parts_of_them() {
    needed!();
    need!(needs::cpus(2));
    let _alone = alone();
    let place = Place::new();
    let ended = place.run(&["interference", "-D", "3", "--json"]).expect(0);
    let done = ended.json();
    assert_eq!(done["format"], "punctual-interference");
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let operations = done["operations"].as_array().expect("a list");
    let names: Vec<&str> = operations
        .iter()
        .filter_map(|it| it["operation"].as_str())
        .collect();
    assert_eq!(
        names,
        ["futex", "condvar", "mutex", "fault", "mmap", "proc"]
    );
    let mut counted = number(&done["between"]);
    for it in operations {
        let (alone, beside) = (&it["alone"], &it["beside"]);
        assert!(
            number(&alone["count"]) > 0 && number(&beside["count"]) > 0,
            "{it:#}"
        );
        counted += number(&alone["count"]) + number(&beside["count"]);
        // A wait is a part of an operation.
        let longest = number(&alone["max_ns"]).max(number(&beside["max_ns"]));
        let waits = &it["waits"];
        assert!(number(&waits["longest_ns"]) <= longest, "{it:#}");
        assert!(
            number(&waits["longest_ns"]) <= number(&waits["total_ns"]),
            "{it:#}"
        );
        if let Some(wait) = it.get("longest") {
            assert!(number(&wait["wait_ns"]) <= longest, "{it:#}");
        }
    }
    assert_eq!(counted, 6 * 300, "every 10 ms");
    // Whatever the kernel, these need no lock of the address space.
    for it in operations.iter().take(3) {
        assert_eq!(number(&it["waits"]["count"]), 0, "{it:#}");
    }
    let mmap = &operations[4];
    assert!(number(&mmap["waits"]["count"]) > 0, "{mmap:#}");
    // Whom it waited for is compared in the laboratory: on a busy host events may come too fast.
    let longest = mmap.get("longest").expect("another thread ended a wait");
    let rows = longest["rows"].as_array().expect("rows");
    let sum: u64 = rows.iter().map(|row| number(&row["ns"])).sum();
    assert_eq!(sum, number(&longest["wait_ns"]), "{longest:#}");
    assert!(number(&done["maps"]) > 0);
    let [folder] = &place.entries()[..] else {
        panic!("{:?}", place.entries());
    };
    let files = place.path().join(folder);
    assert!(files.join("interference.json").exists() && files.join("run.json").exists());
}

#[test]
fn without_room_for_the_memory_it_is_one_line_and_nothing_is_left() {
    needed!();
    let place = Place::new();
    let mut command = place.command("prlimit");
    command
        .args(["--as=2000000000"])
        .arg(super::common::program());
    command.args(["interference", "--map", "1024G", "-D", "1"]);
    let output = command.output().expect("prlimit");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.trim().lines().count(), 1, "{said}");
    assert!(
        said.contains("too little memory") && said.contains("--map"),
        "{said}"
    );
}

#[test]
fn however_it_ends_the_measured_process_ends_too() {
    needed!();
    let _alone = alone();
    for (signal, threads_first) in [
        (libc::SIGINT, false),
        (libc::SIGINT, true),
        (libc::SIGKILL, true),
    ] {
        let place = Place::new();
        let running = place.start(&["interference", "-D", "60", "--map", "1M"]);
        let measured = || {
            let all = place.processes().into_iter();
            let mut others = all.filter(|pid| *pid != running.pid());
            others.next()
        };
        until("the measured process", || measured().is_some());
        let worker = measured().expect("it runs");
        until("its threads", || {
            let threads = std::fs::read_dir(format!("/proc/{worker}/task"));
            !threads_first || threads.map_or(0, Iterator::count) > 9
        });
        running.signal(signal);
        // On a busy machine the watch takes its time to end.
        let ended = running.end_within(std::time::Duration::from_secs(180));
        if signal == libc::SIGINT {
            assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
            let said = "a signal ended it before it was done";
            assert!(ended.stderr.contains(said), "{}", ended.stderr);
        }
        place.await_silence();
    }
}
