//! The differences between two scripted looks at the conditions.

use punctual_machine::survey::{Policy, ThreadScheduling};
use punctual_record::{Event, Happening};
use punctual_report::facts;
use punctual_tool::system::monitor::{Monitor, Offsets, ProbeSeen, Snapshot, Stolen};

use crate::support::Machine;

const SECOND: u64 = 1_000_000_000;

fn fifo(cpus: &[usize]) -> Option<ThreadScheduling> {
    Some(ThreadScheduling {
        policy: Policy::Fifo,
        priority: 80,
        cpus: cpus.to_vec(),
        timer_slack_ns: None,
    })
}

/// Four CPUs, 1 and 2 of which are probed.
fn look(at_ns: u64) -> Snapshot {
    Snapshot {
        at_ns,
        online: vec![0, 1, 2, 3],
        probes: [1, 2]
            .map(|cpu| ProbeSeen {
                cpu,
                tid: 100 + cpu as i32,
                tracer: None,
                scheduling: fifo(&[cpu]),
            })
            .to_vec(),
        offsets: Some(Offsets {
            wall_ns: 1_700_000_000_000_000_000,
            suspended_ns: 0,
            error_ns: 2_000,
        }),
        stolen: (0..4).map(|cpu| (cpu, 1_000_000_000)).collect(),
        clock_source: Some("tsc".to_owned()),
        governors: [1, 2].map(|cpu| (cpu, "performance".to_owned())).into(),
        ..Snapshot::default()
    }
}

fn changes(change: impl FnOnce(&mut Snapshot)) -> Vec<Event> {
    let mut later = look(6 * SECOND);
    change(&mut later);
    look(5 * SECOND).changes(&mut later)
}

/// The only event: its kind, its text, and whether it invalidates.
#[track_caller]
fn only(events: Vec<Event>) -> (&'static str, String, bool) {
    assert_eq!(events.len(), 1, "{events:?}");
    let event = events.into_iter().next().unwrap();
    assert_eq!(event.at_ns, 6 * SECOND);
    let text = facts::event(&event, "");
    (event.kind(), text, event.invalidates)
}

#[track_caller]
fn expect(change: impl FnOnce(&mut Snapshot), kind: &'static str, text: &str, invalidates: bool) {
    assert_eq!(only(changes(change)), (kind, text.to_owned(), invalidates));
}

#[test]
fn no_change_is_no_event() {
    assert_eq!(changes(|_| {}), []);
}

#[test]
fn cpus_going_offline_and_online_are_events() {
    expect(
        |s| s.online = vec![0, 2, 3],
        "cpu-offline",
        "CPU 1, which is probed, was taken offline",
        true,
    );
    expect(
        |s| s.online = vec![0, 1, 2],
        "cpu-offline",
        "CPU 3 was taken offline",
        false,
    );
    expect(
        |s| s.online.push(4),
        "cpu-online",
        "CPU 4 was brought online",
        false,
    );
}

#[test]
fn a_changed_affinity_or_priority_of_a_probe_is_an_event() {
    expect(
        |s| s.probes[1].scheduling = fifo(&[0, 1, 2, 3]),
        "affinity",
        "the probe of CPU 2 may run on 0-3, before on 2",
        true,
    );
    expect(
        |s| s.probes[0].scheduling.as_mut().unwrap().priority = 1,
        "priority",
        "the probe of CPU 1 went from fifo 80 to fifo 1",
        true,
    );
    expect(
        |s| s.probes[0].scheduling.as_mut().unwrap().policy = Policy::Other,
        "priority",
        "the probe of CPU 1 went from fifo 80 to other",
        true,
    );
}

#[test]
fn a_probe_that_has_ended_is_no_event() {
    assert_eq!(changes(|s| s.probes[0].scheduling = None), []);
}

#[test]
fn an_affinity_that_is_restored_is_an_event_that_does_not_invalidate() {
    let mut astray = look(5 * SECOND);
    astray.probes[0].scheduling = fifo(&[0]);
    let (kind, _, invalidates) = only(astray.changes(&mut look(6 * SECOND)));
    assert_eq!((kind, invalidates), ("affinity", false));
}

#[test]
fn a_probe_whose_cpu_is_offline_is_one_event() {
    let mut gone = look(6 * SECOND);
    gone.online = vec![0, 2, 3];
    gone.probes[0].scheduling = fifo(&[]);
    let (kind, _, invalidates) = only(look(5 * SECOND).changes(&mut gone));
    assert_eq!((kind, invalidates), ("cpu-offline", true));
    let back = gone.changes(&mut look(7 * SECOND));
    assert_eq!(back.len(), 1, "{back:?}");
    assert_eq!(back[0].kind(), "cpu-online");
}

#[test]
fn setting_the_wall_clock_and_a_suspend_are_events() {
    expect(
        |s| s.offsets.as_mut().unwrap().wall_ns -= 3_600 * SECOND as i64,
        "clock-set",
        "the wall clock was set back by 3600.000 s",
        false,
    );
    expect(
        |s| s.offsets.as_mut().unwrap().wall_ns += 20_000_000,
        "clock-set",
        "the wall clock was set forward by 0.020 s",
        false,
    );
    expect(
        |s| s.offsets.as_mut().unwrap().suspended_ns += 90 * SECOND as i64,
        "suspended",
        "the machine was suspended for 90.000 s",
        true,
    );
}

