//! Where a cause came in the way, and where it may go instead.

use super::accused::Accused;
use punctual_record::explanation::{BillRow, Cause};
use punctual_record::watch::WatchedTask;
use punctual_record::{Run, cpu_list, cpu_mask};

/// The CPUs of a run, for commands.
pub(super) struct Places {
    /// Where the cause came in the way.
    pub hit: String,
    /// The CPUs of the probes, but for one that must take the rest where all were probed.
    pub probed: String,
    /// These, and what is set apart already: what a boot parameter must name.
    pub apart: String,
    /// Where everything else may go.
    pub elsewhere: String,
    /// The same as the kernel's masks have it: groups of 32 bits in hexadecimal.
    pub mask: String,
    /// The real-time priority of the probes, or the lowest of the watched threads that were late; 0:
    /// none has one.
    pub own_priority: u32,
}

impl Places {
    pub fn find(run: &Run, cause: &Cause, accused: &Accused<'_>) -> Self {
        let online = &run.system.processor.online;
        let without = |cpus: &[usize]| -> Vec<usize> {
            let others = online.iter().copied();
            others.filter(|cpu| !cpus.contains(cpu)).collect()
        };
        let mut hit = hit_by(run, cause);
        let mut probed = run.request.cpus.clone();
        // What is set apart, and where other threads are measured, is not for what comes in the way.
        let processor = &run.system.processor;
        let apart = [&*processor.isolated, &processor.nohz_full].concat();
        let measured = measured_on(run);
        let free = without(&[&*probed, &hit, &apart, &measured].concat());
        let mut others = match free.is_empty() {
            true => without(&[&*probed, &hit].concat()),
            false => free,
        };
        if others.is_empty() {
            others = without(&hit);
            if others.is_empty() {
                // One of those that were hit must take what the others are spared.
                others = vec![online.first().copied().unwrap_or(0)];
                if online.len() > 1 {
                    hit = without(&others);
                }
            }
            if online.len() > 1 {
                probed = without(&others);
            }
        }
        let mut named = [&*probed, &apart].concat();
        named.sort_unstable();
        named.dedup();
        // Something must be left for the rest.
        if online.iter().all(|cpu| named.contains(cpu)) {
            named.clone_from(&probed);
        }
        Self {
            hit: cpu_list(&hit),
            apart: cpu_list(&named),
            probed: cpu_list(&probed),
            elsewhere: cpu_list(&others),
            mask: cpu_mask(&others),
            own_priority: own_priority(run, cause, accused),
        }
    }
}

/// Where the threads of a watch were seen: it watches what may run anywhere.
fn measured_on(run: &Run) -> Vec<usize> {
    match run.watch {
        Some(_) => run.threads.iter().filter_map(|thread| thread.cpu).collect(),
        None => Vec::new(),
    }
}

/// The CPUs whose bills have a cause; all that were probed where no bill is kept.
fn hit_by(run: &Run, cause: &Cause) -> Vec<usize> {
    let bills = run.explanation.iter().flat_map(|it| &it.bills);
    let wanted = cause.general();
    let has = |rows: &[BillRow]| rows.iter().any(|row| row.cause.general() == wanted);
    let mut hit: Vec<usize> = bills
        .filter(|bill| has(&bill.rows))
        .map(|bill| bill.cpu as usize)
        .filter(|cpu| run.system.processor.online.contains(cpu))
        .collect();
    hit.sort_unstable();
    hit.dedup();
    if hit.is_empty() {
        run.request.cpus.clone()
    } else {
        hit
    }
}

fn own_priority(run: &Run, cause: &Cause, accused: &Accused<'_>) -> u32 {
    let Some(watch) = &run.watch else {
        return run.request.priority;
    };
    let wanted = cause.general();
    let bills = run.explanation.iter().flat_map(|it| &it.bills);
    let due: Vec<u64> = bills
        .filter(|bill| bill.rows.iter().any(|row| row.cause.general() == wanted))
        .map(|bill| bill.due_ns)
        .collect();
    let was_late = |tid: u32| {
        let mut its = run
            .threads
            .iter()
            .filter(|thread| i64::from(thread.tid) == i64::from(tid));
        its.any(|thread| thread.peaks.iter().any(|peak| due.contains(&peak.asked_ns)))
    };
    let real_time = |task: &&WatchedTask| task.priority > 0;
    let tasks = watch.threads.iter().map(|thread| &thread.task);
    let others: Vec<&WatchedTask> = tasks.filter(|task| !accused.has(task.tid)).collect();
    let late = others.iter().copied().filter(|task| was_late(task.tid));
    // Without its peaks in the record any of them may have been the one.
    let lowest = |tasks: &mut dyn Iterator<Item = &WatchedTask>| {
        tasks.filter(real_time).map(|task| task.priority).min()
    };
    let of_late = lowest(&mut late.into_iter());
    of_late
        .or_else(|| lowest(&mut others.iter().copied()))
        .unwrap_or(0)
}
