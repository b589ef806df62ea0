//! Reading `fit.json`. It may come from anywhere: reading is total, and what is accepted keeps its
//! promises.

use std::path::{Component, Path, PathBuf};

use super::{FIT_FILE, FIT_FORMAT, FIT_VERSION, Fit, FitOutcome, FitWork};
use crate::bounds::Bounds;
use crate::error::RecordError;
use crate::read::{FileKind, decode, slurp};
use crate::scan;

/// What opens the file.
const FIT_KIND: FileKind = FileKind {
    what: "record of a fit",
    format: FIT_FORMAT,
    version: FIT_VERSION,
};
/// Bytes of `fit.json`.
const MOST_BYTES: u64 = 16 << 20;
/// Knobs of one step, obstacles, causes of one.
const MOST_KNOBS: usize = 256;
/// A change of a measure beyond this is none that was measured.
const MOST_RATIO: f64 = 1e12;

/// Whether a path is that of a fit: the file, or a directory that holds it.
#[must_use]
pub fn is_fit(path: &Path) -> bool {
    path.join(FIT_FILE).is_file() || path.file_name() == Some(FIT_FILE.as_ref())
}

/// Reads `fit.json`: `path` is the file or its directory, which is returned too. Total, as reading
/// a run is.
///
/// # Errors
/// [`RecordError`] with the path and the place.
pub fn read_fit(path: &Path) -> Result<(Fit, PathBuf), RecordError> {
    let (file, directory) = if path.is_dir() {
        (path.join(FIT_FILE), path.to_owned())
    } else {
        let parent = path.parent().unwrap_or(Path::new(""));
        (path.to_owned(), parent.to_owned())
    };
    let bytes = slurp(&file, MOST_BYTES)?;
    Ok((parse_fit(&file, &bytes)?, directory))
}

/// As [`read_fit`], from memory.
///
/// # Errors
/// As [`read_fit`].
pub fn parse_fit(path: &Path, bytes: &[u8]) -> Result<Fit, RecordError> {
    scan::check(path, bytes, &scan::RECORD)?;
    let fit: Fit = match serde_json::from_slice(bytes) {
        Ok(fit) => fit,
        // The fields of another version differ: the error is its version, not a field.
        Err(_) => {
            FIT_KIND.check_header(path, bytes)?;
            decode(path, bytes)?
        }
    };
    FIT_KIND.check(path, Some(&fit.format), Some(fit.version.into()))?;
    match fault(&fit) {
        Some((place, reason)) => Err(RecordError::malformed(path, place, reason)),
        None => Ok(fit),
    }
}

/// The first promise that is broken: its place and how.
fn fault(fit: &Fit) -> Option<(String, String)> {
    let at_most = |place: &str, count: usize, most: usize| {
        (count > most).then(|| {
            let reason = format!("{count} entries, at most {most} are allowed");
            (place.to_owned(), reason)
        })
    };
    let outcome_knobs = match &fit.outcome {
        Some(FitOutcome::Met { knobs, untried }) => knobs.len().max(untried.len()),
        Some(FitOutcome::NotEnough { knobs }) => knobs.len(),
        _ => 0,
    };
    let causes = fit.obstacles.iter().map(|it| it.causes.len()).max();
    let lists = [
        ("steps", fit.steps.len(), Bounds::SHORT_LIST),
        ("command", fit.command.len(), Bounds::SHORT_LIST),
        ("cpus", fit.cpus.len(), Bounds::CPUS),
        ("tuned_for", fit.tuned_for.len(), Bounds::CPUS),
        ("obstacles", fit.obstacles.len(), MOST_KNOBS),
        ("obstacles[].causes", causes.unwrap_or(0), MOST_KNOBS),
        ("untried_boot", fit.untried_boot.len(), MOST_KNOBS),
        ("kept", fit.kept.len(), Bounds::SETTINGS),
        ("outcome", outcome_knobs, MOST_KNOBS),
    ];
    let long = lists
        .into_iter()
        .find_map(|(place, count, most)| at_most(place, count, most));
    if long.is_some() {
        return long;
    }
    for (name, cpus) in [("cpus", &fit.cpus), ("tuned_for", &fit.tuned_for)] {
        if let Some(cpu) = cpus.iter().find(|cpu| **cpu >= Bounds::CPUS) {
            return Some((name.to_owned(), format!("CPU {cpu} does not exist")));
        }
    }
    let steps = fit.steps.iter().enumerate();
    steps.into_iter().find_map(|(at, step)| {
        let parts = || Path::new(&step.directory).components();
        let is_inside = parts().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || parts().count() != 1 {
            let reason = "is no directory within that of the fit".to_owned();
            return Some((format!("steps[{at}].directory"), reason));
        }
        match &step.what {
            FitWork::Qualify { on, asked, .. } => {
                let most = on.len().max(asked.len());
                at_most(&format!("steps[{at}]"), most, MOST_KNOBS)
            }
            FitWork::Prove { knobs, .. } => {
                let is_ratio = |ratio: f64| ratio > 0.0 && ratio < MOST_RATIO;
                let mut ratios = knobs.iter().filter_map(|it| it.ratio);
                if let Some(ratio) = ratios.find(|ratio| !is_ratio(*ratio)) {
                    return Some((format!("steps[{at}].knobs"), format!("a ratio of {ratio}")));
                }
                at_most(&format!("steps[{at}].knobs"), knobs.len(), MOST_KNOBS)
            }
        }
    })
}
