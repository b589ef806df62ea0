//! The bills that a record holds: read back as they were written, added up by a merge, and
//! refused where their sums don't hold.

use std::path::Path;

use punctual_record::explanation::{
    Ancestor, Cause, Culprit, Explanation, MarkLabel, NoKernelNames, NotSeen, RowNote, SpanLabel,
    Stage, Wait,
};
use punctual_record::*;
use serde_json::{Value, json};

use super::bills::{bill_of, causes, explanation};
use super::support::run;

fn explained(seed: u64) -> Run {
    let mut run = run(seed);
    run.explanation = Some(explanation());
    run
}

fn read_back(json: &Value) -> Result<Run, String> {
    Run::parse(Path::new("run.json"), json.to_string().as_bytes()).map_err(|e| e.to_string())
}

#[test]
fn it_comes_back_as_it_was_written() {
    let run = explained(1);
    let explanation = run.explanation.as_ref().unwrap();
    assert_eq!(explanation.bills.len(), causes().len() + 1);
    assert_eq!(
        read_back(&serde_json::to_value(&run).unwrap()).unwrap(),
        run
    );
}

/// The tracer explains, and decides nothing: a run that was not traced has no bills.
#[test]
fn a_bill_makes_no_run_invalid() {
    let mut run = run(1);
    let before = invalid_reasons(&run);
    let task = "cc1".to_owned();
    let rows = [(Stage::Switch, Cause::Throttled { task }, 41_300_000)];
    run.explanation = Some(Explanation {
        bills: vec![bill_of(1, 7, &rows)],
        ..Explanation::default()
    });
    assert_eq!(invalid_reasons(&run), before);
}

#[test]
fn a_record_without_one_still_reads() {
    let mut json = serde_json::to_value(explained(1)).unwrap();
    json.as_object_mut().unwrap().remove("explanation");
    assert_eq!(read_back(&json).unwrap().explanation, None);
}

/// What is data now stood in records of version 2 as sentences: they are kept as they were.
#[test]
fn sentences_of_earlier_builds_are_read_and_kept() {
    let whole = explained(1);
    let mut json = serde_json::to_value(&whole).unwrap();
    let row = &mut json["explanation"]["bills"][0]["rows"][0];
    row.as_object_mut().unwrap().remove("notes");
    row["note"] = json!("the stack was caught");
    let picture = &mut json["explanation"]["bills"][0]["picture"];
    picture["spans"][0]["label"] = json!("swapper");
    picture["marks"][0]["label"] = json!("waking");
    json["explanation"]["missing"] = json!(["nmi_handler", {"kind": "forgotten"}]);
    json["events"] = json!([
        {"at_ns": 1, "kind": "off-cpu-names", "error": "EPERM", "invalidates": false}
    ]);
    let run = read_back(&json).unwrap();
    let text = |text: &str| text.to_owned();
    let explanation = run.explanation.as_ref().unwrap();
    let note = RowNote::Earlier {
        text: text("the stack was caught"),
    };
    assert_eq!(explanation.bills[0].rows[0].notes, [note]);
    let picture = explanation.bills[0].picture.as_ref().unwrap();
    let span = SpanLabel::Earlier {
        text: text("swapper"),
    };
    let mark = MarkLabel::Earlier {
        text: text("waking"),
    };
    assert_eq!(
        (&picture.spans[0].label, &picture.marks[0].label),
        (&span, &mark)
    );
    let lacking = NotSeen::Earlier {
        text: text("nmi_handler"),
    };
    assert_eq!(
        explanation.missing,
        [lacking, NotSeen::Forgotten { wake_ups: 0 }]
    );
    let why = NoKernelNames::Earlier {
        text: text("EPERM"),
    };
    assert_eq!(run.events[0].what, Happening::OffCpuNames { why });
    // Written as data, it is read as the same.
    let again = serde_json::to_value(&run).unwrap();
    assert_eq!(again["explanation"]["missing"][0]["kind"], "earlier");
    assert_eq!(read_back(&again).unwrap(), run);
    // A list is read whatever the field is called, and nothing else is.
    for (notes, refused) in [
        (json!(null), false),
        (json!([]), false),
        (json!(["a", {"kind": "had-cpu"}]), false),
        (json!(7), true),
        (json!([7]), true),
        (json!({"kind": "had-cpu"}), true),
        (json!([{"kind": "imaginary"}]), true),
        (json!([{"kind": "sent-from", "cpu": -1}]), true),
        (json!(vec!["a"; Explanation::NOTES + 1]), true),
    ] {
        for name in ["note", "notes"] {
            let mut json = json.clone();
            let row = &mut json["explanation"]["bills"][1]["rows"][0];
            row.as_object_mut().unwrap().remove("notes");
            row[name] = notes.clone();
            assert_eq!(read_back(&json).is_err(), refused, "{name}: {notes}");
        }
    }
}

