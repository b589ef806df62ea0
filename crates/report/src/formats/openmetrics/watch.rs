//! What only a watch has: its worst wake-ups with the thread that had the CPU, what it did not see,
//! and what it costs.

use std::collections::BTreeMap;

use punctual_record::Run;
use punctual_record::watch::Watch;

use super::{Page, quoted, seconds};

/// Pairs of a woken thread and the one before it: each is a series, and the names of threads come and
/// go.
const PAIRS: usize = 16;

pub(super) fn write(out: &mut Page<'_>, run: &Run) {
    let Some(watch) = &run.watch else {
        return;
    };
    let host = quoted(&run.system.hostname);
    worst(out, watch, &host);
    unfollowed(out, watch, &host);
    events(out, run, &host);
    cost(out, run, watch, &host);
}

/// The longest wake-up of each pair of names, the worst pairs.
fn worst(out: &mut Page<'_>, watch: &Watch, host: &str) {
    let mut pairs: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for one in &watch.worst {
        let before = one.before.as_ref().map_or("idle", |task| &task.name);
        let longest = pairs.entry((&one.task.name, before)).or_insert(0);
        *longest = one.latency_ns.max(*longest);
    }
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by_key(|(names, longest_ns)| (std::cmp::Reverse(*longest_ns), *names));
    pairs.truncate(PAIRS);
    let name = "punctual_worst_wakeup_seconds";
    let help = "The longest wake-up of a thread, and the thread that had the CPU meanwhile.";
    if !pairs.is_empty() {
        out.family(name, "gauge", "seconds", help);
    }
    let mut written: Vec<String> = Vec::new();
    for ((thread, before), longest_ns) in pairs {
        let (thread, before) = (quoted(thread), quoted(before));
        let series = format!("{name}{{host={host},thread={thread},before={before}}}");
        // Names that differ only in what can't be printed.
        if !written.contains(&series) {
            out.put(format_args!("{series} {}\n", seconds(longest_ns)));
            written.push(series);
        }
    }
}

fn unfollowed(out: &mut Page<'_>, watch: &Watch, host: &str) {
    let name = "punctual_unfollowed_threads";
    let help = "Threads that were not followed for lack of space, at least.";
    out.family(name, "gauge", "", help);
    // Of those that the kernel's map had no room for only their switches are counted.
    let at_least = watch.beyond.max(u64::from(watch.unfollowed > 0));
    out.put(format_args!("{name}{{host={host}}} {at_least}\n"));
}

/// Changes of the machine's conditions, and troubles of the watch itself: the record says which.
fn events(out: &mut Page<'_>, run: &Run, host: &str) {
    let name = "punctual_events";
    let help = "Events of the run, such as a changed condition of the machine.";
    out.family(name, "counter", "", help);
    for invalidates in [false, true] {
        let events = run.events.iter();
        let count = events.filter(|event| event.invalidates == invalidates);
        let series = format!("{name}_total{{host={host},invalidates=\"{invalidates}\"}}");
        out.count(series, count.count() as u64);
    }
}

fn cost(out: &mut Page<'_>, run: &Run, watch: &Watch, host: &str) {
    let name = "punctual_collector_cpu_seconds";
    let help = "Processor time of the watch itself.";
    out.family(name, "counter", "seconds", help);
    let spent = seconds(run.own_cost.collector_cpu_ns);
    out.put(format_args!("{name}_total{{host={host}}} {spent}\n"));
    let Some(cost) = watch.cost.filter(|cost| cost.measured_ns > 0) else {
        return;
    };
    let name = "punctual_bpf_cpu_ratio";
    let help = "Processor time of the programs in the kernel, as a share of one CPU.";
    out.family(name, "gauge", "ratio", help);
    let share = cost.spent_ns as f64 / cost.measured_ns as f64;
    out.put(format_args!("{name}{{host={host}}} {share:?}\n"));
}
