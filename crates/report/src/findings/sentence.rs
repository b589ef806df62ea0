//! What a finding found, in a sentence.

use punctual_record::cpu_list;
use punctual_record::finding::{
    Fault, Finding, FindingState, Item, NotApplicable, ReadResult, Reading, Source, Unknown,
};
use punctual_record::text::shortened;

use super::evidence::{seen as seen_words, source_words};
use super::item::item_words;

/// The items that are named of a longer list.
const ITEMS: usize = 6;

/// What was found, without the title.
#[must_use]
pub fn sentence(finding: &Finding) -> String {
    match &finding.state {
        FindingState::Ok => seen(finding),
        FindingState::Bad { fault } => fault_words(finding, fault),
        FindingState::Information { fault: Some(fault) } => fault_words(finding, fault),
        FindingState::Information { fault: None } => seen(finding),
        FindingState::Unknown { why } => match values(finding) {
            value if value.is_empty() => unknown(finding, why),
            value => format!("{}; {value}", unknown(finding, why)),
        },
        FindingState::NotApplicable { why } => not_applicable(why),
    }
}

fn fault_words(finding: &Finding, fault: &Fault) -> String {
    let value = values(finding);
    let with_value = |words: String| {
        if value.is_empty() {
            words
        } else {
            format!("{value}; {words}")
        }
    };
    match fault {
        Fault::Expected(accepted) => with_value(format!("expected {}", accepted.join(" or "))),
        Fault::Unequal => with_value("expected the same value".to_owned()),
        Fault::Above(most) => with_value(format!("expected at most {most}")),
        Fault::Below(least) => with_value(format!("expected at least {least}")),
        Fault::Includes(cpus) => with_value(format!("it includes {}", of_cpus(cpus))),
        Fault::Lacks(cpus) => with_value(format!("it lacks {}", of_cpus(cpus))),
        Fault::Present(items) => listed(items),
        Fault::Missing(items) => format!("missing: {}", listed(items)),
    }
}

fn of_cpus(cpus: &[usize]) -> String {
    match cpus {
        [cpu] => format!("CPU {cpu}"),
        _ => format!("CPUs {}", cpu_list(cpus)),
    }
}

fn listed(items: &[Item]) -> String {
    let named = items.iter().take(ITEMS).map(item_words);
    let named = named.collect::<Vec<_>>().join(", ");
    match items.len().saturating_sub(ITEMS) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The texts that were read, or that there are none.
fn seen(finding: &Finding) -> String {
    match (values(finding), finding.readings.first()) {
        (value, _) if !value.is_empty() => value,
        (_, Some(reading)) => format!("{} is absent", source_words(&reading.source)),
        (_, None) => "nothing to read".to_owned(),
    }
}

/// The texts that were read, the first few; of several each with the name of its file, unless it
/// names itself.
fn values(finding: &Finding) -> String {
    let values: Vec<(String, String)> = finding.readings.iter().filter_map(value_of).collect();
    if let [(_, text)] = &values[..] {
        return text.clone();
    }
    let few = values.iter().take(VALUES).map(|(name, text)| {
        if text.starts_with("CONFIG_") || name == "cmdline" {
            text.clone()
        } else {
            format!("{name} {text}")
        }
    });
    let few = few.collect::<Vec<_>>().join(", ");
    match values.len().saturating_sub(VALUES) {
        0 => few,
        more => format!("{few} and {more} more"),
    }
}

fn value_of(reading: &Reading) -> Option<(String, String)> {
    let name = || match &reading.source {
        Source::Place(place) => name_of(place).to_owned(),
        other => source_words(other),
    };
    match &reading.result {
        ReadResult::Value(text) if text.is_empty() => Some((name(), "empty".to_owned())),
        ReadResult::Value(text) => Some((name(), shortened(text, LETTERS))),
        ReadResult::Seen(seen) => Some((name(), shortened(&seen_words(seen), LETTERS))),
        ReadResult::Absent | ReadResult::Error(_) => None,
    }
}

/// The letters of a value that are shown.
const LETTERS: usize = 64;
/// The values that are named of more.
const VALUES: usize = 3;

/// The last part of a path; a system call is its own name.
fn name_of(source: &str) -> &str {
    match source.rsplit_once('/') {
        Some((before, name)) if before.is_empty() || before.starts_with('/') => name,
        _ => source,
    }
}

fn unknown(finding: &Finding, why: &Unknown) -> String {
    match why {
        Unknown::Unreadable(place) => {
            let place_of = |it: &&Reading| it.source == Source::from(place);
            let reading = finding.readings.iter().find(place_of);
            match reading.map(|reading| &reading.result) {
                Some(ReadResult::Error(error)) => format!("{place} can't be read: {error}"),
                _ => format!("{place} can't be read"),
            }
        }
        Unknown::NotUnderstood(place) => format!("{place} has an unknown form"),
        Unknown::NotShown(what) => {
            format!("no file of the kernel shows whether {what} is in force")
        }
        Unknown::Absent(what) => format!("{} is absent", item_words(what)),
        Unknown::NotMounted { filesystem, place } => {
            format!("{filesystem} is not mounted: mount -t {filesystem} {filesystem} {place}")
        }
        Unknown::HiddenThreads => "not every thread of the machine is visible in /proc: another \
             PID namespace, hidepid, or more than 32768 threads"
            .to_owned(),
        Unknown::NoConfiguration => {
            "no configuration of the kernel can be read (modprobe configs, or /boot/config-RELEASE)"
                .to_owned()
        }
        Unknown::NotRecorded(what) => format!("{what} is not in this snapshot"),
    }
}

fn not_applicable(why: &NotApplicable) -> String {
    match why {
        NotApplicable::Absent(what) => format!("{} is absent", item_words(what)),
        NotApplicable::RealTimeKernel => "the kernel is PREEMPT_RT".to_owned(),
        NotApplicable::OrdinaryKernel => "the kernel is not PREEMPT_RT".to_owned(),
        NotApplicable::KernelBefore(version) => format!("only from Linux {version} on"),
        NotApplicable::KernelFrom(version) => format!("only before Linux {version}"),
        NotApplicable::CpusNotNamed => "name the CPUs for real-time work with -a".to_owned(),
        NotApplicable::NotRequested(parameter) => format!("{parameter} was not given at boot"),
        NotApplicable::Architecture => "another architecture's".to_owned(),
        NotApplicable::FewCpus => "the machine has too few CPUs for it".to_owned(),
    }
}