#[test]
fn readings_far_apart_are_not_taken_for_a_step() {
    let events = changes(|s| {
        let offsets = s.offsets.as_mut().unwrap();
        offsets.wall_ns += 30_000_000;
        offsets.error_ns = 26_000_000;
    });
    assert_eq!(events, []);
}

#[test]
fn extreme_offsets_do_not_overflow() {
    let events = changes(|s| {
        s.offsets = Some(Offsets {
            wall_ns: i64::MIN,
            suspended_ns: i64::MAX,
            error_ns: 0,
        });
    });
    assert_eq!(events.len(), 2);
}

#[test]
fn a_changed_clock_source_or_governor_is_an_event() {
    expect(
        |s| s.clock_source = Some("hpet".to_owned()),
        "clock-source",
        "the clock source went from tsc to hpet",
        true,
    );
    expect(
        |s| {
            s.governors.insert(2, "powersave".to_owned());
        },
        "governor",
        "the governor of CPU 2 went from performance to powersave",
        false,
    );
}

#[test]
fn an_unreadable_condition_is_no_event() {
    let events = changes(|s| {
        s.online.clear();
        s.offsets = None;
        s.stolen.clear();
        s.clock_source = None;
        s.governors.clear();
    });
    assert_eq!(events, []);
}

#[test]
fn much_steal_time_is_one_event_until_it_ends() {
    let steal = |s: &mut Snapshot, total: u64| {
        s.stolen.insert(1, SECOND + total);
    };
    // 5 % exactly, and a tick on a CPU without a probe, are no event.
    assert_eq!(changes(|s| steal(s, 50_000_000)), []);
    assert_eq!(
        changes(|s| {
            s.stolen.insert(0, 2 * SECOND);
        }),
        []
    );
    let first = look(0);
    let mut second = look(SECOND);
    steal(&mut second, 300_000_000);
    let events = first.changes(&mut second);
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].kind(), "steal");
    assert_eq!(
        facts::event(&events[0], ""),
        "the host took 300 ms of 1 s from CPU 1"
    );
    assert!(!events[0].invalidates);
    let mut third = look(2 * SECOND);
    steal(&mut third, 600_000_000);
    assert_eq!(second.changes(&mut third), []);
    let mut fourth = look(3 * SECOND);
    steal(&mut fourth, 600_000_000);
    assert_eq!(third.changes(&mut fourth), []);
    let mut fifth = look(4 * SECOND);
    steal(&mut fifth, 900_000_000);
    assert_eq!(fourth.changes(&mut fifth).len(), 1);
    // 0.9 s of two CPUs' 4 s.
    let stolen = first.stolen_until(&fifth).unwrap();
    assert_eq!(
        stolen,
        Stolen {
            total_ns: 900_000_000,
            share: 0.9 / 8.0
        }
    );
}

#[test]
fn steal_time_that_decreases_counts_as_none() {
    let mut later = look(SECOND);
    later.stolen.insert(1, 0);
    let first = look(0);
    assert_eq!(first.changes(&mut later), []);
    assert_eq!(first.stolen_until(&later).unwrap().total_ns, 0);
    assert_eq!(Snapshot::default().stolen_until(&Snapshot::default()), None);
}

/// A quota throttles threads throughout a run: its one event has the total length.
#[test]
fn the_event_of_a_quota_grows_with_the_run() {
    let machine = Machine::empty();
    machine.write("/proc/self/cgroup", "0::/jobs\n");
    machine.write(
        "/proc/self/mountinfo",
        "35 24 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    );
    machine.write("/sys/fs/cgroup/jobs/cpu.max", "20000 100000\n");
    let account = |periods: u64, us: u64| {
        let text = format!("nr_periods 99\nnr_throttled {periods}\nthrottled_usec {us}\n");
        machine.write("/sys/fs/cgroup/jobs/cpu.stat", text);
    };
    account(7, 70_000);
    let mut monitor = Monitor::start(&machine.root, &[]);
    let mut events = Vec::new();
    monitor.poll_into(SECOND, &mut events);
    assert_eq!(events, []);
    account(8, 75_000);
    monitor.poll_into(2 * SECOND, &mut events);
    let other = Event::new(2 * SECOND, Happening::CpuOnline { cpu: 3 });
    let said = facts::event(&events[0], "");
    assert!(said.contains("1 period, 5.0 ms in all"), "{said}");
    events.push(other.clone());
    account(19, 744_000);
    monitor.poll_into(9 * SECOND, &mut events);
    let quota = &events[0];
    assert_eq!((quota.at_ns, quota.kind()), (2 * SECOND, "quota"));
    let said = facts::event(quota, "");
    assert!(said.contains("/jobs throttled"), "{said}");
    assert!(said.contains("12 periods, 674 ms in all"), "{said}");
    assert_eq!(events[1..], [other]);
}
