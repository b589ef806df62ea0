//! The progress display of a lab, and the pictures of each of its runs.

use std::time::Instant;

use super::super::out;
use super::status::{self, StatusLine};
use crate::conduct::lab::{Cell, Forecast, LabProgress};
use punctual_lab::CellResult;
use punctual_record::lab::NoResult;
use punctual_record::{Run, RunDirectory};
use punctual_report::{gnuplot, html, svg};

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

impl LabProgress for LabScreen {
    fn tick(&mut self, forecast: &Forecast) {
        self.line.draw(&status::line(forecast, Instant::now()));
    }

    fn done(
        &mut self,
        cell: &Cell<'_>,
        outcome: &Result<CellResult, NoResult>,
        forecast: &Forecast,
    ) {
        if self.prints_cells {
            self.line.clear();
            out::print(&status::done_line(cell, outcome, forecast));
        }
    }

    fn saved(&mut self, run: &Run, directory: &RunDirectory) {
        let mut files = gnuplot::files(run);
        files.extend(svg::files(run));
        files.push(("report.html", html::page(run)));
        for (name, text) in files {
            // The directory keeps any error.
            let _ = directory.save_file(name, text.as_bytes());
        }
    }
}
