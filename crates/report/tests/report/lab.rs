//! The page of a lab: every figure is there as text, its links lead to the runs and nowhere
//! else, and no name becomes markup.

use super::browser::render;
use super::labs;

use punctual_record::laboratory::GuestTime;
use punctual_report::formats::{Format, write};
use punctual_report::lab::page;
use punctual_report::{conditions, html};

fn flat(page: &str) -> String {
    page.replace('\u{a0}', " ")
}

#[test]
fn the_matrix_has_every_figure_its_ratio_and_its_function() {
    let page = flat(&page(&labs::lab(), ""));
    for text in [
        "<a href=\"./standard/poll/report.html\">5,035,049</a>",
        "×1,034",
        "do_sys_poll 75%",
        "p99 4,500 · mean 4,100",
        "<a href=\"./standard/fork/stdout\">47,455</a>",
        "<td class=\"bad\">no result</td>",
        "the guest&#39;s kernel panicked: x",
        "FAIL: 3 of 2,402 step() took longer than 500 µs (the longest 1.37 ms); none may.",
        "47,455 instructions later than at its earliest",
        "standard, fork: no function is named: not traced.",
        "SMIs",
        "No real time:",
        "6.1.0-49-rt-amd64 preempt=full",
        "1234567890abcdef1234",
        "QEMU 7.2.22",
        "1,234,567 virtual ns",
        "Each row stands on at least 5,000 wake-ups and one seed",
        "prefers-color-scheme:dark",
        "lang=\"en\"",
    ] {
        assert!(page.contains(text), "{text}");
    }
    // The first machine is what the others are held against.
    assert!(!page.contains("×1.00"), "{page}");
}

#[test]
fn links_lead_to_the_runs_alone() {
    let mut lab = labs::lab();
    lab.cells[0].directory = "javascript:alert(1)".to_owned();
    lab.cells[1].directory = "a b/\"><script>".to_owned();
    for base in ["", "/a place/labs", "javascript:alert(2)"] {
        let page = page(&lab, base);
        for word in ["<script", "<img", "http://", "https://", "@import", "url("] {
            assert!(!page.contains(word), "{word}");
        }
        let links: Vec<&str> = page
            .split(" href=\"")
            .skip(1)
            .map(|rest| &rest[..rest.find('"').expect("its end")])
            .collect();
        assert_eq!(links.len(), 6, "{links:?}");
        for link in &links[1..] {
            assert!(!link.contains([':', ' ', '<', '>']), "{link}");
            let inside = link.ends_with("/report.html") || link.ends_with("/stdout");
            assert!(inside, "{link}");
        }
        if base.is_empty() {
            assert_eq!(links[1], "./javascript%3Aalert%281%29/report.html");
        }
    }
}

#[test]
fn hostile_names_stay_text_and_a_browser_complains_of_nothing() {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let hostile = "<img src=x onerror=alert(1)>\u{1}";
    let mut odd = labs::lab();
    for cell in &mut odd.cells {
        cell.kernel += hostile;
        cell.load += hostile;
        if let Some(bill) = cell.bills.first_mut() {
            bill.rows[0].function += hostile;
            bill.total_ns = 0;
        }
        if let Some(figures) = &mut cell.figures {
            figures.mean_ns = f64::NAN;
            figures.max_ns = u64::MAX;
            figures.samples = u64::MAX;
        }
        if let Some(laboratory) = &mut cell.laboratory {
            laboratory.parameters.push(hostile.to_owned());
            laboratory.virtual_ns = u64::MAX;
        }
    }
    let mut empty = labs::lab();
    empty.cells.clear();
    for (name, lab) in [
        ("good", labs::lab()),
        ("odd", odd),
        ("empty", empty),
        ("executed", labs::executed()),
    ] {
        let text = page(&lab, "");
        assert!(!text.contains("<img"), "{name}");
        let file = scratch.path().join(format!("{name}.html"));
        std::fs::write(&file, &text).expect("the page is written");
        let Some((dom, log)) = render(&file, &scratch.path().join("profile"), &[]) else {
            return;
        };
        assert!(
            dom.contains("What this shows, and what it does not show"),
            "{name}"
        );
        assert!(!log.contains("CONSOLE"), "{name}: {log}");
        assert!(!dom.contains("<img"), "{name}");
    }
}

/// A guest's clock tells no date.
#[test]
fn a_run_in_virtual_time_has_no_date() {
    let mut run = super::fixtures::good();
    run.started = "2020-01-01T00:00:07Z".to_owned();
    let junit = |run: &punctual_record::Run| write(Format::Junit, run).expect("a test suite");
    assert!(junit(&run).contains("timestamp=\"2020-01-01T00:00:07\""));
    run.laboratory = Some(labs::laboratory("rt"));
    for text in [junit(&run), html::page(&run)] {
        assert!(!text.contains("2020-01-01"), "{text}");
        assert!(text.contains("virtual time"), "{text}");
    }
    if let Some(laboratory) = &mut run.laboratory {
        laboratory.time = GuestTime::Host;
    }
    assert_eq!(conditions::begun(&run), "an emulator's time");
}
