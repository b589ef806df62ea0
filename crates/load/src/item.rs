//! One load of a list.

use crate::generator::Generator;
use crate::parameter::Values;
use crate::registry;

/// One generator that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadItem {
    /// The generator's name.
    pub name: String,
    /// What was set, checked; all else has its default.
    pub set: Values,
}

impl LoadItem {
    /// The generator, if this build has it.
    pub fn generator(&self) -> Option<&'static Generator> {
        registry::find(&self.name)
    }
}
