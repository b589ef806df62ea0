//! The events that docs/explain.md lists are those that are read, and the kernel has them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::common::needs::{self, Absent};
use crate::common::{need, skip};
use punctual_trace::foreign::{Recording, events};

/// The section about recordings.
fn section() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/explain.md");
    let page = fs::read_to_string(page).expect("the page");
    let (_, section) = page
        .split_once("\n## Recordings of other tools\n")
        .expect("it");
    let (section, _) = section.split_once("\n## ").expect("another");
    section.to_owned()
}

/// The events that a command of the page records.
pub fn recorded_by(tool: &str) -> Vec<String> {
    let section = section();
    let (_, command) = section
        .split_once(&format!("\n{tool} record "))
        .expect("a command");
    let (command, _) = command.split_once(" -- sleep 10\n").expect("its end");
    let mut words = command.split_whitespace();
    let mut events = Vec::new();
    while words.any(|word| word == "-e") {
        let event = words.next().expect("an event");
        events.push(event.trim_matches('\'').to_owned());
    }
    events
}

fn names(events: impl Iterator<Item = (&'static str, &'static str)>) -> BTreeSet<String> {
    events
        .map(|(system, name)| format!("{system}:{name}"))
        .collect()
}

#[test]
fn the_pages_list_of_events_is_the_list_of_those_that_are_read() {
    let section = section();
    let mut listed = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let (events, _) = row.rsplit_once(" | ").expect("two columns");
        for word in events.split('`').skip(1).step_by(2) {
            let both = ["_entry", "_exit"].map(|end| format!("{word}{end}"));
            let is_pair = names(events::all()).contains(&both[0]);
            match is_pair {
                true => listed.extend(both),
                false => assert!(listed.insert(word.to_owned()), "{word} is listed twice"),
            }
        }
    }
    assert_eq!(listed, names(events::all()));
    // rtla's own, and what is only needed without sched_waking, need not be recorded; the kernel refuses
    // perf one of a pair.
    for (tool, refused) in [("perf", "irq_work_"), ("trace-cmd", "sched_wakeup")] {
        let patterns = recorded_by(tool);
        let is_recorded = |(system, name): &(&str, &str)| {
            let event = format!("{system}:{name}");
            patterns.iter().any(|pattern| match pattern.contains('*') {
                true => pattern.split('*').all(|part| event.contains(part)),
                false => event == *pattern,
            })
        };
        let is_needed = |(system, name): &(&str, &str)| {
            let needless = ["sched_wakeup", refused];
            *system != "osnoise" && !needless.iter().any(|begin| name.starts_with(begin))
        };
        let recorded = names(events::all().filter(is_recorded));
        assert_eq!(recorded, names(events::all().filter(is_needed)), "{tool}");
        let system = |pattern: &String| pattern.split(':').next().map(str::to_owned);
        let known: BTreeSet<_> = recorded.iter().map(system).collect();
        assert!(
            patterns.iter().all(|it| known.contains(&system(it))),
            "{tool}"
        );
    }
}

/// A line of each event as the kernel prints it, which has an effect.
#[test]
fn each_event_of_the_list_is_read() {
    const THREADS: &str =
        "prev_comm=a prev_pid=1 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=49";
    for (_, name) in events::all() {
        let payload = match name {
            "sched_switch" => THREADS,
            "sched_waking" | "sched_wakeup" | "sched_wakeup_new" => {
                "comm=b pid=2 prio=49 target_cpu=001"
            }
            "sched_migrate_task" => "comm=b pid=2 prio=49 orig_cpu=0 dest_cpu=1",
            "irq_handler_entry" => "irq=31 name=eth0",
            "irq_handler_exit" => "irq=31 ret=handled",
            "softirq_entry" | "softirq_exit" => "vec=3 [action=NET_RX]",
            "hrtimer_start" => {
                "hrtimer=0xffff888627c1c6f8 function=hrtimer_wakeup expires=5000 softexpires=5000 mode=ABS"
            }
            "hrtimer_expire_entry" => {
                "hrtimer=0xffff888627c1c6f8 function=hrtimer_wakeup now=5000141000"
            }
            "hrtimer_expire_exit" => "hrtimer=0xffff888627c1c6f8",
            "workqueue_execute_start" => "work struct 0xffff888100a0: function vmstat_update",
            "nmi_handler" => "perf_event_nmi_handler() delta_ns: 7000 handled: 1",
            "cpu_idle" => "state=4294967295 cpu_id=1",
            "irq_noise" => "local_timer:236 start 1.301951376 duration 7900 ns",
            "softirq_noise" => "RCU:9 start 1.301951376 duration 7900 ns",
            "thread_noise" => "modprobe:2041 start 1.301951376 duration 7900 ns",
            "nmi_noise" => "start 1.301951376 duration 7900 ns",
            vector => {
                assert!(
                    vector.ends_with("_entry") || vector.ends_with("_exit"),
                    "{vector}"
                );
                "vector=236"
            }
        };
        let read = |name: &str| {
            let line = format!(" x-7 [001] d.h1. 1.500000: {name}: {payload}\n");
            format!("{:?}", Recording::read(line.as_bytes()).expect("an event"))
        };
        assert_ne!(read(name), read("another_event"), "{name}");
    }
    let work = " kworker/1:1-7 [001] ..... 1.5: workqueue_execute_start: work struct 0xff: function vmstat_update\n";
    let recording = Recording::read(work.as_bytes()).expect("an event");
    let names: Vec<&str> = recording.symbols.values().map(String::as_str).collect();
    assert_eq!(names, ["vmstat_update"]);
}

/// Vectors of drivers that a kernel may be built without.
const OPTIONAL: &[&str] = &["thermal_apic", "threshold_apic"];

#[test]
fn this_kernel_has_the_events_of_the_list() {
    need!(needs::root());
    let systems = Path::new("/sys/kernel/tracing/events");
    if !systems.join("sched").exists() {
        skip!(Absent::kernel("tracefs at /sys/kernel/tracing"));
    }
    for (system, name) in events::all() {
        let of_x86 = matches!(system, "irq_vectors" | "nmi");
        let may_lack = (of_x86 && !cfg!(target_arch = "x86_64"))
            || OPTIONAL.iter().any(|vector| name.starts_with(vector))
            || system == "osnoise";
        let exists = systems.join(system).join(name).exists();
        assert!(exists || may_lack, "{system}:{name}");
    }
}
