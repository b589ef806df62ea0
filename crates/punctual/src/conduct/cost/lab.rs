//! The same question of two kernels in virtual time: each seed on both, and other seeds on the first
//! one, between which nothing differs but the seed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use punctual_lab::cell::{OWN_NAME, Work};
use punctual_lab::machine::tail;
use punctual_lab::{CellResult, LabError};
use punctual_record::cost::{CostPart, CostRun};
use punctual_record::lab::NoResult;

use super::runner::{RunAnswer, RunJob, VERB};
use super::{Cost, CostError, CostOutcome, CostPlan, begun, this_machine};
use crate::conduct::lab::{
    self, Bench, Cell, Column, Forecast, LabPlan, Making, News, Part, Watched, run_all,
};

/// Two kernels and what runs on them.
#[derive(Debug)]
pub struct CostLab {
    /// The kernel without the treatment.
    pub without: String,
    /// The kernel with it.
    pub with: String,
    /// The guests, without columns and seeds.
    pub guests: LabPlan,
    /// Words for the command lines of both kernels.
    pub parameters: Vec<String>,
    /// The command's file on this machine; absent where it is in the root file system.
    pub program: Option<PathBuf>,
    /// Guests that run in parallel.
    pub jobs: usize,
}

/// What a cell is for.
struct Place {
    treatment: Option<usize>,
    pair: u64,
    with: bool,
}

impl CostLab {
    /// The guests of one kernel: its column of a lab.
    fn column(&self, kernel: &str, seeds: u64, words: &[String]) -> LabPlan {
        let mut guests = self.guests.clone();
        guests.brought.extend(self.program.clone());
        guests.seeds = seeds;
        guests.columns = vec![Column {
            name: kernel.to_owned(),
            kernel: kernel.to_owned(),
            parameters: self.parameters.clone(),
            parts: vec![Part {
                brought: Vec::new(),
                load: "idle".to_owned(),
                work: Work::Program {
                    file: PathBuf::from(OWN_NAME),
                    words: words.to_vec(),
                    load: None,
                },
            }],
            variant: None,
            result: None,
        }];
        guests
    }
}

/// The words with which a guest runs a program once, and prints what it used. `file` is the program's file on
/// this machine; absent where it is in the root file system.
#[must_use]
pub fn words(program: &[OsString], file: Option<&Path>) -> Vec<String> {
    let job = RunJob {
        in_guest: true,
        ..RunJob::default()
    };
    let job = serde_json::to_string(&job).unwrap_or_default();
    let own = [OWN_NAME.to_owned(), VERB.to_owned(), job];
    let program = program.iter().map(|it| it.to_string_lossy().into_owned());
    let mut words: Vec<String> = own.into_iter().chain(program).collect();
    if let (Some(name), Some(word)) = (file.and_then(Path::file_name), words.get_mut(3)) {
        // Where files are brought along, all programs are in one directory.
        *word = name.to_string_lossy().into_owned();
    }
    words
}

