//! The experiment `ladder`: the rungs of `punctual ladder`, each in guests of its own.

use punctual_record::Document;
use std::fmt::Write as _;

use punctual_record::ladder::{Ladder, Rung};

/// What comes before the rungs.
const MACHINES: &str = r#"why = "McKenney's steps: how much does each gain, on which kernel, under which load?"
loads = "idle,native"

[[machine]]
name = "rt"
kernel = "rt"

[[machine]]
name = "standard"
kernel = "standard"
"#;

/// Cycles of each guest.
const CYCLES: u64 = 2000;

/// The experiment, as its file would have it.
pub fn text() -> String {
    let mut text = MACHINES.to_owned();
    // Virtual time has one processor.
    for rung in Rung::ALL.into_iter().filter(|it| !it.needs_several_cpus()) {
        let name = rung.name();
        // The load is the guest's: it began before.
        let command = format!(
            r#"["punctual", "ladder", "--rung", "{name}", "-l", "{CYCLES}", "--load", "none", "-q", "-o", "run"]"#
        );
        // Writing to a string has no error.
        let _ = write!(
            text,
            "\n[[variant]]\nname = \"{name}\"\ncommand = {command}\nresult = \"run/{}\"\n",
            Ladder::FILE
        );
    }
    text
}
