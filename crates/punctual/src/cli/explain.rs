//! `explain`: who stole the time of a recorded run.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use super::failure::Failure;
use super::flags::ExplainFlags;
use super::looking::{folder, read, write_in};
use super::out;
use crate::files::Folder;
use crate::record::explanation::{Explanation, Picture};
use crate::record::{self, Run};
use crate::report::chart::{Form, outlier};
use crate::report::explain::perfetto::{self, Outlier};
use crate::report::explain::{against_text, around, bill_section, intervals, section};
use crate::report::terms::Terms;
use crate::trace::attribute::{self, Ledger};
use crate::trace::windows::{WINDOWS_FILE, Windows};

/// `explain`: prints bills and ranking, or two runs by cause; writes traces and pictures.
///
/// # Errors
/// What can't be read or written, and runs that were not traced.
pub fn run(flags: &ExplainFlags) -> Result<ExitCode, Failure> {
    let run = explained(&flags.run, flags.again)?;
    let style = out::style();
    let number = flags
        .which
        .as_ref()
        .and_then(|which| which.to_str()?.parse::<usize>().ok());
    if let Some(number) = number {
        let bills = bills(&run);
        if number == 0 || number > bills {
            return Err(Failure::usage(format!(
                "{number}: {} holds bills 1 to {bills}",
                flags.run.display()
            )));
        }
    }
    let mut written = false;
    if let Some(directory) = &flags.perfetto {
        traces(&flags.run, &run, directory, number)?;
        written = true;
    }
    if let Some(directory) = &flags.svg {
        pictures(&run, directory, number)?;
        written = true;
    }
    let lines = match (&flags.which, number) {
        _ if flags.json => {
            let text = serde_json::to_string_pretty(&run.explanation);
            text.map_err(|error| Failure::setup(error.to_string()))?
                .lines()
                .map(str::to_owned)
                .collect()
        }
        (Some(_), Some(number)) => bill_section(&run, number, &style),
        (Some(other), None) => {
            let second = Path::new(other);
            if !second.exists() {
                return Err(Failure::setup(format!(
                    "{}: neither the number of a bill nor a run that is there",
                    second.display()
                )));
            }
            let second = explained(second, flags.again)?;
            against_text(&run, &second, &style)
        }
        (None, _) if written => Vec::new(),
        (None, _) => section(&run, &style, None),
    };
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    out::print(&text);
    Ok(ExitCode::SUCCESS)
}

fn bills(run: &Run) -> usize {
    run.explanation.as_ref().map_or(0, |e| e.bills.len())
}

/// A run in which somebody looked.
fn explained(path: &Path, again: bool) -> Result<Run, Failure> {
    let mut run = read(path)?;
    if again {
        run.explanation = Some(attribute_again(path, run.explanation.as_ref())?);
    }
    if run.explanation.is_none() {
        return Err(Failure::setup(format!(
            "{}: this run was not traced; measure as root without --no-explain, on a kernel that \
             punctual can trace",
            path.display()
        )));
    }
    Ok(run)
}

/// The bills made anew from the windows. The stages, which are of every wake-up, and what
/// was lost stay as recorded.
fn attribute_again(path: &Path, recorded: Option<&Explanation>) -> Result<Explanation, Failure> {
    let windows = open(path)?.ok_or_else(|| {
        Failure::setup(format!(
            "{}: holds no {WINDOWS_FILE}: bills can't be made again",
            path.display()
        ))
    })?;
    let mut ledger = Ledger::new(recorded.and_then(|recorded| recorded.above_ns));
    for window in windows {
        let window = window.map_err(Failure::setup)?;
        let (bill, gap) = (attribute::bill(&window), window.gap);
        if recorded.is_none() && !gap {
            ledger.add_stages(&bill.stages);
        }
        ledger.add(&bill);
    }
    let mut anew = ledger.to_record();
    if let Some(recorded) = recorded {
        anew.stages.clone_from(&recorded.stages);
        anew.missing.clone_from(&recorded.missing);
        anew.lost = recorded.lost;
        anew.outliers = anew.outliers.saturating_add(recorded.lost);
        // Windows are kept of some outliers alone.
        if anew.examined < recorded.examined {
            anew.missing.push(format!(
                "{} of {} wake-ups with a bill, of which no events were kept",
                recorded.examined - anew.examined,
                recorded.examined
            ));
        }
    }
    Ok(anew)
}

fn open(path: &Path) -> Result<Option<Windows>, Failure> {
    Windows::open(path).map_err(Failure::setup)
}

/// One trace for each bill: of all that was recorded where the events were kept, else of
/// the bill's picture.
fn traces(path: &Path, run: &Run, directory: &Path, only: Option<usize>) -> Result<(), Failure> {
    let mut whole: BTreeMap<(u32, u64), Picture> = BTreeMap::new();
    let wanted: Vec<(u32, u64)> = chosen(run, only)
        .map(|(_, bill)| (bill.cpu, bill.due_ns))
        .collect();
    if let Some(windows) = open(path)? {
        for window in windows {
            let window = window.map_err(Failure::setup)?;
            let key = (window.cpu, window.due_ns);
            if wanted.contains(&key) {
                whole.insert(key, attribute::picture(&window));
            }
        }
    }
    let (terms, marked) = (Terms::of(run), intervals(run));
    filled(directory, |folder| {
        for (number, bill) in chosen(run, only) {
            let picture = whole
                .get(&(bill.cpu, bill.due_ns))
                .or(bill.picture.as_ref());
            if let Some(picture) = picture {
                let near = around(&marked, bill, picture);
                let trace = perfetto::trace(picture, Outlier::of(bill, terms), &near);
                write_in(folder, &format!("outlier-{number}.pftrace"), &trace)?;
            }
        }
        let bills = run.explanation.as_ref().map_or(&[][..], |it| &it.bills);
        if only.is_none()
            && let Some(trace) = perfetto::marks_trace(&marked, bills, terms)
        {
            write_in(folder, "marks.pftrace", &trace)?;
        }
        Ok(())
    })
}

fn pictures(run: &Run, directory: &Path, only: Option<usize>) -> Result<(), Failure> {
    filled(directory, |folder| {
        for (number, bill) in chosen(run, only) {
            let heading = format!(
                "Bill {number} of {} on {}: CPU {}",
                run.verb, run.system.hostname, bill.cpu
            );
            let svg = outlier::draw(run, bill, &heading, Form::File, "outlier");
            if let Some(svg) = svg {
                write_in(folder, &format!("outlier-{number}.svg"), svg.as_bytes())?;
            }
        }
        Ok(())
    })
}

fn chosen(run: &Run, only: Option<usize>) -> impl Iterator<Item = (usize, &record::Bill)> {
    let bills = run.explanation.iter().flat_map(|e| &e.bills);
    let numbered = (1..).zip(bills);
    numbered.filter(move |(number, _)| only.is_none_or(|only| only == *number))
}

/// Makes a directory and fills it; one that stays empty is taken away again.
fn filled(
    directory: &Path,
    fill: impl FnOnce(&Folder) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let is_new = !directory.exists();
    let done = fill(&folder(directory)?);
    if done.is_err() && is_new {
        let _ = fs::remove_dir(directory);
    }
    done
}
