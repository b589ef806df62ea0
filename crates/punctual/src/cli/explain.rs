//! `explain`: what delayed the late wake-ups of a recorded run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use super::failure::Failure;
use super::flags::ExplainFlags;
use super::foreign::{self, Recorded};
use super::looking::{folder, read, write_in};
use super::out;
use punctual_record::explanation::{Explanation, NotSeen, Picture};
use punctual_record::files::Folder;
use punctual_record::taskset::JobBill;
use punctual_record::{RecordError, Run};
use punctual_report::chart::{Form, gantt, outlier};
use punctual_report::explain::perfetto::{self, Outlier};
use punctual_report::explain::{
    Listed, against_text, around, bill_section, intervals, outliers, section,
};
use punctual_report::style::Style;
use punctual_report::terms::Terms;
use punctual_trace::attribute::event::Window;
use punctual_trace::attribute::{self, Ledger};
use punctual_trace::windows::{OutlierHeader, WINDOWS_FILE, Windows};

/// `explain`: prints bills and ranking, or two runs by cause; writes traces and pictures.
///
/// # Errors
/// What cannot be read or written, and runs that were not traced.
pub fn run(flags: &ExplainFlags) -> Result<ExitCode, Failure> {
    let run = explained(&flags.run, flags)?;
    let style = out::style();
    let number = flags
        .which
        .as_ref()
        .and_then(|which| which.to_str()?.parse::<usize>().ok());
    let mut run = run;
    if let Some(number) = number {
        let bills = bills(&run);
        if number == 0 || number > bills && !open_further(flags, &mut run, number)? {
            let all = bills + further(flags, &run)?.len();
            return Err(Failure::usage(format!(
                "{number}: {} holds bills 1 to {all}",
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
            let bills = run.explanation.as_ref().map_or(&[][..], |it| &it.bills);
            // With a number it is that bill alone.
            let text = match number.and_then(|number| bills.get(number - 1)) {
                Some(bill) => serde_json::to_string_pretty(bill),
                None => serde_json::to_string_pretty(&run.explanation),
            };
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
                    "{}: expected the number of a bill, or an existing run",
                    second.display()
                )));
            }
            let second = explained(second, flags)?;
            against_text(&run, &second, &style)
        }
        (None, _) if flags.list => list(flags, &run, &style)?,
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

/// What identifies a wake-up, also among threads that are due at the same instant: CPU, instant,
/// latency.
type Key = (u32, u64, u64);

fn key(bill: &punctual_record::Bill) -> Key {
    (bill.cpu, bill.due_ns, bill.latency_ns)
}

fn key_of(window: &Window) -> Key {
    let latency_ns = window.woken_ns.saturating_sub(window.due_ns);
    (window.cpu, window.due_ns, latency_ns)
}

/// The outliers that are kept beside those with a bill in the record, in the order of their
/// numbers.
fn further(flags: &ExplainFlags, run: &Run) -> Result<Vec<OutlierHeader>, Failure> {
    let mut heads = match others(flags)? {
        None => return Ok(Vec::new()),
        Some(Others::Kept(windows)) => windows.heads().map_err(Failure::setup)?,
        Some(Others::Recorded(recorded)) => recorded.heads(),
    };
    let bills = run.explanation.iter().flat_map(|it| &it.bills);
    let known: BTreeSet<Key> = bills.map(key).collect();
    heads.retain(|head| !known.contains(&(head.cpu, head.due_ns, head.latency_ns())));
    Ok(heads)
}

/// Makes the bill of this number again from its window and puts it in its place among the run's.
/// The places between stay empty. Returns whether there is such a bill.
fn open_further(flags: &ExplainFlags, run: &mut Run, number: usize) -> Result<bool, Failure> {
    let heads = further(flags, run)?;
    let Some(explanation) = &mut run.explanation else {
        return Ok(false);
    };
    let Some(wanted) = heads.get(number - 1 - explanation.bills.len()) else {
        return Ok(false);
    };
    for window in others(flags)?.into_iter().flatten() {
        let window = window?;
        let its = (wanted.cpu, wanted.due_ns, wanted.latency_ns());
        if key_of(&window) == its {
            let bill = attribute::bill(&window);
            // Those between are not shown.
            let blank = punctual_record::Bill {
                rows: Vec::new(),
                picture: None,
                ..bill.clone()
            };
            explanation.bills.resize(number - 1, blank);
            explanation.bills.push(bill);
            return Ok(true);
        }
    }
    Ok(false)
}

/// The outliers beside those with a bill in the record.
enum Others {
    /// In the run directory.
    Kept(Windows),
    /// In another tool's recording.
    Recorded(Box<Recorded>),
}

impl Iterator for Others {
    type Item = Result<Window, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Kept(windows) => Some(windows.next()?.map_err(Failure::setup)),
            Self::Recorded(recorded) => recorded.next().map(Ok),
        }
    }
}

