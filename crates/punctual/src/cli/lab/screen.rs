//! What a person sees while a lab goes, and what is drawn from each of its runs.

use std::time::Instant;

use super::super::out;
use super::status::{self, StatusLine};
use crate::conduct::lab::{Cell, Forecast, LabProgress};
use punctual_lab::{LabError, Made};
use punctual_record::{Run, RunDirectory};
use punctual_report::{gnuplot, html, svg};

/// A line that is redrawn, and one that stays for each cell that is done.
pub struct LabScreen {
    line: StatusLine,
    tells: bool,
}

impl LabScreen {
    /// `quiet`: no line is redrawn; `tells`: a line stays for each cell.
    pub fn new(quiet: bool, tells: bool) -> Self {
        Self {
            line: StatusLine::new(quiet),
            tells,
        }
    }
}

impl LabProgress for LabScreen {
    fn tick(&mut self, forecast: &Forecast) {
        self.line.draw(&status::line(forecast, Instant::now()));
    }

    fn done(&mut self, cell: &Cell<'_>, outcome: &Result<Made, LabError>, forecast: &Forecast) {
        if self.tells {
            self.line.clear();
            out::print(&status::done_line(cell, outcome, forecast));
        }
    }

    fn saved(&mut self, run: &Run, directory: &RunDirectory) {
        let mut files = gnuplot::files(run);
        files.extend(svg::files(run));
        files.push(("report.html", html::page(run)));
        for (name, text) in files {
            // What becomes of it is noted in the directory.
            let _ = directory.save_file(name, text.as_bytes());
        }
    }
}
