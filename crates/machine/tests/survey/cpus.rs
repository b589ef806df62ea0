//! CPU lists and the choice of CPUs to probe.

use super::support::Machine;
use proptest::prelude::*;
use punctual_machine::survey;
use punctual_machine::survey::cpus::{
    self, CPU_LIMIT, Choice, CpuList, Place, Topology, default_probed, for_load, format, parse,
    parse_kernel, select,
};
use punctual_record::Chosen;

#[test]
fn lists_in_cyclictests_syntax_are_parsed() {
    let only = |text: &str, expected: &[usize]| {
        assert_eq!(parse(text), Ok(CpuList::Only(expected.to_vec())), "{text}");
    };
    only("0", &[0]);
    only("3-5,0", &[0, 3, 4, 5]);
    only(" 1 , 2 ", &[1, 2]);
    only("2,2,1-3", &[1, 2, 3]);
    only("0-7:2", &[0, 2, 4, 6]);
    only("0-15:2/8", &[0, 1, 8, 9]);
    only("8191", &[8191]);
    assert_eq!(parse("!1-2"), Ok(CpuList::Except(vec![1, 2])));
    assert_eq!(parse("all"), Ok(CpuList::All));
    assert_eq!("4".parse(), Ok(CpuList::Only(vec![4])));
}

#[test]
fn a_malformed_list_is_refused_with_the_expected_form() {
    let messages = [
        ("", "the CPU list is empty"),
        ("!", "the CPU list is empty"),
        ("x", "`x` is not a CPU or a range"),
        ("-1", "`-1` is not a CPU or a range"),
        ("1-", "`1-` is not a CPU or a range"),
        ("1,,2", "`` is not a CPU or a range"),
        ("+1", "`+1` is not a CPU or a range"),
        ("0,!1", "`!1` is not a CPU or a range"),
        ("!!1", "`!1` is not a CPU or a range"),
        ("3:2", "`3:2` is not a CPU or a range"),
        ("0-7:0", "`0-7:0` is not a CPU or a range"),
        ("0-7:3/2", "`0-7:3/2` is not a CPU or a range"),
        ("1-2-3", "`1-2-3` is not a CPU or a range"),
        ("5-3", "the range `5-3` ends before it begins"),
        ("8192", "`8192` is above the highest CPU number, 8191"),
        (
            "99999999999999999999999",
            "`99999999999999999999999` is above the highest CPU number, 8191",
        ),
    ];
    for (text, message) in messages {
        let error = parse(text).unwrap_err().to_string();
        assert_eq!(error, format!("{message}; expected {}", cpus::ACCEPTED));
        assert!(!error.contains('\n'));
    }
}

#[test]
fn a_hostile_list_is_refused_at_once() {
    let text = vec!["0-8191"; 100_000].join(",");
    let begun = std::time::Instant::now();
    assert!(parse(&text).is_err());
    assert!(begun.elapsed().as_secs() < 5);
}

#[test]
fn lists_are_written_in_the_kernels_format() {
    assert_eq!(format(&[]), "none");
    assert_eq!(format(&[3]), "3");
    assert_eq!(format(&[1, 0]), "0-1");
    assert_eq!(format(&[8, 0, 1, 2, 3, 8, 5]), "0-3,5,8");
}

/// A process with this affinity that can move to these CPUs.
fn place(inherited: &[usize], reachable: &[usize]) -> Place {
    Place {
        inherited: inherited.to_vec(),
        reachable: reachable.to_vec(),
        ..Place::default()
    }
}

#[test]
fn offline_and_forbidden_cpus_are_named() {
    let topology = Topology {
        online: vec![0, 1, 2, 3],
        ..Topology::default()
    };
    let mut place = place(&[0, 1, 2], &[0, 1, 2]);
    let refused = |text: &str, place: &Place| {
        let list = parse(text).unwrap();
        select(&list, &topology, place).unwrap_err().to_string()
    };
    assert_eq!(
        refused("0,7", &place),
        "CPU 7 is not online; online: 0-3; allowed: 0-2"
    );
    assert_eq!(
        refused("0-3", &place),
        "the kernel does not let this process move to CPU 3; it may use CPUs 0-2; online: 0-3: \
         start punctual in a cgroup or container that has it"
    );
    place.cpuset = Some("/sys/fs/cgroup/a/cpuset.cpus.effective".to_owned());
    assert_eq!(
        refused("0-3", &place),
        "CPU 3 is not in the cpuset of this process: /sys/fs/cgroup/a/cpuset.cpus.effective has \
         CPUs 0-2; online: 0-3: add it there, or start punctual in a cgroup that has it"
    );
    place.refused = Some("Operation not permitted".to_owned());
    assert_eq!(
        refused("0-3", &place),
        "CPU 3 is not in this process's affinity (0-2), and the kernel refuses to change it: \
         Operation not permitted: start punctual with taskset -c 3, or allow sched_setaffinity"
    );
    assert!(
        refused("!0-7", &place).starts_with("the CPU list leaves none of the allowed CPUs (0-2)")
    );
}

