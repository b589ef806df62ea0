//! The result of a look: a state and its fixes, bounded.

use punctual_record::finding::{Fault, FindingFix, FindingState, Item, NotApplicable, Unknown};
use punctual_record::text::shortened;

/// The longest text of a reading.
const READING_LENGTH: usize = 160;
/// The items of one fault.
const ITEMS: usize = 256;
/// The fixes of one finding: a write for each idle state of each CPU of a large machine.
const FIXES: usize = 1 << 14;
/// The longest text of a fix: a list of every second CPU has some thousand letters.
const LONGEST_FIX: usize = 1 << 15;

/// The first words of a text, on one line.
pub(crate) fn line_of(text: &str) -> String {
    shortened(text.trim(), READING_LENGTH)
}

/// The result of a look.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outcome {
    pub(crate) state: FindingState,
    pub(crate) fixes: Vec<FindingFix>,
}

/// A look ends early with the state that follows from what can't be read.
pub(crate) type Looked = Result<Outcome, FindingState>;

pub(crate) fn ok() -> Looked {
    Ok(FindingState::Ok.into())
}

pub(crate) fn bad(fault: Fault) -> Outcome {
    FindingState::Bad { fault }.into()
}

pub(crate) fn information() -> Outcome {
    FindingState::Information { fault: None }.into()
}

pub(crate) fn information_that(fault: Fault) -> Outcome {
    FindingState::Information { fault: Some(fault) }.into()
}

pub(crate) fn not_applicable<T>(why: NotApplicable) -> Result<T, FindingState> {
    Err(FindingState::NotApplicable { why })
}

pub(crate) fn unknown<T>(why: Unknown) -> Result<T, FindingState> {
    Err(FindingState::Unknown { why })
}

/// That it should have one of these values.
pub(crate) fn expected(values: &[&str]) -> Fault {
    Fault::Expected(values.iter().map(|value| (*value).to_owned()).collect())
}

/// That these are there.
pub(crate) fn present<I: Into<Item>>(items: impl IntoIterator<Item = I>) -> Fault {
    Fault::Present(items.into_iter().map(Into::into).collect())
}

/// That this is missing.
pub(crate) fn missing(item: impl Into<Item>) -> Fault {
    Fault::Missing(vec![item.into()])
}

/// That this is absent, without which a finding has no meaning.
pub(crate) fn without<T>(what: impl Into<Item>) -> Result<T, FindingState> {
    not_applicable(NotApplicable::Absent(what.into()))
}

/// That this is absent, although it should be there.
pub(crate) fn lost<T>(what: impl Into<Item>) -> Result<T, FindingState> {
    unknown(Unknown::Absent(what.into()))
}

impl From<FindingState> for Outcome {
    fn from(state: FindingState) -> Self {
        Self {
            state,
            fixes: Vec::new(),
        }
    }
}

impl Outcome {
    pub(crate) fn fix(mut self, fix: FindingFix) -> Self {
        self.fixes.push(fix);
        self
    }

    pub(crate) fn write(self, path: &str, value: impl std::fmt::Display) -> Self {
        self.fix(FindingFix::Write {
            path: path.to_owned(),
            value: value.to_string(),
        })
    }

    pub(crate) fn boot(self, parameter: impl Into<String>) -> Self {
        self.fix(FindingFix::Boot {
            parameter: parameter.into(),
        })
    }

    pub(crate) fn by_hand(self) -> Self {
        self.fix(FindingFix::ByHand)
    }

    /// With bounded lists and texts of one line each: files may hold anything. A change whose
    /// file or value can't be shown as it is, is none.
    pub(crate) fn bounded(mut self) -> Self {
        let line = |text: &mut String| *text = line_of(text);
        match &mut self.state {
            FindingState::Bad { fault } | FindingState::Information { fault: Some(fault) } => {
                match fault {
                    Fault::Expected(texts) => {
                        texts.truncate(ITEMS);
                        texts.iter_mut().for_each(line);
                    }
                    Fault::Present(items) | Fault::Missing(items) => {
                        items.truncate(ITEMS);
                        items.iter_mut().flat_map(Item::texts).for_each(line);
                    }
                    Fault::Unequal
                    | Fault::Above(_)
                    | Fault::Below(_)
                    | Fault::Includes(_)
                    | Fault::Lacks(_) => {}
                }
            }
            FindingState::Unknown { why } => match why {
                Unknown::Unreadable(text)
                | Unknown::NotUnderstood(text)
                | Unknown::NotShown(text)
                | Unknown::NotRecorded(text) => line(text),
                Unknown::Absent(item) => item.texts().into_iter().for_each(line),
                Unknown::NotMounted { .. } | Unknown::HiddenThreads | Unknown::NoConfiguration => {}
            },
            FindingState::Ok
            | FindingState::Information { fault: None }
            | FindingState::NotApplicable { .. } => {}
        }
        let is_plain = |text: &String| *text == shortened(text, LONGEST_FIX);
        self.fixes.retain(|fix| match fix {
            FindingFix::Write { path, value } => is_plain(path) && is_plain(value),
            FindingFix::Scheduling { thread, .. } | FindingFix::Affinity { thread, .. } => {
                is_plain(thread)
            }
            FindingFix::Boot { parameter } | FindingFix::Unboot { parameter } => {
                is_plain(parameter)
            }
            FindingFix::HoldDmaLatency { .. } | FindingFix::ByHand => true,
        });
        self.fixes.truncate(FIXES);
        self
    }

    /// The end of a look.
    pub(crate) fn end(self) -> Looked {
        Ok(self)
    }
}
