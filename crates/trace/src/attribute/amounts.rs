//! Turns stretches with a cause into the rows of a bill: time that the hypervisor and system
//! management mode took is moved to them, and the rest is summed.

use std::collections::BTreeMap;

use super::event::{Event, Kind};
use punctual_record::explanation::{BillRow, Cause, Culprit, Explanation, RowNote, Stage};

/// A stretch of time with its cause.
#[derive(Debug, Clone)]
pub(super) struct Amount {
    pub stage: Stage,
    pub cause: Cause,
    pub cpu: u32,
    pub from: u64,
    pub to: u64,
    /// How much of it is not moved to another cause.
    pub ns: u64,
    pub stack: Vec<String>,
    pub notes: Vec<RowNote>,
    /// The thread that used it, if the cause is a thread.
    pub by: Option<Culprit>,
}

impl Amount {
    /// How much of it lies between two instants, if the stretch's own time does.
    pub(super) fn within(&self, from: u64, to: u64) -> u64 {
        let overlap = self.to.min(to).saturating_sub(self.from.max(from));
        overlap.min(self.ns)
    }

    /// All that is known of it is that the CPU did not run.
    fn is_gap(&self) -> bool {
        matches!(
            self.cause,
            Cause::Platform
                | Cause::Unexplained
                | Cause::IdleExit { .. }
                | Cause::LateInterrupt { .. }
        )
    }
}

/// A counter that was read on a CPU.
type Reading = (u32, u64, u64);

/// Moves to the hypervisor the time that its account says it took. Where two readings span more
/// than the wake-up, a named cause gives up only the time that was certainly stolen within it.
pub(super) fn take_stolen(amounts: &mut Vec<Amount>, events: &[&Event]) {
    let readings = readings(events, |what| match what {
        Kind::Stolen { total_ns } => Some(*total_ns),
        _ => None,
    });
    let mut moved = Vec::new();
    for (cpu, from, to, stolen) in steps(&readings) {
        let mut inside: Vec<_> = amounts
            .iter_mut()
            .filter(|amount| amount.cpu == cpu && amount.within(from, to) > 0)
            .filter(|amount| !matches!(amount.cause, Cause::Blind | Cause::Steal))
            .collect();
        let length: u64 = inside.iter().map(|amount| amount.within(from, to)).sum();
        let outside = (to - from).saturating_sub(length);
        let stolen = stolen.min(to - from);
        let mut possible = stolen.min(length);
        let mut sure = stolen.saturating_sub(outside).min(length);
        inside.sort_by_key(|amount| {
            let within = amount.within(from, to);
            (!amount.is_gap(), std::cmp::Reverse(within), amount.from)
        });
        for amount in inside {
            let most = if amount.is_gap() { possible } else { sure };
            let taken = amount.within(from, to).min(most);
            if taken == 0 {
                continue;
            }
            possible -= taken;
            sure = sure.saturating_sub(taken);
            amount.ns -= taken;
            moved.push(Amount {
                cause: Cause::Steal,
                ns: taken,
                stack: Vec::new(),
                notes: Vec::new(),
                by: None,
                ..amount.clone()
            });
        }
    }
    amounts.append(&mut moved);
}

/// Readings of the SMI count that are further apart don't say which gap was one.
const CLOSE_NS: u64 = 1_000_000_000;

/// Turns the platform's time into system management mode where the SMI count rose.
pub(super) fn name_smi(amounts: &mut [Amount], events: &[&Event]) {
    let readings = readings(events, |what| match what {
        Kind::SmiCount { total } => Some(*total),
        _ => None,
    });
    for (cpu, from, to, count) in steps(&readings) {
        let gaps = amounts
            .iter_mut()
            .filter(|amount| amount.cpu == cpu && amount.within(from, to) > 0)
            // An SMI stops all CPUs at once, as a host does.
            .filter(|amount| {
                matches!(
                    amount.cause,
                    Cause::Platform | Cause::Unexplained | Cause::Host { .. }
                )
            });
        let is_close = to - from <= CLOSE_NS;
        for amount in gaps {
            if is_close {
                amount.cause = Cause::Smi;
                amount.notes.clear();
            }
            let within_ns = (!is_close).then_some(to - from);
            amount.notes.push(RowNote::SmiCount { count, within_ns });
        }
    }
}

