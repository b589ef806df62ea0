//! Instructions per operation: kernels and their boot parameters side by side.

use super::super::html::parts::{Html, Td, td};
use super::super::style::{Style, Tone};
use super::super::table::{self, Cell};
use super::super::words::{count, plural, share as shown};
use super::without::no_result;
use super::{effort, names, paragraph, short};
use punctual_record::lab::{Lab, LabCell, LabCost, LabOperation, Operation};

/// What a figure of an operation is.
const WHAT_IT_COUNTS: &str = "Each figure is the median of several batches, divided by the operations of a \
     batch: all that the guest executed from one reading of its clock to the other, the kernel's tick, its \
     interrupts and its threads included. It is the length of a path. What caches, branch prediction, memory \
     and other processors make of it, no count of instructions shows: a ratio here is none of times, and that \
     of mitigations=off less than any.";

/// Operations in which the scheduler decides whether the side that is woken preempts the other.
const DECIDED: [Operation; 4] = [
    Operation::Futex,
    Operation::Pipe,
    Operation::Udp,
    Operation::Tcp,
];
const WHO_DECIDES: &str = "Of two threads or processes of the ordinary policy, the scheduler decides whether \
     the one that is woken preempts the other, mostly the same way for many batches, and the order decides \
     the path. At one real-time priority (-fifo) neither preempts the other.";

/// What a figure of a program is.
const WHAT_A_RUN_IS: &str = "run: all that the guest executed from the start of the program until its end was \
     known, whatever it was for: if the program waits, the wait counts. processor: the part, to a microsecond, in which the \
     program's processes ran, or the kernel for them. Start and end of the program are in both.";

/// What an operation is, in words.
fn what(operation: Operation) -> &'static str {
    match operation {
        Operation::User => "500 passes of a loop in user space",
        Operation::Call => "getppid, a system call that does almost nothing",
        Operation::Read => "4 KiB read from a file in memory",
        Operation::Write => "4 KiB written to a file in memory",
        Operation::Fault => "first write to a page of anonymous memory",
        Operation::Mmap => "a page mapped, written to and unmapped",
        Operation::File => "a file in memory created and removed",
        Operation::Signal => "a signal to the process itself, with its handler",
        Operation::Yield => "sched_yield to another thread, and its to this one",
        Operation::Futex => "a futex between two threads, there and back",
        Operation::FutexFifo => "the same, both at one real-time priority",
        Operation::Pipe => "a byte through a pipe to another process and back",
        Operation::PipeFifo => "the same, both at one real-time priority",
        Operation::Udp => "a byte over UDP to another process and back",
        Operation::Tcp => "a byte over TCP to another process and back",
        Operation::TcpFifo => "the same, both at one real-time priority",
        Operation::Sleep => "a real-time thread sleeps until a timer wakes it",
        Operation::Fork => "a process forked, ended and waited for",
        Operation::Exec => "a program started, ended and waited for",
        Operation::Run => "from the start of the program to its end",
        Operation::Processor => "executed for the program",
    }
}

/// A fraction to so many decimals, half rounded up: no floating point is between the record and a digit.
fn fraction(of: u128, by: u128, decimals: usize) -> String {
    let (scale, by) = (10_u128.pow(decimals as u32), by.max(1));
    let scaled = (of * scale + by / 2) / by;
    let whole = count(u64::try_from(scaled / scale).unwrap_or(u64::MAX));
    match decimals {
        0 => whole,
        _ => format!("{whole}.{:0decimals$}", scaled % scale),
    }
}

/// Instructions per operation: those below 1,000 with a decimal.
fn figure(of: &LabOperation) -> Option<String> {
    let (median, made) = (u128::from(of.median()?), u128::from(of.count));
    let decimals = usize::from(median < 1_000 * made && made > 1);
    Some(fraction(median, made, decimals))
}

/// The ratio of two figures.
fn ratio(of: &LabOperation, base: &LabOperation) -> Option<String> {
    let wide = |it: &LabOperation| Some((u128::from(it.median()?), u128::from(it.count)));
    let ((of, made), (base, base_made)) = (wide(of)?, wide(base)?);
    // Medians are times of less than years, and counts of less than 10^12.
    let product = |one: u128, other: u128| one.checked_mul(other).filter(|it| *it < 1 << 100);
    Some(fraction(product(of, base_made)?, product(base, made)?, 3))
}

/// The operations of a lab, and the cell of each column.
struct Table<'a> {
    rows: Vec<Operation>,
    columns: Vec<&'a LabCell>,
}

