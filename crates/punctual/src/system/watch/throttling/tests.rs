use super::*;

const MS: u64 = 1_000_000;

fn budget() -> Budget {
    Budget {
        runtime_ns: 950 * MS,
        period_ns: 1000 * MS,
        scope: Scope::All,
        by: "kernel.sched_rt_runtime_us".to_owned(),
    }
}

fn looks(parts: &[Part]) -> VecDeque<Look> {
    let look = |part: &Part| Look {
        length_ns: 250 * MS,
        cpus: BTreeMap::from([(0, *part)]),
    };
    parts.iter().map(look).collect()
}

fn part(rt: u64, above: u64, stolen: u64, waited: u64) -> Part {
    Part {
        rt_ns: rt * MS,
        group_ns: 2 * MS,
        above_ns: above * MS,
        stolen_ns: stolen * MS,
        waited_ns: waited * MS,
        real_time: true,
    }
}

#[test]
fn who_waits_for_nobody_while_the_budget_is_used_up_is_throttled() {
    // A thread of lower priority takes it all, and 50 ms are for nobody of real time.
    let hog = [part(250, 0, 0, 0); 4];
    let mut parts = hog.to_vec();
    parts.push(part(200, 0, 0, 50));
    let said = throttled(&looks(&parts), &budget(), 0).unwrap();
    assert!(said.contains("probe of CPU 0"), "{said}");
    assert!(said.contains("ready for 50.0 ms"), "{said}");
    assert_eq!(throttled(&looks(&parts), &budget(), 1), None);
}

#[test]
fn interference_stolen_time_and_long_kernel_sections_are_not() {
    // One of higher priority ran meanwhile.
    let parts = [part(238, 225, 0, 225); 5];
    assert_eq!(throttled(&looks(&parts), &budget(), 0), None);
    // The host had it.
    let mut parts = [part(250, 0, 0, 0); 5];
    parts[2] = part(100, 0, 150, 150);
    assert_eq!(throttled(&looks(&parts), &budget(), 0), None);
    // Half of the budget, and 40 ms without preemption.
    let mut parts = [part(125, 0, 0, 0); 5];
    parts[2].waited_ns = 40 * MS;
    assert_eq!(throttled(&looks(&parts), &budget(), 0), None);
    // An ordinary thread gives way all the time.
    let mut parts = [part(250, 0, 0, 50); 5];
    parts.iter_mut().for_each(|part| part.real_time = false);
    assert_eq!(throttled(&looks(&parts), &budget(), 0), None);
}

#[test]
fn a_group_may_have_a_budget_of_its_own() {
    let group = Budget {
        runtime_ns: 10 * MS,
        scope: Scope::Group,
        ..budget()
    };
    let mut parts = [part(2, 0, 0, 0); 5];
    assert_eq!(throttled(&looks(&parts), &group, 0), None);
    parts[3].waited_ns = 800 * MS;
    let said = throttled(&looks(&parts), &group, 0).unwrap();
    assert!(said.contains("of this control group ran 10.0 ms"), "{said}");
    assert_eq!(throttled(&looks(&parts), &budget(), 0), None);
}
