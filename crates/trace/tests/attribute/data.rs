//! Windows that were recorded on a real kernel, and a run they belong to.
#![allow(dead_code, reason = "each test program takes what it needs")]

use std::fs;
use std::path::{Path, PathBuf};

use punctual_record::{Document, Run};
use punctual_trace::attribute::event::Window;

/// Kinds of window; there are three of each.
pub const NAMES: [&str; 5] = ["quiet", "preempt-off", "irqs-off", "hog", "flood"];

pub fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../trace/tests/data")
        .join(name)
}

pub fn window(name: &str) -> Window {
    let text = fs::read(data("windows").join(format!("{name}.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

/// A run that doesn't say when it started.
pub fn run() -> Run {
    let path = data("../../../record/tests/data/run-2.json");
    let mut run = Run::parse(&path, &fs::read(&path).unwrap()).unwrap();
    run.start_ns = None;
    run
}
