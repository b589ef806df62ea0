//! Which steps can be taken here: each is tried before anything is measured.

use std::path::Path;

use punctual_machine::tune::{Journal, Session, check_writable, is_same, read};
use punctual_record::experiment::SwitchedSetting;
use punctual_record::ladder::{LadderRung, NotPossible, Rung};
use punctual_record::tuning::Change;

use super::block::RungSetup;
use super::{LadderError, LadderPlan};

/// What can be measured.
#[derive(Debug)]
pub struct Possible {
    /// The rungs, without figures.
    pub rungs: Vec<LadderRung>,
    /// What the highest rung switches.
    pub switched: Vec<SwitchedSetting>,
    /// Holds these settings.
    pub session: Option<Session>,
}

/// Tries each step.
///
/// # Errors
/// The only rung that was asked for can't be measured.
pub fn find(plan: &LadderPlan) -> Result<Possible, LadderError> {
    let is_asked = |rung: Rung| plan.only.is_none_or(|only| only == rung);
    // What is above the only rung is not tried: it changes nothing.
    let is_needed = |rung: Rung| plan.only.is_none_or(|only| only.has(rung));
    let mut quiet = Quiet::default();
    let mut rungs = Vec::new();
    for rung in Rung::ALL.into_iter().filter(|rung| is_needed(*rung)) {
        let tried = match rung {
            Rung::RelativeSleep | Rung::AbsoluteSleep => Ok(()),
            Rung::Priority | Rung::LockedMemory => check_setup(plan, rung),
            Rung::Affinity if plan.design.cpus == [plan.design.cpu] => Err(NotPossible::OneCpu),
            Rung::Affinity => check_setup(plan, rung),
            Rung::QuietInterrupts => {
                Quiet::begin(plan.quiet.clone(), &plan.state).map(|begun| quiet = begun)
            }
        };
        let not_possible = tried.err();
        if let (Some(why), true) = (&not_possible, plan.only == Some(rung)) {
            return Err(LadderError::NotPossible(rung, why.clone()));
        }
        rungs.push(LadderRung::new(rung, is_asked(rung), not_possible));
    }
    Ok(Possible {
        rungs,
        switched: quiet.switched,
        session: quiet.session,
    })
}

/// Whether the kernel takes this step by itself.
fn check_setup(plan: &LadderPlan, rung: Rung) -> Result<(), NotPossible> {
    let design = &plan.design;
    let setup = RungSetup {
        priority: (rung == Rung::Priority).then_some(design.priority),
        is_locked: rung == Rung::LockedMemory,
        cpus: match rung {
            Rung::Affinity => vec![design.cpu],
            _ => design.cpus.clone(),
        },
    };
    setup.check().map_err(|error| NotPossible::Refused {
        error: error.to_string(),
    })
}

/// The settings of the highest rung, off.
#[derive(Debug, Default)]
struct Quiet {
    switched: Vec<SwitchedSetting>,
    session: Option<Session>,
}

impl Quiet {
    fn begin(changes: Result<Vec<Change>, NotPossible>, state: &Path) -> Result<Self, NotPossible> {
        let mut kept = Vec::new();
        let mut switched = Vec::new();
        for change in changes? {
            let not_switchable = |error: std::io::Error| NotPossible::NotSwitchable {
                setting: change.setting.clone(),
                error: error.to_string(),
            };
            let off = read(&change.setting).map_err(not_switchable)?;
            if is_same(&change.setting, &off, &change.value) {
                continue;
            }
            check_writable(&change.setting).map_err(not_switchable)?;
            switched.push(SwitchedSetting {
                setting: change.setting.clone(),
                off,
                on: change.value.clone(),
            });
            kept.push(change);
        }
        if kept.is_empty() {
            return Err(NotPossible::NothingToMove);
        }
        let no_journal = |error: punctual_machine::tune::TuneError| NotPossible::NoJournal {
            error: error.to_string(),
        };
        let journal = Journal::open(state).map_err(no_journal)?;
        let session = Session::begin(journal, &kept).map_err(no_journal)?;
        Ok(Self {
            switched,
            session: Some(session),
        })
    }
}
