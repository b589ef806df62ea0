//! The knobs of an experiment: what they change, and the control beside them.

use punctual_machine::tune::{check_writable, is_same, read};
use punctual_record::experiment::{ExperimentKnob, SwitchedSetting};
use punctual_record::tuning::{Change, Knob};

use super::error::KnobError;

/// A knob as it was asked for.
#[derive(Debug, Clone)]
pub struct PlannedKnob {
    /// The name of its finding, or the file.
    pub name: String,
    /// What it changes.
    pub changes: Vec<Change>,
}

/// Knobs that can be switched, and a control.
#[derive(Debug)]
pub struct ProveKnobs {
    chosen: Vec<Chosen>,
}

/// A knob with what it changes.
#[derive(Debug)]
struct Chosen {
    knob: ExperimentKnob,
    changes: Vec<Change>,
}

impl ProveKnobs {
    /// Reads what the knobs change, and checks that it can be switched.
    ///
    /// # Errors
    /// [`KnobError`]
    pub fn check(planned: Vec<PlannedKnob>) -> Result<Self, KnobError> {
        let mut chosen: Vec<Chosen> = Vec::new();
        for one in planned {
            if chosen.iter().any(|it| it.knob.name == one.name) {
                return Err(KnobError::Twice { name: one.name });
            }
            chosen.push(of_planned(one)?);
        }
        refuse_shared_settings(&chosen)?;
        chosen.push(control(&chosen));
        Ok(Self { chosen })
    }

    /// All changes, and the places of each knob's. The control's are first: after a kill the journal
    /// says of a setting what was planned last.
    pub(crate) fn changes(&self) -> (Vec<Change>, Vec<Vec<usize>>) {
        let mut changes = Vec::new();
        let mut places = vec![Vec::new(); self.chosen.len()];
        let all = self.chosen.iter().enumerate();
        let (controls, knobs): (Vec<_>, Vec<_>) = all.partition(|(_, it)| it.knob.is_control);
        for (at, it) in controls.into_iter().chain(knobs) {
            places[at] = (changes.len()..changes.len() + it.changes.len()).collect();
            changes.extend(it.changes.iter().cloned());
        }
        (changes, places)
    }

    /// As the record has them: the control is the last.
    pub(crate) fn into_knobs(self) -> Vec<ExperimentKnob> {
        self.chosen.into_iter().map(|it| it.knob).collect()
    }
}

/// A knob without the settings that have their value already.
fn of_planned(PlannedKnob { name, changes }: PlannedKnob) -> Result<Chosen, KnobError> {
    let mut settings = Vec::new();
    let mut kept = Vec::new();
    for change in changes {
        let setting = change.setting.clone();
        let off = match read(&setting) {
            Ok(off) => off,
            Err(source) => return Err(KnobError::Unreadable { setting, source }),
        };
        if is_same(&setting, &off, &change.value) {
            continue;
        }
        // Or the pilot would be measured in vain.
        if let Err(source) = check_writable(&setting) {
            return Err(KnobError::NotWritable { setting, source });
        }
        settings.push(SwitchedSetting {
            setting,
            off,
            on: change.value.clone(),
        });
        kept.push(change);
    }
    if kept.is_empty() {
        return Err(KnobError::NothingToSwitch { name });
    }
    let knob = ExperimentKnob {
        name,
        settings,
        is_control: false,
    };
    Ok(Chosen {
        knob,
        changes: kept,
    })
}

/// Two knobs that change one setting could not be told apart.
fn refuse_shared_settings(chosen: &[Chosen]) -> Result<(), KnobError> {
    for (at, one) in chosen.iter().enumerate() {
        for other in &chosen[..at] {
            let changes = other.changes.iter();
            let settings: Vec<_> = changes.map(|change| &change.setting).collect();
            let mut shared = one.changes.iter();
            if let Some(shared) = shared.find(|it| settings.contains(&&it.setting)) {
                return Err(KnobError::Shared {
                    first: other.knob.name.clone(),
                    second: one.knob.name.clone(),
                    setting: shared.setting.clone(),
                });
            }
        }
    }
    Ok(())
}

/// The control writes what the first knob writes, with the values that are there.
fn control(chosen: &[Chosen]) -> Chosen {
    let settings = chosen
        .first()
        .map_or_else(Vec::new, |it| it.knob.settings.clone());
    let changes = settings.iter().map(|it| Change {
        knob: Knob::Control,
        setting: it.setting.clone(),
        value: it.off.clone(),
    });
    Chosen {
        changes: changes.collect(),
        knob: ExperimentKnob {
            name: Knob::Control.to_string(),
            settings: settings
                .into_iter()
                .map(|it| SwitchedSetting {
                    on: it.off.clone(),
                    ..it
                })
                .collect(),
            is_control: true,
        },
    }
}
