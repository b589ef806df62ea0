//! The display during a run.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use super::flags::RunFlags;
use super::keys::Keys;
use super::out;
use super::textfile::TextFile;
use super::tune::left_as_it_is;
use crate::conduct::{Observed, Observer};
use punctual_record::experiment::Experiment;
use punctual_record::live::{LiveTasks, LiveView, LiveWatch};
use punctual_record::{Run, RunDirectory, State, Unsaved};
use punctual_report::explain::perfetto;
use punctual_report::live::TaskOrder;
use punctual_report::style::{Style, cut};
use punctual_report::{experiment, facts, live};
use punctual_report::{gnuplot, html, svg};
use punctual_trace::attribute;

/// Everything recorded before a late wake-up ended the run, for ui.perfetto.dev.
const RING_FILE: &str = "breach.pftrace";

/// How often a plain line is written.
const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// How often a plain line of an experiment is written, which takes many minutes.
const PLAIN_OF_EXPERIMENT_EVERY: Duration = Duration::from_secs(30);

/// How the run is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Not at all.
    Silent,
    /// A block that is redrawn; `usize` lines are on the screen.
    Redraw(usize),
    /// cyclictest's lines, redrawn on a terminal.
    Cyclictest(usize),
    /// A line every few seconds.
    Plain,
}

/// The display, and the pictures that are written during the run.
pub struct Screen {
    manner: Manner,
    style: Style,
    verbose: bool,
    nanoseconds: bool,
    /// Settings that were changed for the run were not all restored.
    pub has_left_changed: bool,
    next_line: Instant,
    /// The experiment as it was saved last.
    experiment: Option<Experiment>,
    /// The metrics that are written beside it.
    textfile: Option<TextFile>,
    /// The order of tasks, and the keys that change it.
    order: TaskOrder,
    keys: Option<Keys>,
}

impl Screen {
    /// A display as the flags request.
    #[must_use]
    pub fn new(silent: bool, live: bool, verbose: bool, nanoseconds: bool) -> Self {
        let terminal = io::stdout().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        let manner = match (silent, live, terminal) {
            (true, ..) => Manner::Silent,
            (_, true, _) => Manner::Cyclictest(0),
            (_, _, true) => Manner::Redraw(0),
            _ => Manner::Plain,
        };
        Self {
            manner,
            style: out::style(),
            verbose,
            nanoseconds,
            has_left_changed: false,
            next_line: Instant::now() + PLAIN_EVERY,
            experiment: None,
            textfile: None,
            order: TaskOrder::default(),
            keys: None,
        }
    }

    /// A display for a run with these flags.
    #[must_use]
    pub fn of_run(flags: &RunFlags) -> Self {
        let silent = flags.quiet || flags.json;
        Self::new(silent, flags.live, flags.verbose, flags.nanoseconds)
    }

    /// Writes metrics too.
    #[must_use]
    pub fn with_textfile(mut self, textfile: Option<TextFile>) -> Self {
        self.textfile = textfile;
        self
    }

    /// Whether the metrics could not be written at last.
    #[must_use]
    pub fn lacks_metrics(&self) -> bool {
        self.textfile.as_ref().is_some_and(TextFile::has_failed)
    }

    /// The line of an experiment.
    fn tick_of_experiment(&mut self, experiment: &Experiment, elapsed_ns: u64) {
        let line = experiment::progress(experiment, elapsed_ns);
        match &mut self.manner {
            Manner::Silent => {}
            Manner::Redraw(standing) => {
                self.style = out::style();
                let line = cut(&line, self.style.columns());
                out::print(&redraw(*standing, &[line]));
                *standing = 1;
            }
            Manner::Plain | Manner::Cyclictest(_) => {
                if Instant::now() >= self.next_line {
                    self.next_line = Instant::now() + PLAIN_OF_EXPERIMENT_EVERY;
                    out::print(&(line + "\n"));
                }
            }
        }
    }

    /// Reads keys from now on, where the display is redrawn.
    #[must_use]
    pub fn with_keys(mut self) -> Self {
        if matches!(self.manner, Manner::Redraw(_)) {
            self.keys = Keys::begin();
        }
        self
    }

    /// Clears the live display.
    pub fn clear(&mut self) {
        if let Manner::Redraw(lines) = &mut self.manner {
            out::print(&redraw(*lines, &[]));
            *lines = 0;
        }
    }

    fn tick(&mut self, view: &LiveView) {
        if let Some(experiment) = self.experiment.take() {
            self.tick_of_experiment(&experiment, view.elapsed_ns);
            self.experiment = Some(experiment);
            return;
        }
        let view = &LiveView {
            nanoseconds: self.nanoseconds,
            ..view.clone()
        };
        match &mut self.manner {
            Manner::Silent => {}
            Manner::Redraw(standing) => {
                self.style = out::style();
                let lines = live::status_lines(view, &self.style);
                out::print(&redraw(*standing, &lines));
                *standing = lines.len();
            }
            Manner::Cyclictest(standing) => {
                let lines = live::cyclictest_lines(view);
                if io::stdout().is_terminal() {
                    out::print(&redraw(*standing, &lines));
                    *standing = lines.len();
                } else if Instant::now() >= self.next_line {
                    self.next_line = Instant::now() + PLAIN_EVERY;
                    out::print(&(lines.join("\n") + "\n"));
                }
            }
            Manner::Plain => {
                if Instant::now() >= self.next_line {
                    self.next_line = Instant::now() + PLAIN_EVERY;
                    out::print(&(live::plain_line(view) + "\n"));
                }
            }
        }
    }

