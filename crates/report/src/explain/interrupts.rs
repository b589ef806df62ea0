//! What to do about softirqs and about interrupts that other CPUs ask for, with the numbers and
//! names of the bills.

use std::collections::BTreeMap;

use super::accused::Accused;
use super::fix::tune;
use super::places::Places;
use punctual_record::Run;
use punctual_record::explanation::{Cause, softirq_name};
use punctual_record::remedy::{EXPEDITED, is_managed, is_per_cpu};

/// Interrupts that a piece of advice names.
const MOST: usize = 3;

/// The devices whose interrupts stand in the bills, and what they took, the dearest first. Those of
/// timers, and those that the kernel places, can't be moved.
fn devices(run: &Run) -> Vec<(u32, &str)> {
    let rows = run.explanation.iter().flat_map(|it| &it.ranking);
    let mut all: BTreeMap<u32, (u64, &str)> = BTreeMap::new();
    for ranked in rows {
        if let Cause::Interrupt { irq, name } = &ranked.cause {
            all.entry(*irq).or_insert((0, name)).0 += ranked.total_ns;
        }
    }
    let mut all: Vec<_> = all.into_iter().collect();
    all.retain(|(_, (_, name))| !is_per_cpu(name) && !is_managed(name));
    all.sort_by_key(|(irq, (ns, _))| (std::cmp::Reverse(*ns), *irq));
    all.truncate(MOST);
    all.into_iter()
        .map(|(irq, (_, name))| (irq, name))
        .collect()
}

/// What to do about softirqs that a thread serves: which, the rows may say.
pub(super) fn raised(run: &Run, places: &Places, accused: &Accused<'_>) -> String {
    match accused.softirq() {
        Some(number) => softirq(number, run, places),
        None => move_all(&[], "the interrupt that raises it", places),
    }
}

fn move_all(devices: &[(u32, &str)], what: &str, places: &Places) -> String {
    let Places { elsewhere, hit, .. } = places;
    if devices.is_empty() {
        return format!(
            "move {what}: none stands in these bills; the column of CPU {hit} grows at its line \
             of /proc/interrupts; its number, which that line begins with, names its \
             directory below /proc/irq, whose smp_affinity_list takes {elsewhere}"
        );
    }
    // The names before the command, which a shell takes as it stands.
    let names: Vec<String> = devices
        .iter()
        .map(|(irq, name)| format!("{irq} {name}"))
        .collect();
    let each = |(irq, _): &(u32, &str)| format!("/proc/irq/{irq}/smp_affinity_list={elsewhere}");
    let settings: Vec<String> = devices.iter().map(each).collect();
    format!(
        "move the interrupts in these bills ({}): {}",
        names.join(", "),
        tune(&settings)
    )
}

pub(super) fn softirq(number: u32, run: &Run, places: &Places) -> String {
    let Places { apart, .. } = places;
    let devices = devices(run);
    match number {
        2 | 3 => {
            let cards: Vec<_> = devices
                .into_iter()
                .filter(|it| is_of_network(it.1))
                .collect();
            format!(
                "receive elsewhere: {}; or receive in threads, whose priority is yours to choose \
                 (the knob napi of punctual tune)",
                move_all(&cards, "the card's interrupt", places)
            )
        }
        4 => {
            let disks: Vec<_> = devices
                .into_iter()
                .filter(|it| !is_of_network(it.1))
                .collect();
            format!(
                "{}; complete where it was asked: 2 in the disk's /sys/block/*/queue/rq_affinity",
                move_all(&disks, "the disk's interrupt", places)
            )
        }
        1 | 8 => of_timers(places),
        7 => format!("no load balancing there: boot with isolcpus=domain,{apart}"),
        9 => format!("move its callbacks: boot with rcu_nocbs={apart}"),
        _ => {
            // Which of them raises it, the bills don't say: none is moved on suspicion.
            let what = format!("the interrupt that raises {}", softirq_name(number));
            move_all(&[], &what, places)
        }
    }
}

/// What keeps timers of programs, and what they wake, off a CPU.
pub(super) fn of_timers(places: &Places) -> String {
    let Places { apart, hit, .. } = places;
    format!(
        "keep the threads that set timers off CPU {hit}: boot with isolcpus={apart} nohz_full={apart}"
    )
}

/// Whether an interrupt is that of a network card, by its name: its interface's, or its driver's.
fn is_of_network(name: &str) -> bool {
    const BEGIN: [&str; 26] = [
        "eth",
        "en",
        "wl",
        "mlx",
        "ixgbe",
        "i40e",
        "ice-",
        "igb",
        "igc",
        "bnxt",
        "bnx2",
        "ena",
        "tg3",
        "r8169",
        "r8125",
        "iwlwifi",
        "ath",
        "mt7",
        "vmxnet",
        "hv_netvsc",
        "stmmac",
        "macb",
        "fec",
        "dwmac",
        "cpsw",
        "gianfar",
    ];
    let is_queue =
        name.starts_with("virtio") && (name.contains("-input") || name.contains("-output"));
    is_queue || name.contains("TxRx") || BEGIN.iter().any(|begin| name.starts_with(begin))
}