impl<'a> Table<'a> {
    fn of(lab: &'a Lab) -> Self {
        let mut rows = Vec::new();
        let costs = lab.cells.iter().filter_map(|cell| cell.cost.as_ref());
        for operation in costs.flat_map(|cost| &cost.operations) {
            if !rows.contains(&operation.operation) {
                rows.push(operation.operation);
            }
        }
        let kernels = names(&lab.cells, |cell| &cell.kernel).into_iter();
        let first = |kernel| lab.cells.iter().find(|cell| cell.kernel == kernel);
        Self {
            rows,
            columns: kernels.filter_map(first).collect(),
        }
    }

    fn at(&self, column: usize, row: Operation) -> Option<&'a LabOperation> {
        let cost = self.columns.get(column)?.cost.as_ref()?;
        cost.operations.iter().find(|it| it.operation == row)
    }

    fn figure(&self, column: usize, row: Operation) -> Option<String> {
        figure(self.at(column, row)?)
    }

    /// The ratio to the first column.
    fn ratio(&self, column: usize, row: Operation) -> Option<String> {
        ratio(self.at(column, row)?, self.at(0, row)?)
    }

    /// A column of the terminal's table: the head, and a place for each operation.
    fn column(&self, head: &[String], of: impl Fn(Operation) -> Option<String>) -> Vec<Cell> {
        let head = head.iter().map(|line| Cell::toned(line, Tone::Bold));
        let places = self.rows.iter().map(|row| match of(*row) {
            Some(text) => Cell::new(text),
            None => Cell::toned("-", Tone::Void),
        });
        head.chain(places).collect()
    }

    /// The heads of the columns, all with as many lines: the kernel, and each word in one or two.
    fn heads(&self) -> Vec<Vec<String>> {
        let all = self.columns.iter().map(|cell| head(&cell.kernel));
        let mut all: Vec<Vec<String>> = all.collect();
        let lines = all.iter().map(Vec::len).max().unwrap_or(0);
        for head in &mut all {
            head.resize(lines, String::new());
        }
        all
    }

    /// The names of the operations, below the heads.
    fn names(&self, lines: usize) -> Vec<Cell> {
        let mut head = vec![String::new(); lines];
        if let Some(last) = head.last_mut() {
            "operation".clone_into(last);
        }
        self.column(&head, |row| Some(row.name().to_owned()))
    }
}