    fn watched(&mut self, view: &LiveWatch) {
        match &mut self.manner {
            Manner::Silent => {}
            Manner::Redraw(standing) => {
                self.style = out::style();
                let lines = live::watch_lines(view, &self.style);
                out::print(&redraw(*standing, &lines));
                *standing = lines.len();
            }
            Manner::Plain | Manner::Cyclictest(_) => {
                if Instant::now() >= self.next_line {
                    self.next_line = Instant::now() + PLAIN_EVERY;
                    out::print(&(live::watch_plain_line(view) + "\n"));
                }
            }
        }
    }

    fn tasks(&mut self, view: &LiveTasks) {
        let keys = self.keys.as_ref().map(Keys::pressed).unwrap_or_default();
        let last = keys.into_iter().rev().find_map(TaskOrder::of_key);
        self.order = last.unwrap_or(self.order);
        match &mut self.manner {
            Manner::Silent => {}
            Manner::Redraw(standing) => {
                self.style = out::style();
                let keys = self.keys.is_some();
                let lines = live::tasks_lines(view, self.order, keys, &self.style);
                out::print(&redraw(*standing, &lines));
                *standing = lines.len();
            }
            Manner::Plain | Manner::Cyclictest(_) => {
                if Instant::now() >= self.next_line {
                    self.next_line = Instant::now() + PLAIN_EVERY;
                    out::print(&(live::tasks_plain_line(view) + "\n"));
                }
            }
        }
    }
}

/// Writes the pictures of a run beside it, or all of them. The directory keeps any error.
pub(super) fn save_pictures(run: &Run, directory: &RunDirectory, all: bool) {
    let mut files = gnuplot::files(run);
    if all {
        files.push(("report.html", html::page(run)));
        files.extend(svg::files(run));
    }
    for (name, text) in files {
        let _ = directory.save_file(name, text.as_bytes());
    }
}

/// Moves up over the lines on the screen, and writes others in their place.
fn redraw(standing: usize, lines: &[String]) -> String {
    let mut text = String::new();
    if standing > 0 {
        // Typed text, such as the ^C that ends a run, has moved the cursor.
        text.push_str(&format!("\r\x1b[{standing}A"));
    }
    // Each line is cleared when it is written, to avoid flicker.
    for line in lines {
        text.push_str(line);
        text.push_str("\x1b[K\n");
    }
    text.push_str("\x1b[J");
    text
}

impl Observer for Screen {
    fn looks(&self) -> bool {
        match self.manner {
            Manner::Silent => false,
            Manner::Plain => Instant::now() >= self.next_line,
            Manner::Redraw(_) | Manner::Cyclictest(_) => true,
        }
    }

    fn observe(&mut self, event: Observed<'_>) {
        match event {
            Observed::Tick(view) => self.tick(view),
            Observed::Watched(view) => self.watched(view),
            Observed::Tasks(view) => self.tasks(view),
            Observed::Experiment(experiment) => self.experiment = Some(experiment.clone()),
            Observed::Saved(run, directory) => {
                self.experiment.clone_from(&run.experiment);
                save_pictures(run, directory, run.state != State::Unfinished);
            }
            Observed::Breached(ring, run, directory) => {
                let picture = attribute::picture(ring);
                let trace = perfetto::ring(ring.due_ns, ring.woken_ns, &picture, run);
                // The directory keeps any error.
                let _ = directory.save_file(RING_FILE, &trace);
            }
            Observed::MakeRoom(directory) => {
                for name in [gnuplot::HISTOGRAM, gnuplot::TIMELINE, gnuplot::SCRIPT] {
                    directory.remove(name);
                }
            }
            Observed::NotChanged(change, error) => {
                out::complain(&format!("--tuned: {}", left_as_it_is(change, error)));
            }
            Observed::NotRestored(error) => {
                self.clear();
                self.has_left_changed = true;
                out::complain(&format!(
                    "not every setting is restored: {error}; punctual tune status shows them"
                ));
            }
            Observed::Step(step) if self.verbose => {
                self.clear();
                out::complain(&live::step(step));
            }
            _ => {}
        }
    }

    fn publish(&mut self, run: &Run) -> Option<Unsaved> {
        let unsaved = self.textfile.as_mut()?.publish(run)?;
        self.clear();
        let unsaved_line = facts::unsaved(&unsaved);
        out::complain(&format!("--textfile: {unsaved_line}; it is tried again"));
        Some(unsaved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_drawn_over_the_one_before() {
        assert_eq!(redraw(0, &["a".to_owned()]), "a\x1b[K\n\x1b[J");
        assert_eq!(redraw(2, &["b".to_owned()]), "\r\x1b[2Ab\x1b[K\n\x1b[J");
    }
}
