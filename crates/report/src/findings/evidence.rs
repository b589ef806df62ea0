//! What was read of a machine, and where, in words.

use punctual_record::cpu_list;
use punctual_record::finding::{Countable, Counted, Elsewhere, Portion, Seen, Source};

/// Where something was read.
pub(super) fn source_words(source: &Source) -> String {
    match source {
        Source::Place(place) => place.clone(),
        Source::Programs {} => "running programs".to_owned(),
        Source::Threads(names) => format!("threads {}", names.join(", ")),
        Source::Tried(call) => format!("tried: {call}"),
    }
}

/// What was seen there.
pub(super) fn seen(seen: &Seen) -> String {
    match seen {
        Seen::Nothing => "none".to_owned(),
        Seen::NoneOf(names) => match &names[..] {
            [name] => format!("no {name}"),
            _ => format!("none of {}", names.join(", ")),
        },
        Seen::Present => "present".to_owned(),
        Seen::Readable => "readable".to_owned(),
        Seen::InUse => "on".to_owned(),
        Seen::Count(count) => count.to_string(),
        Seen::CountOf { count, of } => {
            let of = match of {
                Countable::Nodes => "nodes",
                Countable::EnabledEvents => "events enabled",
                Countable::ActiveMitigations => "active",
                Countable::DevicesOn => "devices, all on",
            };
            format!("{count} {of}")
        }
        Seen::Part { count, all, of } => match of {
            None => format!("{count} of {all}"),
            Some(Portion::HighResolutionCpus) => format!("hres_active: {count} of {all} CPUs"),
            Some(Portion::SetOptions) => format!("{count} of {all} set"),
            Some(Portion::OrdinaryThreads) => format!("{count} of {all} ordinary"),
            Some(Portion::Devices) => format!("{count} of {all} devices"),
        },
        Seen::OfCpus(cpus) => format!("of CPUs {}", cpu_list(cpus)),
        Seen::OnCpus {
            count,
            programs,
            cpus,
        } => {
            let what = if *programs { " programs" } else { "" };
            format!("{count}{what} on CPUs {}", cpu_list(cpus))
        }
        Seen::NoneOnCpus { count, of, cpus } => {
            let (what, preposition) = match of {
                Elsewhere::Interrupts => ("interrupts", "on"),
                Elsewhere::ManagedInterrupts => ("managed interrupts", "on"),
                Elsewhere::Masks => ("masks", "with"),
            };
            format!("{count} {what}, none {preposition} CPUs {}", cpu_list(cpus))
        }
        Seen::ThreadsFrom { count, priority } => format!("{count} threads at {priority} or above"),
        Seen::Parameters { count, faulty } => {
            format!("{count} parameters, {faulty} misspelt or unknown")
        }
        Seen::NotSet(option) => format!("CONFIG_{option}=not set"),
        Seen::Flag { name, set: true } => format!("flag {name}"),
        Seen::Flag { name, set: false } => format!("no flag {name}"),
        Seen::Counted(Counted { times, within_ms }) => format!("{times} in {within_ms} ms"),
        Seen::NotCounted => "not read, it takes two readings".to_owned(),
        Seen::NoRegisters => "can't be read: modprobe msr, on a processor of Intel".to_owned(),
        Seen::NoCpuController => "no controller cpu of version 1".to_owned(),
        Seen::Works => "works".to_owned(),
        Seen::Failed => "failed".to_owned(),
        Seen::Granted => "granted".to_owned(),
        Seen::NotClaimed => "not claimed".to_owned(),
    }
}
