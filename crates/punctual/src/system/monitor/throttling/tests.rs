use super::*;

const MS: u64 = 1_000_000;

fn task(last_cpu: Option<usize>) -> Task {
    Task {
        priority: 50,
        deadline: false,
        group: true,
        cpu: None,
        last_cpu,
        ran_ns: 0,
    }
}

/// The time that is added to CPU 1 for a thread that ran for 200 ms and is on this CPU now.
fn charged(task: &Task, now_on: usize) -> Part {
    let mut part = Part::default();
    task.charge(200 * MS, now_on, 1, 40, &mut part);
    part
}

#[test]
fn the_time_of_a_migrated_thread_uses_up_no_budget() {
    let stayed = charged(&task(Some(1)), 1);
    assert_eq!((stayed.rt_ns, stayed.group_ns), (200 * MS, 200 * MS));
    assert_eq!(stayed.above_ns, 200 * MS);
    // It may have run on either CPU: on both a probe may have waited for it.
    for moved in [charged(&task(Some(0)), 1), charged(&task(Some(1)), 0)] {
        assert_eq!((moved.rt_ns, moved.group_ns), (0, 0));
        assert_eq!(moved.above_ns, 200 * MS);
    }
    assert_eq!(charged(&task(Some(0)), 0), Part::default());
    // Its previous CPU is not known: it counts on the current one.
    assert_eq!(charged(&task(None), 1).rt_ns, 200 * MS);
}

#[test]
fn nothing_is_read_for_probes_that_the_kernel_never_throttles() {
    let ordinary = Monitored {
        cpu: 0,
        tid: i32::try_from(std::process::id()).expect("a process id"),
        raised: None,
    };
    let mut throttling = Throttling::start(&Root::live(), &[ordinary]);
    assert!(!throttling.is_live());
    std::thread::sleep(Duration::from_millis(11));
    assert_eq!(throttling.look(1), []);
    assert!(throttling.tasks.is_empty() && throttling.looks.is_empty());
}
