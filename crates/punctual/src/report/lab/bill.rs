//! Bills of the worst wake-ups: which functions of the kernel they were.

use super::super::style::{Style, Tone, wrap};
use super::super::table::{self, Cell};
use super::super::words::count;
use super::label;
use crate::record::lab::{Lab, LabBill, LabBillRow, LabCell};

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

/// The whole bill of each cell's worst wake-up.
#[must_use]
pub fn bills(lab: &Lab, style: &Style) -> String {
    let mut lines = Vec::new();
    for cell in &lab.cells {
        let Some(bill) = cell.bills.first() else {
            let why = cell.no_bill.as_deref().or(cell.error.as_deref());
            let why = why.unwrap_or("nobody watched");
            lines.push(format!("{}: no bill: {why}", label(cell)));
            continue;
        };
        let title = format!(
            "{}: {} instructions from the instant asked for to the wake-up",
            label(cell),
            count(bill.total_ns)
        );
        lines.push(style.paint(Tone::Bold, &title));
        let row = |function: &str, instructions: u64| {
            let row = LabBillRow {
                function: function.to_owned(),
                instructions,
            };
            vec![
                Cell::new(count(instructions)),
                Cell::new(share(&row, bill)),
                Cell::new(row.function),
            ]
        };
        let (shown, rest) = bill.rows.split_at(bill.rows.len().min(SHOWN));
        let mut rows: Vec<_> = shown
            .iter()
            .map(|shown| row(&shown.function, shown.instructions))
            .collect();
        if !rest.is_empty() {
            let sum = rest
                .iter()
                .fold(0_u64, |sum, row| sum.saturating_add(row.instructions));
            rows.push(row(&format!("({} others)", rest.len()), sum));
        }
        lines.extend(table::set(&rows, style.columns(), style));
        lines.push(String::new());
    }
    lines.join("\n") + "\n"
}

/// What is said of cells whose worst wake-up has no bill though one was wanted.
pub(super) fn without(lab: &Lab, style: &Style) -> Vec<String> {
    let missing = lab.cells.iter().filter_map(|cell| {
        let why = cell.no_bill.as_ref()?;
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
