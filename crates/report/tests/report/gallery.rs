//! Draws every kind of report of every fixture. With `PUNCTUAL_GALLERY=DIR`
//! they are kept there, to be looked at.

use super::fixtures as report_fixtures;

use std::path::PathBuf;

use punctual_report::style::Style;
use punctual_report::{gnuplot, html, svg, terminal};

#[test]
fn every_fixture_can_be_shown_in_every_way() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let gallery = std::env::var_os("PUNCTUAL_GALLERY");
    let place = gallery.map_or_else(|| scratch.path().to_owned(), PathBuf::from);
    for (name, run) in report_fixtures::all() {
        let directory = place.join(name);
        std::fs::create_dir_all(&directory).expect("a directory for the fixture");
        let page = html::page(&run);
        assert!(page.len() < 1 << 20, "{name}: {} bytes", page.len());
        std::fs::write(directory.join("report.html"), page).expect("the page is written");
        for (file, text) in svg::files(&run).into_iter().chain(gnuplot::files(&run)) {
            assert!(
                !text.contains("NaN\"") && !text.contains("inf"),
                "{name}/{file}"
            );
            std::fs::write(directory.join(file), text).expect("the file is written");
        }
        let mut style = Style::plain().with_report(Some(
            "punctual-qualify-20261121T093000Z/report.html".to_owned(),
        ));
        let plain = terminal::summary(&run, &style);
        for line in plain.lines() {
            assert!(
                line.chars().count() <= 80,
                "{name}: {} columns: {line}",
                line.chars().count()
            );
        }
        std::fs::write(directory.join("summary.txt"), plain).expect("the summary is written");
        style.colour = true;
        std::fs::write(
            directory.join("summary.ansi"),
            terminal::summary(&run, &style),
        )
        .expect("written");
        style.unicode = false;
        style.colour = false;
        assert!(terminal::summary(&run, &style).is_ascii());
    }
}
