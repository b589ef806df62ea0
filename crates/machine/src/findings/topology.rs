//! What CPUs share: cores, caches and memory.

use punctual_record::finding::{Countable, Item, ItemKind, Seen, Unknown};

use super::isolation::{lacking, list, shared};
use crate::look::{
    Look, Looked, Outcome, bad, information_that, missing, none_of, ok, present, unknown, without,
};

pub(super) fn smt_siblings(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let active = look.optional("/sys/devices/system/cpu/smt/active")?;
    if active.as_deref() == Some("0") {
        return ok();
    }
    let pattern = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list";
    let mut siblings = Vec::new();
    for (cpu, text) in look.per_cpu(pattern, cpus)? {
        let path = pattern.replacen("{}", &cpu.to_string(), 1);
        siblings.extend(list(&path, &text)?.into_iter().filter(|it| *it != cpu));
    }
    siblings.sort_unstable();
    siblings.dedup();
    let named = |cpus: &[usize]| present(cpus.iter().copied().map(Item::Cpu));
    let others = lacking(&siblings, cpus);
    if siblings.is_empty() {
        return ok();
    }
    if others.is_empty() {
        // They disturb each other alone.
        return information_that(named(&siblings)).boot("nosmt").end();
    }
    let off = |outcome: Outcome, cpu: &usize| {
        outcome.write(&format!("/sys/devices/system/cpu/cpu{cpu}/online"), 0)
    };
    let outcome = bad(named(&others));
    others.iter().fold(outcome, off).boot("nosmt").end()
}

pub(super) fn resctrl(look: &mut Look<'_>) -> Looked {
    let cpuinfo = look.unshown("/proc/cpuinfo")?;
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let flags = flags.unwrap_or_default().split_whitespace();
    let wanted = ["cat_l3", "cat_l2", "mba"];
    let has: Vec<&str> = flags.filter(|flag| wanted.contains(flag)).collect();
    if has.is_empty() {
        look.seen("/proc/cpuinfo", none_of(&wanted));
        return without("cat_l3");
    }
    look.saw("/proc/cpuinfo", &has.join(" "));
    match look.optional("/sys/fs/resctrl/schemata")? {
        Some(_) => ok(),
        None => information_that(missing("/sys/fs/resctrl")).by_hand().end(),
    }
}

pub(super) fn numa(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let folder = "/sys/devices/system/node";
    look.directory(folder)?;
    let nodes = look.machine.root.numbered(folder, "node");
    if nodes.len() < 2 {
        let seen = Seen::CountOf {
            count: nodes.len() as u64,
            of: Countable::Nodes,
        };
        look.seen(folder, seen);
        return without(ItemKind::SecondNumaNode);
    }
    let mut used = Vec::new();
    for node in nodes {
        let path = format!("{folder}/node{node}/cpulist");
        let here = list(&path, &look.required(&path)?)?;
        if !shared(cpus, &here).is_empty() {
            used.push(node.to_string());
        }
    }
    let own = match &used[..] {
        [] => return unknown(Unknown::NotUnderstood(folder.to_owned())),
        [own] => own,
        _ => {
            let several = used.into_iter().map(Item::NumaNode);
            return bad(present(several)).by_hand().end();
        }
    };
    let mut far = Vec::new();
    for device in look
        .machine
        .root
        .names("/sys/class/net")
        .unwrap_or_default()
    {
        let path = format!("/sys/class/net/{device}/device/numa_node");
        // Absent for a device without hardware.
        if let Some(node) = look.optional_unshown(&path)?
            && node != "-1"
            && node != *own
        {
            look.saw(path, &node);
            far.push(Item::DeviceOfNode { device, node });
        }
    }
    if far.is_empty() {
        ok()
    } else {
        bad(present(far)).by_hand().end()
    }
}
