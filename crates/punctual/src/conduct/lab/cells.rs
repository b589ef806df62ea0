//! Runs cells in parallel on the host, and saves each.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::super::observer::{Observed, Observer};
use super::cost::counted;
use super::queue::Queue;
use super::{Bench, Forecast, Making, Watched, round};
use punctual_lab::bound::Bounding;
use punctual_lab::cell::Work;
use punctual_lab::machine::tail;
use punctual_lab::observer::Observer as GuestObserver;
use punctual_lab::{CellPlan, CellResult};
use punctual_record::lab::{
    CellFigures, LabCell, LabChain, LabTask, LabVariant, NoBound, NoResult,
};
use punctual_record::laboratory::GuestTime;
use punctual_record::{Judgement, RunDirectory, Unsaved};

/// The result of a program that prints its figures.
pub const STDOUT: &str = "stdout";

/// A cell with its place in the table and on the disk.
#[derive(Debug)]
pub struct Cell<'a> {
    /// Its plan.
    pub plan: CellPlan<'a>,
    /// Its column in the table.
    pub column: String,
    /// Its load's name.
    pub load: String,
    /// Its command, if its machine has several.
    pub variant: Option<LabVariant>,
    /// The file that a program leaves its figures in.
    pub result: Option<String>,
    /// Its directory, from that of the lab.
    pub directory: String,
}

impl Cell<'_> {
    /// What it does, whatever the kernel.
    fn work(&self) -> String {
        let name = self.variant.as_ref().map_or("", |it| &it.name);
        format!("{} {name}", self.load)
    }
}

/// The outcome of a cell; `None` if a signal came before.
pub type Outcome = Option<Result<CellResult, NoResult>>;

/// A name that is valid for a folder.
fn plain(text: &str) -> String {
    let keep = |c: char| {
        if c.is_ascii_alphanumeric() || "._+=-".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = text.chars().map(keep).take(60).collect();
    let name = name.trim_start_matches(['.', '-']);
    if name.is_empty() { "x" } else { name }.to_owned()
}

/// A folder's name for each column of the table, all of them different.
pub fn folders<'a>(columns: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for column in columns {
        let base = plain(column.rsplit('/').next().unwrap_or_default());
        let mut name = base.clone();
        for number in 2.. {
            if taken.insert(name.clone()) {
                break;
            }
            name = format!("{base}-{number}");
        }
        names.push(name);
    }
    names
}

/// The folder of one cell.
pub fn folder(kernel: &str, load: &str, seed: u64, seeds: u64) -> String {
    let load = plain(load);
    if seeds == 1 {
        format!("{kernel}/{load}")
    } else {
        format!("{kernel}/{load}-{seed}")
    }
}

/// How often the progress is reported.
const TICK: Duration = Duration::from_secs(1);

