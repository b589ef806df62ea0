//! `lab verify`: runs a lab again and compares the results.

use std::process::ExitCode;

use punctual_stats::verdict::Outcome as VerdictOutcome;

use super::super::failure::Failure;
use super::super::out;
use super::flags::LabVerifyFlags;
use super::screen::LabScreen;
use super::{host_cpus, making};
use crate::conduct::Signals;
use crate::conduct::lab::Watched;
use crate::conduct::lab::verify::{self, Before, VerifyError};
use punctual_lab::CellResult;
use punctual_report::lab::{self as report, label_of};

/// Runs it again and prints what differs.
///
/// # Errors
/// What cannot be read or run.
pub fn run(flags: &LabVerifyFlags) -> Result<ExitCode, Failure> {
    let before = verify::read(&flags.record).map_err(refused)?;
    let kernels = before.iter().map(|record| &*record.laboratory.kernel);
    let bench = super::bench(verify::architecture(&before), kernels)?;
    let signals = Signals::listen().map_err(Failure::setup)?;
    let jobs = flags.jobs.unwrap_or_else(host_cpus).min(before.len());
    let ends = || signals.end().is_some();
    let mut screen = LabScreen::new(false, false);
    let making = making(jobs, Watched::Nothing);
    let outcomes =
        verify::again(&before, &bench, &making, &ends, &mut screen).map_err(Failure::setup)?;
    drop(screen);
    let mut differ = 0;
    for (record, outcome) in before.iter().zip(outcomes) {
        let label = label_of(&record.column, &record.load, record.laboratory.seed);
        let made = match outcome {
            Some(Ok(made)) => made,
            Some(Err(why)) => {
                let why = report::no_result(&why);
                return Err(Failure::setup(format!("{label}: {why}")));
            }
            None => return Err(Failure::setup("interrupted")),
        };
        let (same, words) = judge(record, &made);
        differ += usize::from(!same);
        out::print(&format!("{label}: {words}\n"));
    }
    Ok(if differ == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(VerdictOutcome::Fail.exit_code())
    })
}

/// Why a record is not run again.
pub(super) fn refused(why: VerifyError) -> Failure {
    match why {
        VerifyError::Unread(_) => Failure::setup(why),
        _ => Failure::usage(why.to_string()),
    }
}

/// Whether both results are equal, and the line that says so.
fn judge(record: &Before, made: &CellResult) -> (bool, String) {
    let (old, new) = (&record.laboratory.fingerprint, &made.laboratory.fingerprint);
    let others = old.differs_in(new).into_iter().map(report::dependency);
    let others: Vec<&str> = others.collect();
    let origin = if others.is_empty() {
        String::new()
    } else {
        format!(
            "; not the same machine: different {}",
            others.join(", different ")
        )
    };
    let difference = match (&record.run, &made.run) {
        (Some(old), Some(new)) => report::first_difference(old, new),
        _ => None,
    };
    if let Some(difference) = difference {
        return (false, format!("differs: {difference}{origin}"));
    }
    if old.result_sha256 == new.result_sha256 {
        let sum = new.result_sha256.get(..16).unwrap_or_default();
        return (true, format!("identical (result {sum}){origin}"));
    }
    (false, format!("differs: the guest's output{origin}"))
}