#[test]
fn a_remaining_cpu_is_for_housekeeping() {
    let topology = Topology {
        online: vec![0, 1, 2, 3],
        isolated: vec![0],
        ..Topology::default()
    };
    let place = place(&[0, 1, 2], &[0, 1, 2]);
    let chosen = |text: &str| select(&parse(text).unwrap(), &topology, &place).unwrap();
    let choice = |probed: &[usize], housekeeping| Choice {
        probed: probed.to_vec(),
        chosen: Chosen::Named,
        housekeeping,
    };
    assert_eq!(chosen("all"), choice(&[0, 1, 2], None));
    assert_eq!(chosen("!1"), choice(&[0, 2], Some(1)));
    // CPU 0 remains as well, but it is isolated.
    assert_eq!(chosen("2"), choice(&[2], Some(1)));
    assert_eq!(chosen("1,2"), choice(&[1, 2], Some(0)));
}

/// CPUs 1 and 3 of four are isolated, as with `isolcpus=1,3`.
fn booted_isolated() -> Topology {
    Topology {
        online: vec![0, 1, 2, 3],
        isolated: vec![1, 3],
        ..Topology::default()
    }
}

#[test]
fn isolated_cpus_are_probed_and_everything_else_runs_elsewhere() {
    let topology = booted_isolated();
    // The affinity that the kernel gives every program there.
    let place = place(&[0, 2], &[0, 1, 2, 3]);
    let choice = default_probed(&topology, &place);
    assert_eq!(
        (&*choice.probed, choice.chosen),
        (&[1, 3][..], Chosen::Isolated)
    );
    assert_eq!(choice.housekeeping, Some(0));
    assert_eq!(for_load(&topology, &place), [0, 2]);
    // Named CPUs may be outside of the affinity.
    let choice = select(&parse("1").unwrap(), &topology, &place).unwrap();
    assert_eq!((&*choice.probed, choice.chosen), (&[1][..], Chosen::Named));
    assert_eq!(choice.housekeeping, Some(0));
    // As for a service with all CPUs in its affinity, and as in a cpuset of version 1.
    let wide = Place {
        inherited: vec![0, 1, 2, 3],
        ..place
    };
    assert_eq!(default_probed(&topology, &wide).probed, [1, 3]);
    assert_eq!(for_load(&topology, &wide), [0, 2]);
}

#[test]
fn a_chosen_affinity_overrides_isolation() {
    let topology = booted_isolated();
    for inherited in [&[2][..], &[1], &[0, 1]] {
        let place = place(inherited, &[0, 1, 2, 3]);
        let choice = default_probed(&topology, &place);
        assert_eq!(
            (&*choice.probed, choice.chosen),
            (inherited, Chosen::Inherited)
        );
        assert_eq!(choice.housekeeping, None);
    }
    // A named CPU overrides both, and the load stays where it was put, if possible.
    let one = place(&[2], &[0, 1, 2, 3]);
    let choice = select(&parse("3").unwrap(), &topology, &one).unwrap();
    assert_eq!((&*choice.probed, choice.housekeeping), (&[3][..], Some(2)));
    assert_eq!(for_load(&topology, &one), [2]);
    assert_eq!(for_load(&topology, &place(&[1], &[0, 1, 2, 3])), [1]);
    assert_eq!(for_load(&topology, &place(&[1, 2], &[0, 1, 2, 3])), [2]);
}

#[test]
fn cpus_without_a_tick_are_probed_if_none_is_isolated() {
    let topology = Topology {
        online: vec![0, 1, 2, 3],
        nohz_full: vec![2, 3],
        ..Topology::default()
    };
    let all = place(&[0, 1, 2, 3], &[0, 1, 2, 3]);
    let choice = default_probed(&topology, &all);
    assert_eq!(
        (&*choice.probed, choice.chosen),
        (&[2, 3][..], Chosen::NohzFull)
    );
    // The scheduler runs programs there as well.
    assert_eq!(for_load(&topology, &all), [0, 1, 2, 3]);
}

