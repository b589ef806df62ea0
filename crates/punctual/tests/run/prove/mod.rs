//! Experiments on this machine: a knob with a known effect is found, and every end of an experiment
//! leaves the machine as it was.

mod ends;
mod found;
mod path;
mod planted;

use crate::common::{Place, Running};
use planted::Planted;

const SECOND: u64 = 1_000_000_000;
/// From one switch to the next with [`LENGTHS`].
const SLOT_NS: u64 = 1_200_000_000;
/// The shortest blocks and pilot there are.
const LENGTHS: [&str; 6] = ["--pilot", "7", "--block", "1", "--settle", "200ms"];

/// Begins an experiment on the planted knob.
fn begin(place: &Place, planted: &Planted, flags: &[&str]) -> Running {
    let knob = planted.knob();
    let fixed = ["prove", &knob, "--state", "state", "-o", "run", "-i", "500"];
    let quiet = ["--load", "none"];
    place.start(&[&fixed[..], &quiet, &LENGTHS, flags].concat())
}
