//! A real browser reads the page: it renders, asks for nothing, complains of
//! nothing, and fits a telephone.

// A test that is skipped says so.
#![allow(clippy::print_stderr, reason = "a skipped test says so")]

use super::fixtures as report_fixtures;

use std::path::Path;
use std::process::Command;

use crate::needs::Absent;
use punctual_report::html;

/// The document as the browser has it after loading, and what it logged.
pub fn render(page: &Path, profile: &Path, more: &[&str]) -> Option<(String, String)> {
    let browser = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok());
    let Some(browser) = browser else {
        Absent::program("chromium").report();
        return None;
    };
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--v=0",
        ])
        .args([
            "--disable-dev-shm-usage",
            "--virtual-time-budget=3000",
            "--window-size=1000,800",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(more)
        .arg("--dump-dom")
        .arg(format!("file://{}", page.display()))
        .output()
        .expect("the browser starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Some((text(&output.stdout), text(&output.stderr)))
}

#[test]
fn the_page_renders_and_the_console_stays_silent() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    for (name, run) in [
        ("good", report_fixtures::good()),
        ("hostile", report_fixtures::hostile()),
        ("empty", report_fixtures::no_samples()),
    ] {
        let page = scratch.path().join(format!("{name}.html"));
        std::fs::write(&page, html::page(&run)).expect("the page is written");
        let Some((dom, log)) = render(&page, &scratch.path().join("profile"), &[]) else {
            return;
        };
        assert!(
            dom.contains("How to read this page"),
            "{name}: {dom}\n{log}"
        );
        assert!(!log.contains("CONSOLE"), "{name}: {log}");
        let pictures = dom.matches("<svg").count();
        // Each in two forms; a hostile run says nothing of when its samples came.
        let expected = match name {
            "good" => 8,
            "hostile" => 6,
            _ => 0,
        };
        assert_eq!(pictures, expected, "{name}");
        // A hostile name stayed text: the browser has made no element of it.
        assert!(!dom.contains("<script") && !dom.contains("<img"), "{name}");
    }
}

#[test]
fn nothing_in_the_page_asks_for_anything_from_outside() {
    for (name, run) in report_fixtures::all() {
        let page = html::page(&run);
        for word in [
            "http://",
            "https://",
            "<script",
            "<img",
            "<iframe",
            "@import",
            "url(",
            " onload=",
            "javascript:",
        ] {
            assert!(!page.contains(word), "{name}: {word}");
        }
        // What it links to is within it.
        for reference in ["src=", "href="] {
            for rest in page.split(&format!(" {reference}\"")).skip(1) {
                assert!(
                    rest.starts_with('#') || rest.starts_with("data:,"),
                    "{name}: {}",
                    &rest[..20]
                );
            }
        }
    }
}

#[test]
fn the_essentials_are_there_as_text() {
    let page = html::page(&report_fixtures::virtual_machine()).replace('\u{a0}', " ");
    for text in [
        "INVALID",
        "requested fifo 80, found other on CPU 0-1",
        "119,667",
        "NOT IN FORCE",
        "ask for a higher priority with -p",
        "1.4 %",
        "CPU 1, which is probed, was taken offline",
        "no longer valid",
        "FAILED: fork",
        "nanosleep, intervals of primes near 1 ms (seed 2026)",
        "prefers-color-scheme:dark",
        "<title id=\"histogram-wide-title\">",
        "scope=\"col\"",
        "scope=\"row\"",
        "lang=\"en\"",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let page = html::page(&report_fixtures::unfinished());
    assert!(page.contains("UNFINISHED"));
}

#[test]
fn every_id_is_there_once_and_every_element_is_closed() {
    for (name, run) in report_fixtures::all() {
        let page = html::page(&run);
        let mut ids: Vec<&str> = page
            .split(" id=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all, "{name}");
        for element in [
            "svg", "g", "table", "tr", "td", "th", "section", "figure", "div", "dl", "text",
            "details",
        ] {
            let opened = page.matches(&format!("<{element} ")).count()
                + page.matches(&format!("<{element}>")).count();
            let closed = page.matches(&format!("</{element}>")).count();
            assert_eq!(opened, closed, "{name}: {element}");
        }
    }
}

/// The page is put into a frame of 400 pixels, and the frame asked how wide its
/// content is.
#[test]
fn a_telephone_never_scrolls_sideways() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    for (name, run) in report_fixtures::all() {
        let page = scratch.path().join("page.html");
        std::fs::write(&page, html::page(&run)).expect("the page is written");
        let outer = scratch.path().join("outer.html");
        std::fs::write(
            &outer,
            "<!DOCTYPE html><iframe id=f src=page.html style='width:400px;height:800px;border:0'></iframe>\
             <p id=o>none</p><script>onload=function(){var d=f.contentDocument.documentElement;\
             o.textContent='width '+d.scrollWidth+' of '+d.clientWidth;}</script>",
        )
        .expect("the frame is written");
        let more = ["--allow-file-access-from-files"];
        let Some((dom, log)) = render(&outer, &scratch.path().join("profile"), &more) else {
            return;
        };
        let said = dom
            .split("<p id=\"o\">")
            .nth(1)
            .and_then(|rest| rest.split('<').next());
        let said = said.unwrap_or_else(|| panic!("{name}: {dom}\n{log}"));
        let widths: Vec<u32> = said
            .split(' ')
            .filter_map(|word| word.parse().ok())
            .collect();
        assert_eq!(widths.len(), 2, "{name}: {said} {log}");
        assert!(widths[1] >= 380 && widths[0] <= widths[1], "{name}: {said}");
    }
}
