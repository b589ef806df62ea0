//! CPU lists and the choice of CPUs to probe.

use super::support as system_support;

use proptest::prelude::*;
use punctual::system::cpus::{
    self, CPU_LIMIT, Choice, CpuList, Topology, default_probed, format, parse, parse_kernel, select,
};
use punctual::system::{allowed, topology};
use system_support::Machine;

#[test]
fn lists_in_cyclictests_manner() {
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
fn what_is_no_list_says_what_is_accepted() {
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
        assert_eq!(error, format!("{message}; accepted is {}", cpus::ACCEPTED));
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
fn lists_are_written_the_kernels_way() {
    assert_eq!(format(&[]), "none");
    assert_eq!(format(&[3]), "3");
    assert_eq!(format(&[1, 0]), "0-1");
    assert_eq!(format(&[8, 0, 1, 2, 3, 8, 5]), "0-3,5,8");
}

#[test]
fn offline_and_forbidden_cpus_are_named() {
    let topology = Topology {
        online: vec![0, 1, 2, 3],
        ..Topology::default()
    };
    let allowed = [0, 1, 2];
    let refused = |text: &str| {
        let list = parse(text).unwrap();
        select(&list, &topology, &allowed).unwrap_err().to_string()
    };
    assert_eq!(
        refused("0,7"),
        "CPU 7 is not online; online: 0-3; allowed: 0-2"
    );
    assert_eq!(
        refused("0-3"),
        "CPU 3 is not allowed for this process (affinity or cpuset); allowed: 0-2; online: 0-3"
    );
    assert!(refused("!0-7").starts_with("the CPU list leaves none of the allowed CPUs (0-2)"));
}

#[test]
fn what_is_left_over_houses_the_rest() {
    let topology = Topology {
        online: vec![0, 1, 2, 3],
        isolated: vec![0],
        ..Topology::default()
    };
    let allowed = [0, 1, 2];
    let chosen = |text: &str| select(&parse(text).unwrap(), &topology, &allowed).unwrap();
    let choice = |probed: &[usize], housekeeping| Choice {
        probed: probed.to_vec(),
        housekeeping,
    };
    assert_eq!(chosen("all"), choice(&[0, 1, 2], None));
    assert_eq!(chosen("!1"), choice(&[0, 2], Some(1)));
    // CPU 0 is left as well, but isolated.
    assert_eq!(chosen("2"), choice(&[2], Some(1)));
    assert_eq!(chosen("1,2"), choice(&[1, 2], Some(0)));
}

fn default_of(name: &str) -> Choice {
    let machine = Machine::recorded(name);
    default_probed(&topology(&machine.root), &allowed(&machine.root))
}

#[test]
fn fewer_than_four_cpus_are_all_probed() {
    assert_eq!(
        default_of("vm-2cpu"),
        Choice {
            probed: vec![0, 1],
            housekeeping: None
        }
    );
    // Four CPUs, of which three may be used.
    assert_eq!(default_of("raspberry-pi").probed, [0, 1, 2]);
}

#[test]
fn of_four_or_more_cpus_one_is_left_out() {
    let choice = default_of("server-16cpu");
    // The isolated CPUs are not in the affinity. 12 to 15 share a core with a
    // CPU that is online, as all others do: so it is the lowest.
    assert_eq!(choice.housekeeping, Some(0));
    assert_eq!(choice.probed, [1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15]);
}

#[test]
fn a_core_of_its_own_is_preferred_for_housekeeping() {
    let machine = Machine::recorded("server-16cpu");
    machine.write("/sys/devices/system/cpu/online", "0-2,4-10,12-15");
    let topology = topology(&machine.root);
    assert_eq!(topology.siblings_of(0), [8]);
    assert_eq!(topology.siblings_of(3), [0; 0]);
    assert_eq!(topology.node_of(5), Some(1));
    let choice = default_probed(&topology, &(0..16).collect::<Vec<_>>());
    // 11's and 3's core has one thread online only, but they are not; 4-7 are
    // isolated: all that is left shares a core.
    assert_eq!(choice.housekeeping, Some(0));
    machine.write("/sys/devices/system/cpu/online", "0-2,4-15");
    let topology = punctual::system::topology(&machine.root);
    let choice = default_probed(&topology, &(0..16).collect::<Vec<_>>());
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
    fn what_is_written_is_read_back(set in proptest::collection::btree_set(0..300_usize, 1..60)) {
        let cpus: Vec<usize> = set.into_iter().collect();
        prop_assert_eq!(parse_kernel(&format(&cpus)), Ok(cpus));
    }

    #[test]
    fn a_choice_holds_usable_cpus_alone(
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
        let choice = default_probed(&topology, &allowed);
        let mut all = choice.probed.clone();
        all.extend(choice.housekeeping);
        all.sort_unstable();
        prop_assert_eq!(&all, &usable);
        prop_assert_eq!(choice.housekeeping.is_some(), usable.len() >= 4);
    }
}