/// A column's name in lines: a value below its parameter.
fn head(name: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for (at, word) in name.split_whitespace().enumerate() {
        match word.split_once('=') {
            _ if at == 0 => lines.push(short(word)),
            Some((name, value)) => lines.extend([format!("{name}="), value.to_owned()]),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Sets columns beside each other, in several tables if they are too wide together.
fn set(first: &[Cell], columns: &[Vec<Cell>], style: &Style) -> Vec<String> {
    let rows = |from: usize, to: usize| -> Vec<Vec<Cell>> {
        let row = |(at, name): (usize, &Cell)| {
            let cells = columns[from..to].iter().filter_map(|column| column.get(at));
            std::iter::once(name).chain(cells).cloned().collect()
        };
        first.iter().enumerate().map(row).collect()
    };
    let (mut lines, mut from) = (Vec::new(), 0);
    while from < columns.len() {
        let fits = |to: &usize| table::width(&rows(from, *to), 1) <= style.columns();
        let to = (from + 2..=columns.len())
            .take_while(fits)
            .last()
            .unwrap_or(from + 1);
        if from > 0 {
            lines.push(String::new());
        }
        let set = table::set(&rows(from, to), style.columns(), style);
        // Heads have lines of different numbers.
        lines.extend(set.iter().map(|line| line.trim_end().to_owned()));
        from = to;
    }
    lines
}

/// The release of each kernel, with the words that stand in the name of none of its columns.
fn kernels(table: &Table<'_>, style: &Style) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for cell in &table.columns {
        let Some(laboratory) = &cell.laboratory else {
            continue;
        };
        let own: Vec<&str> = cell.kernel.split_whitespace().collect();
        let words = laboratory.parameters.iter().map(String::as_str);
        let words = words.filter(|word| !own.contains(word));
        let all: Vec<&str> = std::iter::once(&*laboratory.release).chain(words).collect();
        let line = format!(
            "{}: {}",
            style.paint(Tone::Bold, &short(&laboratory.kernel)),
            style.paint(Tone::Plain, &all.join(" "))
        );
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// The largest of all spreads, where there are several batches.
fn spread(table: &Table<'_>) -> Option<String> {
    let mut widest: Option<(f64, String)> = None;
    for (at, cell) in table.columns.iter().enumerate() {
        for row in &table.rows {
            let Some(found) = table.at(at, *row).filter(|it| it.batches.len() > 3) else {
                continue;
            };
            let share = found.spread() as f64 / found.median()?.max(1) as f64;
            if widest.as_ref().is_none_or(|(widest, _)| share > *widest) {
                widest = Some((share, format!("{}, {}", short(&cell.kernel), row.name())));
            }
        }
    }
    let (widest, place) = widest?;
    Some(format!(
        "Half of the batches of each figure differ from it by at most {} ({place}).",
        shown(widest)
    ))
}

/// What there is to say of single columns.
fn notes(table: &Table<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    for cell in &table.columns {
        let name = &cell.kernel;
        if let Some(why) = &cell.error {
            notes.push(format!("{name}: no result: {}.", no_result(why)));
        }
        let Some(LabCost { unknown, left, .. }) = &cell.cost else {
            continue;
        };
        if !unknown.is_empty() {
            notes.push(format!(
                "{name}: this kernel doesn't know {}: it changed nothing.",
                unknown.join(" ")
            ));
        }
        if *left > 0 {
            let left = plural(*left, "process", "processes");
            notes.push(format!(
                "{name}: the program left {left} running, until punctual ended that too: processor counts it."
            ));
        }
    }
    notes
}

/// The texts below a table.
fn texts(lab: &Lab, table: &Table<'_>) -> Vec<String> {
    let mut texts = notes(table);
    let has = |of: &[Operation]| of.iter().any(|it| table.rows.contains(it));
    let what = match has(&[Operation::Run]) {
        true => WHAT_A_RUN_IS,
        false => WHAT_IT_COUNTS,
    };
    texts.push(what.to_owned());
    texts.extend(has(&DECIDED).then(|| WHO_DECIDES.to_owned()));
    let spread = spread(table).map_or_else(String::new, |spread| spread + " ");
    texts.push(spread + &effort(lab));
    texts
}

/// Whether it was counted what operations cost.
pub(super) fn is_counted(lab: &Lab) -> bool {
    lab.cells.iter().any(|cell| cell.cost.is_some())
}

/// The table of a lab in which operations were counted, with what it means.
#[must_use]
pub(super) fn costs(lab: &Lab, style: &Style) -> String {
    let table = Table::of(lab);
    let mut lines = kernels(&table, style);
    let heads = table.heads();
    let first = table.names(heads.first().map_or(0, Vec::len));
    let figure = |at: usize| table.column(&heads[at], |row| table.figure(at, row));
    let ratio = |head: &[String], at: usize| table.column(head, |row| table.ratio(at, row));
    let mut columns: Vec<Vec<Cell>> = (0..heads.len()).map(figure).collect();
    let title = |lines: &mut Vec<String>, text: &str| {
        lines.extend([String::new(), style.paint(Tone::Bold, text)]);
    };
    if let [first, _] = &heads[..] {
        let mut head = vec![String::new(); first.len()];
        if let Some(last) = head.last_mut() {
            "ratio".clone_into(last);
        }
        columns.push(ratio(&head, 1));
    }
    title(&mut lines, "Instructions per operation");
    lines.extend(set(&first, &columns, style));
    if heads.len() > 2 {
        let base = table.columns.first().map_or("", |cell| &cell.kernel);
        title(&mut lines, &format!("Ratio to {base}"));
        let ratios = (1..heads.len()).map(|at| ratio(&heads[at], at));
        lines.extend(set(&first, &ratios.collect::<Vec<_>>(), style));
    }
    lines.push(String::new());
    for text in texts(lab, &table) {
        paragraph(&mut lines, &text, style);
    }
    if let Some(place) = &style.report {
        lines.push(format!("Report: {}", style.paint(Tone::Plain, place)));
    }
    lines.join("\n") + "\n"
}

/// Two labs beside each other, a table for each column that is in both; `None` if none is. Labs with one
/// column each are compared whatever their names.
#[must_use]
pub fn cost_comparison(first: &Lab, second: &Lab, style: &Style) -> Option<String> {
    let (a, b) = (Table::of(first), Table::of(second));
    let is_only = a.columns.len() == 1 && b.columns.len() == 1;
    let mut lines = Vec::new();
    for one in a.columns.iter().filter(|cell| cell.cost.is_some()) {
        let architecture = |it: &LabCell| it.laboratory.as_ref().map(|it| it.architecture);
        // An instruction of one processor is none of another.
        let same = |it: &&&LabCell| {
            let is_pair = it.cost.is_some() && (is_only || it.kernel == one.kernel);
            is_pair && architecture(it) == architecture(one)
        };
        let Some(other) = b.columns.iter().find(same) else {
            continue;
        };
        let mut both = Table {
            rows: a.rows.clone(),
            columns: vec![one, other],
        };
        let counted = |row: &Operation| (0..2).all(|at| both.at(at, *row).is_some());
        let rows = a.rows.iter().copied().filter(counted).collect();
        both.rows = rows;
        let head = |text: &str| vec![text.to_owned()];
        let columns = [
            both.column(&head("A"), |row| both.figure(0, row)),
            both.column(&head("B"), |row| both.figure(1, row)),
            both.column(&head("B/A"), |row| both.ratio(1, row)),
        ];
        let title = match one.kernel == other.kernel {
            true => one.kernel.clone(),
            false => format!("{} | {}", one.kernel, other.kernel),
        };
        lines.push(style.paint(Tone::Bold, &title));
        lines.extend(set(&both.names(1), &columns, style));
        lines.push(String::new());
    }
    if lines.is_empty() {
        return None;
    }
    for text in texts(first, &a) {
        paragraph(&mut lines, &text, style);
    }
    Some(lines.join("\n") + "\n")
}

/// The section of a page.
pub(super) fn section(html: &mut Html, lab: &Lab) {
    let table = Table::of(lab);
    html.heading("table", "Instructions per operation");
    html.text("p", "note", "× is the ratio to the first column.");
    let head: Vec<&str> = ["", "Operation"]
        .into_iter()
        .chain(table.columns.iter().map(|cell| &*cell.kernel))
        .collect();
    let row = |row: &Operation| {
        let figures = (0..table.columns.len()).map(|at| {
            let figure = table.figure(at, *row).unwrap_or_else(|| "–".to_owned());
            match table.ratio(at, *row).filter(|_| at > 0) {
                Some(ratio) => td(format!("{figure} × {ratio}")),
                None => td(figure),
            }
        });
        let cells: Vec<Td> = [td(row.name()), td(what(*row))]
            .into_iter()
            .chain(figures)
            .collect();
        ("", cells)
    };
    let rows: Vec<(&str, Vec<Td>)> = table.rows.iter().map(row).collect();
    html.table("figures tight", "Instructions per operation", &head, &rows);
    for text in texts(lab, &table) {
        html.text("p", "note", &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(count: u64, batches: &[u64]) -> LabOperation {
        LabOperation {
            operation: Operation::Pipe,
            count,
            batches: batches.to_vec(),
            faults: 0,
            switches: 0,
        }
    }

    #[test]
    fn fractions_are_rounded_from_whole_numbers() {
        assert_eq!(fraction(3, 2, 0), "2");
        assert_eq!(fraction(149, 100, 1), "1.5");
        assert_eq!(fraction(10_449, 10_000, 1), "1.0");
        assert_eq!(fraction(1, 1_000, 3), "0.001");
        assert_eq!(fraction(4_999, 10_000_000, 3), "0.000");
        assert_eq!(fraction(1_234_567, 1, 0), "1,234,567");
        assert_eq!(fraction(1, 0, 1), "1.0");
    }

    #[test]
    fn a_figure_is_that_of_one_operation_and_a_ratio_that_of_two() {
        assert_eq!(figure(&operation(1_000, &[645_449])).unwrap(), "645.4");
        assert_eq!(figure(&operation(100, &[100_050])).unwrap(), "1,001");
        // Of one operation there is no part.
        assert_eq!(figure(&operation(1, &[645])).unwrap(), "645");
        assert_eq!(figure(&operation(5, &[])), None);
        let of = |count, instructions| operation(count, &[instructions]);
        // 13,751.5 by 10,000.
        assert_eq!(ratio(&of(2, 27_503), &of(1, 10_000)).unwrap(), "1.375");
        // Digits that a division of floating point would not have.
        let (most, less) = (of(1, u64::MAX), of(1, u64::MAX - 1));
        assert_eq!(ratio(&most, &less), Some("1.000".to_owned()));
        assert_eq!(ratio(&of(u64::MAX, u64::MAX), &of(u64::MAX, 1)), None);
    }
}
