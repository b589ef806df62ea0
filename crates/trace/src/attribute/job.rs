//! The bill of a job: who took how much of the time from its arrival to its end.

use super::event::Window;
use super::{Bill, BillRow, Cause, Stage, WindowView, path, plain_bill};
use punctual_record::explanation::{Culprit, Lane, Picture, Span};
use punctual_record::taskset::JobBill;

/// When a job arrived, was released, began and ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobInstants {
    /// Its arrival.
    pub arrival_ns: u64,
    /// Its release.
    pub released_ns: u64,
    /// When its thread ran.
    pub started_ns: u64,
    /// When it had done its work.
    pub ended_ns: u64,
    /// Whether its thread waited for it: else it was still at the job before.
    pub waited: bool,
    /// How much longer than the task's deadline its phase allows it.
    pub more_ns: u64,
}

/// The bill of a job, from the window of its release, if it did not begin at once, and that of its
/// execution. It is total: the rows sum to the time from the arrival to the end.
#[must_use]
pub fn job_bill(at: &JobInstants, release: Option<&Window>, execution: &Window) -> JobBill {
    let mut rows: Vec<BillRow> = Vec::new();
    let mut lost = execution.lost;
    let mut add = |bill: Bill| {
        for row in bill.rows {
            add_row(&mut rows, row);
        }
    };
    if let Some(window) = release {
        lost = lost.saturating_add(window.lost);
        let mut bill = plain_bill(window);
        for row in bill.rows.iter_mut().filter(|row| row.cause == Cause::Work) {
            // Of the job before.
            row.cause = Cause::Probe;
        }
        add(bill);
    }
    add(plain_bill(execution));
    let billed: u64 = rows.iter().map(|row| row.ns).sum();
    let response_ns = at.ended_ns.saturating_sub(at.arrival_ns);
    let before_ns = at
        .released_ns
        .saturating_sub(at.arrival_ns)
        .min(response_ns);
    if before_ns > 0 {
        add_row(&mut rows, row_of(Cause::NotReleased, before_ns));
    }
    // A job that was released while the one before it ran was never woken: it began at once.
    let rest_ns = response_ns.saturating_sub(billed.saturating_add(before_ns));
    if rest_ns > 0 {
        add_row(&mut rows, row_of(Cause::Probe, rest_ns));
    }
    rows.sort_by(|a, b| b.ns.cmp(&a.ns).then_with(|| a.cause.cmp(&b.cause)));
    JobBill {
        arrival_ns: at.arrival_ns,
        released_ns: at.released_ns,
        started_ns: at.started_ns,
        ended_ns: at.ended_ns,
        more_ns: at.more_ns,
        lost,
        rows,
        picture: None,
    }
}

/// What ran when, from a little before the arrival of a job to a little after its end. `around` holds
/// the events of all CPUs that are drawn, from its `due_ns`, the arrival, to its `woken_ns`, the end;
/// the windows of the bill say what was taken from below the kernel, and which locks were waited for.
#[must_use]
pub fn job_picture(around: &Window, release: Option<&Window>, execution: &Window) -> Picture {
    let seen = WindowView::from_window(around);
    let execution = WindowView::from_window(execution);
    let mut amounts = execution.amounts();
    if let Some(release) = release {
        amounts.extend(WindowView::from_window(release).amounts());
    }
    let waits = path::lock_waits(execution.window, &execution.path);
    // What the job waited for has its place before what else ran.
    let kept = waits.len().min(Picture::SPANS / 2);
    let mut picture = seen.job_picture(&amounts, Picture::SPANS - kept);
    let since = |at_ns: u64| {
        let difference = i128::from(at_ns) - i128::from(around.due_ns);
        difference.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    };
    picture.left_out += (waits.len() - kept) as u64;
    for (from_ns, to_ns, label) in waits.into_iter().take(kept) {
        picture.spans.push(Span {
            lane: Lane::Probe,
            cpu: execution.window.cpu,
            from_ns: since(from_ns),
            to_ns: since(to_ns),
            label,
            in_the_way: true,
        });
    }
    picture.spans.sort_by_key(|span| (span.from_ns, span.cpu));
    picture
}

fn row_of(cause: Cause, ns: u64) -> BillRow {
    BillRow {
        stage: Stage::User,
        cause,
        ns,
        stack: Vec::new(),
        by: Vec::new(),
        notes: Vec::new(),
    }
}

/// A job has no stages: one row for each cause.
fn add_row(rows: &mut Vec<BillRow>, row: BillRow) {
    let Some(known) = rows.iter_mut().find(|known| known.cause == row.cause) else {
        rows.push(BillRow {
            stage: Stage::User,
            ..row
        });
        return;
    };
    known.ns = known.ns.saturating_add(row.ns);
    for thread in row.by {
        if known.by.len() < Culprit::MOST && !known.by.contains(&thread) {
            known.by.push(thread);
        }
    }
    if known.stack.is_empty() {
        known.stack = row.stack;
    }
}
