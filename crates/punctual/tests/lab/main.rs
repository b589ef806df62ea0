//! The laboratory on real kernels: the same twice, and every end that a machine can come to.

#[path = "../common/mod.rs"]
mod common;

mod ends;
mod input;
mod repeat;
mod work;

use common::{Ended, Place};

/// The kernels' names, where both can be had and there is a QEMU; else why not.
pub fn ready() -> Result<(), String> {
    use punctual::lab::{Qemu, kernel};
    use std::sync::OnceLock;
    static READY: OnceLock<Result<(), String>> = OnceLock::new();
    let find = || {
        Qemu::find().map_err(|error| error.to_string())?;
        let cache = kernel::Cache::of_user().map_err(|error| error.to_string())?;
        for name in ["rt", "standard"] {
            kernel::find(name, &cache, &mut |_| {}).map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    READY.get_or_init(find).clone()
}

/// Runs `lab` to its end: a boot takes its time on a machine that others use too.
pub fn lab(place: &Place, arguments: &[&str]) -> Ended {
    let words = [&["lab"], arguments].concat();
    place
        .start(&words)
        .end_within(std::time::Duration::from_secs(400))
}

/// Whether anything of QEMU runs that was started in a place.
pub fn machines(place: &Place) -> usize {
    place
        .processes()
        .iter()
        .filter_map(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok())
        .filter(|name| name.starts_with("qemu"))
        .count()
}

#[test]
fn what_the_tests_need_is_named() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/need"));
    assert!(text.expect("scripts/need").contains("qemu-system-x86"));
}
