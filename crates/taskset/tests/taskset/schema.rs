//! The published schema of the TOML format is made of the types that read it.

use jsonschema::Validator;
use serde_json::Value;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../schema/taskset-1.schema.json"
);

fn schema() -> Value {
    punctual_taskset::schema().to_value()
}

fn errors(toml: &str) -> Vec<String> {
    let validator: Validator = jsonschema::validator_for(&schema()).expect("a schema");
    let document: Value = toml::from_str(toml).expect("TOML");
    validator
        .iter_errors(&document)
        .map(|error| error.to_string())
        .collect()
}

#[test]
fn the_committed_schema_is_that_of_the_types() {
    let made = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
    if std::env::var_os("PUNCTUAL_BLESS").is_some() {
        std::fs::write(FILE, &made).expect("written");
    }
    let committed = std::fs::read_to_string(FILE).unwrap_or_default();
    assert!(
        committed == made,
        "PUNCTUAL_BLESS=1 cargo test -p punctual-taskset --test taskset -- schema::"
    );
}

#[test]
fn every_example_is_valid_under_it() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/tasksets");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the examples") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("text");
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
