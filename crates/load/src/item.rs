//! One load of a list.

use crate::generator::Generator;
use crate::parameter::Values;
use crate::registry;

/// One requested generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadItem {
    /// The generator's name.
    pub name: String,
    /// The parameters that were set, checked; all others have their defaults.
    pub set: Values,
}

impl LoadItem {
    /// The generator, if this build has it.
    pub fn generator(&self) -> Option<&'static Generator> {
        registry::find(&self.name)
    }
}
