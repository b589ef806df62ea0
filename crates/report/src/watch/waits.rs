//! Where threads were off the CPU, and how long they waited for one, as tables.

use punctual_stats::histogram::Histogram;

use super::{Table, instant, none};
use crate::words;
use punctual_record::Run;
use punctual_record::watch::{OffCpuPlace, OffCpuWhy, QueueTimes, RunQueueThread, Watch};

fn why(place: &OffCpuPlace) -> &'static str {
    match place.why {
        OffCpuWhy::Asleep => "asleep",
        OffCpuWhy::Uninterruptible => "uninterruptible",
        OffCpuWhy::Preempted => "preempted",
        OffCpuWhy::Throttled => "throttled",
        OffCpuWhy::Stopped => "stopped",
        OffCpuWhy::Yielded => "yielded",
    }
}

/// A stack from the inside out, the kernel's part first; offsets in functions are left out.
fn stack(place: &OffCpuPlace) -> String {
    let plain = |name: &String| {
        let bare = name.split_once("+0x").map_or(&**name, |(bare, _)| bare);
        // A place in a file is nothing without its offset.
        words::clean(if bare.contains(".so") { name } else { bare })
    };
    let parts = [&place.kernel, &place.user];
    let parts = parts.map(|part| part.iter().map(plain).collect::<Vec<_>>().join(" ‹ "));
    match parts {
        [kernel, user] if kernel.is_empty() && user.is_empty() => none(),
        [kernel, user] if user.is_empty() => kernel,
        [kernel, user] if kernel.is_empty() => user,
        [kernel, user] => format!("{kernel} ‹‹ {user}"),
    }
}

/// What is in no table: there was no room for it, or the kernel did not show it.
pub(super) fn lacks(run: &Run, watch: &Watch) -> Vec<String> {
    let mut lacks = Vec::new();
    let of_some = [
        ("off-CPU times", watch.off_cpu.as_ref().map(|it| it.runs)),
        (
            "run-queue latencies",
            watch.run_queue.as_ref().map(|it| it.runs),
        ),
    ];
    for (what, runs) in of_some {
        if let (Some(merged), Some(runs)) = (&run.merged, runs)
            && runs < merged.runs
        {
            let all = words::count(merged.runs);
            lacks.push(format!(
                "the {what} are those of {} of the {all} runs: the others did not record them",
                words::count(runs)
            ));
        }
    }
    let mut say = |count: u64, one: &str, many: &str| {
        if count > 0 {
            lacks.push(words::plural(count, one, many));
        }
    };
    if let Some(off_cpu) = &watch.off_cpu {
        say(
            off_cpu.no_room.count,
            "off-CPU time was not recorded for lack of space: its stack is not known",
            "off-CPU times were not recorded for lack of space: their stacks are not known",
        );
        say(
            off_cpu.stackless,
            "off-CPU time has no stack: another stack has the same hash",
            "off-CPU times have no stack: other stacks have the same hashes",
        );
    }
    if let Some(queue) = &watch.run_queue {
        say(
            queue.lost,
            "run-queue latency was not recorded for lack of space",
            "run-queue latencies were not recorded for lack of space",
        );
        let threads = queue.threads.iter();
        let unseen = threads.fold(0_u64, |sum, it| sum.saturating_add(it.unseen));
        say(
            unseen,
            "run-queue latency was not shown by the kernel",
            "run-queue latencies were not shown by the kernel",
        );
    }
    lacks
}

/// Where they were.
pub(super) fn off_cpu(run: &Run, watch: &Watch) -> Table {
    let (mut rows, mut stacks) = (Vec::new(), Vec::new());
    if let Some(off_cpu) = &watch.off_cpu {
        stacks.extend(off_cpu.places.iter().map(stack));
        rows.extend(off_cpu.places.iter().map(|place| {
            vec![
                words::label(&run.thread_label(place.thread as usize)),
                words::duration(place.total_ns),
                words::count(place.count),
                words::duration(place.longest_ns),
                instant(run, place.longest_at_ns),
                why(place).to_owned(),
            ]
        }));
        let sum = off_cpu.beyond;
        if sum.count > 0 {
            let mut row = vec![none(); 6];
            row[0] = "all".to_owned();
            row[1] = words::duration(sum.total_ns);
            row[2] = words::count(sum.count);
            rows.push(row);
            stacks.push("other stacks".to_owned());
        }
    }
    Table {
        name: "Off-CPU time by stack",
        heads: vec!["thread", "total", "times", "longest", "at", "why"],
        rows,
        below: Some(("kernel ‹‹ program", stacks)),
        asked: true,
        spare: &["at"],
    }
}

/// How long they waited for a CPU.
pub(super) fn run_queue(run: &Run, watch: &Watch) -> Table {
    let mut rows = Vec::new();
    let queue = watch.run_queue.as_ref();
    let several = queue.is_some_and(|queue| queue.threads.iter().any(|it| it.threads > 1));
    let mut heads = vec![
        "thread", "policy", "after", "times", "mean", "p50", "p99", "max", "at",
    ];
    if several {
        heads.insert(1, "threads");
    }
    for thread in queue.iter().flat_map(|queue| &queue.threads) {
        let both = [
            ("wake-up", &thread.woken),
            ("preemption", &thread.preempted),
        ];
        for (after, times) in both.into_iter().filter(|(_, it)| it.lengths.count > 0) {
            rows.push(times_of(run, thread, after, times, several));
        }
    }
    if let Some(beyond) = queue.map(|it| it.beyond).filter(|count| *count > 0) {
        let more = words::plural(beyond, "other thread", "other threads");
        let mut row = vec![none(); heads.len()];
        row[0] = more;
        rows.push(row);
    }
    Table {
        name: "Run-queue latency, in µs",
        heads,
        rows,
        below: None,
        asked: true,
        spare: &["at", "p50", "mean", "policy"],
    }
}

fn times_of(
    run: &Run,
    thread: &RunQueueThread,
    after: &str,
    times: &QueueTimes,
    several: bool,
) -> Vec<String> {
    // A record that was read holds sound histograms.
    let lengths = Histogram::try_from(&times.lengths).unwrap_or_default();
    // Ten beyond a percentile are the least that support it.
    let percentile = |quantile: f64, least: u64| {
        let ns = lengths
            .quantile(quantile)
            .filter(|_| lengths.count() >= least);
        ns.map_or_else(none, |ns| words::micros(ns as f64))
    };
    let task = &thread.task;
    let name = match task.tid {
        0 => task.name.clone(),
        tid => format!("{}/{tid}", task.name),
    };
    let mean = times.total_ns as f64 / lengths.count().max(1) as f64;
    let mut row = vec![
        words::label(&name),
        match task.priority {
            0 => words::clean(&task.policy),
            priority => format!("{} {priority}", words::clean(&task.policy)),
        },
        after.to_owned(),
        words::count(lengths.count()),
        words::micros(mean),
        percentile(0.5, 20),
        percentile(0.99, 1000),
        lengths
            .max()
            .map_or_else(none, |ns| words::micros(ns as f64)),
        instant(run, times.longest_at_ns),
    ];
    if several {
        row.insert(1, words::count(thread.threads));
    }
    row
}