/// A machine whose process is in this group of version 2, whose hierarchy is mounted at its root.
fn in_group(group: &str, files: &[(&str, &str)]) -> Machine {
    let machine = Machine::recorded("vm-2cpu");
    machine.write("/proc/self/cgroup", format!("0::{group}\n"));
    let mount = "25 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    machine.write("/proc/self/mountinfo", mount);
    for (file, text) in files {
        machine.write(&format!("/sys/fs/cgroup/{file}"), text);
    }
    machine
}

#[test]
fn an_isolated_partition_is_recognised_from_within_and_from_outside() {
    let within = [
        ("rt/cpuset.cpus.effective", "1\n"),
        ("rt/cpuset.cpus.partition", "isolated\n"),
        ("rt/app/cpuset.cpus.effective", "1\n"),
        ("rt/app/cpuset.cpus.partition", "member\n"),
        ("cpuset.cpus.effective", "0\n"),
        ("cpuset.cpus.isolated", "1\n"),
    ];
    for group in ["/rt", "/rt/app", "/rt/app/without-controller"] {
        let machine = in_group(group, &within);
        machine.write("/proc/self/status", "Cpus_allowed_list:\t1\n");
        let (topology, place) = (survey::topology(&machine.root), Place::read(&machine.root));
        assert_eq!(
            place.partition.as_deref(),
            Some("/sys/fs/cgroup/rt"),
            "{group}"
        );
        assert_eq!(topology.isolated, [1]);
        let choice = default_probed(&topology, &place);
        assert_eq!(
            (&*choice.probed, choice.chosen),
            (&[1][..], Chosen::Isolated)
        );
        // The load must run somewhere.
        assert_eq!(for_load(&topology, &place), [1]);
        let refused = select(&parse("0").unwrap(), &topology, &place).unwrap_err();
        assert!(
            refused
                .to_string()
                .contains("not in the cpuset of this process"),
            "{refused}"
        );
    }
    let machine = in_group("/other", &within);
    machine.write("/proc/self/status", "Cpus_allowed_list:\t0\n");
    let (topology, place) = (survey::topology(&machine.root), Place::read(&machine.root));
    assert_eq!(
        (place.reachable.clone(), place.partition.clone()),
        (vec![0], None)
    );
    assert_eq!(topology.isolated, [1]);
    let choice = default_probed(&topology, &place);
    assert_eq!((&*choice.probed, choice.chosen), (&[0][..], Chosen::All));
}

#[test]
fn a_partition_that_is_not_in_force_isolates_nothing() {
    let files = [
        ("rt/cpuset.cpus.effective", "0-1\n"),
        (
            "rt/cpuset.cpus.partition",
            "isolated invalid (Cpu list in cpuset.cpus not exclusive)\n",
        ),
    ];
    let machine = in_group("/rt", &files);
    machine.write("/proc/self/status", "Cpus_allowed_list:\t0-1\n");
    let place = Place::read(&machine.root);
    assert_eq!(place.partition, None);
    let choice = default_probed(&survey::topology(&machine.root), &place);
    assert_eq!((&*choice.probed, choice.chosen), (&[0, 1][..], Chosen::All));
}

fn default_of(name: &str) -> Choice {
    let machine = Machine::recorded(name);
    default_probed(
        &survey::topology(&machine.root),
        &Place::read(&machine.root),
    )
}

#[test]
fn fewer_than_four_cpus_are_all_probed() {
    assert_eq!(
        default_of("vm-2cpu"),
        Choice {
            probed: vec![0, 1],
            chosen: Chosen::All,
            housekeeping: None
        }
    );
    // Four CPUs, one of which is isolated.
    let choice = default_of("raspberry-pi");
    assert_eq!(
        (&*choice.probed, choice.chosen),
        (&[3][..], Chosen::Isolated)
    );
}

#[test]
fn of_four_or_more_cpus_one_is_left_out() {
    let topology = Topology {
        online: vec![0, 1, 2, 3],
        ..Topology::default()
    };
    let choice = default_probed(&topology, &place(&[0, 1, 2, 3], &[0, 1, 2, 3]));
    assert_eq!(
        (&*choice.probed, choice.housekeeping),
        (&[1, 2, 3][..], Some(0))
    );
    assert_eq!(choice.chosen, Chosen::All);
}

