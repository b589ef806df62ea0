//! The published schema of a lab's record and the program's own types are the same thing.

use std::path::Path;

use punctual_record::lab::{Lab, LabCell, NoBill, NoResult, Operation};
use punctual_record::path::Transport;
use punctual_record::{Document, Event, InvalidReason, Judgement, LoadFault};
use serde_json::{Value, json};

use super::schema::{Walk, named, published};
use crate::kinds;
use crate::labs::{self, lab};

/// A lab with verdicts that are invalid for reasons of every kind.
fn whole_lab() -> Lab {
    let mut lab = lab();
    let judgements = lab
        .cells
        .iter_mut()
        .filter_map(|cell| cell.verdict.as_mut());
    let judgement = judgements
        .max_by_key(|judgement| judgement.reasons.len())
        .expect("a verdict");
    let reasons = &mut judgement.reasons;
    reasons.extend(kinds::demands().into_iter().map(InvalidReason::Demand));
    reasons.extend(kinds::events().into_iter().map(InvalidReason::Event));
    let of_part = Event {
        run: Some(1),
        ..kinds::events()[0].clone()
    };
    reasons.push(InvalidReason::Event(of_part));
    for failure in kinds::load_failures() {
        reasons.push(InvalidReason::Load {
            name: "fork".to_owned(),
            fault: LoadFault::Failed { failure },
        });
    }
    for fault in kinds::thread_faults() {
        reasons.push(InvalidReason::ProbeFailed {
            cpu: Some(0),
            fault,
        });
    }
    let without = lab.cells[0].clone();
    let why = labs::no_results().into_iter();
    lab.cells.extend(why.map(|why| LabCell {
        error: Some(why),
        ..without.clone()
    }));
    let why = labs::no_bills().into_iter();
    lab.cells.extend(why.map(|why| LabCell {
        no_bill: Some(why),
        ..without.clone()
    }));
    let why = labs::no_bounds().into_iter();
    lab.cells.extend(why.map(|why| LabCell {
        no_bound: Some(why),
        ..without.clone()
    }));
    lab.cells[0].bound = Some(labs::bound(5_000));
    let mut cost = labs::cost(300, 10_000);
    cost.left = 3;
    let all = [Operation::Run, Operation::Processor];
    let all = Operation::ALL.into_iter().chain(all);
    cost.operations = all.map(|it| labs::operation(it, 5)).collect();
    lab.cells[0].cost = Some(cost);
    let path = crate::paths::measured(Transport::Tcp);
    for run in [
        crate::tasksets::failed(),
        crate::tasksets::undecided(),
        path,
    ] {
        lab.cells.push(LabCell {
            verdict: Judgement::from_run(&run),
            ..without.clone()
        });
    }
    lab.cells.extend(labs::executed().cells);
    lab.proof = Some(labs::proof());
    lab
}

#[test]
fn labs_are_valid_under_the_schema() {
    let schema = published("lab-2");
    assert!(jsonschema::meta::is_valid(&schema));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let whole = serde_json::to_value(whole_lab()).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(&whole)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let read = Lab::parse(Path::new("lab.json"), whole.to_string().as_bytes()).unwrap();
    assert_eq!(read, whole_lab());
    for (pointer, value) in [
        ("/format", json!("punctual-run")),
        ("/version", json!(1)),
        ("/cells/0/seed", json!(-1)),
        ("/cells/0/figures/max_ns", json!("late")),
        ("/cells/0/verdict/outcome", json!("MAYBE")),
        ("/cells/0/bills/0/rows", json!({})),
        ("/cells/0/laboratory/time", json!("soon")),
    ] {
        let mut json = whole.clone();
        *json.pointer_mut(pointer).unwrap() = value;
        assert!(!validator.is_valid(&json), "{pointer}");
        let read = Lab::parse(Path::new("lab.json"), json.to_string().as_bytes());
        assert!(read.is_err(), "{pointer}");
    }
}

