//! The progress display of a lab, and the pictures of each of its runs.

use std::time::Instant;

use super::super::line::StatusLine;
use super::super::out;
use super::super::screen::save_pictures;
use super::status;
use crate::conduct::{Observed, Observer};

/// A progress line that is redrawn, and a line for each cell that is done.
pub struct LabScreen {
    line: StatusLine,
    prints_cells: bool,
}

impl LabScreen {
    /// `quiet`: no line is redrawn; `prints_cells`: a line is printed for each cell.
    pub fn new(quiet: bool, prints_cells: bool) -> Self {
        Self {
            line: StatusLine::new(quiet),
            prints_cells,
        }
    }
}

impl Observer for LabScreen {
    fn observe(&mut self, event: Observed<'_>) {
        match event {
            Observed::Cells(forecast) => self.line.draw(&status::line(forecast, Instant::now())),
            Observed::CellDone(cell, outcome, forecast) if self.prints_cells => {
                self.line.clear();
                out::print(&status::done_line(cell, outcome, forecast));
            }
            Observed::Saved(run, directory) => save_pictures(run, directory, true),
            _ => {}
        }
    }
}
