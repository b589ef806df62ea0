//! Which steps can be taken here: each is tried before anything is measured.

use std::io;
use std::path::Path;

use punctual_machine::root::plain;
use punctual_machine::tune::{Journal, Session, TuneError, check_writable, is_same, read};
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
    pub quiet: Option<Quiet>,
}

/// Tries each step.
///
/// # Errors
/// The only rung that was asked for can't be measured.
pub fn find(plan: &LadderPlan) -> Result<Possible, LadderError> {
    let is_asked = |rung: Rung| plan.only.is_none_or(|only| only == rung);
    // What is above the only rung is not tried: it changes nothing.
    let is_needed = |rung: Rung| plan.only.is_none_or(|only| only.has(rung));
    let (mut quiet, mut switched) = (None, Vec::new());
    let mut rungs = Vec::new();
    for rung in Rung::ALL.into_iter().filter(|rung| is_needed(*rung)) {
        let tried = match rung {
            Rung::RelativeSleep | Rung::AbsoluteSleep => Ok(()),
            Rung::Priority | Rung::LockedMemory => check_setup(plan, rung),
            Rung::Affinity if plan.design.cpus == [plan.design.cpu] => Err(NotPossible::OneCpu),
            Rung::Affinity => check_setup(plan, rung),
            Rung::QuietInterrupts => {
                let begun = Quiet::begin(plan.quiet.clone(), &plan.state);
                begun.map(|(begun, settings)| (quiet, switched) = (Some(begun), settings))
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
        switched,
        quiet,
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
#[derive(Debug)]
pub struct Quiet {
    session: Session,
    /// The changes that the kernel takes, by their place in the session's plan.
    accepted: Vec<usize>,
}

impl Quiet {
    /// Tries every change once: one that the kernel refuses would end the ladder at its first
    /// quiet block.
    fn begin(
        changes: Result<Vec<Change>, NotPossible>,
        state: &Path,
    ) -> Result<(Self, Vec<SwitchedSetting>), NotPossible> {
        let mut kept = Vec::new();
        for change in changes? {
            let not_switchable = |error: &io::Error| NotPossible::NotSwitchable {
                setting: change.setting.clone(),
                error: plain(error),
            };
            let off = read(&change.setting).map_err(|error| not_switchable(&error))?;
            if is_same(&change.setting, &off, &change.value) {
                continue;
            }
            check_writable(&change.setting).map_err(|error| not_switchable(&error))?;
            kept.push(change);
        }
        let no_journal = |error: TuneError| NotPossible::NoJournal {
            error: error.to_string(),
        };
        if kept.is_empty() {
            return Err(NotPossible::NothingToMove);
        }
        let journal = Journal::open(state).map_err(no_journal)?;
        let session = Session::begin(journal, &kept).map_err(no_journal)?;
        let mut quiet = Self {
            session,
            accepted: Vec::new(),
        };
        let mut refused = None;
        for (at, change) in kept.iter().enumerate() {
            match quiet.session.switch([at], true) {
                Ok(()) => quiet.accepted.push(at),
                Err(error) => {
                    refused.get_or_insert(NotPossible::NotSwitchable {
                        setting: change.setting.clone(),
                        error: error.to_string(),
                    });
                }
            }
        }
        quiet.switch(false).map_err(no_journal)?;
        match refused {
            Some(why) if quiet.accepted.is_empty() => return Err(why),
            _ => {}
        }
        let switched = quiet.accepted.iter().map(|at| SwitchedSetting {
            setting: kept[*at].setting.clone(),
            off: quiet.session.before(*at).unwrap_or_default().to_owned(),
            on: kept[*at].value.clone(),
        });
        let switched = switched.collect();
        Ok((quiet, switched))
    }

    /// Makes the settings be on or off.
    ///
    /// # Errors
    /// Another program changed one, or the kernel refuses it.
    pub fn switch(&mut self, on: bool) -> Result<(), TuneError> {
        self.session.switch(self.accepted.iter().copied(), on)
    }

    /// Restores all.
    ///
    /// # Errors
    /// What could not be restored.
    pub fn end(self) -> Result<(), TuneError> {
        self.session.end()
    }
}
