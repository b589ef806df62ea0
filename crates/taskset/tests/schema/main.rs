//! The schemas are made of the types that read and write: those of all formats change only on purpose,
//! and the task sets that are shipped are valid.

mod short;

use std::fs;

use jsonschema::Validator;
use serde_json::Value;

const TYPES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../schema/types.txt");

/// The short form of the schemas is committed: a change of a format is seen where it is reviewed.
#[test]
fn no_format_changes_unseen() {
    let sections = short::sections(&punctual_taskset::schemas());
    let made = sections.join("\n");
    if std::env::var_os("PUNCTUAL_BLESS").is_some() {
        fs::write(TYPES, &made).expect("written");
    }
    let committed = fs::read_to_string(TYPES).unwrap_or_default();
    let mut changed = sections.iter().filter(|it| !committed.contains(*it));
    let changed = changed.next().and_then(|it| it.lines().next());
    assert!(
        committed == made,
        "schema/types.txt: {}: PUNCTUAL_BLESS=1 cargo test -p punctual-taskset --test schema writes \
         it; then read the diff",
        changed.unwrap_or("a schema less")
    );
}

/// What a reader of another version would notice is in the short form.
#[test]
fn every_kind_of_change_is_in_the_short_form() {
    let schemas = punctual_taskset::schemas();
    let before = short::sections(&schemas);
    let same = |pointer: &str, value: Option<Value>| {
        let mut schemas = schemas.clone();
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let parent = schemas[0].1.pointer_mut(parent).expect(pointer);
        match (parent, value) {
            (Value::Object(map), Some(value)) => drop(map.insert(key.to_owned(), value)),
            (Value::Object(map), None) => drop(map.remove(key).expect(pointer)),
            (Value::Array(list), Some(value)) => list[key.parse::<usize>().expect(pointer)] = value,
            (Value::Array(list), None) => drop(list.remove(key.parse().expect(pointer))),
            (other, _) => panic!("{pointer}: {other}"),
        }
        short::sections(&schemas) == before
    };
    assert!(same("/properties/verb/description", Some("another".into())));
    for (pointer, value) in [
        ("/properties/watch", None),
        ("/properties/verb/type", Some("boolean".into())),
        ("/properties/new", Some(true.into())),
        ("/properties/version/const", Some(3.into())),
        ("/required/0", None),
        ("/additionalProperties", Some(false.into())),
        (
            "/$defs/Thread/properties/late/format",
            Some("uint32".into()),
        ),
        ("/$defs/Thread/properties/late/minimum", Some(1.into())),
        ("/$defs/Thread/properties/warm_up/default", Some(5.into())),
        ("/$defs/Outcome/oneOf/0", None),
        (
            "/$defs/Ending/oneOf/0/properties/reason/const",
            Some("x".into()),
        ),
    ] {
        assert!(!same(pointer, value.clone()), "{pointer}: {value:?}");
    }
}

fn errors(toml: &str) -> Vec<String> {
    let mut schemas = punctual_taskset::schemas().into_iter();
    let (_, schema) = schemas
        .find(|(name, _)| name == "taskset-1")
        .expect("a schema");
    let validator: Validator = jsonschema::validator_for(&schema).expect("a schema");
    let document: Value = toml::from_str(toml).expect("TOML");
    validator
        .iter_errors(&document)
        .map(|error| error.to_string())
        .collect()
}

#[test]
fn every_example_is_valid_under_it() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tasksets");
    let mut count = 0;
    for entry in fs::read_dir(folder).expect("the examples") {
        let path = entry.expect("an entry").path();
        let text = fs::read_to_string(&path).expect("text");
        assert_eq!(errors(&text), [""; 0], "{}", path.display());
        count += 1;
    }
    assert_eq!(count, 4);
}

#[test]
fn what_is_misspelt_is_not_valid_under_it() {
    let good = "[[task]]\nname = \"a\"\npriority = 80\nperiod = \"1ms\"\nwork = [{ lock = \"m\", work = \"1us\" }]\n";
    assert_eq!(errors(good), [""; 0]);
    for (from, to) in [
        ("priority", "priorty"),
        ("\"1ms\"", "1000"),
        ("{ lock", "{ look"),
        ("80", "'high'"),
        ("name = \"a\"\n", ""),
        ("[[task]]", "[[tusk]]"),
        ("priority = 80", "policy = \"FIFO\""),
    ] {
        assert_ne!(errors(&good.replacen(from, to, 1)), [""; 0], "{to}");
    }
}