/// A function that another CPU had called on this one: who asks for it, and what keeps it away.
pub(super) fn call(function: &str, places: &Places, accused: &Accused<'_>) -> String {
    let Places { hit, apart, .. } = places;
    let asks = [
        (
            "flush_tlb_all",
            "the kernel unmapped memory of its own (vfree, a module that was unloaded)",
        ),
        (
            "kernel_range_flush",
            "the kernel unmapped memory of its own (vfree, a module that was unloaded)",
        ),
        (
            "flush_tlb",
            "a process that also ran on that CPU changed its memory (munmap, mprotect, or the \
             kernel that reclaimed it)",
        ),
        (
            "do_sync_core",
            "the kernel's code was changed: a tracepoint, a kprobe or a static key was switched",
        ),
        (
            "text_poke",
            "the kernel's code was changed: a tracepoint, a kprobe or a static key was switched",
        ),
        (
            "membarrier",
            "a process called membarrier() while a thread of it ran there",
        ),
        (
            "ipi_mb",
            "a process called membarrier() while a thread of it ran there",
        ),
        (
            "ttwu",
            "a thread was woken from another CPU: pin those that wake each other to one CPU",
        ),
        (
            "unthrottle",
            "the CPU quota of a control group was renewed: a group without one has no such work",
        ),
        (
            "msr",
            "a program read or wrote the registers of that CPU (turbostat, a power daemon)",
        ),
        (
            "rdmsr",
            "a program read the registers of that CPU (turbostat, a power daemon)",
        ),
        ("perf", "perf or another profiler counted on that CPU"),
        (
            "invalidate_bh",
            "buffers of a block device were dropped on all CPUs",
        ),
        ("clock", "the clock source was checked or changed"),
        (
            "rcu_barrier",
            "somebody waited for all callbacks of RCU (a module or a file system was removed)",
        ),
        (EXPEDITED[0], "an expedited grace period of RCU"),
        (EXPEDITED[1], "an expedited grace period of RCU"),
    ];
    let why = asks
        .iter()
        .find(|(part, _)| function.contains(part))
        .map(|(_, why)| format!(": {why}"))
        .unwrap_or_default();
    let who = match accused.names() {
        names if names.is_empty() => "another CPU (who is not known)".to_owned(),
        names => names,
    };
    // What is done on all CPUs, isolation keeps off none.
    let on_all = [
        "do_sync_core",
        "text_poke",
        "msr",
        "perf",
        "clock",
        "flush_tlb_all",
        "kernel_range_flush",
    ];
    let rest = match function {
        _ if on_all.iter().any(|part| function.contains(part)) => String::new(),
        _ if EXPEDITED.iter().any(|part| function.contains(part)) => {
            format!(": {}", tune(&["/sys/kernel/rcu_normal=1".to_owned()]))
        }
        _ => format!(
            "; fewer are asked for where nothing else runs: boot with isolcpus={apart} nohz_full={apart} \
             rcu_nocbs={apart}"
        ),
    };
    format!("{who} asked CPU {hit} for it{why}{rest}")
}

/// An interrupt of the CPU's own.
pub(super) fn vector(vector: &str, places: &Places) -> String {
    let Places { hit, apart, .. } = places;
    match vector {
        "reschedule" => format!(
            "another CPU woke or moved a thread on CPU {hit}: keep those threads elsewhere, boot \
             with isolcpus={apart}"
        ),
        "local timer" => {
            format!("fewer timers there: boot with nohz_full={apart} isolcpus={apart}")
        }
        _ => format!(
            "other CPUs interrupt CPU {hit} less often with isolcpus={apart} nohz_full={apart} \
             rcu_nocbs={apart}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_move_interrupts_stand_without_the_names() {
        let places = Places {
            hit: "2".to_owned(),
            probed: "2-3".to_owned(),
            apart: "2-3".to_owned(),
            elsewhere: "0-1".to_owned(),
            mask: "3".to_owned(),
            own_priority: 80,
        };
        let text = move_all(&[(36, "virtio0"), (24, "eth0")], "it", &places);
        assert_eq!(
            text,
            "move the interrupts in these bills (36 virtio0, 24 eth0): \
             `sudo punctual tune apply /proc/irq/36/smp_affinity_list=0-1 \
             /proc/irq/24/smp_affinity_list=0-1`"
        );
    }
}
