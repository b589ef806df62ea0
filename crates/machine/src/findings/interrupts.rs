//! Where interrupts are delivered.

use punctual_record::cpu_list;
use punctual_record::finding::{Counted, Elsewhere, FindingState, Item, ItemKind, Unknown};
use punctual_record::remedy::{is_managed, is_per_cpu};
use punctual_rt::cpulist;

use super::isolation::{lacking, list, none_on_cpus, shared};
use crate::look::{Look, Looked, bad, information_that, lost, ok, present, unknown, without};
use crate::mask;

/// The names of an interrupt's requesters that are kept.
const ACTIONS: usize = 16;

/// Interrupts that are delivered to CPUs for real-time work. The managed ones are of queues of
/// virtio and nvme, and can't be moved.
pub(super) fn irq_affinity(look: &mut Look<'_>, managed: bool) -> Looked {
    let cpus = look.real_time_cpus()?;
    let root = look.machine.root;
    look.directory("/proc/irq")?;
    look.online()?;
    let housekeeping = look.machine.housekeeping();
    let (mut found, mut moved, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    let mut outcome = bad(present::<Item>([]));
    let mut interrupts = 0;
    let mut can_leave = true;
    for irq in root.numbered("/proc/irq", "") {
        let folder = format!("/proc/irq/{irq}");
        let is_action = |name: &String| root.names(&format!("{folder}/{name}")).is_ok();
        let mut actions = root.names(&folder).unwrap_or_default();
        actions.retain(is_action);
        // An interrupt that nobody has requested is not delivered, and one of a CPU alone not moved.
        let is_fixed = actions.iter().any(|name| is_per_cpu(name));
        if actions.is_empty() || is_fixed || has_managed(&actions) != managed {
            continue;
        }
        let effective = format!("{folder}/effective_affinity_list");
        let affinity = format!("{folder}/smp_affinity_list");
        let path = if root.exists(&effective) {
            &effective
        } else {
            &affinity
        };
        // One that was given up meanwhile does not count.
        if !root.exists(path) && !root.exists(&folder) {
            continue;
        }
        interrupts += 1;
        let text = look.unshown(path)?;
        // One that came in spite of its mask is there too.
        let sample = look.machine.sample.as_ref();
        let came = sample.map(|sample| sample.interrupts(irq, cpus));
        if shared(cpus, &list(path, &text)?).is_empty() && came.unwrap_or(0) == 0 {
            continue;
        }
        look.saw(path.clone(), &text);
        let counted = sample.zip(came).map(|(sample, times)| Counted {
            times,
            within_ms: sample.length_ms,
        });
        let has_moved =
            !managed && came.unwrap_or(0) == 0 && is_moved(look, &affinity, path, cpus)?;
        actions.truncate(ACTIONS);
        let interrupt = Item::Interrupt {
            number: irq,
            actions,
            counted: counted.filter(|_| !has_moved),
        };
        if has_moved {
            // Its mask is what it should be: to write it again changes nothing, and is no error.
            kept.push((affinity.clone(), look.required(&affinity)?));
            moved.push(interrupt);
            continue;
        }
        found.push(interrupt);
        if managed {
            let mask = look.optional_unshown(&affinity)?.unwrap_or_default();
            can_leave &= !shared(&housekeeping, &list(&affinity, &mask)?).is_empty();
        }
        if !managed && !housekeeping.is_empty() {
            outcome = outcome.write(&affinity, cpu_list(&housekeeping));
        }
    }
    if found.is_empty() && !moved.is_empty() {
        let information = information_that(present(moved));
        let again = kept.into_iter();
        return again
            .fold(information, |all, (path, mask)| all.write(&path, mask))
            .end();
    }
    if found.is_empty() {
        let of = if managed {
            Elsewhere::ManagedInterrupts
        } else {
            Elsewhere::Interrupts
        };
        let seen = none_on_cpus(interrupts, of, cpus);
        look.seen("/proc/irq/*/effective_affinity_list", seen);
        return match (interrupts, managed) {
            (0, true) => without(ItemKind::ManagedInterrupt),
            // Every machine has one: these are masked.
            (0, false) => lost("/proc/irq/N/smp_affinity_list"),
            _ => ok(),
        };
    }
    outcome.state = FindingState::Bad {
        fault: present(found),
    };
    // Documentation/admin-guide/kernel-parameters.txt, `managed_irq`: it takes effect only where the
    // mask of a queue has a housekeeping CPU, too. With every CPU in the list the kernel keeps its boot
    // CPU.
    if managed && !housekeeping.is_empty() && can_leave && !look.keeps_managed_irqs(cpus)? {
        outcome = outcome.boot(format!("isolcpus=managed_irq,domain,{}", cpu_list(cpus)));
    }
    if outcome.fixes.is_empty() {
        outcome = outcome.by_hand();
    }
    outcome.end()
}

/// Whether an interrupt may no longer be delivered to these CPUs: the kernel moves it when it comes
/// the next time, and one that never comes stays where it was.
fn is_moved(
    look: &mut Look<'_>,
    affinity: &str,
    effective: &str,
    cpus: &[usize],
) -> Result<bool, FindingState> {
    if affinity == effective {
        return Ok(false);
    }
    let text = look.required(affinity)?;
    Ok(shared(cpus, &list(affinity, &text)?).is_empty())
}

fn has_managed(actions: &[String]) -> bool {
    actions.iter().any(|name| is_managed(name))
}

pub(super) fn irqbalance(look: &mut Look<'_>) -> Looked {
    let cpus = look.machine.cpus.clone();
    if look.programs(&["irqbalance"])?.is_empty() {
        return ok();
    }
    // In the order in which units read them. systemd.exec(5): the last assignment of a variable counts,
    // also an empty one.
    let (mut mask, mut cpu_list) = (None, None);
    for path in [
        "/usr/lib/irqbalance/defaults.env",
        "/etc/irqbalance.env",
        "/etc/sysconfig/irqbalance",
        "/etc/default/irqbalance",
    ] {
        let Some(text) = look.optional_unshown(path)? else {
            continue;
        };
        for line in text.lines().map(str::trim) {
            let Some((name, value)) = line.split_once('=') else {
                continue;
            };
            let variable = match name.trim_end() {
                "IRQBALANCE_BANNED_CPUS" => &mut mask,
                "IRQBALANCE_BANNED_CPULIST" => &mut cpu_list,
                _ => continue,
            };
            look.saw(path, line);
            let value = value.trim_start().trim_matches(['"', '\'']);
            *variable = Some((path, value.to_owned()));
        }
    }
    // `setup_banned_cpus` in irqbalance's cputree.c: a mask that is not empty wins over a list.
    let mask = mask.filter(|(_, value)| !value.is_empty());
    let has_mask = mask.is_some();
    let banned = match (mask, &cpu_list) {
        (Some((path, value)), _) => Look::parsed(path, mask::parse(&value))?,
        (None, Some((_, value))) if value == "-" => Vec::new(),
        (None, Some((path, value))) if !value.is_empty() => {
            Look::parsed(path, cpulist::numbers(value).ok())?
        }
        // irqbalance(1): it leaves isolated CPUs and those without a tick alone by default.
        _ => {
            let mut left_alone = Vec::new();
            for name in ["isolated", "nohz_full"] {
                let path = format!("/sys/devices/system/cpu/{name}");
                let text = look.optional(&path)?.unwrap_or_default();
                left_alone.extend(list(&path, &text)?);
            }
            left_alone
        }
    };
    if !cpus.is_empty() && lacking(&cpus, &banned).is_empty() {
        // An empty list counts as absent up to irqbalance 1.9.5; those of 2026 ban no CPU then ("Notes: Empty
        // value" in irqbalance(1)).
        return match cpu_list {
            Some((_, value)) if value.is_empty() && !has_mask => {
                unknown(Unknown::NotShown("IRQBALANCE_BANNED_CPULIST=".to_owned()))
            }
            _ => ok(),
        };
    }
    bad(present(["irqbalance"])).by_hand().end()
}
