//! Tables in plain text: as wide as their content, right-aligned, narrowed in
//! steps where a line would be too long.

use super::style::{Style, Tone};

/// A cell with its tone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// What stands there.
    pub text: String,
    /// How.
    pub tone: Tone,
}

impl Cell {
    /// A plain cell.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tone: Tone::Plain,
        }
    }

    /// A cell in a tone.
    #[must_use]
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self {
            text: text.into(),
            tone,
        }
    }
}

/// Widths of the columns.
fn widths(rows: &[Vec<Cell>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    (0..columns)
        .map(|i| {
            rows.iter()
                .filter_map(|row| row.get(i))
                .map(|cell| cell.text.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect()
}

/// The width of a table with gaps of `gap` between its columns.
#[must_use]
pub fn width(rows: &[Vec<Cell>], gap: usize) -> usize {
    let widths = widths(rows);
    widths.iter().sum::<usize>() + gap * widths.len().saturating_sub(1)
}

/// Sets a table, right-aligned, with two spaces between columns where they fit
/// into `room`, one where they don't.
#[must_use]
pub fn set(rows: &[Vec<Cell>], room: usize, style: &Style) -> Vec<String> {
    let widths = widths(rows);
    let gap = if width(rows, 2) <= room { 2 } else { 1 };
    rows.iter()
        .map(|row| {
            let mut line = String::new();
            for (i, cell) in row.iter().enumerate() {
                let pad = widths[i] - cell.text.chars().count();
                let gap = if i == 0 { 0 } else { gap };
                line.push_str(&" ".repeat(gap + pad));
                line.push_str(&style.paint(cell.tone, &cell.text));
            }
            line
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_their_ends() {
        let rows = [["CPU", "max"], ["0", "1,234"]].map(|r| r.map(Cell::new).to_vec());
        assert_eq!(
            set(&rows, 80, &Style::plain()),
            ["CPU    max", "  0  1,234"]
        );
        assert_eq!(set(&rows, 9, &Style::plain()), ["CPU   max", "  0 1,234"]);
        assert_eq!(width(&rows, 2), 10);
    }
}
