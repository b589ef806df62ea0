//! `--tuned`: what is changed for a run.

use punctual_machine::tune::{Journal, changes_of};
use punctual_report::tuning;

use super::failure::Failure;
use super::flags::RunFlags;
use super::tune::{check_named, found_for};
use crate::conduct::{ProbePlan, TunePlan};

/// The changes for a run with these probes: of the named knobs, or of all bad findings with a fix
/// at run time. Nothing without the flag.
///
/// # Errors
/// A knob that can't be changed at run time; what a punctual that was killed left changed.
pub(super) fn plan(flags: &RunFlags, probes: &ProbePlan) -> Result<Option<TunePlan>, Failure> {
    let Some(knobs) = &flags.tuned else {
        return Ok(None);
    };
    let left = Journal::left_over(flags.state());
    if let Some(line) = tuning::left_over(&left) {
        return Err(Failure::setup(format!("--tuned: {line}")));
    }
    let found = found_for(&probes.cpus, probes.policy.priority());
    let changes = changes_of(&found, knobs);
    check_named(&found, &changes, knobs)?;
    Ok(Some(TunePlan {
        changes,
        is_named: !knobs.is_empty(),
        state: flags.state().to_owned(),
    }))
}