#[test]
fn the_isolated_cpus_of_a_server_are_probed() {
    // As recorded, the session's cpuset lacks them. 12 to 15 share a core with an
    // online CPU, as all others do: so the lowest one is left out.
    let choice = default_of("server-16cpu");
    assert_eq!((choice.housekeeping, choice.chosen), (Some(0), Chosen::All));
    assert_eq!(choice.probed, [1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15]);
    // With all CPUs in the cpuset they are only outside the affinity.
    let machine = Machine::recorded("server-16cpu");
    let session = "/sys/fs/cgroup/user.slice/user-1000.slice/session-3.scope";
    machine.write(&format!("{session}/cpuset.cpus.effective"), "0-15\n");
    let choice = default_probed(
        &survey::topology(&machine.root),
        &Place::read(&machine.root),
    );
    assert_eq!(
        (&*choice.probed, choice.chosen),
        (&[4, 5, 6, 7][..], Chosen::Isolated)
    );
    assert_eq!(choice.housekeeping, Some(0));
}

#[test]
fn a_core_of_its_own_is_preferred_for_housekeeping() {
    let machine = Machine::recorded("server-16cpu");
    machine.write("/sys/devices/system/cpu/online", "0-2,4-10,12-15");
    let all = place(&(0..16).collect::<Vec<_>>(), &(0..16).collect::<Vec<_>>());
    let topology = survey::topology(&machine.root);
    assert_eq!(topology.siblings_of(0), [8]);
    assert_eq!(topology.siblings_of(3), [0; 0]);
    assert_eq!(topology.node_of(5), Some(1));
    // 11's and 3's core has only one thread online, but they are not; 4-7 are
    // isolated: all remaining CPUs share a core.
    assert_eq!(default_probed(&topology, &all).housekeeping, Some(0));
    machine.write("/sys/devices/system/cpu/online", "0-2,4-15");
    let topology = survey::topology(&machine.root);
    assert_eq!(default_probed(&topology, &all).housekeeping, Some(11));
    // No CPU is isolated any more.
    let topology = Topology {
        isolated: Vec::new(),
        nohz_full: Vec::new(),
        ..topology
    };
    let choice = default_probed(&topology, &all);
    assert_eq!(choice.housekeeping, Some(11));
    assert_eq!(choice.probed.len(), 14);
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in ".{0,64}") {
        match parse(&text) {
            Ok(CpuList::Only(cpus) | CpuList::Except(cpus)) => {
                prop_assert!(!cpus.is_empty());
                prop_assert!(cpus.windows(2).all(|pair| pair[0] < pair[1]));
            }
            Ok(CpuList::All) => prop_assert_eq!(text.trim(), "all"),
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
    }

    #[test]
    fn texts_of_the_right_letters_are_parsed_or_refused(text in "[-0-9,:/! al]{0,32}") {
        if let Ok(CpuList::Only(cpus)) = parse(&text) {
            prop_assert!(cpus.iter().all(|cpu| *cpu < CPU_LIMIT));
        }
    }

    #[test]
    fn a_written_list_is_read_back(set in proptest::collection::btree_set(0..300_usize, 1..60)) {
        let cpus: Vec<usize> = set.into_iter().collect();
        prop_assert_eq!(parse_kernel(&format(&cpus)), Ok(cpus));
    }

    #[test]
    fn a_choice_contains_only_usable_cpus(
        online in proptest::collection::btree_set(0..24_usize, 0..24),
        allowed in proptest::collection::btree_set(0..24_usize, 0..24),
        isolated in proptest::collection::btree_set(0..24_usize, 0..24),
    ) {
        let topology = Topology {
            online: online.iter().copied().collect(),
            isolated: isolated.into_iter().collect(),
            ..Topology::default()
        };
        let usable: Vec<usize> = online.intersection(&allowed).copied().collect();
        let allowed: Vec<usize> = allowed.into_iter().collect();
        let place = place(&allowed, &allowed);
        let choice = default_probed(&topology, &place);
        let mut all = choice.probed.clone();
        all.extend(choice.housekeeping);
        all.sort_unstable();
        prop_assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        prop_assert!(all.iter().all(|cpu| usable.contains(cpu)));
        prop_assert_eq!(choice.probed.is_empty(), usable.is_empty());
        prop_assert_eq!(for_load(&topology, &place).is_empty(), usable.is_empty());
        if choice.chosen == Chosen::All {
            prop_assert_eq!(&all, &usable);
            prop_assert_eq!(choice.housekeeping.is_some(), usable.len() >= 4);
        }
    }
}
