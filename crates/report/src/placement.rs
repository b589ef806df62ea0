//! Where the parts of a run were placed, in words.

use super::words::cpu_list;
use punctual_record::{Chosen, Placement, Run};

/// Which CPUs were probed and why, and where the load and the collector ran.
#[must_use]
pub fn placement(run: &Run) -> Option<String> {
    let place = run.placement.as_ref()?;
    let booted_isolated = run.system.kernel.command_line.contains("isolcpus=");
    let isolated = &run.system.processor.isolated;
    let online = &run.system.processor.online;
    Some(said(
        place,
        &run.request.cpus,
        online,
        isolated,
        booted_isolated,
    ))
}

fn said(
    place: &Placement,
    probed: &[usize],
    online: &[usize],
    isolated: &[usize],
    booted_isolated: bool,
) -> String {
    let mut why = why(place, booted_isolated);
    let within = online.iter().any(|cpu| !place.reachable.contains(cpu));
    if place.chosen == Chosen::All && within {
        why += " that this process may use";
    }
    let beyond = isolated.iter().copied();
    let beyond: Vec<usize> = beyond
        .filter(|cpu| !place.reachable.contains(cpu))
        .collect();
    if place.chosen == Chosen::All && !beyond.is_empty() {
        why += &format!("; isolated {} not in this cpuset", cpu_list(&beyond));
    }
    let mut parts = vec![format!("probed {} ({why})", cpu_list(probed))];
    if !place.load.is_empty() {
        let shared = place.load.iter().any(|cpu| probed.contains(cpu));
        let apart = if shared { "" } else { " (not on probed CPUs)" };
        parts.push(format!("load {}{apart}", cpu_list(&place.load)));
    }
    let collector = match place.housekeeping {
        Some(cpu) => cpu_list(&[cpu]),
        None => cpu_list(&place.inherited),
    };
    parts.push(format!("collector {collector}"));
    parts.join(", ")
}

fn why(place: &Placement, booted_isolated: bool) -> String {
    match (place.chosen, &place.partition) {
        (Chosen::Named, _) => "named by -a".to_owned(),
        (Chosen::Isolated, Some(group)) => format!("isolated by the cgroup partition {group}"),
        (Chosen::Isolated, None) if booted_isolated => "isolated by isolcpus".to_owned(),
        (Chosen::Isolated, None) => "isolated".to_owned(),
        (Chosen::NohzFull, _) => "without tick by nohz_full".to_owned(),
        (Chosen::Inherited, _) => {
            let inherited = cpu_list(&place.inherited);
            format!("the affinity at start, {inherited}, by taskset, a service or a cpuset")
        }
        (Chosen::All, _) if place.housekeeping.is_some() => "all but one".to_owned(),
        (Chosen::All, _) => "all".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_choice_of_cpus_is_stated_with_its_reason() {
        let place = |chosen, load: &[usize], housekeeping| Placement {
            chosen,
            inherited: vec![0, 1],
            reachable: vec![0, 1, 2, 3],
            partition: None,
            housekeeping,
            load: load.to_vec(),
        };
        let isolated = place(Chosen::Isolated, &[0, 1], Some(0));
        assert_eq!(
            said(&isolated, &[2, 3], &[0, 1, 2, 3], &[2, 3], true),
            "probed 2-3 (isolated by isolcpus), load 0-1 (not on probed CPUs), collector 0"
        );
        let within = Placement {
            partition: Some("/sys/fs/cgroup/rt".to_owned()),
            ..place(Chosen::Isolated, &[0, 1], None)
        };
        assert_eq!(
            said(&within, &[0, 1], &[0, 1, 2, 3], &[0, 1], true),
            "probed 0-1 (isolated by the cgroup partition /sys/fs/cgroup/rt), load 0-1, \
             collector 0-1"
        );
        let inherited = place(Chosen::Inherited, &[], None);
        assert_eq!(
            said(&inherited, &[0, 1], &[0, 1, 2, 3], &[], false),
            "probed 0-1 (the affinity at start, 0-1, by taskset, a service or a cpuset), collector 0-1"
        );
        let all = place(Chosen::All, &[0, 1, 2, 3], Some(0));
        assert!(
            said(&all, &[1, 2, 3], &[0, 1, 2, 3], &[], false)
                .starts_with("probed 1-3 (all but one), load 0-3,")
        );
        let told = said(&all, &[1, 2, 3], &[0, 1, 2, 3], &[6, 7], false);
        let within = Placement {
            reachable: vec![1],
            ..place(Chosen::All, &[1], None)
        };
        assert_eq!(
            said(&within, &[1], &[0, 1], &[], false),
            "probed 1 (all that this process may use), load 1, collector 0-1"
        );
        assert!(
            told.contains("(all but one; isolated 6-7 not in this cpuset)"),
            "{told}"
        );
        let named = place(Chosen::Named, &[1], Some(0));
        assert!(
            said(&named, &[3], &[0, 1, 2, 3], &[], false).starts_with("probed 3 (named by -a), ")
        );
    }
}
