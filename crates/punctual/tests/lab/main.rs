//! The laboratory on real kernels: repeated runs are identical, and every end of a guest is handled.
#![allow(unsafe_code, reason = "tests call the C library and unsafe functions")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../watch/exact.rs"]
mod exact;
#[path = "../watch/known.rs"]
mod known;
#[path = "../watch/several.rs"]
mod several;
#[path = "../watch/waits.rs"]
mod waits;

mod alone;
mod arm64;
mod bisect;
mod bound;
mod cost;
mod ends;
mod fits;
mod gaps;
mod gate;
mod idle;
mod input;
mod inside;
mod interference;
mod ladder;
mod launch;
mod observer;
mod operations;
mod path;
mod peers;
mod progress;
mod prove;
mod repeat;
mod taskset;
mod tracer;
mod truth;
mod tuned;
mod userspace;
mod work;

use std::time::Duration;

use common::needs::Absent;
use common::{Ended, Place, flat};
use punctual_record::laboratory::Architecture;

/// Whether both kernels are available and QEMU is installed.
pub fn ready() -> Result<(), Absent> {
    use std::sync::OnceLock;
    static READY: OnceLock<Result<(), Absent>> = OnceLock::new();
    READY.get_or_init(|| ready_for(Architecture::Amd64)).clone()
}

/// The same for guests of an architecture.
pub fn ready_for(architecture: Architecture) -> Result<(), Absent> {
    use punctual_lab::{Qemu, kernel};
    Qemu::find(architecture).map_err(Absent::program)?;
    let cache = kernel::Cache::for_user().expect("a cache");
    for name in ["rt", "standard"] {
        match kernel::find(name, architecture, &cache, &mut |_| {}) {
            Ok(_) => {}
            // The archive can't be reached.
            Err(error @ kernel::Error::Package { .. }) => return Err(Absent::program(error)),
            Err(error) => panic!("{error}"),
        }
    }
    Ok(())
}

/// What takes longer hangs. A machine that others share, and that runs tests beside, is slow, but ends.
pub const HANGS: Duration = Duration::from_secs(1800);

/// Runs `lab` to its end: a boot takes a while on a machine that is shared.
pub fn lab(place: &Place, arguments: &[&str]) -> Ended {
    let words = [&["lab"], arguments].concat();
    place.start(&words).end_within(HANGS)
}

/// Guests that were started in a place and run; a QEMU that only prints its version isn't
/// one.
pub fn machines(place: &Place) -> usize {
    place
        .processes()
        .iter()
        .filter_map(|pid| std::fs::read(format!("/proc/{pid}/cmdline")).ok())
        .filter(|words| words.split(|&b| b == 0).any(|word| word == b"-initrd"))
        .count()
}

#[test]
fn missing_requirements_of_the_tests_are_named() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/need"));
    assert!(text.expect("scripts/need").contains("qemu-system-x86"));
}
