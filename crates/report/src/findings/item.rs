//! What a finding names, in words.

use punctual_record::finding::{Counted, Item, ItemKind};

/// The item as one stands in a list.
pub(super) fn item_words(item: &Item) -> String {
    match item {
        Item::Name(name) => name.clone(),
        Item::Cpu(cpu) => format!("CPU {cpu}"),
        Item::NumaNode(node) => format!("node {node}"),
        Item::DeviceOfNode { device, node } => format!("{device} (node {node})"),
        Item::ThreadOn { thread, cpus } => format!("{thread} ({cpus})"),
        Item::ThreadAt {
            thread,
            policy,
            priority,
        } => format!("{thread} ({} {priority})", policy.to_uppercase()),
        Item::Interrupt {
            number,
            actions,
            counted,
        } => {
            let name = format!("{number} {}", actions.join(" "));
            match counted {
                None => name,
                Some(Counted { times, within_ms }) => {
                    format!("{name} ({times} times in {within_ms} ms)")
                }
            }
        }
        Item::IdleState { name, exit_us } => format!("{name} ({exit_us} \u{b5}s)"),
        Item::ClockEvent { number, device } => format!("clockevent{number}: {device}"),
        Item::Mount { place, filesystem } => format!("{place} ({filesystem})"),
        Item::Misspelt { parameter, known } => format!("{parameter} ({known}?)"),
        Item::AuditRules { calls: 1 } => "1 rule of system calls".to_owned(),
        Item::AuditRules { calls } => format!("{calls} rules of system calls"),
        Item::NotInKernel { parameter } => format!("{parameter} (not in this kernel)"),
        Item::Repeated { parameter } => format!("{parameter} (more than once)"),
        Item::SharesCpus { parameter, other } => {
            format!("{parameter} (it includes CPUs of {other})")
        }
        Item::LinuxFrom(version) => format!("Linux {version} or later"),
        Item::Cobalt(version) => format!("Xenomai Cobalt {version}"),
        Item::Threads(names) => format!("threads {}", names.join(", ")),
        Item::Governor(name) => format!("the governor {name}"),
        Item::Kind(kind) => kind_words(*kind).to_owned(),
    }
}

fn kind_words(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::FairServerTimer => "the fair server's timer on nohz_full CPUs",
        ItemKind::Hypervisor => "a hypervisor",
        ItemKind::WriteAccess => "write access",
        ItemKind::ManagedInterrupt => "a managed interrupt",
        ItemKind::SecondNumaNode => "a second NUMA node",
        ItemKind::Swap => "swap",
    }
}