/// What is reported.
pub enum News<'a, 'b> {
    /// A cell is done.
    Done(&'a Cell<'b>, &'a Result<CellResult, NoResult>),
    /// A second went by.
    Tick,
}

/// What the threads report that run cells.
enum Step {
    Begun(usize),
    Done(usize, Box<Result<CellResult, NoResult>>),
}

/// Runs all cells, some in parallel, and reports each that is done and each second that passes.
pub fn run_all(
    cells: &[Cell<'_>],
    bench: &Bench,
    making: &Making<'_>,
    ends: &(dyn Fn() -> bool + Sync),
    told: &mut dyn FnMut(News<'_, '_>, &Forecast),
) -> Vec<Outcome> {
    let (observer, bounding) = (GuestObserver::default(), Bounding::default());
    let make = |cell: &Cell<'_>| {
        let (plan, ends) = (&cell.plan, &|| ends());
        let mut made = match making.watched {
            Watched::Bills if GuestObserver::suits(plan) => observer.watch(plan, bench.own(), ends),
            Watched::Windows if Bounding::suits(plan) => {
                plan.make(bench.own(), Some(&bounding), ends)
            }
            _ => plan.make(bench.own(), None, ends),
        }?;
        if making.watched == Watched::Windows && made.bound.is_none() {
            made.no_bound.get_or_insert(NoBound::NoProbe);
        }
        read_result(cell, &mut made, making)?;
        if let Some(counting) = making.counting {
            made.cost = Some(counted(&made, counting)?);
        }
        Ok(made)
    };
    let make = &make;
    let works: Vec<String> = cells.iter().map(Cell::work).collect();
    let queue = Mutex::new(Queue::new(works.iter().map(String::as_str)));
    let mut outcomes: Vec<Outcome> = cells.iter().map(|_| None).collect();
    let (tell, done) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..making.jobs.max(1) {
            let (tell, queue, works) = (tell.clone(), &queue, &works);
            let waiting = || queue.lock().unwrap_or_else(PoisonError::into_inner);
            scope.spawn(move || {
                loop {
                    let Some(index) = waiting().next() else {
                        return;
                    };
                    if ends() || tell.send(Step::Begun(index)).is_err() {
                        return;
                    }
                    let begin = Instant::now();
                    let outcome = make(&cells[index]);
                    waiting().done(&works[index], begin.elapsed());
                    if tell.send(Step::Done(index, Box::new(outcome))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        let mut forecast = Forecast::new(cells.len(), making.jobs);
        loop {
            match done.recv_timeout(TICK) {
                Ok(Step::Begun(index)) => {
                    forecast.begun(index, Instant::now());
                    told(News::Tick, &forecast);
                }
                Ok(Step::Done(index, outcome)) => {
                    forecast.done(index, Instant::now());
                    told(News::Done(&cells[index], &outcome), &forecast);
                    outcomes[index] = Some(*outcome);
                }
                Err(RecvTimeoutError::Timeout) => told(News::Tick, &forecast),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    });
    outcomes
}

/// Saves what a cell left, as a normal run directory, and returns what could not be saved.
pub fn keep(
    lab: &RunDirectory,
    cell: &Cell<'_>,
    outcome: &Result<CellResult, NoResult>,
    progress: &mut dyn Observer,
) -> Vec<Unsaved> {
    let Ok(made) = outcome else {
        return Vec::new();
    };
    let folder = match lab.within(Path::new(&cell.directory)) {
        Ok(folder) => folder,
        Err(error) => return vec![Unsaved::from(&error)],
    };
    // The directory keeps any error.
    if let (Work::Own(_), Some(run)) = (&cell.plan.work, &made.run) {
        let _ = folder.save(run);
        progress.observe(Observed::Saved(run, &folder));
    } else {
        for (name, bytes) in [("stdout", &made.stdout), ("stderr", &made.stderr)] {
            let _ = folder.save_file(name, bytes);
        }
    }
    let mut unsaved = Vec::new();
    for (name, bytes) in &made.files {
        let path = Path::new(name);
        let within = path.parent().filter(|it| !it.as_os_str().is_empty());
        let (Some(within), Some(file)) = (within, path.file_name().and_then(OsStr::to_str)) else {
            let _ = folder.save_file(name, bytes);
            continue;
        };
        match folder.within(within) {
            Ok(within) => {
                let _ = within.save_file(file, bytes);
                unsaved.extend(within.unsaved());
            }
            Err(error) => unsaved.push(Unsaved::from(&error)),
        }
    }
    unsaved.extend(folder.unsaved());
    unsaved
}

/// A cell's figures, if they are latencies of wake-ups.
#[must_use]
pub fn figures(made: &CellResult) -> Option<CellFigures> {
    let run = made.run.as_ref().filter(|run| run.tasks.is_none())?;
    (made.laboratory.time == GuestTime::Virtual).then(|| CellFigures::from_run(run))?
}

/// Parses the file that a program left as the record of its run.
fn read_result(
    cell: &Cell<'_>,
    made: &mut CellResult,
    making: &Making<'_>,
) -> Result<(), NoResult> {
    let Some(name) = &cell.result else {
        return Ok(());
    };
    let bytes = if name == STDOUT {
        Some(&made.stdout)
    } else {
        made.files.get(name)
    };
    let Some(bytes) = bytes else {
        return Err(NoResult::Inside {
            status: made.status,
            output: tail(&String::from_utf8_lossy(&made.stderr)),
        });
    };
    let run = (making.read)(Path::new(name), bytes);
    made.run = Some(run.map_err(|error| NoResult::Unreadable {
        error: error.to_string(),
    })?);
    Ok(())
}

/// A cell as the lab's record keeps it.
pub fn entry(cell: &Cell<'_>, outcome: &Outcome) -> LabCell {
    let made = outcome.as_ref().and_then(|outcome| outcome.as_ref().ok());
    let error = match outcome {
        None => Some(NoResult::NotRun),
        Some(Err(why)) => Some(why.clone()),
        Some(Ok(_)) => None,
    };
    let is_virtual = |made: &&CellResult| made.laboratory.time == GuestTime::Virtual;
    let executed = made.filter(is_virtual).and_then(|made| made.run.as_ref());
    LabCell {
        kernel: cell.column.clone(),
        load: cell.load.clone(),
        seed: cell.plan.seed,
        variant: cell.variant.clone(),
        loads: made.map_or_else(Vec::new, |made| made.loads.clone()),
        directory: cell.directory.clone(),
        host_s: made.map_or(0.0, |made| round(made.took.as_secs_f64())),
        status: made.map(|made| made.status),
        error,
        figures: made.and_then(figures),
        tasks: executed.map_or_else(Vec::new, LabTask::all),
        chains: executed.map_or_else(Vec::new, LabChain::all),
        verdict: made
            .and_then(|made| made.run.as_ref())
            .and_then(Judgement::from_run),
        bills: made.map_or_else(Vec::new, |made| made.bills.clone()),
        no_bill: made.and_then(|made| made.no_bill.clone()),
        bound: made.and_then(|made| made.bound.clone()),
        no_bound: made.and_then(|made| made.no_bound.clone()),
        cost: made.and_then(|made| made.cost.clone()),
        laboratory: made.map(|made| made.laboratory.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_have_plain_names_of_their_own() {
        let columns = ["rt", "../a/bz Image", "b/bz-Image", "..", "/"];
        assert_eq!(
            folders(columns.into_iter()),
            ["rt", "bz-Image", "bz-Image-2", "x", "x-2"]
        );
        assert_eq!(folder("rt", "files+net", 1, 1), "rt/files+net");
        assert_eq!(folder("rt", "mmap:bytes=1M", 3, 4), "rt/mmap-bytes=1M-3");
    }
}
