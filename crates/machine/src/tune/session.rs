//! Settings that are switched on and off while a process lives.

use punctual_record::tuning::{Change, Entry, Setting};

use super::journal::this_process;
use super::setting::{is_gone, is_same, read, replace};
use super::{Journal, TuneError};

/// Changes that end with this process. The values before are on disk before the first switch:
/// after any end `restore` finds them. A session that is dropped restores them as well, as far
/// as it can.
#[derive(Debug)]
pub struct Session {
    journal: Journal,
    changes: Vec<Change>,
    /// The settings that the changes name, each once.
    settings: Vec<Held>,
    /// The setting of each change.
    places: Vec<usize>,
    /// The changes that are on, in the order in which they were switched.
    on: Vec<usize>,
    has_ended: bool,
}

/// A setting during a session.
#[derive(Debug)]
struct Held {
    setting: Setting,
    /// Its value before the session.
    before: String,
    /// Its value as the session left it.
    left: String,
}

impl Session {
    /// Reads the present values and writes all changes to the journal. Nothing is changed yet.
    ///
    /// # Errors
    /// [`TuneError`]: a setting that can't be read, or a journal that can't be written.
    pub fn begin(mut journal: Journal, plan: &[Change]) -> Result<Self, TuneError> {
        let holder = this_process().map_err(|source| TuneError::Journal {
            path: journal.path().to_owned(),
            source,
        })?;
        let mut settings: Vec<Held> = Vec::new();
        let mut places = Vec::new();
        for change in plan {
            let known = settings.iter().position(|it| it.setting == change.setting);
            let place = match known {
                Some(place) => place,
                None => {
                    let before = read(&change.setting).map_err(|source| TuneError::Unreadable {
                        setting: change.setting.clone(),
                        source,
                    })?;
                    settings.push(Held {
                        setting: change.setting.clone(),
                        left: before.clone(),
                        before,
                    });
                    settings.len() - 1
                }
            };
            places.push(place);
        }
        let mut intents: Vec<(&Change, String)> = plan
            .iter()
            .zip(&places)
            .map(|(change, place)| (change, settings[*place].before.clone()))
            .collect();
        if !intents.is_empty() {
            journal.intend(&mut intents, Some(holder))?;
        }
        for (place, (_, now)) in places.iter().zip(intents) {
            settings[*place].left.clone_from(&now);
            settings[*place].before = now;
        }
        Ok(Self {
            journal,
            changes: plan.to_vec(),
            settings,
            places,
            on: Vec::new(),
            has_ended: false,
        })
    }

    /// The changes, in the order of the plan.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// The value before the session of the setting of a change; none for an index that the plan
    /// does not have.
    #[must_use]
    pub fn before(&self, change: usize) -> Option<&str> {
        let place = self.places.get(change)?;
        Some(&self.settings.get(*place)?.before)
    }

    /// Whether a change is on.
    #[must_use]
    pub fn is_on(&self, change: usize) -> bool {
        self.on.contains(&change)
    }

    /// Switches changes of the plan on or off, in this order; one that is so already is left
    /// alone. Of two changes of one setting the one that was switched on last counts.
    ///
    /// # Errors
    /// [`TuneError`] at the first that another program changed, that the kernel refuses, or whose
    /// object is gone: the changes before it were switched, it and those after were not.
    ///
    /// # Panics
    /// With an index that the plan does not have.
    pub fn switch(
        &mut self,
        changes: impl IntoIterator<Item = usize>,
        on: bool,
    ) -> Result<(), TuneError> {
        for change in changes {
            if self.is_on(change) == on {
                continue;
            }
            let place = self.places[change];
            let mut after: Vec<usize> = self.on.clone();
            after.retain(|it| *it != change);
            if on {
                after.push(change);
            }
            let last = after.iter().rev().find(|it| self.places[**it] == place);
            let value = match last {
                Some(last) => self.changes[*last].value.clone(),
                None => self.settings[place].before.clone(),
            };
            match self.settings[place].give(&value) {
                // What is gone needs no restore.
                Err(TuneError::Gone { .. }) if !on => {}
                result => result?,
            }
            self.on = after;
        }
        Ok(())
    }

    /// Switches everything off, the newest change first, and ends the lines in the journal. What
    /// another program changed is left alone and remains in the journal.
    ///
    /// # Errors
    /// The first [`TuneError`]; everything else is restored nevertheless.
    pub fn end(mut self) -> Result<(), TuneError> {
        self.restore()
    }

    /// Switches off what is on, the newest change first.
    fn switch_off(&mut self) -> Result<(), TuneError> {
        let mut first = Ok(());
        for change in self.on.clone().into_iter().rev() {
            first = first.and(self.switch([change], false));
        }
        first
    }

    fn restore(&mut self) -> Result<(), TuneError> {
        self.has_ended = true;
        // The kernel refuses some while another is as it was set: see `restore`.
        let first = self.switch_off().or_else(|_| self.switch_off());
        let left_on: Vec<&Setting> = self
            .on
            .iter()
            .map(|change| &self.changes[*change].setting)
            .collect();
        let Ok(holder) = this_process() else {
            return first;
        };
        let is_done = |entry: &&Entry| {
            entry.holder == Some(holder)
                && self.journal.is_of_this_boot(entry)
                && !left_on.contains(&&entry.setting)
        };
        let done: Vec<Entry> = self
            .journal
            .entries()
            .iter()
            .filter(is_done)
            .cloned()
            .collect();
        first.and(self.journal.close(&done))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.has_ended {
            // Nobody is left to be told; what remains is in the journal.
            let _ = self.restore();
        }
    }
}

impl Held {
    /// Writes a value, unless somebody else changed the setting since we did.
    fn give(&mut self, value: &str) -> Result<(), TuneError> {
        let now = match read(&self.setting) {
            Ok(now) => now,
            Err(_) if is_gone(&self.setting) => {
                return Err(TuneError::Gone {
                    setting: self.setting.clone(),
                });
            }
            Err(source) => {
                return Err(self.refused(value, source));
            }
        };
        if !is_same(&self.setting, &now, &self.left) {
            return Err(TuneError::Conflict {
                setting: self.setting.clone(),
                left: self.left.clone(),
                now,
            });
        }
        if let Err(source) = replace(&self.setting, value, &self.left) {
            if let Ok(now) = read(&self.setting) {
                self.left = now;
            }
            return Err(self.refused(value, source));
        }
        value.clone_into(&mut self.left);
        Ok(())
    }

    fn refused(&self, value: &str, source: std::io::Error) -> TuneError {
        TuneError::Refused {
            setting: self.setting.clone(),
            value: value.to_owned(),
            source,
        }
    }
}