fn others(flags: &ExplainFlags) -> Result<Option<Others>, Failure> {
    if let Some(recorded) = Recorded::open(&flags.run, &flags.threads())? {
        return Ok(Some(Others::Recorded(Box::new(recorded))));
    }
    let kept = open_outliers(&flags.run).map_err(Failure::setup)?;
    Ok(kept.map(Others::Kept))
}

/// All outliers that can be opened, a line each.
fn list(flags: &ExplainFlags, run: &Run, style: &Style) -> Result<Vec<String>, Failure> {
    let bills = run.explanation.iter().flat_map(|it| &it.bills);
    let mut all: Vec<Listed> = bills.map(Listed::of).collect();
    let recorded = all.len();
    let known: BTreeSet<Key> = all
        .iter()
        .map(|it| (it.cpu, it.due_ns, it.latency_ns))
        .collect();
    for window in others(flags)?.into_iter().flatten() {
        let bill = attribute::plain_bill(&window?);
        if !known.contains(&key(&bill)) {
            all.push(Listed::of(&bill));
        }
    }
    all[recorded..].sort_by_key(|it| (Reverse(it.latency_ns), it.due_ns, it.cpu));
    Ok(outliers(run, &all, style))
}

/// A run that was traced.
fn explained(path: &Path, flags: &ExplainFlags) -> Result<Run, Failure> {
    let threads = flags.threads();
    if let Some(run) = foreign::run_of(path, &threads)? {
        return Ok(run);
    }
    let mut run = read(path)?;
    if !threads.is_empty() {
        return Err(Failure::usage(format!(
            "--tid and --comm: expected another tool's recording, {} is a run",
            path.display()
        )));
    }
    if flags.again {
        run.explanation = Some(attribute_again(path, run.explanation.as_ref())?);
    }
    if run.explanation.is_none() && run.path.is_some() {
        return Err(Failure::setup(format!(
            "{0}: a run of messages has no bills of wake-ups; `punctual report {0} -v` shows who \
             delayed the messages",
            path.display()
        )));
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

/// Makes the bills again from the windows. The stages, which count every wake-up, and the lost
/// events stay as recorded.
fn attribute_again(path: &Path, recorded: Option<&Explanation>) -> Result<Explanation, Failure> {
    let worst = open(path).map_err(Failure::setup)?.ok_or_else(|| {
        Failure::setup(format!(
            "{}: has no {WINDOWS_FILE}: the bills cannot be made again",
            path.display()
        ))
    })?;
    let others = open_outliers(path).map_err(Failure::setup)?;
    let windows = worst.chain(others.into_iter().flatten());
    let mut ledger = Ledger::new(recorded.and_then(|recorded| recorded.above_ns));
    for window in windows {
        let window = window.map_err(Failure::setup)?;
        let (mut bill, gap) = (attribute::bill(&window), window.gap);
        let mut earlier = recorded.iter().flat_map(|recorded| &recorded.bills);
        if let Some(earlier) = earlier.find(|it| key(it) == key(&bill)) {
            bill.learn_threads(earlier);
        }
        if recorded.is_none() && !gap {
            ledger.add_stages(&bill.stages);
        }
        ledger.add(&bill);
    }
    let mut anew = ledger.to_record();
    if let Some(recorded) = recorded {
        anew.stages.clone_from(&recorded.stages);
        anew.missing.clone_from(&recorded.missing);
        anew.kept = recorded.kept;
        anew.limits.clone_from(&recorded.limits);
        anew.lost = recorded.lost;
        anew.outliers = anew.outliers.saturating_add(recorded.lost);
        // Windows are kept only for some outliers.
        if anew.examined < recorded.examined {
            anew.missing.push(NotSeen::NotKept {
                wake_ups: recorded.examined - anew.examined,
                of: recorded.examined,
            });
        }
    }
    Ok(anew)
}

fn open(path: &Path) -> Result<Option<Windows>, RecordError> {
    beside(path, Windows::open)
}

fn open_outliers(path: &Path) -> Result<Option<Windows>, RecordError> {
    beside(path, Windows::open_outliers)
}

/// What lies beside a record. Files beside another tool's recording belong to another run.
fn beside(
    path: &Path,
    open: fn(&Path) -> Result<Option<Windows>, RecordError>,
) -> Result<Option<Windows>, RecordError> {
    if foreign::is_one(path) {
        return Ok(None);
    }
    open(path)
}

/// Writes one trace for each bill: of all recorded events if they were kept, else of the bill's
/// picture.
fn traces(path: &Path, run: &Run, directory: &Path, only: Option<usize>) -> Result<(), Failure> {
    let mut whole: BTreeMap<Key, Picture> = BTreeMap::new();
    let wanted: Vec<Key> = chosen(run, only).map(|(_, bill)| key(bill)).collect();
    if let Some(windows) = open(path).map_err(Failure::setup)? {
        let others = open_outliers(path).map_err(Failure::setup)?;
        let others = others.filter(|_| only.is_some()).into_iter().flatten();
        for window in windows.chain(others) {
            let window = window.map_err(Failure::setup)?;
            let key = key_of(&window);
            if wanted.contains(&key) {
                whole.insert(key, attribute::picture(&window));
            }
        }
    }
    let (terms, marked) = (Terms::for_run(run), intervals(run));
    filled(directory, |folder| {
        for (number, bill) in chosen(run, only) {
            let picture = whole.get(&key(bill)).or(bill.picture.as_ref());
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
        for (number, bill, picture) in jobs(run).filter(|_| only.is_none()) {
            let job = Outlier {
                due_ns: bill.arrival_ns,
                latency_ns: bill.taken_ns(),
                terms: Terms::JOBS,
            };
            let trace = perfetto::trace(picture, job, &[]);
            write_in(folder, &format!("job-{number}.pftrace"), &trace)?;
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
        let tasks = run.tasks.iter().filter(|_| only.is_none());
        for tasks in tasks {
            for (number, bill, _) in jobs(run) {
                let svg = gantt::draw(run, tasks, (number - 1, bill), Form::File, "job");
                if let Some(svg) = svg {
                    write_in(folder, &format!("job-{number}.svg"), svg.as_bytes())?;
                }
            }
        }
        Ok(())
    })
}

/// The longest job of each task of a set that has a picture, with the number of its task from 1.
fn jobs(run: &Run) -> impl Iterator<Item = (usize, &JobBill, &Picture)> {
    let tasks = run.tasks.iter().flat_map(|tasks| &tasks.tasks);
    (1..).zip(tasks).filter_map(|(number, figures)| {
        let bill = figures.bills.as_ref()?.worst.first()?;
        Some((number, bill, bill.picture.as_ref()?))
    })
}

fn chosen(run: &Run, only: Option<usize>) -> impl Iterator<Item = (usize, &punctual_record::Bill)> {
    let bills = run.explanation.iter().flat_map(|e| &e.bills);
    let numbered = (1..).zip(bills);
    numbered.filter(move |(number, _)| only.is_none_or(|only| only == *number))
}

/// Makes a directory and fills it; removes it if it stays empty.
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
