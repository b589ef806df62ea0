//! What an experiment says: to the terminal, in the page, as a picture.

use punctual_record::Run;
use punctual_record::experiment::{Experiment, LeftOut, Phase};
use punctual_report::chart::Form;
use punctual_report::style::Style;
use punctual_report::{experiment, html, summary_json, terminal};
use punctual_stats::experiment::{MainEffect, Measure, Screened};
use punctual_stats::verdict::Outcome;

use crate::{experiments, support};

fn run_with(experiment: Experiment) -> Run {
    let mut run = support::run(1);
    run.verb = "prove".to_owned();
    run.experiment = Some(experiment);
    run
}

#[test]
fn the_summary_names_what_helps_and_what_harms() {
    let run = run_with(experiments::experiment());
    let text = terminal::summary(&run, &Style::plain());
    let first = text.lines().next().unwrap();
    assert_eq!(
        first,
        "vmstat-interval helps; /proc/sys/vm/swappiness harms."
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let row = |name: &str| {
        text.lines()
            .find(|line| line.starts_with(name))
            .unwrap()
            .to_owned()
    };
    // 0.6 of what it was, apart from the blocks' own noise.
    let p50 = text
        .lines()
        .find(|line| line.starts_with("vmstat-interval  "))
        .unwrap();
    assert!(p50.contains("p50") && p50.contains("-40 %"), "{text}");
    assert!(row("helps").contains("p99"));
    assert!(row("no effect, as it must be").contains("p99"));
    assert!(text.contains("softirq"), "{text}");
    // 16 blocks of 300 us against 16 of 100 us.
    assert!(text.contains("4.8 ms and 1.6 ms"), "{text}");
}

#[test]
fn a_measure_without_a_row_says_why() {
    let mut experiment = experiments::experiment();
    let text =
        |experiment: &Experiment| terminal::summary(&run_with(experiment.clone()), &Style::plain());
    for result in &mut experiment.results {
        let of_block = |measure| matches!(measure, Measure::P50 | Measure::Excess);
        result.effects.retain(|it| of_block(it.measure));
    }
    for figures in experiment
        .blocks
        .iter_mut()
        .filter_map(|it| it.figures.as_mut())
    {
        figures.count = 432;
    }
    let said = text(&experiment)
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    let why = "Not compared p99, p99.9: ten wake-ups of each block must lie beyond it, and one has \
               432 wake-ups in all";
    assert!(said.contains(why), "{said}");
    for result in &mut experiment.results {
        result.effects.clear();
    }
    assert!(!text(&experiment).contains("Not compared"));
}

#[test]
fn a_table_has_all_of_the_terminals_width() {
    let mut experiment = experiments::experiment();
    experiment.knobs[0].name = "x".repeat(100);
    let heads = |width: usize| {
        let style = Style {
            width,
            ..Style::plain()
        };
        let text = terminal::summary(&run_with(experiment.clone()), &style);
        text.lines()
            .any(|line| line.contains("measure") && line.contains("interval"))
    };
    assert!(!heads(130), "it has no room");
    assert!(heads(200));
}

#[test]
fn a_control_with_an_effect_makes_everything_invalid() {
    let run = run_with(experiments::with_failed_control());
    assert_eq!(experiment::outcome(&run), Some(Outcome::Invalid));
    let text = terminal::summary(&run, &Style::plain());
    assert!(text.starts_with("INVALID: the control"), "{text}");
}

#[test]
fn a_budget_that_is_too_small_is_refused_with_one_that_is_enough() {
    let all = experiments::of_every_kind();
    let wanted = all.iter().find(|it| it.wanted.is_some()).unwrap();
    let run = run_with(wanted.clone());
    let sentence = experiment::sentence(&run);
    assert!(sentence.contains("a change of 20 % in p99.9"), "{sentence}");
    assert!(sentence.contains("give -D 120m"), "{sentence}");
    assert_eq!(experiment::outcome(&run), Some(Outcome::Inconclusive));
    // Without results the summary says what changes take.
    let text = terminal::summary(&run, &Style::plain());
    assert!(text.contains("Time that it takes to show"), "{text}");
    assert!(text.contains("never") && text.contains("2 h"), "{text}");
}

#[test]
fn every_experiment_can_be_shown_in_every_way() {
    for made in experiments::of_every_kind() {
        let mut style = Style::plain();
        let run = run_with(made.clone());
        for line in terminal::summary(&run, &style).lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        style.unicode = false;
        assert!(terminal::summary(&run, &style).is_ascii());
        let page = html::page(&run);
        assert!(page.contains("Which knob helped?"));
        // The banner judges the experiment: no verdict on the machine stands beside it.
        let invalid = page.contains(">INVALID</h1>");
        assert_eq!(invalid, made.control_fails());
        assert!(!page.contains("NO VERDICT"));
        let has_results = made.results.iter().any(|result| !result.effects.is_empty());
        assert_eq!(page.contains("Changes by knob"), has_results);
        assert!(!page.contains("NaN") && !page.contains(">inf"));
        assert!(!experiment::progress(&made, 61_000_000_000).is_empty());
        let json: serde_json::Value = serde_json::from_str(&summary_json::summary(&run)).unwrap();
        assert!(json["experiment"]["knobs"].is_array());
    }
}

#[test]
fn a_hostile_name_is_text() {
    let mut made = experiments::experiment();
    made.knobs[0].name = "<script>\u{1b}[31m".to_owned();
    let run = run_with(made);
    assert!(!html::page(&run).contains("<script>"));
}

#[test]
fn what_too_many_left_out_blocks_leave_open_is_no_pass() {
    let mut made = experiments::experiment();
    let outcome = |made: &Experiment| experiment::outcome(&run_with(made.clone()));
    assert_eq!(outcome(&made), Some(Outcome::Pass));
    for block in made.blocks.iter_mut().filter(|it| it.knob == Some(1)) {
        block.left_out = Some(LeftOut::SlowSwitching);
    }
    made.judge();
    assert_eq!(outcome(&made), Some(Outcome::Inconclusive));
    let sentence = experiment::sentence(&run_with(made.clone()));
    assert!(
        sentence.starts_with("INCONCLUSIVE: too many blocks"),
        "{sentence}"
    );
    assert!(sentence.contains("vmstat-interval helps"), "{sentence}");
    // Without a screening every knob should have pairs.
    made.blocks.retain(|it| it.knob != Some(1));
    made.judge();
    assert_eq!(outcome(&made), Some(Outcome::Inconclusive));
    // A knob that a screening has sorted out has none.
    made.blocks[0].phase = Phase::Screening;
    made.screened = vec![
        Screened {
            pairs: 1,
            effects: vec![MainEffect {
                measure: Measure::P99,
                ratio: 1.0,
                interval: (0.9, 1.1),
                p: 1.0,
            }],
        };
        made.knobs.len()
    ];
    assert_eq!(outcome(&made), Some(Outcome::Pass));
}

#[test]
fn the_confidence_has_the_digits_that_were_given() {
    for (confidence, wanted) in [
        (
            0.95,
            "95 %: if no knob had any effect, one would be named in at most 5 %",
        ),
        (
            0.999,
            "99.9 %: if no knob had any effect, one would be named in at most 0.1 %",
        ),
        (
            0.999_999,
            "99.9999 %: if no knob had any effect, one would be named in at most 0.0001 %",
        ),
    ] {
        let mut made = experiments::experiment();
        made.confidence = confidence;
        let text = terminal::summary(&run_with(made), &Style::plain());
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(words.join(" ").contains(wanted), "{text}");
    }
}

/// A pilot of few blocks may have seen no burst.
#[test]
fn what_could_be_shown_follows_from_the_pairs_and_not_from_the_pilot() {
    let could = |made: &Experiment| {
        let text = terminal::summary(&run_with(made.clone()), &Style::plain());
        let line = text.lines().find(|line| line.starts_with("Could show"));
        line.unwrap().to_owned()
    };
    let mut made = experiments::experiment();
    let before = could(&made);
    for spread in &mut made.pilot.as_mut().unwrap().spreads {
        spread.difference_sd *= 0.01;
    }
    assert_eq!(could(&made), before);
    // Every other pair is four times as late.
    for block in made
        .blocks
        .iter_mut()
        .filter(|it| it.pair.is_some_and(|pair| pair % 8 < 4))
    {
        let side = if block.on.is_empty() { 4 } else { 1 };
        let figures = block.figures.as_mut().unwrap();
        figures.p50_ns = figures.p50_ns.map(|ns| ns * side);
    }
    made.judge();
    assert_ne!(could(&made), before);
}

#[test]
fn the_axis_of_the_picture_names_its_middle() {
    for widest in [1.01, 1.3, 3.0, 50.0] {
        let mut made = experiments::experiment();
        let effects = made.results.iter_mut().flat_map(|it| &mut it.effects);
        effects.for_each(|effect| effect.interval = (1.0 / widest, widest));
        for form in [Form::Narrow, Form::Wide] {
            let picture = experiment::draw(&made, form, "forest").unwrap();
            assert_eq!(picture.matches(">0 %<").count(), 1, "{widest} {picture}");
        }
    }
}

/// With a name too long for a table each measure stands below its knob, and each row of a narrow page
/// has its name.
#[test]
fn on_a_narrow_terminal_and_page_every_figure_has_the_name_of_its_knob() {
    let mut made = experiments::experiment();
    let long = "/sys/devices/virtual/workqueue/writeback/a/rather/long/name/cpumask";
    made.knobs[0].name = long.to_owned();
    let run = run_with(made);
    for width in [40, 80] {
        let style = Style {
            width,
            ..Style::plain()
        };
        let text = terminal::summary(&run, &style.verbose(true));
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines.iter().all(|line| line.chars().count() <= width),
            "{text}"
        );
        let joined = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let head = format!("{long}: helps p50 ");
        // A name that has no room in a line is broken.
        let squeezed = |text: &str| text.replace(' ', "");
        assert!(squeezed(&joined).contains(&squeezed(&head)), "{text}");
        assert!(joined.contains("p99.9 "), "{text}");
        assert!(
            joined.contains("control: no effect, as it must be p50 "),
            "{text}"
        );
    }
    let page = html::page(&run);
    let rows = page
        .split("<tr>")
        .filter(|row| row.contains("data-name=\"measure\""));
    let rows: Vec<&str> = rows.collect();
    assert_eq!(rows.len(), 16, "four knobs, four measures");
    assert!(rows[..4].iter().all(|row| row.contains(long)), "{rows:?}");
}
