//! gnuplot itself draws what we write for it.

// A test that is skipped says so.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use super::fixtures as report_fixtures;

use std::process::Command;

use crate::needs::{self, need};
use punctual_report::gnuplot;

#[test]
fn gnuplot_draws_every_fixture_without_a_word() {
    need!(needs::program("gnuplot"));
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let gallery = std::env::var_os("PUNCTUAL_GALLERY").map(std::path::PathBuf::from);
    for (name, run) in report_fixtures::all() {
        let directory = gallery.as_deref().unwrap_or(scratch.path()).join(name);
        std::fs::create_dir_all(&directory).expect("a directory");
        for (file, text) in gnuplot::files(&run) {
            std::fs::write(directory.join(file), text).expect("written");
        }
        let output = Command::new("gnuplot")
            .arg(gnuplot::SCRIPT)
            .current_dir(&directory)
            .output()
            .expect("gnuplot starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{name}: {said}");
        let png = std::fs::read(directory.join("latency.png")).expect("latency.png");
        assert!(
            png.starts_with(b"\x89PNG") && png.len() > 2000,
            "{name}: {} bytes",
            png.len()
        );
        let timeline = directory.join("timeline.png").exists();
        assert_eq!(timeline, name != "empty", "{name}");
    }
}
