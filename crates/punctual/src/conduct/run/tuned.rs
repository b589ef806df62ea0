//! Settings that are changed for one run: on before the machine is read, restored after its last
//! measurement, whatever its end.

use punctual_machine::tune::{Journal, Session, TuneError, is_gone, is_same, read};
use punctual_record::live::Step;
use punctual_record::tuning::{Change, Tuned};
use punctual_record::{Event, Happening};

use super::plan::TunePlan;
use crate::conduct::error::ConductError;
use crate::conduct::observer::{Observed, Observer};

/// The settings of a run. They are restored when this is dropped.
pub struct Tuning {
    session: Option<Session>,
    /// What was changed, in the order of the changes.
    tuned: Vec<Tuned>,
}

impl Tuning {
    /// Changes what the plan says, and only what has another value. The values before are in the
    /// journal before the first change; without any nothing is opened. Where the user named no
    /// knobs, what the kernel refuses is left as it is, and told; if it refuses everything there is no run.
    ///
    /// # Errors
    /// [`ConductError::Tune`]: nothing is left changed.
    pub fn begin(plan: &TunePlan, progress: &mut dyn Observer) -> Result<Self, ConductError> {
        let differs = |change: &&Change| {
            let now = read(&change.setting);
            // What can't be read is an error of the session.
            now.map_or(true, |now| !is_same(&change.setting, &now, &change.value))
        };
        let changes: Vec<Change> = plan.changes.iter().filter(differs).cloned().collect();
        if changes.is_empty() {
            return Ok(Self {
                session: None,
                tuned: Vec::new(),
            });
        }
        let journal = Journal::open(&plan.state).map_err(ConductError::Tune)?;
        let mut session = Session::begin(journal, &changes).map_err(ConductError::Tune)?;
        let (mut tuned, mut refused) = (Vec::new(), Vec::new());
        for (at, change) in changes.into_iter().enumerate() {
            match session.switch([at], true) {
                Ok(()) => tuned.push(Tuned {
                    knob: change.knob,
                    before: session.before(at).unwrap_or_default().to_owned(),
                    setting: change.setting,
                    value: change.value,
                }),
                Err(error @ TuneError::Refused { .. }) if !plan.is_named => {
                    refused.push((change, error));
                }
                // A thread that has ended meanwhile has no setting.
                Err(TuneError::Gone { .. }) if !plan.is_named => {}
                Err(error) => return Err(ConductError::Tune(error)),
            }
        }
        if tuned.is_empty()
            && let Some((_, error)) = refused.pop()
        {
            return Err(ConductError::Tune(error));
        }
        for (change, error) in &refused {
            progress.observe(Observed::NotChanged(change, error));
        }
        Ok(Self {
            tuned,
            session: Some(session),
        })
    }

    /// What was changed.
    pub fn tuned(&self) -> &[Tuned] {
        &self.tuned
    }

    /// Restores everything; what can't be is told.
    pub fn end(self, progress: &mut dyn Observer) {
        if let Some(session) = self.session {
            progress.observe(Observed::Step(&Step::RestoreSettings));
            if let Err(error) = session.end() {
                progress.observe(Observed::NotRestored(&error));
            }
        }
    }
}

/// The events of settings that did not keep their value for the run: another program changed them.
/// A thread that has ended, or a device that is gone, has no setting left to lose.
pub fn lost(tuned: &[Tuned], at_ns: u64) -> Vec<Event> {
    let mut events = Vec::new();
    for (index, one) in tuned.iter().enumerate() {
        // Of two changes of one setting the last one counts.
        let later = &tuned[index + 1..];
        if later.iter().any(|other| other.setting == one.setting) {
            continue;
        }
        let found = match read(&one.setting) {
            Ok(now) if is_same(&one.setting, &now, &one.value) => continue,
            Ok(now) => Some(now),
            Err(_) if is_gone(&one.setting) => continue,
            Err(_) => None,
        };
        let what = Happening::SettingLost {
            setting: one.setting.to_string(),
            value: one.setting.shown(&one.value),
            found: found.map(|now| one.setting.shown(&now)),
        };
        events.push(Event::invalidating(at_ns, what));
    }
    events
}