fn readings(events: &[&Event], take: fn(&Kind) -> Option<u64>) -> Vec<Reading> {
    let mut readings: Vec<Reading> = events
        .iter()
        .filter_map(|event| Some((event.cpu, event.at_ns, take(&event.kind)?)))
        .collect();
    readings.sort_unstable();
    readings
}

/// The increase of a counter between consecutive readings on the same CPU.
fn steps(readings: &[Reading]) -> impl Iterator<Item = (u32, u64, u64, u64)> + '_ {
    readings.windows(2).filter_map(|pair| {
        let ((cpu, from, before), (same, to, after)) = (pair[0], pair[1]);
        let moved = after.checked_sub(before)?;
        (cpu == same && from < to && moved > 0).then_some((cpu, from, to, moved))
    })
}

/// One row for each cause in each stage, the largest of a stage first. Rows that exceed the
/// limit of a record are summed as [`Cause::Other`].
pub(super) fn rows(amounts: Vec<Amount>) -> Vec<BillRow> {
    // Each row, with the length of the amount that its notes belong to.
    let mut rows: BTreeMap<(Stage, Cause), (BillRow, u64)> = BTreeMap::new();
    for amount in amounts.into_iter().filter(|amount| amount.ns > 0) {
        let (row, noted_ns) = rows
            .entry((amount.stage, amount.cause.clone()))
            .or_insert_with(|| {
                let row = BillRow {
                    stage: amount.stage,
                    cause: amount.cause,
                    ns: 0,
                    stack: Vec::new(),
                    by: Vec::new(),
                    notes: Vec::new(),
                };
                (row, 0)
            });
        row.ns += amount.ns;
        if let Some(by) = amount.by {
            // The part that was not moved.
            let ns = amount.ns;
            match row.by.iter_mut().find(|known| known.tid == by.tid) {
                Some(known) => known.ns += ns,
                None => row.by.push(Culprit { ns, ..by }),
            }
        }
        if row.stack.is_empty() {
            row.stack = amount.stack;
        }
        // The notes of the largest amount: otherwise they might be those of a few microseconds.
        if !amount.notes.is_empty() && amount.ns > *noted_ns {
            (row.notes, *noted_ns) = (amount.notes, amount.ns);
        }
    }
    let mut rows: Vec<BillRow> = rows.into_values().map(|(row, _)| row).collect();
    for row in &mut rows {
        row.by.sort_by_key(|by| (std::cmp::Reverse(by.ns), by.tid));
        row.by.truncate(Culprit::MOST);
    }
    if rows.len() > Explanation::ROWS {
        rows = with_others(rows);
    }
    rows.sort_by(|a, b| {
        (a.stage, std::cmp::Reverse(a.ns), &a.cause).cmp(&(
            b.stage,
            std::cmp::Reverse(b.ns),
            &b.cause,
        ))
    });
    rows
}

/// The largest rows, and one for the others of each stage.
fn with_others(mut rows: Vec<BillRow>) -> Vec<BillRow> {
    rows.sort_by(|a, b| b.ns.cmp(&a.ns).then(a.cause.cmp(&b.cause)));
    let rest = rows.split_off(Explanation::ROWS - Stage::ALL.len());
    for stage in Stage::ALL {
        let of_stage = rest.iter().filter(|row| row.stage == stage);
        let ns: u64 = of_stage.map(|row| row.ns).sum();
        if ns > 0 {
            rows.push(BillRow {
                stage,
                cause: Cause::Other,
                ns,
                stack: Vec::new(),
                by: Vec::new(),
                notes: Vec::new(),
            });
        }
    }
    rows
}
