//! Datasets from runs with known figures, and what engines answer.

#[path = "../../../punctual/tests/common/needs.rs"]
mod needs;

mod duckdb;
#[path = "../../../record/tests/made/runs.rs"]
mod made;
mod outliers;
#[path = "../../examples/sample.rs"]
#[allow(dead_code, reason = "it is a program of its own")]
mod sample;
mod spark;
mod states;

use std::path::{Path, PathBuf};

use needs::Absent;
use punctual_fleet::{Naming, Rows, Unfit};
use punctual_record::Run;

const NAMING: Naming = Naming {
    cause: |cause| format!("{cause:?}"),
    source: |source| format!("{source:?}"),
    hypervisor: |hypervisor| format!("{hypervisor:?}"),
};

fn rows(run: &Run) -> Result<Rows, Unfit> {
    Rows::of(run, "/a/run", &NAMING)
}

/// `duckdb` in the path, or the one that `make test` has unpacked.
fn engine() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    places.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools/usr/bin"));
    let mut found = places.into_iter().map(|place| place.join("duckdb"));
    let found = found.find(|file| file.is_file());
    if found.is_none() {
        Absent::program("duckdb").report();
    }
    found
}