#[test]
fn labs_hold_what_the_schema_names() {
    let schema = published("lab-2");
    let mut walk = Walk::of(&schema);
    walk.whole(&schema, &serde_json::to_value(whole_lab()).unwrap(), "lab");
    let names = named(&schema);
    let mut unused = walk.unused(&names);
    // Labs measure wake-ups, and a task is one thread.
    unused.retain(|it| *it != "TaskResult.alone");
    unused.retain(|it| !it.starts_with("MessageCounts.") && *it != "BlockLatencies.messages");
    assert!(unused.is_empty(), "no lab holds {unused:#?}");
}

/// What is data now stood in labs of version 2 as sentences: they are kept as they were.
#[test]
fn sentences_of_earlier_builds_are_read_and_kept() {
    let mut json = serde_json::to_value(lab()).unwrap();
    json["cells"][0]["error"] = json!("the guest did not start");
    json["cells"][0]["no_bill"] = json!("not traced");
    json["cells"][1]["error"] = json!(null);
    let read = |json: &Value| Lab::parse(Path::new("lab.json"), json.to_string().as_bytes());
    let old = read(&json).unwrap();
    let text = |text: &str| text.to_owned();
    let error = NoResult::Earlier {
        text: text("the guest did not start"),
    };
    assert_eq!(old.cells[0].error, Some(error));
    let no_bill = NoBill::Earlier {
        text: text("not traced"),
    };
    assert_eq!(old.cells[0].no_bill, Some(no_bill));
    assert_eq!(old.cells[1].error, None);
    assert_eq!(read(&serde_json::to_value(&old).unwrap()).unwrap(), old);
    for wrong in [json!(7), json!([]), json!({}), json!({"kind": "imaginary"})] {
        for field in ["error", "no_bill"] {
            let mut json = json.clone();
            json["cells"][0][field] = wrong.clone();
            let line = read(&json).unwrap_err().to_string();
            assert!(line.contains("cells[0]"), "{line}");
        }
    }
}

#[test]
fn hostile_labs_are_refused_with_the_place() {
    let refused = |change: &dyn Fn(&mut Value), words: &str| {
        let mut json = serde_json::to_value(lab()).unwrap();
        change(&mut json);
        let text = json.to_string();
        let error = Lab::parse(Path::new("x/lab.json"), text.as_bytes()).unwrap_err();
        let line = error.to_string();
        assert!(
            line.contains("x/lab.json") && line.contains(words),
            "{line}"
        );
        assert!(!line.contains('\n'), "{line}");
    };
    for directory in ["..", "a/../..", "/etc", ""] {
        let change = |json: &mut Value| json["cells"][1]["directory"] = json!(directory);
        if directory.is_empty() {
            // The lab's own directory: no way out.
            continue;
        }
        refused(&change, "cells[1].directory");
    }
    refused(
        &|json| json["version"] = json!(7),
        "written by a newer program (lab record version 7, this program reads up to 2)",
    );
    // What version 1 has instead of today's fields is not looked at.
    let earlier = |json: &mut Value| {
        json["version"] = json!(1);
        json["cells"] = json!([{"verdict": "PASS"}]);
    };
    refused(
        &earlier,
        "lab record version 1, this program reads version 2: measure again, or read it with the \
         program that wrote it",
    );
    refused(
        &|json| json["version"] = json!(0),
        "no version of a lab record",
    );
    refused(
        &|json| json["format"] = json!("x"),
        "not a punctual lab record",
    );
    refused(&|json| json["cells"] = json!(3), "cells");
    let many = |json: &mut Value| {
        let cell = json["cells"][0].clone();
        json["cells"] = Value::Array(vec![cell; (1 << 14) + 1]);
    };
    refused(&many, "cells");
    for text in ["", "{", "[]", "null", "{\"format\":\"punctual-lab\"}"] {
        assert!(
            Lab::parse(Path::new("l"), text.as_bytes()).is_err(),
            "{text}"
        );
    }
    let deep = "[".repeat(100_000);
    assert!(Lab::parse(Path::new("l"), deep.as_bytes()).is_err());
    // A field of a later program is passed over.
    let mut json = serde_json::to_value(lab()).unwrap();
    json["cells"][0]["later"] = json!({"a": [1]});
    assert!(Lab::parse(Path::new("l"), json.to_string().as_bytes()).is_ok());
}
