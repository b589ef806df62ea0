//! What these promise beyond their types.

use std::collections::BTreeSet;

use super::{OffCpu, OffCpuPlace, QueueTimes, RunQueue, RunQueueThread, TimesSum};
use crate::bounds::{Broken, Extent, at_most, ensure, histogram};

pub(in crate::watch) fn check(
    off_cpu: Option<&OffCpu>,
    run_queue: Option<&RunQueue>,
    threads: usize,
    extent: &Extent,
) -> Result<(), Broken> {
    if let Some(off_cpu) = off_cpu {
        self::off_cpu(off_cpu, threads, extent)?;
    }
    run_queue.map_or(Ok(()), |it| self::run_queue(it, extent))
}

fn off_cpu(off_cpu: &OffCpu, threads: usize, extent: &Extent) -> Result<(), Broken> {
    at_most(off_cpu.places.len(), OffCpu::MOST, "watch.off_cpu.places")?;
    extent.has_part(off_cpu.runs, "watch.off_cpu.runs")?;
    let mut seen = BTreeSet::new();
    let mut before = u64::MAX;
    for (index, place) in off_cpu.places.iter().enumerate() {
        let at = format!("watch.off_cpu.places[{index}]");
        self::place(place, &at, threads, extent)?;
        ensure(
            place.total_ns <= before,
            &at,
            "more time than the one before it",
        )?;
        before = place.total_ns;
        let key = (place.thread, place.why as u8, &place.kernel, &place.user);
        ensure(seen.insert(key), at, "the same place twice")?;
    }
    for (name, sum) in [("beyond", off_cpu.beyond), ("no_room", off_cpu.no_room)] {
        let TimesSum { count, total_ns } = sum;
        ensure(
            count > 0 || total_ns == 0,
            format!("watch.off_cpu.{name}.total_ns"),
            format!("{total_ns} ns of no times"),
        )?;
    }
    Ok(())
}

fn place(place: &OffCpuPlace, at: &str, threads: usize, extent: &Extent) -> Result<(), Broken> {
    at_most(place.kernel.len(), OffCpu::FRAMES, format!("{at}.kernel"))?;
    at_most(place.user.len(), OffCpu::FRAMES, format!("{at}.user"))?;
    ensure(
        (place.thread as usize) < threads,
        format!("{at}.thread"),
        format!("{} of {threads} threads", place.thread),
    )?;
    ensure(place.count > 0, format!("{at}.count"), "never there")?;
    let possible = OffCpuPlace::possible_total(place.count, place.longest_ns);
    ensure(
        possible.contains(&place.total_ns),
        format!("{at}.total_ns"),
        format!(
            "{}, where {} of at most {} sum to {} to {}",
            place.total_ns,
            place.count,
            place.longest_ns,
            possible.start(),
            possible.end()
        ),
    )?;
    extent.holds(place.longest_at_ns, &format!("{at}.longest_at_ns"))
}

fn run_queue(run_queue: &RunQueue, extent: &Extent) -> Result<(), Broken> {
    let count = run_queue.threads.len();
    at_most(count, RunQueue::MOST, "watch.run_queue.threads")?;
    extent.has_part(run_queue.runs, "watch.run_queue.runs")?;
    let mut before = u64::MAX;
    for (index, thread) in run_queue.threads.iter().enumerate() {
        let at = format!("watch.run_queue.threads[{index}]");
        queued(thread, &at)?;
        for (name, times) in [("woken", &thread.woken), ("preempted", &thread.preempted)] {
            queue_times(times, &format!("{at}.{name}"), extent)?;
        }
        let longest_ns = thread.longest_ns();
        ensure(
            longest_ns <= before,
            at,
            "a longer time than the one before it",
        )?;
        before = longest_ns;
    }
    Ok(())
}

fn queued(thread: &RunQueueThread, at: &str) -> Result<(), Broken> {
    ensure(thread.threads > 0, format!("{at}.threads"), "no thread")?;
    ensure(
        thread.threads == 1 || thread.task.tid == 0,
        format!("{at}.task.tid"),
        format!("the number of one of {} threads", thread.threads),
    )?;
    ensure(
        thread.woken.lengths.count > 0 || thread.preempted.lengths.count > 0,
        at,
        "never waited",
    )
}

fn queue_times(times: &QueueTimes, place: &str, extent: &Extent) -> Result<(), Broken> {
    let lengths = &times.lengths;
    histogram(lengths, &format!("{place}.lengths"))?;
    let possible = QueueTimes::possible_total(lengths);
    ensure(
        possible.contains(&times.total_ns),
        format!("{place}.total_ns"),
        format!(
            "{}, where the lengths sum to {} to {}",
            times.total_ns,
            possible.start(),
            possible.end()
        ),
    )?;
    if lengths.count == 0 {
        return Ok(());
    }
    extent.holds(times.longest_at_ns, &format!("{place}.longest_at_ns"))
}