/// Runs the command in guests, and returns the record, judged. `ends` says whether a signal came;
/// `tick` receives how far it is.
///
/// # Errors
/// What a guest can't run, or a command that fails in it.
pub fn cost_in_lab(
    plan: &CostPlan,
    asked: &CostLab,
    bench: &Bench,
    ends: &(dyn Fn() -> bool + Sync),
    tick: &mut dyn FnMut(&Forecast, Instant),
) -> Result<Cost, CostError> {
    let mut record = begun(plan, this_machine());
    let pairs = plan.work.pairs;
    let program = &plan.program;
    let words = words(program, asked.program.as_deref());
    let failed = |error: LabError| CostError::Guest(error.to_string());
    // The first seeds on both kernels, and as many others on the first one.
    let first = asked.column(&asked.without, 2 * pairs, &words);
    let second = asked.column(&asked.with, pairs, &words);
    let mut cells = lab::plan(&first, bench).map_err(failed)?;
    cells.extend(lab::plan(&second, bench).map_err(failed)?);
    // If it is interrupted, the first seeds have all their guests.
    cells.sort_by_key(|cell| (cell.plan.seed - 1) % pairs);
    let making = Making {
        jobs: asked.jobs.min(cells.len()),
        watched: Watched::Nothing,
        read: |path, _| {
            Err(punctual_record::RecordError::malformed(
                path,
                "",
                "no figures",
            ))
        },
        proving: None,
        counting: None,
    };
    // What fails in one guest fails in all.
    let has_failed = AtomicBool::new(false);
    let outcomes = {
        let ends = || has_failed.load(Ordering::Relaxed) || ends();
        let mut told = |news: News<'_, '_>, forecast: &Forecast| {
            if let News::Done(cell, outcome) = news {
                let is_good = match outcome {
                    Ok(made) => run_of(plan, cell, made, false).is_ok(),
                    Err(_) => false,
                };
                has_failed.fetch_or(!is_good, Ordering::Relaxed);
            }
            tick(forecast, Instant::now());
        };
        run_all(&cells, bench, &making, &ends, &mut told)
    };
    // An end by a failure is none by a signal.
    let mut all = cells.iter().zip(outcomes).collect::<Vec<_>>();
    all.sort_by_key(|(_, outcome)| match outcome {
        Some(Ok(_)) => 1,
        Some(Err(why)) if *why != NoResult::Interrupted => 0,
        _ => 2,
    });
    let mut releases = [String::new(), String::new()];
    for (cell, outcome) in all {
        let made = match outcome {
            None | Some(Err(NoResult::Interrupted)) => {
                record.outcome = CostOutcome::Stopped;
                continue;
            }
            Some(Err(why)) => {
                return Err(CostError::NoResult {
                    kernel: cell.column.clone(),
                    why,
                });
            }
            Some(Ok(made)) => made,
        };
        let is_with = cell.column == asked.with;
        releases[usize::from(is_with)].clone_from(&made.laboratory.release);
        let run = run_of(plan, cell, &made, is_with)?;
        for place in places(cell.plan.seed, pairs, is_with) {
            record.runs.push(CostRun {
                treatment: place.treatment,
                pair: place.pair,
                with: place.with,
                ..run.clone()
            });
        }
    }
    if record.outcome == CostOutcome::UnderWay {
        record.outcome = CostOutcome::Complete;
    }
    for part in record.treatments.iter_mut().flat_map(|it| &mut it.parts) {
        if let CostPart::Kernel { without, with } = part {
            for (name, release) in [without, with].into_iter().zip(&releases) {
                name.push_str(&format!(" ({release})"));
            }
        }
    }
    record.judge();
    Ok(record)
}

/// The pairs that a guest is part of: a seed on the first kernel is in a pair with the same seed on
/// the other, and with another seed on the same one.
fn places(seed: u64, pairs: u64, is_with: bool) -> Vec<Place> {
    let pair = (seed - 1) % pairs;
    let is_other_seed = seed > pairs;
    let of = |treatment, with| Place {
        treatment,
        pair,
        with,
    };
    match (is_with, is_other_seed) {
        (true, _) => vec![of(Some(0), true)],
        (false, true) => vec![of(None, true)],
        (false, false) => vec![of(Some(0), false), of(None, false)],
    }
}

/// What the runner in a guest said.
fn run_of(
    plan: &CostPlan,
    cell: &Cell<'_>,
    made: &CellResult,
    is_with: bool,
) -> Result<CostRun, CostError> {
    let program = plan.work.program.first().cloned().unwrap_or_default();
    match serde_json::from_slice(&made.stdout) {
        Ok(RunAnswer::Refused { line, status }) => Err(CostError::Refused { line, status }),
        Ok(RunAnswer::Ended {
            signal: Some(signal),
            ..
        }) => Err(CostError::Signal { program, signal }),
        Ok(RunAnswer::Ended {
            usage,
            status,
            left,
            ..
        }) => {
            let status = status.unwrap_or(0);
            if status != 0 && !plan.work.accepts_failure {
                return Err(CostError::Status {
                    program,
                    status,
                    is_kept: true,
                });
            }
            Ok(CostRun {
                treatment: None,
                pair: cell.plan.seed,
                with: is_with,
                machine: 0,
                at_ns: 0,
                usage,
                status,
                left,
                load: None,
                wake_ups: None,
            })
        }
        Err(_) => {
            let said = String::from_utf8_lossy(&made.stderr);
            Err(CostError::Guest(format!(
                "{}: the guest gave no figures of {program} (status {}): {}",
                cell.column,
                made.status,
                tail(&said)
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_guest_stands_in_the_pairs_of_its_seed() {
        let of = |seed, is_with| {
            let places = places(seed, 6, is_with).into_iter();
            let all = places.map(|it| (it.treatment, it.pair, it.with));
            all.collect::<Vec<_>>()
        };
        assert_eq!(of(1, false), [(Some(0), 0, false), (None, 0, false)]);
        assert_eq!(of(1, true), [(Some(0), 0, true)]);
        assert_eq!(of(7, false), [(None, 0, true)]);
        assert_eq!(of(6, true), [(Some(0), 5, true)]);
        assert_eq!(of(12, false), [(None, 5, true)]);
    }
}
