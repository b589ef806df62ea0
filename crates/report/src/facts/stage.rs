//! The names of the stages of a wake-up.

use punctual_record::explanation::Stage;

/// From what to what.
#[must_use]
pub fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Interrupt => "timer → IRQ",
        Stage::Callback => "IRQ → callback",
        Stage::Waking => "callback → waking",
        Stage::Exit => "waking → IRQ exit",
        Stage::Switch => "IRQ exit → switch",
        Stage::User => "switch → user",
    }
}
