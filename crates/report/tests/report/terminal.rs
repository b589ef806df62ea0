//! What a person sees in a terminal, character by character.
//!
//! With `PUNCTUAL_BLESS=1` the files in `tests/data/report` are written anew.

use super::fixtures as report_fixtures;

use std::path::Path;

use punctual_record::condition::{FoundScheduling, Scheduling};
use punctual_record::live::{LiveLoad, LiveThread, LiveView, Note, SPARK_BUCKETS};
use punctual_record::{Condition, Demand, Fix, Standing, analyse_record};
use punctual_report::live;
use punctual_report::style::Style;
use punctual_report::{statements, terminal};
use punctual_stats::Requirement;

pub fn same_as_file(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/report")
        .join(name);
    if std::env::var_os("PUNCTUAL_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        std::fs::write(&path, text).expect("written");
    }
    let expected =
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(
        text, expected,
        "{name} differs; PUNCTUAL_BLESS=1 takes it as it is"
    );
}

#[test]
fn summaries_are_as_they_were_approved() {
    let style = Style::plain().with_report(Some(
        "punctual-qualify-20261121T093000Z/report.html".to_owned(),
    ));
    let whole = style.clone().verbose(true);
    for (name, run) in report_fixtures::all() {
        same_as_file(
            &format!("summary-{name}.txt"),
            &terminal::summary(&run, &style),
        );
        same_as_file(
            &format!("whole-{name}.txt"),
            &terminal::summary(&run, &whole),
        );
    }
}

/// A terminal of 80 columns holds the whole summary at a glance; the rest is for `-v`.
#[test]
fn a_summary_has_at_most_forty_lines() {
    let style = Style::plain().with_report(Some(
        "punctual-qualify-20261121T093000Z/report.html".to_owned(),
    ));
    for (name, run) in report_fixtures::all() {
        let text = terminal::summary(&run, &style);
        let lines = text.lines().count();
        assert!(lines <= 40, "{name}: {lines} lines\n{text}");
        assert!(
            text.contains("report.html"),
            "{name}: where the record is\n{text}"
        );
        assert!(
            text.contains("punctual report -v punctual-qualify-"),
            "{name}\n{text}"
        );
    }
    // What decides and what to do about it stands in the short form of an explained run.
    let text = terminal::summary(&report_fixtures::explained(), &style);
    for words in [
        "Not in force: priority",
        "Latency in µs",
        "Bound",
        "Who stole the time",
        "93",
        "What to do",
        "isolcpus=0-1",
    ] {
        assert!(text.contains(words), "{words}\n{text}");
    }
    // No tab, no line that wraps.
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
}

#[test]
fn the_verdict_stands_first_and_once() {
    for (name, run) in report_fixtures::all() {
        let sentence = terminal::verdict_line(&run, &Style::plain());
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for verbose in [false, true] {
            let style = Style::plain().verbose(verbose);
            let (text, sentence) = (flat(&terminal::summary(&run, &style)), flat(&sentence));
            assert!(text.starts_with(&sentence), "{name}");
            assert_eq!(text.matches(&sentence).count(), 1, "{name}: {text}");
            let word = run.verdict.as_ref().map(|verdict| verdict.outcome.word());
            // Each of several requirements has a verdict of its own.
            if let Some(word) = word.filter(|_| run.request.requirements.len() < 2) {
                assert_eq!(text.matches(word).count(), 1, "{name}: {text}");
            }
        }
    }
}

/// Outcomes are not compared with what stands above them: a clock source by such a name hides none.
#[test]
fn every_outcome_stands_whatever_a_condition_is_called() {
    let mut run = report_fixtures::good();
    let limits = [1_000_000_000, 2_000_000_000];
    run.request.requirements = limits.map(|limit_ns| Requirement::Max { limit_ns }).into();
    run.request.best_effort = true;
    run.conclude(analyse_record(&run).expect("an analysis"));
    let outcomes = statements::reasons(&run);
    assert_eq!(outcomes.len(), 2, "{outcomes:?}");
    run.demands.extend(outcomes.iter().map(|outcome| {
        let source = outcome.clone();
        let fix = || Fix::PreemptRt;
        Demand::requested(Condition::ClockSource { source }, false, fix)
    }));
    run.conclude(analyse_record(&run).expect("an analysis"));
    let text = terminal::summary(&run, &Style::plain());
    for outcome in &outcomes {
        let mut lines = text.lines().map(str::trim_start);
        let line = format!("- {outcome}");
        assert!(lines.any(|it| it == line), "{outcome}: {text}");
    }
}

#[test]
fn colour_changes_no_character() {
    let run = report_fixtures::virtual_machine();
    let mut style = Style::plain();
    let plain = terminal::summary(&run, &style);
    style.colour = true;
    let coloured = terminal::summary(&run, &style);
    assert!(coloured.contains("\x1b[1;35mINVALID\x1b[0m"));
    let mut bare = String::new();
    let mut rest = coloured.as_str();
    while let Some(at) = rest.find('\x1b') {
        bare.push_str(&rest[..at]);
        rest = rest[at..].split_once('m').map_or("", |pair| pair.1);
    }
    bare.push_str(rest);
    assert_eq!(bare, plain);
}

