//! What CPUs share: cores, caches and memory.

use punctual_record::finding::{Countable, Item, ItemKind, Seen, Unknown};

use super::isolation::{lacking, list, shared};
use crate::look::{
    Look, Looked, bad, information_that, missing, none_of, ok, present, unknown, without,
};

pub(super) fn smt_siblings(look: &mut Look<'_>) -> Looked {
    let cpus = look.real_time_cpus()?;
    let active = look.optional("/sys/devices/system/cpu/smt/active")?;
    if active.as_deref() == Some("0") {
        return ok();
    }
    let pattern = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list";
    let (mut siblings, mut firsts) = (Vec::new(), Vec::new());
    for (cpu, text) in look.per_cpu(pattern, cpus)? {
        let path = pattern.replacen("{}", &cpu.to_string(), 1);
        let core = list(&path, &text)?;
        firsts.extend(core.iter().min());
        siblings.extend(core.into_iter().filter(|it| *it != cpu));
    }
    for cpus in [&mut siblings, &mut firsts] {
        cpus.sort_unstable();
        cpus.dedup();
    }
    if siblings.is_empty() {
        return ok();
    }
    look.online()?;
    let named = |cpus: &[usize]| present(cpus.iter().copied().map(Item::Cpu));
    let others = lacking(&siblings, cpus);
    let mut outcome = match others.is_empty() {
        // They disturb each other alone.
        true => information_that(named(&siblings)),
        false => bad(named(&others)),
    };
    // Without a core that has none of these CPUs, no CPU would be left for other work.
    let leaves_others = !lacking(&look.machine.housekeeping(), &siblings).is_empty();
    let root = look.machine.root;
    let mut is_whole = leaves_others && !others.is_empty();
    for path in others.iter().map(|cpu| online_file(*cpu)) {
        if leaves_others && root.exists(&path) {
            outcome = outcome.write(&path, 0);
        } else {
            is_whole = false;
        }
    }
    // `cpu_bootable` in kernel/cpu.c: then the first thread of each core is booted alone.
    if leaves_others && lacking(cpus, &firsts).is_empty() {
        outcome = outcome.boot("nosmt");
        is_whole = true;
    }
    if is_whole {
        return outcome.end();
    }
    let pattern = pattern.replacen("{}", "*", 1);
    look.seen(format!("{pattern}[0]"), Seen::OfCpus(firsts));
    outcome.by_hand().end()
}

/// The file that takes a CPU offline. The CPU that x86 boots on has none from Linux 6.5 on ("cpu/hotplug:
/// Remove CPU0 hotplug").
fn online_file(cpu: usize) -> String {
    format!("/sys/devices/system/cpu/cpu{cpu}/online")
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
