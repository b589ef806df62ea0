//! From stretches with a cause to the rows of a bill: what the hypervisor and system
//! management mode took is moved to them, and what is left is added up.

use std::collections::BTreeMap;

use super::event::{Event, What};
use punctual_record::explanation::{BillRow, Cause, Culprit, Explanation, Stage};

/// A stretch of time with its cause.
#[derive(Debug, Clone)]
pub(super) struct Amount {
    pub stage: Stage,
    pub cause: Cause,
    pub cpu: u32,
    pub from: u64,
    pub to: u64,
    /// What of it is not moved elsewhere.
    pub ns: u64,
    pub stack: Vec<String>,
    pub note: Option<String>,
    /// The thread that took it, where the cause is one.
    pub by: Option<Culprit>,
}

impl Amount {
    /// How much of it lies between two instants, if its own time does.
    pub(super) fn within(&self, from: u64, to: u64) -> u64 {
        let overlap = self.to.min(to).saturating_sub(self.from.max(from));
        overlap.min(self.ns)
    }

    /// Nothing but the absence of the processor is known of it.
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

/// Moves to the hypervisor what its account says it took. Where a reading spans more than
/// the wake-up, only what can't have been outside is taken from causes with a name.
pub(super) fn take_stolen(amounts: &mut Vec<Amount>, events: &[&Event]) {
    let readings = readings(events, |what| match what {
        What::Stolen { total_ns } => Some(*total_ns),
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
                note: None,
                by: None,
                ..amount.clone()
            });
        }
    }
    amounts.append(&mut moved);
}

/// Names what the platform took system management mode, where its count moved.
pub(super) fn name_smi(amounts: &mut [Amount], events: &[&Event]) {
    let readings = readings(events, |what| match what {
        What::SmiCount { total } => Some(*total),
        _ => None,
    });
    for (cpu, from, to, count) in steps(&readings) {
        let gaps = amounts
            .iter_mut()
            .filter(|amount| amount.cpu == cpu && amount.within(from, to) > 0)
            // They stop all CPUs at once, as a host does.
            .filter(|amount| {
                matches!(
                    amount.cause,
                    Cause::Platform | Cause::Unexplained | Cause::Host { .. }
                )
            });
        for amount in gaps {
            amount.cause = Cause::Smi;
            amount.note = Some(format!("the count of SMIs moved by {count}"));
        }
    }
}

fn readings(events: &[&Event], take: fn(&What) -> Option<u64>) -> Vec<Reading> {
    let mut readings: Vec<Reading> = events
        .iter()
        .filter_map(|event| Some((event.cpu, event.at_ns, take(&event.what)?)))
        .collect();
    readings.sort_unstable();
    readings
}

/// By how much a counter moved, from one reading to the next on the same CPU.
fn steps(readings: &[Reading]) -> impl Iterator<Item = (u32, u64, u64, u64)> + '_ {
    readings.windows(2).filter_map(|pair| {
        let ((cpu, from, before), (same, to, after)) = (pair[0], pair[1]);
        let moved = after.checked_sub(before)?;
        (cpu == same && from < to && moved > 0).then_some((cpu, from, to, moved))
    })
}

/// One row for each cause in each stage, the dearest of a stage first. What a record has no
/// room for stands together as [`Cause::Other`].
pub(super) fn rows(amounts: Vec<Amount>) -> Vec<BillRow> {
    // With each row how long the amount is that its note is of.
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
                    note: None,
                };
                (row, 0)
            });
        row.ns += amount.ns;
        if let Some(by) = amount.by {
            // What is left of it.
            let ns = amount.ns;
            match row.by.iter_mut().find(|known| known.tid == by.tid) {
                Some(known) => known.ns += ns,
                None => row.by.push(Culprit { ns, ..by }),
            }
        }
        if row.stack.is_empty() {
            row.stack = amount.stack;
        }
        // What is said of most of it: of several notes the first is that of a few microseconds, or not.
        if amount.note.is_some() && amount.ns > *noted_ns {
            (row.note, *noted_ns) = (amount.note, amount.ns);
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

/// The dearest rows, and one for the others of each stage.
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
                note: None,
            });
        }
    }
    rows
}