#[test]
fn what_does_not_add_up_is_refused_with_its_place() {
    let whole = serde_json::to_value(explained(1)).unwrap();
    let bills = whole["explanation"]["bills"].clone();
    let too_many = Value::Array(vec![bills[0].clone(); Explanation::BILLS + 1]);
    let twice = json!({"stage": "interrupt", "cause": {"kind": "platform"}, "ns": 800});
    let deep = json!(vec!["f"; Explanation::FRAMES + 1]);
    let descendant = Culprit {
        parents: vec![Ancestor::default(); Culprit::PARENTS + 1],
        ..Culprit::default()
    };
    let stopped = json!([{"kind": "stopped-by", "thread": descendant}]);
    let used_up = json!([{"kind": "used-up-by", "thread": descendant}]);
    let behind = json!({"kind": "ready", "behind": descendant});
    let descendant = json!(descendant);
    for (pointer, value, place) in [
        ("/bills/0/rows/0/ns", json!(1), "bills[0].rows"),
        ("/bills/0/stages/0", json!(1), "bills[0].stages"),
        ("/bills/0/stages/0", Value::Null, "bills[0].stages"),
        ("/bills/1/latency_ns", json!(u64::MAX), "bills[1]"),
        ("/bills/1/rows/1", twice, "bills[1].rows[1]"),
        ("/bills", too_many, "bills"),
        ("/bills/0/rows/4/stack", deep, "stack"),
        (
            "/bills/0/rows/4/by/0",
            descendant.clone(),
            "bills[0].rows[4]: parents",
        ),
        (
            "/bills/0/rows/4/notes",
            stopped,
            "bills[0].rows[4]: parents",
        ),
        (
            "/bills/0/rows/4/notes",
            used_up,
            "bills[0].rows[4]: parents",
        ),
        ("/waits/0/thread", descendant.clone(), "waits[0]: parents"),
        ("/waits/0/rows/1/thread", descendant, "waits[0]: parents"),
        ("/waits/0/rows/2/doing", behind, "waits[0]: parents"),
        (
            "/bills/0/picture/spans/0/to_ns",
            json!(-300_000),
            "spans[0]",
        ),
        ("/waits/0/rows/0/ns", json!(1), "waits[0].rows"),
        ("/waits/0/total_ns", json!(1), "waits[0].total_ns"),
        ("/waits/0/rows/0/doing", json!({"kind": "gremlin"}), ""),
        ("/outliers", json!(1), "outliers"),
        ("/examined", json!(2), "examined"),
        ("/examined_ns", json!(2), "examined_ns"),
        ("/tail_ns", json!(2), "tail_ns"),
        ("/ranking/0/worst_ns", json!(u64::MAX), "ranking[0]"),
        ("/ranking/0/count", json!(u64::MAX), "ranking[0]"),
        (
            "/ranking/1/cause",
            whole["explanation"]["ranking"][0]["cause"].clone(),
            "ranking[1]",
        ),
        ("/stages/1/stage", json!("interrupt"), "stages[1]"),
        ("/stages/1/times/count", json!(1), "stages[1]"),
        ("/bills/0/stages", json!([1, 2]), ""),
        ("/bills/0/rows/0/cause", json!({"kind": "gremlin"}), ""),
    ] {
        let mut json = whole.clone();
        *json["explanation"].pointer_mut(pointer).unwrap() = value;
        let error = read_back(&json).map(drop).expect_err(pointer);
        assert!(
            error.contains("explanation") && error.contains(place),
            "{pointer}: {error}"
        );
    }
}

#[test]
fn a_merge_adds_rankings_and_keeps_the_worst_bills() {
    let (first, second) = (explained(1), explained(2));
    let alone = first.explanation.clone().unwrap();
    let merged = merge(&[first, run(3), second], true, Vec::new()).unwrap();
    let sum = merged.explanation.as_ref().unwrap();
    assert_eq!(sum.examined, 2 * alone.examined);
    assert_eq!(sum.outliers, 2 * alone.outliers);
    assert_eq!(sum.ranking.len(), alone.ranking.len());
    for (sum, one) in sum.ranking.iter().zip(&alone.ranking) {
        assert_eq!((&sum.cause, sum.worst_ns), (&one.cause, one.worst_ns));
        assert_eq!(
            (sum.count, sum.total_ns, sum.tail_ns),
            (2 * one.count, 2 * one.total_ns, 2 * one.tail_ns)
        );
    }
    assert_eq!(sum.stages[0].times.count, 2 * alone.stages[0].times.count);
    assert_eq!(sum.bills.len(), Explanation::BILLS);
    assert_eq!(sum.bills[0], alone.bills[0]);
    // Those with a count are added.
    let kinds =
        |of: &Explanation| -> Vec<_> { of.missing.iter().map(std::mem::discriminant).collect() };
    assert_eq!(kinds(sum), kinds(&alone));
    let twice = NotSeen::TooFast { wake_ups: 6 };
    assert!(sum.missing.contains(&twice), "{:?}", sum.missing);
    let wait = alone.waits[0].clone();
    let both = Wait {
        run: Some(1),
        count: 2 * wait.count,
        total_ns: 2 * wait.total_ns,
        ..wait
    };
    assert_eq!(sum.waits, [both]);
    assert_eq!(
        read_back(&serde_json::to_value(&merged).unwrap()).unwrap(),
        merged
    );
}
