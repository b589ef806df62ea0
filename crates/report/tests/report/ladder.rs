//! What a ladder says: each end, its table, its code, its page.

use std::path::Path;

use punctual_record::ladder::*;
use punctual_report::formats::{Format, detect_and_parse, write};
use punctual_report::ladder::{Language, example, lines, page, sentence, summary};
use punctual_report::style::Style;
use punctual_report::summary_json;
use punctual_report::words::duration;
use punctual_stats::Histogram;
use serde_json::Value;

use crate::formats::schema::published;
use crate::ladders::{ladder, of_every_kind, single};

fn said(change: impl Fn(&mut Ladder)) -> String {
    let mut changed = ladder();
    change(&mut changed);
    sentence(&changed)
}

#[test]
fn ladders_of_every_kind_are_valid_under_the_schema() {
    let validator = jsonschema::validator_for(&published("ladder-1")).expect("a schema");
    for ladder in of_every_kind() {
        let mut value = serde_json::to_value(&ladder).expect("JSON");
        assert!(validator.is_valid(&value), "{value}");
        value["rungs"][0]["rung"] = "seventh".into();
        assert!(!validator.is_valid(&value));
    }
}

#[test]
fn each_end_has_its_sentence() {
    assert_eq!(
        said(|_| ()),
        "Helps: priority; no effect shown: absolute sleep, locked memory."
    );
    assert_eq!(said(|it| it.outcome = None), "The ladder has not ended.");
    assert_eq!(
        said(|it| it.outcome = Some(LadderOutcome::Stopped)),
        "INCONCLUSIVE: it was ended by a signal; 15 of at least 12 rounds have both blocks of \
         every comparison."
    );
    assert_eq!(
        said(|it| it.blocks[0].left_out = Some(RungLeftOut::NotInForce)),
        "INVALID: in 1 block the kernel did not have the thread set up as its rung says."
    );
    let all: Vec<String> = of_every_kind().iter().map(sentence).collect();
    for says in [
        "Another program changed /proc/irq/7/smp_affinity_list to 0-3 meanwhile",
        "could not be measured to its end: no permission.",
        "INVALID: the load failed or stopped working",
        "priority: 30,000 cycles, p50 ",
    ] {
        let is_said = all.iter().any(|it| it.contains(says));
        assert!(is_said, "{says}: {all:#?}");
    }
}

#[test]
fn the_table_has_each_measured_rung_and_the_reasons_of_the_others() {
    let text = summary(&ladder(), &Style::plain());
    let row = |name: &str| {
        let mut lines = text.lines();
        lines.find(|line| line.starts_with(name)).expect(name)
    };
    assert!(row("relative sleep").contains(" 465"), "31 faults a block");
    let response = &ladder().rung(Rung::Priority).expect("it").response.clone();
    let response = Histogram::try_from(response).expect("a histogram");
    for share in [0.5, 0.99, 0.999] {
        let figure = duration(response.supported_quantile(share).expect("a figure"));
        assert!(row("+ priority 80").contains(&figure), "{figure}: {text}");
    }
    assert!(row("+ locked memory").contains(" 0 "), "{text}");
    assert!(!text.contains("+ affinity"), "{text}");
    for says in [
        "affinity: punctual may use one CPU",
        "Permission denied (os error 13); run it as root",
        "control: locked memory",
        "no effect, as it must be",
        "thread = thread.policy(Policy::Fifo(80));",
        "attr.policy = PUNCTUAL_FIFO;",
        "15 rounds",
    ] {
        let is_said = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(is_said.contains(says), "{says}: {text}");
    }
}

#[test]
fn a_ladder_of_any_kind_is_shown_in_lines_that_fit_and_as_a_page_that_loads_nothing() {
    for ladder in of_every_kind() {
        for width in [40, 80, 200] {
            let style = Style {
                width,
                ..Style::plain()
            };
            let text = summary(&ladder, &style);
            let widest = text.lines().map(|line| line.chars().count()).max();
            assert!(widest <= Some(width), "{width}: {text}");
        }
        let page = page(&ladder);
        assert!(page.contains("The lines that take each step"), "{page}");
        assert!(!page.contains("<script"), "{page}");
        let json: Value = serde_json::from_str(&summary_json::of_ladder(&ladder)).expect("JSON");
        assert_eq!(json["sentence"], sentence(&ladder));
        assert!(json["rungs"][0]["response"]["encoded"].is_null());
    }
}

#[test]
fn the_lines_of_a_step_are_lines_of_the_whole_program() {
    for language in Language::ALL {
        let whole: Vec<&str> = example(language).lines().map(str::trim).collect();
        for rung in Rung::ALL {
            for line in lines(language, rung) {
                assert!(whole.contains(&line.trim()), "{line}");
            }
        }
    }
}

#[test]
fn a_single_rung_is_a_run_and_a_whole_ladder_is_none() {
    let parse = |ladder: &Ladder| {
        let bytes = serde_json::to_vec(ladder).expect("JSON");
        detect_and_parse(Path::new("ladder.json"), &bytes)
    };
    let one = single();
    let run = parse(&one).expect("a run");
    let rung = one.rung(Rung::Priority).expect("it");
    let latency = &run.threads[0].latency;
    assert_eq!(latency.count, rung.response.count);
    assert_eq!(latency.min_ns, rung.response.min_ns);
    assert_eq!(latency.max_ns, rung.response.max_ns);
    assert_eq!((run.request.priority, run.threads[0].cpu), (80, None));
    assert!(write(Format::Csv, &run).is_ok());
    let refused = parse(&ladder()).expect_err("several rungs").to_string();
    assert!(refused.contains("a ladder of several rungs"), "{refused}");
}
