//! Bills of the worst wake-ups: which functions of the kernel they were.

use super::super::style::{Style, Tone, wrap};
use super::super::table::{self, Cell};
use super::super::words::count;
use super::label;
use super::without::{no_bill, no_result};
use punctual_record::lab::{Lab, LabBill, LabBillRow, LabCell};

/// Functions shown of a whole bill; the rest is one row.
const SHOWN: usize = 12;

/// The function that takes most of a cell's worst wake-up, with its share: `do_sys_poll 46%`.
#[must_use]
pub(super) fn top(cell: &LabCell) -> Option<String> {
    let bill = cell.bills.first()?;
    let row = bill.rows.first()?;
    Some(format!("{} {}", row.function, share(row, bill)))
}

fn share(row: &LabBillRow, bill: &LabBill) -> String {
    let percent = row.instructions as f64 / bill.total_ns.max(1) as f64 * 100.0;
    format!("{percent:.0}%")
}

/// What a bill's rows sum to.
#[must_use]
pub(super) fn title(bill: &LabBill) -> String {
    let total = count(bill.total_ns);
    match bill.asked_ns {
        Some(_) => format!("{total} instructions from the requested instant to the wake-up"),
        None => format!("{total} instructions later than at its earliest"),
    }
}

/// A bill's functions with their instructions and shares; behind the first `most` all others
/// are one row.
#[must_use]
pub(super) fn rows(bill: &LabBill, most: usize) -> Vec<(String, u64, String)> {
    let (shown, rest) = bill.rows.split_at(bill.rows.len().min(most));
    let mut all = shown.to_vec();
    if !rest.is_empty() {
        all.push(LabBillRow {
            function: format!("({} others)", rest.len()),
            instructions: rest
                .iter()
                .fold(0_u64, |sum, row| sum.saturating_add(row.instructions)),
        });
    }
    all.into_iter()
        .map(|row| {
            let share = share(&row, bill);
            (row.function, row.instructions, share)
        })
        .collect()
}

/// The whole bill of each cell's worst wake-up.
#[must_use]
pub fn bills(lab: &Lab, style: &Style) -> String {
    let mut lines = Vec::new();
    for cell in &lab.cells {
        let Some(bill) = cell.bills.first() else {
            let why = cell.no_bill.as_ref().map(no_bill);
            let why = why.or_else(|| cell.error.as_ref().map(no_result));
            let program = cell.laboratory.as_ref();
            let program = program.is_some_and(|laboratory| laboratory.program.is_some());
            let why = why.unwrap_or_else(|| {
                let why = if program {
                    "it has no periodic loop of punctual-rt"
                } else {
                    "not traced"
                };
                why.to_owned()
            });
            lines.push(format!("{}: no bill: {why}", label(cell)));
            continue;
        };
        let title = format!("{}: {}", label(cell), title(bill));
        lines.push(style.paint(Tone::Bold, &title));
        let rows: Vec<_> = rows(bill, SHOWN)
            .into_iter()
            .map(|(function, instructions, share)| {
                vec![
                    Cell::new(count(instructions)),
                    Cell::new(share),
                    Cell::new(function),
                ]
            })
            .collect();
        lines.extend(table::set(&rows, style.columns(), style));
        lines.push(String::new());
    }
    lines.join("\n") + "\n"
}

/// What is said of cells whose worst wake-up has no bill though one was wanted.
pub(super) fn without(lab: &Lab, style: &Style) -> Vec<String> {
    let missing = lab.cells.iter().filter_map(|cell| {
        let why = cell.no_bill.as_ref().map(no_bill)?;
        Some(format!("{}: no function is named: {why}.", label(cell)))
    });
    missing
        .flat_map(|text| wrap(&text, style.columns().min(88)))
        .collect()
}

/// What the column of functions means.
pub(super) const WHAT_IT_IS: &str = "Beside each maximum stands the function in which most of \
     its instructions ran, counted one by one and without any effect on the guest: --explain \
     prints all of them.";

/// How a bill is made.
pub(super) const WHAT_IS_COUNTED: &str = "Each instruction between the requested instant and the \
     wake-up, counted by the function of the kernel in which it ran: no samples, no estimate, and \
     no effect on the guest. The rows sum to the latency.";