/// A run under way on 4 CPUs, one of them late.
pub fn view(cpus: usize) -> LiveView {
    let thread = |cpu: usize| {
        let mut spark = [0u64; SPARK_BUCKETS];
        for (i, count) in [120, 8_000, 15_200, 9_800, 2_100, 410, 55, 6, 1]
            .into_iter()
            .enumerate()
        {
            spark[i + 1] = count;
        }
        if cpu == 2 {
            spark[13] = 1;
        }
        LiveThread {
            cpu,
            tid: 4711 + cpu as i32,
            priority: 80,
            interval_ns: 1_000_000,
            count: 36_000,
            min_ns: 1_934,
            act_ns: 3_104,
            avg_ns: 3_421.5,
            p999_ns: Some(12_440),
            max_ns: if cpu == 2 { 2_104_000 } else { 48_100 },
            late: u64::from(cpu == 2),
            missed: if cpu == 2 { 2 } else { 0 },
            lost: 0,
            spark,
        }
    };
    let load = |name: &str, unit: &str, rate: f64, failed| LiveLoad {
        name: name.into(),
        unit: unit.into(),
        rate,
        failed,
    };
    LiveView {
        verb: "qualify".into(),
        elapsed_ns: 36_000_000_000,
        total_ns: Some(60_000_000_000),
        deadline_ns: Some(100_000),
        threads: (0..cpus).map(thread).collect(),
        loads: vec![
            load("hackbench", "messages", 412_345.6, false),
            load("fork", "processes", 1_204.0, false),
            load("files", "MB", 0.0, true),
        ],
        nanoseconds: false,
        notes: vec![Note::Unmet(refused_priority())],
        gaps: false,
        messages: false,
    }
}

/// A priority that was requested and refused.
fn refused_priority() -> Demand {
    let found = FoundScheduling {
        cpus: vec![0],
        scheduling: Some(Scheduling::Other),
        error: None,
    };
    Demand {
        condition: Condition::Priority {
            requested: Scheduling::Fifo { priority: 99 },
            found: vec![found],
            refused: None,
        },
        standing: Standing::NotInForce,
        fix: None,
    }
}

/// What a narrow terminal has no room for is left out, whole; nothing wraps, the maximum
/// stays, and no unit is so large that figures become nothing.
#[test]
fn narrow_terminals_lose_columns_and_neither_unit_nor_maximum() {
    for width in [40, 50, 60, 80, 200] {
        let style = Style {
            width,
            ..Style::plain()
        };
        for (name, run) in report_fixtures::all() {
            let fits = |text: &str| {
                for line in text.lines() {
                    let columns = line.chars().count();
                    assert!(columns <= width.min(120), "{name} at {width}: {line}");
                }
            };
            fits(&terminal::summary(&run, &style));
            let text = terminal::summary(&run, &style.clone().verbose(true));
            fits(&text);
            let after = |heading: &str| {
                let at = text
                    .lines()
                    .skip_while(|line| !line.trim().starts_with(heading));
                at.map(str::to_owned).collect::<Vec<_>>()
            };
            let latency = after("Latency in ");
            let heading = latency.get(1).is_none_or(|line| line.contains("max"));
            assert!(heading, "{name} at {width}: {text}");
            if name == "good" || name == "explained" {
                assert!(latency[0].starts_with("Latency in µs"), "{width}");
            }
            for heading in ["Stage, in µs", "total µs"] {
                let Some(line) = after(heading).first().cloned() else {
                    assert!(!name.starts_with("explained"), "{name} at {width}");
                    continue;
                };
                let last = if heading == "total µs" {
                    "cause"
                } else {
                    "max"
                };
                assert!(line.ends_with(last), "{name} at {width}: {line}");
            }
        }
        let live = live::status_lines(&view(4), &style);
        assert!(
            live[1].contains("/µs") && live[1].contains("max"),
            "{live:?}"
        );
    }
}

#[test]
fn live_lines_are_as_they_were_approved() {
    let mut text = String::new();
    let mut style = Style::plain();
    let mut add = |title: &str, lines: Vec<String>| {
        text += &format!("## {title}\n");
        lines.iter().for_each(|line| text += &format!("{line}\n"));
    };
    add("80 columns", live::status_lines(&view(4), &style));
    add("64 CPUs", live::status_lines(&view(64), &style));
    style.unicode = false;
    add("ASCII", live::status_lines(&view(4), &style));
    style.width = 50;
    add("50 columns", live::status_lines(&view(4), &style));
    add(
        "no end, no samples",
        live::status_lines(
            &LiveView {
                verb: "measure".into(),
                threads: vec![LiveThread::default()],
                ..LiveView::default()
            },
            &style,
        ),
    );
    add("plain", vec![live::plain_line(&view(4))]);
    add("cyclictest", live::cyclictest_lines(&view(4)));
    same_as_file("live.txt", &text);
    if let Some(gallery) = std::env::var_os("PUNCTUAL_GALLERY") {
        let style = Style {
            colour: true,
            ..Style::plain()
        };
        let lines = live::status_lines(&view(4), &style).join("\n");
        std::fs::write(Path::new(&gallery).join("live.ansi"), lines).expect("written");
    }
}
